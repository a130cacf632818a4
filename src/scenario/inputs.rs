//! The files that settings name: a result says which files it was made from, and what they were.
//!
//! Names of the catalog and of traces in the binary are no files; patterns of traces stand for the files
//! that they match. Ignored: the scenario file, since every setting is in the result. Two files of one mark are taken to be
//! one ([`crate::journal::Mark`]: length and checksum of both ends).

use super::{Settings, world};

/// Settings that may name a file.
const NAMING: &[&str] = &[
    "model",
    "hardware",
    "runtime",
    "weights",
    "occupancy",
    "arrivals",
    "lengths",
    "trace",
];

/// The files that the values of a setting name; a pattern that matches nothing names none.
pub fn files(name: &str, texts: &[String]) -> Vec<String> {
    if !NAMING.contains(&name) {
        return Vec::new();
    }
    let paths = match name {
        "trace" => world::traces(texts).unwrap_or_default(),
        _ => texts.iter().map(Into::into).collect(),
    };
    let shown = paths.iter().map(|p| p.to_string_lossy().into_owned());
    shown.collect()
}

/// All files that settings name.
pub fn named(settings: &Settings) -> Vec<String> {
    let each = settings.iter();
    each.flat_map(|(key, given)| files(key.name, &given.texts))
        .filter(|name| std::path::Path::new(name).is_file())
        .collect()
}
