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

use crate::score::Rule;
use crate::timeline::Tier;
use crate::trace::synth::{Dealer, Law, WINDOW};

/// Live tokens followed at most, through every decision.
const SAMPLE: u32 = 512;
/// The same, destroyed ones included.
const MOST: u32 = 4096;
/// Tokens followed at most where strides are few.
const LARGE: u32 = 1024;
/// Seed of the tokens to come and of their noise.
const SEED: u64 = 1;
/// Half-width of the shifts of a boundary that promotions are averaged over, in scores.
const SOFT: f64 = 0.1;
/// How much of the way the boundary for promotions goes at each decision.
const LAG: f64 = 0.2;
/// Log-normal factors to draw noise from.
const TABLE: usize = 1024;
/// Ages in one entry of the table of decay.
const STEP: usize = 8;

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
    /// Whether it has been a candidate.
    entered: bool,
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
    /// Weight of heavy hitters that were destroyed young, before the scaling.
    heavy_lost: f64,
    /// The same for those in T1.
    heavy_down: f64,
    /// Shares of T1, T2, T3 among those who left the window last.
    entrants: [f64; 3],
    entered: f64,
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
        // Where most are destroyed, what counts is how many live ones are followed.
        let every = if order.path {
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
            heavy_lost: 0.0,
            heavy_down: 0.0,
            entrants: [0.0; 3],
            entered: 0.0,
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
                entered: false,
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
        self.time = to;
        self.strides += 1;
    }

    /// What a token of T1, T2, T3 draws in the stride.
    fn weigh(&mut self) {
        let (mut mass, mut held) = ([0.0; 3], [0.0; 3]);
        for m in &self.members {
            for tier in 0..3 {
                mass[tier] += m.tiers[tier] * m.now;
                held[tier] += m.tiers[tier];
            }
        }
        let typical = mass.iter().sum::<f64>() / held.iter().sum::<f64>().max(1e-9);
        for tier in 0..3 {
            self.each[tier] = if held[tier] > 1e-9 {
                mass[tier] / held[tier]
            } else {
                typical
            };
        }
    }

    /// Strides are of few lengths: one table each.
    fn prepare_noise(&mut self, rows: u32) {
        self.noise_at = self
            .noise
            .iter()
            .position(|(n, _)| *n == rows)
            .unwrap_or_else(|| {
                self.noise.push((rows, factors(self.law.spread_over(rows))));
                self.noise.len() - 1
            });
    }

    /// New members up to step `to`.
    fn birth(&mut self, to: u32) {
        let length = self.law.prompt() + to;
        while self.next < length {
            let position = self.next_position();
            self.dealer.skip_to(position - self.law.prompt());
            let Some(token) = self.dealer.next() else {
                return;
            };
            let tiers = [0.0; 3];
            self.members.push(Member {
                position,
                young: token.young,
                old: token.old,
                score: 0.0,
                now: 0.0,
                noise: 1.0,
                tiers,
                entered: false,
                soft: None,
            });
        }
    }

    /// Mean weights over the stride, scaled so that all sum to 1.
    fn draw(&mut self, rows: u32) {
        let law = self.law;
        let prompt = law.prompt();
        let end = prompt + self.time + rows;
        let middle_of = f64::from(rows) / 2.0;
        let faded = law.prompt_factor(self.time + rows / 2);
        let salt = self.strides;
        let noise = &self.noise[self.noise_at].1;
        let mut old = 0.0;
        for (i, m) in self.members.iter_mut().enumerate() {
            if m.position < prompt {
                m.now = if m.position < 4 { m.old } else { m.old * faded };
                continue;
            }
            // Rows of the stride in which it is there, and its ages then.
            let last = end - 1 - m.position;
            let first = last.saturating_sub(rows - 1);
            if first >= WINDOW {
                let age = f64::from(first) + middle_of;
                #[allow(clippy::cast_possible_truncation)] // within the table
                let left = self.left[(age as usize - WINDOW as usize) / STEP];
                m.now = m.old * left;
                m.noise = noise[scatter(i as u64, salt)];
                old += m.now;
            } else {
                let within =
                    self.kernel[(last + 1).min(WINDOW) as usize] - self.kernel[first as usize];
                let beyond = f64::from((last + 1).saturating_sub(WINDOW));
                let aged = m.old * self.left[0] * beyond;
                old += aged / f64::from(rows);
                m.now = (m.young * within + aged) / f64::from(rows);
            }
        }
        self.heavy_mass = self.heavy.iter().map(|(w, _)| w).sum::<f64>()
            * self.lasting(self.time.saturating_sub(law.rows))
            + self.new_heavy();
        let window = self.kernel[(self.time + rows).min(WINDOW) as usize];
        let sinks: f64 = law.front.iter().take(4).sum();
        let front: f64 = law.front.iter().skip(4).sum::<f64>() * faded;
        let raw = front + window + old * self.weight + self.heavy_mass;
        self.scale = if raw > 0.0 { (1.0 - sinks) / raw } else { 0.0 };
        for m in self
            .members
            .iter_mut()
            .filter(|m| m.position >= 4.min(prompt))
        {
            m.now *= self.scale;
        }
    }

    /// Share of heavy hitters that still are some after some steps.
    fn lasting(&self, steps: u32) -> f64 {
        (1.0 - self.law.heavy_loss).powf(f64::from(steps) / 64.0)
    }

    /// Expected weight of heavy hitters born after the recorded ones.
    fn new_heavy(&self) -> f64 {
        let law = self.law;
        let ripe = self.time.saturating_sub(law.rows).saturating_sub(WINDOW);
        let mean = crate::stats::mean(law.heavy_weights.iter().copied());
        f64::from(ripe) * law.heavy_share * mean * self.lasting(ripe / 2)
    }

    fn score(&mut self, rows: u32) {
        let n = f64::from(rows);
        for m in &mut self.members {
            let drew = m.now * m.noise;
            match self.order.rule {
                Some(Rule::Ema(keep)) => {
                    let kept = keep.powf(n);
                    m.score = kept * m.score + (1.0 - kept) * drew;
                }
                Some(Rule::Last) => m.score = drew,
                _ => m.score += drew * n,
            }
        }
    }

    /// Key of a member: the lowest leaves first.
    fn key(&self, m: &Member) -> f64 {
        match self.order.rule {
            None => f64::from(m.position),
            Some(Rule::PerAge) => {
                m.score / f64::from((self.law.prompt() + self.time - m.position).max(1))
            }
            Some(_) => m.score,
        }
    }

    /// Puts the candidates where the counts (tokens in T1, T2, T3 after the decision) want them; tokens promoted.
    pub(super) fn decide(&mut self, is_candidate: impl Fn(u32) -> bool, tokens: [f64; 3]) -> f64 {
        let want = tokens.map(|n| n / self.weight);
        if want[2] > 0.0 {
            self.rank(&is_candidate, |m| m.tiers[2] < 1.0);
            self.destroy(want[2]);
        }
        let promoted = if self.order.append_only {
            self.append(&is_candidate, want);
            0.0
        } else {
            self.rank(&is_candidate, |m| m.tiers[2] < 1.0);
            self.spill(want)
        };
        self.enter(&is_candidate);
        promoted
    }

    /// A heavy hitter leaves the window with as low a score as any other token, and may be destroyed or sent down then.
    fn enter(&mut self, is_candidate: &impl Fn(u32) -> bool) {
        let (mut n, mut tiers) = (0.0, [0.0; 3]);
        for m in self.members.iter_mut().rev() {
            if !is_candidate(m.position) {
                continue;
            }
            if m.entered || m.position < self.law.prompt() + self.law.rows {
                break;
            }
            m.entered = true;
            n += 1.0;
            for (sum, share) in tiers.iter_mut().zip(m.tiers) {
                *sum += share;
            }
        }
        if n > 0.0 {
            self.entrants = tiers.map(|t| t / n);
            let mean = crate::stats::mean(self.law.heavy_weights.iter().copied());
            self.entered = n * self.weight * self.law.heavy_share * mean;
            self.heavy_lost += self.entered * self.entrants[2];
            self.heavy_down += self.entered * self.entrants[0];
        }
    }

    /// Keys of live candidates, in no order.
    fn rank(&mut self, is_candidate: &impl Fn(u32) -> bool, which: impl Fn(&Member) -> bool) {
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        let live = self
            .members
            .iter()
            .enumerate()
            .filter(|(_, m)| is_candidate(m.position) && which(m));
        keys.extend(live.map(|(i, m)| pack(self.key(m), i)));
        self.keys = keys;
    }

    /// Brings the lowest into T3 until `want` members are there.
    fn destroy(&mut self, want: f64) {
        let gone: f64 = self.members.iter().map(|m| m.tiers[2]).sum();
        let mut missing = want - gone;
        if missing <= 1e-9 {
            return;
        }
        if self.order.append_only {
            let members = &self.members;
            self.keys.retain(|k| members[index(*k)].tiers[0] <= 0.0);
        }
        lowest_first(&mut self.keys, missing + 1.0, true);
        for key in &self.keys {
            let m = &mut self.members[index(*key)];
            let room = 1.0 - m.tiers[2];
            let part = missing.min(room);
            // What is left of it keeps its place.
            let stays = if room > 0.0 { 1.0 - part / room } else { 0.0 };
            m.tiers[0] *= stays;
            m.tiers[1] *= stays;
            m.tiers[2] += part;
            missing -= part;
            if missing <= 1e-9 {
                return;
            }
        }
    }

    /// T2 and T1 are the lowest of the live.
    fn spill(&mut self, want: [f64; 3]) -> f64 {
        let host = want[0] + want[1];
        // One of them may be destroyed in part, and then takes less than its room.
        let parts = want[1] > 0.0 || want[2] > 0.0;
        lowest_first(&mut self.keys, if parts { host + 1.0 } else { host }, parts);
        let (mut t2, mut t1) = (want[1], want[0]);
        let mut boundary = f64::INFINITY;
        let mut seen = 0.0;
        for key in &self.keys {
            let m = &mut self.members[index(*key)];
            let live = 1.0 - m.tiers[2];
            let low = t2.min(live);
            let high = t1.min(live - low);
            (t2, t1) = (t2 - low, t1 - high);
            m.tiers[0] = high;
            m.tiers[1] = low;
            if seen < host && seen + live >= host {
                boundary = value(*key);
            }
            seen += live;
        }
        self.promoted(boundary)
    }

    /// Rises through the boundary, averaged over its shifts.
    ///
    /// The boundary itself follows with some lag: that of a sample jumps with every token that enters, that of all
    /// tokens hardly moves.
    fn promoted(&mut self, boundary: f64) -> f64 {
        let last = self
            .boundary
            .filter(|b| b.is_finite() && boundary.is_finite());
        let lag = if self.order.path { LAG } else { 1.0 };
        let boundary = last.map_or(boundary, |b| b + lag * (boundary - b));
        self.boundary = Some(boundary);
        let mut rose = 0.0;
        let usable = boundary.is_finite() && boundary > 0.0;
        let steep = if usable { 0.5 / (SOFT * boundary) } else { 0.0 };
        for key in &self.keys {
            let m = &mut self.members[index(*key)];
            let soft = if usable {
                (0.5 + (value(*key) - boundary) * steep).clamp(0.0, 1.0)
            } else {
                1.0
            };
            if let Some(before) = m.soft {
                rose += (soft - before).max(0.0) * (1.0 - m.tiers[2]);
            }
            m.soft = Some(soft);
        }
        rose * self.weight
    }

    /// T1 grows by the lowest of T0.
    fn append(&mut self, is_candidate: &impl Fn(u32) -> bool, want: [f64; 3]) {
        self.rank(is_candidate, |m| m.tiers[0] + m.tiers[2] < 1.0);
        let there: f64 = self.members.iter().map(|m| m.tiers[0]).sum();
        let mut missing = want[0] - there;
        lowest_first(&mut self.keys, missing.max(0.0) + 1.0, true);
        for key in &self.keys {
            if missing <= 1e-9 {
                return;
            }
            let m = &mut self.members[index(*key)];
            let part = missing.min(1.0 - m.tiers[0] - m.tiers[2]);
            m.tiers[0] += part;
            missing -= part;
        }
    }

    /// Heavy hitters that the record left where they cannot come back from.
    fn stuck(&self, out: &mut [f64; 3]) {
        for (weight, tier) in &self.heavy {
            match tier {
                Tier::T3 => out[2] += weight * self.scale,
                Tier::T1 if self.order.append_only => out[0] += weight * self.scale,
                _ => {}
            }
        }
    }

    /// Mass on T1, T2, T3 of the stride just passed, given the tokens that were there and all candidates, destroyed ones
    /// included.
    pub(super) fn mass(&self, tokens: [f64; 3], candidates: f64) -> [f64; 3] {
        let mut out: [f64; 3] = std::array::from_fn(|tier| tokens[tier] * self.each[tier]);
        let heavy = self.heavy_mass * self.scale;
        if self.order.rule.is_none() {
            out[2] += heavy * tokens[2] / candidates.max(1.0);
        } else {
            // They leave T0 only where it has no room even for them.
            let hitters = self.heavy.len() as f64 + f64::from(self.time) * self.law.heavy_share;
            let room = candidates - tokens.iter().sum::<f64>();
            out[0] += heavy
                * (1.0 - room / hitters.max(1e-9)).clamp(0.0, 1.0)
                * f64::from(u8::from(tokens[0] > 0.0));
            self.stuck(&mut out);
            let passing = if self.order.append_only {
                self.heavy_down
            } else {
                self.entered
            } * self.scale;
            let shares = if self.order.append_only {
                [1.0, 0.0]
            } else {
                [self.entrants[0], self.entrants[1]]
            };
            out[0] += passing * shares[0];
            out[1] += passing * shares[1];
            out[2] += self.heavy_lost * self.scale;
        }
        let sum: f64 = out.iter().sum();
        if sum > 1.0 { out.map(|m| m / sum) } else { out }
    }
}

