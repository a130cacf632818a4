//! Scenario files: TOML whose keys are the flags without their dashes.
//!
//! Read as a table with spans, key by key against the table of settings, so that an unknown key and a value that makes
//! no sense both point at their own line. Unknown keys are refused, never skipped: a misspelt `batch` that is ignored
//! is an answer to another question. A relative `trace` or file of lengths is taken from the folder of the scenario file.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result, did_you_mean};

use super::keys::{find, names};
use super::settings::{Origin, Settings, Source};

/// Largest scenario file that is read (bytes).
const MAX_BYTES: u64 = 1 << 20;

/// What `occupancy` may be instead of a path.
const WORDS: [&str; 2] = ["lockstep", "staggered"];

/// Scenarios in the binary, by name.
pub const EMBEDDED: &[(&str, &str)] = &[
    (
        "default",
        include_str!("../../models/scenarios/default.toml"),
    ),
    (
        "desktop",
        include_str!("../../models/scenarios/desktop.toml"),
    ),
    (
        "long-chain",
        include_str!("../../models/scenarios/long-chain.toml"),
    ),
];

/// Lays a scenario file, or an embedded scenario by name, over the settings.
///
/// # Errors
/// No such file or scenario, a directory, a value that makes no sense (exit 2). Not text, not TOML, unknown keys, values of the
/// wrong kind (exit 3).
pub fn load(path: &Path, settings: &mut Settings) -> Result<()> {
    let name = path.to_string_lossy().into_owned();
    let embedded = EMBEDDED.iter().find(|(n, _)| *n == name);
    let text = match embedded {
        Some((_, text)) if !path.exists() => (*text).to_string(),
        _ => read(path, &name)?,
    };
    lay(&Arc::new(Source { name, text }), settings)
}

/// Lays the text of a scenario over the settings.
///
/// # Errors
/// As [`load`].
pub fn lay(source: &Arc<Source>, settings: &mut Settings) -> Result<()> {
    let table = DeTable::parse(&source.text).map_err(|e| syntax(source, &e))?;
    let mut entries: Vec<(&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)> =
        table.get_ref().iter().collect();
    entries.sort_by_key(|(k, _)| k.span().start);
    for (key, value) in entries {
        let name: &str = key.get_ref();
        if find(name).is_none() {
            return Err(unknown(source, name, key.span()));
        }
        let mut texts = texts(source, name, value)?;
        let lengths = name == "occupancy" && !texts.iter().any(|t| WORDS.contains(&t.as_str()));
        let words = |t: &String| t == "all" || t == "fixed" || t.contains(':');
        let path = |t: &String| t.contains(['.', '/', '\\']) && !words(t);
        let load = matches!(name, "arrivals" | "lengths") && texts.iter().all(path);
        if name == "trace" || lengths || load {
            texts = texts.iter().map(|t| beside(&source.name, t)).collect();
        }
        let origin = Origin::File {
            file: Arc::clone(source),
            span: value.span(),
        };
        settings.set(name, &texts, origin)?;
    }
    Ok(())
}

fn read(path: &Path, name: &str) -> Result<String> {
    let fail = |why: String| Error::usage(format!("scenario {name}: {why}"));
    let foreign = |why: String| Error::data(format!("scenario {name}: {why}"));
    let meta = std::fs::metadata(path).map_err(|e| missing(name, &e))?;
    if meta.is_dir() {
        return Err(fail("is a directory".into()).help("name a .toml file"));
    }
    if meta.len() > MAX_BYTES {
        return Err(foreign("is over 1 MiB".into()).help("a scenario is a short TOML file"));
    }
    let mut bytes = Vec::new();
    // A device has no length: what is read is bounded, whatever it says.
    std::fs::File::open(path)
        .and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|e| fail(e.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(foreign("is over 1 MiB".into()).help("a scenario is a short TOML file"));
    }
    String::from_utf8(bytes).map_err(|e| {
        foreign(format!(
            "is not text (byte {} is not UTF-8)",
            e.utf8_error().valid_up_to()
        ))
        .help("a scenario is a TOML file; traces go to --trace")
    })
}

fn missing(name: &str, error: &std::io::Error) -> Error {
    let message = match error.kind() {
        std::io::ErrorKind::NotFound => format!("no scenario `{name}`: no such file"),
        _ => format!("scenario {name}: {error}"),
    };
    let known: Vec<&str> = EMBEDDED.iter().map(|(n, _)| *n).collect();
    let help = match did_you_mean(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? it is in the binary"),
        None => format!(
            "name a .toml file, or one in the binary: {}",
            known.join(", ")
        ),
    };
    Error::usage(message).help(help)
}

fn syntax(source: &Source, error: &toml::de::Error) -> Error {
    let end = source.text.len();
    let span = error.span().unwrap_or(end..end);
    let message = error.message().replace('\n', ", ");
    Error::data(message).at(&source.name, &source.text, span)
}

fn unknown(source: &Source, name: &str, span: std::ops::Range<usize>) -> Error {
    let kebab = name.replace('_', "-");
    let help = match did_you_mean(&kebab, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the keys are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Error::data(format!("unknown key `{name}`"))
        .at(&source.name, &source.text, span)
        .help(help)
}

/// A value as the texts its flag would have.
fn texts(source: &Source, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>> {
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(s) => Some(s.to_string()),
        DeValue::Integer(i) => decimal(i),
        DeValue::Float(f) => Some(f.as_str().to_string()),
        _ => None,
    };
    let all = match value.get_ref() {
        DeValue::Array(items) => items.iter().map(|i| one(i.get_ref())).collect(),
        other => one(other).map(|t| vec![t]),
    };
    all.ok_or_else(|| {
        Error::data(format!("`{name}` takes a text, a number or a list of them")).at(
            &source.name,
            &source.text,
            value.span(),
        )
    })
}

/// An integer in whatever radix as decimal digits.
fn decimal(integer: &toml::de::DeInteger<'_>) -> Option<String> {
    i128::from_str_radix(integer.as_str(), integer.radix())
        .ok()
        .map(|i| i.to_string())
}

/// A path of a scenario file, relative to its folder.
fn beside(file: &str, path: &str) -> String {
    let folder = Path::new(file).parent().filter(|p| p.is_dir());
    match folder {
        Some(folder) if path != "none" && Path::new(path).is_relative() => {
            folder.join(path).to_string_lossy().into_owned()
        }
        _ => path.to_string(),
    }
}
