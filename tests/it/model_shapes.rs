//! Shapes against published counts, KV against arithmetic by hand, laws of formats.

use kvplan::catalog;
use kvplan::model::{KvFormat, Model, WeightFormat};
use proptest::prelude::*;

/// Name, parameters, parameters a decode step reads, 16-bit KV bytes per token with every layer counted.
#[rustfmt::skip]
const FACTS: &[(&str, u64, u64, u64)] = &[
    ("smollm2-135m", 134_515_008, 134_515_008, 23_040),
    ("qwen2.5-0.5b", 494_032_768, 494_032_768, 12_288),
    ("qwen2.5-7b", 7_615_616_512, 7_070_619_136, 57_344),
    ("qwen2.5-14b", 14_770_033_664, 13_991_465_984, 196_608),
    ("qwen2.5-32b", 32_763_876_352, 31_985_308_672, 262_144),
    ("qwen2.5-72b", 72_706_203_648, 71_460_495_360, 327_680),
    ("qwen2.5-7b-instruct", 7_615_616_512, 7_070_619_136, 57_344),
    ("qwq-32b", 32_763_876_352, 31_985_308_672, 262_144),
    ("deepseek-r1-distill-qwen-1.5b", 1_777_088_000, 1_543_714_304, 28_672),
    ("deepseek-r1-distill-qwen-7b", 7_615_616_512, 7_070_619_136, 57_344),
    ("deepseek-r1-distill-qwen-14b", 14_770_033_664, 13_991_465_984, 196_608),
    ("deepseek-r1-distill-qwen-32b", 32_763_876_352, 31_985_308_672, 262_144),
    ("deepseek-r1-distill-llama-8b", 8_030_261_248, 7_504_924_672, 131_072),
    ("deepseek-r1-distill-llama-70b", 70_553_706_496, 69_503_033_344, 327_680),
    ("llama-2-7b", 6_738_415_616, 6_607_343_616, 524_288),
    ("llama-2-13b", 13_015_864_320, 12_852_024_320, 819_200),
    ("llama-2-70b", 68_976_648_192, 68_714_504_192, 327_680),
    ("codellama-34b", 33_743_970_304, 33_481_826_304, 196_608),
    ("llama-3.1-8b", 8_030_261_248, 7_504_924_672, 131_072),
    ("llama-3.1-70b", 70_553_706_496, 69_503_033_344, 327_680),
    ("llama-3.3-70b", 70_553_706_496, 69_503_033_344, 327_680),
    ("qwen3-8b", 8_190_735_360, 7_568_405_504, 147_456),
    ("qwen3-14b", 14_768_307_200, 13_990_394_880, 163_840),
    ("qwen3-32b", 32_762_123_264, 31_984_210_944, 262_144),
    ("qwen3-30b-a3b", 30_532_122_624, 3_041_867_776, 98_304),
    ("mistral-7b-v0.1", 7_241_732_096, 7_110_660_096, 131_072),
    ("mistral-7b-v0.3", 7_248_023_552, 7_113_805_824, 131_072),
    ("mixtral-8x7b", 46_702_792_704, 12_748_853_248, 131_072),
    ("gemma-2-27b", 27_227_128_320, 27_227_128_320, 376_832),
    ("gemma-3-27b", 27_009_002_240, 27_009_002_240, 507_904),
    ("phi-4", 14_659_507_200, 14_145_704_960, 204_800),
    ("gpt-oss-20b", 20_914_757_184, 3_608_306_496, 49_152),
    ("gpt-oss-120b", 116_829_156_672, 5_132_844_864, 73_728),
    ("deepseek-v3", 671_026_419_200, 36_625_603_584, 70_272),
    ("deepseek-r1", 671_026_419_200, 36_625_603_584, 70_272),
];

fn model(name: &str) -> Model {
    catalog::model(name).unwrap()
}

#[allow(clippy::float_cmp)] // whole numbers below 2^53
fn kv(m: &Model, format: &str) -> f64 {
    m.kv_bytes_per_token(KvFormat::parse(format).unwrap())
}

