//! Rows of one law on one card, and that law's parameters as a vector.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::minimum::{self, Range};
use super::{FEWEST, Parameter, spread};
use crate::hardware::class::Fitted;
use crate::hardware::kernels::{DecodeAttention, Kernels, Linear, PrefillAttention, SingleRow};
use crate::hardware::{Quantity, Source, Value};
use crate::validate::machine::Machine;
use crate::validate::tables::{Case, Fits, Law};

/// A measured call.
pub struct Row {
    /// Table that it is in.
    pub file: String,
    /// Measured, in the table's unit.
    pub measured: f64,
    /// The law.
    pub law: Law,
}

/// The rows of a law on a card.
pub struct Group {
    /// Catalog id of the card.
    pub hardware: String,
    /// The law.
    pub fits: Fits,
    /// The card with the profile it has now.
    pub base: Machine,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// Starts of a search, as factors of a parameter's usual value.
const STARTS: usize = 6;

/// Loss over the rows under which a parameter counts as not told by them.
const UNTOLD: f64 = 1e-3;

/// Resampled fits behind the interval of a parameter.
const RESAMPLED: u64 = 24;

/// How many times slower a single row must be for a kernel of its own.
const OTHER_KERNEL: f64 = 1.4;

/// A row with the machine it is on, and whether it is of a software of 2024.
type Dated = (Machine, bool, Row);

/// Cases by card and law; and which groups are too small. Rows of a software of 2024 (`vidur`) count only where a card has
/// no newer ones.
pub fn groups(cases: Vec<(String, Case)>) -> (Vec<Group>, Vec<String>) {
    let mut all: BTreeMap<(String, Fits), Vec<Dated>> = BTreeMap::new();
    for (file, case) in cases {
        let (Some(fits), Ok(law)) = (case.fits, case.law) else {
            continue;
        };
        let base = law.family.machine().clone();
        let old = case.framework == "vidur";
        let row = Row {
            file,
            measured: case.measured,
            law,
        };
        let key = (base.hardware.id.clone(), fits);
        all.entry(key).or_default().push((base, old, row));
    }
    let (mut groups, mut small) = (Vec::new(), Vec::new());
    for ((hardware, fits), rows) in all {
        let newer = rows.iter().filter(|r| !r.1).count() >= FEWEST;
        let Some(base) = rows.first().map(|r| r.0.clone()) else {
            continue;
        };
        let kept = rows.into_iter().filter(|r| !(newer && r.1));
        let group = Group {
            hardware,
            fits,
            base,
            rows: kept.map(|r| r.2).collect(),
        };
        if group.rows.len() < FEWEST && fits != Fits::Experts {
            small.push(format!(
                "{} {}: {} rows",
                group.hardware,
                group.name(),
                group.rows.len()
            ));
        } else {
            groups.push(group);
        }
    }
    (groups, small)
}

/// The machine from which a search starts: laws of the card that are already fitted in place.
pub fn start(base: &Machine, card: Option<&Fitted>) -> Machine {
    let mut kernels = base.hardware.gpu.kernels.clone();
    if let Some(law) = card.and_then(|c| c.attention.clone()) {
        kernels.attention = law;
    }
    if let Some(law) = card.and_then(|c| c.linear.clone()) {
        kernels.linear = law;
    }
    base.with_kernels(kernels)
}

impl Group {
    /// When it is fitted: after the laws that it leans on.
    pub fn turn(&self) -> u8 {
        match self.fits {
            // The activations of a product pass through the L2 that attention shows.
            Fits::Attention(None) => 0,
            Fits::Experts => 2,
            _ => 1,
        }
    }

    /// The table of the profile that holds the law.
    pub fn name(&self) -> String {
        match self.fits {
            Fits::Attention(None) => "attention".into(),
            Fits::Attention(Some(family)) => format!("attention_of.{family}"),
            Fits::Attention8Bit => "attention_8bit".into(),
            Fits::Linear => "linear".into(),
            Fits::Linear8Bit => "linear_8bit".into(),
            Fits::Prefill => "prefill".into(),
            Fits::Experts => "experts".into(),
        }
    }

