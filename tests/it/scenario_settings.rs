//! Settings: defaults under a file under flags, every value with who decided it, contradictions refused.

use std::sync::Arc;

use kvplan::deploy::{Fidelity, Overlap, T1Mode};
use kvplan::error::{Cause, Error};
use kvplan::scenario::keys::KEYS;
use kvplan::scenario::settings::{Origin, Source};
use kvplan::scenario::{Occupancy, Settings, TraceRef, Verb, file, print, resolve, schema};
use proptest::prelude::*;

fn source(text: &str) -> Arc<Source> {
    Arc::new(Source {
        name: "s.toml".into(),
        text: text.into(),
    })
}

fn with(verb: Verb, flags: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::defaults(verb);
    for (name, text) in flags {
        settings
            .set(name, &[(*text).to_string()], Origin::Flag)
            .unwrap();
    }
    settings
}

fn refused(flags: &[(&str, &str)]) -> Error {
    let error = resolve::scenario(&with(Verb::Simulate, flags)).unwrap_err();
    assert_eq!(error.cause, Cause::Usage, "{error:?}");
    error
}

#[test]
fn the_defaults_are_the_default_question() {
    let s = resolve::scenario(&Settings::defaults(Verb::Simulate)).unwrap();
    let d = &s.deployment;
    assert_eq!(d.model.id, "deepseek-r1-distill-llama-70b");
    assert_eq!(
        (d.hardware.id.as_str(), d.runtime.id.as_str(), d.gpus),
        ("h200-sxm", "vllm", 1)
    );
    assert_eq!(
        (d.weights.to_string().as_str(), d.kv.to_string().as_str()),
        ("fp8", "fp16")
    );
    assert_eq!((s.batch, s.prompt, s.output, s.seed), (8, 1024, 15_360, 0));
    assert_eq!(
        (d.t1, d.overlap, d.depth),
        (T1Mode::Stream, Overlap::Layer, 2)
    );
    assert_eq!(d.fidelity, Fidelity::Step);
    assert_eq!(
        (s.occupancy, &s.trace),
        (Occupancy::Lockstep, &TraceRef::Embedded)
    );
    assert!(
        s.policy.clone().starts_with("four-tier:hbm=fit"),
        "{}",
        s.policy
    );
    assert!((d.memory_fraction - 0.95).abs() < 1e-12);

    let q = resolve::question(&Settings::defaults(Verb::Plan)).unwrap();
    let ids: Vec<&str> = q.cards.iter().map(|c| c.hardware.id.as_str()).collect();
    assert_eq!(ids, ["h100-sxm", "h200-sxm", "gh200", "rtx-pro-6000"]);
    assert!(q.settings.iter().all(|s| s.from == "default"));
}

#[test]
fn a_flag_lies_over_the_file_and_the_file_over_the_default() {
    let mut settings = Settings::defaults(Verb::Simulate);
    file::lay(&source("batch = 3\nprompt = \"2k\"\n"), &mut settings).unwrap();
    settings.set("batch", &["5".into()], Origin::Flag).unwrap();
    let s = resolve::scenario(&settings).unwrap();
    assert_eq!((s.batch, s.prompt, s.output), (5, 2000, 15_360));
    let from = |name: &str| settings.get(name).unwrap().origin.word();
    assert_eq!(
        (from("batch"), from("prompt"), from("output")),
        ("flag".into(), "s.toml:2".into(), "default".into())
    );
}

#[test]
fn the_fidelity_is_a_setting_like_any_other() {
    let mut settings = Settings::defaults(Verb::Simulate);
    file::lay(&source("fidelity = \"layer\"\n"), &mut settings).unwrap();
    let s = resolve::scenario(&settings).unwrap();
    assert_eq!(s.deployment.fidelity, Fidelity::Layer);
    let asked = s.asked.iter().find(|a| a.name == "fidelity").unwrap();
    assert_eq!(
        (asked.value.as_str(), asked.from.as_str()),
        ("layer", "s.toml:1")
    );
    assert!(print::config(&settings).contains("fidelity = \"layer\""));
    assert_eq!(
        schema::scenario()["properties"]["fidelity"]["default"],
        "step"
    );
    assert!(
        refused(&[("fidelity", "event")])
            .message
            .contains("step, layer")
    );
}

