//! The tokens of a law: what each recorded one draws, and those that new ones are modelled on.
//!
//! Per token: what it drew in the window (its young factor) and, from its last spans of 64 rows, the weight it would have
//! at age 128. A token far above the others is a heavy hitter, and does not decay.
//! New tokens are like the latest ones that have left the window and, where the text goes round in circles (see `repeat`),
//! like those of its last period. Units: shares of a row.

use super::gather::Sums;
use super::lasting::Lasting;
use super::law::{Donor, Law, Token};
use super::repeat;
use super::trim::{Line, mean, median, variance};
use super::{SPAN, WINDOW};
use crate::error::{Error, Result};

/// Spans that a token's late weight is taken from.
const LATEST: usize = 6;
/// Tokens that new ones are modelled on, the latest that have left the window.
const DONORS: usize = 320;
/// Fewest of them.
const FEWEST: usize = 16;
/// How far above the median a heavy hitter lies.
const HEAVY: f64 = 8.0;

impl Sums {
    /// Log of the weight that token `q` would have at age 128, from the latest spans it was old in.
    fn late_weight(&self, law: &Law, q: usize) -> Option<f64> {
        let window = f64::from(WINDOW).ln();
        let (mut sum, mut spans) = (0.0, 0.0);
        for i in self.logs.len().saturating_sub(LATEST)..self.logs.len() {
            let (start, span) = self.old_in(i);
            if let Some(log) = span.get(q) {
                sum += log + law.decay * (self.age(start, q) - window);
                spans += 1.0;
            }
        }
        (spans > 0.0).then(|| sum / spans)
    }

    /// What the token drew within the window over what the kernel alone would have.
    fn young_factor(&self, law: &Law, q: usize) -> f64 {
        let seen = self.rows as usize - q;
        if seen < 16 {
            return 1.0;
        }
        let kernel = &law.kernel[..seen.min(WINDOW as usize)];
        (self.young[q] / kernel.iter().sum::<f64>().max(1e-12)).max(1e-3)
    }

    /// The recorded tokens, and what new ones will be like.
    pub(super) fn fit_tokens(&self, law: &mut Law) -> Result<()> {
        let n = self.rows as usize;
        let mut known: Vec<f64> = (0..n).map_while(|q| self.late_weight(law, q)).collect();
        if known.len() < FEWEST {
            return Err(Error::usage(format!(
                "{n} rows are too few to say where attention goes beyond them"
            ))
            .help("use a trace of at least 272 rows, or ask for no more steps than it has"));
        }
        let heavy = self.take_heavy(&mut known);
        law.donors = (known.len().saturating_sub(DONORS)..known.len())
            .map(|q| Donor {
                young: self.young_factor(law, q),
                old: known[q].exp(),
                born: to_step(q),
            })
            .collect();
        let lasting = Lasting::fit(&law.donors);
        law.lasting = lasting.slope;
        self.fit_loop(law, &lasting);
        for q in 0..n {
            let young = self.young_factor(law, q);
            // Still in the window: as a donor with that young factor.
            let aged = || law.donors[q % law.donors.len()].aged(young, law.lasting);
            let old = known.get(q).map_or_else(aged, |log| log.exp());
            let heavy = heavy.get(q).copied().unwrap_or(0.0);
            law.tokens.push(Token { young, old, heavy });
        }
        self.fit_new(law);
        Ok(())
    }

    /// Where the text repeats itself, half of the new tokens are like those of its last period that have been seen for long
    /// enough, and half like the text before: nobody knows how long a loop lasts.
    fn fit_loop(&self, law: &mut Law, lasting: &Lasting) {
        let Some(period) = repeat::period(&self.profiles) else {
            return;
        };
        let end = self.rows as usize - repeat::ROWS;
        let copy_of = |q: usize| {
            let young = self.young_factor(law, q);
            Donor {
                young,
                old: lasting.old(young),
                born: self.rows,
            }
        };
        let copies: Vec<Donor> = (end.saturating_sub(period)..end).map(copy_of).collect();
        let whole_periods = law.donors.len() / copies.len() * copies.len();
        law.donors
            .extend(copies.iter().cycle().take(whole_periods).copied());
    }

