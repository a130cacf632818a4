//! Settings to a scenario: every name looked up, every number in range, every contradiction refused.
//!
//! What the user spelt out may contradict; a default never does, it gives way (`--overlap serial` makes the depth 1).
//! What is odd but possible, such as a chain past the model's context, becomes a note of the answer, not an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalog;
use crate::deploy::{Compact, Deployment, Fidelity, Layout, Overlap, ScoreCost, T1Mode, WriteBack};
use crate::error::{Error, Result, did_you_mean};
use crate::hardware::Hardware;
use crate::hardware::home::DDR;
use crate::model::{Attention, Model};
use crate::timeline::Pick;
use crate::uncertain::Level;
use crate::workload::Lengths;

use super::keys::Key;
use super::read::{
    MAX_BATCH, MAX_TOKENS, fraction, host_weights, length_factor, number, number_in, seed, size,
    split, t1, text_of, word,
};
use super::settings::{Given, Origin, Settings};
use super::{
    Asked, Card, Occupancy, Phase, Question, Scenario, TraceRef, Verb, contradict, inputs, load,
    notes, world,
};

/// The scenario of `simulate`.
///
/// # Errors
/// Exit 2: unknown names, values out of range, contradictions, each at its place. Exit 3: a damaged trace.
pub fn scenario(settings: &Settings) -> Result<Scenario> {
    let given = settings;
    let mut settings = settings.clone();
    adapt(&mut settings)?;
    contradict::check(&settings)?;
    let cards = cards(&settings)?;
    let card = cards
        .first()
        .ok_or_else(|| Error::internal("no hardware after the defaults"))?;
    let mut scenario = build(&settings, card)?;
    scenario.notes.extend(set_by_trace(given, &settings));
    scenario.asked = asked(&settings, &scenario, &cards[..1]);
    Ok(scenario)
}

/// What a trace decided that was left open, in words.
fn set_by_trace(given: &Settings, adapted: &Settings) -> Option<String> {
    let text = |s: &Settings, name: &str| s.get(name).map(Given::text);
    // Where weights make room they decide the policy, not the trace.
    let open = if fits_weights(given) {
        &["prompt", "output"][..]
    } else {
        &["prompt", "output", "policy"]
    };
    let changed: Vec<String> = open
        .iter()
        .copied()
        .filter(|name| text(given, name) != text(adapted, name))
        .filter_map(|name| Some(format!("{name} {}", text(adapted, name)?)))
        .collect();
    (!changed.is_empty())
        .then(|| format!("set by the trace, since left open: {}", changed.join(", ")))
}

/// Whether weights leave HBM as far as they have to.
fn fits_weights(settings: &Settings) -> bool {
    let given = settings.get("weights-in-ddr");
    given.is_some_and(|g| g.text() == "fit")
}

/// The question of `plan`: the same scenario on every card.
///
/// # Errors
/// As [`scenario`], for any of the cards.
pub fn question(settings: &Settings) -> Result<Question> {
    let mut settings = settings.clone();
    adapt(&mut settings)?;
    contradict::check(&settings)?;
    let cards = cards(&settings)?;
    let first = cards
        .first()
        .ok_or_else(|| Error::internal("no hardware after the defaults"))?;
    let base = build(&settings, first)?;
    for card in &cards {
        check_card(&settings, &base.deployment.model, card)?;
    }
    Ok(Question {
        settings: asked(&settings, &base, &cards),
        base,
        cards,
    })
}

/// Every setting as resolved, with who decided: names as the catalog has them, tokens as plain digits.
fn asked(settings: &Settings, base: &Scenario, cards: &[Card]) -> Vec<Asked> {
    let mut ids: Vec<&str> = cards.iter().map(|c| c.hardware.id.as_str()).collect();
    ids.dedup();
    let by_path = |given: &Given| given.texts.iter().any(|t| catalog::extension(t).is_some());
    let resolved = |key: &Key, given: &Given| match key.name {
        // A file keeps its path: its id would name nothing, or something else.
        "model" | "hardware" if by_path(given) => given.text(),
        "model" => base.deployment.model.id.clone(),
        "hardware" => ids.join(", "),
        "weights" => base.deployment.weights.to_string(),
        "kv" => base.deployment.kv.to_string(),
        "policy" => world::policy_in_full(&base.policy),
        "t1" => match base.deployment.t1 {
            T1Mode::Selective(s) => format!("selective:{s}"),
            _ => given.text(),
        },
        "prompt" => base.prompt.to_string(),
        "output" => base.output.to_string(),
        "batch" => base.batch.to_string(),
        _ => given.text(),
    };
    let one = |(key, given): (&'static Key, &Given)| Asked {
        name: key.name,
        value: resolved(key, given),
        from: given.origin.word(),
    };
    let own_lengths = base.lengths.is_some() || contradict::own_lengths(settings);
    let said_by_file = |key: &Key| own_lengths && matches!(key.name, "prompt" | "output");
    let shown = settings.iter().filter(|(key, _)| !said_by_file(key));
    shown.map(one).collect()
}

