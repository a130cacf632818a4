//! What is searched: its numbers, and the scenario at each.

use std::sync::Arc;

use super::point::{Limits, Tried};
use crate::error::{Error, Result};
use crate::plan::budget;
use crate::policy;
use crate::policy::four_tier::Hbm;
use crate::scenario::Scenario;
use crate::scenario::settings::{Given, Settings};
use crate::units::text::{group, show_bytes, significant};
use crate::units::{Bytes, Ps};
use crate::workload::{Arrivals, Load};

/// Most requests together.
const MOST_BATCH: u32 = 100_000;
/// Rates are powers of this, a hundredth apart, from the least on.
const RATIO: f64 = 1.01;
const LEAST_RATE: f64 = 1e-3;
/// 1.01^2082 is 9.9e8: the last below a million a second, the most that arrivals may be.
const RATES: u32 = 2_082;

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Most requests decoded together.
    MaxBatch,
    /// Longest context (prompt and output) of a request.
    MaxContext,
    /// Highest rate of Poisson arrivals.
    MaxRate,
    /// Least HBM, by moving tokens to host memory.
    MinHbm,
}

impl Find {
    /// All of them, by the words of the flag.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("max-batch", Self::MaxBatch),
        ("max-context", Self::MaxContext),
        ("max-rate", Self::MaxRate),
        ("min-hbm", Self::MinHbm),
    ];

    /// The word of the flag.
    pub fn word(self) -> &'static str {
        let own = Self::WORDS.iter().find(|(_, f)| *f == self);
        own.map_or("", |(w, _)| w)
    }

    /// The unit of its answer.
    pub fn unit(self) -> &'static str {
        match self {
            Self::MaxBatch => "requests",
            Self::MaxContext => "tokens",
            Self::MaxRate => "requests_per_s",
            Self::MinHbm => "bytes",
        }
    }

    /// A value for people.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::MaxBatch => format!("{} requests", group(&format!("{value:.0}"))),
            Self::MaxContext => format!("{} tokens", group(&format!("{value:.0}"))),
            Self::MaxRate => format!("{} requests/s", significant(value)),
            Self::MinHbm => show_bytes(Bytes::ceil(value)),
        }
    }

    /// The setting that is searched: what was asked of it is replaced.
    pub fn searched(self) -> &'static str {
        match self {
            Self::MaxBatch => "batch",
            Self::MaxContext => "output",
            Self::MaxRate => "arrivals",
            Self::MinHbm => "policy",
        }
    }

    /// What somebody asked of the setting that is searched, which the search would replace.
    pub fn overridden(self, settings: &Settings) -> Option<&Given> {
        let given = settings.asked(self.searched())?;
        let text = given.text();
        let own = match self {
            Self::MaxBatch | Self::MaxContext => true,
            Self::MaxRate => text.starts_with("poisson:"),
            Self::MinHbm => text.contains("hbm=") && !text.contains("hbm=fit"),
        };
        own.then_some(given)
    }

    /// What ends the search where no limit does, in a word and in words, after the run at the end.
    pub(super) fn end(self, s: &Scenario, last: &Tried) -> (&'static str, String) {
        match self {
            Self::MaxBatch => batch_end(s, last),
            Self::MaxContext => (
                "model-context",
                "the longest context that the model was made for".into(),
            ),
            Self::MinHbm => (
                "policy-least",
                "the least that the policy keeps in HBM".into(),
            ),
            Self::MaxRate => ("search-end", "the highest rate that is searched: so few requests overload nothing at any rate, ask for more with --requests".into()),
        }
    }

    /// Refuses what cannot be searched.
    ///
    /// # Errors
    /// Usage, with the way out.
    pub(super) fn check(self, s: &Scenario, limits: &Limits, settings: &Settings) -> Result<()> {
        let arrivals = s.load.as_ref().map(|l| &l.arrivals);
        match self {
            Self::MaxRate if !matches!(arrivals, Some(Arrivals::Poisson(_))) => Err(Error::usage(
                "a rate is searched for Poisson arrivals alone",
            )
            .help(
                "leave --arrivals out; say how many with --requests and how long with --lengths",
            )),
            Self::MaxRate if limits.tpot_p99.is_none() && limits.ttft_p99.is_none() => Err(
                Error::usage("any rate is served in the end: a limit of time is missing")
                    .help("add --ttft-p99 2s or --tpot-p99 50ms"),
            ),
            Self::MaxContext if s.load.as_ref().is_some_and(|l| own_lengths(l, s)) => {
                Err(Error::usage(
                    "requests of the load have lengths of their own: no one context to search",
                )
                .help("use --lengths fixed, or --find max-batch"))
            }
            Self::MinHbm if policy::parse(&s.policy)?.hbm().is_none() => Err(settings
                .wrong("policy", "has no budget of HBM to search")
                .help("use --policy four-tier")),
            _ => Ok(()),
        }
    }

    /// Numbers from the easy end to the hard one.
    pub(super) fn range(self, s: &Scenario) -> (u32, u32) {
        match self {
            Self::MaxBatch => (1, most_batch(s)),
            Self::MaxContext => {
                let least = s.prompt.saturating_add(1);
                (least, s.deployment.model.max_context.max(least))
            }
            Self::MaxRate => (0, RATES),
            Self::MinHbm => {
                let least = policy::parse(&s.policy).map_or(0, |p| p.least_hbm_tokens(s.prompt));
                let most = fitting(s);
                (most, least.min(most))
            }
        }
    }

    /// The scenario at a number.
    ///
    /// # Errors
    /// The policy does not parse: it did before.
    pub(super) fn with(self, s: &Scenario, n: u32) -> Result<Scenario> {
        let mut out = s.clone();
        match self {
            Self::MaxBatch => out.batch = n,
            Self::MaxContext => {
                out.output = n - s.prompt;
                if let Some(load) = &mut out.load {
                    for request in &mut Arc::make_mut(load).load.requests {
                        request.output = n - s.prompt;
                    }
                }
            }
            Self::MaxRate => {
                if let Some(load) = &mut out.load {
                    let load = Arc::make_mut(load);
                    at_rate(&mut load.load, &load.arrivals, rate(n));
                    load.arrivals = Arrivals::Poisson(rate(n));
                }
            }
            Self::MinHbm => out.policy = policy::parse(&s.policy)?.with_hbm_tokens(n).to_string(),
        }
        Ok(out)
    }

    /// Whether more may keep to a limit that less breaks: with more slots requests under load wait less for their first token.
    pub(super) fn rises(self, s: &Scenario, limits: &Limits) -> bool {
        self == Self::MaxBatch && s.load.is_some() && limits.ttft_p99.is_some()
    }

    /// Places between the ends of a search that is close enough, `share` of them being 4 % of the whole way: rates are a
    /// hundredth apart each.
    pub(super) fn apart(self, share: u32) -> u32 {
        match self {
            Self::MaxRate => 4,
            Self::MaxBatch | Self::MaxContext | Self::MinHbm => share,
        }
    }

    /// What a number stands for in the unit of the answer.
    pub(super) fn value(self, n: u32, tried: &Tried) -> f64 {
        match self {
            Self::MaxRate => rate(n),
            Self::MinHbm => tried.hbm_peak.unwrap_or(0.0),
            Self::MaxBatch | Self::MaxContext => f64::from(n),
        }
    }
}

