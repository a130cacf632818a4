//! One figure of a saved result as a page: its value, formula, what entered, the sources, the bound.

use serde_json::Value;

use crate::metrics::Assumption;
use crate::plan::solve::answer::SOLVE_SCHEMA;

use super::cells::{count, figure, in_full, percent, rate, size, time};
use super::formulas::{Formula, OUTCOME, ROW, SERVING, SOLVED, SOME};
use super::page::Page;

/// Figures of a group that are listed.
const SHOWN: usize = 40;

/// A step into a JSON value.
fn child<'a>(value: &'a Value, part: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    }
}

/// `rows[0].alternatives[2].fits` as parts; none if it is no path.
fn parts(key: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for segment in key.split('.') {
        let (name, mut rest) = segment.split_at(segment.find('[').unwrap_or(segment.len()));
        parts.push(name.to_string());
        while let Some((index, more)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            parts.push(index.to_string());
            rest = more;
        }
        if !rest.is_empty() || parts.iter().any(String::is_empty) {
            return Vec::new();
        }
    }
    parts
}

/// What a key names in a result.
pub fn find<'a>(result: &'a Value, key: &str) -> Option<&'a Value> {
    let parts = parts(key);
    if parts.is_empty() {
        return None;
    }
    parts.iter().try_fold(result, |v, p| child(v, p))
}

/// Every figure and word of a result by key.
pub fn keys(result: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(result, String::new(), &mut found);
    found
}

fn collect(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                collect(value, path, found);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                collect(value, format!("{path}[{i}]"), found);
            }
        }
        _ => found.push(path),
    }
}

/// The part of a result that a key belongs to, and the key within it.
fn owner<'a>(result: &'a Value, key: &str) -> (&'a Value, String, bool) {
    let all = parts(key);
    let depth = match all.as_slice() {
        [cells, _, outcome, ..] if cells == "cells" && outcome == "outcome" => 3,
        [rows, _, alternatives, _, ..] if rows == "rows" && alternatives == "alternatives" => 4,
        [rows, _, ..] if rows == "rows" => 2,
        _ => 0,
    };
    let node = all[..depth].iter().try_fold(result, |v, p| child(v, p));
    (node.unwrap_or(result), all[depth..].join("."), depth == 2)
}

/// The entry of a key, or of the nearest group around it that has one.
fn formula<'a>(tables: &[&'a [Formula]], key: &str) -> Option<&'a Formula> {
    let named = |key: &str| tables.iter().copied().flatten().find(|f| f.key == key);
    let mut key = key;
    loop {
        match (named(key), key.rsplit_once('.')) {
            (Some(formula), _) => return Some(formula),
            (None, Some((group, _))) => key = group,
            (None, None) => return None,
        }
    }
}

/// Whether a figure has an explanation: that of a server or an outcome, or (`searched`) of a card in a search.
pub fn explained(key: &str, searched: bool) -> bool {
    let tables: &[&[Formula]] = if searched {
        &[SOLVED]
    } else {
        &[OUTCOME, SERVING, SOME]
    };
    formula(tables, &parts(key).join(".")).is_some()
}

/// The explanation of a key that [`find`] finds.
pub fn page(result: &Value, key: &str) -> Page {
    let (node, inner, row) = owner(result, key);
    let searched = result.get("schema").and_then(Value::as_str) == Some(SOLVE_SCHEMA);
    let tables: &[&[Formula]] = match (row, searched) {
        (true, true) => &[SOLVED],
        (true, false) => &[ROW],
        _ => &[OUTCOME, SERVING, SOME],
    };
    let formula = formula(tables, &inner);
    let mut page = Page::default();
    page.title(key.to_string());
    match find(result, key) {
        Some(group @ (Value::Object(_) | Value::Array(_))) => members(&mut page, group, key),
        Some(value) => page.text(format!("{}.", shown(&inner, value))),
        None => {}
    }
    if let Some(formula) = formula {
        explain(&mut page, node, formula, row);
    }
    page
}

/// A group of figures: what may be asked for.
fn members(page: &mut Page, group: &Value, key: &str) {
    let names = keys(group);
    let dot = |n: &str| {
        if n.starts_with('[') {
            format!("{key}{n}")
        } else {
            format!("{key}.{n}")
        }
    };
    page.text(match names.len() {
        n if n > SHOWN => format!("{n} figures stand under this key; the first {SHOWN}:"),
        n => format!("{n} figures stand under this key:"),
    });
    page.facts(names.iter().take(SHOWN).map(|n| {
        let value = find(group, n).map_or_else(String::new, |v| shown(n, v));
        (dot(n), value)
    }));
}

fn explain(page: &mut Page, node: &Value, formula: &Formula, row: bool) {
    page.title("Formula");
    page.text(formula.formula);
    page.title("Values");
    page.facts(
        formula
            .values
            .iter()
            .filter_map(|k| Some((*k, shown(k, find(node, k)?)))),
    );
    let numbers = sources(node, formula, row);
    if !numbers.is_empty() {
        page.title("Numbers behind it");
        page.facts(numbers.iter().map(|a| (a.name.clone(), in_full(a))));
    }
    if !formula.bound.is_empty() {
        page.title("Bound");
        page.text(formula.bound);
    }
}

/// The assumptions whose names the formula asks for.
fn sources(node: &Value, formula: &Formula, row: bool) -> Vec<Assumption> {
    let holder = if row {
        find(node, "alternatives[0]").unwrap_or(node)
    } else {
        node
    };
    let list = holder.get("assumptions").cloned().unwrap_or(Value::Null);
    let all: Vec<Assumption> = serde_json::from_value(list).unwrap_or_default();
    all.into_iter()
        .filter(|a| formula.rests.iter().any(|part| a.name.contains(part)))
        .collect()
}

/// A value with the unit of its key.
fn shown(key: &str, value: &Value) -> String {
    let number = value.as_f64();
    let whole = value.as_u64();
    match (value, number) {
        (Value::Null, _) => {
            "none: it does not exist here, for instance because it does not fit".into()
        }
        (Value::String(s), _) => s.clone(),
        (Value::Bool(b), _) => if *b { "yes" } else { "no" }.into(),
        (_, Some(n)) if key.ends_with("bytes_per_s") => rate(Some(n)),
        (_, Some(n)) if key.ends_with("tokens_per_s") => format!("{} tokens/s", figure(Some(n))),
        (_, Some(n)) if key.ends_with("requests_per_s") => {
            format!("{} requests/s", figure(Some(n)))
        }
        (_, Some(n)) if key.ends_with("_share") => percent(n),
        (_, Some(n)) if key.ends_with("_s") => time(Some(n)),
        (_, Some(_)) if key.ends_with("_bytes") => bytes(value),
        (_, Some(n)) => whole.map_or_else(|| figure(Some(n)), count),
        _ => value.to_string(),
    }
}

fn bytes(value: &Value) -> String {
    match (value.as_u64(), value.as_i64()) {
        (Some(n), _) => format!("{} bytes ({})", count(n), size(n)),
        (None, Some(n)) => format!(
            "-{} bytes (-{})",
            count(n.unsigned_abs()),
            size(n.unsigned_abs())
        ),
        _ => value.to_string(),
    }
}
