//! The tiered cache on small models: where tokens lie changes nothing, what is destroyed is masked, T2 is within half a step.

use kvplan::forward::{
    Cache, Detail, Grouping, Item, Keeper, Model, Positions, Quantiser, Storage,
};
use kvplan::policy::{self, Lanes};
use kvplan::timeline::Tier;
use proptest::prelude::*;

use crate::forward_make::{DIM, HEADS, KV, LAYERS, Tiny, plain_without, write};

const LANES: [Lanes; 3] = [Lanes::Sequence, Lanes::Layer, Lanes::KvHead];

fn model(tiny: &Tiny) -> Model {
    let dir = tempfile::tempdir().unwrap();
    Model::open(&write(&dir, &tiny.gguf())).unwrap()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

/// Tokens that repeat nothing for long.
fn tokens(n: u32) -> Vec<u32> {
    (0..n).map(|t| (7 * t + t * t / 3) % 40).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Tokens wander between T0 and T1 at random, several at once, back and forth: no bit of any logit or row changes.
    #[test]
    fn moves_without_loss_change_no_bit(
        seed in 1u64..1000,
        lanes in 0usize..3,
        moves in prop::collection::vec((0u32..1000, 0usize..100, 0u32..40, any::<bool>()), 0..80),
    ) {
        let model = model(&Tiny::new("llama", true, seed));
        let text = tokens(40);
        let mut caches = [
            Cache::new(model.shape(), 40),
            Cache::tiered(model.shape(), 40, LANES[lanes], Storage::default()),
        ];
        for (t, token) in (0u32..).zip(&text) {
            let mut items = Item::of(0, &[*token], Detail::Heads);
            items.extend(Item::of(1, &[*token], Detail::Heads));
            let step = model.step(&mut caches, &items).unwrap();
            let half = step.logits.len() / 2;
            prop_assert_eq!(bits(&step.logits[..half]), bits(&step.logits[half..]));
            prop_assert_eq!(&step.rows[0], &step.rows[1]);
            for lane in 0..caches[1].lanes() {
                let mut now: Vec<(u32, Tier)> = moves
                    .iter()
                    .filter(|m| m.1 % caches[1].lanes() == lane && m.0 % 40 == t && m.2 <= t)
                    .map(|m| (m.2, if m.3 { Tier::T1 } else { Tier::T0 }))
                    .collect();
                now.sort_unstable();
                now.dedup_by_key(|m| m.0);
                caches[1].shift(lane, &now);
            }
        }
    }
}

#[test]
fn what_is_destroyed_is_as_if_masked() {
    let tiny = Tiny::new("qwen2", false, 5);
    let model = model(&tiny);
    let text = tokens(14);
    for lanes in LANES {
        // After step 6, lane l loses positions 1 + l and 3; after step 9 position 6, from T1.
        let gone = |layer: usize, kv: usize, query: usize, key: usize| {
            let lane = match lanes {
                Lanes::Sequence => 0,
                Lanes::Layer => layer,
                Lanes::KvHead => layer * KV + kv,
            };
            (query > 6 && (key == 3 || key == 1 + lane)) || (query > 9 && key == 6)
        };
        let mut caches = [Cache::tiered(model.shape(), 14, lanes, Storage::default())];
        for (t, token) in text.iter().enumerate() {
            let step = model
                .step(&mut caches, &Item::of(0, &[*token], Detail::Heads))
                .unwrap();
            let expected = plain_without(&tiny, &text[..=t], &gone);
            for (x, y) in step.logits.iter().zip(&expected.logits) {
                assert!(
                    (f64::from(*x) - y).abs() < 2e-4,
                    "{lanes:?}, step {t}: {x} {y}"
                );
            }
            let lanes_of_rows = step.rows[0].weights().chunks(t + 1);
            for (row, plain) in lanes_of_rows.zip(expected.attention.iter().flatten()) {
                for (x, y) in row.iter().zip(plain) {
                    assert!(
                        (f64::from(*x) - y).abs() < 1e-5,
                        "{lanes:?}, step {t}: {x} {y}"
                    );
                }
            }
            for lane in 0..caches[0].lanes() {
                let mut now = Vec::new();
                if t == 5 {
                    now = vec![(6 - 1, Tier::T1), (2, Tier::T1)];
                } else if t == 6 {
                    now = vec![(3, Tier::T3), (6, Tier::T1)];
                    if lane != 2 {
                        now.push((1 + u32::try_from(lane).unwrap(), Tier::T3));
                    }
                } else if t == 9 {
                    now = vec![(6, Tier::T3), (5, Tier::T0)];
                }
                caches[0].shift(lane, &now);
            }
        }
        let first = caches[0].key(0, 0, 3);
        assert!(first.iter().all(|x| x.is_nan()) && first.len() == DIM);
    }
}

#[test]
fn rows_of_groups_are_means_of_their_heads() {
    let model = model(&Tiny::new("llama", true, 9));
    let run = |detail| {
        let mut caches = [Cache::new(model.shape(), 8)];
        let step = model.step(&mut caches, &Item::of(0, &tokens(8), detail));
        step.unwrap().rows.pop().unwrap()
    };
    let (heads, groups) = (run(Detail::Heads), run(Detail::Groups));
    let group = HEADS / KV;
    assert_eq!(groups.weights().len(), LAYERS * KV * 8);
    for (lane, mean) in groups.weights().chunks(8).enumerate() {
        for (i, x) in mean.iter().enumerate() {
            let head = |h: usize| f64::from(heads.weights()[(lane * group + h) * 8 + i]);
            let expected = (0..group).map(head).sum::<f64>() / group as f64;
            assert!((f64::from(*x) - expected).abs() < 1e-6);
        }
    }
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-6);
    assert!(near(
        &groups.by(Detail::Layers),
        run(Detail::Layers).weights()
    ));
    assert!(near(&heads.by(Detail::Groups), groups.weights()));
    assert!(near(&groups.mean(), run(Detail::Mean).weights()));
}