    /// The card without laws.
    pub fn card(&self) -> Fitted {
        Fitted {
            id: self.hardware.clone(),
            generation: self.base.hardware.generation.clone(),
            memory_kind: self.base.hardware.memory_kind.clone(),
            attention: None,
            attention_8bit: None,
            attention_of: BTreeMap::new(),
            linear: None,
            linear_8bit: None,
            prefill: None,
        }
    }

    /// |predicted / measured - 1| of every row.
    pub fn errors(&self, machine: &Machine) -> Vec<f64> {
        let error = |r: &Row| ((r.law.of)(machine) / r.measured - 1.0).abs();
        self.rows.iter().map(error).collect()
    }

    /// The best parameters with their intervals, and the machine with them.
    pub fn fitted(&self, start: &Machine) -> (Machine, Vec<Parameter>) {
        let mut start = start.clone();
        let single = self.single(&start);
        set_single(&mut start, self.fits, single);
        let ranges: Vec<Range> = self.knobs(single).iter().map(|k| k.range).collect();
        let every: Vec<usize> = (0..self.rows.len()).collect();
        let at = |rows: &[usize], x: &[f64]| self.loss(rows, &self.with(&start, single, x));
        let mut best = minimum::search(&ranges, STARTS, None, |x| at(&every, x));
        let told = tell(&ranges, &mut best, |x| at(&every, x));
        let resampled: Vec<Vec<f64>> = (0..RESAMPLED)
            .map(|seed| {
                let rows = minimum::resample(self.rows.len(), seed);
                minimum::search(&ranges, 1, Some(&best), |x| at(&rows, x))
            })
            .collect();
        let knobs = self.knobs(single);
        let parameters = knobs.iter().enumerate().map(|(i, knob)| {
            let (low, high) = if told[i] {
                minimum::interval(best[i], resampled.iter().map(|x| x[i]))
            } else {
                (knob.range.low, knob.range.high)
            };
            Parameter {
                name: knob.name.into(),
                unit: knob.unit.into(),
                value: best[i],
                low,
                high,
                source: if told[i] {
                    Source::Measured
                } else {
                    Source::Assumed
                },
            }
        });
        let parameters: Vec<Parameter> = parameters.collect();
        let machine = self.with(&start, single, &best);
        (machine, parameters)
    }

    /// How far the law misses some of the rows.
    fn loss(&self, rows: &[usize], machine: &Machine) -> f64 {
        let miss = |i: &usize| {
            let row = &self.rows[*i];
            let off = libm::log((row.law.of)(machine).max(1e-12) / row.measured) / minimum::SCALE;
            (off * off + 1.0).sqrt() - 1.0
        };
        rows.iter().map(miss).sum::<f64>() / rows.len() as f64
    }

    /// Puts the fitted law, its intervals and its spread into the card.
    pub fn keep(&self, machine: &Machine, parameters: &[Parameter], card: &mut Fitted) {
        let spread = spread::of(&spread::ratios(self, machine));
        let mut kernels = machine.hardware.gpu.kernels.clone();
        let single = parameters.iter().any(|p| p.name.starts_with("single"));
        let reference = self.reference(machine);
        for (knob, found) in self.knobs(single).iter().zip(parameters) {
            (knob.put)(&mut kernels, self.fits, found, &reference);
        }
        match self.fits {
            Fits::Attention(family) => {
                let mut law = family
                    .and_then(|f| kernels.attention_of.get(f).cloned())
                    .unwrap_or(kernels.attention);
                law.spread = spread;
                match family {
                    None => card.attention = Some(law),
                    Some(name) => {
                        card.attention_of.insert(name.into(), law);
                    }
                }
            }
            Fits::Attention8Bit => {
                card.attention_8bit = Some(DecodeAttention {
                    spread,
                    ..kernels.attention_8bit
                });
            }
            Fits::Linear => {
                card.linear = Some(Linear {
                    spread,
                    ..kernels.linear
                });
            }
            Fits::Linear8Bit => {
                card.linear_8bit = Some(Linear {
                    spread,
                    ..kernels.linear_8bit
                });
            }
            Fits::Experts => {
                let ends = spread.bulk;
                let laws = [&mut card.linear, &mut card.linear_8bit];
                laws.into_iter().flatten().for_each(|l| l.experts = ends);
            }
            Fits::Prefill => {
                card.prefill = Some(PrefillAttention {
                    spread,
                    ..kernels.prefill
                });
            }
        }
    }

