//! Fits a law to recorded rows: one pass that gathers sums, then plain statistics of the late part.
//!
//! Everything that levels off or drifts is taken from the late part, because that is what goes on. Per token: what it
//! drew in the window (its young factor) and, from its last spans of 64 rows, the weight it would have at age 128. The
//! decay is the slope *within* tokens between spans (least squares, long lags weigh most): between tokens of different
//! age it would mix decay with what kind of text came when. A token far above the others is a heavy hitter.

use super::gather::{FLOOR, Sums};
use super::law::{Donor, Law, Token};
use super::trim::{Line, mean, median, variance};
use super::{SPAN, WINDOW};
use crate::error::{Error, Result};
use crate::simd::Kernels;
use crate::trace::Rows;

/// Spans that a token's late weight is taken from.
const LATEST: usize = 6;
/// Tokens that new ones are modelled on, the latest that have left the window.
const DONORS: usize = 320;
/// Fewest of them.
const FEWEST: usize = 16;
/// How far above the median a heavy hitter lies.
const HEAVY: f64 = 8.0;
/// Decay seen in the shipped traces, and how many squared log-ratios of age it counts for.
const DECAY: (f64, f64) = (1.2, 50.0);
/// Noise, what it keeps, revisits and their reach in the shipped traces, for recordings too short to show their own.
const UNSEEN: (f64, f64, f64, f64) = (0.45, 0.7, 0.05, 32.0);

impl Law {
    /// The law of the first `limit` rows.
    ///
    /// # Errors
    /// Usage: too few rows for tokens that have left the window. Data: damage in the rows.
    pub fn fit(rows: &dyn Rows, limit: u32) -> Result<Self> {
        let mut sums = Sums::new(rows.prompt() as usize, limit.min(rows.rows()));
        let mut buffer = vec![0f32; sums.prompt + sums.rows as usize];
        rows.for_each(sums.rows, &mut |t, bits| {
            let row = buffer
                .get_mut(..bits.len())
                .filter(|r| r.len() == sums.prompt + t as usize + 1);
            let Some(row) = row else {
                return Err(Error::data(format!("row {t} has {} weights", bits.len())));
            };
            let total = Kernels::best().widen(bits, row);
            sums.add(t as usize, row, total);
            Ok(())
        })?;
        sums.law()
    }
}

impl Sums {
    fn law(mut self) -> Result<Law> {
        for (age, sum) in self.kernel.iter_mut().enumerate() {
            // Late rows that have a token of that age.
            let rows = (self.rows as usize).saturating_sub(self.late.max(age));
            *sum /= rows.max(1) as f64;
        }
        self.logs = self
            .spans
            .iter()
            .map(|s| s.iter().map(|w| ln(*w)).collect())
            .collect();
        self.ages = (0..=self.rows).map(|a| f64::from(a.max(1)).ln()).collect();
        let mut law = Law {
            rows: self.rows,
            front: self
                .front
                .iter()
                .map(|w| w / self.front_rows.max(1.0))
                .collect(),
            prompt_lasts: 1.0,
            prompt_from: 1.0,
            kernel: self.kernel.clone(),
            decay: self.decay(),
            tokens: Vec::new(),
            donors: Vec::new(),
            spread_slope: 0.0,
            lasting: 0.0,
            heavy_share: 0.0,
            heavy_weights: Vec::new(),
            heavy_loss: 0.0,
            noise: UNSEEN.0,
            noise_keep: UNSEEN.1,
            revisit: UNSEEN.2,
            revisit_reach: UNSEEN.3,
        };
        self.fit_prompt(&mut law);
        self.fit_tokens(&mut law)?;
        self.fit_revisits(&mut law);
        self.fit_noise(&mut law);
        Ok(law)
    }

    /// How much of the prompt lasts: its share as a constant and a part that decays as any old token does.
    fn fit_prompt(&self, law: &mut Law) {
        let Some((end, _)) = self.prompt_rest.last() else {
            return;
        };
        let left = |off: f64| (off / end).powf(-law.decay);
        let mut line = Line::default();
        for (off, share) in &self.prompt_rest {
            line.add(left(*off), *share);
        }
        let (mean, decayed) = (line.mean_y(), line.mean_x());
        let decays = line.slope().unwrap_or(0.0) * decayed;
        law.prompt_lasts = 1.0 - (decays / mean.max(1e-12)).clamp(0.0, 1.0);
        law.prompt_from = end * decayed.powf(-1.0 / law.decay);
    }

    /// Span `i` of the kept ones: its first row, and the logs of its tokens that were out of the window throughout.
    fn old_in(&self, i: usize) -> (usize, &[f64]) {
        let start = (self.first + i) * SPAN as usize;
        (
            start,
            &self.logs[i][..start.saturating_sub(WINDOW as usize)],
        )
    }

    /// Log of the age of token `q` in the middle of the span that starts at row `start`.
    fn age(&self, start: usize, q: usize) -> f64 {
        self.ages[start + SPAN as usize / 2 - q]
    }

    /// Slope of log weight over log age within tokens.
    fn decay(&self) -> f64 {
        let (mut dot, mut square) = (DECAY.0 * DECAY.1, DECAY.1);
        for i in 0..self.logs.len() {
            let (start, before) = self.old_in(i);
            let every = (before.len() / 256).max(1);
            for j in i + 1..self.logs.len() {
                let (later, after) = self.old_in(j);
                for q in (0..before.len()).step_by(every) {
                    let ages = self.age(later, q) - self.age(start, q);
                    dot += ages * (before[q] - after[q]).clamp(-2.0, 2.0);
                    square += ages * ages;
                }
            }
        }
        (dot / square).clamp(0.3, 2.5)
    }

