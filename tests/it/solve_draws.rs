//! How far the answer of a search moves with what is not known exactly.

use std::sync::atomic::{AtomicU64, Ordering};

use kvplan::plan::simulate;
use kvplan::plan::solve::answer::SolvedIntervals;
use kvplan::plan::solve::{Find, Limits, searches, solve};
use kvplan::scenario::{Scenario, resolve};
use kvplan::uncertain::Unknown;

use crate::solve::{SHORT, base, found, settings};

const FEW: [(&str, &str); 3] = [SHORT[0], SHORT[1], ("intervals", "few")];

fn slower_than(tpot_p99: f64) -> Limits {
    Limits {
        tpot_p99: Some(tpot_p99),
        ..Limits::default()
    }
}

fn drawn(find: Find, limits: &Limits) -> (f64, SolvedIntervals) {
    let row = found(&FEW, find, limits).rows.remove(0);
    (row.answer.unwrap(), row.intervals.unwrap())
}

/// Every batch from 1 on, on every machine drawn: the last before the first that is too slow.
#[test]
fn draws_are_what_one_finds_by_trying_all_on_each_machine() {
    let limit = 0.0085;
    let (answer, seen) = drawn(Find::MaxBatch, &slower_than(limit));
    let s = base(&FEW);
    let d = s.deployment.clone().with_kernels();
    let machines = Unknown::new(&d.hardware, &d.runtime).draws(s.seed, 20);
    let last = |machine: &kvplan::uncertain::Drawn| {
        let slow = |batch: u32| {
            let one = Scenario {
                batch,
                deployment: machine.put(&s.deployment),
                intervals: kvplan::uncertain::Level::None,
                ..s.clone()
            };
            simulate(&one).unwrap().throughput.tpot_p99_s.unwrap() > limit
        };
        f64::from((1..2000).find(|b| slow(*b)).unwrap() - 1)
    };
    let mut all: Vec<f64> = machines.iter().map(last).collect();
    let keep = all.iter().filter(|a| **a >= answer).count() as f64 / 20.0;
    all.sort_by(f64::total_cmp);
    assert_eq!(seen.draws, 20);
    // Nearest rank of twenty: the 1st and the 19th; 0 is no answer. A search stops where its ends are 4 % apart.
    let near = |a: Option<f64>, b: f64| {
        let a = a.unwrap_or(0.0);
        assert!(a <= b && b - a <= (b / 25.0).ceil(), "{a} {b}");
    };
    near(seen.answer_p5, all[0]);
    near(seen.answer_p95, all[18]);
    assert!((seen.keeps_share - keep).abs() < 1e-9, "{seen:?} {keep}");
    assert!(all[0] < answer && answer < all[18], "{all:?}");
}

#[test]
fn a_wider_limit_moves_every_end_up() {
    let ends = |t: f64| drawn(Find::MaxBatch, &slower_than(t)).1;
    let (tight, wide) = (ends(0.010), ends(0.014));
    assert!(tight.answer_p5 < wide.answer_p5 && tight.answer_p95 < wide.answer_p95);
}

/// Without a limit of time it is memory alone that stops a batch, which intervals of an answer know in closed form.
#[test]
fn memory_alone_gives_the_largest_batch_of_the_closed_form() {
    let pairs = [FEW[0], FEW[1], FEW[2], ("policy", "full")];
    let row = found(&pairs, Find::MaxBatch, &Limits::default())
        .rows
        .remove(0);
    let seen = row.intervals.unwrap();
    let out = simulate(&Scenario {
        policy: "full".into(),
        batch: 8,
        ..base(&pairs)
    })
    .unwrap();
    let closed = out.intervals.unwrap();
    for (found, closed) in [
        (seen.answer_p5, closed.largest_batch_p5),
        (seen.answer_p95, closed.largest_batch_p95),
    ] {
        // Pages of 16 tokens, and 4 % of a draw's search.
        let off = found.unwrap() / closed as f64;
        assert!((0.93..=1.001).contains(&off), "{found:?} {closed}");
    }
}

#[test]
fn nothing_is_drawn_unless_asked_and_every_search_is_counted() {
    let limits = slower_than(0.0085);
    let none = found(&SHORT, Find::MaxBatch, &limits);
    assert_eq!(none.rows[0].intervals, None);
    let settings = settings(&FEW);
    let question = resolve::question(&settings).unwrap();
    let done = AtomicU64::new(0);
    solve(&question, &settings, Find::MaxBatch, &limits, &done).unwrap();
    assert_eq!(done.load(Ordering::Relaxed), searches(&question));
    assert_eq!(searches(&question), 21);
}

/// A limit that no machine can keep, and one that some can: the share tells them apart.
#[test]
fn without_an_answer_the_share_says_whether_some_machine_has_one() {
    let share = |t: f64| {
        let row = found(&FEW, Find::MaxBatch, &slower_than(t)).rows.remove(0);
        assert_eq!(row.answer, None);
        row.intervals.unwrap()
    };
    let never = share(1e-4);
    assert_eq!((never.keeps_share, never.answer_p95), (0.0, None));
    let one = found(&FEW, Find::MaxBatch, &Limits::default());
    let alone = one.rows[0].best.as_ref().unwrap().tpot_p99_s.unwrap();
    assert!(alone > 0.0);
    let single = simulate(&Scenario {
        batch: 1,
        ..base(&FEW)
    })
    .unwrap();
    let just = 0.99 * single.throughput.tpot_p99_s.unwrap();
    let some = share(just);
    assert!(some.keeps_share > 0.2 && some.keeps_share < 0.8, "{some:?}");
    assert_eq!(some.answer_p5, None);
    assert!(some.answer_p95.is_some());
}

/// Nobody knows tomorrow's requests: each draw has a sequence of its own, as many and by the same laws; a file is as it is.
#[test]
fn requests_are_drawn_anew_and_recordings_are_not() {
    let load = [
        ("arrivals", "poisson:2"),
        ("requests", "400"),
        ("lengths", "servegen-r1"),
        ("policy", "full"),
    ];
    let s = base(&load);
    let (one, two) = (s.redrawn(1), s.redrawn(2));
    let requests = |s: &Scenario| s.load.as_ref().unwrap().load.requests.clone();
    assert_eq!(requests(&one), requests(&s.redrawn(1)));
    assert_ne!(requests(&one), requests(&two));
    for s in [&one, &two] {
        let all = requests(s);
        assert_eq!(all.len(), 400);
        // 399 gaps of 0.5 s in the mean, each spread by as much: 199.5 s, give or take 4 times 0.5 x sqrt(399) = 40 s.
        let last = all.last().unwrap().arrival.secs();
        assert!((159.5..239.5).contains(&last), "{last}");
        assert_eq!(s.prompt, all.iter().map(|r| r.prompt).max().unwrap());
        assert_eq!(s.output, all.iter().map(|r| r.output).max().unwrap());
    }
    let file = std::env::temp_dir().join(format!("kvplan-redrawn-{}.csv", std::process::id()));
    std::fs::write(
        &file,
        "arrival_s,input_toks,output_toks\n0,10,20\n1,30,40\n",
    )
    .unwrap();
    let s = base(&[("arrivals", file.to_str().unwrap()), ("policy", "full")]);
    assert_eq!(requests(&s.redrawn(7)), requests(&s));
    std::fs::remove_file(file).unwrap();
}
