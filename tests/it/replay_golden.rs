//! Four-tier over recorded traces: counts exact, mass to 1e-6.
//!
//! The lines of `goldens/four_tier.csv` were computed by a plain script from the definition, not by this program; they cover
//! the traces that are shipped. Where the reference material lies beside the checkout, its
//! lines for all traces are checked as well.

use std::fs;
use std::path::Path;

use kvplan::policy;
use kvplan::replay;
use kvplan::timeline::Timeline;
use kvplan::trace::{Rows, TraceReader};

use crate::replay_support::{Made, shared};

/// Columns: trace, semantics, hbm, evict, window, rows, retiers, mass 0, 1, 3, promoted, demoted, t3, t0, t1.
struct Line<'a> {
    fields: Vec<&'a str>,
}

impl Line<'_> {
    fn number(&self, column: usize) -> f64 {
        self.fields[column].parse().unwrap()
    }

    fn spec(&self) -> String {
        let f = &self.fields;
        format!(
            "four-tier:semantics={},hbm={},evict={},window={}",
            f[1], f[2], f[3], f[4]
        )
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let split = |l| Line {
        fields: str::split(l, ',').collect(),
    };
    text.lines().skip(1).map(split).collect()
}

/// What a line holds, in its order from `rows` on.
fn figures(t: &Timeline) -> [f64; 10] {
    let (mass, end) = (t.mass_mean(), t.tokens_end());
    [
        f64::from(t.steps),
        f64::from(t.retiers),
        mass[0],
        mass[1],
        mass[3],
        t.total(|i| i.promoted),
        t.total(|i| i.demoted),
        end[3],
        end[0],
        end[1],
    ]
}

/// Replays all lines of one trace in one pass and compares.
fn check(rows: &dyn Rows, name: &str, lines: &[&Line<'_>]) {
    let specs: Vec<_> = lines
        .iter()
        .map(|l| policy::parse(&l.spec()).unwrap())
        .collect();
    for (line, timeline) in lines.iter().zip(replay::run(rows, &specs).unwrap()) {
        for (i, got) in figures(&timeline).into_iter().enumerate() {
            let want = line.number(5 + i);
            let tolerance = if (2..5).contains(&i) { 1e-6 } else { 0.0 };
            assert!(
                (got - want).abs() <= tolerance,
                "{name} {} column {}: {got}, expected {want}",
                line.spec(),
                5 + i
            );
        }
    }
}

fn check_all(text: &str, open: &dyn Fn(&str) -> Box<dyn Rows>) -> usize {
    let lines = lines(text);
    let mut names: Vec<&str> = lines.iter().map(|l| l.fields[0]).collect();
    names.dedup();
    for name in &names {
        let own: Vec<&Line<'_>> = lines.iter().filter(|l| l.fields[0] == *name).collect();
        check(open(name).as_ref(), name, &own);
    }
    lines.len()
}

#[test]
fn shipped_traces_give_the_committed_goldens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let open = |name: &str| {
        Box::new(TraceReader::open(&folder.join(format!("{name}.kvt"))).unwrap()) as Box<dyn Rows>
    };
    let checked = check_all(include_str!("goldens/four_tier.csv"), &open);
    assert_eq!(checked, 48, "3 traces, 2 semantics, 8 settings");
}

#[test]
fn reference_lines_of_all_traces_hold() {
    let Some(shared) = shared() else {
        skip!("reference of four-tier: no reference material beside the checkout");
    };
    let text = fs::read_to_string(shared.join("reference/four_tier_expected.csv")).unwrap();
    let open = |name: &str| Box::new(Made::read(&shared.join("traces"), name)) as Box<dyn Rows>;
    assert!(check_all(&text, &open) >= 100);
}
