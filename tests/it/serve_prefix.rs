//! Prompts that begin alike: a block in use takes its memory once, however many requests hold it.

use kvplan::engine::Job;
use kvplan::engine::serve::{Rules, Serve};
use kvplan::engine::serve::{Served, Server};
use proptest::prelude::*;

use crate::engine_support::{Watch, World, scenario};
use crate::serve_support::{job, rules};

/// A small model on a real card, everything in HBM.
fn world() -> World {
    let s = scenario("model llama-3.1-8b weights bf16 hardware h100-sxm policy full");
    World::of(&s.deployment)
}

/// Serves jobs whose prompts are of these blocks of 16, and keeps every step.
fn watched(w: &World, jobs: Vec<Job>, rules: Rules, blocks: &[Vec<u32>]) -> (Served, Watch) {
    let server = Server::new(Serve {
        prepared: &w.prepared,
        ledger: &w.ledger,
        jobs,
        blocks,
        block_tokens: 16,
        rules,
    });
    let mut watch = Watch::default();
    let run = server.unwrap().run(&mut watch).unwrap();
    (run, watch)
}

/// A (prompt 40, output 30) comes at 0, B (prompt 40, output 3) at 20 ms; both begin with blocks 1 and 2, 32 positions. A's
/// prompt is step 0, so that in step j it has 40 + j positions. B is taken up in some step s and computes its last 8: the batch
/// holds 40 + s + 40 - 32 positions there, and 40 + s + 1 + 41 - 32 and 40 + s + 2 + 42 - 32 in B's two decode steps.
#[test]
fn a_shared_block_counts_once_by_hand() {
    let w = world();
    let jobs = vec![job("full", 0, 40, 30), job("full", 20, 40, 3)];
    let blocks = [vec![1, 2], vec![1, 2]];
    let (served, watch) = watched(&w, jobs, rules(&w, 4, 64), &blocks);
    let begun = served.lives[1].begun.unwrap();
    let s = watch.times.iter().position(|t| t.begin == begun).unwrap();
    assert!((1..25).contains(&s), "{s}");
    for (j, instant) in watch.instants.iter().enumerate() {
        let more = match j.checked_sub(s) {
            Some(n @ 0..=2) => 40 + n - 32,
            _ => 0,
        };
        let positions = (40 + j + more) as f64;
        let bytes = w.ledger.kv_token * positions;
        assert!((instant.kv_t0 - bytes).abs() < 1.0, "step {j}");
    }
    assert_eq!(watch.instants.len(), 30);
}

/// Room for 6 pages. A grows to 69 positions (the last token needs none), 5 pages; B needs 43 or 3 pages, of which it shares
/// 2. So both run together, where without shared blocks B would need 8 in all and waits for A.
#[test]
fn what_is_shared_makes_room() {
    let w = world().with_room(96);
    let jobs = || vec![job("full", 0, 40, 30), job("full", 100, 40, 3)];
    let blocks = [vec![1, 2], vec![1, 2]];
    let (shared, _) = watched(&w, jobs(), rules(&w, 4, 64), &blocks);
    assert!(shared.lives[1].begun.unwrap() < shared.lives[0].last);
    assert_eq!(shared.run.preemptions, 0);
    let (apart, _) = watched(&w, jobs(), rules(&w, 4, 64), &[]);
    assert!(apart.lives[1].begun.unwrap() >= apart.lives[0].last);
}

/// What a policy moves away is nobody else's: a hit saves compute alone.
#[test]
fn a_prompt_that_moves_is_not_shared() {
    let s = scenario("model llama-3.1-8b weights bf16 hardware h100-sxm");
    let w = World::of(&s.deployment);
    let policy = "four-tier:hbm=200tok,protect=sinks";
    let jobs = || vec![job(policy, 0, 160, 300), job(policy, 60, 160, 300)];
    let blocks = [vec![1, 2, 3], vec![1, 2, 3]];
    let (shared, _) = watched(&w, jobs(), rules(&w, 4, 256), &blocks);
    assert_eq!(shared.cached_tokens, 48);
    let (apart, _) = watched(&w, jobs(), rules(&w, 4, 256), &[]);
    let (a, b) = (shared.run.peak.hbm.total(), apart.run.peak.hbm.total());
    assert!((a / b - 1.0).abs() < 1e-12, "{a} {b}");
}

