//! What an engine says of its memory when it starts: the lines of a log that hold a number, by engine and release.
//!
//! vLLM up to 0.8 prints its whole ledger (`the current vLLM instance can use ...`, `model weights take ...`) and the pool in
//! blocks; later releases print the weights, the pool in GiB and in tokens, and the graphs. TensorRT-LLM prints what was free
//! and what it allocated. vLLM's "GB" of old releases are 2^30 bytes, as its source has it. Where workers repeat a pool, the
//! smallest counts, as in the engine; of several starts in one log the last. Lines are found by their words wherever they
//! stand, so prefixes, colours and process names do not matter; a line that is cut off has no number. Nothing in a log is
//! trusted: lines and file are read up to a limit, what is no plausible number is passed over. Sizes are those of one GPU.

use std::io::{BufRead, ErrorKind};

use crate::error::{Error, Result};
use crate::units::GIB;

/// Longest part of a line that is looked at \[bytes\].
const LONGEST: usize = 1 << 16;

/// Most of a log that is read \[bytes\]; starts stand at its beginning.
pub const MOST: u64 = 64 << 20;

/// Largest size that a line may state \[GiB\].
const LARGEST: f64 = 1e6;

const MIB: f64 = (1u64 << 20) as f64;

/// Tokens of a block where the log does not say.
const BLOCK: u64 = 16;

/// Who wrote a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Software {
    /// vLLM.
    Vllm,
    /// TensorRT-LLM.
    TensorRtLlm,
}

impl Software {
    /// As its authors write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::TensorRtLlm => "TensorRT-LLM",
        }
    }

    /// Whether it is what a runtime profile describes.
    pub fn is(self, runtime: &str) -> bool {
        match self {
            Self::Vllm => runtime.starts_with("vllm"),
            Self::TensorRtLlm => runtime == "tensorrt-llm",
        }
    }
}

/// One start of an engine, as far as its log tells \[bytes of one GPU\].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Start {
    /// Release.
    pub version: Option<String>,
    /// GPUs in tensor parallel.
    pub gpus: Option<u32>,
    /// Memory of the GPU.
    pub total: Option<f64>,
    /// Memory fraction.
    pub fraction: Option<f64>,
    /// What the fraction comes to.
    pub budget: Option<f64>,
    /// What was free when the pool was sized.
    pub free: Option<f64>,
    /// Weights, or the engine file.
    pub weights: Option<f64>,
    /// Activations at their peak.
    pub activation: Option<f64>,
    /// Outside torch.
    pub outside: Option<f64>,
    /// Graphs.
    pub graphs: Option<f64>,
    /// The KV pool; negative where nothing was left.
    pub pool: Option<f64>,
    /// Tokens that it holds, over all GPUs.
    pub tokens: Option<u64>,
    blocks: Option<u64>,
    block: Option<u64>,
    software: Option<Software>,
}

impl Start {
    /// Who wrote it, once a line of theirs was seen.
    pub fn software(&self) -> Option<Software> {
        self.software
    }

    /// Tokens of the pool, from blocks where no line has them.
    pub fn pool_tokens(&self) -> Option<u64> {
        let each = self.block.unwrap_or(BLOCK);
        self.tokens
            .or_else(|| self.blocks.and_then(|n| n.checked_mul(each)))
    }

    fn has_pool(&self) -> bool {
        self.pool.is_some() || self.tokens.is_some() || self.blocks.is_some()
    }
}

/// Reads a log to its end or to [`MOST`] bytes; whether it is longer.
///
/// # Errors
/// Data: it cannot be read, is not text, or has no line with a KV pool; the message says what it has instead.
pub fn read(name: &str, source: impl BufRead) -> Result<(Start, bool)> {
    let mut source = source.take(MOST);
    let (mut last, mut done) = (Start::default(), None);
    let mut number = 0u64;
    while let Some(line) = next_line(name, &mut source)? {
        number += 1;
        if line.contains(&0) {
            let text = format!("{name}:{number}: not a log: it holds a zero byte");
            return Err(Error::data(text).help("name the start-up log of the engine as text"));
        }
        let line = String::from_utf8_lossy(&line);
        if starts(&line) {
            let before = std::mem::take(&mut last);
            if before.has_pool() {
                done = Some(before);
            } else {
                // The server's first lines have the release and settings that the engine's may not repeat.
                last = Start {
                    version: before.version,
                    gpus: before.gpus,
                    fraction: before.fraction,
                    block: before.block,
                    ..Start::default()
                };
            }
        }
        note(&line, &mut last);
    }
    let longer = source.limit() == 0 && !matches!(source.into_inner().fill_buf(), Ok([]));
    match (last.has_pool(), done) {
        (true, _) => Ok((last, longer)),
        // A restart that has not come to its pool yet.
        (false, Some(before)) => Ok((before, longer)),
        (false, None) => Err(no_pool(name, number, &last)),
    }
}

