//! Fitting the laws of kernels: parameters from tables of measurements, with intervals and spreads.
//!
//! `fit DIR` reads the tables of operators that `validate` knows, groups their rows by card and law, and finds for each
//! group the parameters under which the law misses the rows least: the sum of `sqrt(1 + (ln(predicted / measured) / 0.05)^2)`,
//! which is a square for small misses and grows as the miss itself for large ones, so that rows in which a library chose
//! another kernel do not draw the rest. The laws are those of `service`, evaluated through the cases of `validate`; no
//! formula stands here. Then: intervals of the parameters by fitting resampled rows, the [`Spread`] of the rows about the
//! law by regime, and the spread of cards predicted from the others ([`class`]). Minimum by Nelder and Mead from several
//! starts in logarithms of the parameters ([`minimum`]); everything is a function of the rows alone. Rival: least squares
//! of `t = a + bytes / BW`, which is off by 5 to 12 % (VALIDATION 1) and is drawn by the worst rows.

pub mod groups;
pub mod minimum;
pub mod spread;
pub mod text;

use std::collections::BTreeMap;
use std::path::Path;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::hardware::Source;
use crate::hardware::class::{self, ClassSpread, Fitted};
use crate::hardware::kernels::Spread;
use crate::stats;
use crate::validate::machine::Machine;
use crate::validate::stock::Stock;
use crate::validate::tables::{Case, Fits};
use crate::validate::{sheet, tables};
use groups::Group;

/// Schema id of [`Fit`].
pub const SCHEMA: &str = "kvplan/fit/1";

/// Rows under which a group is not fitted.
const FEWEST: usize = 20;

/// What was fitted: result of `kvplan fit --format json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fit {
    /// `kvplan/fit/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// The laws, by card.
    pub laws: Vec<FittedLaw>,
    /// Groups with too few rows.
    pub left_out: Vec<String>,
}

/// One law of one card.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FittedLaw {
    /// Catalog id of the card.
    pub hardware: String,
    /// Table of the profile that holds it: `linear_8bit`.
    pub law: String,
    /// Rows that it was fitted on.
    pub rows: usize,
    /// Median of |predicted / measured - 1| over them.
    pub median_abs_rel_error: f64,
    /// 90th percentile of the same.
    pub p90_abs_rel_error: f64,
    /// Median of |predicted / measured - 1| when the card is predicted from the others; none if no other card has the law.
    pub class_median_abs_rel_error: Option<f64>,
    /// The parameters.
    pub parameters: Vec<Parameter>,
}

/// A parameter with its interval, in base units.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Parameter {
    /// Its key.
    pub name: String,
    /// `s`, `share` or `count`.
    pub unit: String,
    /// Best estimate.
    pub value: f64,
    /// p5.
    pub low: f64,
    /// p95.
    pub high: f64,
    /// `measured`; `assumed` where the rows do not tell it: the usual value within the range that physics leaves.
    pub source: Source,
}

/// The profile files that a fit writes, by file name, and what it found.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiles {
    /// The answer.
    pub fit: Fit,
    /// Text of each file.
    pub files: BTreeMap<String, String>,
}

