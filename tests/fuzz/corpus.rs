//! Sound inputs to start from, words of each format, and checksums made right.

use crate::trace_make::{flat, npy, padded, small, zip};
use kvplan::trace::{Header, TraceWriter};

const PROMPT: u32 = 3;
const ROWS: u32 = 6;
/// Weights of all rows: 6 * 3 + (1 + ... + 6).
const FLAT: usize = 39;

pub(crate) const KVT: &[&str] = &[
    "CHNK",
    "ONCE",
    "DONE",
    "rows",
    "layers",
    "tokens",
    "prompt_length",
    "chunk_rows",
    "sections",
    "lanes",
    "bytes_once",
    "null",
    "4294967295",
    "-1",
    "1e999",
    "[",
    "}",
    "\"",
    "synthetic_from",
    "extra",
];
pub(crate) const GGUF: &[&str] = &[
    "GGUF",
    "llama",
    "qwen2",
    "llama.block_count",
    "llama.attention.key_length",
    "llama.rope.scaling.type",
    "linear",
    "rope_freqs.weight",
    "blk.0.attn_q.weight",
    "blk.1.ffn_down.weight",
    "token_embd.weight",
    "output.weight",
    "tokenizer.ggml.tokens",
    "tokenizer.chat_template",
    "{% for i in range(1000) %}",
    "{{ raise_exception('x') }}",
    "gpt-2",
    "smollm",
];
pub(crate) const NPY: &[&str] = &[
    "descr",
    "<f2",
    "<f4",
    "<f8",
    ">f4",
    "<i8",
    "fortran_order",
    "True",
    "False",
    "shape",
    "(",
    ",)",
    "()",
    "(0,)",
    "18446744073709551615",
    "rows",
    "prompt",
    "column_sums",
    "layers",
    "PK\u{3}\u{4}",
];
pub(crate) const TENSORS: &[&str] = &[
    "F16",
    "BF16",
    "F32",
    "I64",
    "U8",
    "dtype",
    "shape",
    "data_offsets",
    "__metadata__",
    "[0,0]",
    "[]",
    "rows",
    "prompt",
    "-1",
    "1e30",
    "{",
    "}",
];
pub(crate) const JSON: &[&str] = &[
    "prompt_len",
    "rows",
    "layers",
    "null",
    "-1",
    "1e9",
    "4294967296",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "forced",
    "temp",
];
pub(crate) const LOG: &[&str] = &[
    "Available KV cache memory: ",
    "GPU KV cache size: ",
    "# GPU blocks: ",
    "Model loading took ",
    "Graph capturing finished in 1 secs, took ",
    "total_gpu_memory (",
    ") = ",
    "gpu_memory_utilization",
    "tensor_parallel_size=",
    "block_size=",
    "Initializing a V1 LLM engine (v",
    "[MemUsageChange] Allocated ",
    " for max tokens in paged KV cache (",
    "max tokens in paged kv cache: total: ",
    ", available: ",
    "GiB",
    " MiB",
    " tokens",
    "-",
    "1e999",
    "99999999999999999999",
    ",",
    "\r",
    "\n",
];
pub(crate) const TOML: &[&str] = &[
    "model = ",
    "hardware = ",
    "policy = ",
    "batch = ",
    "prompt = ",
    "output = ",
    "kv = ",
    "weights = ",
    "trace = ",
    "gpus = ",
    "[",
    "]",
    "\"\"\"",
    "'",
    "=",
    "\n",
    "1e999",
    "-1",
    "nan",
    "inf",
    "true",
    "[[",
    "\"h100-sxm\"",
    "\"four-tier:hbm=fit\"",
    "9223372036854775807",
    "1979-05-27",
    "#",
];
pub(crate) const UNITS: &[&str] = &[
    "GB", "GiB", "TB/s", "ms", "us", "k", "M", "%", "tok", "e", ".", "-", "+", "inf", "NaN", "_",
    ",", " ", "\u{b5}s", "1e308", "0x",
];
pub(crate) const POLICY: &[&str] = &[
    "four-tier",
    "streaming-llm",
    "full",
    "oracle",
    "stream-evict",
    "h2o",
    "tova",
    "r-kv",
    "snap-kv",
    "raas",
    "random",
    "lru",
    "-mean",
    "budget",
    "recent",
    "heavy",
    "kernel",
    ":",
    ",",
    "=",
    "hbm",
    "evict",
    "window",
    "sinks",
    "interval",
    "score",
    "t2",
    "semantics",
    "per-interval",
    "cumulative",
    "preset",
    "prototype",
    "experiment",
    "protect",
    "ema:",
    "fit",
    "tok",
    "GiB",
    "0.5",
    "1e-320",
    "4294967295",
    "NaN",
    "-0",
];
pub(crate) const PATTERN: &[&str] = &[
    "*", "?", "[", "]", "!", "a-z", ".kvt", "smol", "[!]", "[]]", "\u{e9}",
];

