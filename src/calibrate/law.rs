//! What a time is made of, by measurement: the terms whose coefficients are fitted.
//!
//! Points that differ only in the sizes that the terms vary with form a lane and are fitted together; everything else that
//! a point says (mode, direction, threads, queries a head) names the lane. So no law has to say how a rate depends on
//! threads or on the path of a copy: each has a lane of its own. Times are microseconds, coefficients microseconds a unit;
//! a parameter is a coefficient as a time, or one over it as a rate. Measurements without a law stay tables.

use super::probe::{Field, Measurement, Part, Point};
use super::raw::Series;

/// What a coefficient means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A time: `s`.
    Seconds,
    /// One over it, a rate: `bytes_per_s` or `flop_per_s`.
    Rate(&'static str),
}

impl Unit {
    /// As it ends a JSON key.
    pub fn word(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Rate(unit) => unit,
        }
    }

    /// A coefficient \[us a unit\] in this unit; none where a rate has no end.
    pub fn of(self, coefficient: f64) -> Option<f64> {
        match self {
            Self::Seconds => Some(coefficient * 1e-6),
            Self::Rate(_) if coefficient > 0.0 => Some(1e6 / coefficient),
            Self::Rate(_) => None,
        }
    }
}

/// One term of a cost.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// Its parameter: `call`, `bandwidth`.
    pub name: &'static str,
    /// What its coefficient means.
    pub unit: Unit,
    /// How often it counts at a point.
    pub of: fn(&Point) -> f64,
}

/// The cost of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    /// Its terms; the last can stand alone where there are too few points for all.
    pub terms: &'static [Term],
    /// Sizes that vary within a lane.
    pub varies: &'static [Field],
}

const CALL: Term = Term {
    name: "call",
    unit: Unit::Seconds,
    of: |_| 1.0,
};
const PIECE: Term = Term {
    name: "piece",
    unit: Unit::Seconds,
    of: |p| p.size(Field::Pieces),
};
const BYTES: Unit = Unit::Rate("bytes_per_s");

/// `a + n / B`.
const LINE: Law = Law {
    terms: &[
        CALL,
        Term {
            name: "bandwidth",
            unit: BYTES,
            of: |p| p.size(Field::Bytes),
        },
    ],
    varies: &[Field::Bytes],
};

/// `a + N c + N n / B`.
const PIECES: Law = Law {
    terms: &[
        CALL,
        PIECE,
        Term {
            name: "bandwidth",
            unit: BYTES,
            of: |p| p.size(Field::Pieces) * p.size(Field::Bytes),
        },
    ],
    varies: &[Field::Pieces, Field::Bytes],
};

/// `a + N c`.
const EACH: Law = Law {
    terms: &[
        CALL,
        Term {
            name: "each",
            ..PIECE
        },
    ],
    varies: &[Field::Pieces],
};

/// `a + N log2(N) c`.
const SORTED: Law = Law {
    terms: &[
        CALL,
        Term {
            name: "each_doubling",
            unit: Unit::Seconds,
            of: |p| p.size(Field::Pieces) * doublings(p.size(Field::Pieces)),
        },
    ],
    varies: &[Field::Pieces],
};

/// `a + operations / F`.
const FLOPS: Law = Law {
    terms: &[
        CALL,
        Term {
            name: "rate",
            unit: Unit::Rate("flop_per_s"),
            of: |p| p.size(Field::Pieces),
        },
    ],
    varies: &[Field::Pieces],
};

const KV: Term = Term {
    name: "bandwidth",
    unit: BYTES,
    of: Point::kv_bytes,
};

/// `a + KV / B`.
const HOST_ATTENTION: Law = Law {
    terms: &[CALL, KV],
    varies: &[Field::Batch, Field::KvHeads, Field::Context],
};

/// As the service law of decode attention: `fixed + split * doublings + pair * sequences * KV heads + KV / B`.
const ATTENTION: Law = Law {
    terms: &[
        Term {
            name: "fixed",
            ..CALL
        },
        Term {
            name: "split",
            unit: Unit::Seconds,
            of: |p| doublings(1.0 + p.size(Field::Context) / 128.0),
        },
        Term {
            name: "pair",
            unit: Unit::Seconds,
            of: |p| p.size(Field::Batch) * p.size(Field::KvHeads),
        },
        KV,
    ],
    varies: &[Field::Batch, Field::KvHeads, Field::Context],
};

/// log2, straight between powers of two, as the service laws have it: the same bits everywhere.
fn doublings(x: f64) -> f64 {
    let mut left = x.clamp(1.0, 1e18);
    let mut whole = 0.0;
    while left >= 2.0 {
        left /= 2.0;
        whole += 1.0;
    }
    whole + left - 1.0
}

/// The law of a measurement; none where only a simulation of the whole step predicts it.
pub fn of(measurement: Measurement) -> Option<&'static Law> {
    Some(match measurement {
        Measurement::Copy
        | Measurement::ZeroCopy
        | Measurement::Hbm
        | Measurement::Quant
        | Measurement::Dequant
        | Measurement::DdrRead
        | Measurement::DdrCopy
        | Measurement::HostQuant
        | Measurement::HostDequant => &LINE,
        Measurement::Pieces | Measurement::DdrGather => &PIECES,
        Measurement::Select => &EACH,
        Measurement::Sort => &SORTED,
        Measurement::MultiplyAdd => &FLOPS,
        Measurement::HostAttention => &HOST_ATTENTION,
        Measurement::Attention => &ATTENTION,
        Measurement::AttentionPrefetch | Measurement::Overlap | Measurement::TierLoop => {
            return None;
        }
    })
}

/// What points of a lane have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    /// The point without what varies.
    pub point: Point,
    /// The part.
    pub part: Part,
}

impl Lane {
    /// The lane of a point.
    pub fn of(point: &Point, part: Part) -> Self {
        let varies = of(point.measurement).map_or(Field::ALL, |l| l.varies);
        let mut point = varies.iter().fold(point.clone(), |p, f| p.without(*f));
        point.hold = false;
        Self { point, part }
    }

    /// The lane of a series.
    pub fn of_series(series: &Series) -> Self {
        Self::of(&series.point, series.part)
    }

    /// For people and as a key: `ddr_read.threads=2`.
    pub fn label(&self) -> String {
        let label = self.point.label();
        match self.part {
            Part::Whole => label,
            part => format!("{label}.{}", part.word()),
        }
    }
}
