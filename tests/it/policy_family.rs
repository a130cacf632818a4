//! The family of policies against the plain second implementation, on random rows, layers, keys and queries.
#![allow(clippy::float_cmp, clippy::cast_possible_truncation)] // whole counts; small indices

use kvplan::error::Result;
use kvplan::policy::{self, PolicySpec};
use kvplan::replay::{self, by_length};
use kvplan::timeline::Timeline;
use kvplan::trace::{Rows, Vectors};
use proptest::prelude::*;

use crate::policy_four_tier::{made, traces};
use crate::policy_plain::{self as plain, Head, Lost};
use crate::replay_support::{Made, half};

fn parse(text: &str) -> PolicySpec {
    policy::parse(text).unwrap()
}

fn replayed(rows: &dyn Rows, text: &str) -> Timeline {
    replay::run(rows, &[parse(text)]).unwrap().remove(0)
}

/// Rows with layers, keys and queries of their own.
#[derive(Clone, Debug)]
pub(crate) struct Headed {
    means: Made,
    /// By step: all layers one after another.
    layers: Vec<Vec<u16>>,
    layer_count: u32,
    /// By lane.
    heads: Vec<Head>,
    /// Prompt queries that are carried.
    window: u32,
}

impl Headed {
    pub(crate) fn new(
        prompt: usize,
        rows: usize,
        seed: u64,
        (lanes, group): (usize, usize),
    ) -> Self {
        let layers: Vec<Made> = (0..lanes as u64)
            .map(|l| made(prompt, rows, seed ^ (l << 32), false))
            .collect();
        let mut state = seed | 1;
        let mut draw = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Multiples of 1/128 within 4: binary16 holds them.
            ((state >> 40) % 1024) as f64 / 128.0 - 4.0
        };
        let mut vector = || (0..4).map(|_| draw()).collect::<Vec<f64>>();
        let heads = (0..lanes)
            .map(|_| Head {
                keys: (0..prompt + rows).map(|_| vector()).collect(),
                queries: (0..prompt + rows)
                    .map(|_| (0..group).map(|_| vector()).collect())
                    .collect(),
            })
            .collect();
        Self {
            means: made(prompt, rows, seed, false),
            layers: (0..rows)
                .map(|t| layers.iter().flat_map(|l| l.rows[t].clone()).collect())
                .collect(),
            layer_count: lanes as u32,
            heads,
            window: prompt as u32,
        }
    }

    fn cut(&self, rows: usize) -> Self {
        let mut cut = self.clone();
        cut.means = self.means.cut(rows);
        cut.layers.truncate(rows);
        cut
    }

    /// Rows of a layer as numbers.
    fn layer(&self, layer: usize) -> Vec<Vec<f64>> {
        let row = |all: &Vec<u16>| {
            let n = all.len() / self.layer_count as usize;
            all[layer * n..(layer + 1) * n]
                .iter()
                .map(|b| half(*b))
                .collect()
        };
        self.layers.iter().map(row).collect()
    }

    /// Full rows of a KV head, mean over the group.
    fn full(&self, lane: usize) -> Vec<Vec<f64>> {
        let head = &self.heads[lane];
        let prompt = self.means.prompt as usize;
        (0..self.means.rows.len())
            .map(|t| {
                let all: Vec<usize> = (0..=prompt + t).collect();
                let group = head.queries[0].len() as f64;
                head.attention(prompt + t, &all)
                    .iter()
                    .map(|w| w / group)
                    .collect()
            })
            .collect()
    }
}

fn narrow(vectors: &[Vec<f64>]) -> Vec<f32> {
    vectors.iter().flatten().map(|x| *x as f32).collect()
}

impl Rows for Headed {
    fn prompt(&self) -> u32 {
        self.means.prompt
    }

    fn rows(&self) -> u32 {
        self.means.rows()
    }

    fn column_sums(&self) -> Option<&[f32]> {
        None
    }

