//! Extreme inputs: an answer or a clear refusal, never a panic or a hang.

use kvplan::error::Cause;
use kvplan::metrics::Outcome;
use kvplan::plan::simulate;

use crate::engine_support::{scenario, try_scenario};

fn out(words: &str) -> Outcome {
    simulate(&scenario(words)).unwrap()
}

#[test]
fn a_hundred_thousand_requests() {
    let o = out(
        "model smollm2-135m weights bf16 hardware b200-sxm batch 100000 prompt 1 output 70 policy four-tier:hbm=0.5,window=8,interval=16",
    );
    assert_eq!((o.engine.steps, o.batch), (70, 100_000));
    // A note, an error or a fit, but always a memory figure: 23,040 B a token.
    assert_eq!(o.memory.kv_full_bytes, 71 * 100_000 * 23_040);
}

#[test]
fn a_chain_of_four_million_tokens() {
    let o = out(
        "model smollm2-135m weights bf16 batch 1 prompt 1 output 4000000 policy four-tier:hbm=0.5,interval=1000",
    );
    assert_eq!(o.engine.steps, 4_000_000);
    assert!(o.throughput.output_tokens_per_s.unwrap() > 0.0);
}

#[test]
fn one_token_in_and_one_out() {
    for policy in [
        "full",
        "four-tier:hbm=fit",
        "streaming-llm",
        "four-tier:hbm=0,interval=1,window=1",
    ] {
        for occupancy in ["lockstep", "staggered"] {
            let o = out(&format!(
                "model llama-3.1-8b prompt 1 output 1 occupancy {occupancy} policy {policy}"
            ));
            assert!(o.fits && o.throughput.output_tokens_per_s.unwrap() > 0.0);
        }
    }
}

#[test]
fn odd_policies() {
    for policy in [
        "four-tier:hbm=0,evict=1,semantics=per-interval,window=1,sinks=0,interval=1,protect=sinks",
        "four-tier:hbm=0,evict=1,semantics=cumulative,window=1",
        "four-tier:hbm=0.5,interval=1000000000",
        "four-tier:hbm=0.5,interval=5000",
        "four-tier:hbm=1tok,window=2000000000,sinks=2000000000",
        "four-tier:hbm=0,t2=1",
        "streaming-llm:window=1,sinks=0",
    ] {
        let o = out(&format!("model llama-3.1-8b output 6000 policy {policy}"));
        assert_eq!(o.engine.steps, 6000, "{policy}");
        assert!(o.throughput.output_tokens_per_s.unwrap() > 0.0, "{policy}");
    }
}

#[test]
fn sixty_four_gpus_and_no_memory() {
    let o = out("model deepseek-r1-distill-llama-70b hardware h100-sxm gpus 64");
    assert!(o.fits && o.memory.hbm_peak_bytes <= o.memory.hbm_capacity_bytes);
    let o = out("model llama-3.1-8b memory-fraction 0.000001");
    assert!(!o.fits && o.shortfall_bytes > 0 && o.throughput.output_tokens_per_s.is_none());
    let refused = try_scenario(&[("vram-reserve", "1TB".into())]).unwrap_err();
    assert_eq!(refused.cause, Cause::Usage);
    let refused = try_scenario(&[("depth", "999".into())]).unwrap_err();
    assert_eq!(refused.cause, Cause::Usage);
}

#[test]
fn a_roof_without_gaps() {
    let o = out("model llama-3.1-8b runtime ideal batch 1 policy four-tier:hbm=0.5");
    assert!(o.throughput.output_tokens_per_s.unwrap() > 0.0);
    assert!(o.step.gap_s.abs() < 1e-30 && o.step.other_s.abs() < 1e-30);
}
