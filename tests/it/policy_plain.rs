//! The family of policies a second time: lists, sorting, one rule after the other, from the published descriptions.
//!
//! Nothing here is shared with the program except the random draws. A rule is told the step and the live positions and
//! says which stay.
#![allow(clippy::cast_possible_truncation)] // small counts

use std::collections::BTreeMap;

use kvplan::stats::{Purpose, stream};
use rand::RngExt;

/// What a rule lost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lost {
    /// By step: weight of the full row on positions that were gone.
    pub(crate) mass: Vec<f64>,
    /// Gone after each step.
    pub(crate) dead: Vec<usize>,
}

/// A rule: which of the live positions stay after this step.
pub(crate) type Rule<'a> = Box<dyn FnMut(usize, &[usize]) -> Vec<usize> + 'a>;

/// Runs a rule over full rows.
pub(crate) fn run(prompt: usize, rows: &[Vec<f64>], mut rule: Rule<'_>) -> Lost {
    let mut live: Vec<usize> = (0..prompt).collect();
    let mut lost = Lost {
        mass: Vec::new(),
        dead: Vec::new(),
    };
    for (t, row) in rows.iter().enumerate() {
        live.push(prompt + t);
        let gone = (0..row.len()).filter(|p| !live.contains(p));
        lost.mass.push(gone.map(|p| row[p]).sum());
        let kept = rule(t, &live);
        assert!(kept.iter().all(|p| live.contains(p)) && kept.is_sorted());
        live = kept;
        lost.dead.push(row.len() - live.len());
    }
    lost
}

/// The `n` best of some positions, ascending; of ties the higher positions.
fn best(positions: &[usize], score: impl Fn(usize) -> f64, n: usize) -> Vec<usize> {
    let mut order = positions.to_vec();
    order.sort_by(|a, b| score(*b).total_cmp(&score(*a)).then(b.cmp(a)));
    order.truncate(n);
    order.sort_unstable();
    order
}

fn joined(mut a: Vec<usize>, b: &[usize]) -> Vec<usize> {
    a.extend(b);
    a.sort_unstable();
    a
}

/// `heavy` by sum and `recent`; `prefill` holds the prompt's sums, `attention(t, list)` the weights of row t on a list.
pub(crate) fn h2o<'a>(
    (heavy, recent): (usize, usize),
    prefill: Vec<f64>,
    mut attention: impl FnMut(usize, &[usize]) -> Vec<f64> + 'a,
) -> Rule<'a> {
    let prompt = prefill.len();
    let mut sums = prefill;
    let prune = move |list: Vec<usize>, sums: &[f64]| {
        if list.len() <= heavy + recent {
            return list;
        }
        let (older, latest) = list.split_at(list.len() - recent);
        joined(best(older, |p| sums[p], heavy), latest)
    };
    let mut list = prune((0..prompt).collect(), &sums);
    Box::new(move |t, _| {
        list.push(prompt + t);
        sums.push(0.0);
        for (p, w) in list.iter().zip(attention(t, &list)) {
            sums[*p] += w;
        }
        list = prune(std::mem::take(&mut list), &sums);
        list.clone()
    })
}

/// The `budget` greatest weights of the latest row.
pub(crate) fn tova(budget: usize, rows: &[Vec<f64>]) -> Rule<'_> {
    Box::new(move |t, live| best(live, |p| rows[t][p], budget))
}

/// The `budget` latest used.
pub(crate) fn lru(budget: usize, alpha: f64, prompt: usize, rows: &[Vec<f64>]) -> Rule<'_> {
    let mut used: BTreeMap<usize, i64> = (0..prompt).map(|p| (p, -1)).collect();
    Box::new(move |t, live| {
        for p in live {
            if rows[t][*p] >= alpha || *p == prompt + t {
                used.insert(*p, i64::try_from(t).unwrap());
            }
        }
        best(live, |p| used[&p] as f64, budget)
    })
}

/// First `sinks`, last `window`, and the greatest draws between.
pub(crate) fn random(
    (budget, sinks, window): (usize, usize, usize),
    seed: u64,
    length: usize,
) -> Rule<'static> {
    let mut rng = stream(seed, Purpose::Eviction);
    let draws: Vec<f64> = (0..length).map(|_| rng.random_range(0.0..1.0)).collect();
    Box::new(move |_, live| {
        if live.len() <= budget {
            return live.to_vec();
        }
        let now = live[live.len() - 1] + 1;
        let (kept, open): (Vec<usize>, Vec<usize>) = live
            .iter()
            .partition(|p| **p < sinks || **p + window >= now);
        let room = budget - kept.len();
        joined(kept, &best(&open, |p| draws[p], room))
    })
}

