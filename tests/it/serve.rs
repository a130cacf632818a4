//! Requests over time: laws, examples by hand, and a second scheduler written from the rules.

use kvplan::engine::Unwatched;
use kvplan::engine::serve::{GiveWay, Life, Rules, Serve, Served, Server};
use kvplan::units::Ps;
use proptest::prelude::*;

use crate::engine_support::{World, scenario};
use crate::serve_support::{job, plain, rules, serve, serve_with};

/// A small model on a real card, everything in HBM, without write-back.
fn world() -> World {
    let s = scenario("model llama-3.1-8b weights bf16 hardware h100-sxm policy full");
    World::of(&s.deployment)
}

/// Time of a step from the laws alone (ps), as the plain scheduler asks for it.
fn step(world: &World, contexts: &[u32], chunks: &[(u32, u32)], ends: u32) -> u64 {
    let p = &world.prepared;
    let m = u32::try_from(contexts.len()).unwrap();
    let cost = if chunks.is_empty() {
        p.batch(m)
    } else {
        p.mixed(m, chunks, m + ends)
    };
    let class = &p.classes[0];
    let tokens: f64 = contexts.iter().map(|c| f64::from(*c)).sum();
    let bytes = class.kv_token * tokens;
    let attention = match (m, chunks.is_empty()) {
        (0, _) => 0.0,
        (_, true) => p.attention(class, f64::from(m), bytes),
        (_, false) => p.attention_beside(class, f64::from(m), bytes),
    };
    let layer = Ps::from_secs(cost.fixed[0] + attention) * u64::from(class.count);
    (Ps::from_secs(cost.gap) + Ps::from_secs(cost.head) + layer).0
}

/// Two requests, a budget of 100 tokens, one slot more than needed.
///
/// A (prompt 150, output 3) comes at 0, B (prompt 40, output 2) a millisecond later, while the first step runs.
/// Step 1: A's first 100 positions. Step 2: A's last 50, and B's 40 of the 50 left: both get their first token.
/// Step 3: both decode: A has 2, B its 2 and ends. Step 4: A decodes alone and ends with 3.
#[test]
fn two_requests_by_hand() {
    let w = world();
    let jobs = vec![job("full", 0, 150, 3), job("full", 1, 40, 2)];
    let served = serve(&w, jobs, rules(&w, 3, 100));
    let one = step(&w, &[], &[(0, 100)], 0);
    assert!(
        one > 1_000_000_000,
        "the first step lasts over a millisecond: {one} ps"
    );
    let two = one + step(&w, &[], &[(100, 50), (0, 40)], 2);
    let three = two + step(&w, &[151, 41], &[], 0);
    let four = three + step(&w, &[152], &[], 0);
    let seen: Vec<_> = served
        .lives
        .iter()
        .map(|l| (l.begun.unwrap().0, l.first.0, l.last.0))
        .collect();
    assert_eq!(seen, [(0, two, four), (one, two, three)]);
    assert_eq!(served.run.tokens, 5);
    // Between tokens: A's second and B's second in step 3 (both had one at the end of step 2), A's third in step 4.
    assert_eq!(served.gaps, [(Ps(three - two), 2), (Ps(four - three), 1)]);
    // B alone was in line, from its coming until step 2 began.
    let stay = (one - 1_000_000_000) as f64;
    assert!((served.means.waiting - stay / four as f64).abs() < 1e-12);
    assert_eq!(served.means.waiting_max, 1);
    // A ran throughout, B in steps 2 and 3.
    let both = (three - one) as f64 / four as f64;
    assert!((served.means.running - 1.0 - both).abs() < 1e-9);
    // Time per further token of A: two steps over two tokens; of B: one over one.
    let tpot: Vec<u64> = served
        .lives
        .iter()
        .map(|l| l.times().tpot.unwrap().0)
        .collect();
    assert_eq!(tpot, [(four - two) / 2, three - two]);
}

/// The same, chosen ahead: B comes at 1 ms, during step 1, while step 2 was chosen when step 1 began; so it joins step 3.
/// Step 1: A 100. Step 2: A 50, first token. Step 3: A decodes beside B's 40. Step 4: both decode and end.
#[test]
fn chosen_ahead_by_hand() {
    let w = world();
    let jobs = vec![job("full", 0, 150, 3), job("full", 1, 40, 2)];
    let served = serve(
        &w,
        jobs,
        Rules {
            ahead: true,
            ..rules(&w, 3, 100)
        },
    );
    let one = step(&w, &[], &[(0, 100)], 0);
    let two = one + step(&w, &[], &[(100, 50)], 1);
    let three = two + step(&w, &[151], &[(0, 40)], 1);
    let four = three + step(&w, &[152, 41], &[], 0);
    let seen: Vec<_> = served.lives.iter().map(|l| (l.first.0, l.last.0)).collect();
    assert_eq!(seen, [(two, four), (three, four)]);
}

