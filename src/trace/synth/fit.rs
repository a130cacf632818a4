//! Fits a law to recorded rows: one pass that gathers sums, then plain statistics of the late part.
//!
//! Everything that levels off or drifts is taken from the late part, because that is what goes on. Per token: what it
//! drew in the window (its young factor) and, from its last spans of 64 rows, the weight it would have at age 128. The
//! decay is the slope *within* tokens between spans (least squares, long lags weigh most): between tokens of different
//! age it would mix decay with what kind of text came when. A token far above the others is a heavy hitter.

use super::gather::{FLOOR, Sums};
use super::law::Law;
use super::repeat;
use super::trim::{Line, mean};
use super::{SPAN, WINDOW};
use crate::error::{Error, Result};
use crate::simd::Kernels;
use crate::trace::Rows;

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
        if repeat::period(&self.profiles).is_some() {
            law.revisit = law.revisit.min(repeat::REVISIT);
        }
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
    pub(super) fn old_in(&self, i: usize) -> (usize, &[f64]) {
        let start = (self.first + i) * SPAN as usize;
        (
            start,
            &self.logs[i][..start.saturating_sub(WINDOW as usize)],
        )
    }

    /// Log of the age of token `q` in the middle of the span that starts at row `start`.
    pub(super) fn age(&self, start: usize, q: usize) -> f64 {
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

    /// Changes between neighbouring spans that neighbours in the text share.
    fn fit_revisits(&self, law: &mut Law) {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for i in 1..self.logs.len() {
            let changes = self.changes(law, i);
            if changes.len() < 48 {
                continue;
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
