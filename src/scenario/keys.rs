//! Every setting of a deployment, one row each: flag, scenario key, default, help.
//!
//! The flags of `simulate` and `plan`, the keys of a scenario file, `--print-config` and `schema scenario` are all made
//! from this table. A row is text only: what a text means is decided in `resolve`. Rival design: typed defaults; they
//! cannot be shown beside the file that overrides them.

/// Which command a default is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// One deployment.
    Simulate,
    /// One question over several cards.
    Plan,
}

/// How a value is written in a scenario file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A whole number (tokens may also be text with a suffix: `"16k"`).
    Number,
    /// A real number.
    Real,
    /// A list of strings; a single one may stand alone.
    Texts,
    /// A list of whole numbers; a single one may stand alone.
    Numbers,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The flag without its dashes, and the key of a scenario file.
    pub name: &'static str,
    /// Its value in help texts.
    pub value: &'static str,
    /// How it is written in a file.
    pub kind: Kind,
    /// Default of `simulate`; none if the setting may stay open.
    pub simulate: Option<&'static str>,
    /// Default of `plan`; lists are joined by commas.
    pub plan: Option<&'static str>,
    /// Words it takes, where they are a closed set.
    pub words: &'static [&'static str],
    /// One line of help.
    pub help: &'static str,
}

impl Key {
    /// The default of a verb.
    pub fn default(&self, verb: Verb) -> Option<&'static str> {
        match verb {
            Verb::Simulate => self.simulate,
            Verb::Plan => self.plan,
        }
    }

    /// Whether some verb takes a list split on commas.
    pub fn lists(&self) -> bool {
        matches!(self.kind, Kind::Texts | Kind::Numbers) && self.name != "trace"
    }

    /// Whether a verb takes several values.
    pub fn many(&self, verb: Verb) -> bool {
        match self.kind {
            Kind::Texts if self.name == "trace" => true,
            Kind::Texts | Kind::Numbers => verb == Verb::Plan,
            _ => false,
        }
    }
}

const fn key(
    name: &'static str,
    value: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    words: &'static [&'static str],
    help: &'static str,
) -> Key {
    Key {
        name,
        value,
        kind,
        simulate: default,
        plan: default,
        words,
        help,
    }
}

