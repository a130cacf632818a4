//! Settings that cannot both be meant.
//!
//! Only what somebody spelt out can contradict: a default gives way silently. Each refusal names both sides and the way
//! out, because the user knows which of the two was meant and we do not.

use crate::error::{Error, Result};
use crate::workload::Arrivals;

use super::keys::Verb;
use super::settings::Settings;

/// Refuses contradictions among what was asked.
///
/// # Errors
/// Exit 2, naming both settings.
pub(super) fn check(settings: &Settings) -> Result<()> {
    split(settings)?;
    depth(settings)?;
    lengths(settings)?;
    load(settings)?;
    weights(settings)?;
    longer(settings)?;
    staging(settings)
}

fn value(settings: &Settings, name: &str) -> String {
    settings
        .get(name)
        .map(super::settings::Given::text)
        .unwrap_or_default()
}

fn split(settings: &Settings) -> Result<()> {
    let Some(given) = settings.asked("split") else {
        return Ok(());
    };
    // A plan has host attention among its ways, whichever is asked for.
    let host = value(settings, "t1") == "host-attention" || settings.verb == Verb::Plan;
    if !host {
        return Err(
            clash(settings, "split", "only host-attention splits a batch")
                .help("add --t1 host-attention, or leave --split out"),
        );
    }
    let two = given.text() != "1";
    if two && value(settings, "overlap") == "serial" {
        return Err(clash(
            settings,
            "split",
            "overlap serial waits for the host before anything else runs",
        )
        .help("use --overlap layer, or leave --split out"));
    }
    if two && value(settings, "fidelity") == "layer" {
        return Err(clash(
            settings,
            "split",
            "fidelity layer follows one batch through its layers, not two halves in turn",
        )
        .help("use --fidelity step, or leave --split out"));
    }
    if two && value(settings, "batch") == "1" {
        return Err(clash(settings, "split", "a batch of one has no halves")
            .help("ask for --batch 2 or more, or leave --split out"));
    }
    Ok(())
}

/// The file that `occupancy` names, if it is no word.
pub(super) fn length_file(settings: &Settings) -> Option<String> {
    let how = value(settings, "occupancy");
    (!matches!(how.as_str(), "lockstep" | "staggered")).then_some(how)
}

/// A file of lengths says what `prompt` and `output` would.
fn lengths(settings: &Settings) -> Result<()> {
    let Some(how) = length_file(settings) else {
        return Ok(());
    };
    for name in ["prompt", "output"] {
        if settings.asked(name).is_some() {
            return Err(clash(
                settings,
                name,
                &format!("occupancy `{how}` gives each request its own lengths"),
            )
            .help(format!("leave --{name} out, or use --occupancy lockstep")));
        }
    }
    Ok(())
}

/// Whether a recording or a law gives each request its own lengths.
pub(super) fn own_lengths(settings: &Settings) -> bool {
    let arrivals = value(settings, "arrivals");
    let recorded = Arrivals::names_file(&arrivals);
    let law = value(settings, "lengths");
    recorded || !arrivals.is_empty() && !law.is_empty() && law != "fixed"
}

/// Settings of a load mean nothing without one, and a recording says all of it.
fn load(settings: &Settings) -> Result<()> {
    let arrivals = value(settings, "arrivals");
    for name in ["requests", "lengths", "token-budget", "preempt", "slo"] {
        if arrivals.is_empty() && settings.asked(name).is_some() {
            return Err(clash(
                settings,
                name,
                "it is for requests over time, and none come",
            )
            .help("add --arrivals all, --arrivals poisson:RATE or --arrivals FILE"));
        }
    }
    if arrivals.is_empty() {
        return Ok(());
    }
    if settings.asked("lengths").is_some() && Arrivals::names_file(&arrivals) {
        return Err(clash(
            settings,
            "lengths",
            "the recording of --arrivals has lengths of its own",
        )
        .help("leave --lengths out, or use --arrivals poisson:RATE"));
    }
    for name in ["prompt", "output"] {
        if own_lengths(settings) && settings.asked(name).is_some() {
            let (flag, other) = if Arrivals::names_file(&arrivals) {
                (format!("--arrivals {arrivals}"), "--arrivals poisson:RATE")
            } else {
                ("--lengths".into(), "--lengths fixed")
            };
            let why = format!("{flag} gives each request its own lengths");
            return Err(
                clash(settings, name, &why).help(format!("leave --{name} out, or use {other}"))
            );
        }
    }
    for (name, only) in [("occupancy", "lockstep"), ("fidelity", "step")] {
        if settings.asked(name).is_some() && value(settings, name) != only {
            return Err(clash(
                settings,
                name,
                "requests over time run step by step, each at its own length",
            )
            .help(format!("leave --{name} out, or --arrivals")));
        }
    }
    Ok(())
}