    fn for_each(&self, limit: u32, f: &mut dyn FnMut(u32, &[u16]) -> Result<()>) -> Result<()> {
        self.means.for_each(limit, f)
    }

    fn layers(&self) -> u32 {
        self.layer_count
    }

    fn each_layers(&self, limit: u32, f: &mut dyn FnMut(u32, &[u16]) -> Result<()>) -> Result<()> {
        (0..)
            .zip(self.layers.iter().take(limit as usize))
            .try_for_each(|(t, row)| f(t, row))
    }

    fn prompt_queries(&self) -> Option<u32> {
        Some(self.window)
    }

    fn vectors(&self, _limit: u32) -> Result<Option<Vectors>> {
        let first = self.means.prompt - self.window;
        let queries = |h: &Head| {
            h.queries[first as usize..]
                .iter()
                .flat_map(|q| narrow(q))
                .collect()
        };
        Ok(Some(Vectors::new(
            4,
            self.heads[0].queries[0].len(),
            first,
            self.heads.iter().map(|h| narrow(&h.keys)).collect(),
            self.heads.iter().map(queries).collect(),
        )))
    }
}

fn headed() -> impl Strategy<Value = Headed> {
    (0usize..24, 1usize..50, any::<u64>(), (1usize..4, 1usize..4))
        .prop_map(|(prompt, rows, seed, shape)| Headed::new(prompt, rows, seed, shape))
}

fn numbers(trace: &Made) -> Vec<Vec<f64>> {
    trace
        .rows
        .iter()
        .map(|row| row.iter().map(|b| half(*b)).collect())
        .collect()
}

/// Column sums of the prompt as numbers, zeros where there are none.
fn prefill(trace: &Made) -> Vec<f64> {
    let sums = trace
        .sums
        .clone()
        .unwrap_or_else(|| vec![0.0; trace.prompt as usize]);
    sums.into_iter().map(f64::from).collect()
}

