//! What is measured: points, and who measures them.
//!
//! A point is one thing to time, as data: what, how, and the sizes that matter for it. A probe says which points it can
//! measure and times one of them when asked; [`measure`] decides the order and how often. So every device is measured by
//! the same rules (warm-up, then rounds over all points in an order shuffled anew each round, so that a slow minute falls on
//! all points and not on one), and a recorded run is a probe like any other ([`RecordedProbe`]). Rival: probes that loop
//! by themselves, each with rules of its own, which no recording can stand in for. Times are microseconds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt;

use super::raw::{Head, Raw};
use crate::error::Result;
use crate::stats::{Purpose, stream};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($(#[$each:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$each])* $variant),+ }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its word in a raw file.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The one of a word.
            pub fn of(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|v| v.word() == word)
            }
        }
    };
}

words! {
    /// What is timed.
    Measurement:
    /// One copy between host and device of `bytes`; mode pinned, pageable or duplex (the other direction busy).
    Copy = "copy",
    /// `pieces` copies of `bytes` each; mode loop, batch, gather-stage, scatter or zero-copy.
    Pieces = "pieces",
    /// A kernel of `threads` multiprocessors that reads `bytes` of host memory in place.
    ZeroCopy = "zero_copy",
    /// Device memory: `bytes` read, or copied; mode read or copy.
    Hbm = "hbm",
    /// Decode attention of one layer over KV in device memory.
    Attention = "attention",
    /// The same with `fetched` tokens of each context brought over the link meanwhile.
    AttentionPrefetch = "attention_prefetch",
    /// `bytes` of KV to int8 on the device.
    Quant = "quant",
    /// `bytes` of int8 KV back on the device.
    Dequant = "dequant",
    /// A copy of `bytes` and attention, each alone and both at once; parts compute, transfer and whole.
    Overlap = "overlap",
    /// Host memory: `bytes` read by `threads`.
    DdrRead = "ddr_read",
    /// `bytes` copied by `threads`.
    DdrCopy = "ddr_copy",
    /// `pieces` random pages of `bytes` each gathered into one place by `threads`.
    DdrGather = "ddr_gather",
    /// The greatest half of `pieces` scores found by one thread.
    Select = "select",
    /// `pieces` scores sorted by one thread.
    Sort = "sort",
    /// `bytes` of binary16 to int8 by token, on the host.
    HostQuant = "host_quant",
    /// `bytes` of int8 to binary32, on the host.
    HostDequant = "host_dequant",
    /// `pieces` multiplications and additions in registers of `threads`.
    MultiplyAdd = "multiply_add",
    /// Attention of one layer on the host over its own memory.
    HostAttention = "host_attention",
    /// A decode step of the tier loop; parts step, compute, transfer, exposed and retier.
    TierLoop = "tier_loop",
}

words! {
    /// Which way bytes go.
    Direction:
    /// Host to device.
    Up = "h2d",
    /// Device to host.
    Down = "d2h",
    /// Both at once.
    Both = "both",
}

words! {
    /// Which part of a sample a time is of.
    Part:
    /// All of it.
    Whole = "",
    /// A step of the tier loop.
    Step = "step",
    /// The device computing.
    Compute = "compute",
    /// The link busy.
    Transfer = "transfer",
    /// Waiting for the link.
    Exposed = "exposed",
    /// A re-tier.
    Retier = "retier",
}

words! {
    /// A size of a point, in the order of the columns of a raw file.
    Field:
    /// Bytes of a copy, of a pass, or of each piece.
    Bytes = "bytes",
    /// Pieces; scores of a selection; operations of multiply-adds.
    Pieces = "pieces",
    /// CPU threads; multiprocessors of a kernel.
    Threads = "threads",
    /// Sequences.
    Batch = "batch",
    /// Tokens of each.
    Context = "context",
    /// Tokens of each that lie in host memory.
    Fetched = "fetched",
    /// KV heads.
    KvHeads = "kv_heads",
    /// Query heads a KV head.
    Group = "group",
    /// Numbers of a head.
    HeadDim = "head_dim",
    /// Layers.
    Layers = "layers",
    /// Layers in flight.
    Depth = "depth",
}

/// Sizes of a point.
const FIELDS: usize = Field::ALL.len();

/// One thing to time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// What.
    pub measurement: Measurement,
    /// How: a word of lower-case letters, digits and dashes; may be empty.
    pub mode: String,
    /// Which way, where there is one.
    pub direction: Option<Direction>,
    /// Kept from the fit, to be predicted.
    pub hold: bool,
    sizes: [Option<u64>; FIELDS],
}

impl Point {
    /// A point without sizes.
    pub fn new(measurement: Measurement, mode: &str) -> Self {
        Self {
            measurement,
            mode: mode.into(),
            direction: None,
            hold: false,
            sizes: [None; FIELDS],
        }
    }

    /// The same with a size.
    #[must_use]
    pub fn with(mut self, field: Field, size: u64) -> Self {
        self.sizes[field as usize] = Some(size);
        self
    }

    /// The same in a direction.
    #[must_use]
    pub fn going(mut self, direction: Direction) -> Self {
        self.direction = Some(direction);
        self
    }

    /// The same, kept from the fit.
    #[must_use]
    pub fn held(mut self) -> Self {
        self.hold = true;
        self
    }

    /// The same without a size.
    #[must_use]
    pub fn without(mut self, field: Field) -> Self {
        self.sizes[field as usize] = None;
        self
    }

    /// A size; none where it does not apply.
    pub fn get(&self, field: Field) -> Option<u64> {
        self.sizes[field as usize]
    }

    /// A size as a number; 1 where it does not apply.
    pub fn size(&self, field: Field) -> f64 {
        self.get(field).unwrap_or(1) as f64
    }

