//! `direct`, `selective`, split host attention, the price of attention weights and homes of T1: steps by hand and laws.

use kvplan::engine::{Burst, StepTimes, Stepper};
use kvplan::memory::Held;
use kvplan::metrics::Outcome;
use kvplan::plan::{plan, simulate};
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Scenario, Settings, Verb, resolve};
use kvplan::service::Prepared;
use kvplan::timeline::Fetch;
use kvplan::units::Ps;
use proptest::prelude::*;
use proptest::sample::select;

use crate::engine_support::{World, scenario, try_scenario};
use crate::laws::flags;

/// The third step of so many tokens, when the pipeline is warm.
fn step(p: &Prepared, held: &Held, m: u32) -> StepTimes {
    let mut stepper = Stepper::new(p);
    let mut begin = Ps::ZERO;
    let mut last = StepTimes::default();
    for _ in 0..3 {
        last = stepper.step(begin, m, held, &Burst::default(), 0.0);
        begin = last.end;
    }
    last
}

fn held(m: f64, t0: f64, t1: f64, t2: f64) -> Held {
    Held {
        sequences: m,
        tiers: [t0, t1, t2],
        ..Held::default()
    }
}

fn world(words: &str) -> World {
    World::of(&scenario(&format!("model llama-3.1-8b weights bf16 {words}")).deployment)
}

#[track_caller]
fn close(got: f64, by_hand: f64) {
    assert!(
        (got / by_hand - 1.0).abs() < 1e-6,
        "{got}, by hand {by_hand}"
    );
}

fn wall(t: &StepTimes) -> f64 {
    (t.end - t.begin).secs()
}

#[test]
fn direct_waits_inside_attention_for_the_slower_of_hbm_and_link() {
    // Llama-3.1-8B: 32 layers, 4,096 B a token and layer. 10,000 tokens in T0: 40.96 MB at the share of attention. 100,000 in
    // T1: 409.6 MB at 0.64 x 55 GB/s over PCIe.
    let w = world("hardware h100-sxm t1 direct");
    let share = w
        .prepared
        .deployment
        .hardware
        .gpu
        .kernels
        .attention
        .share
        .get();
    let t0 = 10_000.0 * 4096.0 / (share * 3350e9);
    let t1 = 100_000.0 * 4096.0 / (0.64 * 55e9);
    let near = step(&w.prepared, &held(4.0, 10_000.0, 0.0, 0.0), 4);
    let far = step(&w.prepared, &held(4.0, 10_000.0, 100_000.0, 0.0), 4);
    close(far.exposed_in_place.secs(), 32.0 * (t1 - t0));
    close(wall(&far) - wall(&near), 32.0 * (t1 - t0));
    close(far.h2d_bytes, 32.0 * 409.6e6);
    close(far.h2d_busy.secs(), 32.0 * t1);
    assert_eq!(far.exposed, Ps::ZERO);
    // A little of it hides behind T0: 100 tokens take 11.6 us over the link, T0 12.9 us.
    let hidden = step(&w.prepared, &held(4.0, 10_000.0, 100.0, 0.0), 4);
    assert_eq!(hidden.end - hidden.begin, near.end - near.begin);
    // T2 at its own bytes: 2 x 8 x 130 a layer.
    let t2 = step(&w.prepared, &held(4.0, 10_000.0, 0.0, 100_000.0), 4);
    close(t2.h2d_bytes, 32.0 * 2080.0 * 100_000.0);
    // Over C2C: 0.99 x 337 GB/s.
    let w = world("hardware gh200 t1 direct");
    let far = step(&w.prepared, &held(4.0, 0.0, 100_000.0, 0.0), 4);
    close(far.exposed_in_place.secs(), 32.0 * 409.6e6 / (0.99 * 337e9));
    assert!(w.ledger.staging(100_000.0, 0.0) < 1e-9);
}

