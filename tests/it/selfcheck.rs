//! `selfcheck` on scenarios of several kinds, and the decisions that `simulate` hands out.
#![allow(
    clippy::cast_possible_truncation,
    clippy::naive_bytecount,
    clippy::float_cmp
)] // small whole counts

use std::io::{Cursor, Read as _};

use kvplan::plan::selfcheck::{Held, SelfCheck, selfcheck};
use kvplan::policy;
use kvplan::replay::{self, decisions, npz};
use kvplan::scenario::resolve;
use kvplan::trace::default_trace;

use crate::engine_support::settings;

fn check(words: &str) -> SelfCheck {
    selfcheck(&resolve::scenario(&settings(words)).unwrap()).unwrap()
}

/// How each law stands, in order: `y`, `n`, `-`.
fn stands(c: &SelfCheck) -> String {
    let letter = |h: Held| match h {
        Held::Yes => 'y',
        Held::No => 'n',
        Held::NotAsked => '-',
    };
    c.laws.iter().map(|l| letter(l.held)).collect()
}

#[test]
fn laws_hold_and_are_asked_where_they_apply() {
    // hbm=fit on an H100 spills: all laws but Proposition 1, which is of eviction.
    let c = check("hardware h100-sxm");
    assert_eq!(stands(&c), "yyyyyyy-yy", "{c:#?}");
    // It fits an H200: nothing crosses the link.
    let c = check("hardware h200-sxm");
    assert_eq!(stands(&c), "yyy--y--yy", "{c:#?}");
    let evicts = "four-tier:hbm=0.5,evict=0.05,semantics=cumulative";
    let c = check(&format!("model llama-3.1-8b policy {evicts}"));
    assert_eq!(stands(&c), "yyyy--yyyy", "{c:#?}");
    let c = check(
        "model llama-3.1-8b occupancy staggered policy four-tier:hbm=2000tok t1 host-attention",
    );
    assert_eq!(stands(&c), "yyy--yy-yy", "{c:#?}");
    let c = check("model llama-3.1-8b trace none policy streaming-llm");
    assert_eq!(stands(&c), "yy------".to_owned() + "-y", "{c:#?}");
    // Everything staged stays in HBM: nothing comes up, and a dead link is no matter.
    let c = check("t1 staged policy four-tier:hbm=0.3");
    assert_eq!(stands(&c).as_bytes()[6], b'-', "{c:#?}");
    // Every layer slides: tokens have tiers, and nothing moves.
    let c = check("model mistral-7b-v0.1 batch 3 prompt 128 output 1000 policy four-tier:hbm=0.1");
    assert!(c.is_sound(), "{c:#?}");
    let c = check("trace smol_1_t9_s5 model llama-3.1-8b policy oracle:hbm=0.5");
    assert_eq!(stands(&c), "yyyy-yy--y", "{c:#?}");
}

/// A replay of the decisions, set by set, has the tokens of the timeline.
#[test]
fn decisions_are_those_of_the_replay() {
    let trace = default_trace().unwrap();
    for text in [
        "four-tier:hbm=0.3,evict=0.05,t2=0.2,semantics=cumulative",
        "h2o-mean:heavy=200,recent=100",
        "streaming-llm:window=300",
    ] {
        let spec = policy::parse(text).unwrap();
        let d = decisions(&trace, &spec).unwrap();
        let timeline = replay::run(&trace, &[spec]).unwrap().remove(0);
        assert!(!d.first_step.is_empty());
        assert_eq!(d.first_step.len(), timeline.retiers as usize, "{text}");
        let at = |i: usize| usize::try_from(d.offsets[i]).unwrap();
        for (i, first) in d.first_step.iter().enumerate() {
            let mut counts = [0u32; 4];
            for tier in &d.tiers[at(i)..at(i + 1)] {
                counts[usize::from(*tier)] += 1;
            }
            let positions = &d.positions[at(i)..at(i + 1)];
            assert!(positions.windows(2).all(|w| w[0] < w[1]));
            if *first < timeline.steps {
                // The timeline has the step's own token besides.
                counts[0] += 1;
                let tokens = timeline.tokens_at(*first);
                for tier in 0..3 {
                    let off = f64::from(counts[tier]) - tokens[tier];
                    assert!(off.abs() < 1e-9, "{text} step {first} tier {tier}: {off}");
                }
            }
        }
    }
}

#[test]
fn the_archive_is_what_numpy_reads() {
    let trace = default_trace().unwrap();
    let d = decisions(&trace, &policy::parse("four-tier:hbm=0.3").unwrap()).unwrap();
    let bytes = npz::decisions(&d, &serde_json::json!({"policy": "x"})).unwrap();
    assert_eq!(
        bytes,
        npz::decisions(&d, &serde_json::json!({"policy": "x"})).unwrap()
    );
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut array = |name: &str| {
        let mut out = Vec::new();
        zip.by_name(name).unwrap().read_to_end(&mut out).unwrap();
        // Magic 6, version 2, length 2, header padded so that the numbers begin at a multiple of 64.
        assert_eq!(&out[..8], b"\x93NUMPY\x01\x00");
        let begin = 10 + usize::from(u16::from_le_bytes([out[8], out[9]]));
        assert_eq!(begin % 64, 0);
        (
            String::from_utf8(out[10..begin].to_vec()).unwrap(),
            out[begin..].to_vec(),
        )
    };
    let (header, numbers) = array("positions.npy");
    let n = d.positions.len();
    assert_eq!(
        header.trim_end(),
        format!("{{'descr': '<u4', 'fortran_order': False, 'shape': ({n},), }}")
    );
    let read: Vec<u32> = numbers
        .chunks(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(read, d.positions);
    assert_eq!(array("meta.npy").1, br#"{"policy":"x"}"#);
    assert_eq!(array("prompt.npy").1, trace.prompt().to_le_bytes());
}