/// Prompt, sinks, window, and the best by sum until a share of all tokens so far lives.
pub(crate) fn stream_evict(
    share: f64,
    (sinks, window, interval): (usize, usize, usize),
    prefill: Vec<f64>,
    rows: &[Vec<f64>],
) -> Rule<'_> {
    let prompt = prefill.len();
    let mut sums = prefill;
    Box::new(move |t, live| {
        sums.push(0.0);
        sums.iter_mut().zip(&rows[t]).for_each(|(s, w)| *s += w);
        if (t + 1) % interval != 0 {
            return live.to_vec();
        }
        let now = prompt + t + 1;
        let (kept, open): (Vec<usize>, Vec<usize>) = live
            .iter()
            .partition(|p| **p < prompt + sinks || **p + window >= now);
        let allowed = (share * now as f64).ceil() as usize;
        let room = allowed.saturating_sub(kept.len());
        joined(kept, &best(&open, |p| sums[p], room))
    })
}

/// Pages of generated tokens by the step in which they last drew over `alpha`.
pub(crate) fn raas(
    (budget, size): (usize, usize),
    alpha: f64,
    prompt: usize,
    rows: &[Vec<f64>],
) -> Rule<'_> {
    let mut dates: BTreeMap<usize, usize> = BTreeMap::new();
    Box::new(move |t, live| {
        let page = |p: usize| (p - prompt) / size;
        let newest = page(prompt + t);
        let mut weight: BTreeMap<usize, f64> = BTreeMap::new();
        for p in live.iter().filter(|p| **p >= prompt) {
            *weight.entry(page(*p)).or_default() += rows[t][*p];
        }
        for (page, w) in &weight {
            if *w > alpha || *page == newest {
                dates.insert(*page, t);
            }
        }
        let mut live = live.to_vec();
        while live.len() > budget && dates.len() > 1 {
            let (_, oldest) = dates
                .iter()
                .filter(|(p, _)| **p != newest)
                .map(|(p, date)| (*date, *p))
                .min()
                .unwrap();
            dates.remove(&oldest);
            live.retain(|p| *p < prompt || page(*p) != oldest);
        }
        live
    })
}

/// Mean over `kernel` neighbours, zeros beyond the ends: the list is padded, then every window is added up.
fn pooled(values: &[f64], kernel: usize) -> Vec<f64> {
    let zeros = vec![0.0; kernel / 2];
    let padded = [zeros.clone(), values.to_vec(), zeros].concat();
    padded
        .windows(kernel)
        .map(|w| w.iter().sum::<f64>() / kernel as f64)
        .collect()
}

/// Compresses the prompt once, after step `at`; `looked` holds the summed attention on each prompt position.
pub(crate) fn snap_kv(
    (budget, window, kernel): (usize, usize, usize),
    at: usize,
    looked: Vec<f64>,
) -> Rule<'static> {
    Box::new(move |t, live| {
        let prompt = looked.len();
        if t != at || prompt <= budget {
            return live.to_vec();
        }
        let open: Vec<usize> = (0..prompt - window).collect();
        let scores = pooled(&looked[..prompt - window], kernel);
        let rest: Vec<usize> = live
            .iter()
            .copied()
            .filter(|p| *p >= prompt - window)
            .collect();
        joined(best(&open, |p| scores[p], budget - window), &rest)
    })
}

/// Greatest value of seven, cut at the ends.
pub(crate) fn peaks(values: &[f64]) -> Vec<f64> {
    let beyond = vec![f64::MIN; 3];
    let padded = [beyond.clone(), values.to_vec(), beyond].concat();
    padded
        .windows(7)
        .map(|w| w.iter().copied().fold(f64::MIN, f64::max))
        .collect()
}

/// `score(last query, list)` gives a score for all of the list but its last `window`.
pub(crate) fn r_kv<'a>(
    (budget, window, interval): (usize, usize, usize),
    prompt: usize,
    mut score: impl FnMut(usize, &[usize]) -> Vec<f64> + 'a,
) -> Rule<'a> {
    let mut compress = move |list: Vec<usize>, last: usize| {
        if list.len() < budget {
            return list;
        }
        let scores = score(last, &list);
        let (older, latest) = list.split_at(list.len() - window);
        let of = |p: usize| scores[older.iter().position(|o| *o == p).unwrap()];
        joined(best(older, of, budget - window), latest)
    };
    let mut list: Vec<usize> = Vec::new();
    Box::new(move |t, _| {
        if t == 0 {
            list = (0..prompt).collect();
            if prompt > 0 {
                list = compress(std::mem::take(&mut list), prompt - 1);
            }
        }
        // Tokens seen before this pass: if the interval divides them, this pass compresses.
        list.push(prompt + t);
        if (prompt + t).is_multiple_of(interval) {
            list = compress(std::mem::take(&mut list), prompt + t);
        }
        list.clone()
    })
}