/// All settings, in the order in which they are shown.
#[rustfmt::skip] // one row a setting
pub const KEYS: &[Key] = &[
    key("model", "NAME", Kind::Text, Some("deepseek-r1-distill-llama-70b"), &[],
        "Model: a name of `kvplan list models`, or a path to a config.json or .toml"),
    Key { plan: Some("h100-sxm,h200-sxm,gh200,rtx-pro-6000"),
        ..key("hardware", "NAME", Kind::Texts, Some("h200-sxm"), &[],
        "Machine: a name of `kvplan list hardware`, or a path to a .toml; `plan` takes several") },
    key("gpus", "N", Kind::Numbers, Some("1"), &[],
        "GPUs in tensor parallel; `plan` takes several and makes one row each"),
    key("runtime", "NAME", Kind::Text, Some("vllm"), &[],
        "Serving software whose overheads apply: a name of `kvplan list runtimes`"),
    key("weights", "FORMAT", Kind::Text, Some("fp8"), &[],
        "Weight format: bf16, fp16, fp8, int8, int4, or a GGUF type such as q4_k_m"),
    key("kv", "FORMAT", Kind::Text, Some("fp16"), &["fp16", "fp8", "int8", "q8_0", "q4_0"],
        "KV format"),
    key("batch", "N", Kind::Number, Some("8"), &[],
        "Requests decoded together"),
    key("prompt", "TOKENS", Kind::Number, Some("1024"), &[],
        "Prompt tokens of each request"),
    key("output", "TOKENS", Kind::Number, Some("15360"), &[],
        "Output tokens of each request"),
    key("policy", "NAME[:KEY=VALUE,...]", Kind::Text, Some("four-tier:hbm=fit"), &[],
        "Which tokens live where: see `kvplan list policies`"),
    key("t1", "MODE", Kind::Text, Some("stream"), &["stream", "staged", "direct", "host-attention", "selective"],
        "How tokens in host memory take part in attention; staged:SIZE sets the buffer, selective:top-k=512 or \
         selective:top-p=0.9 what is fetched (predict=fetched-only or last-row after a comma)"),
    key("home", "PLACE", Kind::Text, Some("ddr"), &[],
        "Where they live: ddr, or a home of the machine such as peer or cxl (`kvplan show hardware NAME`)"),
    key("weights-in-ddr", "HOW", Kind::Text, None, &[],
        "Weights of the layers that lie in host memory and stream over the link in every step: a share (0.3), a size over \
         all GPUs (20GiB), or fit: as little as lets the rest fit"),
    key("overlap", "WHEN", Kind::Text, Some("layer"), &["serial", "layer"],
        "Transfers wait for compute, or run a layer ahead of it"),
    key("fidelity", "HOW", Kind::Text, Some("step"), &["step", "layer"],
        "How finely a step is followed: a recursion over its layers, or every transfer as an event"),
    key("depth", "LAYERS", Kind::Number, Some("2"), &[],
        "Layers of staging for streamed KV"),
    key("split", "N", Kind::Number, None, &["1", "2"],
        "Parts of a batch that take turns under host-attention; with 2, weights are read twice a step"),
    key("score-cost", "HOW", Kind::Text, Some("fused"), &["fused", "recompute", "eager"],
        "What a policy pays that looks at attention weights: nothing, a second pass over K, or unfused attention"),
    key("write-back", "WHEN", Kind::Text, Some("through"), &["through", "at-demotion"],
        "When new KV is copied to the host"),
    key("compact", "WHEN", Kind::Text, Some("retier"), &["retier", "none"],
        "Whether live tokens are packed so that whole pages become free"),
    key("layout", "ORDER", Kind::Text, Some("layer"), &["layer", "token"],
        "Order of KV in host memory"),
    key("occupancy", "HOW|FILE", Kind::Text, Some("lockstep"), &["lockstep", "staggered"],
        "Requests all at the same length at once, at independent phases, or each as long as a line of a file says: \
         `prompt,output` or JSON with prompt_tokens and output_tokens; request i has line i mod n"),
    key("arrivals", "HOW|FILE", Kind::Text, None, &[],
        "Requests over time instead of one static batch of --batch: all, poisson:RATE (requests per second), or a recording \
         (.jsonl or .csv with arrival, prompt and output tokens); --batch is then how many run together at most"),
    key("requests", "N", Kind::Number, None, &[],
        "Requests that come [default: 200, or all of a recording]"),
    key("lengths", "LAW|FILE", Kind::Text, None, &[],
        "Their lengths: fixed (--prompt, --output), lognormal:prompt=MEDIAN/SIGMA,output=MEDIAN/SIGMA, servegen-r1, or a file \
         with one `prompt,output` a line to draw from [default: fixed]"),
    key("token-budget", "TOKENS", Kind::Number, None, &[],
        "Tokens of a step at most, decode tokens and chunks of prompts [default: the runtime's]"),
    key("preempt", "HOW", Kind::Text, None, &["recompute", "swap"],
        "What becomes of the latest request when HBM is full: computed again, or swapped to host memory [default: recompute]"),
    key("slo", "LIMITS", Kind::Text, None, &[],
        "What an answer may take, for goodput: any of ttft=1s,tpot=50ms,e2e=60s"),
    key("length-factor", "F", Kind::Real, None, &[],
        "Times as many output tokens where the policy destroys tokens: models that miss some write longer answers"),
    key("phase", "HOW", Kind::Text, Some("seeded"), &["seeded", "lockstep"],
        "Re-tier steps of the requests: drawn by seed, or all at once"),
    key("memory-fraction", "SHARE", Kind::Real, Some("0.95"), &[],
        "Share of GPU memory that the engine may take"),
    key("vram-reserve", "SIZE", Kind::Text, Some("0GiB"), &[],
        "GPU memory kept for others, taken off first"),
    key("trace", "FILE", Kind::Texts, None, &[],
        "Recorded attention (.kvt), repeatable; `none` uses lengths alone [default: the one in the binary]"),
    key("seed", "N", Kind::Number, Some("0"), &[],
        "Seed of every random draw"),
    Key { plan: Some("few"),
        ..key("intervals", "HOW", Kind::Text, None, &["none", "few", "full"],
        "5th and 95th percentile over draws of what is not known exactly: none, few (20 draws), full (1,000; 100 under load or to find)") },
];

/// The row of a setting.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.name == name)
}

/// All names, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|k| k.name)
}