/// Defaults that depend on what was asked.
///
/// # Errors
/// A trace that cannot be read.
pub fn adapt(settings: &mut Settings) -> Result<()> {
    let said = |s: &Settings, name: &str| s.asked(name).is_some();
    let t1 = settings.get("t1").map(Given::text).unwrap_or_default();
    // A plan tries every mode: the others stage layers.
    let none = settings.verb == Verb::Simulate && contradict::stages_nothing(&t1).is_some();
    if none && !said(settings, "depth") {
        settings.clear("depth");
    } else if settings
        .get("overlap")
        .is_some_and(|g| g.text() == "serial")
        && !said(settings, "depth")
    {
        settings.set("depth", &["1".into()], Origin::Default)?;
    }
    if fits_weights(settings) && !said(settings, "policy") {
        // Weights make the room that hbm=fit would make by moving KV.
        settings.set("policy", &["full".into()], Origin::Default)?;
    }
    if settings.verb == Verb::Simulate && said(settings, "trace") {
        adapt_to_trace(settings)?;
    }
    Ok(())
}

/// `simulate --trace FILE`: the trace's own lengths, and half of the reasoning tokens in HBM.
fn adapt_to_trace(settings: &mut Settings) -> Result<()> {
    let TraceRef::Paths(paths) = trace(settings)? else {
        return Ok(());
    };
    let open = |name: &str| settings.asked(name).is_none();
    let policy_open = open("policy") && !fits_weights(settings);
    let (prompt_open, output_open) = (open("prompt"), open("output"));
    if (prompt_open || output_open) && contradict::length_file(settings).is_none() {
        let (prompt, rows) = common_lengths(settings, &paths, prompt_open)?;
        if prompt_open {
            settings.set("prompt", &[prompt.to_string()], Origin::Default)?;
        }
        if output_open {
            settings.set("output", &[rows.to_string()], Origin::Default)?;
        }
    }
    if policy_open {
        settings.set("policy", &["four-tier:hbm=0.5".into()], Origin::Default)?;
    }
    Ok(())
}

/// The prompt all traces share, which they need not where one is given, and the shortest number of rows.
fn common_lengths(settings: &Settings, paths: &[PathBuf], prompt_open: bool) -> Result<(u32, u32)> {
    let mut common: Option<(u32, u32)> = None;
    for path in paths {
        let (prompt, rows) = world::lengths(path)?;
        common = match common {
            None => Some((prompt, rows)),
            Some((p, r)) if p == prompt || !prompt_open => Some((p, r.min(rows))),
            Some((p, _)) => {
                let text = format!("the traces have prompts of {p} and {prompt} tokens");
                return Err(settings
                    .wrong("trace", text)
                    .help("say which with --prompt N"));
            }
        };
    }
    common.ok_or_else(|| settings.wrong("trace", "names no file"))
}

fn trace(settings: &Settings) -> Result<TraceRef> {
    Ok(match settings.get("trace") {
        None => TraceRef::Embedded,
        Some(given) if given.texts == ["none"] => TraceRef::None,
        Some(given) => {
            TraceRef::Paths(world::traces(&given.texts).map_err(|e| place(settings, "trace", e))?)
        }
    })
}

/// Every hardware with every GPU count, in the order asked.
fn cards(settings: &Settings) -> Result<Vec<Card>> {
    let names = settings.get("hardware").map_or(&[][..], |g| &g.texts);
    let counts = settings.get("gpus").map_or(&[][..], |g| &g.texts);
    let machine = |name: &String| world::hardware(name).map_err(|e| place(settings, "hardware", e));
    let mut machines = names.iter().map(machine).collect::<Result<Vec<_>>>()?;
    world::tell_apart(names, &mut machines);
    let mut cards = Vec::with_capacity(names.len() * counts.len());
    for hardware in &machines {
        for count in counts {
            let gpus = number_in(count, 1, 1024).map_err(|e| settings.wrong("gpus", e))?;
            cards.push(Card {
                hardware: at_home(settings, hardware, gpus)?,
                gpus,
            });
        }
    }
    Ok(cards)
}