/// Small models of both families, with and without a tokenizer.
pub(crate) fn models() -> Vec<Vec<u8>> {
    use crate::forward_make::{Tiny, gguf_with, tokenizer};
    let llama = Tiny::new("llama", false, 1);
    let qwen = Tiny::new("qwen2", true, 2);
    vec![
        gguf_with(&llama, tokenizer()),
        gguf_with(&qwen, tokenizer()),
        qwen.gguf(),
    ]
}

/// Traces with and without further sections, and one that is cut.
pub(crate) fn traces() -> Vec<Vec<u8>> {
    let whole = small();
    let cut = whole[..whole.len() - 40].to_vec();
    vec![whole, cut, with_tokens()]
}

fn with_tokens() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.kvt");
    let mut header = Header::new("toy", PROMPT).with_tokens();
    header.chunk_rows = 4;
    let mut writer = TraceWriter::create(&path, header).unwrap();
    for t in 0..ROWS {
        writer
            .push_row(&crate::trace_make::row_at(PROMPT, t))
            .unwrap();
        writer.push_token(t, -0.5).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

/// Recomputes every checksum that lies where it should.
pub(crate) fn repair(bytes: &mut [u8]) {
    let u32_at = |b: &[u8], at: usize| {
        b.get(at..at + 4)
            .map(|x| u32::from_le_bytes([x[0], x[1], x[2], x[3]]))
    };
    let Some(json) = u32_at(bytes, 12)
        .map(|n| n as usize)
        .filter(|n| 24 + n <= bytes.len())
    else {
        return;
    };
    put(bytes, 16, 24..24 + json);
    put(bytes, 20, 0..20);
    let mut at = 24 + json;
    while at + 32 <= bytes.len() {
        let length = u32_at(bytes, at + 16).unwrap_or(0) as usize;
        let payload = at + 32..(at + 32).saturating_add(length);
        if payload.end <= bytes.len() {
            put(bytes, at + 24, payload.clone());
        }
        put(bytes, at + 28, at..at + 28);
        at = payload.end;
    }
}

/// Puts the checksum of a range at an offset.
fn put(bytes: &mut [u8], at: usize, range: std::ops::Range<usize>) {
    let crc = crc32fast::hash(&bytes[range]).to_le_bytes();
    bytes[at..at + 4].copy_from_slice(&crc);
}

pub(crate) fn npys() -> Vec<Vec<u8>> {
    // Padded rows tell the prompt by their width: 6 rows of at most 9 positions.
    let columns = PROMPT + ROWS;
    let rows = padded(PROMPT, ROWS, columns, 0.0);
    vec![npy("<f4", &format!("({ROWS}, {columns})"), &rows)]
}

pub(crate) fn npzs() -> Vec<Vec<u8>> {
    let rows = npy("<f2", &format!("({FLAT},)"), &flat(PROMPT, ROWS));
    let prompt = npy("<i8", "()", &u64::from(PROMPT).to_le_bytes());
    let sums: Vec<u8> = (0..PROMPT).flat_map(|_| 1f32.to_le_bytes()).collect();
    let sums = npy("<f4", "(3,)", &sums);
    vec![
        zip(&[("rows.npy", &rows), ("prompt.npy", &prompt)]),
        zip(&[
            ("rows.npy", &rows),
            ("prompt.npy", &prompt),
            ("column_sums.npy", &sums),
        ]),
    ]
}

pub(crate) fn tensors() -> Vec<Vec<u8>> {
    let rows = flat(PROMPT, ROWS);
    let header = format!(
        r#"{{"__metadata__":{{"prompt":"{PROMPT}","model":"toy"}},"rows":{{"dtype":"F16","shape":[{FLAT}],"data_offsets":[0,{}]}}}}"#,
        rows.len()
    );
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(rows);
    vec![out]
}

/// Arrays of an archive as one input, parted by [`PART`]: what is inside an archive is behind its checksums.
pub(crate) fn arrays() -> Vec<Vec<u8>> {
    let rows = npy("<f2", &format!("({FLAT},)"), &flat(PROMPT, ROWS));
    let prompt = npy("<i8", "()", &u64::from(PROMPT).to_le_bytes());
    let sums: Vec<u8> = (0..PROMPT).flat_map(|_| 1f32.to_le_bytes()).collect();
    vec![[&rows, PART, &prompt, PART, &npy("<f4", "(3,)", &sums)].concat()]
}

const PART: &[u8] = b"\n--part--\n";

/// The archive of such an input.
pub(crate) fn zipped(input: &[u8]) -> Vec<u8> {
    let mut parts = Vec::new();
    let mut rest = input;
    while let Some(at) = rest.windows(PART.len()).position(|w| w == PART) {
        parts.push(&rest[..at]);
        rest = &rest[at + PART.len()..];
    }
    parts.push(rest);
    let names = ["rows.npy", "prompt.npy", "column_sums.npy", "layers.npy"];
    let files: Vec<(&str, &[u8])> = names.into_iter().zip(parts).collect();
    zip(&files)
}

/// A pair as one input: the JSON, a byte 0, the rows.
pub(crate) fn pairs() -> Vec<Vec<u8>> {
    let json = format!(
        r#"{{"arch":"llama","layers":2,"prompt_len":{PROMPT},"rows":{ROWS},"temp":0.6,"prompt":[1,2,3],"forced":[]}}"#
    );
    let mut out = json.into_bytes();
    out.push(0);
    out.extend(flat(PROMPT, ROWS));
    vec![out]
}

pub(crate) fn split_pair(input: &[u8]) -> (&[u8], &[u8]) {
    let at = input.iter().position(|b| *b == 0).unwrap_or(input.len());
    (&input[..at], input.get(at + 1..).unwrap_or_default())
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|t| t.as_bytes().to_vec()).collect()
}

