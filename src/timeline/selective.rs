//! Which host tokens a step of `selective` fetches: how it is asked for, and what a replay found.
//!
//! Only a part of T1 and T2 takes part in attention: the best by a prediction, a fixed number of them (`top-k`) or as many
//! as are thought to hold a share of the host tokens' attention (`top-p`). The fetched set stays in HBM until the next
//! step; what is in it again does not cross the link again. What is not fetched is lost to that step, though not for good.
//!
//! Rival: whole pages picked by a digest of their keys (Quest, `ArkVale`), which needs keys and holds a digest in HBM; here
//! single tokens are picked, and what the predictor keeps (a score a token) is not counted. Units: tokens of one request,
//! attention weight. Deterministic: ties go to the lower position.

use std::fmt;

/// How much is fetched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// So many tokens of a request, all if there are fewer.
    TopK(u32),
    /// The fewest tokens predicted to hold this share of what all host tokens hold.
    TopP(f64),
}

/// By what the host tokens are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predict {
    /// Their weight in the whole row before, which a real run could not know of tokens it did not fetch: optimistic.
    LastRow,
    /// The policy's own score from attended tokens only: what was not fetched has no weight and gains no score.
    FetchedOnly,
}

impl Predict {
    /// The word used in flags and results.
    pub fn word(self) -> &'static str {
        match self {
            Self::LastRow => "last-row",
            Self::FetchedOnly => "fetched-only",
        }
    }
}

/// What is fetched each step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection {
    /// How much.
    pub pick: Pick,
    /// By what.
    pub predict: Predict,
}

/// What the text after `selective:` may be.
const FORM: &str = "write selective:top-k=512 or selective:top-p=0.9, with predict=last-row or predict=fetched-only after a \
comma if wanted";

impl Selection {
    /// Parses `top-k=N` or `top-p=P`, with `predict=WORD` after a comma (default `fetched-only`).
    ///
    /// # Errors
    /// A sentence that names the text and the way out.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut pick, mut predict) = (None, None);
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is no KEY=VALUE: {FORM}"))?;
            match key.trim() {
                "top-k" | "top-p" if pick.is_some() => {
                    return Err(format!("both top-k and top-p, or one twice: {FORM}"));
                }
                "top-k" => pick = Some(top_k(value.trim())?),
                "top-p" => pick = Some(top_p(value.trim())?),
                "predict" if predict.is_some() => return Err("predict is given twice".into()),
                "predict" => predict = Some(predictor(value.trim())?),
                other => return Err(format!("`{other}` is not a parameter of selective: {FORM}")),
            }
        }
        Ok(Self {
            pick: pick.ok_or_else(|| format!("it does not say how much to fetch: {FORM}"))?,
            predict: predict.unwrap_or(Predict::FetchedOnly),
        })
    }

    /// The most that is fetched of `host` tokens in T1 and T2, as counts alone can tell: all of it anew, scattered.
    pub fn most(&self, host: [f64; 2]) -> Fetch {
        let all = host[0] + host[1];
        let share = match self.pick {
            Pick::TopK(k) if all > f64::from(k) => f64::from(k) / all,
            Pick::TopK(_) | Pick::TopP(_) => 1.0,
        };
        let fetched = host.map(|n| n * share);
        let count = fetched[0] + fetched[1];
        Fetch {
            fetched,
            fetched_runs: count,
            fresh: fetched,
            fresh_runs: count,
            ..Fetch::default()
        }
    }
}

fn top_k(text: &str) -> Result<Pick, String> {
    let whole = text.replace('_', "").parse::<u32>().ok();
    whole
        .filter(|k| (1..=1 << 24).contains(k))
        .map(Pick::TopK)
        .ok_or_else(|| format!("top-k={text}: it takes a number of tokens from 1 to 16,777,216"))
}

fn top_p(text: &str) -> Result<Pick, String> {
    let share = text.parse::<f64>().ok();
    share
        .filter(|p| *p > 0.0 && *p <= 1.0)
        .map(Pick::TopP)
        .ok_or_else(|| format!("top-p={text}: it takes a share over 0, at most 1"))
}

fn predictor(text: &str) -> Result<Predict, String> {
    match text {
        "last-row" => Ok(Predict::LastRow),
        "fetched-only" => Ok(Predict::FetchedOnly),
        _ => Err(format!(
            "predict={text}: it takes fetched-only (causal) or last-row (optimistic)"
        )),
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pick {
            Pick::TopK(k) => write!(f, "top-k={k}")?,
            Pick::TopP(p) => write!(f, "top-p={p}")?,
        }
        write!(f, ",predict={}", self.predict.word())
    }
}

/// What one step fetches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fetch {
    /// The lowest prediction among the fetched; 0 if none is known.
    pub threshold: f64,
    /// Tokens of T1 and of T2 that take part.
    pub fetched: [f64; 2],
    /// Contiguous runs of positions among them.
    pub fetched_runs: f64,
    /// Those of them that cross the link in this step, not having been fetched in the step before.
    pub fresh: [f64; 2],
    /// Contiguous runs among those.
    pub fresh_runs: f64,
    /// Mass of the step's row on host tokens that were not fetched; 0 where no row is known.
    pub residual_mass: f64,
}

impl Fetch {
    /// Adds the fetch of another request; thresholds and masses are no sums and stay out.
    pub fn add(&mut self, other: &Self) {
        for tier in 0..2 {
            self.fetched[tier] += other.fetched[tier];
            self.fresh[tier] += other.fresh[tier];
        }
        self.fetched_runs += other.fetched_runs;
        self.fresh_runs += other.fresh_runs;
    }

    /// So many requests alike.
    #[must_use]
    pub fn times(&self, n: f64) -> Self {
        Self {
            fetched: self.fetched.map(|x| x * n),
            fetched_runs: self.fetched_runs * n,
            fresh: self.fresh.map(|x| x * n),
            fresh_runs: self.fresh_runs * n,
            ..Self::default()
        }
    }
}
