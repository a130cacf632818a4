//! One `--vary KEY=VALUES`: a setting, or a parameter of the policy, and the values it takes.
//!
//! Values are split on commas. A policy's parameters have commas of their own, and still need no other separator: a part
//! that reads `key=value` before any colon cannot begin a policy, so it belongs to the policy before it
//! (`policy=full,four-tier:hbm=0.5,window=64,streaming-llm` are three). `A..B+S` and `A..B*F` are ranges of numbers, both
//! ends included where a step lands on them; a `..` in a path or a name is left alone. Values stay text here.

use crate::error::{Error, Result, did_you_mean};
use crate::policy::registry;
use crate::scenario::keys::{KEYS, Key, Kind, find, names};

use super::MOST_CELLS;
use super::answer::Range;

/// What an axis varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Varied {
    /// A setting of the deployment.
    Setting(&'static str),
    /// A parameter of the policy.
    Param(String),
}

/// One axis of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What it varies.
    pub varied: Varied,
    /// Its values as text, each once, at least one.
    pub values: Vec<String>,
}

impl Axis {
    /// Reads `KEY=VALUES`.
    ///
    /// # Errors
    /// Usage: no `=`, an unknown key, no value, an empty value, a value twice, a range that never ends.
    pub fn parse(text: &str) -> Result<Self> {
        let (key, list) = text.split_once('=').ok_or_else(|| {
            Error::usage(format!("--vary `{text}` has no values"))
                .help("write --vary KEY=VALUE,VALUE, such as --vary batch=1,2,4")
        })?;
        let varied = varied(key.trim())?;
        let mut values = Vec::new();
        for part in parts(&varied, list) {
            match range(&varied, &part) {
                Some(range) => values.extend(range?),
                None => values.push(part),
            }
        }
        Self::new(varied, values)
    }

    /// An axis of these values.
    ///
    /// # Errors
    /// Usage: no value, an empty value, a value twice.
    pub fn new(varied: Varied, values: Vec<String>) -> Result<Self> {
        let axis = Self { varied, values };
        let key = axis.key();
        if axis.values.is_empty() || axis.values.iter().any(String::is_empty) {
            return Err(Error::usage(format!("--vary {key}: a value is empty"))
                .help(format!("write --vary {key}=VALUE,VALUE")));
        }
        let mut sorted: Vec<&String> = axis.values.iter().collect();
        sorted.sort_unstable();
        let pairs = sorted.iter().zip(sorted.iter().skip(1));
        if let Some((twice, _)) = pairs.into_iter().find(|(a, b)| a == b) {
            return Err(
                Error::usage(format!("--vary {key}: `{twice}` is given twice"))
                    .help("each value makes its own cells: name it once"),
            );
        }
        Ok(axis)
    }

    /// An axis of an answer.
    ///
    /// # Errors
    /// As [`Axis::parse`].
    pub(super) fn of(range: &Range) -> Result<Self> {
        Self::new(varied(&range.name)?, range.values.clone())
    }

    /// The key as it is written: `batch`, `policy.hbm`.
    pub fn key(&self) -> String {
        match &self.varied {
            Varied::Setting(name) => (*name).to_string(),
            Varied::Param(param) => format!("policy.{param}"),
        }
    }

    /// Whether a replay depends on it: such axes are walked slowest.
    pub(super) fn replays(&self) -> bool {
        match self.varied {
            Varied::Setting(name) => ["trace", "prompt", "output", "policy"].contains(&name),
            Varied::Param(_) => true,
        }
    }
}

fn varied(key: &str) -> Result<Varied> {
    if let Some(key) = find(key) {
        return Ok(Varied::Setting(key.name));
    }
    let known = params();
    if let Some(param) = key.strip_prefix("policy.") {
        return match known.iter().find(|k| **k == param) {
            Some(param) => Ok(Varied::Param((*param).to_string())),
            None => Err(unknown(key, "parameter", &known)),
        };
    }
    Err(unknown(key, "key", &names().collect::<Vec<_>>()))
}

fn unknown(key: &str, what: &str, known: &[&str]) -> Error {
    let error = Error::usage(format!("--vary: unknown {what} `{key}`"));
    let bare = key.trim_start_matches('-').trim_start_matches("policy.");
    let kebab = bare.replace('_', "-");
    let list = known.join(", ");
    match did_you_mean(&kebab, known.iter().copied()) {
        Some(near) if what == "parameter" => error.help(format!("did you mean `policy.{near}`?")),
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None if what == "key" && params().contains(&bare) => {
            error.help(format!("did you mean `policy.{bare}`?"))
        }
        None => error.help(format!("{what}s: {list}")),
    }
}

/// Keys of the parameters of all policies, each once.
fn params() -> Vec<&'static str> {
    let mut out: Vec<&str> = Vec::new();
    for name in registry::names() {
        for key in registry::keys_of(name) {
            if !out.contains(&key) {
                out.push(key);
            }
        }
    }
    out
}