/// Least and greatest of some numbers.
fn ends(x: impl Iterator<Item = f32>) -> (f32, f32) {
    x.fold((f32::MAX, f32::MIN), |(l, h), x| (l.min(x), h.max(x)))
}

#[test]
fn quantised_rows_are_within_half_a_step_of_their_group() {
    let model = model(&Tiny::new("qwen2", false, 3));
    for text in [
        "per-tensor-8",
        "per-tensor-4",
        "per-token-8",
        "per-token-4",
        "per-channel-8",
        "per-channel-4",
    ] {
        let quantiser = Quantiser::parse(text).unwrap();
        assert_eq!(quantiser.to_string(), text);
        let storage = Storage {
            quantiser,
            positions: Positions::Kept,
        };
        let mut caches = [Cache::tiered(model.shape(), 12, Lanes::Sequence, storage)];
        model
            .step(&mut caches, &Item::of(0, &tokens(12), Detail::None))
            .unwrap();
        let entering = [2usize, 5, 6, 9];
        let before = &caches[0].clone();
        let moves: Vec<(u32, Tier)> = entering
            .iter()
            .map(|p| (u32::try_from(*p).unwrap(), Tier::T2))
            .collect();
        caches[0].shift(0, &moves);
        let levels = f32::from(u8::try_from((1u32 << quantiser.bits) - 1).unwrap());
        let mut differ = 0;
        for layer in 0..LAYERS {
            for keys in [true, false] {
                let row = |c: &Cache, h: usize, p: usize| {
                    if keys {
                        c.key(layer, h, p)
                    } else {
                        c.value(layer, h, p)
                    }
                };
                for head in 0..KV {
                    for p in 0..12 {
                        let (old, new) = (row(before, head, p), row(&caches[0], head, p));
                        if !entering.contains(&p) {
                            assert_eq!(bits(&old), bits(&new));
                            continue;
                        }
                        for d in 0..DIM {
                            // The group, written out.
                            let (low, high) = match (quantiser.grouping, keys) {
                                (Grouping::Tensor, _) => ends((0..KV).flat_map(|h| {
                                    entering.iter().flat_map(move |p| row(before, h, *p))
                                })),
                                (Grouping::Channel, true) => {
                                    ends(entering.iter().map(|p| row(before, head, *p)[d]))
                                }
                                _ => ends(old.iter().copied()),
                            };
                            let step = (high - low) / levels;
                            assert!(
                                (old[d] - new[d]).abs() <= 0.5001 * step + 1e-6,
                                "{text}: {} {} {step}",
                                old[d],
                                new[d]
                            );
                            let code = (new[d] - low) / step;
                            assert!(
                                (code - code.round()).abs() < 1e-2,
                                "{text}: {code} is between codes"
                            );
                            differ += usize::from(old[d].to_bits() != new[d].to_bits());
                        }
                    }
                }
            }
        }
        assert!(
            differ > LAYERS * KV * DIM,
            "{text}: {differ} numbers changed"
        );
        // What comes back keeps what quantising made of it.
        let low: Vec<Vec<f32>> = entering.iter().map(|p| caches[0].key(1, 1, *p)).collect();
        let back: Vec<(u32, Tier)> = moves.iter().map(|m| (m.0, Tier::T0)).collect();
        caches[0].shift(0, &back);
        for (p, row) in entering.iter().zip(&low) {
            assert_eq!(bits(&caches[0].key(1, 1, *p)), bits(row));
        }
    }
    for text in ["", "per-token", "per-token-16", "per-row-8"] {
        assert!(Quantiser::parse(text).unwrap_err().contains("per-token-8"));
    }
    assert!(Positions::parse("new").unwrap_err().contains("restart"));
}