#[test]
fn selective_streams_what_is_fresh_and_keeps_what_is_fetched() {
    let w = world("hardware h100-sxm t1 selective:top-k=100");
    let fetch = Fetch {
        fetched: [300.0, 100.0],
        fresh: [30.0, 10.0],
        fresh_runs: 20.0,
        ..Fetch::default()
    };
    let all = Held {
        fetch,
        ..held(4.0, 10_000.0, 50_000.0, 9000.0)
    };
    let t = step(&w.prepared, &all, 4);
    close(t.h2d_bytes, 32.0 * (30.0 * 4096.0 + 10.0 * 2080.0));
    // 400 tokens of all layers at full size.
    close(w.ledger.instant(&all, false).staging, 400.0 * 131_072.0);
    // Attention: T0 and 400 tokens read; 30 written; 10 written and read at 2,080 B, then written at 4,096 B.
    let bytes = 4096.0 * (10_400.0 + 30.0 + 10.0) + 2.0 * 2080.0 * 10.0;
    close(
        t.attention_s,
        32.0 * w.prepared.attention(&w.prepared.classes[0], 4.0, bytes),
    );
    // Nothing fresh: no transfer.
    let same = Held {
        fetch: Fetch {
            fresh: [0.0; 2],
            fresh_runs: 0.0,
            ..fetch
        },
        ..all
    };
    let t = step(&w.prepared, &same, 4);
    assert!(t.h2d_bytes < 1e-9 && t.exposed == Ps::ZERO);
}

#[test]
fn t2_takes_part_at_its_own_bytes_on_the_host() {
    let w = world("hardware h100-sxm t1 host-attention");
    let read = |t1: f64, t2: f64| {
        let class = &w.prepared.classes[0];
        let bytes = class.kv_token * t1 + class.t2_token * t2;
        w.prepared.host_attention(class, 4.0, bytes, t1 + t2)
    };
    let t = step(&w.prepared, &held(4.0, 1.0, 0.0, 200_000.0), 4);
    // DDR 230 GB/s: 416 MB a layer at 8 bit and not 819.
    close(t.t1_bytes, 32.0 * 2080.0 * 200_000.0);
    assert!(read(0.0, 200_000.0) < 0.6 * read(200_000.0, 0.0));
}

#[test]
fn attention_weights_cost_a_pass_over_keys_or_the_traffic_of_unfused_attention() {
    // 32 query heads, 8 KV heads of 128: K is 2,048 of 4,096 B; eager moves 32 x 16 = 512 B a token.
    let plain = world("hardware h100-sxm");
    let gpu = &plain.prepared.deployment.hardware.gpu;
    let law = &gpu.kernels.attention;
    let slope = 1.0 / (law.share.get() * gpu.hbm_bandwidth.get());
    // A floor, more splits for 25,000 tokens a sequence, a block for each of 4 x 8 sequences and KV heads.
    let floor = law.fixed.get()
        + law.split.get() * (7.0 + (1.0 + 25_000.0 / 128.0) / 128.0 - 1.0)
        + law.pair.get() * 32.0;
    let near = held(4.0, 100_000.0, 0.0, 0.0);
    let attention = |w: &World, scores: bool| {
        let p = if scores {
            w.prepared.clone().with_scores()
        } else {
            w.prepared.clone()
        };
        step(&p, &near, 4).attention_s
    };
    let line = |kernels: f64, bytes: f64| 32.0 * (kernels * floor + bytes * 100_000.0 * slope);
    close(attention(&plain, true), line(1.0, 4096.0));
    let again = world("hardware h100-sxm score-cost recompute");
    close(attention(&again, true), line(2.0, 6144.0));
    close(attention(&again, false), line(1.0, 4096.0));
    let eager = world("hardware h100-sxm score-cost eager");
    close(attention(&eager, true), line(4.0, 4608.0));
    // Read in place, K comes over the link again.
    let w = world("hardware gh200 t1 direct score-cost recompute");
    let p = w.prepared.clone().with_scores();
    close(
        step(&p, &held(4.0, 0.0, 1e5, 0.0), 4).h2d_bytes,
        1.5 * 32.0 * 409.6e6,
    );
}