/// A list into its parts; parameters stay with their policy.
fn parts(varied: &Varied, list: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for part in list.split(',').map(str::trim) {
        let equals = part.find('=');
        let continues = *varied == Varied::Setting("policy")
            && equals.is_some_and(|e| part.find(':').is_none_or(|c| e < c));
        match out.last_mut() {
            Some(policy) if continues => {
                policy.push(if policy.contains(':') { ',' } else { ':' });
                policy.push_str(part);
            }
            _ => out.push(part.to_string()),
        }
    }
    out
}

/// `A..B+S` or `A..B*F` as values, if the text is a range of numbers.
fn range(varied: &Varied, text: &str) -> Option<Result<Vec<String>>> {
    let numeric = |k: &Key| matches!(k.kind, Kind::Number | Kind::Numbers | Kind::Real);
    if let Varied::Setting(name) = varied
        && !KEYS.iter().any(|k| k.name == *name && numeric(k))
    {
        return None;
    }
    let (first, rest) = text.split_once("..")?;
    let first = number(first)?;
    let at = rest.rfind(['+', '*']);
    let Some((last, by)) = at.and_then(|at| Some((number(&rest[..at])?, number(&rest[at + 1..])?)))
    else {
        let why = format!("`{text}` is a range without a step");
        return Some(Err(Error::usage(why).help(format!(
            "write `{text}+STEP` (1..9+2 is 1, 3, 5, 7, 9) or `{text}*FACTOR` (1..8*2 is 1, 2, 4, 8)"
        ))));
    };
    let times = rest.as_bytes()[at?] == b'*';
    let grows = if times {
        first > 0.0 && by > 1.0
    } else {
        by > 0.0
    };
    if !grows || last < first {
        let why = format!("range `{text}` does not go up from its first value to its last");
        return Some(Err(
            Error::usage(why).help("write it like 1..9+2 or 1024..16384*2")
        ));
    }
    Some(count_up(text, first, last, by, times))
}

fn count_up(text: &str, first: f64, last: f64, by: f64, times: bool) -> Result<Vec<String>> {
    let mut out = Vec::new();
    loop {
        let n = out.len() as f64;
        let value = if times {
            first * by.powf(n)
        } else {
            first + by * n
        };
        // What rounding adds to the last step must not cost the last value.
        let slack = if times { last * 1e-12 } else { by * 1e-9 };
        if value > last + slack {
            return Ok(out);
        }
        if out.len() >= MOST_CELLS {
            return Err(Error::usage(format!(
                "range `{text}` has over {} values",
                crate::units::text::group(&MOST_CELLS.to_string())
            ))
            .help("take a larger step"));
        }
        out.push(shown(value));
    }
}

/// Whole numbers in full, others to twelve digits: what a sum of steps adds in the last place is no part of the value.
fn shown(value: f64) -> String {
    if value.fract().abs() <= 0.0 {
        return format!("{value}");
    }
    let rounded: f64 = format!("{value:.11e}").parse().unwrap_or(value);
    format!("{rounded}")
}

/// Largest end of a range: whole numbers are exact up to here.
const LARGEST: f64 = 9e15;

/// A number, plain or with the suffix of tokens.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.parse().ok().filter(|n: &f64| n.is_finite());
    plain
        .or_else(|| crate::units::text::tokens(text).ok().map(f64::from))
        .filter(|n| (0.0..=LARGEST).contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        Axis::parse(text).unwrap().values
    }

    #[test]
    fn parameters_stay_with_their_policy() {
        let list =
            "policy=full,four-tier:hbm=0.5,score=ema:0.9,window=64,streaming-llm,h2o-mean:heavy=8";
        assert_eq!(
            values(list),
            [
                "full",
                "four-tier:hbm=0.5,score=ema:0.9,window=64",
                "streaming-llm",
                "h2o-mean:heavy=8"
            ]
        );
        assert_eq!(values("policy=four-tier,hbm=0.5"), ["four-tier:hbm=0.5"]);
    }

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(values("batch=1..8*2"), ["1", "2", "4", "8"]);
        assert_eq!(values("batch=1..8+3"), ["1", "4", "7"]);
        assert_eq!(
            values("seed=10000000000001..10000000000002+1"),
            ["10000000000001", "10000000000002"]
        );
        assert_eq!(
            values("output=1Ki..4Ki*2,9000"),
            ["1024", "2048", "4096", "9000"]
        );
        assert_eq!(
            values("policy.hbm=0.1..0.5+0.1"),
            ["0.1", "0.2", "0.3", "0.4", "0.5"]
        );
        assert_eq!(values("trace=../a.kvt,b..c+1"), ["../a.kvt", "b..c+1"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "batch",
            "batch=",
            "batch=1,,2",
            "batch=1,1",
            "batches=1",
            "=1",
            "policy.hbn=1",
            "batch=1..8",
            "batch=8..1+1",
            "batch=1..8+0",
            "batch=1..8*1",
            "batch=0..8*2",
            "seed=0..1e18+1",
            "batch=1..inf+1",
            "window=3",
            "policy.=1",
        ] {
            assert!(Axis::parse(text).is_err(), "{text}");
        }
        let near = Axis::parse("bacth=1").unwrap_err().help.unwrap();
        assert!(near.contains("`batch`"), "{near}");
    }
}
