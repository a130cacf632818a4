//! One pass over recorded rows: the sums that a law is fitted to.
//!
//! Kept are the latest spans of 64 rows added up, what each token drew within the window, the mean kernel and front of
//! the late part, and the logs of the last rows on some tokens. All weights count as shares of their row. Memory is some
//! 32 rows, whatever the length of the trace.

use super::law::SINKS;
use super::repeat;
use super::{SPAN, WINDOW};

/// Spans kept, the latest ones.
const KEPT: usize = 32;
/// Tokens looked at for the noise of single rows.
const NOISE_TOKENS: usize = 64;
/// What is added to a weight before its log is taken: some of binary16's smallest steps.
pub(super) const FLOOR: f64 = 3e-7;

/// What the pass gathers.
pub(super) struct Sums {
    pub(super) prompt: usize,
    pub(super) rows: u32,
    pub(super) late: usize,
    /// Mean weight of each generated token over 64 rows, the latest spans; `first` is the number of the first kept.
    pub(super) spans: Vec<Vec<f32>>,
    pub(super) first: usize,
    /// Logs of `spans`, and of ages: `ages[i]` is ln(i).
    pub(super) logs: Vec<Vec<f64>>,
    pub(super) ages: Vec<f64>,
    pub(super) span: Vec<f32>,
    /// What each token drew within the window.
    pub(super) young: Vec<f64>,
    pub(super) kernel: Vec<f64>,
    pub(super) front: Vec<f64>,
    pub(super) front_rows: f64,
    /// Late rows by what the prompt beyond its sinks drew: how far off its middle is (tokens), and its share.
    pub(super) prompt_rest: Vec<(f64, f64)>,
    /// The last rows at some ages.
    pub(super) profiles: Vec<repeat::Profile>,
    /// Logs of the last rows on some tokens, row by row.
    pub(super) noise: Vec<Vec<f64>>,
}

impl Sums {
    pub(super) fn new(prompt: usize, rows: u32) -> Self {
        let n = rows as usize;
        let spans = n / SPAN as usize;
        Self {
            prompt,
            rows,
            late: n - (n / 2).max(256).min(n),
            spans: Vec::new(),
            logs: Vec::new(),
            ages: Vec::new(),
            first: (spans / 2).max(3).max(spans.saturating_sub(KEPT)),
            span: vec![0.0; n],
            young: vec![0.0; n],
            kernel: vec![0.0; WINDOW as usize],
            front: vec![0.0; prompt],
            front_rows: 0.0,
            prompt_rest: Vec::new(),
            profiles: Vec::new(),
            noise: Vec::new(),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // weights are f32 to begin with
    pub(super) fn add(&mut self, t: usize, row: &[f32], total: f64) {
        if total <= 0.0 {
            return;
        }
        let scale = 1.0 / total;
        let (front, generated) = row.split_at(self.prompt);
        let per_row = (scale / f64::from(SPAN)) as f32;
        for (sum, w) in self.span.iter_mut().zip(generated) {
            *sum += w * per_row;
        }
        if (t + 1).is_multiple_of(SPAN as usize) {
            if t / SPAN as usize >= self.first {
                self.spans.push(self.span[..=t].to_vec());
            }
            self.span.fill(0.0);
        }
        let window = &generated[generated.len().saturating_sub(WINDOW as usize)..];
        let young = &mut self.young[t + 1 - window.len()..=t];
        for (sum, w) in young.iter_mut().zip(window) {
            *sum += f64::from(*w) * scale;
        }
        if t >= self.late {
            for (sum, w) in self.kernel.iter_mut().zip(window.iter().rev()) {
                *sum += f64::from(*w) * scale;
            }
            self.add_front(t, front, scale);
        }
        if t + repeat::KEPT >= self.rows as usize {
            self.profiles.extend(repeat::profile(generated, FLOOR));
        }
        if t + SPAN as usize >= self.rows as usize {
            self.add_noise(generated);
        }
    }

    fn add_front(&mut self, t: usize, front: &[f32], scale: f64) {
        for (sum, w) in self.front.iter_mut().zip(front) {
            *sum += f64::from(*w) * scale;
        }
        self.front_rows += 1.0;
        let rest: f64 = front.iter().skip(SINKS).map(|w| f64::from(*w)).sum();
        if t >= SPAN as usize && rest > 0.0 {
            let off = t as f64 + self.prompt as f64 / 2.0;
            self.prompt_rest.push((off, rest * scale));
        }
    }

    /// Logs of the row on some tokens that are out of the window by then.
    fn add_noise(&mut self, generated: &[f32]) {
        let old = (self.rows as usize).saturating_sub((WINDOW + SPAN) as usize);
        let every = (old / NOISE_TOKENS).max(1);
        let logs = (0..old)
            .step_by(every)
            .map(|q| (f64::from(generated[q]) + FLOOR).ln());
        self.noise.push(logs.collect());
    }
}
