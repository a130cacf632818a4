//! Figures other than how-far: their series against hand arithmetic and laws, their words on the canvas, the gallery.

use std::fs;
use std::path::Path;

use kvplan::plan::figures::attention::{ACROSS, DOWN, attention};
use kvplan::plan::figures::layers::{TRACKS, layers};
use kvplan::plan::figures::price::{LINKS, price};
use kvplan::plan::figures::savings::{BATCHES, CONTEXTS, MODELS, savings};
use kvplan::plan::figures::steps::steps;
use kvplan::plan::figures::tiers::tiers;
use kvplan::plan::figures::tornado::{Bar, tornado};
use kvplan::report::plot;
use kvplan::report::plot::face::Face;
use kvplan::report::plot::scene::Scene;
use kvplan::scenario::{Scenario, resolve};
use kvplan::sweep::figure::{POLICIES, equals};

use crate::engine_support::settings;

const GIB: f64 = 1_073_741_824.0;

fn scenario(words: &str) -> Scenario {
    resolve::scenario(&settings(words)).unwrap()
}

/// Every word lies on the canvas, no word on another, every number is finite.
fn is_legible(scene: &Scene) {
    let face = Face::embedded().unwrap();
    let (width, height) = (f64::from(scene.size.0), f64::from(scene.size.1));
    let boxes: Vec<_> = scene.words.iter().map(|w| (w, w.bounds(&face))).collect();
    for (w, b) in &boxes {
        let on = b.left >= 0.0 && b.right <= width && b.top >= 0.0 && b.bottom <= height;
        assert!(on, "`{}` leaves the canvas: {b:?}", w.text);
    }
    for (i, (w, a)) in boxes.iter().enumerate() {
        for (v, b) in &boxes[..i] {
            let apart = a.right <= b.left
                || b.right <= a.left
                || a.bottom <= b.top + 2.0
                || b.bottom <= a.top + 2.0;
            assert!(
                apart || w.text.is_empty() || v.text.is_empty(),
                "`{}` lies on `{}`",
                w.text,
                v.text
            );
        }
    }
    let svg = String::from_utf8(plot::canvas::draw(scene, plot::Image::Svg).unwrap()).unwrap();
    assert!(!svg.contains("NaN") && !svg.contains("inf,") && !svg.contains("-inf"));
}

#[test]
fn savings_by_hand() {
    let s = savings(&scenario("policy four-tier:hbm=0.5 t1 host-attention")).unwrap();
    assert_eq!(s.panels.len(), BATCHES.len());
    // 70B, batch 8, 32,768 tokens: 80 GiB. Unprotected: 32,768 - 1,024 - 4 - 128 = 31,612, of which half, 15,806, goes down
    // at the last of 496 decisions, at 31,744 steps. No staging; a spare page of 16 a request: 15,790 x 8 x 327,680 B.
    let last = s.panels[1][MODELS.len() * CONTEXTS.len() - 1];
    assert!((last.full as f64 / GIB - 80.0).abs() < 1e-9);
    let moved = 15_790.0 * 8.0 * 327_680.0;
    assert!(
        (last.moved as f64 / moved - 1.0).abs() < 0.006,
        "{} {moved}",
        last.moved
    );
    assert_eq!(last.destroyed, 0);
    // Eight times the batch saves eight times as much.
    for (one, eight) in s.panels[0].iter().zip(&s.panels[1]) {
        assert!((8.0 * one.moved as f64 / eight.moved as f64 - 1.0).abs() < 1e-6);
    }
    is_legible(&plot::savings::scene(&s).unwrap());
    let s = savings(&scenario(
        "policy four-tier:hbm=0.5,evict=0.1,semantics=cumulative",
    ))
    .unwrap();
    assert!(
        s.panels
            .iter()
            .flatten()
            .all(|c| c.destroyed > 0 && c.moved + c.destroyed < c.full)
    );
    is_legible(&plot::savings::scene(&s).unwrap());
}

