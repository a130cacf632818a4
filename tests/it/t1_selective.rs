//! `selective` on the replay's side: by hand, against a second, plain implementation, and its laws.
#![allow(clippy::float_cmp, clippy::cast_possible_truncation)] // whole counts and exact sums; small indices

use kvplan::policy;
use kvplan::replay::{self, Quality};
use kvplan::timeline::{Selection, Timeline};
use kvplan::trace::Rows;
use proptest::prelude::*;

use crate::policy_four_tier::traces;
use crate::replay_support::{Made, half};

fn selection(text: &str) -> Selection {
    Selection::parse(text).unwrap()
}

fn selected(rows: &Made, spec: &str, text: &str) -> Timeline {
    let lengths = (rows.prompt, rows.rows());
    replay::selected(
        rows,
        &policy::parse(spec).unwrap(),
        selection(text),
        lengths,
    )
    .unwrap()
}

/// A weight in eighths as binary16: 8/8 is 0x3c00.
fn eighths(n: f64) -> u16 {
    (0u16..=0x3c00).find(|b| half(*b) == n / 8.0).unwrap()
}

/// Prompt 1; decisions after steps 1, 3, 5 send all but the prompt and the last token to the host, so that it holds {1} in
/// steps 2 and 3, {1, 2, 3} in steps 4 and 5.
fn by_hand() -> Made {
    let rows: [&[f64]; 6] = [
        &[4.0, 4.0],
        &[2.0, 4.0, 2.0],
        &[2.0, 1.0, 4.0, 1.0],
        &[1.0, 1.0, 3.0, 2.0, 1.0],
        &[1.0, 2.0, 1.0, 3.0, 0.5, 0.5],
        &[1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0],
    ];
    Made {
        prompt: 1,
        sums: None,
        rows: rows
            .iter()
            .map(|r| r.iter().map(|w| eighths(*w)).collect())
            .collect(),
    }
}

const ALL_OUT: &str = "four-tier:hbm=0,interval=2,window=1,sinks=0";

fn residuals(t: &Timeline) -> Vec<f64> {
    t.selective.iter().map(|f| 8.0 * f.residual_mass).collect()
}

fn fresh(t: &Timeline) -> Vec<f64> {
    t.selective.iter().map(|f| f.fresh[0]).collect()
}

