//! `kvplan show`: one model, machine, runtime or policy, every factor and every source.

mod machine;
mod model;
mod policy;

use std::io::Write;

use crate::catalog::{self, Shelf};
use crate::error::{Error, Result, did_you_mean};
use crate::model::{KvFormat, Model, WeightFormat};
use crate::report::table::{WIDTH, wrap};

/// Form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For people.
    Table,
    /// One JSON object, base units.
    Json,
    /// The embedded file itself, to copy and change.
    Toml,
}

/// Arguments of `show`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan show h100-sxm\n  kvplan show model llama-3.1-8b --kv fp8\n  \
    kvplan show hardware h100-sxm --format toml > mine.toml\n  kvplan plan --hardware mine.toml,h100-sxm"
)]
pub struct ShowArgs {
    /// `[model|hardware|runtime|policy] NAME`; NAME may be a path to a .toml or, for a model, a config.json
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    pub words: Vec<String>,
    /// KV format of a model [default: fp16]
    #[arg(long, value_name = "FORMAT")]
    pub kv: Option<String>,
    /// Only this weight format of a model (default: every named one)
    #[arg(long, value_name = "FORMAT")]
    pub weights: Option<String>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Table, value_name = "FORMAT")]
    pub format: Form,
}

/// What a name can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    On(Shelf),
    Policy,
}

const KINDS: [(&str, &str, Kind); 4] = [
    ("model", "models", Kind::On(Shelf::Models)),
    ("hardware", "hardware", Kind::On(Shelf::Hardware)),
    ("runtime", "runtimes", Kind::On(Shelf::Runtimes)),
    ("policy", "policies", Kind::Policy),
];

/// Shows what was named.
///
/// # Errors
/// Usage: no such kind, name or format. What reading a file can say. The output cannot be written.
pub fn run(args: &ShowArgs, out: &mut dyn Write) -> Result<()> {
    let (kind, name) = target(&args.words)?;
    args.refuse_idle(kind, name)?;
    let text = match kind {
        Kind::Policy => policy::text(name, args.format)?,
        Kind::On(shelf) if args.format == Form::Toml => shelf.text(name)?.to_string(),
        Kind::On(Shelf::Models) => model_text(args, name)?,
        Kind::On(Shelf::Hardware) => {
            machine::hardware(&catalog::hardware(name)?, args.format == Form::Json)?
        }
        Kind::On(Shelf::Runtimes) => {
            machine::runtime(&catalog::runtime(name)?, args.format == Form::Json)?
        }
    };
    let text = match args.format {
        Form::Table => narrow(&text),
        _ => text,
    };
    out.write_all(text.as_bytes())
        .map_err(|e| Error::usage(format!("cannot write the answer: {e}")))
}

impl ShowArgs {
    /// Refuses flags that would change nothing.
    fn refuse_idle(&self, kind: Kind, name: &str) -> Result<()> {
        let toml = self.format == Form::Toml;
        if toml && catalog::extension(name).is_some() {
            return Err(Error::usage(format!("{name}: is a file already"))
                .help("copy it; --format toml prints a file of the binary"));
        }
        let given = [("--kv", &self.kv), ("--weights", &self.weights)];
        let idle = given.iter().find(|(_, value)| value.is_some());
        match idle.filter(|_| toml || kind != Kind::On(Shelf::Models)) {
            Some((flag, _)) => Err(Error::usage(format!("{flag} changes nothing here")).help(
                format!("leave {flag} out: it is about the table or the JSON of a model"),
            )),
            None => Ok(()),
        }
    }
}

/// Prose of at most [`WIDTH`] columns; tables are already.
fn narrow(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if line.chars().count() <= WIDTH {
            out.push_str(line);
        } else {
            out.push_str(&wrap(line, WIDTH, "", "  ").join("\n"));
        }
        out.push('\n');
    }
    out
}

fn model_text(args: &ShowArgs, name: &str) -> Result<String> {
    let model = catalog::model(name)?;
    let formats = match &args.weights {
        Some(w) => vec![WeightFormat::parse(w)?],
        None => formats_of(&model),
    };
    formats.iter().try_for_each(|f| model.accepts(f))?;
    let kv = KvFormat::parse(args.kv.as_deref().unwrap_or("fp16"))?;
    let view = model::View {
        model: &model,
        kv,
        formats: &formats,
    };
    if args.format == Form::Json {
        view.json()
    } else {
        Ok(view.text())
    }
}

/// Every named format that says something about the model.
fn formats_of(model: &Model) -> Vec<WeightFormat> {
    let mut all = WeightFormat::named();
    all.retain(|f| *f != WeightFormat::Mxfp4 || model.has_experts());
    all
}

/// The kind and the name that the words mean.
fn target(words: &[String]) -> Result<(Kind, &str)> {
    match words {
        [name] => Ok((guess(name)?, name)),
        [kind, name] => {
            let found = KINDS
                .iter()
                .find(|(one, many, _)| kind == one || kind == many);
            found.map(|(_, _, k)| (*k, name.as_str())).ok_or_else(|| {
                let kinds = KINDS.map(|(one, _, _)| one);
                let near = did_you_mean(kind, kinds)
                    .map_or(String::new(), |k| format!("did you mean `{k}`? "));
                Error::usage(format!("`{kind}` is not a kind of thing to show"))
                    .help(format!("{near}kinds: {}", kinds.join(", ")))
            })
        }
        _ => Err(Error::usage("`show` takes a kind and a name")),
    }
}

/// The kind of a bare name or path.
fn guess(name: &str) -> Result<Kind> {
    if let Some(shelf) = Shelf::ALL.into_iter().find(|s| s.has(name)) {
        return Ok(Kind::On(shelf));
    }
    let word = name.split(':').next().unwrap_or(name);
    if crate::policy::names().contains(&word) {
        return Ok(Kind::Policy);
    }
    match catalog::extension(name) {
        Some("json") => Ok(Kind::On(Shelf::Models)),
        Some(_) => catalog::shelf_of_file(name).map(Kind::On),
        None => Err(unknown(name)),
    }
}

/// A name that is nowhere, with the nearest of each kind.
fn unknown(name: &str) -> Error {
    let shelves = Shelf::ALL
        .into_iter()
        .filter_map(|s| s.nearest(name).map(|n| (s.singular(), n)));
    let policy = did_you_mean(name, crate::policy::names().iter().copied()).map(|n| ("policy", n));
    let near: Vec<String> = shelves
        .chain(policy)
        .map(|(kind, n)| format!("`{n}` ({kind})"))
        .collect();
    let guess = if near.is_empty() {
        String::new()
    } else {
        format!("did you mean {}? ", near.join(" or "))
    };
    Error::usage(format!("`{name}` is not in the catalog")).help(format!(
        "{guess}`kvplan list models`, `hardware`, `runtimes` and `policies` show what is"
    ))
}
