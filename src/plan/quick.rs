//! Tokens per second by one step a re-tier interval: for bisections, where a whole run a point would be too slow.
//!
//! A Stepper is warmed for as many steps as staging needs to reach its steady state, then one step stands for its
//! interval. Against the whole run it is off by well under a percent (a test holds it to 1 %); re-tier bursts, which
//! cost less than that, are left out.

use crate::engine::{Burst, Stepper};
use crate::memory::Held;
use crate::service::Prepared;
use crate::timeline::Timeline;
use crate::units::Ps;

/// Points taken over the run.
const POINTS: u32 = 48;

/// Steps that bring the link's lead to its steady state.
const WARM: u32 = 2;

/// Output tokens per second of `batch` sequences in lockstep on `timeline`.
pub(super) fn tokens_per_second(prepared: &Prepared, timeline: &Timeline, batch: u32) -> f64 {
    at_points(prepared, timeline, batch, POINTS)
}

/// The same at so many points over the run.
pub(super) fn at_points(prepared: &Prepared, timeline: &Timeline, batch: u32, points: u32) -> f64 {
    let n = points.min(timeline.steps).max(1);
    let spill = if timeline.spills() {
        f64::from(batch)
    } else {
        0.0
    };
    let mut stepper = Stepper::new(prepared);
    stepper.size(batch);
    let seconds: f64 = (0..n)
        .map(|i| {
            let step = (2 * u64::from(i) + 1) * u64::from(timeline.steps) / (2 * u64::from(n));
            period(
                stepper.clone(),
                &held(prepared, timeline, u32::try_from(step).unwrap_or(0), batch),
                batch,
                spill,
            )
        })
        .sum();
    f64::from(n) * f64::from(batch) / seconds
}

/// Tokens of the whole batch at `step`.
fn held(prepared: &Prepared, timeline: &Timeline, step: u32, batch: u32) -> Held {
    let n = f64::from(batch);
    let [t0, t1, t2, _] = timeline.tokens_at(step);
    let length = f64::from(timeline.prompt) + f64::from(step) + 1.0;
    let windowed = prepared
        .classes
        .iter()
        .map(|c| c.window.map_or(0.0, |w| n * length.min(f64::from(w))))
        .collect();
    Held {
        sequences: n,
        tiers: [n * t0, n * t1, n * t2],
        windowed,
        ..Held::default()
    }
}

/// Steady seconds of a step of a machine at rest.
fn period(mut stepper: Stepper<'_>, held: &Held, batch: u32, spill: f64) -> f64 {
    let mut begin = Ps::ZERO;
    for _ in 0..WARM {
        begin = stepper
            .step(begin, batch, held, &Burst::default(), spill)
            .end;
    }
    (stepper
        .step(begin, batch, held, &Burst::default(), spill)
        .end
        - begin)
        .secs()
}

/// Smallest `x` in `low..=high` (by ratio, to 1 %) at which the rising `f` reaches `target`; none if not even at
/// `high`, or already at `low`.
pub(super) fn crossing(low: f64, high: f64, target: f64, f: impl Fn(f64) -> f64) -> Option<f64> {
    if f(high) < target || f(low) >= target {
        return None;
    }
    let (mut low, mut high) = (low, high);
    while high / low > 1.01 {
        let middle = (low * high).sqrt();
        if f(middle) >= target {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some((low * high).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::recordings::Recordings;
    use crate::plan::run::Case;
    use crate::plan::said;

    /// Tokens per second by the shortcut and over the whole run.
    fn both(flags: &str) -> (f64, f64) {
        let case = Case::new(&said(flags), &Recordings::default()).unwrap();
        let run = case.run().unwrap();
        let whole = run.tokens as f64 / run.decode_s();
        let short = tokens_per_second(&case.prepared, &case.timelines[0], case.scenario.batch);
        (short, whole)
    }

    #[test]
    fn the_shortcut_is_within_a_percent_of_the_whole_run() {
        for card in ["h100-sxm", "gh200", "rtx-pro-6000"] {
            for t1 in ["stream", "host-attention"] {
                let (short, whole) = both(&format!("hardware {card} t1 {t1} output 6000"));
                assert!(
                    (short / whole - 1.0).abs() < 0.01,
                    "{card} {t1}: {short} against {whole}"
                );
            }
        }
        let (short, whole) = both("hardware h100-sxm policy four-tier:hbm=0.2 output 3000");
        assert!((short / whole - 1.0).abs() < 0.01, "{short} {whole}");
    }
}
