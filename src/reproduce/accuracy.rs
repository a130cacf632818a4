//! Claims about answers. None is recomputed here: each says what stands in the way, and what would test it. Where a small
//! model speaks to one, `why` says what it showed: figures of reports/eval, measured by `kvplan eval` on SmolLM2-135M
//! (KL of predictions from the full cache's, 4 texts), which say nothing of accuracies of larger models.

use super::Status::{Confounded, NotTestedHere};
use super::{Claim, Topic};

/// Faults of the published runs that bear on every accuracy.
const OVERFLOW: &str = "fp16 eager Qwen2 overflows to NaN in layers of the published runs (texts hold `!` for every token so struck, 50 of 50 samples)";
const POSITIONS: &str = "after eviction new tokens took positions that lag by the number evicted while older keys kept theirs";

pub(super) fn claims() -> Vec<Claim> {
    let claim = |id: &str, text: &str, published: &str, status, why: String| {
        Claim::new(id, Topic::Accuracy, text, status)
            .words(published, None)
            .arithmetic("none: answers need the model")
            .why(why)
    };
    vec![
        claim(
            "collapse-half",
            "removing half of the cache collapses accuracy",
            "0 to 2.5 %",
            Confounded,
            format!("{POSITIONS}; {OVERFLOW}. Decoding with true positions would tell. A model of 135M (reports/eval) with half of the unprotected tokens destroyed: KL 0.030 nat a token with true positions, 0.45 with such ones"),
        ),
        claim(
            "keep-3-percent",
            "3 % eviction keeps most of the accuracy of the full cache",
            "91 % (GSM8K) and 71 % (MATH-500) of it, n = 200",
            NotTestedHere,
            "the runs are not in the repository; 3 % an interval destroys 18 to 54 % of a chain (see compounding), so the share destroyed must be said with it".into(),
        ),
        claim(
            "14b-90-86",
            "14B: 90 % against 86 % with the full cache, at half the HBM",
            "90 and 86 %",
            NotTestedHere,
            "not in the repository, n not stated; at n = 50 the 95 % interval of 86 % is 74 to 93 %, which holds both".into(),
        ),
        claim(
            "r-kv-0-32",
            "R-KV reaches 0 to 32 % at the same budget",
            "0 to 32 %",
            NotTestedHere,
            "not in the repository; R-KV's own report is lossless at 10 to 54 % of the cache. A model of 135M (reports/eval), as many tokens retained (79 %): KL 0.028 nat a token under R-KV, 0.030 under the four-tier score".into(),
        ),
        claim(
            "h2o-2-30",
            "H2O reaches 2 to 30 %",
            "2, 2, 10, 8, 30 % at 128, 256, 384, 512, 1,024 tokens",
            Confounded,
            format!("the baseline ranked by the current row alone, leaves the prompt unprotected and averages over heads and layers: it is not H2O; {POSITIONS}. A model of 135M (reports/eval), as many tokens retained (79 %): KL 0.0016 nat a token under H2O itself, 0.030 under the four-tier score"),
        ),
        claim(
            "t2-58-20",
            "8 bit for the lower half drops accuracy",
            "58 to 20 % at 5 %, 34 to 10 % at 10 %",
            Confounded,
            "the quantiser took one minimum and maximum for the keys of all heads and channels of a layer, again every 64 steps, and in places on the protected window: it says nothing of 8 bit per token or per channel. A model of 135M (reports/eval), all unprotected tokens at 8 bit: KL 6e-5 nat a token with one scale a layer, 1.6e-5 per token, 4e-6 per channel; at 4 bit .028, .0049, .0034".into(),
        ),
        claim(
            "hbm-no-effect",
            "30, 50 or 70 % in HBM give the same accuracy",
            "no difference, p > 0.3",
            Confounded,
            "equal by construction: the algorithm runs keep everything on the GPU whatever the ratio (`only used for reporting`). It is also what exactness demands: where a token lies cannot matter. On a real model every logit is equal to the bit (tests/it/forward_exact.rs)".into(),
        ),
    ]
}
