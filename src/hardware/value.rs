//! A number that knows where it comes from.
//!
//! Nothing in kvplan rests on a bare constant: every figure of a machine or a runtime is a [`Value`] with a source and
//! an interval, and an outcome lists those that mattered. The interval is meant as p5-p95; for a datasheet or assumed
//! value it is a judgement and says so by its source.
//!
//! In TOML: `hbm_bandwidth = { value = "3350 GB/s", low = "3300 GB/s", high = "3360 GB/s", source = "datasheet", ref = "NVIDIA H100 datasheet" }`.

use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::units::text;

/// Where a number comes from, best first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Measured on such a device.
    Measured,
    /// The vendor's datasheet.
    Datasheet,
    /// A figure somebody published.
    Published,
    /// Nobody measured it: a judgement.
    Assumed,
}

impl Source {
    /// The word shown to people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Datasheet => "datasheet",
            Self::Published => "published",
            Self::Assumed => "assumed",
        }
    }
}

/// A kind of quantity: how it is written and shown. SI base units inside (bytes, bytes/s, FLOP/s, seconds).
pub trait Quantity: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// Base unit, as it ends a JSON key.
    const UNIT: &'static str;
    /// Reads the quantity in base units.
    ///
    /// # Errors
    /// A sentence that names the text.
    fn parse(text: &str) -> Result<f64, String>;
    /// Shows it to people.
    fn show(value: f64) -> String;
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $unit:literal, $parse:expr, $show:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;
        impl Quantity for $name {
            const UNIT: &'static str = $unit;
            fn parse(text: &str) -> Result<f64, String> { ($parse)(text) }
            fn show(value: f64) -> String { ($show)(value) }
        }
    };
}

quantity!(/// Memory \[bytes\].
    Capacity, "bytes", |t: &str| text::bytes(t).map(crate::units::Bytes::as_f64), |v| text::show_bytes(crate::units::Bytes::ceil(v)));
quantity!(/// Bandwidth \[bytes/s\].
    Bandwidth, "bytes_per_s", text::bytes_per_second, text::show_rate);
quantity!(/// Arithmetic rate \[FLOP/s\].
    FlopRate, "flop_per_s", text::flops, |v: f64| format!("{} TFLOP/s", text::significant(v / 1e12)));
quantity!(/// Time \[s\].
    Duration, "s", text::seconds, text::show_seconds);
quantity!(/// A share of something named in the field's doc \[0..=1\].
    Share, "share", text::share, |v: f64| format!("{} %", text::significant(v * 100.0)));
quantity!(/// A plain count or factor.
    Count, "count", |t: &str| t.trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0).ok_or_else(|| format!("`{t}` is not a number")),
    show_count);
quantity!(/// Price \[US dollars per hour\].
    UsdPerHour, "usd_per_hour", |t: &str| t.trim().trim_end_matches("USD/h").trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0).ok_or_else(|| format!("`{t}` is not a price: write it like `2.50 USD/h`")),
    |v: f64| format!("{v:.2} USD/h"));

/// Whole counts without decimals: `12`, `8,192`; factors as they are.
fn show_count(value: f64) -> String {
    if value.fract() == 0.0 {
        text::group(&format!("{value:.0}"))
    } else {
        text::significant(value)
    }
}

/// Standard deviations from the median of a normal law to its 95th percentile.
pub const Z95: f64 = 1.644_853_626_951_472_7;

/// Where a number lies that is `z` standard deviations from its best estimate: a log-normal law whose halves are apart, so
/// that -[`Z95`], 0 and [`Z95`] give `low`, `middle` and `high`. Rates, times and shares are positive and err by factors, and
/// few intervals are even. Where the low end or the middle is zero there is no factor: that half is normal, cut at zero.
pub fn lies(low: f64, middle: f64, high: f64, z: f64) -> f64 {
    let end = if z < 0.0 { low } else { high };
    let part = z.abs() / Z95;
    if middle > 0.0 && end > 0.0 {
        middle * libm::exp(part * libm::log(end / middle))
    } else {
        (middle + part * (end - middle)).max(0.0)
    }
}

/// A number with its interval (p5-p95) and source.
#[derive(Clone, Debug, PartialEq)]
pub struct Value<Q: Quantity> {
    /// Best estimate, base units.
    pub value: f64,
    /// p5, base units.
    pub low: f64,
    /// p95, base units.
    pub high: f64,
    /// Where it comes from.
    pub source: Source,
    /// The document, file or reasoning behind it.
    pub reference: String,
    quantity: PhantomData<Q>,
}

impl<Q: Quantity> Value<Q> {
    /// A value with its interval.
    pub fn new(
        value: f64,
        low: f64,
        high: f64,
        source: Source,
        reference: impl Into<String>,
    ) -> Self {
        Self {
            value,
            low,
            high,
            source,
            reference: reference.into(),
            quantity: PhantomData,
        }
    }

    /// The best estimate in base units.
    pub fn get(&self) -> f64 {
        self.value
    }

    /// As shown to people: `3,350 GB/s`.
    pub fn show(&self) -> String {
        Q::show(self.value)
    }

    /// The same number with another value, for `what if` runs; the interval scales along.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
            ..self.clone()
        }
    }
}

/// TOML form of a value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    value: Text,
    low: Text,
    high: Text,
    source: Source,
    #[serde(rename = "ref")]
    reference: String,
}

/// A quantity is written as text with its unit, or as a plain number where it has none.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Text(String),
    Number(f64),
}

impl Text {
    fn read<Q: Quantity>(&self) -> Result<f64, String> {
        match self {
            Self::Text(t) => Q::parse(t),
            Self::Number(n) => Q::parse(&n.to_string()),
        }
    }
}

impl<'de, Q: Quantity> Deserialize<'de> for Value<Q> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        let read = |t: &Text| t.read::<Q>().map_err(D::Error::custom);
        let (value, low, high) = (read(&raw.value)?, read(&raw.low)?, read(&raw.high)?);
        if !(low <= value && value <= high) {
            return Err(D::Error::custom(
                "the interval must hold the value: low <= value <= high",
            ));
        }
        Ok(Self::new(value, low, high, raw.source, raw.reference))
    }
}

impl<Q: Quantity> Serialize for Value<Q> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut s = serializer.serialize_struct("Value", 6)?;
        s.serialize_field("value", &self.value)?;
        s.serialize_field("low", &self.low)?;
        s.serialize_field("high", &self.high)?;
        s.serialize_field("unit", Q::UNIT)?;
        s.serialize_field("source", &self.source)?;
        s.serialize_field("ref", &self.reference)?;
        s.end()
    }
}