/// The largest budget with which the question fits the card: the easy end of a search for less.
fn fitting(s: &Scenario) -> u32 {
    let whole = s.prompt.saturating_add(s.output);
    let Ok(spec) = policy::parse(&s.policy) else {
        return whole;
    };
    let fit = spec.with_hbm(Hbm::Fit);
    let mut s = s.clone();
    s.deployment = s.deployment.with_kernels();
    match budget::resolve(&s, fit).1.hbm() {
        Some(Hbm::Tokens(n)) => n.min(whole),
        _ => whole,
    }
}

/// Most requests together that are worth a try: those of a load, each of which takes a token of the budget as it decodes.
fn most_batch(s: &Scenario) -> u32 {
    let budget = s.load.as_ref().and_then(|l| l.token_budget);
    let come = s.load.as_ref().map_or(MOST_BATCH, |_| s.requests());
    MOST_BATCH.min(come).min(budget.unwrap_or(MOST_BATCH))
}

/// Why no larger batch is tried.
fn batch_end(s: &Scenario, last: &Tried) -> (&'static str, String) {
    let most = most_batch(s);
    let Some(load) = s.load.as_ref().filter(|_| most < MOST_BATCH) else {
        return ("search-end", "the largest batch that is simulated".into());
    };
    let all = s.requests();
    if most < all {
        let why = format!("the {most} tokens of a step, of which each decoding request takes one");
        return ("token-budget", why);
    }
    let of = match load.arrivals {
        Arrivals::File(_) => "the file",
        _ => "the load",
    };
    let why = match last.together.filter(|n| *n < all) {
        None => format!(
            "all there is: all {all} requests of {of} run at once; more slots change nothing"
        ),
        Some(n) => format!(
            "a slot for each of all {all} requests of {of}, of which {n} at most are there at once; more slots change nothing"
        ),
    };
    ("all-requests", why)
}

fn own_lengths(load: &crate::scenario::UnderLoad, s: &Scenario) -> bool {
    let own = |r: &crate::workload::Request| (r.prompt, r.output) != (s.prompt, s.output);
    load.load.requests.iter().any(own)
}

/// Requests a second of a number, to three digits: what is said is what is run.
fn rate(n: u32) -> f64 {
    let exact = LEAST_RATE * libm::pow(RATIO, f64::from(n));
    let scale = libm::pow(10.0, libm::floor(libm::log10(exact)) - 3.0);
    libm::round(exact / scale) * scale
}

/// The same gaps at another rate.
fn at_rate(load: &mut Load, was: &Arrivals, rate: f64) {
    let Arrivals::Poisson(was) = was else {
        return;
    };
    for request in &mut load.requests {
        request.arrival = Ps::from_secs(request.arrival.secs() * was / rate);
    }
}