#[test]
fn parameters_and_kv_are_the_published_ones() {
    assert_eq!(FACTS.len(), 35);
    for (name, all, active, bytes) in FACTS {
        let m = model(name);
        assert_eq!(
            (m.parameters(), m.active_parameters()),
            (*all, *active),
            "{name}"
        );
        assert!(
            (kv(&m, "fp16") - *bytes as f64).abs() < 0.5,
            "{name}: {}",
            kv(&m, "fp16")
        );
    }
}

#[test]
fn published_counts_in_the_files_hold() {
    let with = catalog::model_ids()
        .into_iter()
        .map(model)
        .filter(|m| m.published_parameters.is_some());
    let mut n = 0;
    for m in with {
        assert_eq!(Some(m.parameters()), m.published_parameters, "{}", m.id);
        n += 1;
    }
    assert!(n >= 40, "only {n} files state a published count");
}

/// R1-Distill-Llama-70B: 80 layers x 2 x 8 KV heads = 1,280 vectors of 128 a token.
/// fp16 1,280 x 256 = 327,680; fp8 half; int8 1,280 x 130; `q8_0` 1,280 x 136; `q4_0` 1,280 x 72.
#[test]
fn kv_formats_by_hand() {
    let m = model("R1-Distill-Llama-70B");
    for (format, bytes) in [
        ("fp16", 327_680.0),
        ("fp8", 163_840.0),
        ("int8", 166_400.0),
        ("q8_0", 174_080.0),
        ("q4_0", 92_160.0),
    ] {
        assert!((kv(&m, format) - bytes).abs() < 1e-6, "{format}");
    }
    // DeepSeek: 61 layers x (512 + 64) elements in two vectors: 61 x 1,152 = 70,272; int8 61 x (576 + 4) = 35,380.
    let r1 = model("deepseek-r1");
    assert!((kv(&r1, "bf16") - 70_272.0).abs() < 1e-6);
    assert!((kv(&r1, "int8") - 35_380.0).abs() < 1e-6);
}

/// Gemma-3-27B at 16,384 tokens: a layer stores 2 x 16 x 128 x 2 = 8,192 B a token; 52 layers hold 1,024 tokens
/// (436,207,616 B), 10 hold all (1,342,177,280 B). Counting all layers would say 8.3 GB.
#[test]
fn windows_bound_the_layers_that_slide() {
    let bytes = model("gemma-3-27b").kv_bytes(16_384, KvFormat::Fp16);
    assert!(
        (bytes - (436_207_616.0 + 1_342_177_280.0)).abs() < 1e-3,
        "{bytes}"
    );
    // Mistral v0.1 slides everywhere: 32 x 2 x 8 x 128 x 2 x 4,096 at any length above.
    let mistral = model("mistral-7b-v0.1").kv_bytes(100_000, KvFormat::Fp16);
    assert!((mistral - 131_072.0 * 4096.0).abs() < 1e-3);
}

/// fp8, 70B. A layer: qkv 10,240 x 8,192, o 8,192 x 8,192, `gate_up` 57,344 x 8,192, down 8,192 x 28,672: 855,638,016
/// elements of 1 B; one f32 scale for each of 10,240 + 8,192 + 57,344 + 8,192 rows: 335,872 B; two norms of 8,192 x 2 B:
/// 32,768 B. Sum 856,006,656, times 80, plus the final norm's 16,384. Embedding and head 128,256 x 8,192 x 2 B each.
/// int4: half a byte an element; scales: rows x (8,192 / 128 = 64 groups, down 224) x 2.5 B = (75,776 x 64 + 8,192 x 224)
/// x 2.5 = 16,711,680; 427,819,008 + 16,711,680 + 32,768 = 444,563,456 a layer.
#[test]
fn weight_bytes_by_hand() {
    let m = model("deepseek-r1-distill-llama-70b");
    let of = |f: &str| m.weights_bytes(&WeightFormat::parse(f).unwrap());
    let fp8 = of("fp8");
    assert_eq!(
        (fp8.layers, fp8.embedding, fp8.head),
        (68_480_548_864, 2_101_346_304, 2_101_346_304)
    );
    assert_eq!(of("int8"), fp8);
    assert_eq!(of("int4").layers, 80 * 444_563_456 + 16_384);
    assert_eq!(of("bf16").total(), 2 * 70_553_706_496);
}

