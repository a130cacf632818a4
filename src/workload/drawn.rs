//! Lengths of requests as a law: all alike, log-normal, by quantiles, or drawn from a file.
//!
//! Prompt and output are drawn apart, since few sources state them together; a file keeps its pairs. Log-normal is given
//! by its median and the deviation of its logarithm, the form in which serving traces are published; quantiles are joined
//! by lines in the logarithm, and nothing is drawn beyond the outermost. Draws come from one seeded stream. Units: tokens.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rand::{Rng, RngExt};
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::hardware::Source;
use crate::stats;

use super::Lengths;

/// Longest prompt or output that is drawn (tokens).
const MOST: f64 = (1 << 20) as f64;

/// Quantiles in the binary.
const EMBEDDED: [&str; 1] = [include_str!("../../models/lengths/servegen-r1.toml")];

/// A law of lengths.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawn {
    /// All as `prompt` and `output` say.
    Fixed,
    /// Median and deviation of the logarithm, of prompts and of outputs.
    LogNormal([(f64, f64); 2]),
    /// Quantiles of both.
    Quantiles(Arc<Quantiles>),
    /// Pairs of a file, drawn with replacement.
    File(Arc<Lengths>),
}

/// Published quantiles of lengths.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantiles {
    /// Name in `--lengths`.
    pub id: String,
    /// As its authors call it.
    pub name: String,
    /// What kind of source.
    pub source: Source,
    /// The document.
    #[serde(rename = "ref")]
    pub reference: String,
    quantile: Vec<f64>,
    prompt_tokens: Vec<f64>,
    output_tokens: Vec<f64>,
}

/// The quantiles in the binary.
///
/// # Errors
/// Internal: an embedded file is broken.
pub fn embedded() -> Result<&'static [Arc<Quantiles>]> {
    static ALL: OnceLock<std::result::Result<Vec<Arc<Quantiles>>, String>> = OnceLock::new();
    let read = |text: &&str| {
        toml::from_str(text)
            .map(Arc::new)
            .map_err(|e| e.to_string())
    };
    ALL.get_or_init(|| EMBEDDED.iter().map(read).collect())
        .as_deref()
        .map_err(|e| Error::internal(format!("lengths in the binary: {e}")))
}

impl Drawn {
    /// `fixed`, `lognormal:prompt=500/0.8,output=2000/0.7`, quantiles by name, or a file of lengths.
    ///
    /// # Errors
    /// Usage: none of these. Data: a damaged file.
    pub fn parse(text: &str) -> Result<Self> {
        if text == "fixed" {
            return Ok(Self::Fixed);
        }
        if let Some(rest) = text.strip_prefix("lognormal:") {
            return log_normal(rest).map_err(Error::usage);
        }
        if let Some(known) = embedded()?.iter().find(|q| q.id == text) {
            return Ok(Self::Quantiles(Arc::clone(known)));
        }
        if text.contains(['.', '/', '\\']) || Path::new(text).exists() {
            return Lengths::read(Path::new(text)).map(|l| Self::File(Arc::new(l)));
        }
        let names: Vec<&str> = embedded()?.iter().map(|q| q.id.as_str()).collect();
        Err(Error::usage(format!("`{text}` is no law of lengths")).help(format!(
            "it takes fixed, lognormal:prompt=MEDIAN/SIGMA,output=MEDIAN/SIGMA, {}, or a file with one `prompt,output` a line",
            names.join(", ")
        )))
    }

    /// Prompt and output of `n` requests; `fixed` ones where nothing is drawn.
    pub fn draw(&self, n: u32, fixed: (u32, u32), seed: u64) -> Vec<(u32, u32)> {
        let mut rng = stats::stream(seed, stats::Purpose::Lengths);
        (0..n).map(|_| self.one(fixed, &mut rng)).collect()
    }

    fn one(&self, fixed: (u32, u32), rng: &mut impl Rng) -> (u32, u32) {
        match self {
            Self::Fixed => fixed,
            Self::LogNormal(laws) => {
                let [prompt, output] = laws.map(|(median, sigma)| {
                    let z = normal(rng.random_range(0.0..1.0), rng.random_range(0.0..1.0));
                    whole(median * libm::exp(sigma * z))
                });
                (prompt, output)
            }
            Self::Quantiles(q) => {
                let mut at = |values: &[f64]| q.at(values, rng.random_range(0.0..1.0));
                (at(&q.prompt_tokens), at(&q.output_tokens))
            }
            Self::File(lengths) => {
                #[allow(clippy::cast_possible_truncation)] // at most 65,536 lines
                let lines = lengths.count() as u32;
                lengths.of(rng.random_range(0..lines))
            }
        }
    }
}

impl Quantiles {
    /// The length below which a share of all lies.
    fn at(&self, values: &[f64], share: f64) -> u32 {
        let above = self.quantile.partition_point(|q| *q < share);
        let (Some(low), Some(high)) = (above.checked_sub(1), values.get(above)) else {
            let end = if above == 0 {
                values.first()
            } else {
                values.last()
            };
            return whole(end.copied().unwrap_or(1.0));
        };
        let (from, to) = (self.quantile[low], self.quantile[above]);
        let along = (share - from) / (to - from);
        whole(values[low] * libm::pow(high / values[low], along))
    }
}

/// A draw of the standard normal law from two of the uniform one (Box and Muller).
fn normal(u: f64, v: f64) -> f64 {
    libm::sqrt(-2.0 * libm::log(1.0 - u)) * libm::cos(std::f64::consts::TAU * v)
}

/// The nearest number of tokens, at least one.
#[allow(clippy::cast_possible_truncation)] // clamped
fn whole(tokens: f64) -> u32 {
    libm::round(tokens).clamp(1.0, MOST) as u32
}

fn log_normal(text: &str) -> std::result::Result<Drawn, String> {
    let mut laws = [None, None];
    for part in text.split(',') {
        let law = |t: &str| {
            let (median, sigma) = t.split_once('/')?;
            let (median, sigma): (f64, f64) =
                (median.trim().parse().ok()?, sigma.trim().parse().ok()?);
            ((1.0..=MOST).contains(&median) && (0.0..=5.0).contains(&sigma))
                .then_some((median, sigma))
        };
        let (slot, value) = match part.trim().split_once('=') {
            Some(("prompt", v)) => (0, v),
            Some(("output", v)) => (1, v),
            _ => {
                return Err(format!(
                    "lognormal: `{part}` is neither prompt=MEDIAN/SIGMA nor output=MEDIAN/SIGMA"
                ));
            }
        };
        let law = law(value).ok_or_else(|| {
            format!("lognormal: `{part}`: a median of 1 to 1,048,576 tokens, a slash, a deviation of 0 to 5")
        })?;
        laws[slot] = Some(law);
    }
    match laws {
        [Some(prompt), Some(output)] => Ok(Drawn::LogNormal([prompt, output])),
        _ => Err("lognormal needs prompt=MEDIAN/SIGMA and output=MEDIAN/SIGMA".into()),
    }
}
