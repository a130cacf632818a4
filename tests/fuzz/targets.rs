//! What is fuzzed, and what must hold of each.

use crate::corpus;
use kvplan::calibrate::{Calibrated, import, raw};
use kvplan::compare::compare;
use kvplan::compare::log::{self, Software, Start};
use kvplan::error::Error;
use kvplan::forward::{Cache, Checkpoint, Detail, Item, Model, Text};
use kvplan::plan::Plan;
use kvplan::policy::{self, four_tier::Hbm};
use kvplan::scenario::settings::{Origin, Source};
use kvplan::scenario::{Settings, Verb, file, print, resolve};
use kvplan::trace::import::{Options, import as import_trace};
use kvplan::trace::{TraceReader, export, stats, verify};
use kvplan::units::text;
use kvplan::validate::tables::KNOWN;
use kvplan::validate::validate;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What became of an input.
#[derive(Debug)]
pub(crate) enum Outcome {
    Accepted(String),
    Refused(String),
}

/// What to do with an input.
type Run = dyn Fn(&[u8]) -> Outcome;

pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) corpus: Vec<Vec<u8>>,
    /// Words that mean something in the format.
    pub(crate) words: &'static [&'static str],
    /// Makes checksums right again.
    pub(crate) repair: Option<fn(&mut [u8])>,
    pub(crate) run: Box<Run>,
    /// Inputs of a smoke run.
    pub(crate) smoke: u32,
}

/// The error must be the input's fault.
fn refused(error: &Error) -> Outcome {
    assert!([2, 3].contains(&error.exit_code()), "{error:?}");
    Outcome::Refused(error.message.clone())
}

pub(crate) fn all() -> Vec<Target> {
    // In memory where there is such a place: finished traces are flushed to the disk.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = Arc::new(dir.unwrap());
    let inside = Arc::clone(&dir);
    let models = Arc::clone(&dir);
    let importer = |ending: &'static str, corpus: Vec<Vec<u8>>, words| {
        let dir = Arc::clone(&dir);
        Target {
            name: ending,
            corpus,
            words,
            repair: (ending == "kvt").then_some(corpus::repair as fn(&mut [u8])),
            run: Box::new(move |input| imported(dir.path(), ending, input)),
            smoke: 400,
        }
    };
    vec![
        Target {
            name: "reader",
            corpus: corpus::traces(),
            words: corpus::KVT,
            repair: Some(corpus::repair),
            run: Box::new(read),
            smoke: 4000,
        },
        importer("kvt", corpus::traces(), corpus::KVT),
        importer("npy", corpus::npys(), corpus::NPY),
        importer("npz", corpus::npzs(), corpus::NPY),
        Target {
            name: "npz-inside",
            corpus: corpus::arrays(),
            words: corpus::NPY,
            repair: None,
            run: Box::new(move |input| imported(inside.path(), "npz", &corpus::zipped(input))),
            smoke: 400,
        },
        importer("safetensors", corpus::tensors(), corpus::TENSORS),
        importer("json", corpus::pairs(), corpus::JSON),
        Target {
            name: "gguf",
            corpus: corpus::models(),
            words: corpus::GGUF,
            repair: None,
            run: Box::new(move |input| model(models.path(), input)),
            smoke: 1500,
        },
        plain("toml", corpus::scenarios(), corpus::TOML, scenario, 1500),
        Target {
            name: "log",
            corpus: corpus::logs(),
            words: corpus::LOG,
            repair: None,
            run: Box::new(engine_log),
            smoke: 8000,
        },
        Target {
            name: "table",
            corpus: corpus::tables(),
            words: corpus::TABLE,
            repair: None,
            run: Box::new({
                let dir = Arc::clone(&dir);
                move |input| table(dir.path(), input)
            }),
            smoke: 150,
        },
        Target {
            name: "raw",
            corpus: corpus::raws(),
            words: corpus::RAW,
            repair: Some(corpus::recount),
            run: Box::new(measurements),
            smoke: 1500,
        },
        plain("units", corpus::units(), corpus::UNITS, units, 8000),
        plain(
            "policy",
            corpus::policies(),
            corpus::POLICY,
            policy_text,
            8000,
        ),
        plain("set", corpus::patterns(), corpus::PATTERN, pattern, 500),
    ]
}

/// Llama-3.1-8B on an H100 under the engine of a log.
fn plan(start: &Start) -> &'static Plan {
    static PLANS: [OnceLock<Plan>; 2] = [OnceLock::new(), OnceLock::new()];
    let other = start.software() == Some(Software::TensorRtLlm);
    let runtime = ["vllm", "tensorrt-llm"][usize::from(other)];
    PLANS[usize::from(other)].get_or_init(|| {
        let mut settings = Settings::defaults(Verb::Plan);
        let flags = [
            ("model", "llama-3.1-8b"),
            ("weights", "bf16"),
            ("hardware", "h100-sxm"),
            ("output", "64"),
            ("trace", "none"),
            ("runtime", runtime),
        ];
        for (name, value) in flags {
            let value = [value.to_string()];
            settings.set(name, &value, Origin::Flag).unwrap();
        }
        kvplan::plan::plan(&resolve::question(&settings).unwrap()).unwrap()
    })
}

