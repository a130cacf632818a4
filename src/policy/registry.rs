//! Names to policies: `NAME[:key=value,...]`, resolved, shown, built.
//!
//! A [`PolicySpec`] is data: it can be compared, printed (every parameter spelt out; the text parses back to itself) and
//! built as often as needed. `hbm=fit` and `hbm=SIZE` need the memory of a machine, which no policy sees: the caller
//! resolves them with [`PolicySpec::with_hbm_tokens`] before building.

use std::fmt;

use super::four_tier::{self, Hbm};
use super::{
    Card, Param, Policy, Settings, full, h2o, lru, oracle, r_kv, raas, random, snap_kv,
    stream_evict, streaming_llm, tova,
};
use crate::error::{Error, Result, did_you_mean};
use crate::units::text;

/// One line a policy: variant, name, file, type of its parameters, defaults.
macro_rules! policies {
    ($($kind:ident $name:literal $file:ident($params:ty) $start:expr;)*) => {
        /// A policy with its parameters.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Kind {
            $(#[doc = concat!("`", $name, "`")] $kind($params),)*
        }

        const NAMES: &[&str] = &[$($name),*];

        fn default_of(name: &str) -> Option<Kind> {
            match name {
                $($name => Some(Kind::$kind($start)),)*
                _ => None,
            }
        }

        impl Kind {
            fn name(&self) -> &'static str {
                match self { $(Self::$kind(_) => $name,)* }
            }

            fn card(&self) -> Card {
                match self { $(Self::$kind(p) => $file::card(p),)* }
            }

            fn build(&self) -> Box<dyn Policy> {
                match self { $(Self::$kind(p) => $file::build(*p),)* }
            }

            fn keys(&self) -> &'static [&'static str] {
                match self { $(Self::$kind(p) => p.keys(),)* }
            }

            fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), String> {
                match self { $(Self::$kind(p) => p.set(key, value),)* }
            }

            fn check(&self) -> std::result::Result<(), String> {
                match self { $(Self::$kind(p) => p.check(),)* }
            }

            fn live_after(&self, prompt: u32, length: u32, live: u32) -> u32 {
                match self { $(Self::$kind(p) => p.live_after(prompt, length, live),)* }
            }
        }
    };
}

policies! {
    Full "full" full(full::Params) full::Params;
    FourTier "four-tier" four_tier(four_tier::Params) four_tier::Params::default();
    StreamEvict "stream-evict" stream_evict(stream_evict::Params) stream_evict::Params::default();
    StreamingLlm "streaming-llm" streaming_llm(streaming_llm::Params) streaming_llm::Params::default();
    H2o "h2o" h2o(h2o::Params) h2o::Params::new(false);
    H2oMean "h2o-mean" h2o(h2o::Params) h2o::Params::new(true);
    Tova "tova" tova(tova::Params) tova::Params::new(false);
    TovaMean "tova-mean" tova(tova::Params) tova::Params::new(true);
    RKv "r-kv" r_kv(r_kv::Params) r_kv::Params::new(false);
    RKvImportance "r-kv-importance" r_kv(r_kv::Params) r_kv::Params::new(true);
    SnapKv "snap-kv" snap_kv(snap_kv::Params) snap_kv::Params::new(false);
    SnapKvMean "snap-kv-mean" snap_kv(snap_kv::Params) snap_kv::Params::new(true);
    Raas "raas" raas(raas::Params) raas::Params::default();
    Lru "lru" lru(lru::Params) lru::Params::default();
    Random "random" random(random::Params) random::Params::default();
    Oracle "oracle" oracle(four_tier::Params) four_tier::Params::default();
}

/// Which policy, with every parameter resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicySpec {
    kind: Kind,
}

/// Names of all policies.
pub fn names() -> &'static [&'static str] {
    NAMES
}

/// Keys of the parameters of a policy, in the order they are shown; none for a name that is no policy.
pub fn keys_of(name: &str) -> Vec<&'static str> {
    default_of(name).map_or_else(Vec::new, |kind| PolicySpec { kind }.keys())
}

/// The card of every policy with its defaults, in the order of [`names`].
pub fn cards() -> Vec<Card> {
    NAMES
        .iter()
        .filter_map(|name| default_of(name))
        .map(|kind| PolicySpec { kind }.card())
        .collect()
}

