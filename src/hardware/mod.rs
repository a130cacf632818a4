//! One machine as data: GPU, link, host, interconnect, and the runtime that drives them.
//!
//! What is modelled: one GPU type with its memory, its bandwidth and the efficiency of its kernels; one link per GPU to
//! host memory; one host whose DDR all links share. What is ignored: NUMA placement beyond the link's own figure,
//! clocks and thermals (a calibrated profile states them), other tenants. Data only: the laws that turn these numbers
//! into time are in `service`. The files are `models/hardware/*.toml`, without the laws of kernels, which are fitted
//! ([`kernels`]) or those of a class ([`class`]); a profile from `calibrate` has both. Rival model: a table of measured kernels
//! per GPU (AIConfigurator): exact where measured, mute elsewhere.

pub mod calibration;
pub mod class;
pub mod expected;
pub mod home;
pub mod kernels;
pub mod runtime;
pub mod text;
pub mod value;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use calibration::Calibration;
pub use class::Fitted;
pub use home::Home;
pub use kernels::Kernels;
pub use runtime::{
    Choose, CpuPart, CpuParts, Front, MixedTile, Offload, Pool, Prefill, Runtime, ServerOff, WarmUp,
};
pub use value::{
    Bandwidth, Capacity, Count, Duration, FlopRate, Quantity, Share, Source, UsdPerHour, Value,
};

/// A machine profile.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Catalog id: `h100-sxm`.
    pub id: String,
    /// As the vendor writes it.
    pub name: String,
    /// Other spellings found in data files.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Architecture, the class from which an unmeasured card gets its kernel figures: `hopper`.
    pub generation: String,
    /// Memory type: `HBM3`.
    pub memory_kind: String,
    /// When and on what this profile was fitted; none for a profile from public facts.
    #[serde(default)]
    pub calibrated: Option<String>,
    /// The GPU.
    pub gpu: Gpu,
    /// The link to host memory, one a GPU.
    pub link: Link,
    /// The host.
    pub host: Host,
    /// How GPUs of this kind reach each other; none where tensor parallelism is not offered.
    #[serde(default)]
    pub interconnect: Option<Interconnect>,
    /// Places for T1 other than host memory, by name (`peer`, `cxl`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub homes: BTreeMap<String, Home>,
    /// What an hour costs, where known.
    #[serde(default)]
    pub price: Option<Value<UsdPerHour>>,
    /// What stands behind a measured profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// What results call it where its id is that of another machine, too; no part of a file.
    #[serde(skip)]
    pub label: Option<String>,
}

impl Hardware {
    /// What results call it: its id, unless that would not tell it from another machine.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.id)
    }
}

/// The GPU: capacity, roofs, and how close its kernels come to them.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Usable memory, as the driver reports it.
    pub memory: Value<Capacity>,
    /// Peak memory bandwidth.
    pub hbm_bandwidth: Value<Bandwidth>,
    /// Dense BF16/FP16 rate, FP32 accumulation.
    pub bf16_dense: Value<FlopRate>,
    /// Dense FP8 rate, where the card has it.
    #[serde(default)]
    pub fp8_dense: Option<Value<FlopRate>>,
    /// Dense INT8 rate.
    #[serde(default)]
    pub int8_dense: Option<Value<FlopRate>>,
    /// L2 cache.
    pub l2: Value<Capacity>,
    /// Laws of its kernels; a file may leave them out, and the catalog puts those of the card or its class.
    #[serde(default)]
    pub kernels: Kernels,
}

/// The link between one GPU and host memory: `t = call + n_desc * descriptor + bytes / bandwidth`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// `PCIe 5 x16`, `NVLink-C2C`.
    pub name: String,
    /// Host to device, pinned, large copies.
    pub h2d: Value<Bandwidth>,
    /// Device to host, pinned, large copies.
    pub d2h: Value<Bandwidth>,
    /// Share of its lone rate that each direction keeps while the other runs too; 1 = independent directions.
    pub duplex: Value<Share>,
    /// One copy call, from issue to first byte.
    pub call: Value<Duration>,
    /// Each further descriptor (contiguous piece) of a copy.
    pub descriptor: Value<Duration>,
    /// The same for a piece of at least [`Link::CLIFF`] in a batched call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batched_piece: Option<Value<Duration>>,
    /// Rate of a copy whose host memory lies at another socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Value<Bandwidth>>,
    /// Whether kernels can read host memory at link speed without staging (C2C).
    #[serde(default)]
    pub coherent: bool,
    /// Share of `h2d` that an attention kernel reaches which reads the host's memory in place (`direct`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<Value<Share>>,
    /// Time that a gather kernel spends on a piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gather_piece: Option<Value<Duration>>,
    /// Share of the copy engine's rate that a gather kernel reaches on large pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gather_share: Option<Value<Share>>,
    /// Rate at which a thread copies between pageable and pinned memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging: Option<Value<Bandwidth>>,
}

impl Link {
    /// Size from which a piece of a batched call goes at full speed \[bytes\]: a cliff, not a line (vLLM pull request 42212, H100:
    /// pages of 4 to 24 KiB at 4 to 7 GB/s, 28 KiB at 40 to 44, 64 KiB at 51 to 52).
    pub const CLIFF: f64 = 28_672.0;