    /// Log of the weight that token `q` would have at age 128, from the latest spans it was old in.
    fn late_weight(&self, law: &Law, q: usize) -> Option<f64> {
        let window = f64::from(WINDOW).ln();
        let (mut sum, mut n) = (0.0, 0.0);
        for i in self.logs.len().saturating_sub(LATEST)..self.logs.len() {
            let (start, span) = self.old_in(i);
            if let Some(log) = span.get(q) {
                sum += log + law.decay * (self.age(start, q) - window);
                n += 1.0;
            }
        }
        (n > 0.0).then(|| sum / n)
    }

    fn fit_tokens(&self, law: &mut Law) -> Result<()> {
        let n = self.rows as usize;
        let weights: Vec<Option<f64>> = (0..n).map(|q| self.late_weight(law, q)).collect();
        let mut known: Vec<f64> = weights.iter().flatten().copied().collect();
        if known.len() < FEWEST {
            return Err(Error::usage(format!(
                "{n} rows are too few to say where attention goes beyond them"
            ))
            .help("use a trace of at least 272 rows, or ask for no more steps than it has"));
        }
        let typical = median(&mut known);
        let within = |q: usize| {
            law.kernel[..(n - q).min(WINDOW as usize)]
                .iter()
                .sum::<f64>()
        };
        for (q, weight) in weights.iter().enumerate() {
            let young = if n - q >= 16 {
                (self.young[q] / within(q).max(1e-12)).max(1e-3)
            } else {
                1.0
            };
            let token = match weight {
                // Long enough out of the window to tell what lasts.
                Some(w) if *w > typical + HEAVY.ln() && q + (WINDOW + 5 * SPAN) as usize <= n => {
                    Token {
                        young,
                        old: typical.exp(),
                        heavy: self.level(q),
                    }
                }
                Some(w) => Token {
                    young,
                    old: w.exp(),
                    heavy: 0.0,
                },
                None => Token {
                    young,
                    old: 0.0,
                    heavy: 0.0,
                },
            };
            law.tokens.push(token);
        }
        self.fit_new(law, known.len());
        Ok(())
    }

    /// Mean weight over the latest spans.
    fn level(&self, q: usize) -> f64 {
        let spans = self.spans.iter().rev().take(LATEST).filter(|s| q < s.len());
        mean(spans.map(|s| f64::from(s[q])))
    }

    /// What new tokens will be like; also completes tokens that are still in the window.
    fn fit_new(&self, law: &mut Law, known: usize) {
        let first = known.saturating_sub(DONORS);
        let donors = law.tokens[first..known].iter().zip(first..);
        law.donors = donors
            .map(|(t, q)| Donor {
                young: t.young,
                old: t.old,
                born: to_step(q),
            })
            .collect();
        for (i, token) in law.tokens[known..].iter_mut().enumerate() {
            token.old = law.donors[i % law.donors.len()].old;
        }
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

    /// Changes between neighbouring spans that neighbours in the text share.
    fn fit_revisits(&self, law: &mut Law) {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for i in 1..self.logs.len() {
            let ((start, before), (later, after)) = (self.old_in(i - 1), self.old_in(i));
            let ordinary = (0..before.len()).filter(|q| law.tokens[*q].heavy <= 0.0);
            let change = |q: usize| {
                after[q] - before[q] + law.decay * (self.age(later, q) - self.age(start, q))
            };
            let mut changes: Vec<f64> = ordinary.map(change).collect();
            if changes.len() < 48 {
                continue;
            }
            let typical = median(&mut changes.clone());
            for c in &mut changes {
                *c = (*c - typical).clamp(-2.0, 2.0);
            }
            let product =
                |lag: usize| mean(changes.iter().zip(&changes[lag..]).map(|(a, b)| a * b));
            // A change between two independent spans has twice the variance of one.
            near.push(product(3) / 2.0);
            far.push(product(16) / 2.0);
        }
        if near.is_empty() {
            return;
        }
        law.revisit = mean(near).max(0.0);
        let kept = (mean(far) / law.revisit.max(1e-9)).clamp(0.05, 0.99);
        law.revisit_reach = (-13.0 / kept.ln()).clamp(8.0, 96.0);
    }

    /// Noise of single rows around a token's mean, and how it fades.
    fn fit_noise(&self, law: &mut Law) {
        let tokens = self.noise.first().map_or(0, Vec::len);
        if tokens < 8 || self.noise.len() < 16 {
            return;
        }
        let column = |q: usize| mean(self.noise.iter().map(|row| row[q]));
        let means: Vec<f64> = (0..tokens).map(column).collect();
        let centred: Vec<Vec<f64>> = self
            .noise
            .iter()
            .map(|row| row.iter().zip(&means).map(|(x, m)| x - m).collect())
            .collect();
        let squares = centred.iter().flatten().map(|x| x * x);
        law.noise = mean(squares).clamp(0.0, 2.0);
        let alone: Vec<Vec<f64>> = centred
            .iter()
            .map(|row| {
                let common = mean(row.iter().copied());
                row.iter().map(|x| x - common).collect()
            })
            .collect();
        let next = alone
            .windows(2)
            .flat_map(|pair| pair[0].iter().zip(&pair[1]).map(|(a, b)| a * b));
        let all = mean(alone.iter().flatten().map(|x| x * x));
        law.noise_keep = (mean(next) / all.max(1e-12)).clamp(0.0, 0.95);
    }
}

fn ln(weight: f32) -> f64 {
    (f64::from(weight) + FLOOR / 3.0).ln()
}

fn to_step(q: usize) -> u32 {
    u32::try_from(q).unwrap_or(u32::MAX)
}