/// The machine with T1 in the home asked for.
fn at_home(settings: &Settings, hardware: &Arc<Hardware>, gpus: u32) -> Result<Arc<Hardware>> {
    let home = text_of(settings, "home")?;
    if home == DDR {
        return Ok(Arc::clone(hardware));
    }
    hardware.at_home(home, gpus).map(Arc::new).ok_or_else(|| {
        let names = hardware.home_names();
        let error = settings.wrong("home", format!("{} has no home `{home}`", hardware.label()));
        error.help(match did_you_mean(home, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "it has {}; add [homes.{}] to a hardware file of your own",
                names.join(", "),
                if home.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                    home
                } else {
                    "NAME"
                }
            ),
        })
    })
}

/// Refuses a T1 mode that the home of T1 cannot serve.
fn check_home(settings: &Settings, t1: T1Mode, hardware: &Hardware) -> Result<()> {
    let name = text_of(settings, "home")?;
    let Some(home) = hardware.homes.get(name).filter(|_| name != DDR) else {
        return Ok(());
    };
    let why = match t1 {
        T1Mode::HostAttention if !home.by_host => "the host's cores do not read what lies there",
        T1Mode::Direct if home.in_place.is_none() => "kernels do not read what lies there in place",
        _ => return Ok(()),
    };
    Err(settings
        .wrong("home", format!("`{name}` with --t1 {}: {why}", t1.word()))
        .help("use --t1 stream, or --home ddr"))
}

/// A catalog's error, moved to where the name was written.
fn place(settings: &Settings, name: &str, error: Error) -> Error {
    match settings.get(name).map(|g| &g.origin) {
        Some(Origin::File { file, span }) if error.place.is_none() => {
            error.at(file.name.clone(), file.text.clone(), span.clone())
        }
        _ => error,
    }
}

fn build(settings: &Settings, card: &Card) -> Result<Scenario> {
    let deployment = deployment(settings, card)?;
    let batch = number(settings, "batch", 1, MAX_BATCH)?;
    let (occupancy, lengths) = occupancy(settings)?;
    let load = load::read(settings, place)?.map(Arc::new);
    let (prompt, output) = match &lengths {
        _ if load.is_some() => load.as_ref().map_or((1, 1), |l| l.longest()),
        None => (
            number(settings, "prompt", 1, MAX_TOKENS)?,
            number(settings, "output", 1, MAX_TOKENS)?,
        ),
        Some(l) => longest(l, batch),
    };
    let mut scenario = Scenario {
        batch,
        prompt,
        output,
        policy: world::policy(text_of(settings, "policy")?)
            .map_err(|e| place(settings, "policy", e))?,
        occupancy,
        length_factor: length_factor(settings)?,
        lengths,
        load,
        phase: match word(settings, "phase")? {
            "lockstep" => Phase::Lockstep,
            _ => Phase::Seeded,
        },
        trace: trace(settings)?,
        seed: seed(settings)?,
        intervals: intervals(settings)?,
        audit: settings.audit,
        notes: Vec::new(),
        named: inputs::named(settings),
        asked: Vec::new(),
        deployment,
    };
    check_selection(settings, &scenario)?;
    scenario.notes = notes::notes(settings, &scenario);
    Ok(scenario)
}

/// How much is drawn: nothing unless asked.
fn intervals(settings: &Settings) -> Result<Level> {
    if settings.get("intervals").is_none() {
        return Ok(Level::None);
    }
    Ok(match word(settings, "intervals")? {
        "few" => Level::Few,
        "full" => Level::Full,
        _ => Level::None,
    })
}

/// Refuses `top-p` where nothing says how much it fetches.
fn check_selection(settings: &Settings, s: &Scenario) -> Result<()> {
    let Some(Pick::TopP(p)) = s.deployment.t1.selection().map(|s| s.pick) else {
        return Ok(());
    };
    if s.trace == TraceRef::None {
        let why = format!(
            "selective:top-p={p} fetches by attention, which the lengths alone do not tell"
        );
        return Err(settings.wrong("t1", why).help(
            "give a recording with --trace, or fetch a fixed number: --t1 selective:top-k=512",
        ));
    }
    if world::fits_to_memory(&s.policy) {
        let why = format!(
            "how much selective:top-p={p} fetches is known only after the replay, and hbm=fit must know it before"
        );
        return Err(settings.wrong("t1", why).help(
            "say how much stays in HBM, as in --policy four-tier:hbm=0.5 or four-tier:hbm=20GiB, or use selective:top-k=512",
        ));
    }
    Ok(())
}