    /// Where a parameter comes from.
    fn reference(&self, machine: &Machine) -> String {
        let files: BTreeSet<&str> = self.rows.iter().map(|r| r.file.as_str()).collect();
        let files: Vec<&str> = files.into_iter().collect();
        let mut errors = self.errors(machine);
        let median = crate::stats::percentile(&mut errors, 0.5).unwrap_or(0.0);
        format!(
            "fit over {} rows of {}, median error {:.1} %",
            self.rows.len(),
            files.join(" and "),
            100.0 * median
        )
    }
}

/// A parameter of a law.
struct Knob {
    name: &'static str,
    unit: &'static str,
    range: Range,
    put: fn(&mut Kernels, Fits, &Parameter, &str),
}

/// Writes a value and its interval.
fn put<Q: Quantity>(value: &mut Value<Q>, found: &Parameter, reference: &str) {
    let reference = match found.source {
        Source::Measured => reference,
        _ => "usual; the rows of its law do not tell it",
    };
    *value = Value::new(found.value, found.low, found.high, found.source, reference);
}

/// Which parameters the rows tell: those of which one end of the range misses more. The others are put back to what is usual.
fn tell(ranges: &[Range], best: &mut [f64], loss: impl Fn(&[f64]) -> f64) -> Vec<bool> {
    let least = loss(best);
    let told = |i: usize| {
        let at = |end: f64| {
            let mut x = best.to_vec();
            x[i] = end;
            loss(&x)
        };
        at(ranges[i].low).max(at(ranges[i].high)) > least + UNTOLD
    };
    let told: Vec<bool> = (0..ranges.len()).map(told).collect();
    for (i, _) in told.iter().enumerate().filter(|t| !t.1) {
        best[i] = ranges[i].usual;
    }
    told
}

fn attention(k: &mut Kernels, fits: Fits) -> &mut DecodeAttention {
    match fits {
        Fits::Attention8Bit => &mut k.attention_8bit,
        Fits::Attention(Some(family)) => {
            let usual = k.attention.clone();
            k.attention_of.entry(family.into()).or_insert(usual)
        }
        _ => &mut k.attention,
    }
}

fn linear(k: &mut Kernels, fits: Fits) -> &mut Linear {
    match fits {
        Fits::Linear8Bit => &mut k.linear_8bit,
        _ => &mut k.linear,
    }
}

macro_rules! knob {
    ($of:ident, $name:literal, $unit:literal, $($field:ident).+, $low:expr, $usual:expr, $high:expr) => {
        Knob {
            name: $name,
            unit: $unit,
            range: Range { low: $low, usual: $usual, high: $high },
            put: |k, fits, found, reference| put(&mut $of(k, fits).$($field).+, found, reference),
        }
    };
}

fn prefill(k: &mut Kernels, _: Fits) -> &mut PrefillAttention {
    &mut k.prefill
}

fn single_row(k: &mut Kernels, fits: Fits) -> &mut SingleRow {
    let law = linear(k, fits);
    let usual = SingleRow {
        fixed: law.fixed.clone(),
        share: law.share.clone(),
    };
    law.single.get_or_insert(usual)
}

/// Gives a law the kernel for a single row, or takes it away.
fn set_single(machine: &mut Machine, fits: Fits, single: bool) {
    if matches!(fits, Fits::Linear | Fits::Linear8Bit) {
        let k = &mut Arc::make_mut(&mut machine.hardware).gpu.kernels;
        linear(k, fits).single = None;
        if single {
            single_row(k, fits);
        }
    }
}

impl Group {
    /// The parameters of the law with the ranges that physics leaves them.
    fn knobs(&self, single: bool) -> Vec<Knob> {
        match self.fits {
            Fits::Attention(_) | Fits::Attention8Bit => vec![
                knob!(attention, "fixed", "s", fixed, 1e-7, 1e-5, 6e-5),
                knob!(attention, "split", "s", split, 1e-8, 1e-6, 1e-5),
                knob!(attention, "pair", "s", pair, 1e-11, 1e-8, 1e-6),
                knob!(attention, "share", "share", share, 0.2, 0.85, 1.0),
                knob!(attention, "l2", "count", l2, 0.5, 2.0, 10.0),
            ],
            Fits::Linear | Fits::Linear8Bit => {
                let mut all = vec![
                    knob!(linear, "fixed", "s", fixed, 1e-7, 3e-6, 2e-5),
                    knob!(linear, "share", "share", share, 0.2, 0.8, 1.0),
                    knob!(linear, "gemm", "share", gemm, 0.1, 0.7, 1.0),
                    knob!(linear, "sharpness", "count", sharpness, 1.0, 2.0, 20.0),
                    knob!(linear, "l2", "count", l2, 0.5, 2.0, 10.0),
                ];
                if single {
                    all.push(knob!(
                        single_row,
                        "single.fixed",
                        "s",
                        fixed,
                        1e-7,
                        1e-5,
                        1e-4
                    ));
                    all.push(knob!(
                        single_row,
                        "single.share",
                        "share",
                        share,
                        0.05,
                        0.5,
                        1.0
                    ));
                }
                all
            }
            Fits::Experts => Vec::new(),
            Fits::Prefill => vec![
                knob!(prefill, "fixed", "s", fixed, 1e-7, 8e-6, 6e-5),
                knob!(prefill, "share", "share", share, 0.1, 0.5, 1.0),
                knob!(prefill, "fill", "count", fill, 0.1, 100.0, 5000.0),
                knob!(prefill, "operands", "count", operands, 0.02, 0.4, 3.0),
            ],
        }
    }

