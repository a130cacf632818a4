//! How much a position matters: cumulative attention and its variants.
//!
//! A score is kept by whoever runs the policy (a replay, a real cache), not by the policy: any number of policies that
//! rank by one rule share one [`Score`], and nine settings of one policy cost one accumulation. Rows are added on every
//! position, destroyed ones too: those never return, so their score is never read, and rows need no gathering.
//!
//! The published method is [`Rule::Cumulative`]: a prompt position starts from its column sum of the prefill, a new token
//! at 0, and each row adds its weight. It favours age: the youngest candidates have the fewest rows behind them.
//! [`Rule::PerAge`], [`Rule::Ema`] and [`Rule::Last`] are the cures measured beside it. [`Rule::Future`] reads what a
//! real run cannot know and serves the oracle.
//!
//! Units: attention weight, binary64. Deterministic on every CPU: see `simd`. Ignored: layers whose rows hold a NaN
//! (the published code drops them from its mean; a trace holds means already).

use std::fmt;
use std::ops::Range;

use crate::simd::Kernels;

/// Which score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Sum of the weights received so far.
    Cumulative,
    /// That sum over the number of rows that could have attended to it.
    PerAge,
    /// Moving average, `s = lambda * s + (1 - lambda) * weight`, from 0.
    Ema(f64),
    /// Weight in the latest row.
    Last,
    /// Sum of the weights still to come: the oracle's.
    Future,
}

impl Rule {
    /// Parses `cumulative`, `per-age`, `ema:LAMBDA` or `last`.
    ///
    /// # Errors
    /// A sentence naming the text and what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "cumulative" => Ok(Self::Cumulative),
            "per-age" => Ok(Self::PerAge),
            "last" => Ok(Self::Last),
            _ => match text.strip_prefix("ema:") {
                Some(lambda) => Self::ema(lambda),
                None => Err(format!(
                    "`{text}` is not a score: use cumulative, per-age, ema:LAMBDA (ema:0.98) or last"
                )),
            },
        }
    }

    fn ema(lambda: &str) -> Result<Self, String> {
        match lambda.parse::<f64>() {
            Ok(x) if x > 0.0 && x < 1.0 => Ok(Self::Ema(x)),
            _ => Err(format!(
                "`ema:{lambda}` needs a factor between 0 and 1, both excluded, like ema:0.98"
            )),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cumulative => f.write_str("cumulative"),
            Self::PerAge => f.write_str("per-age"),
            Self::Ema(lambda) => write!(f, "ema:{lambda}"),
            Self::Last => f.write_str("last"),
            Self::Future => f.write_str("future"),
        }
    }
}

/// Weights decoded at a time: everything is done with them while they lie in the first-level cache.
pub const PART: usize = 2048;

/// Decodes the binary16 `bits` of a row part by part, adds it to every score, hands each part with its first position to
/// `each`, and returns the row's sum. A `buffer` as long as the row keeps all of it; one of [`PART`] is used over again.
pub fn observe_bits(
    bits: &[u16],
    buffer: &mut [f32],
    scores: &mut [Score],
    mut each: impl FnMut(usize, &[f32]),
) -> f64 {
    let mut sum = 0.0;
    for score in &mut *scores {
        score.values.resize(bits.len(), 0.0);
    }
    let keep = buffer.len() >= bits.len();
    for (i, bits) in bits.chunks(PART).enumerate() {
        let at = i * PART;
        let from = if keep { at } else { 0 };
        let part = &mut buffer[from..from + bits.len()];
        sum += Kernels::best().widen(bits, part);
        for score in &mut *scores {
            score.add(at, part);
        }
        each(at, part);
    }
    sum
}

/// The score of every position of one sequence under one rule.
#[derive(Clone, Debug)]
pub struct Score {
    rule: Rule,
    /// One a position ever appended.
    values: Vec<f64>,
    /// Whole-trace column sums, for [`Rule::Future`].
    totals: Vec<f64>,
    prompt: u32,
    /// Rows the oldest prompt position got during prefill (0 where no column sums were recorded).
    prefill_rows: u32,
}

impl Score {
    /// Before step 0; `column_sums` is what each prompt position received during prefill.
    pub fn new(rule: Rule, prompt: u32, column_sums: Option<&[f32]>) -> Self {
        let sums = column_sums.filter(|_| matches!(rule, Rule::Cumulative | Rule::PerAge));
        let mut values = vec![0.0; prompt as usize];
        for (value, sum) in values.iter_mut().zip(sums.unwrap_or_default()) {
            *value = f64::from(*sum);
        }
        Self {
            rule,
            values,
            totals: Vec::new(),
            prompt,
            prefill_rows: if sums.is_some() { prompt } else { 0 },
        }
    }

    /// The oracle's: `totals` holds the column sums of all decode rows.
    pub fn future(prompt: u32, totals: Vec<f64>) -> Self {
        let mut score = Self::new(Rule::Future, prompt, None);
        score.totals = totals;
        score
    }

    /// The rule.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Adds the row of a step, one weight a position ever appended.
    pub fn observe(&mut self, weights: &[f32]) {
        self.values.resize(weights.len(), 0.0);
        self.add(0, weights);
    }

    /// Adds a part of a row that begins at position `at`.
    fn add(&mut self, at: usize, weights: &[f32]) {
        let kernels = Kernels::best();
        let values = &mut self.values[at..at + weights.len()];
        match self.rule {
            Rule::Cumulative | Rule::PerAge | Rule::Future => kernels.accumulate(values, weights),
            Rule::Ema(keep) => kernels.decay(values, weights, keep),
            Rule::Last => {
                for (value, w) in values.iter_mut().zip(weights) {
                    *value = f64::from(*w);
                }
            }
        }
    }

    /// Score of a position after the latest row.
    #[inline]
    pub fn of(&self, position: u32) -> f64 {
        let value = self.values[position as usize];
        match self.rule {
            Rule::PerAge => value / f64::from(self.age(position)),
            Rule::Future => self.totals[position as usize] - value,
            _ => value,
        }
    }

    /// Appends `f` of the scores of a range of positions to `out`; the rule is looked at once.
    #[inline]
    pub fn map_into<T>(&self, positions: Range<u32>, out: &mut Vec<T>, f: impl Fn(f64) -> T) {
        let range = positions.start as usize..positions.end as usize;
        let values = self.values[range.clone()].iter();
        match self.rule {
            Rule::PerAge => out.extend(positions.map(|p| f(self.of(p)))),
            Rule::Future => {
                let totals = self.totals[range].iter();
                out.extend(values.zip(totals).map(|(value, total)| f(total - value)));
            }
            _ => out.extend(values.map(|value| f(*value))),
        }
    }

    /// Rows that could have attended to the position, its own included.
    fn age(&self, position: u32) -> u32 {
        let length = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let rows = length - position.max(self.prompt);
        let prefill = self.prefill_rows.saturating_sub(position);
        (rows + prefill).max(1)
    }
}
