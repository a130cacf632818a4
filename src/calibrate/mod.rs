//! What this machine can do, measured and fitted: a profile for `--hardware`.
//!
//! A [`probe::Probe`] times points; a run of them is a [`raw::Raw`] file, and everything after it is a function of that
//! file alone: laws are fitted lane by lane ([`law`], [`fit`]), tables stand where a law misses, points that were kept from
//! the fit are predicted, and the values go over those of the catalog's card ([`profile`]). So `calibrate --from raw.csv`
//! writes the bytes of the run that wrote the raw file, on any machine. What is modelled: each cost as a sum of a few terms
//! that are known beforehand, since they are also those of `service`. What is ignored: how one measurement disturbs another
//! that runs beside it, other tenants, and drift over a day (`compare` shows it). Rival: keeping only the measured tables,
//! which say nothing between their points and nothing about why. Times in raw files are microseconds, else base units.

pub mod cuda;
pub mod device;
pub mod facts;
pub mod fit;
pub mod host;
pub mod host_attention;
pub mod import;
pub mod law;
mod limits;
pub mod pages;
pub mod probe;
pub mod profile;
pub mod raw;
pub mod table;

use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog;
use crate::error::{Error, Result};
use crate::hardware::{Calibration, Hardware};
use fit::Fits;
use probe::{Part, Point};
use raw::Raw;

/// Schema id of [`Answer`].
pub const SCHEMA: &str = "kvplan/calibrate/1";

/// Result of `kvplan calibrate --format json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// `kvplan/calibrate/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// Catalog id of the card under the measurements.
    pub hardware: String,
    /// Name of the profile's file without its ending.
    pub profile: String,
    /// What was fitted.
    pub calibration: Calibration,
}

/// A calibrated machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibrated {
    /// Its profile.
    pub hardware: Hardware,
    /// Name of its files without their ending.
    pub stem: String,
    /// Text of its profile.
    pub text: String,
}

impl Calibrated {
    /// Fits `raw` over `base`, whose laws of kernels are written out only if `kernels` (those of the catalog need not be).
    /// `beyond` predicts held-out points that no law covers.
    ///
    /// # Errors
    /// Data: a measured value that no machine has.
    pub fn of(
        raw: &Raw,
        base: Hardware,
        kernels: bool,
        beyond: &dyn Fn(&Fits, &Point, Part) -> Option<f64>,
    ) -> Result<Self> {
        let fits = Fits::of(raw);
        let holdouts = fits.holdouts(raw, beyond);
        let hardware = profile::profile(base, raw, &fits, holdouts);
        let text = profile::file(&hardware, kernels)?;
        catalog::hardware_in(&text, "the profile").map_err(|e| {
            Error::data(format!("what was measured makes no machine: {}", e.message))
                .help("look at the raw file: a time in it is not what it says")
        })?;
        Ok(Self {
            text,
            stem: profile::stem(raw),
            hardware,
        })
    }

    /// As an answer.
    pub fn answer(&self) -> Answer {
        Answer {
            schema: SCHEMA.into(),
            kvplan_version: env!("CARGO_PKG_VERSION").into(),
            hardware: self.hardware.id.clone(),
            profile: self.stem.clone(),
            calibration: self.hardware.calibration.clone().unwrap_or_default(),
        }
    }
}