/// What an engine's log says is finite, and a plan stands beside it or is refused.
fn engine_log(input: &[u8]) -> Outcome {
    let start = match log::read("fuzz", input) {
        Ok((start, longer)) => {
            assert!(!longer);
            start
        }
        Err(e) => return refused(&e),
    };
    match compare(plan(&start), &start, Some("h100-sxm")) {
        Ok(c) => {
            let sizes = [start.total, start.pool, start.weights, start.budget];
            assert!(sizes.into_iter().flatten().all(f64::is_finite));
            let text = serde_json::to_string(&c).unwrap();
            assert!(!text.contains("null") || !c.parts.is_empty());
            let pool = c.parts.iter().find(|p| p.part == "KV pool").unwrap();
            Outcome::Accepted(format!(
                "pool {}, tokens {}, {} reasons",
                pool.engine_bytes.is_some(),
                c.pool_tokens.engine.is_some(),
                c.reasons.len()
            ))
        }
        Err(e) => refused(&e),
    }
}

/// Raw measurements read back as they are written, and make a machine or are refused.
fn measurements(input: &[u8]) -> Outcome {
    let read = match import::read("fuzz", input) {
        Ok(read) => read,
        Err(e) => return refused(&e),
    };
    let text = read.raw.text();
    assert_eq!(raw::read("again", text.as_bytes()).unwrap(), read.raw);
    let base = kvplan::catalog::hardware("rtx-5080").unwrap();
    match Calibrated::of(&read.raw, base, false, &|_, _, _| None) {
        Ok(done) => {
            let calibration = done.answer().calibration;
            for p in &calibration.parameters {
                assert!(p.low <= p.value && p.value <= p.high, "{p:?}");
            }
            let (tables, held) = (calibration.tables.len(), calibration.holdouts.len());
            Outcome::Accepted(format!(
                "own {}, {tables} tables, {held} held out",
                read.own
            ))
        }
        Err(e) => refused(&e),
    }
}

/// A table of measurements, of the kind that its first byte says, is predicted row by row or refused.
fn table(dir: &Path, input: &[u8]) -> Outcome {
    let folder = dir.join("tables");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (number, rest) = input.split_first().unwrap_or((&b'a', &[]));
    let kind = &KNOWN[usize::from(number.wrapping_sub(b'a')) % KNOWN.len()];
    std::fs::write(folder.join(format!("x_{}", kind.ending)), rest).unwrap();
    match validate(&folder, false) {
        Ok(run) => {
            for row in &run.rows {
                assert!(row.predicted.is_some() != row.skipped.is_some(), "{row:?}");
                if let Some(p) = row.predicted {
                    assert!(p.low <= p.value && p.value <= p.high, "{row:?}");
                    assert!(p.value.is_finite() && p.high.is_finite(), "{row:?}");
                }
            }
            let predicted = run.rows.iter().any(|r| r.predicted.is_some());
            Outcome::Accepted(format!("{} {predicted}", kind.ending))
        }
        Err(e) => refused(&e),
    }
}

fn plain(
    name: &'static str,
    corpus: Vec<Vec<u8>>,
    words: &'static [&'static str],
    run: fn(&str) -> Outcome,
    smoke: u32,
) -> Target {
    let run = move |input: &[u8]| run(&String::from_utf8_lossy(input));
    Target {
        name,
        corpus,
        words,
        repair: None,
        run: Box::new(run),
        smoke,
    }
}

/// Everything that can be asked of an open trace.
fn read(input: &[u8]) -> Outcome {
    let reader = match TraceReader::from_shared("fuzz", input.into()) {
        Ok(reader) => reader,
        Err(e) => return refused(&e),
    };
    let rows = reader.rows();
    let mut seen = 0;
    let result = reader
        .for_each_in(0..rows, &mut |_, _| {
            seen += 1;
            Ok(())
        })
        .and_then(|()| reader.tokens().map(|_| ()))
        .and_then(|()| stats::mass_shares(&reader, 3, 0).map(|_| ()))
        .and_then(|()| verify::verify(&reader).map(|_| ()));
    match result {
        Ok(()) => {
            assert_eq!(seen, rows);
            Outcome::Accepted(format!("{rows} rows, partial {}", reader.is_partial()))
        }
        Err(e) => refused(&e),
    }
}