    /// The machine with these parameters.
    fn with(&self, start: &Machine, single: bool, x: &[f64]) -> Machine {
        let mut machine = start.clone();
        let k = &mut Arc::make_mut(&mut machine.hardware).gpu.kernels;
        for (knob, value) in self.knobs(single).iter().zip(x) {
            let found = Parameter {
                name: String::new(),
                unit: String::new(),
                value: *value,
                low: *value,
                high: *value,
                source: Source::Measured,
            };
            (knob.put)(k, self.fits, &found, "");
        }
        machine
    }

    /// Whether single rows run in a kernel of their own: their median time over that of the law fitted on the others.
    fn single(&self, start: &Machine) -> bool {
        if !matches!(self.fits, Fits::Linear | Fits::Linear8Bit) {
            return false;
        }
        let mut start = start.clone();
        set_single(&mut start, self.fits, false);
        let alone = self.single_rows(&start);
        if alone.len() < FEWEST / 2 || alone.len() == self.rows.len() {
            return false;
        }
        let others: Vec<usize> = (0..self.rows.len())
            .filter(|i| !alone.contains(i))
            .collect();
        let ranges: Vec<Range> = self.knobs(false).iter().map(|k| k.range).collect();
        let best = minimum::search(&ranges, 2, None, |x| {
            self.loss(&others, &self.with(&start, false, x))
        });
        let machine = self.with(&start, false, &best);
        let slow = |i: &usize| self.rows[*i].measured / (self.rows[*i].law.of)(&machine);
        let mut ratios: Vec<f64> = alone.iter().map(slow).collect();
        crate::stats::percentile(&mut ratios, 0.5).is_some_and(|r| r > OTHER_KERNEL)
    }

    /// Rows that a kernel for a single row would change.
    fn single_rows(&self, start: &Machine) -> Vec<usize> {
        let mut marked = start.clone();
        set_single(&mut marked, self.fits, true);
        let k = &mut Arc::make_mut(&mut marked.hardware).gpu.kernels;
        single_row(k, self.fits).fixed.value = 1.0;
        let moved = |i: &usize| {
            let law = &self.rows[*i].law.of;
            law(&marked).to_bits() != law(start).to_bits()
        };
        (0..self.rows.len()).filter(moved).collect()
    }
}