#[test]
fn a_plan_makes_a_row_of_every_card_and_count() {
    let q = resolve::question(&with(
        Verb::Plan,
        &[("hardware", "h100-sxm, h200-sxm"), ("gpus", "1,2")],
    ))
    .unwrap();
    let cards: Vec<(&str, u32)> = q
        .cards
        .iter()
        .map(|c| (c.hardware.id.as_str(), c.gpus))
        .collect();
    assert_eq!(
        cards,
        [
            ("h100-sxm", 1),
            ("h100-sxm", 2),
            ("h200-sxm", 1),
            ("h200-sxm", 2)
        ]
    );
    assert_eq!(q.on(&q.cards[3]).deployment.gpus, 2);
}

#[test]
fn every_embedded_scenario_resolves_for_plan() {
    for (name, text) in file::EMBEDDED {
        let mut settings = Settings::defaults(Verb::Plan);
        file::lay(&source(text), &mut settings).unwrap();
        resolve::question(&settings).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    }
}

/// A value is a setting, wherever it stands; a key or a kind of value that no scenario has is the file's fault.
#[test]
fn wrong_values_point_into_the_file() {
    for (text, at) in [
        ("batch = 0", 8..9),
        ("# c\nkv = \"fp9\"", 9..14),
        ("model = \"lama-3.1-8b\"", 8..21),
        ("weights = \"fp-8\"", 10..16),
        ("policy = \"four-teir\"", 9..20),
        ("memory-fraction = 1.5", 18..21),
        ("batchs = 8", 0..6),
        ("batch = [1, 2]", 8..14),
        ("batch = true", 8..12),
        ("gpus = 3", 7..8),
    ] {
        let mut settings = Settings::defaults(Verb::Simulate);
        let error = file::lay(&source(text), &mut settings)
            .and_then(|()| resolve::scenario(&settings))
            .unwrap_err();
        let file = text.contains("batchs") || text.contains("true");
        let cause = if file { Cause::Data } else { Cause::Usage };
        let place = error
            .place
            .as_ref()
            .unwrap_or_else(|| panic!("{text}: {error:?}"));
        assert_eq!(
            (place.span.clone(), error.cause),
            (at, cause),
            "{text}: {error}"
        );
    }
}

#[test]
fn underscores_in_a_key_suggest_the_flag() {
    let mut settings = Settings::defaults(Verb::Simulate);
    let error = file::lay(&source("memory_fraction = 0.9"), &mut settings).unwrap_err();
    assert_eq!(
        error.help.as_deref(),
        Some("did you mean `memory-fraction`?")
    );
}

#[test]
fn contradictions_are_refused_only_between_what_was_said() {
    let e = refused(&[("depth", "3"), ("t1", "host-attention")]);
    assert!(e.message.starts_with("--depth") && e.message.contains("host-attention"));
    let e = refused(&[("depth", "3"), ("overlap", "serial")]);
    assert!(e.message.contains("serial"));
    let e = refused(&[("split", "1")]);
    assert!(e.message.contains("host-attention"));
    let host = ("t1", "host-attention");
    let e = refused(&[("split", "2"), host, ("overlap", "serial")]);
    assert!(e.message.contains("serial"));
    let e = refused(&[("split", "2"), host, ("batch", "1")]);
    assert!(e.message.contains("no halves"));
    let e = refused(&[("split", "2"), host, ("fidelity", "layer")]);
    assert!(e.message.contains("fidelity"));
    refused(&[("split", "3"), host]);
    let e = refused(&[("depth", "3"), ("t1", "direct")]);
    assert!(e.message.contains("direct"));
    refused(&[("compact", "none"), ("policy", "full")]);

    let serial = resolve::scenario(&with(Verb::Simulate, &[("overlap", "serial")])).unwrap();
    assert_eq!(
        (serial.deployment.overlap, serial.deployment.depth),
        (Overlap::Serial, 1)
    );
    let host = resolve::scenario(&with(
        Verb::Simulate,
        &[("t1", "host-attention"), ("split", "1")],
    ))
    .unwrap();
    assert_eq!(host.deployment.t1, T1Mode::HostAttention);
}

