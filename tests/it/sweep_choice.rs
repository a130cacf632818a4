//! Fronts and equal budgets, each against a plain second way.

use kvplan::metrics::Outcome;
use kvplan::plan;
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Settings, Verb, resolve};
use kvplan::sweep::answer::{Answer, Cell};
use kvplan::sweep::axis::Axis;
use kvplan::sweep::equal::Equal;
use kvplan::sweep::grid::Grid;
use kvplan::sweep::{Sweep, pareto, run};
use proptest::prelude::*;

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::defaults(Verb::Simulate);
    for (name, text) in pairs {
        settings
            .set(name, &[(*text).to_string()], Origin::Flag)
            .unwrap();
    }
    settings
}

fn simulate(pairs: &[(&str, &str)]) -> Outcome {
    plan::simulate(&resolve::scenario(&settings(pairs)).unwrap()).unwrap()
}

fn answer(base: &[(&str, &str)], vary: &[&str], equal: &str) -> Answer {
    let axes = vary.iter().map(|v| Axis::parse(v).unwrap()).collect();
    let grid = Grid::new(settings(base), axes).unwrap();
    let sweep = Sweep::new(grid, Some(Equal::parse(equal).unwrap()), None).unwrap();
    sweep
        .answer(run(&sweep, Vec::new(), &|_| Ok(())).unwrap())
        .unwrap()
}

/// A cell with these figures; no speed is a cell that does not fit.
fn cell(like: &Outcome, index: usize, figures: (Option<u8>, u8, Option<u8>)) -> Cell {
    let (speed, peak, mass) = figures;
    let mut outcome = like.clone();
    outcome.fits = speed.is_some();
    outcome.throughput.output_tokens_per_s = speed.map(f64::from);
    outcome.memory.hbm_peak_bytes = u64::from(peak);
    outcome.quality.destroyed_share = 0.5;
    outcome.quality.destroyed_mass_mean = mass.map(f64::from);
    Cell {
        index,
        outcome: Some(outcome),
        ..Cell::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The front by its definition: every pair compared.
    #[test]
    fn the_front_is_what_nothing_dominates(
        all in prop::collection::vec((prop::option::weighted(0.9, 0u8..6), 0u8..6, prop::option::weighted(0.9, 0u8..3)), 1..40)
    ) {
        let like = like();
        let mut cells: Vec<Cell> = all.iter().enumerate().map(|(i, f)| cell(like, i, *f)).collect();
        pareto::mark(&mut cells, &pareto::parse("").unwrap());
        for (i, &(speed, peak, mass)) in all.iter().enumerate() {
            let (Some(speed), Some(mass)) = (speed, mass) else {
                prop_assert_eq!(cells[i].pareto, None);
                continue;
            };
            let beaten = all.iter().any(|&(s, p, m)| {
                let (Some(s), Some(m)) = (s, m) else { return false };
                s >= speed && p <= peak && m <= mass && (s > speed || p < peak || m < mass)
            });
            prop_assert_eq!(cells[i].pareto, Some(!beaten), "cell {}", i);
        }
    }
}

fn like() -> &'static Outcome {
    static LIKE: std::sync::OnceLock<Outcome> = std::sync::OnceLock::new();
    LIKE.get_or_init(|| simulate(&[("output", "200"), ("policy", "full")]))
}

#[test]
fn nothing_destroyed_is_a_mass_of_nothing() {
    // Without a recording only a cell that destroys lacks its mass, and takes no part.
    let mut cells: Vec<Cell> = [0.0, 0.2]
        .iter()
        .enumerate()
        .map(|(i, share)| {
            let mut cell = cell(like(), i, (Some(1), 1, None));
            cell.outcome.as_mut().unwrap().quality.destroyed_share = *share;
            cell
        })
        .collect();
    pareto::mark(&mut cells, &pareto::parse("").unwrap());
    assert_eq!([cells[0].pareto, cells[1].pareto], [Some(true), None]);
}

const BASE: &[(&str, &str)] = &[("prompt", "128"), ("output", "2500"), ("batch", "6")];

/// The figure in an outcome, by hand.
fn figure(by: &str, o: &Outcome) -> f64 {
    let live = [&o.tiers.t0, &o.tiers.t1, &o.tiers.t2];
    match by {
        "hbm-peak" => o.memory.hbm_peak_bytes as f64,
        "total-bytes" => (o.memory.hbm_peak_bytes + o.memory.ddr_peak_bytes) as f64,
        "retained" => live.iter().map(|t| t.tokens_mean).sum(),
        _ => o.throughput.tpot_mean_s.unwrap(),
    }
}

