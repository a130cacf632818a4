//! The world embedded in the binary: models, hardware and runtimes by name.
//!
//! The files of `models/` are compiled in; a table lists them and a test holds the table against the folders. Nothing is
//! parsed before it is asked for: a lookup scans only the first lines of each file (`id` and `aliases` stand there, each
//! on its own line, which is tested too), so that finding one name among eighty files takes microseconds. Rival: a
//! generated index; it would be a second source of the same facts. A path instead of a name reads the user's own file.
//! Names ignore case. Order is that of the table everywhere.

mod lint;
mod table;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;

use crate::error::{Error, Result, did_you_mean};
use crate::hardware::class::{self, ClassSpread};
use crate::hardware::expected::Expected;
use crate::hardware::{Fitted, Hardware, Kernels, Runtime};
use crate::model::{self, Model};

pub use lint::warnings as hardware_warnings;
use table::{ARCHITECTURES, CLASS, EXPECTED, Entry, HARDWARE, KERNELS, RUNTIMES};

/// Largest TOML or config.json that is read (bytes).
const FILE_LIMIT: u64 = 4 << 20;

/// A shelf of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shelf {
    /// Models.
    Models,
    /// Machines.
    Hardware,
    /// Serving software.
    Runtimes,
}

impl Shelf {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Models, Self::Hardware, Self::Runtimes];

    /// The word of `kvplan list`.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Models => "models",
            Self::Hardware => "hardware",
            Self::Runtimes => "runtimes",
        }
    }

    /// The word in messages and of `kvplan show`.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Models => "model",
            Self::Hardware => "hardware",
            Self::Runtimes => "runtime",
        }
    }

    fn entries(self) -> &'static [Entry] {
        match self {
            Self::Models => ARCHITECTURES,
            Self::Hardware => HARDWARE,
            Self::Runtimes => RUNTIMES,
        }
    }

    /// Catalog ids, in order.
    pub fn ids(self) -> Vec<&'static str> {
        self.entries().iter().map(|e| e.id).collect()
    }

    /// Whether a name is on this shelf.
    pub fn has(self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(self, name: &str) -> Option<&'static Entry> {
        let exact = self
            .entries()
            .iter()
            .find(|e| e.id.eq_ignore_ascii_case(name));
        exact.or_else(|| {
            self.entries()
                .iter()
                .find(|e| e.aliases().any(|a| a.eq_ignore_ascii_case(name)))
        })
    }

    /// The catalog id of a name.
    pub fn id(self, name: &str) -> Option<&'static str> {
        self.find(name).map(|e| e.id)
    }

    /// The nearest name to a misspelt one.
    pub fn nearest(self, name: &str) -> Option<&'static str> {
        let names = || {
            self.entries()
                .iter()
                .flat_map(|e| std::iter::once(e.id).chain(e.aliases()))
        };
        did_you_mean(name, names())
    }

    fn entry(self, name: &str) -> Result<&'static Entry> {
        self.find(name.trim()).ok_or_else(|| {
            let what = self.singular();
            let guess = self.nearest(name).map_or(String::new(), |g| format!("did you mean `{g}`? "));
            let or_path = match self {
                Self::Models => "a path to a .toml or a Hugging Face config.json works too",
                Self::Hardware => {
                    "a path to a .toml works too: copy one with `kvplan show hardware h100-sxm --format toml`"
                }
                Self::Runtimes => "a path to a .toml works too",
            };
            Error::usage(format!("{what} `{name}` is not in the catalog")).help(format!(
                "{guess}`kvplan list {}` shows all {}; {or_path}",
                self.plural(),
                self.entries().len()
            ))
        })
    }

    /// The TOML text of an entry, as embedded.
    ///
    /// # Errors
    /// Usage: no such name, with a suggestion.
    pub fn text(self, name: &str) -> Result<&'static str> {
        self.entry(name).map(|e| e.text)
    }
}

/// A model by catalog name, alias, or path (.toml, or a Hugging Face config .json).
///
/// # Errors
/// Usage: no such name or path. Data: a bad TOML file (with its line), a damaged config.json, an architecture that is not known.
pub fn model(name: &str) -> Result<Model> {
    match extension(name) {
        Some("json") => model::hf::read(&read(name)?, name),
        Some("toml") => model::file::read(&read(name)?, name),
        _ => {
            let entry = Shelf::Models.entry(name)?;
            model::file::read(
                entry.text,
                &format!("models/architectures/{}.toml", entry.id),
            )
        }
    }
}

/// A machine by catalog name, alias, or path. A file without laws of kernels gets those fitted on its card, or those of
/// its class.
///
/// # Errors
/// Usage: no such name or path. Data: a bad TOML file (with its line), a physically impossible figure.
pub fn hardware(name: &str) -> Result<Hardware> {
    hardware_from(name, true)
}

/// The same as if the card had not been measured: with the laws of its class.
///
/// # Errors
/// As [`hardware`].
pub fn hardware_unmeasured(name: &str) -> Result<Hardware> {
    hardware_from(name, false)
}

fn hardware_from(name: &str, measured: bool) -> Result<Hardware> {
    if extension(name) == Some("toml") {
        return user_hardware(&read(name)?, name, measured);
    }
    let entry = Shelf::Hardware.entry(name)?;
    let mut hardware = parse(entry.text, &format!("models/hardware/{}.toml", entry.id))?;
    fill(&mut hardware, measured)?;
    Ok(hardware)
}

/// A machine from the text of a file named `name`.
///
/// # Errors
/// As [`hardware`].
pub fn hardware_in(text: &str, name: &str) -> Result<Hardware> {
    user_hardware(text, name, true)
}