/// Sizes of published files: the tensors are all but the tokenizer in the header, so ours must lie within 1 % below.
#[test]
fn gguf_mixtures_weigh_what_published_files_weigh() {
    let gib = (1u64 << 30) as f64;
    for (name, format, published) in [
        ("llama-3.1-8b", "q4_k_m", 4_920_739_232.0),
        ("llama-3-8b", "q4_k_m", 4.58 * gib),
        ("llama-3-8b", "fp16", 14.96 * gib),
        ("llama-3-70b", "q4_k_m", 39.59 * gib),
        ("llama-2-7b", "q4_0", 3.56 * gib),
    ] {
        let ours = model(name)
            .weights_bytes(&WeightFormat::parse(format).unwrap())
            .total() as f64;
        assert!(
            (ours / published - 1.0).abs() < 0.01,
            "{name} {format}: {ours} against {published}"
        );
    }
}

/// gpt-oss ships its experts in 4.25 bits: 20b is published as 13.8 GB, 120b as 65.2 GB; bf16 is those dequantised.
#[test]
fn gpt_oss_in_its_own_format() {
    for (name, gb) in [("gpt-oss-20b", 13.8), ("gpt-oss-120b", 65.2)] {
        let m = model(name);
        let native = m
            .weights_bytes(&WeightFormat::parse("mxfp4").unwrap())
            .total() as f64
            / 1e9;
        assert!((native / gb - 1.0).abs() < 0.02, "{name}: {native}");
        assert_eq!(
            m.weights_bytes(&WeightFormat::Bf16).total(),
            2 * m.parameters()
        );
    }
}

/// The matrices of a layer weigh what the layer weighs but for norms and biases, in every format.
#[test]
fn matrices_sum_to_the_layer() {
    for id in catalog::model_ids() {
        let m = model(id);
        for format in WeightFormat::named() {
            let one = |x: &kvplan::model::Matrix| f64::from(x.copies) * format.matrix_bytes(x);
            let matrices: f64 = m
                .layers
                .iter()
                .flat_map(|l| l.matrices(m.hidden))
                .map(|x| one(&x))
                .sum();
            let layers = m.weights_bytes(&format).layers as f64;
            assert!(
                (matrices / layers - 1.0).abs() < 0.012,
                "{id} {format}: {matrices} against {layers}"
            );
        }
    }
}

#[test]
fn formats_are_refused_with_a_suggestion() {
    let e = WeightFormat::parse("q4_k_n").unwrap_err();
    assert_eq!(e.exit_code(), 2);
    assert!(e.help.unwrap().contains("did you mean `q4_k_m`?"));
    assert!(
        KvFormat::parse("fp61")
            .unwrap_err()
            .help
            .unwrap()
            .contains("`fp16`")
    );
    assert!(
        WeightFormat::parse("native")
            .unwrap_err()
            .help
            .unwrap()
            .contains("mxfp4")
    );
    assert_eq!(
        WeightFormat::parse("/nowhere/x.gguf")
            .unwrap_err()
            .exit_code(),
        2
    );
    for format in WeightFormat::named() {
        assert_eq!(WeightFormat::parse(&format.to_string()).unwrap(), format);
    }
    for format in KvFormat::ALL {
        assert_eq!(KvFormat::parse(&format.to_string()).unwrap(), format);
    }
}

proptest! {
    /// KV grows with length, never faster than the plain count; a narrower format never weighs more.
    #[test]
    fn kv_laws(index in 0..catalog::model_ids().len(), tokens in 0u64..300_000, more in 0u64..5_000) {
        let m = model(catalog::model_ids()[index]);
        for format in KvFormat::ALL {
            let (a, b) = (m.kv_bytes(tokens, format), m.kv_bytes(tokens + more, format));
            prop_assert!(a <= b);
            prop_assert!(b - a <= more as f64 * m.kv_bytes_per_token(format) * (1.0 + 1e-12));
            prop_assert!(m.kv_bytes(tokens, KvFormat::Q4_0) <= a && a <= m.kv_bytes(tokens, KvFormat::Fp16));
        }
    }
}
