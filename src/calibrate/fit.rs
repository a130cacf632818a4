//! Laws fitted on a raw file, lane by lane, and what they predict.
//!
//! Each lane's medians are fitted by relative error ([`crate::stats::least`]); where the law misses a point by more than a
//! tenth, the medians stay as a table, and predictions interpolate its factors on the law: where a grid has one context of a
//! batch, the law still says how time grows with it. Where there is no law, times are interpolated. A lane with fewer points
//! than terms gives its last term alone, which is the rate of a single published figure. Points on lanes that nobody
//! measured are predicted between lanes that differ in the number of threads or of queries a head. Everything is a function
//! of the raw file: lanes go in order, and the resampling has a fixed seed.

use std::collections::BTreeMap;

use super::law::{self, Lane, Law, Unit};
use super::probe::{Field, Point};
use super::raw::{Raw, Series};
use super::table::Table;
use crate::hardware::calibration::{FittedParameter, Holdout, MeasuredTable};
use crate::stats::least::{self, Least, cost, median};

/// Miss beyond which a table stands beside a law.
pub const MISSES: f64 = 0.10;

/// Interval of a rate that rests on a single time: 5 % either way.
const ALONE: f64 = 0.05;

/// Resampled fits behind an interval: so many, fewer on a great many samples.
const DRAWS: usize = 300;

/// Samples drawn for the intervals of a lane, about.
const DRAWN: usize = 1_000_000;

/// Seed of the resampling.
const SEED: u64 = 20_260_510;

/// Lanes between which one may interpolate.
const BETWEEN: [Field; 2] = [Field::Threads, Field::Group];

/// One lane's law and table.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The lane.
    pub lane: Lane,
    /// Its parameters; none without a law.
    pub parameters: Vec<FittedParameter>,
    /// Its medians where the law misses or there is none.
    pub table: Option<MeasuredTable>,
    /// What qualifies it.
    pub note: Option<String>,
    law: Option<(&'static Law, Vec<f64>)>,
    interpolated: Option<Interpolated>,
}

/// What is interpolated where the law misses or there is none.
#[derive(Clone, Debug)]
struct Interpolated {
    /// Sizes of the table.
    fields: Vec<Field>,
    /// Factors on the law's cost, so that what the grid has not is the law's; times where there is no law.
    table: Table,
    on_law: bool,
}

/// All lanes of a raw file.
#[derive(Clone, Debug, Default)]
pub struct Fits {
    lanes: BTreeMap<Lane, Fitted>,
}

impl Fits {
    /// Fits what is not held out.
    pub fn of(raw: &Raw) -> Self {
        let mut by_lane: BTreeMap<Lane, Vec<&Series>> = BTreeMap::new();
        for series in raw.series().iter().filter(|s| !s.point.hold) {
            by_lane
                .entry(Lane::of_series(series))
                .or_default()
                .push(series);
        }
        let fitted = |(lane, series): (Lane, Vec<&Series>)| {
            let fitted = fitted(raw, &lane, &series);
            (lane, fitted)
        };
        Self {
            lanes: by_lane.into_iter().map(fitted).collect(),
        }
    }

    /// Lanes in order.
    pub fn lanes(&self) -> impl Iterator<Item = &Fitted> {
        self.lanes.values()
    }

    /// The parameter of a name.
    pub fn parameter(&self, name: &str) -> Option<&FittedParameter> {
        let mut all = self.lanes().flat_map(|l| &l.parameters);
        all.find(|p| p.name == name)
    }

    /// The predicted time of a point \[us\]; none where nothing near it was measured.
    pub fn predict(&self, point: &Point, part: super::probe::Part) -> Option<f64> {
        let lane = Lane::of(point, part);
        match self.lanes.get(&lane) {
            Some(fitted) => fitted.predict(point),
            None => BETWEEN.iter().find_map(|f| self.between(&lane, point, *f)),
        }
    }

    /// Between lanes that differ in one field.
    fn between(&self, lane: &Lane, point: &Point, field: Field) -> Option<f64> {
        let at = point.get(field)? as f64;
        let bare = lane.point.clone().without(field);
        let alike =
            |l: &&Fitted| l.lane.part == lane.part && l.lane.point.clone().without(field) == bare;
        let rows: Vec<(Vec<f64>, f64)> = self
            .lanes()
            .filter(alike)
            .filter_map(|l| Some((vec![l.lane.point.get(field)? as f64], l.predict(point)?)))
            .collect();
        let (low, high) = rows.iter().fold((f64::MAX, 0.0f64), |(low, high), (s, _)| {
            (low.min(s[0]), high.max(s[0]))
        });
        // Beyond what was measured nothing is known.
        let inside = low <= at && at <= high;
        Table::new(rows).filter(|_| inside)?.at(&[at])
    }

