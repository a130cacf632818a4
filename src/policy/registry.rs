//! Names to policies: `NAME[:key=value,...]`, resolved, shown, built.
//!
//! A [`PolicySpec`] is data: it can be compared, printed (every parameter spelt out; the text parses back to itself) and
//! built as often as needed. `hbm=fit` and `hbm=SIZE` need the memory of a machine, which no policy sees: the caller
//! resolves them with [`PolicySpec::with_hbm_tokens`] before building.

use std::fmt;

use super::four_tier::{self, FourTier, Hbm};
use super::full::{self, Full};
use super::oracle::{self, Oracle};
use super::streaming_llm::{self, StreamingLlm};
use super::{Card, Param, Policy};
use crate::error::{Error, Result, did_you_mean};
use crate::units::text;

/// A policy with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Everything in HBM.
    Full,
    /// The published method.
    FourTier(four_tier::Params),
    /// First and latest tokens.
    StreamingLlm(streaming_llm::Params),
    /// Four-tier's budgets, filled by the future.
    Oracle(four_tier::Params),
}

/// Which policy, with every parameter resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicySpec {
    kind: Kind,
}

const NAMES: &[&str] = &["full", "four-tier", "streaming-llm", "oracle"];

/// Names of all policies.
pub fn names() -> &'static [&'static str] {
    NAMES
}

/// The card of every policy with its defaults, in the order of [`names`].
pub fn cards() -> Vec<Card> {
    NAMES
        .iter()
        .filter_map(|name| default_of(name))
        .map(|kind| PolicySpec { kind }.card())
        .collect()
}

fn default_of(name: &str) -> Option<Kind> {
    Some(match name {
        "full" => Kind::Full,
        "four-tier" => Kind::FourTier(four_tier::Params::default()),
        "streaming-llm" => Kind::StreamingLlm(streaming_llm::Params::default()),
        "oracle" => Kind::Oracle(four_tier::Params::default()),
        _ => return None,
    })
}

/// Parses `NAME[:key=value,...]`.
///
/// # Errors
/// Usage: unknown name, key or value, a key twice, parameters that contradict each other.
pub fn parse(spec: &str) -> Result<PolicySpec> {
    let (name, params) = spec.split_once(':').unwrap_or((spec, ""));
    let kind = default_of(name).ok_or_else(|| unknown("policy", name, NAMES, "policies"))?;
    let mut spec = PolicySpec { kind };
    let mut seen = Vec::new();
    for pair in params.split(',').filter(|p| !p.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Error::usage(format!("policy parameter `{pair}` has no value"))
                .help(format!("write `{name}:{pair}=VALUE`"))
        })?;
        if seen.contains(&key) {
            return Err(Error::usage(format!(
                "policy parameter `{key}` is given twice"
            )));
        }
        seen.push(key);
        spec.set(key, value)?;
    }
    spec.check()?;
    Ok(spec)
}

/// An unknown word, with a suggestion and the list.
fn unknown(what: &str, given: &str, known: &[&str], plural: &str) -> Error {
    let list = format!("{plural}: {}", known.join(", "));
    let error = Error::usage(format!("unknown {what} `{given}`"));
    match did_you_mean(given, known.iter().copied()) {
        Some(near) => error.help(format!("did you mean `{near}`? {list}")),
        None => error.help(list),
    }
}