#[test]
fn a_split_batch_reads_weights_twice_and_works_on_both_sides_at_once() {
    let (one, two) = (
        world("hardware h100-sxm t1 host-attention"),
        world("hardware h100-sxm t1 host-attention split 2"),
    );
    let all = held(8.0, 8000.0, 400_000.0, 0.0);
    let (whole, halves) = (step(&one.prepared, &all, 8), step(&two.prepared, &all, 8));
    // Host bound: 32 layers x 400,000 x 4,096 B / 230 GB/s = 228 ms; it never rests once it began, so that a step is that,
    // the vectors there and back, and one half's first layer and the head: under 3 ms.
    let host = 32.0 * 400_000.0 * 4096.0 / 230e9;
    assert!(
        wall(&halves) > host && wall(&halves) < host + 3e-3,
        "{}",
        wall(&halves)
    );
    assert!(wall(&whole) > wall(&halves) + 2e-3);
    // Hardly any T1: both halves read all weights, and nothing is gained.
    let little = held(8.0, 8000.0, 8.0, 0.0);
    let (whole, halves) = (
        step(&one.prepared, &little, 8),
        step(&two.prepared, &little, 8),
    );
    assert!(
        wall(&halves) > 1.6 * wall(&whole),
        "{} {}",
        wall(&halves),
        wall(&whole)
    );
    let mut stepper = Stepper::new(&two.prepared);
    stepper.step(Ps::ZERO, 8, &all, &Burst::default(), 0.0);
    let (four, eight) = (two.prepared.batch(4), two.prepared.batch(8));
    close(
        stepper.cost().totals[0],
        2.0 * (four.totals[0] - four.head) + eight.head,
    );
    // One sequence has no halves; neither has a step without T1.
    let single = held(1.0, 1000.0, 50_000.0, 0.0);
    assert_eq!(
        step(&two.prepared, &single, 1).end,
        step(&one.prepared, &single, 1).end
    );
}

fn simulated(words: &str) -> Outcome {
    simulate(&scenario(words)).unwrap()
}

#[test]
fn an_infinite_link_makes_direct_as_fast_as_t0_alone() {
    let mut s = scenario(
        "model llama-3.1-8b weights int8 prompt 200 output 300 t1 direct policy four-tier:hbm=0.2",
    );
    let h = std::sync::Arc::make_mut(&mut s.deployment.hardware);
    h.link.h2d = h.link.h2d.scaled(f64::INFINITY);
    h.host.ddr_read = h.host.ddr_read.scaled(f64::INFINITY);
    h.link.call = h.link.call.scaled(0.0);
    let out = simulate(&s).unwrap();
    let speed = out.throughput.output_tokens_per_s.unwrap();
    assert!(out.step.exposed_transfer_s < 1e-12);
    assert!(speed > out.throughput.full_cache_output_tokens_per_s.unwrap() * 0.95);
}

#[test]
fn no_t1_is_the_full_cache_in_every_mode() {
    for t1 in ["direct", "selective:top-k=7", "host-attention split 2"] {
        let words =
            format!("model llama-3.1-8b hardware h200-sxm prompt 100 output 200 batch 3 t1 {t1}");
        let out = simulated(&words);
        let t = &out.throughput;
        assert_eq!(
            t.output_tokens_per_s, t.full_cache_output_tokens_per_s,
            "{t1}"
        );
        assert!(out.fetched.tokens_mean.is_none() && out.quality.residual_mass_max.is_none());
    }
}

#[test]
fn a_small_selection_is_never_called_exact() {
    let words =
        "model llama-3.1-8b weights int8 prompt 100 output 900 batch 4 policy four-tier:hbm=0.1 t1";
    let picked = |text: &str| {
        let mut s = scenario(&format!("{words} {text}"));
        s.trace = kvplan::scenario::TraceRef::Embedded;
        simulate(&s).unwrap()
    };
    let out = picked("selective:top-k=32,predict=last-row");
    let q = &out.quality;
    let fetched = &out.fetched;
    assert_eq!(out.t1_mode, "selective:top-k=32,predict=last-row");
    assert!(q.residual_mass_max.unwrap() > 0.0 && q.lost_mass_mean == q.residual_mass_mean);
    assert_eq!(q.output_error_bound, q.lost_mass_max.map(|m| 2.0 * m));
    assert!(
        fetched.tokens_max.unwrap() <= 32.0
            && fetched.fresh_mean.unwrap() < fetched.tokens_mean.unwrap()
    );
    assert!(out.notes.iter().any(|n| n.contains("not exact")));
    assert!(out.notes.iter().any(|n| n.contains("optimistic")));
    let page = kvplan::report::table::outcome(&out, kvplan::report::Style { color: false });
    assert!(
        page.contains("Not exact") && !page.contains("T1 is exact"),
        "{page}"
    );
    // Exact modes have no residual.
    let stream = picked("stream");
    assert!(stream.fetched.tokens_mean.is_none() && stream.quality.residual_mass_max.is_none());
    let all = picked("selective:top-k=1000000");
    assert_eq!(all.quality.residual_mass_max, Some(0.0));
}