/// Lost mass of every step and tokens destroyed after it, averaged over lanes.
fn same(
    timeline: &Timeline,
    lanes: &[Lost],
    tolerance: f64,
) -> std::result::Result<(), TestCaseError> {
    let n = lanes.len() as f64;
    for step in 0..timeline.steps as usize {
        let mass = lanes.iter().map(|l| l.mass[step]).sum::<f64>() / n;
        let got = timeline.mass[step][3];
        prop_assert!(
            (got - mass).abs() <= tolerance,
            "step {}: lost {}, plainly {}",
            step,
            got,
            mass
        );
        let dead = lanes.iter().map(|l| l.dead[step] as f64).sum::<f64>() / n;
        let after = if step + 1 < timeline.steps as usize {
            timeline.tokens_at(step as u32 + 1)
        } else {
            timeline.tokens_end()
        };
        prop_assert_eq!(after[3], dead, "destroyed after step {}", step);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn h2o_on_mean_rows(trace in traces(), heavy in 0usize..30, recent in 1usize..30) {
        let rows = numbers(&trace);
        let attention = |t: usize, list: &[usize]| list.iter().map(|p| rows[t][*p]).collect();
        let rule = plain::h2o((heavy, recent), prefill(&trace), attention);
        let lost = plain::run(trace.prompt as usize, &rows, rule);
        same(&replayed(&trace, &format!("h2o-mean:heavy={heavy},recent={recent}")), &[lost], 1e-9)?;
    }

    #[test]
    fn tova_on_mean_rows(trace in traces(), budget in 1usize..60) {
        let rows = numbers(&trace);
        let lost = plain::run(trace.prompt as usize, &rows, plain::tova(budget, &rows));
        same(&replayed(&trace, &format!("tova-mean:budget={budget}")), &[lost], 1e-9)?;
    }

    #[test]
    fn least_recently_used(trace in traces(), budget in 1usize..60, alpha in 1e-5f64..2e-3) {
        let rows = numbers(&trace);
        let rule = plain::lru(budget, alpha, trace.prompt as usize, &rows);
        let lost = plain::run(trace.prompt as usize, &rows, rule);
        same(&replayed(&trace, &format!("lru:budget={budget},alpha={alpha}")), &[lost], 1e-9)?;
    }

    #[test]
    fn random_sample(trace in traces(), sinks in 0usize..5, window in 1usize..20, more in 0usize..30, seed: u64) {
        let rows = numbers(&trace);
        let budget = sinks + window + more;
        let rule = plain::random((budget, sinks, window), seed, trace.prompt as usize + rows.len());
        let lost = plain::run(trace.prompt as usize, &rows, rule);
        let text = format!("random:budget={budget},sinks={sinks},window={window},seed={seed}");
        same(&replayed(&trace, &text), &[lost], 1e-9)?;
    }

    #[test]
    fn stream_evict(trace in traces(), share in 0.01f64..=1.0, sinks in 0usize..6, window in 1usize..20, interval in 1usize..20) {
        let rows = numbers(&trace);
        let rule = plain::stream_evict(share, (sinks, window, interval), prefill(&trace), &rows);
        let lost = plain::run(trace.prompt as usize, &rows, rule);
        let text = format!("stream-evict:budget={share},sinks={sinks},window={window},interval={interval}");
        same(&replayed(&trace, &text), &[lost], 1e-9)?;
    }

    #[test]
    fn raas_by_pages(trace in traces(), budget in 1usize..80, page in 1usize..9, alpha in 1e-4f64..1e-2) {
        let rows = numbers(&trace);
        let rule = plain::raas((budget, page), alpha, trace.prompt as usize, &rows);
        let lost = plain::run(trace.prompt as usize, &rows, rule);
        same(&replayed(&trace, &format!("raas:budget={budget},page={page},alpha={alpha}")), &[lost], 1e-9)?;
    }

    #[test]
    fn snap_kv_on_mean_rows(trace in traces(), window in 1usize..9, more in 1usize..20, half_kernel in 0usize..4) {
        let rows = numbers(&trace);
        let (budget, kernel) = (window + more, 2 * half_kernel + 1);
        let looked = (0..trace.prompt as usize).map(|p| rows.iter().take(window).map(|r| r[p]).sum());
        let rule = plain::snap_kv((budget, window, kernel), window - 1, looked.collect());
        let lost = plain::run(trace.prompt as usize, &rows, rule);
        same(&replayed(&trace, &format!("snap-kv-mean:budget={budget},window={window},kernel={kernel}")), &[lost], 1e-9)?;
    }

    #[test]
    fn r_kv_by_importance(trace in traces(), window in 1usize..9, more in 1usize..30, interval in 1usize..30) {
        let rows = numbers(&trace);
        let (budget, prompt) = (window + more, trace.prompt as usize);
        // Whatever the query, the rows seen when it is asked are those up to its step, the first one at least.
        let score = |last: usize, list: &[usize]| plain::importance_of_rows(&rows, window, (last + 1).saturating_sub(prompt).max(1), list);
        let lost = plain::run(prompt, &rows, plain::r_kv((budget, window, interval), prompt, score));
        same(&replayed(&trace, &format!("r-kv-importance:budget={budget},window={window},interval={interval}")), &[lost], 1e-9)?;
    }

    #[test]
    fn tova_by_layer(trace in headed(), budget in 1usize..40) {
        let layers: Vec<_> = (0..trace.layer_count as usize).map(|l| trace.layer(l)).collect();
        let lost: Vec<Lost> = layers.iter().map(|rows| plain::run(trace.means.prompt as usize, rows, plain::tova(budget, rows))).collect();
        same(&replayed(&trace, &format!("tova:budget={budget}")), &lost, 1e-9)?;
    }

    #[test]
    fn h2o_by_head(trace in headed(), heavy in 0usize..20, recent in 1usize..20) {
        let prompt = trace.means.prompt as usize;
        let all: Vec<usize> = (0..prompt).collect();
        let lost: Vec<Lost> = trace.heads.iter().enumerate().map(|(lane, head)| {
            let mut sums = vec![0.0; prompt];
            for from in 0..prompt {
                sums.iter_mut().zip(head.attention(from, &all)).for_each(|(s, w)| *s += w);
            }
            let rule = plain::h2o((heavy, recent), sums, |t, list| head.attention(prompt + t, list));
            plain::run(prompt, &trace.full(lane), rule)
        }).collect();
        same(&replayed(&trace, &format!("h2o:heavy={heavy},recent={recent}")), &lost, 1e-5)?;
    }

    #[test]
    fn snap_kv_by_head(trace in headed(), window in 1usize..6, more in 1usize..12, half_kernel in 0usize..4) {
        let prompt = trace.means.prompt as usize;
        let (budget, kernel) = (window + more, 2 * half_kernel + 1);
        let all: Vec<usize> = (0..prompt).collect();
        let lost: Vec<Lost> = trace.heads.iter().enumerate().map(|(lane, head)| {
            let mut looked = vec![0.0; prompt];
            for from in prompt.saturating_sub(window)..prompt {
                looked.iter_mut().zip(head.attention(from, &all)).for_each(|(s, w)| *s += w);
            }
            plain::run(prompt, &trace.full(lane), plain::snap_kv((budget, window, kernel), 0, looked))
        }).collect();
        same(&replayed(&trace, &format!("snap-kv:budget={budget},window={window},kernel={kernel}")), &lost, 1e-5)?;
    }

    #[test]
    fn r_kv_by_head(trace in headed(), window in 1usize..9, more in 1usize..20, interval in 1usize..20, lambda in 0f64..=1.0) {
        let (budget, prompt) = (window + more, trace.means.prompt as usize);
        let lost: Vec<Lost> = trace.heads.iter().enumerate().map(|(lane, head)| {
            let score = |last: usize, list: &[usize]| head.mixed(window, lambda, last, list);
            plain::run(prompt, &trace.full(lane), plain::r_kv((budget, window, interval), prompt, score))
        }).collect();
        let text = format!("r-kv:budget={budget},window={window},interval={interval},lambda={lambda}");
        same(&replayed(&trace, &text), &lost, 1e-5)?;
    }

    /// Laws 1, 2 and 7 and the counts by length, for policies of many lanes.
    #[test]
    fn lanes_obey_the_laws(trace in headed(), at in 0f64..1.0, text in prop::sample::select(vec![
        "tova:budget=9", "h2o:heavy=5,recent=6", "snap-kv:budget=7,window=3,kernel=3", "r-kv:budget=12,window=4,interval=8",
    ])) {
        let whole = replayed(&trace, text);
        for step in 0..whole.steps {
            let tokens = whole.tokens_at(step);
            prop_assert!((tokens.iter().sum::<f64>() - f64::from(trace.means.prompt + step + 1)).abs() < 1e-9);
            let mass = whole.mass[step as usize];
            prop_assert!(mass.iter().all(|m| *m >= 0.0), "{:?}", mass);
            let expected = if text.starts_with("tova") {
                let layers = trace.layer_count as usize;
                (0..layers).map(|l| trace.layer(l)[step as usize].iter().sum::<f64>()).sum::<f64>() / layers as f64
            } else {
                1.0
            };
            // Computed rows are rounded to whole 2^-24, recorded ones are exact.
            let tolerance = if text.starts_with("tova") { 1e-9 } else { tokens[0] * 2f64.powi(-24) + tokens[3] * 2f64.powi(-24) };
            prop_assert!((mass.iter().sum::<f64>() - expected).abs() <= tolerance, "{} is not {}", mass.iter().sum::<f64>(), expected);
        }
        let cut = (at * f64::from(whole.steps)) as usize;
        let part = replayed(&trace.cut(cut), text);
        prop_assert_eq!(&whole.mass[..cut], &part.mass[..]);
        let known = part.intervals.iter().filter(|i| (i.first_step as usize) < cut);
        for (a, b) in whole.intervals.iter().zip(known) {
            prop_assert_eq!(a, b);
        }
        let counted = by_length(&parse(text), trace.means.prompt, whole.steps).unwrap();
        prop_assert_eq!((counted.retiers, counted.intervals.len()), (whole.retiers, whole.intervals.len()));
        for (c, r) in counted.intervals.iter().zip(&whole.intervals) {
            prop_assert_eq!((c.first_step, c.tokens, c.destroyed), (r.first_step, r.tokens, r.destroyed));
            prop_assert!(c.t0_pages >= r.t0_pages && c.runs[0] >= r.runs[0] && c.runs[3] >= r.runs[3]);
        }
    }
}

/// Policies of all kinds in one call: results come in the order of the policies, each as alone.
#[test]
fn kinds_of_lanes_mix_in_one_replay() {
    let trace = Headed::new(10, 30, 5, (2, 2));
    let texts = [
        "r-kv:budget=16",
        "four-tier:interval=8,window=3",
        "tova:budget=12",
        "h2o-mean:heavy=6,recent=6",
        "full",
    ];
    let specs: Vec<_> = texts.iter().map(|t| parse(t)).collect();
    let together = replay::run(&trace, &specs).unwrap();
    for (text, timeline) in texts.iter().zip(&together) {
        assert_eq!(*timeline, replayed(&trace, text), "{text}");
    }
    assert_ne!(together[0], together[2]);
}

/// What a trace lacks is said, and what to ask for instead; never another rule under the same name.
#[test]
fn exact_rules_refuse_traces_that_lack_their_sections() {
    let bare = made(10, 20, 3, true);
    for (text, missing, instead) in [
        ("tova", "per-layer rows (section `layers`)", "tova-mean"),
        ("h2o", "queries of every position", "h2o-mean"),
        ("r-kv", "sections `keys` and `queries`", "r-kv-importance"),
        ("snap-kv", "sections `keys` and `queries`", "snap-kv-mean"),
    ] {
        let error = replay::run(&bare, &[parse(text)]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.message.contains(text) && error.message.contains(missing),
            "{error}"
        );
        assert!(error.help.unwrap().contains(&format!("`{instead}`")));
        assert_eq!(parse(text).card().stand_in, Some(instead));
        assert_eq!(replay::run(&bare, &[parse(instead)]).unwrap()[0].steps, 20);
    }
    // Queries of the last 3 prompt positions: enough for a window of 3, not of 4, and not for h2o.
    let mut short = Headed::new(10, 20, 3, (1, 1));
    short.window = 3;
    let exit = |text: &str| {
        replay::run(&short, &[parse(text)])
            .map_err(|e| e.exit_code())
            .map(|t| t[0].steps)
    };
    assert_eq!(exit("snap-kv:budget=5,window=3"), Ok(20));
    assert_eq!(exit("snap-kv:budget=5,window=4"), Err(2));
    assert_eq!(exit("r-kv:budget=5,window=3"), Ok(20));
    assert_eq!(exit("h2o"), Err(2));
}

/// Prompt of 2 with sums 3 and 1, heavy 1, recent 1. The prompt pass keeps both (2 tokens). Step 0, row .5 .2 .3: sums
/// 3.5, 1.2, .3 on 0, 1, 2; 3 tokens are live, the latest (2) stays and of 0 and 1 the heavier, 0. Step 1, row .1 .1 .5
/// .3 puts .1 on what is gone (1); sums 3.6 and .8: 2 goes. Step 2, row .2 .3 .1 .2 .2 loses .3 + .1.
#[test]
fn h2o_by_hand() {
    let bits = |row: &[f64]| {
        row.iter()
            .map(|w| kvplan::trace::half::from_f64(*w))
            .collect()
    };
    let trace = Made {
        prompt: 2,
        sums: Some(vec![3.0, 1.0]),
        rows: vec![
            bits(&[0.5, 0.2, 0.3]),
            bits(&[0.1, 0.1, 0.5, 0.3]),
            bits(&[0.2, 0.3, 0.1, 0.2, 0.2]),
        ],
    };
    let timeline = replayed(&trace, "h2o-mean:heavy=1,recent=1");
    let lost: Vec<f64> = timeline
        .mass
        .iter()
        .map(|m| (m[3] * 1000.0).round() / 1000.0)
        .collect();
    assert_eq!(lost, [0.0, 0.1, 0.4]);
    assert_eq!(
        (timeline.tokens_end(), timeline.retiers),
        ([2.0, 0.0, 0.0, 3.0], 3)
    );
}

/// Prompt of 4, budget 3/4: of the 8 tokens after 4 steps 6 may live. Prompt, one sink (4) and the latest (7) are 6: both
/// 5 and 6 go, whatever they drew. Of the 12 after 8 steps 9 may live: 0..=4 and 11, and 3 of the 4 others (7..=10).
#[test]
fn stream_evict_by_hand() {
    let timeline = replayed(
        &made(4, 8, 1, false),
        "stream-evict:budget=0.75,sinks=1,window=1,interval=4",
    );
    assert_eq!(timeline.tokens_at(4), [7.0, 0.0, 0.0, 2.0]);
    assert_eq!(timeline.tokens_end(), [9.0, 0.0, 0.0, 3.0]);
}

/// Recorded rows, with their real ties and sinks, against the plain rules.
#[test]
fn a_recorded_trace_agrees_with_the_plain_rules() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let reader = kvplan::trace::TraceReader::open(&folder.join("smol_3_t9_s5.kvt")).unwrap();
    let mut trace = Made {
        prompt: reader.prompt(),
        sums: reader.column_sums().map(<[f32]>::to_vec),
        rows: Vec::new(),
    };
    let keep = &mut |_, row: &[u16]| {
        trace.rows.push(row.to_vec());
        Ok(())
    };
    Rows::for_each(&reader, u32::MAX, keep).unwrap();
    let (rows, prompt) = (&numbers(&trace), trace.prompt as usize);
    let attention = |t: usize, list: &[usize]| list.iter().map(|p| rows[t][*p]).collect();
    let looked: Vec<f64> = (0..prompt)
        .map(|p| rows.iter().take(8).map(|r| r[p]).sum())
        .collect();
    let score = |last: usize, list: &[usize]| {
        plain::importance_of_rows(rows, 8, (last + 1).saturating_sub(prompt).max(1), list)
    };
    let pairs: Vec<(&str, plain::Rule<'_>)> = vec![
        (
            "h2o-mean:heavy=64,recent=64",
            plain::h2o((64, 64), prefill(&trace), attention),
        ),
        ("tova-mean:budget=128", plain::tova(128, rows)),
        ("lru:budget=128", plain::lru(128, 1e-3, prompt, rows)),
        (
            "random:budget=200,seed=7",
            plain::random((200, 4, 128), 7, prompt + rows.len()),
        ),
        (
            "stream-evict:budget=0.6,window=32",
            plain::stream_evict(0.6, (4, 32, 64), prefill(&trace), rows),
        ),
        (
            "raas:budget=256",
            plain::raas((256, 16), 1e-4, prompt, rows),
        ),
        (
            "raas:budget=256,alpha=0.01",
            plain::raas((256, 16), 0.01, prompt, rows),
        ),
        (
            "snap-kv-mean:budget=40,window=8",
            plain::snap_kv((40, 8, 5), 7, looked),
        ),
        ("r-kv-importance", plain::r_kv((128, 8, 128), prompt, score)),
    ];
    for (text, rule) in pairs {
        let lost = plain::run(prompt, rows, rule);
        assert!(
            *lost.dead.last().unwrap() > 0,
            "{text} destroys nothing here"
        );
        let same = same(&replayed(&reader, text), &[lost], 1e-9);
        assert!(same.is_ok(), "{text}: {same:?}");
    }
}
