//! Claims about answers. None is recomputed here: each says what stands in the way, and what would test it.

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
            format!("{POSITIONS}; {OVERFLOW}. Decoding with true positions would tell"),
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
            "not in the repository; R-KV's own report is lossless at 10 to 54 % of the cache".into(),
        ),
        claim(
            "h2o-2-30",
            "H2O reaches 2 to 30 %",
            "2, 2, 10, 8, 30 % at 128, 256, 384, 512, 1,024 tokens",
            Confounded,
            format!("the baseline ranked by the current row alone, leaves the prompt unprotected and averages over heads and layers: it is not H2O; {POSITIONS}"),
        ),
        claim(
            "t2-58-20",
            "8 bit for the lower half drops accuracy",
            "58 to 20 % at 5 %, 34 to 10 % at 10 %",
            Confounded,
            "the quantiser took one minimum and maximum for the keys of all heads and channels of a layer, again every 64 steps, and in places on the protected window: it says nothing of 8 bit per token or per channel".into(),
        ),
        claim(
            "hbm-no-effect",
            "30, 50 or 70 % in HBM give the same accuracy",
            "no difference, p > 0.3",
            Confounded,
            "equal by construction: the algorithm runs keep everything on the GPU whatever the ratio (`only used for reporting`). It is also what exactness demands: where a token lies cannot matter, which selfcheck and the tests of the replay hold to".into(),
        ),
    ]
}