/// Founders come at once with prompts of whole blocks, and followers later with some first blocks of a founder and an end of
/// their own; room and budget for all of them, so that each prompt is one step.
fn families(
    founders: &[(u32, u32)],
    followers: &[(u32, u32, u64, u32, u32)],
) -> (Vec<Job>, Vec<Vec<u32>>) {
    let mut all: Vec<(u64, u32, u32, Vec<u32>)> = Vec::new();
    let id = |founder: usize, n: u32| 100 * u32::try_from(founder).unwrap() + n;
    for (i, (blocks, output)) in founders.iter().enumerate() {
        let ids = (0..*blocks).map(|n| id(i, n)).collect();
        all.push((0, 16 * blocks + 1, *output, ids));
    }
    for (of, shared, at, end, output) in followers {
        let founder = *of as usize % founders.len();
        let shared = (*shared).min(founders[founder].0);
        let ids = (0..shared).map(|n| id(founder, n)).collect();
        all.push((100 + at, 16 * shared + end, *output, ids));
    }
    all.sort_by_key(|a| a.0);
    all.into_iter()
        .map(|(at, prompt, output, ids)| (job("full", at, prompt, output), ids))
        .unzip()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// In every step memory is that of the union of the blocks that the batch holds, and of what each has alone.
    #[test]
    fn memory_in_use_is_the_union_of_blocks(
        founders in prop::collection::vec((1u32..9, 5u32..80), 1..4),
        followers in prop::collection::vec((0u32..4, 1u32..9, 0u64..500, 1u32..16, 1u32..60), 1..12),
    ) {
        let w = world();
        let (jobs, blocks) = families(&founders, &followers);
        let (served, watch) = watched(&w, jobs.clone(), rules(&w, 16, 4096), &blocks);
        for (times, instant) in watch.times.iter().zip(&watch.instants) {
            let (mut positions, mut held) = (0u32, 0usize);
            let mut union: Vec<u32> = Vec::new();
            for ((life, job), ids) in served.lives.iter().zip(&jobs).zip(&blocks) {
                if life.begun.unwrap() > times.begin || life.last < times.end {
                    continue;
                }
                let decoded = watch.times.iter().filter(|t| t.begin >= life.first && t.end <= times.end);
                positions += job.request.prompt + u32::try_from(decoded.count()).unwrap();
                held += ids.len();
                union.extend(ids);
            }
            union.sort_unstable();
            union.dedup();
            let twice = 16 * (held - union.len());
            let bytes = w.ledger.kv_token * (f64::from(positions) - twice as f64);
            prop_assert!((instant.kv_t0 - bytes).abs() < 1.0, "{} {bytes}", instant.kv_t0);
        }
        prop_assert_eq!(served.run.preemptions, 0);
    }

    /// With little room everybody is served, memory stays within it, and sharing never takes more of it.
    #[test]
    fn little_room_is_kept(
        founders in prop::collection::vec((1u32..9, 5u32..80), 1..4),
        followers in prop::collection::vec((0u32..4, 1u32..9, 0u64..200, 1u32..16, 1u32..60), 1..16),
        room in 15u32..40,
    ) {
        let w = world().with_room(16 * room);
        let (jobs, blocks) = families(&founders, &followers);
        let (served, watch) = watched(&w, jobs.clone(), rules(&w, 8, 64), &blocks);
        let pool = w.ledger.pool() * (1.0 + 1e-12);
        prop_assert!(watch.instants.iter().all(|i| i.kv_t0 >= 0.0 && i.total() <= pool));
        prop_assert!(served.lives.iter().all(|l| l.ended));
        let wanted: u64 = jobs.iter().map(|j| u64::from(j.request.output)).sum();
        prop_assert_eq!(served.run.tokens, wanted);
        let (again, _) = watched(&w, jobs, rules(&w, 8, 64), &blocks);
        prop_assert_eq!(served.lives, again.lives);
    }
}