/// Room for 6 pages of 16. A and B have prompts of 30, outputs of 40, and come together.
/// At admission each needs 31 positions, 2 pages. Decoding at 32 positions both have 2 pages (4 in all), at 33 3 pages (6), at 49 4
/// pages (8 > 6): then B, the later, gives way, with 18 decode steps done and 19 tokens given (30 + 18 = 48 positions
/// computed). It needs 30 + 19 + 1 = 50 positions, 4 pages, beside A's 4 at least: it waits until A has ended.
#[test]
fn the_latest_gives_way_and_comes_back_when_there_is_room() {
    let w = world().with_room(96);
    let jobs = vec![job("full", 0, 30, 40), job("full", 0, 30, 40)];
    let served = serve(&w, jobs.clone(), rules(&w, 2, 64));
    let [a, b] = served.lives[..] else { panic!() };
    assert_eq!((a.preempted, b.preempted), (0, 1));
    assert_eq!(served.run.preemptions, 1);
    let both = step(&w, &[], &[(0, 30), (0, 30)], 2);
    let together: u64 = (31..49).map(|n| step(&w, &[n, n], &[], 0)).sum();
    let alone: u64 = (49..70).map(|n| step(&w, &[n], &[], 0)).sum();
    assert_eq!(a.last.0, both + together + alone);
    // B computes its 49 positions again, which gives its 20th token, and decodes the last 20.
    let again = step(&w, &[], &[(0, 49)], 1);
    let rest: u64 = (50..70).map(|n| step(&w, &[n], &[], 0)).sum();
    assert_eq!(b.last.0, a.last.0 + again + rest);
    assert_eq!(served.run.tokens, 80);
    // Swapped, it comes back without computing: 18 steps done, 21 to go, and two copies to wait for.
    let swapped = serve(
        &w,
        jobs,
        Rules {
            give_way: GiveWay::Swap,
            ..rules(&w, 2, 64)
        },
    );
    assert_eq!((swapped.run.preemptions, swapped.swaps), (1, 1));
    let copy = |rate: f64| {
        let bytes = w.ledger.sequence_bytes(48.0);
        Ps::from_secs(kvplan::service::transfer::copy(
            &w.prepared.deployment.hardware.link,
            rate,
            bytes,
            3.0,
        ))
        .0
    };
    let (out, back) = (copy(w.prepared.d2h_rate), copy(w.prepared.h2d_rate));
    let alone_b: u64 = (49..70).map(|n| step(&w, &[n], &[], 0)).sum();
    assert_eq!(swapped.lives[0].last.0, a.last.0 + out);
    assert_eq!(swapped.lives[1].last.0, a.last.0 + out + back + alone_b);
}

/// Blocks of 16: B's prompt of 40 has the first two blocks of A's, computed before it comes: it computes 8 positions.
#[test]
fn a_prompt_that_begins_alike_computes_its_rest_alone() {
    let w = world();
    let jobs = || vec![job("full", 0, 40, 30), job("full", 20, 40, 3)];
    let blocks = [vec![1, 2], vec![1, 2]];
    let shared = serve_with(&w, jobs(), rules(&w, 4, 64), &blocks, 16);
    assert_eq!(shared.cached_tokens, 32);
    assert_eq!((shared.lives[0].cached, shared.lives[1].cached), (0, 32));
    let apart = serve(&w, jobs(), rules(&w, 4, 64));
    assert!(shared.lives[1].first < apart.lives[1].first);
    // A prompt that is known to its end still computes the block of its last position, for its token.
    let jobs = vec![job("full", 0, 32, 30), job("full", 20, 32, 3)];
    let whole = serve_with(&w, jobs, rules(&w, 4, 64), &blocks, 16);
    assert_eq!(whole.lives[1].cached, 16);
}

/// Everyone at once with the whole batch in one step: the decode steps are those of the static batch, one less for the token
/// that comes with the prompts.
#[test]
fn a_static_batch_is_the_case_all_at_once() {
    let w = world();
    let jobs: Vec<_> = (0..8).map(|_| job("full", 0, 100, 50)).collect();
    let served = serve(&w, jobs.clone(), rules(&w, 8, 800));
    let fixed = w.run(jobs, 8, false, &mut Unwatched).unwrap();
    assert_eq!(served.run.steps[..], fixed.steps[..49]);
    assert_eq!(fixed.steps.len(), 50);
    assert_eq!(served.run.tokens, fixed.tokens);
}