/// Parses `NAME[:key=value,...]`.
///
/// # Errors
/// Usage: unknown name, key or value, a key twice, parameters that contradict each other.
pub fn parse(spec: &str) -> Result<PolicySpec> {
    let (name, params) = spec.split_once(':').unwrap_or((spec, ""));
    let kind = default_of(name).ok_or_else(|| unknown("policy", name, NAMES, "policies"))?;
    if params.is_empty() && spec.ends_with(':') {
        return Err(
            Error::usage(format!("`{spec}` has no parameters after its colon"))
                .help(format!("write `{name}`, or `{name}:KEY=VALUE`")),
        );
    }
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

/// A share over 0, up to 1.
pub(super) fn positive_share(value: &str) -> std::result::Result<f64, String> {
    match text::share(value)? {
        share if share > 0.0 => Ok(share),
        _ => Err(format!("`{value}` leaves nothing: a share over 0, up to 1")),
    }
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
        self.kind.name()
    }

    /// Every parameter as resolved.
    pub fn params(&self) -> Vec<Param> {
        self.card().params
    }

    /// How the policy explains itself.
    pub fn card(&self) -> Card {
        self.kind.card()
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

    /// The same policy with another budget; policies without one are unchanged.
    #[must_use]
    pub fn with_hbm(mut self, hbm: Hbm) -> Self {
        if let Kind::FourTier(p) | Kind::Oracle(p) = &mut self.kind {
            p.hbm = hbm;
        }
        self
    }

    /// Whether the whole prompt always stays in T0, so that a longer prompt only adds T0 tokens.
    pub fn protects_prompt(&self) -> bool {
        match self.kind {
            Kind::Full(_) | Kind::StreamEvict(_) | Kind::Raas(_) => true,
            Kind::FourTier(p) | Kind::Oracle(p) => p.protect == four_tier::Protect::Prompt,
            _ => false,
        }
    }

    /// The same policy on a trace whose prompt has `more` tokens fewer than the deployment's: budgets count those.
    #[must_use]
    pub fn with_unseen_prompt(mut self, more: i64) -> Self {
        match &mut self.kind {
            Kind::StreamEvict(p) => p.unseen_prompt = more,
            Kind::Raas(p) => p.unseen_prompt = more,
            _ => {}
        }
        self
    }

    /// Tokens left of `live` after the decision that follows the step which made the sequence `length` long, for
    /// policies that only destroy (tokens).
    pub(crate) fn live_after(&self, prompt: u32, length: u32, live: u32) -> u32 {
        self.kind.live_after(prompt, length, live)
    }

    /// Fewest T0 tokens a request can be brought down to: what the policy protects (tokens).
    pub fn least_hbm_tokens(&self, prompt: u32) -> u32 {
        match self.kind {
            Kind::FourTier(p) | Kind::Oracle(p) => {
                self.never_moves(prompt).saturating_add(p.window)
            }
            _ => 0,
        }
    }

    /// First positions of a sequence that never leave T0: the prompt where it is protected, and the sinks (tokens).
    pub fn never_moves(&self, prompt: u32) -> u32 {
        match self.kind {
            Kind::FourTier(p) | Kind::Oracle(p) => match p.protect {
                four_tier::Protect::Prompt => prompt.saturating_add(p.sinks),
                four_tier::Protect::Sinks => 0,
            },
            _ => prompt,
        }
    }

    /// Whether it looks at the weights of attention in every step, as a kernel would have to hand them out: not `snap-kv`,
    /// which looks at the prompt's, nor `r-kv`, which works from keys and its last queries when it acts.
    pub fn looks_at_weights(&self) -> bool {
        let needs = self.card().needs;
        match self.kind {
            Kind::SnapKv(_) | Kind::SnapKvMean(_) | Kind::RKv(_) | Kind::RKvImportance(_) => false,
            _ => needs.mean || needs.layers || needs.prompt_queries.is_some(),
        }
    }

    /// Steps between decisions; `None` if it decides at every step or never.
    pub fn interval(&self) -> Option<u32> {
        match self.kind {
            Kind::FourTier(p) | Kind::Oracle(p) => Some(p.interval),
            Kind::StreamEvict(p) => Some(p.interval),
            _ => None,
        }
    }

    /// A fresh policy.
    ///
    /// # Errors
    /// Internal: `hbm=fit` or a size that was not resolved to tokens.
    pub fn build(&self) -> Result<Box<dyn Policy>> {
        self.resolved()?;
        Ok(self.kind.build())
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
        let mut keys = self.kind.keys().to_vec();
        keys.retain(|k| !matches!(self.kind, Kind::Oracle(_)) || *k != "score");
        keys
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
        let outcome = self.kind.set(key, value);
        outcome.map_err(|why| Error::usage(format!("policy `{name}`, parameter `{key}`: {why}")))
    }

    fn check(&self) -> Result<()> {
        self.kind
            .check()
            .map_err(|why| Error::usage(format!("policy `{}`: {why}", self.name())))
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
