//! The first layers of one step, resource by resource: what overlaps and what waits.
//!
//! Fidelity `layer` has a slice for each use of a resource. Shown is the last step, where contexts are longest, from the begin
//! of its compute until a few layers are through, or their transfers are.

use super::{Words, calibration, deployment};
use crate::deploy::Fidelity;
use crate::engine::{Observer, Slice, StepFact, Track, What};
use crate::error::{Error, Result};
use crate::plan::run::simulate_watched;
use crate::scenario::Scenario;
use crate::units::text::{group, show_seconds};

/// Layers shown.
pub const LAYERS: u32 = 8;

/// Resources in the order shown.
pub const TRACKS: [(Track, &str); 4] = [
    (Track::Compute, "GPU computes"),
    (Track::Up, "link up"),
    (Track::Down, "link down"),
    (Track::Host, "host attends"),
];

/// One use of a resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Place of its resource in [`TRACKS`].
    pub track: usize,
    /// The layer it is for; none for moves and write-backs.
    pub layer: Option<u32>,
    /// From and to, since the begin of the step's compute \[s\].
    pub span: (f64, f64),
}

/// A piece of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    /// Its words.
    pub words: Words,
    /// Time shown \[s\].
    pub until: f64,
    /// What happens in it, by resource and time.
    pub uses: Vec<Use>,
}

/// Keeps the slices of the last step.
struct Last {
    step: u64,
    wanted: u64,
    slices: Vec<Slice>,
}

impl Observer for Last {
    fn step(&mut self, _: &StepFact<'_>) -> Result<()> {
        self.step += 1;
        Ok(())
    }

    fn watches(&self) -> bool {
        false
    }

    fn draws(&self) -> bool {
        // The step before may hold transfers that run ahead for this one.
        self.step + 1 >= self.wanted
    }

    fn drawn(&mut self, slices: &[Slice]) -> Result<()> {
        if self.step == self.wanted {
            self.slices.extend_from_slice(slices);
        }
        Ok(())
    }
}

/// The layers of the last step.
///
/// # Errors
/// As `simulate`; usage, if nothing fits.
pub fn layers(base: &Scenario) -> Result<Layers> {
    let mut s = base.in_lockstep();
    s.deployment.fidelity = Fidelity::Layer;
    let mut last = Last {
        step: 0,
        wanted: u64::from(s.output.max(1)) - 1,
        slices: Vec::new(),
    };
    let outcome = simulate_watched(&s, &mut last)?;
    let compute = last.slices.iter().filter(|c| c.track == Track::Compute);
    let Some(begin) = compute.map(|c| c.begin).min() else {
        return Err(Error::usage("no step runs, so there are no layers to draw")
            .help("`kvplan simulate` with the same flags says what does not fit"));
    };
    let since = |p: crate::units::Ps| p.secs() - begin.secs();
    let until = last
        .slices
        .iter()
        .filter(|c| matches!(c.what, What::Layer(n) if n < LAYERS));
    let until = until.map(|c| since(c.end)).fold(0.0, f64::max);
    let mut uses: Vec<Use> = last
        .slices
        .iter()
        .filter_map(|c| used(c, &since, until))
        .collect();
    uses.sort_by(|a, b| a.track.cmp(&b.track).then(a.span.0.total_cmp(&b.span.0)));
    Ok(Layers {
        words: Words {
            title: format!("The first {LAYERS} layers of a step"),
            subtitle: deployment(&s),
            caption: format!(
                "Step {} of {}, T1 mode {}, overlap {}; numbers are layers. A gap in the first row is the GPU waiting. Mean time a token \
                 over the run: {}. Lockstep, n = 1; {}.",
                group(&(last.wanted + 1).to_string()),
                group(&s.output.to_string()),
                s.deployment.t1.word(),
                outcome.overlap,
                outcome
                    .throughput
                    .tpot_mean_s
                    .map_or_else(|| "none".into(), show_seconds),
                calibration(&s)
            ),
        },
        until,
        uses,
    })
}

fn used(slice: &Slice, since: &dyn Fn(crate::units::Ps) -> f64, until: f64) -> Option<Use> {
    let track = TRACKS.iter().position(|(t, _)| *t == slice.track)?;
    let span = (since(slice.begin).max(0.0), since(slice.end).min(until));
    let layer = match slice.what {
        What::Layer(n) => Some(n),
        _ => None,
    };
    (span.1 > span.0).then_some(Use { track, layer, span })
}
