//! What a placement looks like past the recorded end: a sample of the tokens to come, under the policy's own rule.
//!
//! Every `weight`-th token of the fitted law is followed from birth, in strides of one decision: what it draws (with the
//! noise of its mean over the stride), what its score becomes, and where the budgets, exact from the lengths, put it.
//! It is the same law that `trace synth --like` draws rows from, so both agree; rows by the thousand would take seconds,
//! some hundred tokens take less than a millisecond. Rival: one curve of mass by rank held at its late level (what this
//! replaced): it knows neither the middle's growth nor what was destroyed when.
//!
//! Heavy hitters are kept apart, recorded ones one by one and later ones by their expected mass: they are too few to be
//! sampled, and rank above the rest. Boundaries of the ranking are fractional, and promotions are averaged over shifts
//! of the boundary by 10 % of its score, so that a sample of hundreds is as smooth as thousands.
//!
//! Units: tokens, shares of a row. Deterministic: the law's seed is fixed, equal questions give equal bits.

mod draw;
mod mass;
mod place;
mod twin;

use crate::score::Rule;
use crate::timeline::Tier;
use crate::trace::synth::{Dealer, Law};
use draw::{TABLE, left, scatter, summed};
use twin::{Cuts, Heavies};

/// Live tokens followed at most, through every decision.
const SAMPLE: u32 = 512;
/// The same, destroyed ones included.
const MOST: u32 = 4096;
/// Tokens followed at most where strides are few.
const LARGE: u32 = 1024;
/// Seed of the tokens to come and of their noise.
const SEED: u64 = 1;

/// How the policy ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// By this score, or by position if none: the oldest first.
    pub rule: Option<Rule>,
    /// T1 only ever grows, and only T0 is ranked.
    pub append_only: bool,
    /// Where tokens are depends on every decision before, not on the scores alone: some are destroyed, or never return.
    pub path: bool,
}

/// A position that is followed.
#[derive(Clone, Debug)]
struct Member {
    position: u32,
    young: f64,
    old: f64,
    /// Kept up by the rule.
    score: f64,
    /// Expected mean weight over the present stride.
    now: f64,
    /// Factor of noise on it.
    noise: f64,
    /// Share of it in T1, T2, T3.
    tiers: [f64; 3],
    /// Weight of the heavy hitter that it might turn out to be; 0 once that is settled (see `twin`).
    twin: f64,
    /// Share in T0 when boundaries are soft; none before its first decision.
    soft: Option<f64>,
}

/// The sample.
pub(super) struct Outlook<'a> {
    law: &'a Law,
    order: Order,
    /// Tokens that a member stands for.
    weight: f64,
    members: Vec<Member>,
    /// Births of members to come.
    next: u32,
    dealer: Dealer<'a>,
    /// Recorded heavy hitters: weights, and tiers at the recorded end.
    heavy: Vec<(f64, Tier)>,
    /// `(age / 128) ^ -decay` by blocks of ages.
    left: Vec<f64>,
    /// Kernel summed up to an age.
    kernel: Vec<f64>,
    /// Factors of noise by the length of a stride, and which of them holds now.
    noise: Vec<(u32, Vec<f64>)>,
    noise_at: usize,
    strides: u64,
    time: u32,
    /// Key (as ordered bits) and index of the members that are ranked, packed: one integer compares both.
    keys: Vec<u64>,
    /// What all else draws in the present stride, scaled.
    scale: f64,
    heavy_mass: f64,
    /// Mean weight of a token in T1, T2, T3.
    each: [f64; 3],
    /// Score between T0 and the rest, for promotions.
    boundary: Option<f64>,
    /// Scores that the present decision cut at.
    cuts: Cuts,
    /// Heavy hitters to come that are not in T0.
    heavies: Heavies,
}

/// What the recorded end hands over.
pub(super) struct Recorded<'s> {
    /// Score of each position by the policy's rule (for per-age: its column sum).
    pub scores: &'s [f64],
    /// Tier of each position.
    pub tiers: &'s [Tier],
}