pub(crate) fn scenarios() -> Vec<Vec<u8>> {
    texts(&[
        include_str!("../../models/scenarios/desktop.toml"),
        include_str!("../../models/scenarios/long-chain.toml"),
        "model = \"qwen2.5-7b\"\nhardware = \"h100-sxm\"\nbatch = 4\nprompt = 100\noutput = 200\npolicy = \"four-tier:hbm=0.5\"\n",
    ])
}

pub(crate) fn logs() -> Vec<Vec<u8>> {
    texts(&[
        include_str!("../it/fixtures/logs/vllm-0.19.log"),
        include_str!("../it/fixtures/logs/vllm-0.8.log"),
        include_str!("../it/fixtures/logs/tensorrt-llm-0.17.log"),
    ])
}

pub(crate) fn units() -> Vec<Vec<u8>> {
    texts(&[
        "12",
        "48GiB",
        "3.35TB/s",
        "32k",
        "1.5 ms",
        "0.5",
        "50%",
        "2 us",
        "989 TFLOP/s",
        "16Ki",
    ])
}

pub(crate) fn policies() -> Vec<Vec<u8>> {
    texts(&[
        "full",
        "four-tier",
        "four-tier:hbm=fit,evict=0.03,semantics=per-interval,window=64,sinks=4,interval=64,score=ema:0.98,t2=0.1,protect=sinks",
        "four-tier:preset=prototype,hbm=8640tok",
        "four-tier:hbm=32GiB",
        "streaming-llm:sinks=4,window=1020",
        "oracle:hbm=0.3",
        "stream-evict:budget=0.5",
        "h2o",
        "h2o-mean",
        "tova-mean",
        "r-kv-importance",
        "snap-kv:budget=512",
        "raas",
        "random",
        "lru",
    ])
}

pub(crate) fn patterns() -> Vec<Vec<u8>> {
    texts(&["*.kvt", "smol_?_t6_s[12].kvt", "smol_0_t6_s1.kvt"])
}