/// Importance from mean rows: the last `window` rows there are, each over its sum on the list, then the mean.
pub(crate) fn importance_of_rows(
    rows: &[Vec<f64>],
    window: usize,
    seen: usize,
    list: &[usize],
) -> Vec<f64> {
    let older = &list[..list.len() - window];
    let latest = &rows[seen.saturating_sub(window)..seen];
    let mut mean = vec![0.0; older.len()];
    for row in latest {
        let of = |p: usize| row.get(p).copied().unwrap_or(0.0);
        let sum: f64 = older.iter().map(|p| of(*p)).sum();
        for (m, p) in mean.iter_mut().zip(older) {
            *m += if sum > 0.0 { of(*p) / sum } else { 0.0 };
        }
    }
    let mean: Vec<f64> = mean.iter().map(|m| m / latest.len() as f64).collect();
    peaks(&mean)
}

/// Keys and queries of one KV head, by position (queries by position and head).
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) keys: Vec<Vec<f64>>,
    pub(crate) queries: Vec<Vec<Vec<f64>>>,
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub(crate) fn softmax(z: &[f64]) -> Vec<f64> {
    let top = z.iter().copied().fold(f64::MIN, f64::max);
    let e: Vec<f64> = z.iter().map(|x| (x - top).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|x| x / sum).collect()
}

impl Head {
    fn logits(&self, from: usize, head: usize, list: &[usize]) -> Vec<f64> {
        let q = &self.queries[from][head];
        let root = (q.len() as f64).sqrt();
        list.iter()
            .map(|p| product(q, &self.keys[*p]) / root)
            .collect()
    }

    /// Attention of the query at `from` on a list, summed over the group; nothing on later positions.
    pub(crate) fn attention(&self, from: usize, list: &[usize]) -> Vec<f64> {
        let mut sum = vec![0.0; list.len()];
        for head in 0..self.queries[from].len() {
            let z: Vec<f64> = self
                .logits(from, head, list)
                .iter()
                .zip(list)
                .map(|(z, p)| if *p > from { f64::NEG_INFINITY } else { *z })
                .collect();
            sum.iter_mut().zip(softmax(&z)).for_each(|(s, w)| *s += w);
        }
        sum
    }

    /// The score of R-KV for all of the list but its last `window`.
    pub(crate) fn mixed(
        &self,
        window: usize,
        lambda: f64,
        newest: usize,
        list: &[usize],
    ) -> Vec<f64> {
        let n = list.len();
        let older = &list[..n - window];
        let mut important = vec![0.0; older.len()];
        let queries: Vec<usize> = ((newest + 1).saturating_sub(window)..=newest).collect();
        for from in &queries {
            let by_head: Vec<Vec<f64>> = (0..self.queries[*from].len())
                .map(|h| self.logits(*from, h, older))
                .collect();
            let top: Vec<f64> = (0..older.len())
                .map(|i| by_head.iter().map(|z| z[i]).fold(f64::MIN, f64::max))
                .collect();
            important
                .iter_mut()
                .zip(softmax(&top))
                .for_each(|(s, w)| *s += w);
        }
        let important: Vec<f64> = important.iter().map(|s| s / queries.len() as f64).collect();
        let important = peaks(&important);
        let alike = self.redundancy(list);
        (0..older.len())
            .map(|i| lambda * important[i] - (1.0 - lambda) * alike[i])
            .collect()
    }

    fn redundancy(&self, list: &[usize]) -> Vec<f64> {
        let n = list.len();
        let norm = |p: usize| product(&self.keys[p], &self.keys[p]).sqrt() + 1e-8;
        let mut c = vec![vec![0.0; n]; n];
        for (i, a) in list.iter().enumerate() {
            for (j, b) in list.iter().enumerate() {
                if i != j {
                    c[i][j] = product(&self.keys[*a], &self.keys[*b]) / (norm(*a) * norm(*b));
                }
            }
        }
        for row in &mut c {
            let mut twin = 0;
            for (j, x) in row.iter().enumerate() {
                if *x > 0.5 {
                    twin = j;
                }
            }
            row[twin] = 0.0;
        }
        let means: Vec<f64> = (0..n)
            .map(|j| c.iter().map(|row| row[j]).sum::<f64>() / n as f64)
            .collect();
        softmax(&means)
    }
}