    /// Time of a large piece in a batched call: the profile's own, else what others measured.
    pub fn batched_piece(&self) -> Value<Duration> {
        self.batched_piece.clone().unwrap_or_else(|| {
            let reference =
                "vLLM pull request 42212, H100: 28 KiB at 40 to 44 GB/s, 64 KiB at 51 to 52, of 55";
            Value::new(0.14e-6, 0.08e-6, 0.5e-6, Source::Published, reference)
        })
    }

    /// Rate from memory at another socket: the profile's own, else what others measured, at most the link's.
    pub fn remote(&self) -> Value<Bandwidth> {
        self.remote.clone().unwrap_or_else(|| {
            let reference = "mlc on two Skylake sockets: 34 GB/s across, 91 within; newer sockets have more links";
            let most = |rate: f64| rate.min(self.h2d.get());
            Value::new(most(34e9), most(20e9), most(50e9), Source::Published, reference)
        })
    }

    /// Time of a piece in a gather kernel: the profile's own, else what others measured.
    pub fn gather_piece(&self) -> Value<Duration> {
        self.gather_piece.clone().unwrap_or_else(|| {
            let reference = "vLLM offloading connector post, figures 3 and 4: 0.2 to 0.28 us a block on an H100";
            Value::new(0.24e-6, 0.15e-6, 0.6e-6, Source::Published, reference)
        })
    }

    /// Share of the copy engine's rate that a gather kernel reaches: the profile's own, else what others measured.
    pub fn gather_share(&self) -> Value<Share> {
        self.gather_share.clone().unwrap_or_else(|| {
            let reference = "vLLM offloading connector post: 48 to 49 of 55 GB/s on an H100";
            Value::new(0.88, 0.8, 0.95, Source::Published, reference)
        })
    }

    /// Rate between pageable and pinned memory: the profile's own, else what others measured.
    pub fn staging(&self) -> Value<Bandwidth> {
        self.staging.clone().unwrap_or_else(|| {
            let reference = "bandwidthTest with pageable memory against pinned on a DGX A100 and a PCIe A100: 16 and 4 to 13 GB/s in \
                series with the link";
            Value::new(14e9, 4e9, 20e9, Source::Published, reference)
        })
    }

    /// Share of `h2d` at which a kernel reads in place: the profile's own, else what others measured on such a link.
    pub fn in_place_share(&self) -> Value<Share> {
        self.in_place.clone().unwrap_or_else(|| {
            if self.coherent {
                let reference = "nvbandwidth on GH200: 342 GB/s by a kernel, 346 by the copy engine; no attention kernel was measured";
                Value::new(0.99, 0.8, 1.0, Source::Assumed, reference)
            } else {
                let reference = "zero-copy over PCIe: a kernel's reads in flight carry some 35 GB/s (nvbandwidth: 35.2 of 55 on an \
                    H100, but 25.1 of 26 on an A100 and 25.3 on an A10); a gather kernel 48 to 50 of 55; no attention kernel was \
                    measured";
                let most = |rate: f64| (rate / self.h2d.get()).min(0.97);
                let (low, high) = (most(27.5e9), most(52e9));
                Value::new(most(35.2e9), low, high, Source::Assumed, reference)
            }
        })
    }
}

/// The host side of the machine.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Memory kind and channels, for people: `DDR5-4800 x12`.
    pub name: String,
    /// Installed memory.
    pub memory: Value<Capacity>,
    /// Memory channels that the bandwidth below counts.
    pub channels: Value<Count>,
    /// Sustained read bandwidth, all channels.
    pub ddr_read: Value<Bandwidth>,
    /// How much may be pinned (page-locked) for the GPU.
    pub pinned_limit: Value<Capacity>,
    /// Cores that host attention may use.
    pub cores: Value<Count>,
    /// Multiply-add rate of attention on those cores.
    pub attention_flops: Value<FlopRate>,
}

/// How GPUs reach each other for tensor parallelism: all-reduce `t = fixed + hop * (n - 2) + moved / bandwidth(n)`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Interconnect {
    /// `NVLink 4`, `PCIe 5`.
    pub name: String,
    /// Floor of one all-reduce of two GPUs.
    pub allreduce_fixed: Value<Duration>,
    /// What each further GPU adds to the floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allreduce_hop: Option<Value<Duration>>,
    /// Bandwidth at which a GPU reads its peers, two GPUs.
    pub bandwidth: Value<Bandwidth>,
    /// The same with eight GPUs: over `PCIe` they share a root complex. As with two where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_of_8: Option<Value<Bandwidth>>,
    /// Time in which a CPU checks and launches one outside a graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Value<Duration>>,
}

impl Interconnect {
    /// Time of a launch outside a graph: the profile's own, else what others measured.
    pub fn launch(&self) -> Value<Duration> {
        self.launch.clone().unwrap_or_else(|| {
            let reference = "vLLM custom all-reduce, eager, small messages: 20 to 23 us on an H100 host, 44 on an A100 host \
                (aiconfigurator-core 0.12.0)";
            Value::new(22e-6, 18e-6, 45e-6, Source::Measured, reference)
        })
    }
}