#[test]
fn a_faster_link_costs_less_for_the_same_gib() {
    let p = price(&scenario("weights int4 output 31744")).unwrap();
    assert_eq!(p.lines.len(), LINKS.len());
    for pair in p.lines.windows(2) {
        for (slow, fast) in pair[0].iter().zip(&pair[1]) {
            assert_eq!(slow.in_hbm, fast.in_hbm);
            assert!(fast.kept >= slow.kept && fast.saved.to_bits() == slow.saved.to_bits());
        }
    }
    for line in &p.lines {
        assert!(
            line.windows(2)
                .all(|w| w[1].kept <= w[0].kept && w[1].saved >= w[0].saved)
        );
        assert!(
            (line[0].kept - 1.0).abs() < 1e-9,
            "all in HBM is the full cache"
        );
    }
    // 48 GiB a step; a step reads 35.3 GB of int4 weights and 46 GB of KV at the mean length, some 28 ms.
    let link = p.published.unwrap().link;
    assert!((1.4e12..2.4e12).contains(&link), "{link}");
    is_legible(&plot::price::scene(&p).unwrap());
    // An 8B cannot save 48 GiB at this batch: no point, and the caption says so.
    let p = price(&scenario("model llama-3.1-8b batch 2")).unwrap();
    assert!(
        p.published.is_none()
            && p.words
                .caption
                .contains("more than this deployment can save")
    );
    is_legible(&plot::price::scene(&p).unwrap());
}

#[test]
fn tiers_add_up_at_every_point() {
    for words in [
        "policy four-tier:hbm=0.3,evict=0.03,semantics=cumulative",
        "policy four-tier:hbm=0.3,t2=0.3 trace none",
        "policy streaming-llm:window=64 prompt 128 output 900",
    ] {
        let t = tiers(&scenario(words)).unwrap();
        let prompt = if words.contains("prompt") {
            128.0
        } else {
            1024.0
        };
        for (step, tokens) in t.steps.iter().zip(&t.tokens) {
            let all = prompt + f64::from(*step) + 1.0;
            assert!((tokens.iter().sum::<f64>() - all).abs() < 1e-6 * all);
        }
        assert_eq!(t.destroyed_mass.is_empty(), words.contains("none"));
        is_legible(&plot::tiers::scene(&t).unwrap());
    }
}

#[test]
fn parts_of_a_step_add_up_to_its_time() {
    let s = scenario("hardware h100-sxm");
    let found = steps(&s).unwrap();
    let outcome = kvplan::plan::simulate(&s).unwrap();
    let stream = found.ways.iter().find(|w| w.name == "stream").unwrap();
    let sum: f64 = stream.parts.iter().sum();
    let tpot = outcome.throughput.tpot_mean_s.unwrap();
    assert!((sum / tpot - 1.0).abs() < 1e-3, "{sum} {tpot}");
    assert!(!found.ways[0].fits && stream.fits);
    is_legible(&plot::steps::scene(&found).unwrap());
}

/// On a link: what moves the link moves a spill, and a slower server is slower whatever else.
#[test]
fn a_tornado_is_widest_first_about_the_best_estimate() {
    for words in [
        "hardware gh200",
        "hardware h200-sxm gpus 2",
        "hardware rtx-pro-6000 t1 host-attention",
    ] {
        let s = scenario(words);
        let t = tornado(&s).unwrap();
        let said = kvplan::plan::simulate(&s).unwrap();
        let said = said.throughput.output_tokens_per_s.unwrap();
        assert!((t.value / said - 1.0).abs() < 0.01, "{} {said}", t.value);
        let width = |b: &Bar| (b.ends[1] - b.ends[0]).abs();
        assert!(t.bars.len() > 4 && t.bars.windows(2).all(|w| width(&w[0]) >= width(&w[1])));
        assert!(t.all[0] < t.value && t.value < t.all[1]);
        let bar = |name: &str| t.bars.iter().find(|b| b.cause == name);
        let served = bar("runtime.served").unwrap();
        assert!(served.ends[0] > t.value && served.ends[1] < t.value);
        // What everything in HBM never touches moves nothing; host memory is behind a fast link too.
        let spills = !words.contains("h200-sxm");
        assert_eq!(
            bar("link").is_some() || bar("host.ddr_read").is_some(),
            spills,
            "{words}"
        );
        assert!(!words.contains("host-attention") || bar("host.attention_flops").is_some());
        is_legible(&plot::tornado::scene(&t).unwrap());
    }
    let none = tornado(&scenario("hardware h100-sxm policy full")).unwrap_err();
    assert!(none.message.contains("does not fit"), "{}", none.message);
}