    /// Points that were held out, predicted by their laws, else by `beyond` (a simulation of the whole step), else by tables.
    pub fn holdouts(
        &self,
        raw: &Raw,
        beyond: &dyn Fn(&Self, &Point, super::probe::Part) -> Option<f64>,
    ) -> Vec<Holdout> {
        let one = |s: &Series| {
            let own = || self.predict(&s.point, s.part);
            let lawful = law::of(s.point.measurement).and_then(|_| own());
            let predicted = lawful
                .or_else(|| beyond(self, &s.point, s.part))
                .or_else(own)?;
            Some(holdout(s, predicted))
        };
        let held = raw.series().iter().filter(|s| s.point.hold);
        held.filter_map(one).collect()
    }
}

fn holdout(series: &Series, predicted: f64) -> Holdout {
    let measured = median(&series.us);
    let mut bare = series.point.clone();
    for field in Field::ALL {
        bare = bare.without(*field);
    }
    let label = series.point.label();
    let mode = bare.label();
    let shape = label.strip_prefix(&mode).unwrap_or_default();
    let part = match series.part.word() {
        "" => String::new(),
        part => format!(".{part}"),
    };
    Holdout {
        shape: shape.trim_start_matches('.').into(),
        mode: mode + &part,
        predicted_us: predicted,
        measured_us: measured,
        error: predicted / measured - 1.0,
    }
}

/// Median and worst |error|, where there are any.
pub fn judged(holdouts: &[Holdout]) -> Option<(f64, f64)> {
    let errors: Vec<f64> = holdouts.iter().map(|h| h.error.abs()).collect();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    (!errors.is_empty()).then(|| (median(&errors), worst))
}

impl Fitted {
    /// The time of a point of this lane (whatever its threads and group) \[us\].
    fn predict(&self, point: &Point) -> Option<f64> {
        let Some(known) = &self.interpolated else {
            return self.lawful(point);
        };
        let sizes: Vec<f64> = known.fields.iter().map(|f| point.size(*f)).collect();
        let found = known.table.at(&sizes)?;
        if known.on_law {
            Some(found * self.lawful(point)?)
        } else {
            Some(found)
        }
    }

    /// What the law says alone \[us\].
    fn lawful(&self, point: &Point) -> Option<f64> {
        let (law, coefficients) = self.law.as_ref()?;
        let row: Vec<f64> = law.terms.iter().map(|t| (t.of)(point)).collect();
        Some(cost(&row, coefficients)).filter(|us| *us > 0.0)
    }
}

/// Fits one lane.
fn fitted(raw: &Raw, lane: &Lane, series: &[&Series]) -> Fitted {
    let mut out = Fitted {
        lane: lane.clone(),
        parameters: Vec::new(),
        table: None,
        note: None,
        law: None,
        interpolated: None,
    };
    let medians: Vec<f64> = series.iter().map(|s| median(&s.us)).collect();
    let worst =
        law::of(lane.point.measurement).and_then(|law| lined(raw, law, series, &medians, &mut out));
    if worst.is_none_or(|w| w > MISSES) {
        tabled(series, &medians, &mut out);
        let said = worst.map(|w| {
            let (label, w) = (lane.label(), 100.0 * w);
            format!("{label}: its law misses by up to {w:.0} %, so its times are kept as a table, whose factors on the law are interpolated")
        });
        out.note = said.or(out.note.take());
    }
    out
}