#[test]
fn top_p_needs_a_trace_and_a_budget_known_beforehand() {
    let asked = |words: &[(&str, &str)]| {
        let flags: Vec<(&str, String)> =
            words.iter().map(|(k, v)| (*k, (*v).to_string())).collect();
        try_scenario(&flags)
    };
    let top_p = ("t1", "selective:top-p=0.9");
    let half = ("policy", "four-tier:hbm=0.5");
    let e = asked(&[top_p, half, ("trace", "none")]).unwrap_err();
    assert!(e.message.contains("lengths alone") && e.help.unwrap().contains("top-k"));
    let e = asked(&[top_p]).unwrap_err();
    assert!(e.message.contains("hbm=fit") && e.help.unwrap().contains("hbm=0.5"));
    assert!(asked(&[top_p, half]).is_ok());
}

#[test]
fn plan_shows_direct_where_the_link_is_coherent_and_selective_only_when_asked() {
    let names = |flags: &[(&str, &str)]| {
        let mut settings = Settings::defaults(Verb::Plan);
        for (name, text) in [("hardware", "h100-sxm,gh200"), ("output", "4000")]
            .iter()
            .chain(flags)
        {
            settings
                .set(name, &[(*text).to_string()], Origin::Flag)
                .unwrap();
        }
        let answer = plan(&resolve::question(&settings).unwrap()).unwrap();
        let row = |i: usize| -> Vec<String> {
            answer.rows[i]
                .alternatives
                .iter()
                .map(|a| a.name.clone())
                .collect()
        };
        let best: Vec<Option<String>> =
            answer.rows.iter().map(|r| r.verdict.best.clone()).collect();
        (row(0), row(1), best, answer.notes)
    };
    let has = |list: &[String], name: &str| list.iter().any(|n| n == name);
    let (h100, gh200, _, _) = names(&[]);
    assert!(!has(&h100, "direct") && has(&gh200, "direct"));
    assert!(!has(&h100, "selective") && !has(&gh200, "selective"));
    let (h100, _, best, notes) = names(&[("t1", "selective:top-k=64"), ("batch", "32")]);
    assert!(has(&h100, "selective") && notes.iter().any(|n| n.contains("not exact")));
    assert!(
        best.iter().all(|b| b.as_deref() != Some("selective")),
        "{best:?}"
    );
    // The other modes are what they are without it.
    let streamed = |t1: &str| {
        let mut settings = Settings::defaults(Verb::Plan);
        for (name, text) in [("hardware", "h100-sxm"), ("output", "4000"), ("t1", t1)] {
            settings
                .set(name, &[text.to_string()], Origin::Flag)
                .unwrap();
        }
        let answer = plan(&resolve::question(&settings).unwrap()).unwrap();
        let all = &answer.rows[0].alternatives;
        let way = all.iter().find(|a| a.name == "stream").unwrap();
        way.outcome.throughput.output_tokens_per_s
    };
    for t1 in ["direct", "selective:top-k=64", "host-attention"] {
        assert_eq!(streamed(t1), streamed("stream"), "{t1}");
    }
    let (h100, _, _, _) = names(&[("t1", "direct")]);
    assert!(has(&h100, "direct"));
}

fn at_home(words: &str) -> Scenario {
    scenario(&format!(
        "model llama-3.1-8b weights bf16 prompt 100 output 600 policy four-tier:hbm=0.1 {words}"
    ))
}

#[test]
fn a_home_takes_the_links_place() {
    let rates = |words: &str| {
        let s = at_home(words);
        let p = Prepared::new(&s.deployment);
        let pinned = s.deployment.hardware.host.pinned_limit.get();
        (
            p.h2d_rate / 1e9,
            p.d2h_rate / 1e9,
            p.in_place_rate / 1e9,
            pinned / f64::from(1 << 30),
        )
    };
    // A peer of its own for each GPU: neither rate nor room is shared.
    assert_eq!(
        rates("hardware h100-sxm home peer"),
        (382.0, 382.0, 382.0 * 0.9, 75.0)
    );
    assert_eq!(
        rates("hardware h100-sxm home peer gpus 4"),
        (382.0, 382.0, 382.0 * 0.9, 300.0)
    );
    // One module for all.
    assert_eq!(
        rates("hardware h100-sxm home cxl gpus 4"),
        (6.5, 6.5, 6.5, 256.0)
    );
    let (ddr, peer) = (
        simulate(&at_home("hardware h100-sxm")).unwrap(),
        simulate(&at_home("hardware h100-sxm home peer")).unwrap(),
    );
    let speed = |o: &Outcome| o.throughput.output_tokens_per_s.unwrap();
    assert!(speed(&peer) > speed(&ddr));
    assert!(peer.assumptions.iter().any(|a| a.name == "homes.peer.read"));
    assert!(
        !peer
            .assumptions
            .iter()
            .any(|a| a.name == "link.h2d" || a.name == "host.ddr_read")
    );
    assert!(peer.notes.iter().any(|n| n.contains("idle peer")));
    for (flags, part) in [
        ([("home", "moon"), ("hardware", "h100-sxm")], "has no home"),
        ([("home", "peer"), ("hardware", "gh200")], "has no home"),
        (
            [("home", "peer"), ("t1", "host-attention")],
            "cores do not read",
        ),
        ([("home", "cxl"), ("policy", "full")], "nothing moves"),
    ] {
        let e = try_scenario(&flags.map(|(k, v)| (k, v.to_string()))).unwrap_err();
        assert!(
            e.message.contains(part) && e.help.is_some(),
            "{flags:?}: {e}"
        );
    }
}