/// A line without its end, or as much of it as is looked at; none at the end of the file.
fn next_line(name: &str, source: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut any = false;
    loop {
        let buffer = match source.fill_buf() {
            Ok(buffer) => buffer,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::usage(format!("{name}: cannot be read: {e}"))),
        };
        if buffer.is_empty() {
            return Ok(any.then_some(line));
        }
        any = true;
        let end = buffer.iter().position(|b| matches!(b, b'\n' | b'\r'));
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = LONGEST - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        source.consume(used);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

fn no_pool(name: &str, lines: u64, seen: &Start) -> Error {
    let why = match (lines, seen.weights) {
        (0, _) => "it is empty".to_string(),
        (_, Some(w)) => format!(
            "it ends after {:.2} GiB of weights were loaded: is it cut off, or did the engine fail?",
            w / GIB
        ),
        (n, None) => format!("none of its {n} lines is known"),
    };
    Error::data(format!("{name}: no line with a KV pool: {why}")).help(
        "a start-up log of vLLM has `GPU KV cache size: N tokens`, `Available KV cache memory: X GiB` or `# GPU blocks: N`, one of TensorRT-LLM `Allocated X GiB for max tokens in paged KV cache (N)`",
    )
}

/// Whether a line is the first of an engine's start.
fn starts(line: &str) -> bool {
    const FIRST: [&str; 4] = [
        "vLLM API server version",
        "Initializing a V1 LLM engine",
        "Initializing an LLM engine",
        "TensorRT-LLM version:",
    ];
    FIRST.iter().any(|f| line.contains(f))
}

/// A line's words, who writes them, and where the size after them goes.
type Sized = (&'static str, Software, fn(&mut Start) -> &mut Option<f64>);

const SIZES: &[Sized] = &[
    ("total_gpu_memory", Software::Vllm, |s| &mut s.total),
    ("Model loading took", Software::Vllm, |s| &mut s.weights),
    ("Loading model weights took", Software::Vllm, |s| {
        &mut s.weights
    }),
    ("model weights take", Software::Vllm, |s| &mut s.weights),
    ("non_torch_memory takes", Software::Vllm, |s| &mut s.outside),
    (
        "PyTorch activation peak memory takes",
        Software::Vllm,
        |s| &mut s.activation,
    ),
    ("Loaded engine size:", Software::TensorRtLlm, |s| {
        &mut s.weights
    }),
    (
        "max tokens in paged kv cache: total:",
        Software::TensorRtLlm,
        |s| &mut s.total,
    ),
];

/// The same for pools, of which the smallest counts.
const POOLS: &[Sized] = &[
    ("Available KV cache memory:", Software::Vllm, |s| {
        &mut s.pool
    }),
    ("reserved for KV Cache is", Software::Vllm, |s| &mut s.pool),
];

/// Takes what a line tells.
fn note(line: &str, start: &mut Start) {
    for (words, software, place) in SIZES {
        if let Some(size) = after(line, words).and_then(size) {
            start.software.get_or_insert(*software);
            place(start).get_or_insert(size);
        }
    }
    for (words, software, place) in POOLS {
        if let Some(size) = after(line, words).and_then(size) {
            start.software.get_or_insert(*software);
            let least = place(start).map_or(size, |old| old.min(size));
            *place(start) = Some(least);
        }
    }
    vllm(line, start);
    tensorrt_llm(line, start);
    settings(line, start);
}

/// Counts and the rest of vLLM's ledger.
fn vllm(line: &str, start: &mut Start) {
    for words in ["# GPU blocks:", "# cuda blocks:"] {
        if let Some(n) = after(line, words).and_then(count) {
            start.software.get_or_insert(Software::Vllm);
            start.blocks = Some(start.blocks.map_or(n, |old| old.min(n)));
        }
    }
    let tokens = after(line, "GPU KV cache size:").filter(|rest| rest.contains("tokens"));
    if let Some(n) = tokens.and_then(count) {
        start.software.get_or_insert(Software::Vllm);
        start.tokens = Some(start.tokens.map_or(n, |old| old.min(n)));
    }
    if line.contains("total_gpu_memory")
        && let Some(budget) = after(line, ") = ").and_then(size)
    {
        start.budget.get_or_insert(budget);
    }
    let took = after(line, "Graph capturing finished").and_then(|rest| after(rest, "took"));
    if let Some(graphs) = took.and_then(size) {
        start.graphs.get_or_insert(graphs);
    }
}

/// What TensorRT-LLM had free and what it took.
fn tensorrt_llm(line: &str, start: &mut Start) {
    let sized = after(line, "max tokens in paged kv cache: total:");
    if let Some(free) = sized
        .and_then(|rest| after(rest, "available:"))
        .and_then(size)
    {
        start.free.get_or_insert(free);
    }
    if let Some(n) = after(line, "Number of tokens per block:").and_then(count) {
        start.block = Some(n);
    }
    let Some((before, rest)) = line.split_once("for max tokens in paged KV cache (") else {
        return;
    };
    let size = after(before, "Allocated").and_then(size);
    if let (Some(size), Some(n)) = (size, count(rest)) {
        start.software.get_or_insert(Software::TensorRtLlm);
        (start.pool, start.tokens) = (Some(size), Some(n));
    }
}

/// Settings that the engine repeats, and its release.
fn settings(line: &str, start: &mut Start) {
    let fraction = |key| setting(line, key).filter(|f| *f > 0.0 && *f <= 1.0);
    let keys = ["gpu_memory_utilization", "gpu-memory-utilization"];
    if let Some(f) = keys.into_iter().find_map(fraction) {
        start.fraction.get_or_insert(f);
    }
    #[allow(clippy::cast_possible_truncation)] // whole and small
    let whole = |key| {
        let value = setting(line, key).filter(|n| n.fract() == 0.0 && (1.0..=1024.0).contains(n));
        value.map(|n| n as u32)
    };
    if let Some(n) = whole("tensor_parallel_size").or_else(|| whole("tensor-parallel-size")) {
        start.gpus.get_or_insert(n);
    }
    if let Some(n) = whole("block_size").or_else(|| whole("block-size")) {
        start.block.get_or_insert(u64::from(n));
    }
    let version = ["server version ", "LLM engine (v", "TensorRT-LLM version: "]
        .into_iter()
        .find_map(|words| release(after(line, words)?));
    if version.is_some() {
        start.version = version;
    }
}

fn after<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    line.split_once(words).map(|(_, rest)| rest)
}

/// A size in bytes at the beginning of a text, after spaces and a bracket: `58.11 GiB`, `(79.19GiB)`.
fn size(text: &str) -> Option<f64> {
    let text = text.trim_start_matches([' ', '(', '=']);
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-')))?;
    let value: f64 = text[..end].parse().ok()?;
    let unit = text[end..].trim_start();
    let scale = match unit.get(..3) {
        Some("GiB") => GIB,
        Some("MiB") => MIB,
        _ => match unit.get(..2) {
            Some("GB") => GIB,
            Some("MB") => MIB,
            _ => return None,
        },
    };
    (value.is_finite() && (value * scale / GIB).abs() <= LARGEST).then_some(value * scale)
}

/// A whole number at the beginning of a text that goes on after it: `476,016 tokens`.
fn count(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ','))?;
    let digits = text[..end].trim_end_matches(',').replace(',', "");
    digits.parse().ok().filter(|n| *n <= 1 << 50)
}

/// A number after a name, as configurations write it: `name=0.9`, `'name': 0.9`, `name (0.90)`, `--name 0.9`.
fn setting(line: &str, key: &str) -> Option<f64> {
    let rest = after(line, key)?;
    let rest = rest.trim_start_matches(['\'', '"']);
    let value = rest.trim_start_matches(['=', ':', ' ', '(']);
    if value.len() == rest.len() {
        return None;
    }
    let end = value.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    value[..end.unwrap_or(value.len())].parse().ok()
}

/// A release: digits, dots and what follows up to a space or bracket, short.
fn release(text: &str) -> Option<String> {
    let text = text.trim_start_matches('v');
    let end = text.find([' ', ')', ',', '\u{1b}']).unwrap_or(text.len());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
    let release = &text[..end];
    let fair = release.starts_with(|c: char| c.is_ascii_digit())
        && release.len() <= 40
        && release.chars().all(plain);
    fair.then(|| release.to_string())
}