/// How the requests stand to each other: a word, or a file of lengths.
fn occupancy(settings: &Settings) -> Result<(Occupancy, Option<Arc<Lengths>>)> {
    let text = text_of(settings, "occupancy")?;
    match text {
        "lockstep" => Ok((Occupancy::Lockstep, None)),
        "staggered" => Ok((Occupancy::Staggered, None)),
        path if path.contains(['.', '/', '\\']) || Path::new(path).exists() => {
            let lengths =
                Lengths::read(Path::new(path)).map_err(|e| place(settings, "occupancy", e))?;
            Ok((Occupancy::Listed, Some(Arc::new(lengths))))
        }
        _ => Err(word(settings, "occupancy").map_or_else(
            |e| {
                let near = e.help.as_ref().map_or(String::new(), |h| format!("{h} "));
                e.help(format!(
                    "{near}A file of lengths has one `prompt,output` a line"
                ))
            },
            |w| Error::internal(format!("occupancy `{w}` is a word without a meaning")),
        )),
    }
}

/// Largest prompt and largest output of a batch.
fn longest(lengths: &Lengths, batch: u32) -> (u32, u32) {
    let n = batch.min(u32::try_from(lengths.count()).unwrap_or(u32::MAX));
    (0..n)
        .map(|i| lengths.of(i))
        .fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)))
}

fn deployment(settings: &Settings, card: &Card) -> Result<Deployment> {
    let named = |name: &str| text_of(settings, name);
    let model = world::model(named("model")?).map_err(|e| place(settings, "model", e))?;
    check_card(settings, &model, card)?;
    let layers = u32::try_from(model.layers.len()).unwrap_or(u32::MAX);
    let t1 = t1(settings)?;
    check_home(settings, t1, &card.hardware)?;
    Ok(Deployment {
        hardware: Arc::clone(&card.hardware),
        runtime: world::runtime(named("runtime")?).map_err(|e| place(settings, "runtime", e))?,
        gpus: card.gpus,
        weights: world::weights(named("weights")?, &model)
            .map_err(|e| place(settings, "weights", e))?,
        kv: world::kv(named("kv")?).map_err(|e| place(settings, "kv", e))?,
        depth: match settings.get("depth") {
            Some(_) => number(settings, "depth", 1, layers)?,
            None => 1,
        },
        t1,
        overlap: match word(settings, "overlap")? {
            "serial" => Overlap::Serial,
            _ => Overlap::Layer,
        },
        fidelity: match word(settings, "fidelity")? {
            "layer" => Fidelity::Layer,
            _ => Fidelity::Step,
        },
        write_back: match word(settings, "write-back")? {
            "at-demotion" => WriteBack::AtDemotion,
            _ => WriteBack::Through,
        },
        compact: match word(settings, "compact")? {
            "none" => Compact::None,
            _ => Compact::Retier,
        },
        layout: match word(settings, "layout")? {
            "token" => Layout::Token,
            _ => Layout::Layer,
        },
        split: split(settings)?,
        score_cost: match word(settings, "score-cost")? {
            "recompute" => ScoreCost::Recompute,
            "eager" => ScoreCost::Eager,
            _ => ScoreCost::Fused,
        },
        home: text_of(settings, "home")?.to_string(),
        host_weights: host_weights(settings, &model)?,
        memory_fraction: fraction(settings)?,
        vram_reserve: size(settings, "vram-reserve")?,
        model,
    })
}

/// GPUs must divide the query heads, be joined, and have memory left after the reserve.
fn check_card(settings: &Settings, model: &Model, card: &Card) -> Result<()> {
    let Hardware {
        gpu, interconnect, ..
    } = &*card.hardware;
    let id = card.hardware.label();
    if card.gpus > 1 && interconnect.is_none() {
        let text = format!(
            "{id} is modelled alone: no interconnect for {} of them",
            card.gpus
        );
        return Err(settings
            .wrong("gpus", text)
            .help("ask for 1 GPU, or add [interconnect] to a hardware file of your own"));
    }
    if let Some(heads) = undivided(model, card.gpus) {
        let text = format!(
            "{} GPUs do not divide the {heads} query heads of {}",
            card.gpus, model.id
        );
        let fit: Vec<String> = (1..=heads.min(16))
            .filter(|n| heads % n == 0)
            .map(|n| n.to_string())
            .collect();
        return Err(settings
            .wrong("gpus", text)
            .help(format!("these do: {}", fit.join(", "))));
    }
    let reserve = size(settings, "vram-reserve")?;
    if reserve.as_f64() >= gpu.memory.get() {
        let text = format!("nothing is left of the {} of {id}", gpu.memory.show());
        return Err(settings.wrong("vram-reserve", text));
    }
    Ok(())
}

/// Query heads that a number of GPUs does not divide, if there are such.
fn undivided(model: &Model, gpus: u32) -> Option<u32> {
    let heads = model.layers.iter().map(|l| match l.attention {
        Attention::Grouped { heads, .. } | Attention::Latent { heads, .. } => heads,
    });
    heads.into_iter().find(|h| h % gpus != 0)
}