#[test]
fn top_k_by_hand() {
    // last-row, one token. Step 4 ranks {1, 2, 3} by row 3: 1, 3, 2, and takes 2: left are 2 + 3 of row 4. Step 5 by row 4:
    // 2, 1, 3, takes 3: left 1 + 1.
    let t = selected(&by_hand(), ALL_OUT, "top-k=1,predict=last-row");
    assert_eq!(residuals(&t), [0.0, 0.0, 0.0, 0.0, 5.0, 2.0]);
    assert_eq!(fresh(&t), [0.0, 0.0, 1.0, 0.0, 1.0, 1.0]);
    assert_eq!(
        (8.0 * t.selective[4].threshold, t.selective[4].fetched),
        (3.0, [1.0, 0.0])
    );
    // fetched-only. Scores after row 3: 4+4+1+1 = 10, 2+4+3 = 9, 1+2 = 3: takes 1, there since step 2; left 1 + 3. In row 4
    // only 1 gains (2): 12, 9, 3: takes 1 again; left 1 + 1.
    let t = selected(&by_hand(), ALL_OUT, "top-k=1");
    assert_eq!(residuals(&t), [0.0, 0.0, 0.0, 0.0, 4.0, 2.0]);
    assert_eq!(fresh(&t), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(8.0 * t.selective[5].threshold, 12.0);
    // Mean (4 + 2) / 8 / 6, worst 4/8; the bound is twice that.
    let q = Quality::of(&t);
    assert_eq!(
        (q.residual.mean, q.residual.max, q.lost.max),
        (0.125, 0.5, 0.5)
    );
    assert_eq!((q.destroyed.max, q.error_bound_max), (0.0, 1.0));
}

#[test]
fn top_p_by_hand() {
    // Half of the score of 10 + 9 + 3 = 22 takes 10 and 9: left is 3 of row 4. Then, row 4 adding 2 and 1: 12, 10, 3: half of
    // 25 is 12.5: 12 and 10 again.
    let t = selected(&by_hand(), ALL_OUT, "top-p=0.5");
    assert_eq!(residuals(&t), [0.0, 0.0, 0.0, 0.0, 3.0, 1.0]);
    // {1, 2} is one run of two, of which 2 is new in step 4.
    let f = t.selective[4];
    assert_eq!(
        (f.fetched[0], f.fetched_runs, f.fresh[0], f.fresh_runs),
        (2.0, 1.0, 1.0, 1.0)
    );
    // All of it is everything, those without weight too.
    let t = selected(&by_hand(), ALL_OUT, "top-p=1");
    assert_eq!(residuals(&t), [0.0; 6]);
    assert_eq!(t.selective[5].fetched, [3.0, 0.0]);
}

/// Steps with what is fetched, one number each: plain lists, everything sorted anew.
struct Plain {
    fetched: f64,
    fresh: f64,
    residual: f64,
    mass: [f64; 2],
}

/// Four-tier (algorithm, cumulative, prompt protected, nothing destroyed) and a selection, as they are told in prose.
fn plain(
    rows: &Made,
    (hbm, window, interval): (f64, usize, usize),
    top: f64,
    last_row: bool,
) -> Vec<Plain> {
    let prompt = rows.prompt as usize;
    let mut score = vec![0.0; prompt];
    let mut host: Vec<usize> = Vec::new();
    let mut kept: Vec<usize> = Vec::new();
    let mut before: Vec<f64> = Vec::new();
    let mut out = Vec::new();
    for (step, bits) in rows.rows.iter().enumerate() {
        let row: Vec<f64> = bits.iter().map(|b| half(*b)).collect();
        score.resize(row.len(), 0.0);
        let predicted = |p: usize| if last_row { before[p] } else { score[p] };
        let mut ranked = host.clone();
        ranked.sort_by(|a, b| {
            predicted(*b)
                .partial_cmp(&predicted(*a))
                .unwrap()
                .then(a.cmp(b))
        });
        let n = if top >= 1.0 {
            ranked.len().min(top as usize)
        } else {
            let all: f64 = ranked.iter().map(|p| predicted(*p)).sum();
            let sums =
                (0..=ranked.len()).map(|n| ranked[..n].iter().map(|p| predicted(*p)).sum::<f64>());
            sums.take_while(|s| *s < top * all).count()
        };
        let (taken, left) = ranked.split_at(n);
        let on = |list: &[usize]| list.iter().map(|p| row[*p]).sum::<f64>();
        out.push(Plain {
            fetched: n as f64,
            fresh: taken.iter().filter(|p| !kept.contains(p)).count() as f64,
            residual: on(left),
            mass: [row.iter().sum::<f64>() - on(&host), on(&host)],
        });
        for (p, w) in row.iter().enumerate() {
            if last_row || !left.contains(&p) {
                score[p] += w;
            }
        }
        kept = taken.to_vec();
        before = row;
        if (step + 1) % interval == 0 {
            let mut candidates: Vec<usize> =
                (prompt..before.len().saturating_sub(window)).collect();
            candidates.sort_by(|a, b| score[*a].partial_cmp(&score[*b]).unwrap().then(a.cmp(b)));
            let in_hbm = (hbm * candidates.len() as f64).floor() as usize;
            host = candidates[..candidates.len() - in_hbm].to_vec();
            host.sort_unstable();
            // What was promoted is no longer fetched.
            kept.retain(|p| host.contains(p));
        }
    }
    out
}

proptest! {
    #[test]
    fn equals_a_plain_implementation(
        trace in traces(),
        hbm in prop::sample::select(vec![0.0, 0.25, 0.5, 0.8]),
        window in 1usize..6,
        interval in 1usize..9,
        top in prop::sample::select(vec![0.3, 0.6, 0.9, 1.0, 2.0, 5.0, 1000.0]),
        last_row: bool,
    ) {
        let spec = format!("four-tier:hbm={hbm},sinks=0,window={window},interval={interval}");
        let pick = if top < 1.0 { format!("top-p={top}") } else { format!("top-k={top}") };
        let predict = if last_row { "last-row" } else { "fetched-only" };
        let timeline = selected(&trace, &spec, &format!("{pick},predict={predict}"));
        for (step, by_hand) in plain(&trace, (hbm, window, interval), top, last_row).iter().enumerate() {
            let (fetch, mass) = (timeline.selective[step], timeline.mass[step]);
            prop_assert_eq!(fetch.fetched[0], by_hand.fetched, "step {}", step);
            prop_assert_eq!(fetch.fresh[0], by_hand.fresh, "step {}", step);
            prop_assert!((fetch.residual_mass - by_hand.residual).abs() < 1e-12);
            prop_assert!((mass[0] - by_hand.mass[0]).abs() < 1e-12 && (mass[1] - by_hand.mass[1]).abs() < 1e-12);
        }
    }

    #[test]
    fn parts_sum_to_the_row_and_a_larger_k_leaves_less(
        trace in traces(),
        spec in prop::sample::select(vec![
            "four-tier:hbm=0.3,window=3,interval=4",
            "four-tier:hbm=0.2,t2=0.4,window=3,interval=5,score=per-age",
            "four-tier:hbm=0.4,evict=0.2,semantics=cumulative,window=2,interval=4,score=ema:0.8",
            "four-tier:hbm=0.3,window=2,interval=3,score=last,preset=prototype",
        ]),
        k in 1u32..12,
    ) {
        let [few, more] = [k, k + 3].map(|k| selected(&trace, spec, &format!("top-k={k},predict=last-row")));
        for (step, row) in trace.rows.iter().enumerate() {
            let (f, m) = (few.selective[step], few.mass[step]);
            let host = few.tokens_at(step as u32);
            prop_assert_eq!(f.fetched[0] + f.fetched[1], f64::from(k).min(host[1] + host[2]));
            prop_assert!(f.fetched[0] <= host[1] && f.fetched[1] <= host[2]);
            prop_assert!(f.fresh[0] <= f.fetched[0] && f.fresh[1] <= f.fetched[1]);
            prop_assert!(f.fresh_runs <= f.fresh[0] + f.fresh[1] && f.fetched_runs <= f.fetched[0] + f.fetched[1]);
            let attended = m[1] + m[2] - f.residual_mass;
            let sum: f64 = row.iter().map(|b| half(*b)).sum();
            prop_assert!(attended >= -1e-12 && f.residual_mass >= 0.0);
            prop_assert!((m[0] + attended + f.residual_mass + m[3] - sum).abs() < 1e-9);
            prop_assert!(more.selective[step].residual_mass <= f.residual_mass);
        }
    }

    #[test]
    fn fetching_all_is_attending_to_all(trace in traces(), last_row: bool, t2 in prop::sample::select(vec![0.0, 0.3])) {
        let spec = format!("four-tier:hbm=0.3,window=3,interval=4,t2={t2}");
        let predict = if last_row { "last-row" } else { "fetched-only" };
        let all = selected(&trace, &spec, &format!("top-k=1000000,predict={predict}"));
        let plain = replay::run(&trace, &[policy::parse(&spec).unwrap()]).unwrap().remove(0);
        prop_assert!(all.selective.iter().all(|f| f.residual_mass == 0.0));
        let bare = Timeline { selection: None, selective: Vec::new(), ..all };
        prop_assert_eq!(bare, plain);
    }

    #[test]
    fn nothing_is_seen_before_its_time(trace in traces(), at in 0f64..1.0) {
        let cut = (at * trace.rows.len() as f64) as usize;
        let spec = "four-tier:hbm=0.3,window=2,interval=4";
        let whole = selected(&trace, spec, "top-k=2");
        let part = selected(&trace.cut(cut), spec, "top-k=2");
        prop_assert_eq!(&whole.selective[..cut], &part.selective[..]);
        prop_assert_eq!(&whole.mass[..cut], &part.mass[..]);
    }
}

#[test]
fn without_a_trace_top_k_counts_and_knows_no_residual() {
    let spec = policy::parse("four-tier:hbm=0.5").unwrap();
    let t = replay::selected_by_length(&spec, selection("top-k=100"), (50, 1000)).unwrap();
    let [_, t1, t2, _] = t.tokens_at(999);
    let fetch = t.fetch_at(999, [t1, t2]).unwrap();
    assert!(t1 > 300.0 && t.mass.is_empty() && t.selective.is_empty());
    assert_eq!(
        (fetch.fetched, fetch.fresh, fetch.residual_mass),
        ([100.0, 0.0], [100.0, 0.0], 0.0)
    );
}

#[test]
fn oracles_are_refused_and_texts_say_the_way_out() {
    let spec = policy::parse("oracle:hbm=0.5,interval=2,window=1").unwrap();
    let e = replay::selected(&by_hand(), &spec, selection("top-k=2"), (1, 6)).unwrap_err();
    assert!(e.message.contains("future") && e.help.is_some());
    for (text, part) in [
        ("", "how much"),
        ("top-k", "KEY=VALUE"),
        ("top-k=0", "from 1"),
        ("top-k=-3", "from 1"),
        ("top-k=99999999999", "from 1"),
        ("top-p=0", "over 0"),
        ("top-p=1.5", "over 0"),
        ("top-p=nan", "over 0"),
        ("top-k=3,top-p=0.5", "both"),
        ("predict=last-row", "how much"),
        ("top-k=3,predict=magic", "fetched-only"),
        ("top-k=3,depth=2", "not a parameter"),
    ] {
        let e = Selection::parse(text).unwrap_err();
        assert!(e.contains(part), "{text}: {e}");
    }
    for text in [
        "top-k=512,predict=fetched-only",
        "top-p=0.9,predict=last-row",
    ] {
        assert_eq!(selection(text).to_string(), text);
    }
}

#[test]
fn past_the_recorded_rows_it_goes_on_as_the_rows_would() {
    let reader = kvplan::trace::find("traces/smol_1_t9_s5.kvt").unwrap();
    let (prompt, rows) = (reader.prompt(), reader.rows());
    let cut = 2 * rows / 3;
    let spec = policy::parse("four-tier:hbm=0.2").unwrap();
    for text in [
        "top-k=64",
        "top-k=64,predict=last-row",
        "top-p=0.8",
        "top-k=100000",
    ] {
        let pick = selection(text);
        let known = replay::selected(&reader, &spec, pick, (prompt, rows)).unwrap();
        let part = Cut {
            rows: &reader,
            limit: cut,
        };
        let guess = replay::selected(&part, &spec, pick, (prompt, rows)).unwrap();
        assert_eq!(guess.selective.len(), rows as usize);
        assert_eq!(
            guess.selective[..cut as usize],
            known.selective[..cut as usize]
        );
        let mean = |t: &Timeline, f: fn(&kvplan::timeline::Fetch) -> f64| {
            t.selective[cut as usize..].iter().map(f).sum::<f64>() / f64::from(rows - cut)
        };
        let pair = |f: fn(&kvplan::timeline::Fetch) -> f64| (mean(&guess, f), mean(&known, f));
        let (residual, real) = pair(|f| f.residual_mass);
        let (fetched, taken) = pair(|f| f.fetched[0]);
        let (fresh, new) = pair(|f| f.fresh[0]);
        assert!(fresh >= 0.0 && fresh <= fetched, "{text}: {fresh} {new}");
        if text.contains("last-row") {
            assert!((fresh / new - 1.0).abs() < 0.35, "{text}: {fresh} {new}");
        }
        if std::env::var_os("SHOW").is_some() {
            use std::io::Write as _;
            let figures = [residual, real, fetched, taken, fresh, new];
            writeln!(std::io::stderr(), "{text}: {figures:.4?}").unwrap();
        }
        for (mass, fetch) in guess.mass.iter().zip(&guess.selective) {
            assert!(
                (mass.iter().sum::<f64>() - 1.0).abs() < 1e-2 && mass.iter().all(|m| *m >= -1e-12)
            );
            assert!(
                fetch.residual_mass >= -1e-12 && fetch.residual_mass <= mass[1] + mass[2] + 1e-12
            );
        }
        if text == "top-k=100000" {
            assert!(residual < 1e-9 && (fetched - taken).abs() < 1e-9);
        } else {
            assert!(
                (residual / real - 1.0).abs() < 0.35,
                "{text}: {residual} {real}"
            );
            assert!(
                (fetched / taken - 1.0).abs() < 0.35,
                "{text}: {fetched} {taken}"
            );
        }
    }
}

/// The first rows of a trace.
struct Cut<'a, R: Rows> {
    rows: &'a R,
    limit: u32,
}

impl<R: Rows> Rows for Cut<'_, R> {
    fn prompt(&self) -> u32 {
        self.rows.prompt()
    }

    fn rows(&self) -> u32 {
        self.limit
    }

    fn column_sums(&self) -> Option<&[f32]> {
        self.rows.column_sums()
    }

    fn for_each(
        &self,
        limit: u32,
        f: &mut dyn FnMut(u32, &[u16]) -> kvplan::error::Result<()>,
    ) -> kvplan::error::Result<()> {
        self.rows.for_each(limit.min(self.limit), f)
    }
}
