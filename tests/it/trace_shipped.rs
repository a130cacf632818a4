//! The traces in this repository: sound, as published, and what importing the recordings gives.

use kvplan::trace::{
    Rows, TraceReader, default_trace, embedded, export, find, import, stats, verify,
};
use std::fs;
use std::path::{Path, PathBuf};

const SHIPPED: [(&str, u32, u32); 3] = [
    ("smol_1_t9_s5", 128, 1000),
    ("smol_2_t9_s5", 88, 1000),
    ("smol_3_t9_s5", 118, 403),
];

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("traces")
        .join(format!("{name}.kvt"))
}

fn shared() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    std::env::var_os("KVPLAN_SHARED")
        .map_or_else(default, PathBuf::from)
        .join("traces")
}

#[test]
fn shipped_traces_are_sound_and_small() {
    let mut bytes = 0;
    for (name, prompt, rows) in SHIPPED {
        let reader = TraceReader::open(&shipped(name)).unwrap();
        assert_eq!(
            (reader.name(), reader.prompt(), reader.rows()),
            (name, prompt, rows)
        );
        assert_eq!(reader.header().model, "SmolLM2-135M-Instruct");
        assert!(!verify::verify(&reader).unwrap().partial);
        assert_eq!(reader.column_sums().unwrap().len(), prompt as usize);
        assert_eq!(reader.tokens().unwrap().unwrap().len(), rows as usize);
        bytes += reader.file_bytes();
    }
    assert!(bytes < 3_000_000, "{bytes}");
}

#[test]
fn the_default_is_the_first_shipped_trace() {
    assert_eq!(embedded()[0].1, fs::read(shipped("smol_1_t9_s5")).unwrap());
    assert_eq!(default_trace().unwrap().name(), "smol_1_t9_s5");
    assert_eq!(find("smol_1_t9_s5").unwrap().rows(), 1000);
    let e = find("smol_1_t9_s6").unwrap_err();
    assert_eq!(e.exit_code(), 2);
    assert!(e.help.unwrap().contains("smol_1_t9_s5"));
}

#[test]
fn prefill_attention_is_shared_out_over_the_prompt() {
    // P prompt rows, each with mass 1: the column sums add up to P.
    for (name, prompt, _) in SHIPPED {
        let reader = TraceReader::open(&shipped(name)).unwrap();
        let sum: f64 = reader
            .column_sums()
            .unwrap()
            .iter()
            .map(|s| f64::from(*s))
            .sum();
        assert!((sum - f64::from(prompt)).abs() < 1e-2, "{name}: {sum}");
    }
}

#[test]
fn mass_lies_where_a_separate_script_finds_it() {
    // Goldens of another implementation (NumPy over the rows), window 64, steps from 192:
    // sinks, rest of the prompt, recent, middle, to four digits. Published for five such recordings, rounded: sinks
    // .25-.28, prompt .08-.20, recent .37-.42, middle .14-.27.
    let golden = [
        [0.2741, 0.1147, 0.3986, 0.2126],
        [0.2483, 0.1057, 0.4362, 0.2098],
        [0.2506, 0.1526, 0.4353, 0.1615],
    ];
    for ((name, ..), expected) in SHIPPED.into_iter().zip(golden) {
        let reader = TraceReader::open(&shipped(name)).unwrap();
        let m = stats::mass_shares(&reader, 64, 192).unwrap().unwrap();
        for (found, expected) in [m.sinks, m.prompt, m.recent, m.middle].iter().zip(expected) {
            assert!(
                (found - expected).abs() <= 5.1e-5,
                "{name}: {found} is not {expected}"
            );
        }
    }
}

#[test]
fn shares_of_a_row_by_hand() {
    // Prompt 6, one row of 7: weights 1/4 on positions 0, 1, 4 and 6. Sinks 0..4 hold 1/2, the rest of the prompt 1/4,
    // the step's own position 1/4; with window 0 that last quarter is middle.
    struct One([u16; 7]);
    impl Rows for One {
        fn prompt(&self) -> u32 {
            6
        }
        fn rows(&self) -> u32 {
            1
        }
        fn column_sums(&self) -> Option<&[f32]> {
            None
        }
        fn for_each(
            &self,
            _: u32,
            f: &mut dyn FnMut(u32, &[u16]) -> kvplan::error::Result<()>,
        ) -> kvplan::error::Result<()> {
            f(0, &self.0)
        }
    }
    let quarter = 0x3400;
    let one = One([quarter, quarter, 0, 0, quarter, 0, quarter]);
    let shares = |window, from| stats::mass_shares(&one, window, from).unwrap();
    let all = |m: stats::MassShares| [m.sinks, m.prompt, m.recent, m.middle].map(f64::to_bits);
    assert_eq!(
        all(shares(64, 0).unwrap()),
        [0.5, 0.25, 0.25, 0.0].map(f64::to_bits)
    );
    assert_eq!(
        all(shares(0, 0).unwrap()),
        [0.5, 0.25, 0.0, 0.25].map(f64::to_bits)
    );
    assert_eq!(shares(64, 1), None);
}

#[test]
fn every_recording_goes_in_and_comes_back_to_the_byte() {
    if !shared().is_dir() {
        skip!("recordings: none beside the checkout");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(shared()).unwrap() {
        let json = entry.unwrap().path();
        if json.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let (kvt, back) = (dir.path().join("a.kvt"), dir.path().join("b.json"));
        import::import(&json, &import::Options::default(), &kvt).unwrap();
        let reader = TraceReader::open(&kvt).unwrap();
        verify::verify(&reader).unwrap();
        export::export(&reader, &back).unwrap();
        for ending in ["rows.f16", "layers.f16"] {
            let original = json.with_extension(ending);
            if original.exists() {
                let same =
                    fs::read(original).unwrap() == fs::read(back.with_extension(ending)).unwrap();
                assert!(same, "{}: {ending}", json.display());
            }
        }
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}