#[test]
fn a_desktops_two_channels_and_its_link_are_one_bottleneck() {
    let out = simulate(&scenario(
        "model llama-3.1-8b weights int4 hardware rtx-5090 batch 8 prompt 500 output 3000 policy four-tier:hbm=0.1",
    ))
    .unwrap();
    assert!(
        out.fits && out.bound_by.contains("one bottleneck"),
        "{}",
        out.bound_by
    );
    assert!(
        out.notes
            .iter()
            .any(|n| n.contains("two memory channels read 62") && n.contains("one bottleneck"))
    );
}

#[test]
fn kv_heads_replicate_once_they_are_fewer_than_gpus() {
    // Llama-3-70B has 8 KV heads: with 16 GPUs each holds one, twice over.
    let token = |gpus: u32| {
        World::of(&scenario(&format!("model llama-3.1-70b gpus {gpus}")).deployment)
            .ledger
            .kv_token
    };
    assert!((token(8) - token(1)).abs() < 1e-6 && (token(16) - 2.0 * token(1)).abs() < 1e-6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn audited_runs_of_the_new_modes_break_no_law(
        flags in flags(),
        t1 in select(vec!["direct", "selective:top-k=1", "selective:top-k=40", "selective:top-k=1000", "host-attention"]),
        cost in select(vec!["fused", "recompute", "eager"]),
        split in select(vec!["1", "2"]),
    ) {
        let dropped = ["depth", "t1"];
        let mut flags: Vec<_> = flags.into_iter().filter(|(k, _)| !dropped.contains(k)).collect();
        flags.extend([("t1", t1.to_string()), ("score-cost", cost.into())]);
        if t1 == "host-attention" {
            flags.push(("split", split.into()));
        }
        let refused = |e: kvplan::error::Error| {
            assert_eq!(e.cause, kvplan::error::Cause::Usage, "{flags:?}: {e:?}");
        };
        let Ok(s) = try_scenario(&flags).map_err(refused) else { return Ok(()) };
        let Ok(out) = simulate(&s).map_err(refused) else { return Ok(()) };
        let m = &out.memory;
        let parts = m.weights_bytes + m.kv_t0_bytes + m.staging_bytes + m.activation_bytes + m.reserve_bytes;
        prop_assert_eq!(parts, m.hbm_peak_bytes);
        if let Some(most) = out.fetched.tokens_max {
            let k: f64 = t1.rsplit('=').next().unwrap().parse().unwrap();
            prop_assert!(most <= k + 1e-9, "{} of {}", most, k);
        }
        prop_assert!(out.traffic.h2d_busy_share <= 1.0 + 1e-9);
    }
}

#[test]
fn both_fidelities_agree_on_the_new_modes() {
    for t1 in ["direct", "selective:top-k=64", "selective:top-k=100000"] {
        for card in ["h100-sxm", "gh200"] {
            let speed = |fidelity: &str| {
                let words = format!(
                    "model llama-3.1-8b weights int8 hardware {card} prompt 100 output 500 batch 4 t1 {t1} \
                     fidelity {fidelity} policy four-tier:hbm=0.1,interval=16,window=16"
                );
                simulated(&words).throughput.output_tokens_per_s.unwrap()
            };
            let (step, layer) = (speed("step"), speed("layer"));
            assert!(
                (step / layer - 1.0).abs() < 0.02,
                "{card} {t1}: {step} {layer}"
            );
        }
    }
}