/// Fits every law that the tables of a folder hold rows of.
///
/// # Errors
/// Usage: the folder cannot be read or holds no table of operators. Data: a damaged table.
pub fn fit(folder: &Path) -> Result<Profiles> {
    let (groups, left_out) = groups::groups(cases(folder)?);
    if groups.is_empty() {
        return Err(Error::usage(format!(
            "{}: no table with {FEWEST} rows of one kernel on one card",
            folder.display()
        ))
        .help("tables are known by the end of their names: decode_attn.csv, linear_layers.csv, prefill_ops.csv"));
    }
    let mut cards: BTreeMap<String, Fitted> = BTreeMap::new();
    let mut laws = Vec::new();
    for turn in 0..=2 {
        let turn: Vec<&Group> = groups.iter().filter(|g| g.turn() == turn).collect();
        let done: Vec<(&Group, Machine, Vec<Parameter>)> = turn
            .into_par_iter()
            .map(|group| {
                let start = groups::start(&group.base, cards.get(&group.hardware));
                let (machine, parameters) = group.fitted(&start);
                (group, machine, parameters)
            })
            .collect();
        for (group, machine, parameters) in done {
            let card = cards
                .entry(group.hardware.clone())
                .or_insert_with(|| group.card());
            group.keep(&machine, &parameters, card);
            laws.push(law(group, &machine, parameters));
        }
    }
    let spreads = classes(&groups, &cards, &mut laws);
    laws.sort_by(|a, b| (&a.hardware, &a.law).cmp(&(&b.hardware, &b.law)));
    let mut files: BTreeMap<String, String> = cards
        .values()
        .map(|card| (format!("{}.toml", card.id), text::card(card)))
        .collect();
    files.insert("class.toml".into(), text::class(&spreads));
    let fit = Fit {
        schema: SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        laws,
        left_out,
    };
    Ok(Profiles { fit, files })
}

/// The cases of all tables that hold calls of one kernel.
fn cases(folder: &Path) -> Result<Vec<(String, Case)>> {
    let mut stock = Stock::default();
    let mut all = Vec::new();
    for (path, kind) in sheet::find(folder)? {
        if tables::OPERATORS.contains(&kind.ending) {
            let sheet = sheet::read(&path, kind)?;
            let cases = (kind.cases)(&sheet, &mut stock)?;
            all.extend(cases.into_iter().map(|case| (sheet.file.clone(), case)));
        }
    }
    Ok(all)
}

/// A law's entry in the answer.
fn law(group: &Group, machine: &Machine, parameters: Vec<Parameter>) -> FittedLaw {
    let mut errors = group.errors(machine);
    FittedLaw {
        hardware: group.hardware.clone(),
        law: group.name(),
        rows: group.rows.len(),
        median_abs_rel_error: stats::percentile(&mut errors, 0.5).unwrap_or(0.0),
        p90_abs_rel_error: stats::percentile(&mut errors, 0.9).unwrap_or(0.0),
        class_median_abs_rel_error: None,
        parameters,
    }
}

/// The spread of cards that are predicted from the others, pooled over cards; notes each law's error on the way.
fn classes(
    groups: &[Group],
    cards: &BTreeMap<String, Fitted>,
    laws: &mut [FittedLaw],
) -> ClassSpread {
    let none = ClassSpread {
        attention: Spread::NONE,
        linear: Spread::NONE,
        experts: [1.0; 2],
        prefill: Spread::NONE,
    };
    let mut pooled: [Vec<(usize, f64)>; 4] = Default::default();
    for group in groups {
        let others = cards.values().filter(|c| c.id != group.hardware);
        let others: Vec<&Fitted> = others.collect();
        let h = &group.base.hardware;
        let kernels = class::kernels(&h.id, &h.generation, &h.memory_kind, &others, &none);
        let Some(kernels) = kernels else { continue };
        let machine = group.base.with_kernels(kernels);
        let mut errors = group.errors(&machine);
        let name = group.name();
        if let Some(law) = laws
            .iter_mut()
            .find(|l| l.hardware == group.hardware && l.law == name)
        {
            law.class_median_abs_rel_error = stats::percentile(&mut errors, 0.5);
        }
        pooled[class_of(group.fits)].extend(spread::ratios(group, &machine));
    }
    let [attention, linear, prefill, experts] = pooled.map(|rows| spread::of(&rows));
    ClassSpread {
        attention,
        linear,
        experts: experts.bulk,
        prefill,
    }
}

/// Which of a class's spreads a law has.
fn class_of(fits: Fits) -> usize {
    match fits {
        Fits::Attention(_) | Fits::Attention8Bit => 0,
        Fits::Linear | Fits::Linear8Bit => 1,
        Fits::Prefill => 2,
        Fits::Experts => 3,
    }
}
