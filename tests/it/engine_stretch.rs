//! What the engine takes in one stride against the same taken step by step.

use std::sync::Arc;

use kvplan::deploy::{Deployment, Overlap, T1Mode, WriteBack};
use kvplan::engine::{
    Engine, Job, LayerTimes, Observer, Pipeline, Run, Setup, StepFact, Unwatched,
};
use kvplan::memory::{Instant, Ledger};
use kvplan::scenario::{Settings, Verb, resolve};
use kvplan::service::Prepared;
use kvplan::units::{Bytes, Ps};
use kvplan::{policy, replay, workload};
use proptest::prelude::*;

fn layers(times: &[(u64, u64)]) -> Vec<LayerTimes> {
    let layer = |t: &(u64, u64)| LayerTimes {
        compute: Ps(t.0),
        transfer: Ps(t.1),
    };
    times.iter().map(layer).collect()
}

/// Passes `steps` through two pipelines, layer by layer and run by run, with a partial drain before every other step.
fn both(depth: u32, runs: &[(u8, u32)], steps: &[(Vec<LayerTimes>, u64)]) {
    let order: Vec<u8> = runs
        .iter()
        .flat_map(|(class, n)| vec![*class; *n as usize])
        .collect();
    let (mut one, mut all) = (Pipeline::new(depth, 1.0), Pipeline::new(depth, 1.0));
    let mut at = Ps::ZERO;
    for (i, (layers, gap)) in steps.iter().enumerate() {
        if i % 2 == 1 {
            one.drain(0.3, at);
            all.drain(0.3, at);
        }
        let start = at + Ps(*gap);
        let passed = one.pass(start, &order, layers);
        assert_eq!(all.pass_runs(start, runs, layers), passed, "step {i}");
        at = passed.end;
    }
}

#[test]
fn a_link_that_never_delivers() {
    let stuck = layers(&[(5, Ps::NEVER.0)]);
    both(2, &[(0, 80)], &vec![(stuck, 3); 3]);
}

proptest! {
    #[test]
    fn runs_of_layers_as_layer_by_layer(
        runs in prop::collection::vec((0u8..3, 1u32..90), 1..5),
        steps in prop::collection::vec((prop::collection::vec((0u64..60, 0u64..60), 3), 0u64..900), 1..7),
        depth in 1u32..7,
    ) {
        let steps: Vec<_> = steps.iter().map(|(t, gap)| (layers(t), *gap)).collect();
        both(depth, &runs, &steps);
    }
}

/// The peaks over every single step.
#[derive(Default)]
struct Peaks {
    hbm: Instant,
    t1: f64,
    busy: Ps,
    attention_s: f64,
}

impl Observer for Peaks {
    fn step(&mut self, fact: &StepFact<'_>) -> kvplan::error::Result<()> {
        if fact.instant.total() > self.hbm.total() {
            self.hbm = fact.instant;
        }
        self.t1 = self.t1.max(fact.times.t1_bytes);
        self.busy += fact.times.h2d_busy;
        self.attention_s += fact.times.attention_s;
        Ok(())
    }
}

fn deployment(model: &str, change: impl FnOnce(&mut Deployment)) -> Prepared {
    let question = resolve::question(&Settings::defaults(Verb::Plan)).unwrap();
    let mut d = question.on(&question.cards[0]).deployment;
    d.model = Arc::new(kvplan::catalog::model(model).unwrap());
    change(&mut d);
    Prepared::new(&d)
}

fn run(prepared: &Prepared, hbm: u32, batch: u32, observer: &mut impl Observer) -> Run {
    let spec = policy::parse(&format!("four-tier:hbm={hbm}tok,t2=0.1")).unwrap();
    let timeline = Arc::new(replay::by_length(&spec, 200, 700).unwrap());
    let jobs = workload::lockstep(batch, 200, 700)
        .into_iter()
        .zip(workload::retier_phases(batch, 64, 7))
        .map(|(request, phase)| Job {
            request,
            timeline: Arc::clone(&timeline),
            phase,
        })
        .collect();
    let ledger = Ledger::new(prepared);
    let setup = Setup {
        prepared,
        ledger: &ledger,
        jobs,
        max_running: batch,
        paged: false,
        respawn: false,
    };
    Engine::new(setup).unwrap().run(observer).unwrap()
}

#[test]
fn peaks_and_sums_are_those_of_every_step() {
    let modes = [
        T1Mode::Stream,
        T1Mode::Staged(Some(Bytes(1 << 24))),
        T1Mode::HostAttention,
    ];
    for model in ["deepseek-r1-distill-llama-70b", "gemma-3-27b"] {
        for t1 in modes {
            for (overlap, write_back) in [
                (Overlap::Layer, WriteBack::Through),
                (Overlap::Serial, WriteBack::AtDemotion),
            ] {
                let prepared = deployment(model, |d| {
                    (d.t1, d.overlap, d.write_back) = (t1, overlap, write_back);
                });
                let mut peaks = Peaks::default();
                let watched = run(&prepared, 500, 3, &mut peaks);
                let alone = run(&prepared, 500, 3, &mut Unwatched);
                assert_eq!(format!("{watched:?}"), format!("{alone:?}"));
                assert_eq!(
                    (peaks.hbm, peaks.busy),
                    (alone.peak.hbm, alone.sums.h2d_busy)
                );
                let bits = [peaks.t1, peaks.attention_s].map(f64::to_bits);
                let own = [alone.peak.t1, alone.sums.attention_s].map(f64::to_bits);
                assert_eq!(bits, own, "{model} {t1:?}");
                assert!(alone.peak.t1 > 0.0);
            }
        }
    }
}
