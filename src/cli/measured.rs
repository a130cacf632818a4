//! The measuring half of `kvplan calibrate`: which probes run on what, under a bar; Ctrl-C keeps what is finished.
//!
//! The GPU is opened before anything is measured, so that what stands in the way is said at once. The first Ctrl-C ends the
//! run after the sample in progress: what has been measured is fitted and written, marked `partial`, and the exit code is
//! 130 all the same; the second ends the program.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::calibrate::cuda::tier_loop::{Checked, check};
use crate::calibrate::cuda::{CudaProbe, Gpu};
use crate::calibrate::facts::{Facts, today};
use crate::calibrate::host::HostProbe;
use crate::calibrate::probe::{Pace, Point, Probe, Reading, measure};
use crate::calibrate::raw::{Head, Raw, tidy};
use crate::catalog::Shelf;
use crate::error::{Error, Result};
use crate::trace::default_trace;

use super::out::Out;
use super::{interrupt, progress};

/// What to measure.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // switches
pub(super) struct Asked<'a> {
    /// A look only.
    pub(super) quick: bool,
    /// No GPU.
    pub(super) host_only: bool,
    /// Nothing but the GPU.
    pub(super) gpu_only: bool,
    /// Which GPU, as CUDA counts them.
    pub(super) device: usize,
    /// Card under the measurements, where one was named.
    pub(super) card: Option<&'a str>,
    /// Leave out the host's name.
    pub(super) anonymous: bool,
    /// Whether to hold the tier loop's outputs against attention over everything first.
    pub(super) check: bool,
    /// Seed of the order.
    pub(super) seed: u64,
}

/// A probe that has nothing more to say once the user has asked to stop.
struct UntilStopped<'a>(&'a mut dyn Probe);

impl Probe for UntilStopped<'_> {
    fn points(&self) -> Vec<Point> {
        self.0.points()
    }

    fn pace(&self) -> Pace {
        self.0.pace()
    }

    fn sample(&mut self, point: &Point) -> Result<Option<Vec<Reading>>> {
        if interrupt::asked() {
            return Ok(None);
        }
        self.0.sample(point)
    }

    fn head(&mut self) -> Result<Head> {
        self.0.head()
    }
}

/// The catalog's card of a device's name.
fn card_of(device: &str) -> Option<&'static str> {
    let bare = device
        .trim_start_matches("NVIDIA ")
        .trim_start_matches("GeForce ");
    let dashed = bare.to_ascii_lowercase().replace(' ', "-");
    let id = |name: &str| Shelf::Hardware.id(name);
    id(bare).or_else(|| id(&dashed))
}

/// Measures, to the end or to Ctrl-C; `otherwise` is the card under a host alone.
///
/// # Errors
/// Device: no GPU that could be measured. Usage: a card that the catalog does not know.
pub(super) fn measured(asked: Asked<'_>, otherwise: &str, out: &Out) -> Result<Raw> {
    let gpu = (!asked.host_only)
        .then(|| Gpu::open(asked.device))
        .transpose()?;
    let card = card(asked.card, gpu.as_ref(), otherwise)?;
    interrupt::hold(true);
    let mut raw = Raw::default();
    let what = if gpu.is_some() {
        "gpu and host"
    } else {
        "host"
    };
    if let Some(gpu) = gpu {
        if asked.check {
            for (mode, found) in checked(&gpu, asked.quick)? {
                out.detail(&format!("tier loop, {mode}: {found}"));
                raw.head
                    .insert(format!("check.{}", mode.replace('-', "_")), found);
            }
        }
        let mut probe = CudaProbe::new(gpu, asked.quick)?;
        raw.join(watched(&mut probe, asked.seed, out)?);
    }
    if asked.gpu_only {
        raw.head.extend(Facts::here().head(asked.anonymous));
    } else if !interrupt::asked() {
        let pace = if asked.quick { Pace::QUICK } else { Pace::FULL };
        let mut probe = HostProbe::new(pace, asked.anonymous)?;
        raw.join(watched(&mut probe, asked.seed, out)?);
    }
    interrupt::hold(false);
    let mode = if asked.quick { "quick" } else { "full" };
    for (key, value) in [
        ("date", today()),
        ("gpu_id", tidy(&card)),
        ("kvplan", env!("CARGO_PKG_VERSION").into()),
        ("measured", what.into()),
        ("mode", mode.into()),
        ("seed", asked.seed.to_string()),
    ] {
        raw.head.insert(key.into(), value);
    }
    if interrupt::asked() {
        raw.head.insert("partial".into(), "interrupted".into());
    }
    Ok(raw)
}

/// Runs the tier loop in every mode over the trace in the binary: mode, and how near it came.
///
/// # Errors
/// Internal: a mode computes something else than attention over everything. Device: it cannot be run.
pub(super) fn checked(gpu: &Gpu, quick: bool) -> Result<Vec<(&'static str, String)>> {
    let one = |c: Checked| {
        let score = c
            .score
            .map_or(String::new(), |s| format!(", scores {s:.1e}"));
        (
            c.mode.word(),
            format!("{} outputs, off by {:.1e} at most{score}", c.outputs, c.out),
        )
    };
    let all = check(gpu, &default_trace()?, if quick { 1 } else { 3 })?;
    Ok(all.into_iter().map(one).collect())
}

/// Which card of the catalog stands under the measurements: a file's path as it was given, a name as the catalog spells it.
fn card(named: Option<&str>, gpu: Option<&Gpu>, otherwise: &str) -> Result<String> {
    let found = gpu.map(|g| (g, card_of(&g.name)));
    let card = match (named, found) {
        (Some(card), _) => Shelf::Hardware.id(card).unwrap_or(card),
        (None, Some((_, Some(card)))) => card,
        (None, Some((gpu, None))) => {
            return Err(Error::usage(format!("the catalog has no card called {:?}", gpu.name)).help(
                "name the nearest with --gpu: what is not measured is its (`kvplan list hardware`), or a path to a .toml of your own",
            ));
        }
        (None, None) => otherwise,
    };
    Ok(card.into())
}

/// Measures under a bar.
fn watched(probe: &mut dyn Probe, seed: u64, out: &Out) -> Result<Raw> {
    let pace = probe.pace();
    let rounds = u64::from(pace.warm_up) + u64::from(pace.repetitions);
    let total = rounds.saturating_mul(probe.points().len() as u64);
    let done = Arc::new(AtomicU64::new(0));
    let watch = progress::samples(total, Arc::clone(&done), out.quiet());
    let raw = measure(&mut UntilStopped(probe), seed, &done)?;
    drop(watch);
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::card_of;

    /// Names as `nvidia-smi` prints them.
    #[test]
    fn a_device_finds_its_card() {
        assert_eq!(card_of("NVIDIA GeForce RTX 5080"), Some("rtx-5080"));
        assert_eq!(card_of("NVIDIA H200"), Some("h200-sxm"));
        assert_eq!(card_of("NVIDIA H100 80GB HBM3"), Some("h100-sxm"));
        assert_eq!(card_of("NVIDIA A100-SXM4-80GB"), Some("a100-sxm-80gb"));
        assert_eq!(card_of("NVIDIA L40S"), Some("l40s"));
        assert_eq!(card_of("Stand-in device (not a GPU)"), None);
    }
}
