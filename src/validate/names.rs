//! Names of GPUs, models and software as tables spell them.
//!
//! Most are aliases in `models/`; here stand those that mean something else than they say, or that hide a version.

use crate::catalog::Shelf;

/// GPU names that are no alias of a catalog entry, and the card they stand for.
const GPUS: &[(&str, &str)] = &[
    ("GB300", "b300-sxm"),
    ("GB300 (DGX Station)", "b300-sxm"),
    ("Blackwell SXM (model not stated)", "b200-sxm"),
    ("A100 80GB PCIe", "a100-pcie-80gb"),
    ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
    ("h800", "h100-sxm"),
    ("rtx_pro_6000_server", "rtx-pro-6000"),
    ("RTX4090", "rtx-4090"),
    ("mi300x", "mi300x"),
];

/// Software by the beginning of its name, and the runtime profile whose kernels and CPU path are nearest.
const SOFTWARE: &[(&str, &str)] = &[
    ("sarathi", "vllm-2024"),
    ("vllm 2024", "vllm-2024"),
    ("deepspeed 2024", "vllm-2024"),
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("infersim", "vllm"),
    ("aic", "vllm"),
    ("lss", "vllm"),
    ("deepspeed", "vllm"),
    ("ctranslate2", "vllm"),
    ("trt", "tensorrt-llm"),
    ("tensorrt-llm", "tensorrt-llm"),
    ("llama.cpp", "llama.cpp"),
    ("exllama", "llama.cpp"),
    ("mlc", "llama.cpp"),
    ("pytorch", "hf-offloaded"),
    ("hf-eager-int8", "hf-eager-int8"),
];

/// Kernel families of decode attention by the beginning of the software's name.
const FAMILIES: &[(&str, [&str; 2])] = &[
    ("trt", ["trtllm", "trtllm_8bit"]),
    ("tensorrt-llm", ["trtllm", "trtllm_8bit"]),
    ("sglang", ["sglang", "sglang_8bit"]),
    ("infersim", ["flashinfer", "flashinfer_8bit"]),
];

/// The catalog id of a table's GPU.
pub fn hardware(name: &str) -> Option<String> {
    let name = name.trim();
    let own = GPUS.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    let id = own.map_or(name, |(_, id)| id);
    let dashed = id.replace(['_', ' '], "-");
    [id.to_string(), dashed]
        .into_iter()
        .find(|n| Shelf::Hardware.has(n))
}

/// The catalog name of a table's model.
pub fn model(name: &str) -> Option<String> {
    let name = name.trim();
    let last = name.rsplit('/').next().unwrap_or(name);
    [name, last]
        .into_iter()
        .find(|n| Shelf::Models.has(n))
        .map(String::from)
}

/// The runtime profile of a table's software.
pub fn runtime(name: &str) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase();
    let found = SOFTWARE.iter().find(|(start, _)| name.starts_with(start));
    found.map(|(_, id)| *id)
}

/// The family of a table's decode-attention kernels over KV of 8 bits or 16, where it is not the usual one.
pub fn family(framework: &str, eight_bit: bool) -> Option<&'static str> {
    let name = framework.trim().to_ascii_lowercase();
    let found = FAMILIES.iter().find(|(start, _)| name.starts_with(start));
    found.map(|(_, ids)| ids[usize::from(eight_bit)])
}

/// A name from a table, short enough for a message.
pub fn short(name: &str) -> String {
    let mut text: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
    if text.len() < name.len() {
        text.push_str("...");
    }
    text
}
