//! Settings that cannot both be meant.
//!
//! Only what somebody spelt out can contradict: a default gives way silently. Each refusal names both sides and the way
//! out, because the user knows which of the two was meant and we do not.

use crate::error::{Error, Result};

use super::settings::Settings;

/// Refuses contradictions among what was asked.
///
/// # Errors
/// Exit 2, naming both settings.
pub(super) fn check(settings: &Settings) -> Result<()> {
    split(settings)?;
    depth(settings)?;
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
    let host = value(settings, "t1") == "host-attention";
    if !host {
        return Err(
            clash(settings, "split", "only host-attention splits a batch")
                .help("add --t1 host-attention, or leave --split out"),
        );
    }
    match given.text().as_str() {
        "1" => Ok(()),
        "2" => Err(settings
            .wrong(
                "split",
                "two half batches in turn (`2`) are not available yet",
            )
            .help("--split 1 is what is simulated now")),
        other => Err(settings.wrong("split", format!("`{other}` is out of range: it takes 1"))),
    }
}

fn depth(settings: &Settings) -> Result<()> {
    let Some(depth) = settings.asked("depth").map(super::settings::Given::text) else {
        return Ok(());
    };
    if value(settings, "t1") == "host-attention" {
        return Err(clash(settings, "depth", "host-attention stages no layers")
            .help("leave --depth out, or use --t1 stream"));
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
    for name in ["write-back", "compact", "layout", "depth"] {
        if full && settings.asked(name).is_some() {
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

fn clash(settings: &Settings, name: &str, why: &str) -> Error {
    settings.wrong(name, format!("contradicts the rest: {why}"))
}