#[test]
fn solved_policies_come_to_what_the_reference_comes_to() {
    for (by, policies) in [
        (
            "hbm-peak",
            "policy=four-tier:hbm=0.4,h2o-mean,streaming-llm,stream-evict,tova-mean,raas,lru,random,r-kv-importance",
        ),
        (
            "total-bytes",
            "policy=streaming-llm:window=1200,four-tier:hbm=0.5,h2o-mean",
        ),
        (
            "retained",
            "policy=streaming-llm:window=1200,four-tier:hbm=0.5,lru,stream-evict",
        ),
        (
            "tpot",
            "policy=four-tier:hbm=0.9,four-tier:hbm=0.1,evict=0.02,semantics=cumulative",
        ),
    ] {
        let answer = answer(BASE, &["batch=2,6", policies], by);
        let n = answer.vary[1].values.len();
        for places in answer.cells.chunks(n) {
            let target = figure(by, places[0].outcome.as_ref().unwrap());
            assert!(places[0].equal.is_none());
            for cell in &places[1..] {
                let outcome = cell
                    .outcome
                    .as_ref()
                    .unwrap_or_else(|| panic!("{by} {cell:?}"));
                let solved = cell.equal.as_ref().unwrap();
                let reached = figure(by, outcome);
                // Bytes are rounded up in an outcome.
                assert!(
                    (solved.achieved / reached - 1.0).abs() < 1e-9,
                    "{by} {solved:?} {reached}"
                );
                assert!(
                    (reached / target - 1.0).abs() < 0.005,
                    "{by}: {reached} against {target}"
                );
                // The outcome is that of the policy it names.
                let alone = simulate(&[
                    BASE[0],
                    BASE[1],
                    ("batch", &cell.vary["batch"]),
                    ("policy", &outcome.policy),
                ]);
                assert_eq!(alone.memory, outcome.memory);
                assert_eq!(alone.throughput, outcome.throughput);
            }
        }
    }
}

#[test]
fn whole_pages_are_made_equal_on_the_recording() {
    // Which pages still hold a token depends on the positions, which lengths alone only bound.
    let base = [("prompt", "128"), ("output", "900"), ("compact", "none")];
    let answer = answer(
        &base,
        &["policy=four-tier:hbm=0.4,four-tier:hbm=0.1,score=last,lru"],
        "hbm-peak",
    );
    let peak = |at: usize| figure("hbm-peak", answer.cells[at].outcome.as_ref().unwrap());
    for at in [1, 2] {
        assert!(
            (peak(at) / peak(0) - 1.0).abs() < 0.005,
            "{:?}",
            answer.cells[at].equal
        );
    }
}

#[test]
fn the_nearest_budget_is_taken() {
    let answer = answer(
        BASE,
        &["policy=four-tier:hbm=0.4,streaming-llm"],
        "hbm-peak",
    );
    let target = figure("hbm-peak", answer.cells[0].outcome.as_ref().unwrap());
    let solved = answer.cells[1].equal.as_ref().unwrap();
    let window: u32 = solved.value.parse().unwrap();
    let off = |window: u32| {
        let policy = format!("streaming-llm:window={window}");
        let outcome = simulate(&[BASE, &[("policy", policy.as_str())]].concat());
        (figure("hbm-peak", &outcome) - target).abs()
    };
    assert!(
        off(window) <= off(window - 1) && off(window) <= off(window + 1),
        "{window}"
    );
}

#[test]
fn a_policy_without_a_budget_or_out_of_reach_is_refused() {
    let answer = answer(
        BASE,
        &["policy=four-tier:hbm=0.4,full,oracle,snap-kv-mean"],
        "hbm-peak",
    );
    let why: Vec<_> = answer
        .cells
        .iter()
        .map(|c| c.refused.clone().unwrap_or_default())
        .collect();
    assert!(why[0].is_empty());
    assert!(why[1].contains("`full` has no budget"), "{}", why[1]);
    assert!(why[2].contains("reads the future"), "{}", why[2]);
    assert!(why[3].contains("out of reach"), "{}", why[3]);
}

#[test]
fn a_value_brings_every_policy_to_it_and_parameters_vary_the_reference_alone() {
    let to = answer(BASE, &["policy=four-tier,lru"], "retained=900");
    for cell in &to.cells {
        let reached = figure("retained", cell.outcome.as_ref().unwrap());
        assert!((reached / 900.0 - 1.0).abs() < 0.005, "{reached}");
    }
    let varied = answer(
        BASE,
        &["policy=four-tier,lru", "policy.hbm=0.3,0.6"],
        "hbm-peak",
    );
    let peak = |at: usize| figure("hbm-peak", varied.cells[at].outcome.as_ref().unwrap());
    // Cells: four-tier at 0.3 and 0.6, lru brought to each.
    assert!(peak(0) < peak(1));
    assert!((peak(2) / peak(0) - 1.0).abs() < 0.005 && (peak(3) / peak(1) - 1.0).abs() < 0.005);
}