/// Fits the law; its worst miss.
fn lined(
    raw: &Raw,
    law: &'static Law,
    series: &[&Series],
    medians: &[f64],
    out: &mut Fitted,
) -> Option<f64> {
    let label = out.lane.label();
    let rows = |terms: usize| -> Vec<Vec<f64>> {
        let first = law.terms.len() - terms;
        let row = |s: &&Series| {
            law.terms[first..]
                .iter()
                .map(|t| (t.of)(&s.point))
                .collect()
        };
        series.iter().map(row).collect()
    };
    let all = law.terms.len();
    let enough = series.len() >= all;
    let whole = Some(rows(all)).filter(|_| enough);
    let whole = whole.and_then(|rows| Some((least::fit(&rows, medians)?, rows)));
    let (best, rows) = if let Some(found) = whole {
        found
    } else {
        let rows = rows(1);
        let term = law.terms[all - 1].name;
        out.note = Some(format!(
            "{label}: too few sizes for all terms, {term} alone is fitted"
        ));
        (least::fit(&rows, medians)?, rows)
    };
    let samples: Vec<&[f64]> = series.iter().map(|s| s.us.as_slice()).collect();
    let count = samples.iter().map(|s| s.len()).sum::<usize>();
    let draws = u32::try_from((DRAWN / count.max(1)).clamp(20, DRAWS)).unwrap_or(20);
    let mut ends = least::intervals(&rows, &samples, &best, draws, SEED);
    // Times without repetitions say nothing of noise.
    if samples.iter().all(|s| s.len() == 1) {
        for (ends, c) in ends.iter_mut().zip(&best.coefficients) {
            *ends = [c / (1.0 + ALONE), c / (1.0 - ALONE)];
        }
    }
    let first = all - best.coefficients.len();
    let conditions = conditions(raw, &out.lane.point);
    for (i, term) in law.terms[first..].iter().enumerate() {
        let one = parameter(
            &label,
            term,
            (best.coefficients[i], ends[i]),
            &best,
            &samples,
        );
        out.parameters.extend(one.map(|p| FittedParameter {
            conditions: conditions.clone(),
            ..p
        }));
    }
    let mut coefficients = vec![0.0; first];
    coefficients.extend(&best.coefficients);
    out.law = Some((law, coefficients));
    Some(best.worst)
}

/// A term's parameter; none where a rate has no end.
fn parameter(
    label: &str,
    term: &law::Term,
    (coefficient, ends): (f64, [f64; 2]),
    best: &Least,
    samples: &[&[f64]],
) -> Option<FittedParameter> {
    let value = term.unit.of(coefficient)?;
    let [a, b] = ends.map(|c| term.unit.of(c).unwrap_or(value));
    let swap = term.unit != Unit::Seconds;
    let (low, high) = if swap { (b, a) } else { (a, b) };
    Some(FittedParameter {
        name: format!("{label}.{}", term.name),
        unit: term.unit.word().into(),
        value,
        low: low.min(value),
        high: high.max(value),
        points: samples.len() as u64,
        samples: samples.iter().map(|s| s.len() as u64).sum(),
        worst_residual: best.worst,
        conditions: String::new(),
    })
}

/// What the head says of a measurement.
fn conditions(raw: &Raw, point: &Point) -> String {
    let prefix = format!("{}.", point.measurement.word());
    let own = raw.head.iter().filter_map(|(key, value)| {
        let what = key.strip_prefix(&prefix)?;
        Some(format!("{what} {value}"))
    });
    own.collect::<Vec<_>>().join(", ")
}

/// Keeps the medians, by the sizes that differ.
fn tabled(series: &[&Series], medians: &[f64], out: &mut Fitted) {
    let differ = |f: &Field| {
        let first = series.first().and_then(|s| s.point.get(*f));
        series.iter().any(|s| s.point.get(*f) != first)
    };
    let fields: Vec<Field> = Field::ALL.iter().copied().filter(differ).collect();
    let sizes = |s: &Series| -> Vec<f64> { fields.iter().map(|f| s.point.size(*f)).collect() };
    let rows: Vec<(Vec<f64>, f64)> = series
        .iter()
        .map(|s| sizes(s))
        .zip(medians.iter().copied())
        .collect();
    let mut shown: Vec<Vec<f64>> = rows
        .iter()
        .map(|(s, t)| [s.as_slice(), &[*t]].concat())
        .collect();
    shown.sort_by(|a, b| {
        let order = a.iter().zip(b).map(|(x, y)| x.total_cmp(y));
        order.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    let names = fields.iter().map(|f| f.word().to_string());
    out.table = Some(MeasuredTable {
        name: out.lane.label(),
        columns: names.chain(["us".into()]).collect(),
        rows: shown,
    });
    let costs: Option<Vec<f64>> = series.iter().map(|s| out.lawful(&s.point)).collect();
    let on_law = costs.is_some();
    let costs = costs.unwrap_or_else(|| vec![1.0; rows.len()]);
    let left = rows
        .into_iter()
        .zip(costs)
        .map(|((s, us), cost)| (s, us / cost));
    let table = Table::new(left).map(|t| if on_law { t.level() } else { t });
    out.interpolated = table.map(|table| Interpolated {
        fields,
        table,
        on_law,
    });
}