impl<'a> Outlook<'a> {
    /// At the end of the recorded rows, for a run of `steps` with at most `live` candidates alive.
    pub(super) fn new(
        law: &'a Law,
        order: Order,
        steps: u32,
        live: u32,
        recorded: &Recorded<'_>,
    ) -> Self {
        let length = law.prompt() + steps;
        // Where most are destroyed, what counts is how many live ones are followed; where T1 only grows, how many in T0,
        // of which a coarse sample loses some of the best at every decision to rounding.
        let every = if order.append_only {
            length.div_ceil(MOST)
        } else if order.path {
            live.div_ceil(SAMPLE).max(length.div_ceil(MOST))
        } else {
            length.div_ceil(LARGE)
        };
        let every = every.max(1);
        let mut out = Self {
            law,
            order,
            weight: f64::from(every),
            members: Vec::with_capacity(SAMPLE as usize + 1),
            next: every / 2,
            dealer: law.deal(SEED, true),
            heavy: Vec::new(),
            left: left(law, steps),
            kernel: summed(&law.kernel),
            noise: Vec::new(),
            noise_at: 0,
            strides: 0,
            time: law.rows,
            keys: Vec::new(),
            scale: 1.0,
            heavy_mass: 0.0,
            each: [0.0; 3],
            boundary: None,
            cuts: Cuts::NONE,
            heavies: Heavies::default(),
        };
        for (born, token) in (0u32..).zip(&law.tokens) {
            if token.heavy > 0.0 {
                let tier = recorded.tiers.get((law.prompt() + born) as usize);
                out.heavy
                    .push((token.heavy, tier.copied().unwrap_or(Tier::T0)));
            }
        }
        out.take_up(law.prompt() + law.rows, recorded);
        out
    }

    /// Members among the recorded positions.
    fn take_up(&mut self, length: u32, recorded: &Recorded<'_>) {
        let law = self.law;
        while self.next < length {
            let position = self.next_position();
            let born = position.checked_sub(law.prompt());
            let (young, old) = match born.map(|b| law.tokens[b as usize]) {
                Some(token) => (token.young, token.old),
                None => (0.0, self.around(position)),
            };
            let tier = recorded
                .tiers
                .get(position as usize)
                .copied()
                .unwrap_or(Tier::T0);
            self.members.push(Member {
                position,
                young,
                old,
                score: recorded
                    .scores
                    .get(position as usize)
                    .copied()
                    .unwrap_or(0.0),
                now: 0.0,
                noise: 1.0,
                tiers: [Tier::T1, Tier::T2, Tier::T3].map(|t| f64::from(u8::from(t == tier))),
                twin: 0.0,
                soft: None,
            });
        }
    }

    /// The next member's position: some place in its block, as even steps would beat with the period of a text that loops.
    fn next_position(&mut self) -> u32 {
        let position = self.next;
        let every = u64::from(self.every());
        let block = u64::from(position) / every + 1;
        let within = scatter(block, 0) as u64 * every / TABLE as u64;
        self.next = u32::try_from(block * every + within).unwrap_or(u32::MAX);
        position
    }

    /// Mean weight of the prompt positions that the one at `position` stands for.
    fn around(&self, position: u32) -> f64 {
        let front = &self.law.front;
        let block = position / self.every() * self.every();
        let last = (block + self.every()).min(self.law.prompt()) as usize;
        let first = block.max(4.min(position)) as usize;
        crate::stats::mean(front[first..last].iter().copied())
    }

    #[allow(clippy::cast_possible_truncation)] // a whole number of tokens
    fn every(&self) -> u32 {
        self.weight as u32
    }

    /// Goes on to step `to`: what everything draws on the way, and what the scores become.
    pub(super) fn advance(&mut self, to: u32) {
        let rows = to.saturating_sub(self.time);
        if rows == 0 {
            return;
        }
        self.birth(to);
        self.prepare_noise(rows);
        self.draw(rows);
        self.score(rows);
        self.weigh();
        let left = self.lasting(rows);
        self.heavies.lost *= left;
        self.heavies.down *= left;
        self.time = to;
        self.strides += 1;
    }
}
