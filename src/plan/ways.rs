//! The ways to run one question on one card, before any of them ran.

use crate::deploy::{HostWeights, T1Mode};
use crate::model::layer::MatrixKind;
use crate::model::{KvFormat, WeightFormat};
use crate::scenario::Scenario;

use super::answer::RunsIn;
use super::changes;
use super::run::with;
use crate::metrics::Outcome;

/// How a way runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Everything given runs, tiered by the policy.
    Static,
    /// Paged, preempting.
    Paged,
    /// The largest batch that never preempts, in rounds.
    Largest,
    /// KV in HBM, as many weights in host memory as that takes.
    Weights,
}

/// One way.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// Name in results.
    pub(super) name: &'static str,
    /// What it changes.
    pub(super) scenario: Scenario,
    /// How it runs.
    pub(super) how: How,
    /// What qualifies it.
    pub(super) remark: Option<&'static str>,
}

/// All ways, in the order they are shown.
pub(super) fn all(s: &Scenario) -> Vec<Way> {
    let full = Scenario {
        policy: "full".into(),
        ..s.clone()
    };
    let way = |name, scenario, how, remark| Way {
        name,
        scenario,
        how,
        remark,
    };
    let mut out = vec![
        way("all-in-hbm", full.clone(), How::Static, None),
        way(
            "engine",
            full.clone(),
            How::Paged,
            Some(if s.deployment.runtime.preempts {
                "preempts the latest request when KV runs out, recomputes it later"
            } else {
                "waits: admits a request only when its whole output fits"
            }),
        ),
        way("smaller-batch", full.clone(), How::Largest, None),
    ];
    if s.deployment.kv == KvFormat::Fp16 {
        // llama.cpp's 8-bit cache is q8_0.
        let eight = if by_llama_cpp(s) {
            KvFormat::Q8_0
        } else {
            KvFormat::Fp8
        };
        out.push(way(
            "fp8-kv",
            with(&full, |d| d.kv = eight),
            How::Paged,
            None,
        ));
    }
    if s.deployment.weights.bits(MatrixKind::Ffn) > 4 && !by_llama_cpp(s) {
        let four = with(&full, |d| d.weights = WeightFormat::Int4);
        out.push(way(
            "int4-weights",
            four,
            How::Paged,
            Some("changes the model"),
        ));
    }
    let two = s.deployment.gpus * 2;
    if s.deployment.hardware.interconnect.is_some() && changes::divides(s, two) {
        out.push(way(
            "twice-the-gpus",
            with(&full, |d| d.gpus = two),
            How::Paged,
            Some("another purchase"),
        ));
    }
    let streamed = with(&full, |d| {
        d.host_weights = Some(HostWeights::Fit);
        d.t1 = T1Mode::Stream;
    });
    out.push(way(
        "weights-in-ddr",
        streamed,
        How::Weights,
        Some("no engine reads weights ahead; vLLM's --cpu-offload-gb reads them in place"),
    ));
    out.extend(tiered(s));
    out
}

/// The T1 modes: reading in place where the link is made for it or it was asked for, fetching a part only if asked for.
fn tiered(s: &Scenario) -> Vec<Way> {
    let spilling = tiering(s);
    let (asked, hardware) = (s.deployment.t1, &s.deployment.hardware);
    let home = hardware.homes.get(&s.deployment.home);
    let way = |t1: T1Mode, remark| Way {
        name: t1.word(),
        scenario: with(&spilling, |d| d.t1 = t1),
        how: How::Static,
        remark: Some(remark),
    };
    let mut out = vec![
        way(
            T1Mode::Stream,
            "no engine runs it; transformers' OffloadedCache is the case T0 = 0",
        ),
        way(
            T1Mode::Staged(None),
            "no engine runs it; a buffer in HBM is HBM not saved",
        ),
    ];
    if hardware.link.coherent || asked == T1Mode::Direct {
        out.push(way(
            T1Mode::Direct,
            "no engine runs it; the attention kernel reads host memory in place",
        ));
    }
    if home.is_none_or(|h| h.by_host) {
        out.push(way(
            T1Mode::HostAttention,
            "no engine runs it; llama.cpp --no-kv-offload is the case T0 = 0",
        ));
    }
    if matches!(asked, T1Mode::Selective(_)) {
        out.push(way(
            asked,
            "attends only to the host tokens it fetches; never ranked with the others",
        ));
    }
    out
}