#[test]
fn restarted_positions_are_the_number_of_live_tokens() {
    let model = model(&Tiny::new("llama", true, 4));
    let storage = Storage {
        positions: Positions::Restart,
        ..Storage::default()
    };
    let text = tokens(10);
    let mut caches = [
        Cache::tiered(model.shape(), 10, Lanes::Sequence, storage),
        Cache::new(model.shape(), 10),
        Cache::new(model.shape(), 10),
    ];
    model
        .step(&mut caches, &Item::of(0, &text[..9], Detail::None))
        .unwrap();
    caches[0].shift(0, &[(2, Tier::T3), (4, Tier::T3), (5, Tier::T1)]);
    model
        .step(&mut caches, &Item::of(0, &text[9..], Detail::None))
        .unwrap();
    // A key of layer 0 depends on token and position alone: token 9 as if at position 7, and not at 9.
    let mut other = text[..7].to_vec();
    other.push(text[9]);
    model
        .step(&mut caches, &Item::of(1, &other, Detail::None))
        .unwrap();
    model
        .step(&mut caches, &Item::of(2, &text, Detail::None))
        .unwrap();
    let keys: Vec<Vec<u32>> = [(0, 9), (1, 7), (2, 9)]
        .iter()
        .map(|(c, p)| bits(&caches[*c].key(0, 1, *p)))
        .collect();
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
}

/// Every policy that destroys, in its own lanes: tokens left as its replay by length says; the cache holds just those.
#[test]
fn policies_keep_what_they_promise_in_a_real_cache() {
    let model = model(&Tiny::new("qwen2", true, 6));
    for (text, most) in [
        (
            "four-tier:hbm=0.5,evict=0.2,semantics=cumulative,window=8,interval=4,protect=sinks",
            60,
        ),
        ("stream-evict:budget=0.5,window=8,interval=4", 60),
        ("streaming-llm:sinks=2,window=10", 12),
        ("h2o:heavy=6,recent=6", 12),
        ("tova:budget=12", 12),
        ("r-kv:budget=12,window=4,interval=4", 16),
        ("snap-kv:budget=8,window=4", 60),
        ("raas:budget=24,page=4", 60),
        ("lru:budget=12", 60),
        ("random:budget=16,window=8", 60),
    ] {
        let spec = policy::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut caches = [Keeper::cache(&spec, model.shape(), 60, Storage::default())];
        let prompt = 12;
        let text_tokens = tokens(60);
        let window = kvplan::forward::window(&spec, prompt);
        let seen = model
            .prompt(&mut caches, &text_tokens[..prompt], window, &mut |_| {})
            .unwrap();
        assert_eq!(seen.queries.len(), window, "{text}");
        let mut keeper =
            Keeper::new(&spec, model.shape(), &caches[0], &seen.sums, &seen.queries).unwrap();
        for token in &text_tokens[prompt..] {
            let item = Item {
                detail: keeper.detail(),
                queries: keeper.queries(),
                ..Item::new(0, *token)
            };
            let step = model.step(&mut caches, &[item]).unwrap();
            assert!(step.logits.iter().all(|l| l.is_finite()), "{text}");
            keeper
                .after(&mut caches[0], &step.rows[0], &step.queries[0], None)
                .unwrap();
        }
        let cache = &caches[0];
        let live = |layer, head| {
            (0..60)
                .filter(|p| !cache.key(layer, head, *p)[0].is_nan())
                .count()
        };
        let lives: Vec<usize> = (0..LAYERS * KV).map(|l| live(l / KV, l % KV)).collect();
        let timeline = keeper.finish();
        assert_eq!(timeline.steps, 48, "{text}");
        // An interval says how many there are at its first step; every step after that brings one more.
        let last = timeline.intervals.last().unwrap();
        let since = f64::from(47u32.saturating_sub(last.first_step));
        let tokens = last.tokens[..3].iter().sum::<f64>() + since;
        let mean = lives.iter().sum::<usize>() as f64 / lives.len() as f64;
        assert!(
            (mean - tokens).abs() < 1e-9,
            "{text}: {mean} in the cache, {tokens} booked"
        );
        assert!(lives.iter().all(|l| *l <= most), "{text}: {lives:?}");
        assert!(mean < 60.0, "{text} destroyed nothing");
    }
    let oracle = policy::parse("oracle:hbm=0.5").unwrap();
    assert!(
        kvplan::forward::check(&oracle)
            .unwrap_err()
            .to_string()
            .contains("reads the future")
    );
}