/// Words of tables of measurements.
pub(crate) const TABLE: &[&str] = &[
    "h100_sxm",
    "a100",
    "rtx_pro_6000",
    "32/8/128",
    "bf16",
    "fp8",
    "vllm",
    "trtllm",
    "Llama-3.1-8B",
    "Mixtral-8x7B",
    "moe_balanced",
    "moe_power_law_1.2",
    "attn_prefill",
    "gemm_bf16",
    "4294967295",
    "1e308",
    "-1",
    "NaN",
    "inf",
    "\"",
    "\n",
    ",,",
    "AIC",
    "LSS",
    "output_throughput",
];

/// A made-up table of each kind: the kind's number, a header, a row.
pub(crate) fn tables() -> Vec<Vec<u8>> {
    let rows = [
        "h100_sxm,32/8/128,bf16,vllm,4,2048,50",
        "h100_sxm,Llama-3.1-8B,1,fp8,qkv,16,6144,4096,12.5,L02",
        "a100,Llama-2-7B,2,fp16,64,100",
        "h100_sxm,attn_prefill,32/8/128,1,4096,,,500",
        "h100_sxm,Llama-3.1-8B,1,bf16,bf16,8,4096,8.1,AIC",
        "a40,Llama-2-7B,8,1,0.5,0.5,1.2,0.4",
        "h100_sxm,vLLM_custom_graph,4,131072,7.2",
        "H100,PCIe5 x16,yes,cudaMemcpyAsync,H2D,32768,100,,7.8,exact,x",
        "h100_sxm,Qwen3-32B,vllm,fp8,16,1024,1024,2,1,200,15",
        "h100_sxm,Llama-3.1-8B,1,1,fp8,fp8,TensorRT-LLM 0.17,max throughput,,128,128,output_throughput,20000",
        "",
        "",
    ];
    let kinds = kvplan::validate::tables::KNOWN.iter().zip(rows).zip(b'a'..);
    let table = |((kind, row), number): ((&kvplan::validate::tables::Kind, &str), u8)| {
        let filled = if row.is_empty() {
            vec!["1"; kind.columns.len()].join(",")
        } else {
            row.to_string()
        };
        let mut text = vec![number];
        text.extend(format!("{}\n{filled}\n", kind.columns.join(",")).bytes());
        text
    };
    kinds.map(table).collect()
}

/// Words of raw measurements.
pub(crate) const RAW: &[&str] = &[
    "# format = kvplan/raw/1",
    "# rows = ",
    "# gpu_id = ",
    "ddr_read",
    "host_attention",
    "tier_loop",
    "pieces",
    "hold",
    "step",
    "h2d",
    "both",
    "9007199254740992",
    "1e-300",
    "nan",
    ",,",
    "\n",
    "\"testcases\":",
    "host_to_device_memcpy_ce",
    "\"N/A\"",
    "null",
    "[[",
];

/// A raw file, a report of nvbandwidth, rates.
pub(crate) fn raws() -> Vec<Vec<u8>> {
    let mut small = kvplan::calibrate::raw::Raw::default();
    for series in crate::calibrate_make::run().series() {
        for us in &series.us[..2] {
            small.push(series.point.clone(), series.part, *us);
        }
    }
    let report = r#"{"nvbandwidth":{"Driver Version":"550","testcases":[{"name":"host_to_device_memcpy_ce","status":"Passed",
        "bandwidth_matrix":[["55.6","N/A",null]],"sum":55.6}]}}"#;
    let text = small.text();
    let small = text.replacen("# rows = ", "# rows = 00000", 1);
    texts(&[
        &small,
        report,
        "direction,bytes,GB/s\nh2d,4096,3.5\nd2h,1048576,20\n",
    ])
}

/// Promises as many rows as there are, where the head has room for the number.
pub(crate) fn recount(bytes: &mut [u8]) {
    const KEY: &[u8] = b"# rows = ";
    let find = |what: &[u8]| bytes.windows(what.len()).position(|w| w == what);
    let (Some(key), Some(columns)) = (find(KEY), find(b",sample,us\n")) else {
        return;
    };
    let rows = bytes[columns + 11..].split(|b| *b == b'\n');
    let rows = rows.filter(|row| !row.is_empty()).count();
    let at = key + KEY.len();
    let digits = bytes[at..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let number = format!("{rows:0digits$}");
    if number.len() == digits {
        bytes[at..at + digits].copy_from_slice(number.as_bytes());
    }
}