#[test]
fn zero_and_absurd_values_are_refused_with_the_range() {
    for (name, text) in [
        ("batch", "0"),
        ("batch", "100001"),
        ("batch", "-1"),
        ("batch", "1e99"),
        ("batch", "99999999999999999999999999"),
        ("batch", "2.5"),
        ("prompt", "0"),
        ("output", "0"),
        ("output", "17M"),
        ("gpus", "0"),
        ("depth", "0"),
        ("depth", "81"),
        ("memory-fraction", "0"),
        ("memory-fraction", "1.01"),
        ("memory-fraction", "nan"),
        ("vram-reserve", "500GiB"),
        ("vram-reserve", "-1GiB"),
        ("seed", "-1"),
        ("t1", "staged:0.5"),
        ("t1", "stream:8GiB"),
        ("t1", "direct:8GiB"),
        ("t1", "selective"),
        ("t1", "selective:top-k=0"),
        ("split", "0"),
    ] {
        let e = refused(&[(name, text)]);
        assert!(e.message.contains(name), "{name} {text}: {e}");
    }
    assert!(
        refused(&[("batch", "0")])
            .message
            .contains("between 1 and 100,000")
    );
    assert!(
        refused(&[("depth", "81")])
            .message
            .contains("between 1 and 80")
    );
}

#[test]
fn a_chain_past_the_context_is_a_note_not_an_error() {
    let s = resolve::scenario(&with(Verb::Simulate, &[("output", "200k")])).unwrap();
    assert!(
        s.notes.iter().any(|n| n.contains("131,072")),
        "{:?}",
        s.notes
    );
}

#[test]
fn a_trace_brings_its_lengths_and_half_in_hbm() {
    let reader = kvplan::trace::find("smol_1_t9_s5").unwrap();
    let s = resolve::scenario(&with(Verb::Simulate, &[("trace", "smol_1_t9_s5")])).unwrap();
    assert_eq!((s.prompt, s.output), (reader.prompt(), reader.rows()));
    assert!(s.policy.clone().contains("hbm=0.5"), "{}", s.policy);
    let s = resolve::scenario(&with(
        Verb::Simulate,
        &[
            ("trace", "smol_1_t9_s5"),
            ("output", "7"),
            ("policy", "full"),
        ],
    ))
    .unwrap();
    assert_eq!((s.output, s.policy.clone().as_str()), (7, "full"));
}

#[test]
fn the_schema_knows_every_key_and_only_those() {
    let schema = schema::scenario();
    let properties = schema["properties"].as_object().unwrap();
    let mut names: Vec<&str> = KEYS.iter().map(|k| k.name).collect();
    names.sort_unstable();
    assert_eq!(
        properties.keys().map(String::as_str).collect::<Vec<_>>(),
        names
    );
    assert_eq!(schema["additionalProperties"], false);
}

proptest! {
    /// What `--print-config` prints is a scenario again: the same texts, whatever was asked.
    #[test]
    fn a_printed_scenario_reads_back(
        batch in 1u32..100_000,
        seed in any::<u64>(),
        fraction in 1u32..1000,
        reserve in "[0-9]{1,2}GiB",
        trace in proptest::collection::vec("[a-z\"\\\\ é]{1,12}x", 0..3),
    ) {
        let mut settings = Settings::defaults(Verb::Plan);
        let flag = |s: &mut Settings, name: &str, text: String| s.set(name, &[text], Origin::Flag).unwrap();
        flag(&mut settings, "batch", batch.to_string());
        flag(&mut settings, "seed", seed.to_string());
        flag(&mut settings, "memory-fraction", format!("{}", f64::from(fraction) / 1000.0));
        flag(&mut settings, "vram-reserve", reserve);
        if !trace.is_empty() {
            settings.set("trace", &trace, Origin::Flag).unwrap();
        }
        let mut again = Settings::defaults(Verb::Plan);
        file::lay(&source(&print::config(&settings)), &mut again).unwrap();
        for key in KEYS {
            let texts = |s: &Settings| s.get(key.name).map(|g| g.texts.clone());
            prop_assert_eq!(texts(&settings), texts(&again), "{}", key.name);
        }
    }

    /// No text makes a scenario file panic.
    #[test]
    fn no_file_panics(text in "\\PC{0,60}|([a-z-]{1,9} ?= ?[\"\\[0-9a-z.,\\]-]{0,12}\n){0,4}") {
        let mut settings = Settings::defaults(Verb::Simulate);
        if file::lay(&source(&text), &mut settings).is_ok() {
            let _ = resolve::scenario(&settings);
        }
    }
}