#[test]
fn policies_are_equal_where_the_figure_says_so() {
    let e = equals(&settings("model llama-3.1-8b trace smol_1_t9_s5")).unwrap();
    assert_eq!(e.rows.len(), POLICIES.len());
    assert!(e.rows.iter().all(|r| r.refused.is_none()), "{:?}", e.rows);
    assert!(e.rows[0].solved.is_none() && e.rows[1..].iter().all(|r| r.solved.is_some()));
    assert_eq!(
        e.rows[0].mass,
        Some((0.0, 0.0)),
        "nothing is destroyed in the reference"
    );
    assert!(e.words.caption.contains("NOT rank") && e.words.caption.contains("n = 1"));
    is_legible(&plot::equal::scene(&e).unwrap());
}

#[test]
fn a_recording_is_shown_with_the_tier_of_each_bin() {
    let words = "trace smol_1_t9_s5 prompt 128 output 1000 policy four-tier:hbm=0.3,evict=0.25,semantics=cumulative";
    let a = attention(&scenario(words)).unwrap();
    assert_eq!((a.prompt, a.rows, a.bins.len()), (128, 1000, DOWN));
    let all: Vec<_> = a.bins.iter().flatten().flatten().collect();
    // Half of the steps times positions lie over the diagonal: 128 + t of 1,128 are attended to in row t, 55.7 % in the mean.
    let share = all.len() as f64 / (DOWN * ACROSS) as f64;
    assert!((0.55..0.59).contains(&share), "{share}");
    for tier in [0, 1, 3] {
        assert!(all.iter().any(|b| b.tier == tier), "T{tier} is somewhere");
    }
    // The prompt is protected, so its bins are in HBM in every row; so are the latest 128 tokens.
    let prompt = ACROSS * 128 / 1128;
    for row in &a.bins {
        assert!(row[..prompt].iter().flatten().all(|b| b.tier == 0));
        assert_eq!(row.iter().flatten().last().unwrap().tier, 0);
    }
    // Rows sum to 1. A bin holds 1,128 / 72 positions of a row, the latest bins fewer: counted as full they make more than 1,
    // left out they make less.
    let row: Vec<f64> = a.bins[DOWN - 1]
        .iter()
        .flatten()
        .map(|b| b.weight * 1128.0 / ACROSS as f64)
        .collect();
    let (early, all): (f64, f64) = (row[..ACROSS - 3].iter().sum(), row.iter().sum());
    assert!(early < 1.0 && all > 1.0 && early > 0.4, "{early} {all}");
    is_legible(&plot::attention::scene(&a).unwrap());
    assert!(attention(&scenario("trace none")).is_err());
}

#[test]
fn layers_take_turns_on_each_resource() {
    for words in [
        "hardware gh200 output 2000",
        "hardware h100-sxm output 4000 t1 host-attention",
        "hardware h200-sxm output 500",
    ] {
        let l = layers(&scenario(words)).unwrap();
        assert!(l.until > 0.0);
        for track in 0..TRACKS.len() {
            let uses: Vec<_> = l.uses.iter().filter(|u| u.track == track).collect();
            assert!(
                uses.windows(2).all(|w| w[1].span.0 >= w[0].span.1 - 1e-12),
                "{words}: track {track} overlaps"
            );
        }
        let computes: Vec<u32> = l
            .uses
            .iter()
            .filter(|u| u.track == 0)
            .filter_map(|u| u.layer)
            .collect();
        let mut once = computes.clone();
        once.dedup();
        assert_eq!(
            once[..8.min(once.len())],
            (0..8).collect::<Vec<u32>>()[..8.min(once.len())],
            "{words}: {computes:?}"
        );
        is_legible(&plot::layers::scene(&l).unwrap());
    }
}

/// `reports/gallery` holds what its script makes now, to the byte, and nothing else.
#[test]
fn the_gallery_is_up_to_date() {
    let gallery = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/gallery");
    let folder = tempfile::tempdir().unwrap();
    let status = std::process::Command::new("bash")
        .arg(gallery.join("make.sh"))
        .arg(folder.path())
        .env("KVPLAN", env!("CARGO_BIN_EXE_kvplan"))
        .status()
        .unwrap();
    assert!(status.success());
    let names = |folder: &Path| -> Vec<String> {
        let files = fs::read_dir(folder)
            .unwrap()
            .map(|f| f.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = files.filter(|n| n != "make.sh").collect();
        names.sort();
        names
    };
    assert_eq!(names(folder.path()), names(&gallery));
    for name in names(&gallery) {
        assert!(
            fs::read(folder.path().join(&name)).unwrap() == fs::read(gallery.join(&name)).unwrap(),
            "reports/gallery/{name} is stale; look at the new one: KVPLAN=target/release/kvplan reports/gallery/make.sh"
        );
    }
}
