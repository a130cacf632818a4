//! Every policy over a shipped trace: counts exact, lost mass to 1e-9. The lines were computed by this program, whose
//! policies agree with the plain rules of `policy_plain`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use kvplan::policy;
use kvplan::replay;
use kvplan::timeline::Timeline;
use kvplan::trace::{Rows, TraceReader, import};

use crate::replay_support::shared;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).into()
}

/// `policy;steps;decisions;destroyed;T0;mass on what was destroyed, mean and in the last step`.
fn line(text: &str, t: &Timeline) -> String {
    let end = t.tokens_end();
    format!(
        "{text};{};{};{};{};{:.9};{:.9}\n",
        t.steps,
        t.retiers,
        end[3],
        end[0],
        t.mass_mean()[3],
        t.mass.last().unwrap()[3]
    )
}

fn lines(rows: &dyn Rows, specs: &[&str]) -> String {
    let parsed: Vec<_> = specs.iter().map(|s| policy::parse(s).unwrap()).collect();
    let timelines = replay::run(rows, &parsed).unwrap();
    let mut text = String::new();
    for (spec, timeline) in specs.iter().zip(&timelines) {
        text.write_str(&line(spec, timeline)).unwrap();
    }
    text
}

fn golden(name: &str) -> String {
    fs::read_to_string(root().join("tests/it/goldens").join(name)).unwrap()
}

#[test]
fn every_policy_on_mean_rows() {
    let reader = TraceReader::open(&root().join("traces/smol_1_t9_s5.kvt")).unwrap();
    let specs = [
        "stream-evict:budget=0.5",
        "stream-evict:budget=0.2,score=per-age",
        "streaming-llm:sinks=4,window=252",
        "h2o-mean:heavy=128,recent=128",
        "tova-mean:budget=256",
        "r-kv-importance:budget=256",
        "snap-kv-mean:budget=64,window=32",
        "raas:budget=256",
        "raas:budget=256,alpha=0.02",
        "lru:budget=256",
        "random:budget=256",
        "random:budget=256,seed=1",
    ];
    assert_eq!(lines(&reader, &specs), golden("family.csv"));
}

/// Every policy that runs on mean rows is in the goldens: here or in `four_tier.csv`.
#[test]
fn no_policy_is_left_out() {
    let text = golden("family.csv");
    for card in policy::cards() {
        let elsewhere = ["full", "four-tier", "oracle"].contains(&card.name);
        let exact = card.stand_in.is_some();
        assert!(
            elsewhere
                || exact
                || text
                    .lines()
                    .any(|l| l.split([':', ';']).next() == Some(card.name)),
            "{}",
            card.name
        );
    }
}

/// Per-layer rows of two recordings; each layer has its own tokens.
#[test]
fn tova_by_layer_on_recorded_layers() {
    let Some(shared) = shared() else {
        skip!("tova by layer: no recorded layers beside the checkout");
    };
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for name in ["smol_5_t6_s5", "qwen_5_t6_s5"] {
        let out = folder.path().join("x.kvt");
        let from = shared.join("traces").join(format!("{name}.json"));
        import::import(&from, &import::Options::default(), &out).unwrap();
        let reader = TraceReader::open(&out).unwrap();
        text += &lines(&reader, &["tova:budget=128", "tova-mean:budget=128"]);
    }
    assert_eq!(text, golden("tova_layers.csv"));
}