/// Tokens that live in the host: the tiers of the timeline are those of the run, and host memory is promised.
#[test]
fn tiers_go_with_each_request() {
    let s = scenario("model llama-3.1-8b weights bf16 hardware h100-sxm");
    let w = World::of(&s.deployment);
    let policy = "four-tier:hbm=200tok";
    let jobs: Vec<_> = (0..6).map(|i| job(policy, 40 * i, 64, 600)).collect();
    let served = serve(&w, jobs.clone(), rules(&w, 3, 256));
    assert!(served.lives.iter().all(|l| l.ended));
    assert!(served.means.tiers[1] > 0.0, "{:?}", served.means);
    assert!(served.run.sums.h2d_bytes > 0.0);
    // The budget holds after a decision; until the next one 64 tokens are appended.
    let most = served
        .samples
        .iter()
        .map(|s| s.tiers[0])
        .fold(0.0, f64::max);
    assert!(most <= 3.0 * (200.0 + 64.0 + 64.0), "{most}");
    // Host memory for one request at a time: they take turns.
    let full = serve(&w, jobs[..1].to_vec(), rules(&w, 3, 256));
    let mut tight = rules(&w, 3, 256);
    tight.ddr = 1.5 * full.run.peak.ddr;
    let turns = serve(&w, jobs.clone(), tight);
    assert_eq!(turns.means.running_max, 1);
    assert!(turns.run.makespan > served.run.makespan);
    // For none at all: refused, naming the request.
    tight.ddr = 0.5 * full.run.peak.ddr;
    let refused = Server::new(Serve {
        prepared: &w.prepared,
        ledger: &w.ledger,
        jobs,
        blocks: &[],
        block_tokens: 0,
        rules: tight,
    });
    let error = refused.err().unwrap();
    assert_eq!(error.exit_code(), 1);
    assert!(error.message.contains("request 1"), "{}", error.message);
}

/// What is said of requests and of the server over time is the same: gaps make up the time after the first token, stays in line
/// the length of the line, with nobody's help from the engine's own count.
fn identities(served: &Served) {
    let ps = |t: Ps| u128::from(t.0);
    let after: u128 = served.lives.iter().map(|l| ps(l.last) - ps(l.first)).sum();
    let gaps = served.gaps.iter().map(|g| ps(g.0) * u128::from(g.1));
    assert_eq!(gaps.sum::<u128>(), after, "TTFT and all ITL are E2EL");
    for life in &served.lives {
        let t = life.times();
        assert!(t.queued < t.ttft && t.ttft <= t.e2e);
    }
    let (m, over) = (&served.means, served.run.makespan.secs());
    let little = served.lives.iter().map(|l| l.times().queued.secs());
    let (line, stays) = (m.waiting * over, little.sum::<f64>());
    if served.run.preemptions > 0 {
        assert!(line >= stays * (1.0 - 1e-9), "{line} {stays}");
        return;
    }
    assert!(
        (line - stays).abs() <= 1e-9 * stays.max(over),
        "{line} {stays}"
    );
    let within = |l: &Life, at: Ps| l.arrival < at && at <= l.begun.unwrap();
    let begun = |l: &&Life| l.begun.unwrap() > l.arrival;
    let there = |at: Ps| {
        served
            .lives
            .iter()
            .filter(begun)
            .filter(move |l| within(l, at))
    };
    for sample in &served.samples {
        assert_eq!(sample.waiting as usize, there(sample.at).count());
    }
    let just_after = |l: &Life| there(Ps(l.arrival.0 + 1)).count();
    let most = served.lives.iter().map(just_after).max().unwrap();
    assert_eq!(m.waiting_max as usize, most);
    // In the engine but not in line is in the batch, from the begin of its prompt to its last token.
    let inside = served
        .lives
        .iter()
        .map(|l| (l.last.saturating_sub(l.begun.unwrap())).secs());
    let inside: f64 = inside.sum();
    assert!(
        (m.running * over - inside).abs() <= 1e-9 * inside,
        "{} {inside}",
        m.running * over
    );
}

