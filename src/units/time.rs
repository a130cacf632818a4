//! Simulated time: integer picoseconds.
//!
//! `u64` picoseconds last 213 days; at 4.8 TB/s one KiB takes 213 ps, so nanoseconds would be a percent off on many
//! small reads. Float seconds exist only inside service-time laws and are rounded *up* at one place,
//! [`Ps::from_secs`]. Addition saturates far above [`Ps::NEVER`], so that a link of zero bandwidth gives a run that
//! never ends instead of a panic; subtraction is checked.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Picoseconds: an instant since the start of the run, or a duration.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct Ps(pub u64);

impl Ps {
    /// The start of the run, or no time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any run: what a transfer over a link of zero bandwidth takes.
    pub const NEVER: Self = Self(u64::MAX >> 2);

    /// Where addition and multiplication saturate: far above NEVER, far below overflow.
    const MOST: u64 = u64::MAX >> 1;

    /// From seconds, rounded up; infinite, NaN and over [`Ps::NEVER`] become [`Ps::NEVER`], negative becomes zero.
    #[allow(clippy::cast_possible_truncation)] // bounded by NEVER
    pub fn from_secs(seconds: f64) -> Self {
        let ps = seconds * 1e12;
        if ps.is_nan() || ps >= Self::NEVER.0 as f64 {
            return Self::NEVER;
        }
        // Rounded up by hand, through i64: `ceil` is a library call on baseline x86-64 and u64 conversions are several
        // instructions, and this is the engine's innermost line.
        let whole = ps.max(0.0) as i64;
        let up = whole + i64::from((whole as f64) < ps);
        Self(up.unsigned_abs())
    }

    /// In seconds.
    #[allow(clippy::cast_possible_wrap)] // at most 2^63 by construction
    pub fn secs(self) -> f64 {
        self.0 as i64 as f64 * 1e-12
    }

    /// Whether this is so long that it never ends.
    pub fn is_never(self) -> bool {
        self >= Self::NEVER
    }

    /// `self - other`, or zero where that is negative.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Ps {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(Self::MOST))
    }
}

impl AddAssign for Ps {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Ps {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Mul<u64> for Ps {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n).min(Self::MOST))
    }
}

impl Sum for Ps {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}