    /// Bytes of KV of 16 bits that one layer of its attention reads.
    pub fn kv_bytes(&self) -> f64 {
        let sizes = [Field::Batch, Field::Context, Field::KvHeads, Field::HeadDim];
        sizes.iter().map(|f| self.size(*f)).product::<f64>() * 4.0
    }

    /// For people and as a key: `copy.pinned.h2d.bytes=4096`, without what does not apply.
    pub fn label(&self) -> String {
        let mut out = self.measurement.word().to_string();
        let way = self.direction.map_or("", Direction::word);
        for word in [self.mode.as_str(), way] {
            if !word.is_empty() {
                out = out + "." + word;
            }
        }
        for field in Field::ALL {
            if let Some(size) = self.get(*field) {
                out = out + "." + field.word() + "=" + &size.to_string();
            }
        }
        out
    }
}

/// A time of a part of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Which part.
    pub part: Part,
    /// How long \[us\].
    pub us: f64,
}

/// How often and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Samples that are thrown away first, of each point.
    pub warm_up: u32,
    /// Samples of each point.
    pub repetitions: u32,
    /// After this no round begins, once each point has three samples.
    pub budget: Duration,
}

impl Pace {
    /// For a look: well under a minute.
    pub const QUICK: Self = Self {
        warm_up: 1,
        repetitions: 25,
        budget: Duration::from_secs(35),
    };
    /// For a profile: a few minutes at most.
    pub const FULL: Self = Self {
        warm_up: 2,
        repetitions: 101,
        budget: Duration::from_secs(330),
    };
}

/// Something that can time points.
pub trait Probe {
    /// The points that it measures, in the order of the raw file.
    fn points(&self) -> Vec<Point>;

    /// How often it wants to be asked.
    fn pace(&self) -> Pace;

    /// Times a point once, in one part or several; none if it cannot (any more), after which the point is not asked again.
    ///
    /// # Errors
    /// Device: what broke, after which nothing more can be measured.
    fn sample(&mut self, point: &Point) -> Result<Option<Vec<Reading>>>;

    /// What it is and the conditions it saw, asked when all is measured. A key `MEASUREMENT.WHAT` (`copy.link`) is a
    /// condition of that measurement and is quoted beside its parameters, any other of the whole run.
    ///
    /// # Errors
    /// Device: it cannot be asked.
    fn head(&mut self) -> Result<Head>;
}

/// Fewest samples of a point.
const FEWEST: usize = 3;

/// A point on its way.
struct Taking {
    point: Point,
    samples: Vec<Vec<Reading>>,
    /// The probe cannot time it (any more).
    gone: bool,
}

impl Taking {
    fn enough(&self) -> bool {
        self.gone || self.samples.len() >= FEWEST
    }

    /// Asks for one sample, which counts unless it warms up.
    fn take(&mut self, probe: &mut dyn Probe, counts: bool) -> Result<()> {
        match probe.sample(&self.point)? {
            Some(mut readings) if counts => {
                readings.sort_by_key(|r| r.part);
                self.samples.push(readings);
            }
            Some(_) => {}
            None => self.gone = true,
        }
        Ok(())
    }
}

/// Times all points of a probe, counting samples in `done`.
///
/// # Errors
/// What the probe says.
pub fn measure(probe: &mut dyn Probe, seed: u64, done: &AtomicU64) -> Result<Raw> {
    let pace = probe.pace();
    let taking = |point| Taking {
        point,
        samples: Vec::new(),
        gone: false,
    };
    let mut all: Vec<Taking> = probe.points().into_iter().map(taking).collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    let mut rng = stream(seed, Purpose::Order);
    let begun = Instant::now();
    for round in 0..pace.warm_up.saturating_add(pace.repetitions) {
        let counts = round >= pace.warm_up;
        for i in (1..order.len()).rev() {
            order.swap(i, rng.random_range(0..=i));
        }
        for at in &order {
            let point = &mut all[*at];
            // Late, warm-up is left out and nothing is asked more than it must be.
            let late = begun.elapsed() > pace.budget;
            if !point.gone && !(late && (point.enough() || !counts)) {
                point.take(probe, counts)?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
        let late = begun.elapsed() > pace.budget;
        if all.iter().all(|p| p.gone) || late && all.iter().all(Taking::enough) {
            break;
        }
    }
    let mut raw = Raw::default();
    for taken in all {
        for reading in taken.samples.into_iter().flatten() {
            raw.push(taken.point.clone(), reading.part, reading.us);
        }
    }
    raw.head = probe.head()?;
    Ok(raw)
}

/// A recorded run, asked again.
#[derive(Clone, Debug)]
pub struct RecordedProbe {
    raw: Raw,
    next: BTreeMap<Point, usize>,
}

impl RecordedProbe {
    /// Of a raw file.
    pub fn new(raw: Raw) -> Self {
        Self {
            raw,
            next: BTreeMap::new(),
        }
    }
}

impl Probe for RecordedProbe {
    fn points(&self) -> Vec<Point> {
        self.raw.points()
    }

    fn pace(&self) -> Pace {
        Pace {
            warm_up: 0,
            repetitions: u32::MAX,
            budget: Duration::MAX,
        }
    }

    fn sample(&mut self, point: &Point) -> Result<Option<Vec<Reading>>> {
        let next = self.next.entry(point.clone()).or_default();
        let readings: Vec<Reading> = self.raw.sample(point, *next).collect();
        *next += 1;
        Ok((!readings.is_empty()).then_some(readings))
    }

    fn head(&mut self) -> Result<Head> {
        Ok(self.raw.head.clone())
    }
}