/// A key of at least 0 and an index as one integer that orders by both.
#[allow(clippy::cast_possible_truncation)] // binary32 is plenty for a rank, and indices are thousands
fn pack(key: f64, index: usize) -> u64 {
    u64::from((key.max(0.0) as f32).to_bits()) << 32 | index as u64
}

#[allow(clippy::cast_possible_truncation)] // the low half
fn index(packed: u64) -> usize {
    packed as u32 as usize
}

#[allow(clippy::cast_possible_truncation)] // the high half
fn value(packed: u64) -> f64 {
    f64::from(f32::from_bits((packed >> 32) as u32))
}

/// Brings the `count` lowest keys to the front, the highest of them last; all in ascending order if `sorted`.
#[allow(clippy::cast_possible_truncation)] // at most the number of keys
fn lowest_first(keys: &mut [u64], count: f64, sorted: bool) {
    let at = (count.max(0.0).ceil() as usize).min(keys.len());
    if at > 0 {
        keys.select_nth_unstable(at - 1);
    }
    if sorted {
        keys[..at].sort_unstable();
    }
}

/// An entry of the table of noise for a member and a stride: a mixing of both (the finaliser of splitmix64).
fn scatter(member: u64, stride: u64) -> usize {
    let mut x = (member << 32 | stride).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    usize::try_from(x >> 54).unwrap_or(0)
}

/// Decay by blocks of ages from 128 on, at their middle.
fn left(law: &Law, steps: u32) -> Vec<f64> {
    let blocks = (steps.saturating_sub(WINDOW) as usize / STEP) + 2 + 128 / STEP;
    (0..blocks)
        .map(|i| law.left(f64::from(WINDOW) + ((i * STEP) as f64 + STEP as f64 / 2.0)))
        .collect()
}

fn summed(kernel: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    std::iter::once(0.0)
        .chain(kernel.iter().map(|w| {
            sum += w;
            sum
        }))
        .collect()
}

/// Log-normal factors of mean 1 and this variance of the log, at evenly spaced quantiles in scattered order.
fn factors(variance: f64) -> Vec<f64> {
    let width = variance.max(0.0).sqrt();
    (0..TABLE)
        .map(|i| {
            // 389 is coprime to the length: every quantile occurs once.
            let u = ((i * 389) % TABLE) as f64 / TABLE as f64 + 0.5 / TABLE as f64;
            // The logistic distribution scaled to variance 1 stands in for the normal one.
            let z = (u / (1.0 - u)).ln() * (3f64.sqrt() / std::f64::consts::PI);
            (width * z - variance / 2.0).exp()
        })
        .collect()
}