/// One of a table of words.
pub(super) fn choice<T: Copy>(
    value: &str,
    table: &[(&'static str, T)],
) -> std::result::Result<T, String> {
    table
        .iter()
        .find(|(word, _)| *word == value)
        .map(|(_, v)| *v)
        .ok_or_else(|| {
            let words: Vec<&str> = table.iter().map(|(w, _)| *w).collect();
            let near = did_you_mean(value, words.iter().copied())
                .map_or(String::new(), |w| format!("did you mean `{w}`? "));
            format!("`{value}` is not known: {near}use {}", words.join(" or "))
        })
}

/// A number of tokens, at least `least`.
pub(super) fn tokens_at_least(value: &str, least: u32) -> std::result::Result<u32, String> {
    let n = text::tokens(value)?;
    if n < least {
        return Err(format!("`{value}` is too few: at least {least}"));
    }
    Ok(n)
}

impl PolicySpec {
    /// Four-tier with these parameters.
    ///
    /// # Errors
    /// Usage: parameters that contradict each other.
    pub fn four_tier(params: four_tier::Params) -> Result<Self> {
        let spec = Self {
            kind: Kind::FourTier(params),
        };
        spec.check()?;
        Ok(spec)
    }

    /// The policy and its parameters.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Name in the registry.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Full => "full",
            Kind::FourTier(_) => "four-tier",
            Kind::StreamingLlm(_) => "streaming-llm",
            Kind::Oracle(_) => "oracle",
        }
    }

    /// Every parameter as resolved.
    pub fn params(&self) -> Vec<Param> {
        self.card().params
    }

    /// How the policy explains itself.
    pub fn card(&self) -> Card {
        match &self.kind {
            Kind::Full => full::card(),
            Kind::FourTier(p) => four_tier::card(p),
            Kind::StreamingLlm(p) => streaming_llm::card(p),
            Kind::Oracle(p) => oracle::card(p),
        }
    }

    /// T0 budget, for policies that have one.
    pub fn hbm(&self) -> Option<Hbm> {
        match self.kind {
            Kind::FourTier(p) | Kind::Oracle(p) => Some(p.hbm),
            _ => None,
        }
    }

    /// The same policy with a T0 budget of `tokens` a request; policies without a budget are unchanged.
    #[must_use]
    pub fn with_hbm_tokens(mut self, tokens: u32) -> Self {
        if let Kind::FourTier(p) | Kind::Oracle(p) = &mut self.kind {
            p.hbm = Hbm::Tokens(tokens);
        }
        self
    }

    /// Whether the whole prompt always stays in T0, so that a longer prompt only adds T0 tokens.
    pub fn protects_prompt(&self) -> bool {
        match self.kind {
            Kind::Full => true,
            Kind::FourTier(p) | Kind::Oracle(p) => p.protect == four_tier::Protect::Prompt,
            Kind::StreamingLlm(_) => false,
        }
    }

    /// Fewest T0 tokens a request can be brought down to: what the policy protects (tokens).
    pub fn least_hbm_tokens(&self, prompt: u32) -> u32 {
        match self.kind {
            Kind::FourTier(p) | Kind::Oracle(p) => {
                self.never_moves(prompt).saturating_add(p.window)
            }
            Kind::Full | Kind::StreamingLlm(_) => 0,
        }
    }

    /// First positions of a sequence that never leave T0: the prompt where it is protected, and the sinks (tokens).
    pub fn never_moves(&self, prompt: u32) -> u32 {
        match self.kind {
            Kind::FourTier(p) | Kind::Oracle(p) => match p.protect {
                four_tier::Protect::Prompt => prompt.saturating_add(p.sinks),
                four_tier::Protect::Sinks => 0,
            },
            Kind::Full | Kind::StreamingLlm(_) => prompt,
        }
    }

    /// Steps between decisions; `None` if it decides at every step or never.
    pub fn interval(&self) -> Option<u32> {
        match self.kind {
            Kind::FourTier(p) | Kind::Oracle(p) => Some(p.interval),
            _ => None,
        }
    }

    /// A fresh policy.
    ///
    /// # Errors
    /// Internal: `hbm=fit` or a size that was not resolved to tokens.
    pub fn build(&self) -> Result<Box<dyn Policy>> {
        self.resolved()?;
        Ok(match self.kind {
            Kind::Full => Box::new(Full::new()),
            Kind::FourTier(p) => Box::new(FourTier::new(p)),
            Kind::StreamingLlm(p) => Box::new(StreamingLlm::new(p)),
            Kind::Oracle(p) => Box::new(Oracle::new(p)),
        })
    }

    /// Refuses budgets that only a machine could resolve.
    pub(crate) fn resolved(&self) -> Result<()> {
        match self.hbm() {
            Some(hbm @ (Hbm::Fit | Hbm::Bytes(_))) => Err(Error::internal(format!(
                "policy `{}` was built with hbm={hbm}, which was not resolved to tokens",
                self.name()
            ))),
            _ => Ok(()),
        }
    }

    fn keys(&self) -> Vec<&'static str> {
        match self.kind {
            Kind::Full => Vec::new(),
            Kind::FourTier(_) => four_tier::KEYS.to_vec(),
            Kind::StreamingLlm(_) => streaming_llm::KEYS.to_vec(),
            Kind::Oracle(_) => four_tier::KEYS
                .iter()
                .copied()
                .filter(|k| *k != "score")
                .collect(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let (name, keys) = (self.name(), self.keys());
        if keys.is_empty() {
            return Err(Error::usage(format!(
                "policy `{name}` has no parameters, `{key}` was given"
            )));
        }
        if !keys.contains(&key) {
            return Err(unknown(
                &format!("parameter of policy `{name}`:"),
                key,
                &keys,
                "parameters",
            ));
        }
        let outcome = match &mut self.kind {
            Kind::Full => Ok(()),
            Kind::FourTier(p) | Kind::Oracle(p) => p.set(key, value),
            Kind::StreamingLlm(p) => p.set(key, value),
        };
        outcome.map_err(|why| Error::usage(format!("policy `{name}`, parameter `{key}`: {why}")))
    }

    fn check(&self) -> Result<()> {
        match &self.kind {
            Kind::FourTier(p) | Kind::Oracle(p) => p
                .check()
                .map_err(|why| Error::usage(format!("policy `{}`: {why}", self.name()))),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        for (i, p) in self.params().iter().enumerate() {
            let separator = if i == 0 { ':' } else { ',' };
            write!(f, "{separator}{}={}", p.key, p.value)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for PolicySpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text)
    }
}