fn laws(served: &Served, jobs: &[kvplan::engine::Job], pool: f64) {
    let wanted: u64 = jobs.iter().map(|j| u64::from(j.request.output)).sum();
    assert_eq!(served.run.tokens, wanted, "tokens are conserved");
    assert!(served.lives.iter().all(|l| l.ended), "nobody is lost");
    for (life, job) in served.lives.iter().zip(jobs) {
        assert!(life.begun.unwrap() >= job.request.arrival);
        assert!(life.first > life.begun.unwrap() && life.last >= life.first);
    }
    for pair in served.lives.windows(2) {
        assert!(pair[0].begun <= pair[1].begun, "first come, first begun");
    }
    assert!(
        served.run.peak.hbm.total() <= pool * (1.0 + 1e-12),
        "memory"
    );
    assert!(served.samples.iter().all(|s| s.hbm <= pool * (1.0 + 1e-12)));
    assert!(served.samples.windows(2).all(|p| p[0].at < p[1].at));
    assert!(served.samples.len() <= 512);
    identities(served);
    let gaps: u64 = served.gaps.iter().map(|g| u64::from(g.1)).sum();
    assert_eq!(
        gaps,
        wanted - jobs.len() as u64,
        "a gap before every further token"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The engine against the plain scheduler, to the picosecond: who begins when, first and last tokens, preemptions.
    #[test]
    fn equals_a_plain_scheduler(
        load in prop::collection::vec((0u64..60, 1u32..90, 1u32..40), 1..14),
        slots in 1u32..6,
        spare in 0u32..80,
        room in 9u32..30,
    ) {
        let mut load = load;
        load.sort_by_key(|l| l.0);
        let w = world().with_room(room * 16);
        let jobs: Vec<_> = load.iter().map(|(at, p, o)| job("full", *at, *p, *o)).collect();
        let budget = slots + spare;
        let served = serve(&w, jobs.clone(), rules(&w, slots, budget));
        laws(&served, &jobs, w.ledger.pool());
        let said = plain(&jobs, (slots as usize, budget), (16, room), |contexts, chunks, ends| {
            step(&w, contexts, chunks, ends)
        });
        let seen: Vec<_> = served.lives.iter()
            .map(|l| (l.begun.unwrap().0, l.first.0, l.last.0)).collect();
        prop_assert_eq!(seen, said.times);
        prop_assert_eq!(served.run.preemptions, said.preemptions);
    }

    /// Laws for tiers, both ways to give way, choosing ahead, little room; and the same again.
    #[test]
    fn laws_hold(
        load in prop::collection::vec((0u64..200, 1u32..200, 1u32..300), 1..24),
        slots in 1u32..9,
        spare in 0u32..300,
        room in 620u32..2000,
        swap in any::<bool>(),
        ahead in any::<bool>(),
        tiered in any::<bool>(),
    ) {
        let mut load = load;
        load.sort_by_key(|l| l.0);
        let policy = if tiered { "four-tier:hbm=260tok" } else { "full" };
        let s = scenario("model llama-3.1-8b weights bf16 hardware h100-sxm");
        let w = World::of(&s.deployment).with_room(room);
        let jobs: Vec<_> = load.iter().map(|(at, p, o)| job(policy, *at, *p, *o)).collect();
        let give_way = if swap { GiveWay::Swap } else { GiveWay::Recompute };
        let rules = Rules { give_way, ahead, ..rules(&w, slots, slots + spare) };
        let served = serve(&w, jobs.clone(), rules);
        laws(&served, &jobs, w.ledger.pool());
        let again = serve(&w, jobs, rules);
        prop_assert_eq!(&served.lives, &again.lives);
        prop_assert_eq!(&served.gaps, &again.gaps);
        prop_assert_eq!(&served.samples, &again.samples);
        prop_assert_eq!(served.run.makespan, again.run.makespan);
    }
}

/// A tier that may be used and never is: everything as without it, and no more looked at.
#[test]
fn an_idle_tier_is_no_tier() {
    let w = world();
    let jobs = |policy: &str| {
        (0..9)
            .map(|i| job(policy, 3 * i, 90, 400))
            .collect::<Vec<_>>()
    };
    let full = serve(&w, jobs("full"), rules(&w, 4, 256));
    let idle = serve(&w, jobs("four-tier:hbm=100000tok"), rules(&w, 4, 256));
    assert_eq!(full.lives, idle.lives);
    assert_eq!(full.gaps, idle.gaps);
    assert_eq!(full.run.steps, idle.run.steps);
    assert!(
        idle.run.events <= full.run.events + 9,
        "{} {}",
        idle.run.events,
        full.run.events
    );
}
