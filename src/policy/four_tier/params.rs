//! Parameters of four-tier: parse, check, show.

use std::fmt;

use crate::policy::registry::{choice, tokens_at_least};
use crate::policy::{Param, Settings};
use crate::score::Rule;
use crate::units::{Bytes, text};

/// How much may stay in HBM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hbm {
    /// Whatever the machine holds: resolved to tokens from the memory ledger before a replay.
    Fit,
    /// KV bytes over all requests: resolved to tokens before a replay.
    Bytes(Bytes),
    /// T0 tokens a request after a decision, protected ones included (and never less than those).
    Tokens(u32),
    /// Share of the unprotected live tokens, as published.
    Ratio(f64),
}

impl Hbm {
    fn parse(value: &str) -> Result<Self, String> {
        if value == "fit" {
            return Ok(Self::Fit);
        }
        if let Some(n) = value.strip_suffix("tok") {
            return text::tokens(n).map(Self::Tokens);
        }
        if value.ends_with('B') {
            return text::bytes(value).map(Self::Bytes);
        }
        text::share(value).map(Self::Ratio).map_err(|e| {
            format!("{e}; write `fit`, a share (0.5), tokens a request (8640tok) or a size (32GiB)")
        })
    }
}

impl fmt::Display for Hbm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fit => f.write_str("fit"),
            Self::Bytes(b) => write!(f, "{}B", b.0),
            Self::Tokens(n) => write!(f, "{n}tok"),
            Self::Ratio(r) => write!(f, "{r}"),
        }
    }
}

/// What `evict` is a share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// Of the live candidates at every decision, as published: it compounds.
    PerInterval,
    /// Of live candidates and destroyed tokens together: destroyed never exceeds it.
    Cumulative,
}

/// What is never moved besides the sinks and the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protect {
    /// The whole prompt.
    Prompt,
    /// Nothing: the prompt competes too.
    Sinks,
}

/// Which published version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Algorithm 1 of the paper.
    Algorithm,
    /// The measured offloading prototype.
    Prototype,
    /// The accuracy experiments, where nothing is offloaded.
    Experiment,
}

/// Parameters of four-tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// T0 budget.
    pub hbm: Hbm,
    /// Share destroyed.
    pub evict: f64,
    /// What `evict` is a share of; must be named if it is not 0.
    pub semantics: Option<Semantics>,
    /// Latest tokens protected, the step's own included.
    pub window: u32,
    /// First tokens after the prompt protected.
    pub sinks: u32,
    /// Steps between decisions.
    pub interval: u32,
    /// Score ranked by.
    pub score: Rule,
    /// Share degraded.
    pub t2: f64,
    /// Whether the prompt is protected.
    pub protect: Protect,
    /// Published version.
    pub preset: Preset,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            hbm: Hbm::Ratio(0.5),
            evict: 0.0,
            semantics: None,
            window: 128,
            sinks: 4,
            interval: 64,
            score: Rule::Cumulative,
            t2: 0.0,
            protect: Protect::Prompt,
            preset: Preset::Algorithm,
        }
    }
}

/// Keys in the order they are shown.
pub const KEYS: &[&str] = &[
    "hbm",
    "evict",
    "semantics",
    "window",
    "sinks",
    "interval",
    "score",
    "t2",
    "protect",
    "preset",
    "relative-to",
];

const SEMANTICS: &[(&str, Semantics)] = &[
    ("per-interval", Semantics::PerInterval),
    ("cumulative", Semantics::Cumulative),
];
const PROTECT: &[(&str, Protect)] = &[("prompt", Protect::Prompt), ("sinks", Protect::Sinks)];
const PRESET: &[(&str, Preset)] = &[
    ("algorithm", Preset::Algorithm),
    ("prototype", Preset::Prototype),
    ("experiment", Preset::Experiment),
];
const RELATIVE_TO: &[(&str, ())] = &[("unprotected", ())];

/// The word for a value of one of the tables above.
fn word<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table
        .iter()
        .find(|(_, v)| v == value)
        .map_or("", |(w, _)| w)
}

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "hbm" => self.hbm = Hbm::parse(value)?,
            "evict" => self.evict = text::share(value)?,
            "semantics" => self.semantics = Some(choice(value, SEMANTICS)?),
            "window" => self.window = tokens_at_least(value, 1)?,
            "sinks" => self.sinks = tokens_at_least(value, 0)?,
            "interval" => self.interval = tokens_at_least(value, 1)?,
            "score" => self.score = Rule::parse(value)?,
            "t2" => self.t2 = text::share(value)?,
            "protect" => self.protect = choice(value, PROTECT)?,
            "preset" => self.preset = choice(value, PRESET)?,
            _ => choice(value, RELATIVE_TO)?,
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.evict > 0.0 && self.semantics.is_none() {
            return Err(format!(
                "`evict={}` needs `semantics`: write `semantics=per-interval` (as published; it compounds: 3 % destroys \
                 54 % of 4,096 tokens) or `semantics=cumulative` (destroyed tokens never exceed that share)",
                self.evict
            ));
        }
        if self.t2 > 0.0 && self.preset == Preset::Prototype {
            return Err(format!(
                "`t2={}` and `preset=prototype` exclude each other: the prototype has no T2",
                self.t2
            ));
        }
        Ok(())
    }
}

impl Params {
    /// As resolved.
    pub fn list(&self) -> Vec<Param> {
        let param = |key, value, help| Param { key, value, help };
        let mut list = vec![
            param(
                "hbm",
                self.hbm.to_string(),
                "T0 budget: fit, a share of the unprotected live tokens (0.5), tokens a request (8640tok) or a size (32GiB) (default 0.5)",
            ),
            param(
                "evict",
                self.evict.to_string(),
                "share destroyed, lowest first (default 0); more than 0 needs semantics=cumulative or semantics=per-interval",
            ),
        ];
        if let Some(semantics) = &self.semantics {
            list.push(param("semantics", word(SEMANTICS, semantics).into(), "what `evict` is a share of: per-interval (compounds) or cumulative; must be named if evict > 0"));
        }
        list.extend([
            param(
                "window",
                self.window.to_string(),
                "latest tokens, protected (default 128)",
            ),
            param(
                "sinks",
                self.sinks.to_string(),
                "first tokens after the prompt, protected (default 4)",
            ),
            param(
                "interval",
                self.interval.to_string(),
                "steps between decisions (default 64)",
            ),
            param(
                "score",
                self.score.to_string(),
                "cumulative, per-age, ema:LAMBDA or last (default cumulative)",
            ),
            param(
                "t2",
                self.t2.to_string(),
                "share of the live candidates at reduced precision, lowest first (default 0)",
            ),
            param(
                "protect",
                word(PROTECT, &self.protect).into(),
                "prompt, or sinks alone (default prompt)",
            ),
            param(
                "preset",
                word(PRESET, &self.preset).into(),
                "algorithm, prototype or experiment (default algorithm)",
            ),
            param(
                "relative-to",
                "unprotected".into(),
                "what the shares are of (only unprotected)",
            ),
        ]);
        list
    }
}
