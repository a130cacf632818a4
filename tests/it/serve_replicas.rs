//! Replicas that share experts: in step, each with its own requests, the experts' work for all.

use kvplan::engine::Unwatched;
use kvplan::engine::serve::{Served, Server, together};
use kvplan::memory::Ledger;
use kvplan::service::Prepared;
use proptest::prelude::*;

use kvplan::engine::Job;
use kvplan::engine::serve::{Rules, Serve};

use crate::engine_support::{World, scenario};
use crate::serve_support::{job, rules};

/// Qwen3-30B-A3B on a card that holds it, with so many replicas that share its experts.
fn world(ranks: f64) -> World {
    let s = scenario("model qwen3-30b-a3b weights bf16 hardware rtx-pro-6000 policy full");
    let mut prepared = Prepared::new(&s.deployment.clone().with_kernels());
    prepared.expert_ranks = ranks;
    World {
        ledger: Ledger::new(&prepared),
        prepared,
    }
}

fn server(world: &World, jobs: Vec<Job>, rules: Rules) -> Server<'_> {
    Server::new(Serve {
        prepared: &world.prepared,
        ledger: &world.ledger,
        jobs,
        blocks: &[],
        block_tokens: 0,
        rules,
    })
    .unwrap()
}

fn alone(world: &World, jobs: Vec<Job>, rules: Rules) -> Served {
    server(world, jobs, rules).run(&mut Unwatched).unwrap()
}

/// Arrivals (ms), prompts and outputs.
fn load() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
    prop::collection::vec((0u64..40, 1u32..700, 1u32..12), 1..9)
}

fn jobs(load: &[(u64, u32, u32)]) -> Vec<Job> {
    let mut load = load.to_vec();
    load.sort_unstable();
    load.iter()
        .map(|(at, p, o)| job("full", *at, *p, *o))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// One rank with nobody to share with is the server that runs alone, to the picosecond.
    #[test]
    fn one_rank_is_the_server_alone(load in load(), slots in 1u32..6, ahead in any::<bool>()) {
        let w = world(1.0);
        let rules = Rules { ahead, ..rules(&w, slots, 256) };
        let one = alone(&w, jobs(&load), rules);
        let same = together(vec![server(&w, jobs(&load), rules)]).unwrap().remove(0);
        prop_assert_eq!(&one.lives, &same.lives);
        prop_assert_eq!(one.run.makespan, same.run.makespan);
        prop_assert_eq!(one.run.tokens, same.run.tokens);
    }

    /// Ranks of equal loads take each other to be as full as they are, and are right.
    #[test]
    fn equal_ranks_are_as_each_expects(load in load(), slots in 1u32..6) {
        let w = world(2.0);
        let rules = rules(&w, slots, 256);
        let expected = alone(&w, jobs(&load), rules);
        let both = together(vec![server(&w, jobs(&load), rules), server(&w, jobs(&load), rules)]).unwrap();
        prop_assert_eq!(&both[0].lives, &expected.lives);
        prop_assert_eq!(&both[1].lives, &expected.lives);
    }

    /// Everybody gets all tokens, and nobody is faster for having company.
    #[test]
    fn company_never_helps(mine in load(), theirs in load()) {
        let w = world(2.0);
        let rules = rules(&w, 4, 256);
        let both = together(vec![server(&w, jobs(&mine), rules), server(&w, jobs(&theirs), rules)]).unwrap();
        for (served, load) in both.iter().zip([&mine, &theirs]) {
            prop_assert!(served.lives.iter().all(|l| l.ended));
            let tokens: u64 = load.iter().map(|l| u64::from(l.2)).sum();
            prop_assert_eq!(served.run.tokens, tokens);
        }
        // With the same first arrival and nobody else's work, the idle rank alone is the least there is.
        let lone = together(vec![server(&w, jobs(&mine), rules), server(&w, Vec::new(), rules)]).unwrap();
        let single = [(0, 300, 8)];
        let quiet = together(vec![server(&w, jobs(&single), rules), server(&w, Vec::new(), rules)]).unwrap();
        let crowded = together(vec![server(&w, jobs(&single), rules), server(&w, jobs(&theirs), rules)]).unwrap();
        prop_assert!(quiet[0].run.makespan <= crowded[0].run.makespan);
        prop_assert!(lone[1].lives.is_empty());
    }
}

/// A rank that decodes beside another's prompt waits for it.
#[test]
fn a_step_lasts_as_long_as_the_slowest_rank() {
    let w = world(2.0);
    let rules = rules(&w, 4, 2048);
    let ranks = |theirs: &[(u64, u32, u32)]| {
        together(vec![
            server(&w, jobs(&[(0, 16, 6)]), rules),
            server(&w, jobs(theirs), rules),
        ])
        .unwrap()
    };
    let (quiet, beside) = (ranks(&[]), ranks(&[(0, 2048, 2)]));
    // The first steps of both run together, and end together.
    assert_eq!(beside[0].lives[0].first, beside[1].lives[0].first);
    assert!(beside[0].lives[0].first.secs() > 3.0 * quiet[0].lives[0].first.secs());
}

/// 48 layers of 128 experts of 3 x 2,048 x 768 weights in bf16 are 57.98 GB: two ranks hold 28.99 GB each.
#[test]
fn a_rank_holds_its_share_of_the_experts() {
    let (whole, shared) = (world(1.0), world(2.0));
    let less = whole.ledger.weights.as_f64() - shared.ledger.weights.as_f64();
    assert!((less / 28.99e9 - 1.0).abs() < 1e-3, "{less}");
    assert!((shared.ledger.pool() - whole.ledger.pool() - less).abs() < 2.0);
}
