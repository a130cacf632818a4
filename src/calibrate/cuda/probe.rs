//! The GPU as a probe: which points, how often, one sample of each when asked.
//!
//! How often a point's work is repeated within a sample follows from its first sample: until it lasts 200 us, at most 64
//! times and at most as often as keeps the queue short. The card is looked at once a second, right after a sample, when its
//! clocks are still those of the work.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::gpu::Gpu;
use super::nvml::Watch;
use super::points::{self, Limits};
use super::rig::Rig;
use super::tier_loop;
use super::{attention, copies, kernels, passes, pieces};
use crate::calibrate::facts::Facts;
use crate::calibrate::probe::{Field, Measurement, Pace, Part, Point, Probe, Reading};
use crate::calibrate::raw::Head;
use crate::error::{Error, Result};

/// Shortest sample \[us\].
const SHORTEST: f64 = 200.0;

/// Most repetitions within a sample.
const MOST: u64 = 64;

/// Most operations that a sample queues.
const QUEUED: u64 = 800;

/// Memory that is wanted: device and pinned \[bytes\].
const WANTED: (u64, u64) = (6 << 30, 5 << 29);

/// The same for a look.
const WANTED_QUICK: (u64, u64) = (3 << 30, 1 << 29);

/// How often the card is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Rounds of a look.
const QUICK: Pace = Pace {
    warm_up: 1,
    repetitions: 5,
    budget: Duration::from_secs(14),
};

/// Rounds of a profile.
const FULL: Pace = Pace {
    warm_up: 2,
    repetitions: 15,
    budget: Duration::from_secs(110),
};

/// A GPU that is measured.
#[derive(Debug)]
pub struct CudaProbe {
    rig: Rig,
    watch: Watch,
    points: Vec<Point>,
    pace: Pace,
    repeats: BTreeMap<Point, u32>,
    pageable: Vec<u8>,
    looked: Instant,
}

impl CudaProbe {
    /// Takes memory on a GPU and warms its link.
    ///
    /// # Errors
    /// Device: there is too little memory, or the kernels cannot be loaded.
    pub fn new(gpu: Gpu, quick: bool) -> Result<Self> {
        let mut watch = Watch::new(&gpu.bus);
        let wanted = if quick { WANTED_QUICK } else { WANTED };
        let rig = Rig::new(gpu, &watch, wanted, Facts::here().available)?;
        rig.fill()?;
        rig.warm(&mut watch)?;
        let limits = Limits {
            device: rig.device.bytes,
            pinned: rig.pinned.bytes,
            sms: rig.gpu.sms,
            batch: rig.gpu.driver.batch,
            engines: rig.gpu.engines,
            quick,
        };
        Ok(Self {
            points: points::all(&limits),
            pace: if quick { QUICK } else { FULL },
            repeats: BTreeMap::new(),
            pageable: Vec::new(),
            looked: Instant::now(),
            rig,
            watch,
        })
    }

    fn readings(&mut self, point: &Point, k: u32) -> Result<Vec<Reading>> {
        let rig = &self.rig;
        let us = match point.measurement {
            Measurement::Copy => copies::copy(rig, &mut self.pageable, point, k)?,
            Measurement::Pieces => pieces::pieces(rig, point, k)?,
            Measurement::ZeroCopy
            | Measurement::Hbm
            | Measurement::Quant
            | Measurement::Dequant => passes::pass(rig, point, k)?,
            Measurement::Attention => attention::resident(rig, point, k)?,
            Measurement::AttentionPrefetch => attention::prefetch(rig, point, k)?,
            Measurement::Overlap => return attention::overlap(rig, point, k),
            Measurement::TierLoop => return tier_loop::sample(rig, point),
            other => {
                return Err(Error::internal(format!(
                    "{} is not the GPU's",
                    other.word()
                )));
            }
        };
        let part = Part::Whole;
        Ok(vec![Reading { part, us }])
    }
}

/// Operations that one repetition queues.
fn queued(point: &Point) -> u64 {
    match (point.measurement, point.mode.as_str()) {
        (Measurement::Pieces, "loop") => point.get(Field::Pieces).unwrap_or(1),
        (Measurement::AttentionPrefetch, _) => point.get(Field::Batch).unwrap_or(1) + 8,
        _ => 6,
    }
}

/// How often a sample of `us` microseconds repeats its work.
fn repeats(point: &Point, us: f64) -> u32 {
    let enough = (SHORTEST / us.max(1e-3)).ceil() as u64;
    enough.clamp(1, MOST).min(QUEUED / queued(point)).max(1) as u32
}

impl Probe for CudaProbe {
    fn points(&self) -> Vec<Point> {
        self.points.clone()
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn sample(&mut self, point: &Point) -> Result<Option<Vec<Reading>>> {
        let known = self.repeats.get(point).copied();
        let readings = self.readings(point, known.unwrap_or(1))?;
        if known.is_none() {
            let us = readings.iter().map(|r| r.us).fold(f64::MAX, f64::min);
            self.repeats.insert(point.clone(), repeats(point, us));
        }
        if self.looked.elapsed() > LOOK {
            self.watch.during();
            self.looked = Instant::now();
        }
        // A clock that stood still is no time.
        let positive = |r: &Reading| r.us > 0.0;
        Ok(Some(readings).filter(|r| r.iter().all(positive)))
    }

    fn head(&mut self) -> Result<Head> {
        let mut head = self.rig.gpu.head();
        head.extend(self.watch.head());
        head.insert("gpu.kernels".into(), kernels::fingerprint());
        head.insert(
            "gpu.measured_bytes".into(),
            self.rig.device.bytes.to_string(),
        );
        head.insert("gpu.pinned_bytes".into(), self.rig.pinned.bytes.to_string());
        head.insert("gpu.pinned_by".into(), self.rig.pinned.kind().into());
        Ok(head)
    }
}