    /// Weights of heavy hitters, 0 for others; what one draws besides is a typical token's.
    fn take_heavy(&self, known: &mut [f64]) -> Vec<f64> {
        let typical = median(&mut known.to_vec());
        // Long enough out of the window to tell what lasts.
        let settled = (self.rows as usize + 1).saturating_sub((WINDOW + 5 * SPAN) as usize);
        let mut out = vec![0.0; known.len()];
        for (q, log) in known.iter_mut().enumerate().take(settled) {
            if *log > typical + HEAVY.ln() {
                *log = typical;
                out[q] = self.level(q);
            }
        }
        out
    }

    /// Changes from span `i - 1` to span `i` that decay does not explain, around their median, token by token.
    pub(super) fn changes(&self, law: &Law, i: usize) -> Vec<f64> {
        let ((start, before), (later, after)) = (self.old_in(i - 1), self.old_in(i));
        let heavy = |q: &usize| law.tokens.get(*q).is_some_and(|t| t.heavy > 0.0);
        let mut changes: Vec<f64> = (0..before.len())
            .filter(|q| !heavy(q))
            .map(|q| after[q] - before[q] + law.decay * (self.age(later, q) - self.age(start, q)))
            .collect();
        let typical = median(&mut changes.clone());
        for c in &mut changes {
            *c = (*c - typical).clamp(-2.0, 2.0);
        }
        changes
    }

    /// Mean weight over the latest spans.
    fn level(&self, q: usize) -> f64 {
        let spans = self.spans.iter().rev().take(LATEST).filter(|s| q < s.len());
        mean(spans.map(|s| f64::from(s[q])))
    }

    /// Heavy hitters among new tokens, and how the young factors' spread goes on.
    fn fit_new(&self, law: &mut Law) {
        let settled = self.late.saturating_sub(256)
            ..(self.rows as usize).saturating_sub(WINDOW as usize + 300);
        if let Some(tokens) = law.tokens.get(settled).filter(|t| !t.is_empty()) {
            law.heavy_weights = tokens
                .iter()
                .map(|t| t.heavy)
                .filter(|h| *h > 0.0)
                .collect();
            law.heavy_share = law.heavy_weights.len() as f64 / tokens.len() as f64;
        }
        law.heavy_loss = self.heavy_loss(law);
        let mut line = Line::default();
        let seen = law.tokens.len().saturating_sub(96);
        for (i, block) in law.tokens[..seen]
            .chunks(SPAN as usize)
            .enumerate()
            .filter(|(_, b)| b.len() >= 24)
        {
            let at = (i as f64 + 1.0) * f64::from(SPAN) + block.len() as f64 / 2.0;
            let spread = variance(block.iter().map(|t| t.young.ln())).sqrt();
            line.add(at.ln(), spread.max(1e-3).ln());
        }
        law.spread_slope = line.slope().unwrap_or(0.0).clamp(-0.5, 0.0);
    }

    /// Share of the heavy hitters of the first kept span that are none in the last, a span.
    fn heavy_loss(&self, law: &Law) -> f64 {
        let Some(last) = self.logs.len().checked_sub(1).filter(|n| *n > 0) else {
            return 0.0;
        };
        let (start, before) = self.old_in(0);
        let window = f64::from(WINDOW).ln();
        let typical = median(&mut law.donors.iter().map(|d| d.old.ln()).collect::<Vec<_>>());
        let seen = start.saturating_sub((WINDOW + 4 * SPAN) as usize);
        let is_heavy = |q: usize| {
            before[q] + law.decay * (self.age(start, q) - window) > typical + (2.0 * HEAVY).ln()
        };
        let heavy: Vec<usize> = (0..seen).filter(|q| is_heavy(*q)).collect();
        let ceased = heavy
            .iter()
            .filter(|q| law.tokens[**q].heavy <= 0.0)
            .count();
        ceased as f64 / heavy.len().max(1) as f64 / last as f64
    }
}

fn to_step(q: usize) -> u32 {
    u32::try_from(q).unwrap_or(u32::MAX)
}