/// Modes that stage no layers of T1, and why.
pub(super) fn stages_nothing(t1: &str) -> Option<&'static str> {
    match t1.split(':').next() {
        Some("host-attention") => Some("host-attention stages no layers"),
        Some("direct") => Some("direct reads T1 where it lies and stages no layers"),
        Some("selective") => {
            Some("selective keeps the fetched tokens of every layer, not a few layers")
        }
        _ => None,
    }
}

fn depth(settings: &Settings) -> Result<()> {
    let Some(depth) = settings.asked("depth").map(super::settings::Given::text) else {
        return Ok(());
    };
    let nothing = stages_nothing(&value(settings, "t1"));
    if let Some(why) = nothing.filter(|_| settings.verb == Verb::Simulate) {
        return Err(clash(settings, "depth", why).help("leave --depth out, or use --t1 stream"));
    }
    if value(settings, "overlap") == "serial" && depth != "1" && depth != "0" {
        return Err(clash(
            settings,
            "depth",
            &format!("overlap serial stages one layer at a time, not {depth}"),
        )
        .help("leave --depth out, or use --overlap layer"));
    }
    Ok(())
}

fn staging(settings: &Settings) -> Result<()> {
    let policy = value(settings, "policy");
    let full = policy == "full" || policy.starts_with("full:");
    for name in ["write-back", "compact", "layout", "depth", "home"] {
        // Host memory is where nothing lies, too.
        let ddr = name == "home" && value(settings, name) == "ddr";
        if full && !ddr && settings.asked(name).is_some() {
            return Err(clash(
                settings,
                name,
                "policy full keeps everything in HBM: nothing moves",
            )
            .help(format!("leave --{name} out, or use --policy four-tier")));
        }
    }
    Ok(())
}

/// Weights stream as T1 does: nothing else shares the link with them, and only one of the two can be what gives way.
fn weights(settings: &Settings) -> Result<()> {
    let Some(given) = settings.asked("weights-in-ddr") else {
        return Ok(());
    };
    let (t1, policy) = (value(settings, "t1"), value(settings, "policy"));
    let mode = t1.split(':').next().unwrap_or_default();
    if !matches!(mode, "stream" | "staged") {
        let why = format!("weights stream over the link, beside {mode} that is not modelled");
        return Err(clash(settings, "weights-in-ddr", &why)
            .help("use --t1 stream, or leave --weights-in-ddr out"));
    }
    let name = policy.split(':').next().unwrap_or_default();
    let tiers = matches!(name, "four-tier" | "oracle");
    let open = tiers && (policy.contains("hbm=fit") || !policy.contains("hbm="));
    if given.text() == "fit" && open && settings.asked("policy").is_some() {
        return Err(clash(
            settings,
            "weights-in-ddr",
            "fit lets weights make the room, and the policy's hbm=fit lets KV make it",
        )
        .help("use --policy full, or say how much KV stays: --policy four-tier:hbm=0.5"));
    }
    Ok(())
}

/// A file of lengths says how long answers are.
fn longer(settings: &Settings) -> Result<()> {
    match length_file(settings) {
        Some(how) if settings.asked("length-factor").is_some() => Err(clash(
            settings,
            "length-factor",
            &format!("occupancy `{how}` gives each request its own lengths"),
        )
        .help("leave --length-factor out, or use --occupancy lockstep")),
        _ => Ok(()),
    }
}

fn clash(settings: &Settings, name: &str, why: &str) -> Error {
    settings.wrong(name, format!("contradicts the rest: {why}"))
}