/// The scenario with a policy that moves tokens: `four-tier:hbm=fit` where the asked one keeps everything.
pub(super) fn tiering(s: &Scenario) -> Scenario {
    let policy = if s.policy == "full" {
        "four-tier:hbm=fit".into()
    } else {
        s.policy.clone()
    };
    Scenario {
        policy,
        ..s.clone()
    }
}

/// The way as people read it.
pub(super) fn label(way: &Way, out: &Outcome) -> String {
    let preempts = if out.preemptions > 0 {
        ", preempts"
    } else {
        ""
    };
    match way.name {
        "all-in-hbm" => "all in HBM".into(),
        "engine" => format!("engine as it is{preempts}"),
        "smaller-batch" => format!("batch {}", out.batch),
        "fp8-kv" => format!("{} KV{preempts}", out.kv),
        "int4-weights" => format!("int4 weights{preempts}"),
        "twice-the-gpus" => format!("{} GPUs{preempts}", out.gpus),
        "weights-in-ddr" => "weights streamed".into(),
        "host-attention" => "host attention".into(),
        "direct" => "reading in place".into(),
        other => other.into(),
    }
}

/// Whether llama.cpp is what runs these formats.
fn by_llama_cpp(s: &Scenario) -> bool {
    let own = matches!(
        s.deployment.weights,
        WeightFormat::Gguf(_) | WeightFormat::File(_)
    );
    own || s.deployment.runtime.id == "llama.cpp"
}

/// Software that runs it today, with the command; none where the formats or the way have none.
pub(super) fn runs_in(way: &Way, out: &Outcome) -> Vec<RunsIn> {
    let ours = matches!(way.how, How::Static | How::Weights);
    if ours && way.name != "all-in-hbm" {
        return Vec::new();
    }
    let known = match (
        by_llama_cpp(&way.scenario),
        way.scenario.deployment.runtime.id.as_str(),
    ) {
        (true, _) => llama_cpp(way, out),
        // vLLM has no other formats of KV.
        (false, "vllm" | "ideal")
            if matches!(way.scenario.deployment.kv, KvFormat::Fp16 | KvFormat::Fp8) =>
        {
            Some(("vLLM", vllm(way, out)))
        }
        _ => None,
    };
    known
        .map(|(software, command)| RunsIn {
            software: software.into(),
            command,
        })
        .into_iter()
        .collect()
}

fn vllm(way: &Way, out: &Outcome) -> String {
    let s = &way.scenario;
    let mut command = format!(
        "vllm serve {} --max-num-seqs {} --max-model-len {} --gpu-memory-utilization {}",
        s.deployment.model.repository(),
        out.batch,
        s.prompt + s.output,
        s.deployment.memory_fraction
    );
    let flags = [
        (
            s.deployment.weights == WeightFormat::Fp8,
            " --quantization fp8".to_string(),
        ),
        (
            s.deployment.weights == WeightFormat::Int8,
            " --quantization compressed-tensors".to_string(),
        ),
        (
            s.deployment.weights == WeightFormat::Int4,
            " --quantization awq".to_string(),
        ),
        (
            s.deployment.kv == KvFormat::Fp8,
            " --kv-cache-dtype fp8".to_string(),
        ),
        (
            out.gpus > 1,
            format!(" --tensor-parallel-size {}", out.gpus),
        ),
    ];
    command.extend(flags.into_iter().filter(|f| f.0).map(|f| f.1));
    command
}

/// `-c` is the context of all slots together; a bf16 model must be converted to GGUF first.
fn llama_cpp(way: &Way, out: &Outcome) -> Option<(&'static str, String)> {
    let s = &way.scenario;
    let kv = match s.deployment.kv {
        KvFormat::Fp16 => String::new(),
        KvFormat::Q8_0 => " -fa on -ctk q8_0 -ctv q8_0".into(),
        KvFormat::Q4_0 => " -fa on -ctk q4_0 -ctv q4_0".into(),
        KvFormat::Fp8 | KvFormat::Int8 => return None,
    };
    let file = match &s.deployment.weights {
        WeightFormat::File(_) => s.deployment.weights.to_string(),
        other => format!("{}-{}.gguf", s.deployment.model.name, other),
    };
    let context = u64::from(out.batch) * s.tokens();
    Some((
        "llama.cpp",
        format!(
            "llama-server -m {file} -ngl 99 -np {} -c {context}{kv}",
            out.batch
        ),
    ))
}