fn user_hardware(text: &str, name: &str, measured: bool) -> Result<Hardware> {
    let mut hardware: Hardware = parse(text, name)?;
    fill(&mut hardware, measured)?;
    lint::hardware(&hardware, text, name)?;
    Ok(hardware)
}

/// Gives a machine whose file has none the laws of its kernels.
fn fill(hardware: &mut Hardware, measured: bool) -> Result<()> {
    if hardware.gpu.kernels != Kernels::default() {
        return Ok(());
    }
    let (all, spread) = fitted()?;
    let own = hardware.id.clone();
    let kept = all.iter().filter(|f| measured || f.id != own);
    let kept: Vec<&Fitted> = kept.collect();
    let (generation, memory) = (&hardware.generation, &hardware.memory_kind);
    let kernels = class::kernels(&hardware.id, generation, memory, &kept, spread);
    hardware.gpu.kernels = kernels.ok_or_else(|| Error::internal("no card has fitted laws"))?;
    Ok(())
}

/// The embedded laws, parsed once.
fn fitted() -> Result<&'static (Vec<Fitted>, ClassSpread)> {
    static PARSED: OnceLock<(Vec<Fitted>, ClassSpread)> = OnceLock::new();
    if let Some(parsed) = PARSED.get() {
        return Ok(parsed);
    }
    let cards = KERNELS
        .iter()
        .map(|e| parse(e.text, &format!("models/kernels/{}.toml", e.id)));
    let all: Vec<Fitted> = cards.collect::<Result<_>>()?;
    let spread = parse(CLASS, "models/kernels/class.toml")?;
    Ok(PARSED.get_or_init(|| (all, spread)))
}

/// How far predictions were off, by card.
///
/// # Errors
/// Internal: the embedded file is broken.
pub fn expected() -> Result<Expected> {
    parse(EXPECTED, "models/expected.toml")
}

/// Ids of the cards whose kernels were measured, in order.
pub fn measured_ids() -> Vec<&'static str> {
    KERNELS.iter().map(|e| e.id).collect()
}

/// A runtime by catalog name, or path.
///
/// # Errors
/// As [`hardware`].
pub fn runtime(name: &str) -> Result<Runtime> {
    if extension(name) == Some("toml") {
        let text = read(name)?;
        let runtime: Runtime = parse(&text, name)?;
        lint::runtime(&runtime, &text, name)?;
        return Ok(runtime);
    }
    let entry = Shelf::Runtimes.entry(name)?;
    parse(entry.text, &format!("models/runtimes/{}.toml", entry.id))
}

/// The shelf on which a TOML file would stand, by the keys it has.
///
/// # Errors
/// Usage: unreadable. Data: not TOML, or neither a model, a machine nor a runtime.
pub fn shelf_of_file(path: &str) -> Result<Shelf> {
    let text = read(path)?;
    let table: toml::Table = parse(&text, path)?;
    let marks = [
        (Shelf::Models, "hidden"),
        (Shelf::Hardware, "gpu"),
        (Shelf::Runtimes, "step_gap"),
    ];
    let found = marks.into_iter().find(|(_, key)| table.contains_key(*key));
    found.map(|(shelf, _)| shelf).ok_or_else(|| {
        Error::data(format!(
            "{path} describes neither a model (`hidden`), hardware (`gpu`) nor a runtime (`step_gap`)"
        ))
        .help("say which: `kvplan show hardware FILE`")
    })
}

/// Ids of all models, in order.
pub fn model_ids() -> Vec<&'static str> {
    Shelf::Models.ids()
}

/// Ids of all machines, in order.
pub fn hardware_ids() -> Vec<&'static str> {
    Shelf::Hardware.ids()
}

/// Ids of all runtimes, in order.
pub fn runtime_ids() -> Vec<&'static str> {
    Shelf::Runtimes.ids()
}

/// The extension of a path, where it is one that is read instead of a name: `toml` or `json`.
pub fn extension(name: &str) -> Option<&'static str> {
    let found = Path::new(name.trim()).extension()?;
    ["toml", "json"]
        .into_iter()
        .find(|e| found.eq_ignore_ascii_case(e))
}

/// Reads a text file of bounded size.
fn read(path: &str) -> Result<String> {
    let cannot = |e: std::io::Error| Error::usage(format!("{path}: cannot be read: {e}"));
    if Path::new(path).is_dir() {
        return Err(Error::usage(format!("{path} is a folder, not a file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(FILE_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(cannot)?;
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(Error::data(format!(
            "{path}: larger than {} MiB, which no such file is",
            FILE_LIMIT >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|e| {
        Error::data(format!(
            "{path}: not text: byte {} is not UTF-8",
            e.utf8_error().valid_up_to()
        ))
    })
}

/// Parses TOML, with the place of an error.
fn parse<T: DeserializeOwned>(text: &str, path: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| {
        let span = e.span().unwrap_or(0..0);
        let message = e.message().trim().to_string();
        let error = Error::data(message.clone()).at(path, text, span);
        match suggestion(&message) {
            Some(key) => error.help(format!("did you mean `{key}`?")),
            None => error,
        }
    })
}

/// The nearest of the expected keys to an unknown one, from the parser's own sentence.
fn suggestion(message: &str) -> Option<&str> {
    let mut quoted = message
        .strip_prefix("unknown field ")?
        .split('`')
        .skip(1)
        .step_by(2);
    let given = quoted.next()?;
    did_you_mean(given, quoted)
}