/// A model is refused, or runs; so do its tokenizer and template.
fn model(dir: &Path, input: &[u8]) -> Outcome {
    let path = dir.join("model.gguf");
    std::fs::write(&path, input).unwrap();
    let checkpoint = match Checkpoint::open(&path) {
        Ok(checkpoint) => checkpoint,
        Err(e) => return refused(&e),
    };
    let chat = Text::open(&checkpoint).and_then(|text| text.chat("the end"));
    let ran = Model::load(&checkpoint).and_then(|model| {
        let mut caches = [Cache::new(model.shape(), 1)];
        model.step(&mut caches, &Item::of(0, &[0, 0], Detail::Heads))
    });
    let told = |e: &Error| match refused(e) {
        Outcome::Accepted(text) | Outcome::Refused(text) => text,
    };
    match (ran, chat) {
        (Ok(step), chat) => {
            assert_eq!(step.logits.len(), 2 * checkpoint.shape.vocab);
            Outcome::Accepted(chat.map_or_else(|e| told(&e), |ids| format!("{} tokens", ids.len())))
        }
        (Err(e), _) => refused(&e),
    }
}

/// What is imported is a finished, sound trace that can be exported.
fn imported(dir: &Path, ending: &str, input: &[u8]) -> Outcome {
    let (from, out) = (dir.join(format!("in.{ending}")), dir.join("out.kvt"));
    if ending == "json" {
        let (head, rows) = corpus::split_pair(input);
        std::fs::write(&from, head).unwrap();
        std::fs::write(dir.join("in.rows.f16"), rows).unwrap();
    } else {
        std::fs::write(&from, input).unwrap();
    }
    let _ = std::fs::remove_file(&out);
    match import_trace(&from, &Options::default(), &out) {
        Ok(made) => {
            let reader = TraceReader::open(&out).unwrap();
            let rows = made.rows;
            assert_eq!((reader.rows(), reader.is_partial()), (rows, false));
            verify::verify(&reader).unwrap();
            export::export(&reader, &dir.join("exported.json")).unwrap();
            Outcome::Accepted(format!("{rows} rows"))
        }
        Err(e) => {
            let half = kvplan::trace::beside::stale_name(&out, std::process::id());
            let left: Vec<PathBuf> = [out.clone(), half]
                .into_iter()
                .filter(|p| p.exists())
                .collect();
            assert!(left.is_empty(), "{e}: left {left:?}");
            refused(&e)
        }
    }
}

/// A scenario is read, printed and resolved; some are for one verb only.
fn scenario(text: &str) -> Outcome {
    let source = Arc::new(Source {
        name: "fuzz.toml".into(),
        text: text.into(),
    });
    let ask = |verb: Verb| {
        let mut settings = Settings::defaults(verb);
        file::lay(&source, &mut settings)?;
        let _ = print::config(&settings);
        match verb {
            Verb::Simulate => resolve::scenario(&settings).map(|_| ()),
            Verb::Plan => resolve::question(&settings).map(|_| ()),
        }
    };
    match (ask(Verb::Simulate), ask(Verb::Plan)) {
        (Err(a), Err(b)) => {
            refused(&b);
            refused(&a)
        }
        (a, b) => {
            let [a, b] = [a, b]
                .map(|r| r.map_or_else(|e| refused(&e), |()| Outcome::Accepted("fine".into())));
            Outcome::Accepted(format!("{a:?} {b:?}"))
        }
    }
}

/// Figures are finite and at least 0.
fn units(text: &str) -> Outcome {
    let rates = [
        text::bytes_per_second(text),
        text::flops(text),
        text::seconds(text),
        text::share(text),
    ];
    for value in rates.iter().flatten() {
        let infinite_link = value.is_infinite() && text.trim() == "inf";
        assert!(
            infinite_link || value.is_finite() && *value >= 0.0,
            "`{text}` is {value}"
        );
    }
    let bytes = text::bytes(text);
    if let Ok(bytes) = bytes {
        let _ = text::show_bytes(bytes);
    }
    let tokens = text::tokens(text);
    let accepted = [
        rates.iter().any(Result::is_ok),
        bytes.is_ok(),
        tokens.is_ok(),
    ];
    if accepted.contains(&true) {
        Outcome::Accepted(format!("{accepted:?}"))
    } else {
        Outcome::Refused(tokens.unwrap_err())
    }
}

/// A policy prints as text that parses to the same, explains itself and can be built.
fn policy_text(text: &str) -> Outcome {
    match policy::parse(text) {
        Ok(spec) => {
            let shown = spec.to_string();
            assert_eq!(
                policy::parse(&shown).unwrap(),
                spec,
                "`{text}` shown as `{shown}`"
            );
            let _ = spec.card();
            let resolved = match spec.hbm() {
                Some(Hbm::Fit | Hbm::Bytes(_)) => spec.with_hbm_tokens(100),
                _ => spec,
            };
            resolved.build().unwrap();
            Outcome::Accepted(shown)
        }
        Err(e) => refused(&e),
    }
}

/// A pattern of traces is expanded or refused.
fn pattern(text: &str) -> Outcome {
    // Only patterns below this folder: others would walk the machine.
    let text = format!(
        "traces/{}",
        text.replace(['/', '\\', '\0'], "").replace("**", "*")
    );
    match kvplan::trace::set::expand(&[text]) {
        Ok(paths) => Outcome::Accepted(format!("{paths:?}")),
        Err(e) => refused(&e),
    }
}
