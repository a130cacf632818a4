//! Numbers with dimensions: bytes, rates, time.
//!
//! Only the products that make sense exist (`Bytes / BytesPerSecond` is a time, `Bytes + Tokens` does not compile).
//! GB is 10^9 bytes and GiB is 2^30 bytes everywhere, in and out. Token counts are plain `u32`/`u64` whose doc says
//! `[tokens]`: they index arrays far too often for a newtype to pay.

pub mod text;
pub mod time;

pub use time::Ps;

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// Bytes of a GiB.
pub const GIB: f64 = 1_073_741_824.0;

/// A number of bytes.
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
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// From a real number of bytes, rounded up; negative and NaN become 0.
    #[allow(clippy::cast_possible_truncation)] // saturates by definition of `as`
    pub fn ceil(bytes: f64) -> Self {
        Self(bytes.ceil() as u64)
    }

    /// As a real number of bytes.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// In units of 2^30 bytes.
    pub fn gib(self) -> f64 {
        self.as_f64() / (1u64 << 30) as f64
    }

    /// In units of 10^9 bytes.
    pub fn gb(self) -> f64 {
        self.as_f64() / 1e9
    }

    /// `self - other`, or nothing where that is negative.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        Self(iter.map(|b| b.0).sum())
    }
}
