//! Proposition 1 on a real model: without eviction every logit is that of the full cache, whatever the share in HBM; with
//! eviction every logit is the same for any share in HBM.

use kvplan::forward::{Cache, Checkpoint, Detail, Item, Keeper, Model, Storage, Text, likeliest};
use kvplan::policy;
use kvplan::timeline::Timeline;

use crate::forward_reference::test_model;

const STEPS: usize = 304;

#[test]
fn proposition_1_holds_to_the_bit_on_a_real_model() {
    let Some(path) = test_model() else {
        skip!("Proposition 1: the test model is not there");
    };
    let checkpoint = Checkpoint::open(&path).unwrap();
    let model = Model::load(&checkpoint).unwrap();
    let text = Text::open(&checkpoint).unwrap();
    let prompt = text
        .chat("Tell a long story about a lighthouse and its keeper.")
        .unwrap();
    let specs: Vec<policy::PolicySpec> = [
        (0.0, 0.0),
        (0.3, 0.0),
        (0.5, 0.0),
        (0.7, 0.0),
        (0.3, 0.03),
        (0.7, 0.03),
    ]
    .iter()
    .map(|(hbm, evict)| format!("four-tier:hbm={hbm},evict={evict},semantics=cumulative,window=32"))
    .map(|spec| policy::parse(&spec).unwrap())
    .collect();
    // Sequence 0 is the full cache, and says which token comes next for all.
    let room = prompt.len() + STEPS;
    let mut caches = vec![Cache::new(model.shape(), room)];
    caches.extend(
        specs
            .iter()
            .map(|s| Keeper::cache(s, model.shape(), room, Storage::default())),
    );
    let seen = model.prompt(&mut caches, &prompt, 0, &mut |_| {}).unwrap();
    let mut keepers: Vec<Keeper> = specs
        .iter()
        .zip(&caches[1..])
        .map(|(s, c)| Keeper::new(s, model.shape(), c, &seen.sums, &[]).unwrap())
        .collect();
    let vocab = model.shape().vocab;
    let mut logits = seen.logits;
    let (mut lost, mut far) = (0, 0f32);
    for t in 0..STEPS {
        let token = likeliest(&logits).unwrap();
        let items: Vec<Item> = (0..caches.len())
            .flat_map(|s| Item::of(s, &[token], Detail::Mean))
            .collect();
        let step = model.step(&mut caches, &items).unwrap();
        let of = |s: usize| &step.logits[s * vocab..(s + 1) * vocab];
        let bits = |s: usize| of(s).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for s in 1..=4 {
            assert!(
                bits(s) == bits(0),
                "step {t}, {}: a logit differs from the full cache",
                specs[s - 1].name()
            );
        }
        assert!(
            bits(5) == bits(6),
            "step {t}: with eviction, a logit depends on the share in HBM"
        );
        lost += usize::from(bits(5) != bits(0));
        far = of(5)
            .iter()
            .zip(of(0))
            .map(|(a, b)| (a - b).abs())
            .fold(far, f32::max);
        for (i, keeper) in keepers.iter_mut().enumerate() {
            keeper
                .after(&mut caches[i + 1], &step.rows[i + 1], &[], None)
                .unwrap();
        }
        logits = of(0).to_vec();
    }
    // The test would see a loss, and things did move.
    assert!(
        lost > 100 && far > 1e-3,
        "{lost} steps differ by up to {far} with eviction"
    );
    let timelines: Vec<Timeline> = keepers.into_iter().map(Keeper::finish).collect();
    let promoted: Vec<f64> = timelines
        .iter()
        .map(|t| t.intervals.iter().map(|i| i.promoted).sum())
        .collect();
    assert!(
        promoted[1..4].iter().all(|p| *p >= 20.0),
        "promotions: {promoted:?}"
    );
    let in_t1 = |t: &Timeline| t.intervals.last().unwrap().tokens[1];
    assert!(in_t1(&timelines[0]) > 200.0 && in_t1(&timelines[1]) > in_t1(&timelines[3]));
    let destroyed = |t: &Timeline| t.intervals.last().unwrap().tokens[3];
    assert!(destroyed(&timelines[4]) > 0.0 && destroyed(&timelines[0]) == 0.0);
}
