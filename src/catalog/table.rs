//! The table of embedded files.

/// One embedded file.
#[derive(Debug)]
pub(super) struct Entry {
    /// Catalog id, which is also the file's name.
    pub(super) id: &'static str,
    /// Its text.
    pub(super) text: &'static str,
}

impl Entry {
    /// Its other names, from the `aliases` line at its head.
    pub(super) fn aliases(&self) -> impl Iterator<Item = &'static str> {
        let line = self
            .text
            .lines()
            .find_map(|l| l.strip_prefix("aliases = ["))
            .unwrap_or("");
        line.split('"').skip(1).step_by(2)
    }
}

macro_rules! shelf {
    ($folder:literal: $($id:literal),+ $(,)?) => {
        &[$(Entry {
            id: $id,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/", $folder, "/", $id, ".toml")),
        }),+]
    };
}

pub(super) static ARCHITECTURES: &[Entry] = shelf!("architectures":
    "codellama-34b",
    "deepseek-r1",
    "deepseek-r1-distill-llama-70b",
    "deepseek-r1-distill-llama-8b",
    "deepseek-r1-distill-qwen-1.5b",
    "deepseek-r1-distill-qwen-14b",
    "deepseek-r1-distill-qwen-32b",
    "deepseek-r1-distill-qwen-7b",
    "deepseek-v3",
    "gemma-2-27b",
    "gemma-3-27b",
    "gpt-oss-120b",
    "gpt-oss-20b",
    "internlm-20b",
    "llama-13b",
    "llama-2-13b",
    "llama-2-70b",
    "llama-2-7b",
    "llama-3-70b",
    "llama-3-8b",
    "llama-3.1-70b",
    "llama-3.1-8b",
    "llama-3.2-1b",
    "llama-3.2-3b",
    "llama-3.3-70b",
    "llama-33b",
    "llama-7b",
    "mistral-7b-v0.1",
    "mistral-7b-v0.3",
    "mixtral-8x7b",
    "phi-4",
    "qwen-72b",
    "qwen2.5-0.5b",
    "qwen2.5-14b",
    "qwen2.5-32b",
    "qwen2.5-72b",
    "qwen2.5-7b",
    "qwen2.5-7b-instruct",
    "qwen3-14b",
    "qwen3-30b-a3b",
    "qwen3-32b",
    "qwen3-8b",
    "qwq-32b",
    "smollm2-135m",
);

pub(super) static HARDWARE: &[Entry] = shelf!("hardware":
    "a10",
    "a100-pcie-40gb",
    "a100-pcie-80gb",
    "a100-sxm-40gb",
    "a100-sxm-80gb",
    "a40",
    "b200-sxm",
    "b300-sxm",
    "gb200",
    "gh200",
    "h100-nvl",
    "h100-pcie",
    "h100-sxm",
    "h20",
    "h200-sxm",
    "l4",
    "l40s",
    "mi300x",
    "rtx-3080",
    "rtx-3090",
    "rtx-3090-ti",
    "rtx-4090",
    "rtx-5080",
    "rtx-5090",
    "rtx-6000-ada",
    "rtx-a6000",
    "rtx-pro-6000",
    "rtx-pro-6000-workstation",
);

pub(super) static RUNTIMES: &[Entry] = shelf!("runtimes":
    "hf-eager-int8",
    "hf-offloaded",
    "ideal",
    "llama.cpp",
    "sglang",
    "tensorrt-llm",
    "vllm",
    "vllm-2024",
);

/// Laws fitted on measurements, by card; `class` holds the spreads of cards predicted by others.
pub(super) static KERNELS: &[Entry] = shelf!("kernels":
    "a100-pcie-80gb",
    "a100-sxm-80gb",
    "a40",
    "b200-sxm",
    "h100-sxm",
    "h20",
    "l40s",
    "rtx-pro-6000",
);

/// Spreads of cards that are predicted by others.
pub(super) static CLASS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/models/kernels/class.toml"
));

/// How far predictions were off, by card.
pub(super) static EXPECTED: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/expected.toml"));
