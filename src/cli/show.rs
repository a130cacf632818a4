//! `kvplan show`: one model, machine or runtime, every factor and every source.

mod machine;
mod model;

use std::io::Write;

use crate::catalog::{self, Shelf};
use crate::error::{Error, Result, did_you_mean};
use crate::model::{KvFormat, Model, WeightFormat};

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
pub struct ShowArgs {
    /// `[model|hardware|runtime] NAME`; NAME may be a path to a .toml or, for a model, a config.json
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    pub words: Vec<String>,
    /// KV format of a model
    #[arg(long, default_value = "fp16", value_name = "FORMAT")]
    pub kv: String,
    /// Only this weight format of a model (default: every named one)
    #[arg(long, value_name = "FORMAT")]
    pub weights: Option<String>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Table, value_name = "FORMAT")]
    pub format: Form,
}

/// Shows what was named.
///
/// # Errors
/// Usage: no such kind, name or format. What reading a file can say. The output cannot be written.
pub fn run(args: &ShowArgs, out: &mut dyn Write) -> Result<()> {
    let (shelf, name) = target(&args.words)?;
    let text = match (args.format, shelf) {
        (Form::Toml, _) => shelf.text(name)?.to_string(),
        (form, Shelf::Models) => {
            let model = catalog::model(name)?;
            let formats = match &args.weights {
                Some(w) => vec![WeightFormat::parse(w)?],
                None => formats_of(&model),
            };
            formats.iter().try_for_each(|f| model.accepts(f))?;
            let kv = KvFormat::parse(&args.kv)?;
            let view = model::View { model: &model, kv, formats: &formats };
            if form == Form::Json { view.json()? } else { view.text() }
        }
        (form, Shelf::Hardware) => machine::hardware(&catalog::hardware(name)?, form == Form::Json)?,
        (form, Shelf::Runtimes) => machine::runtime(&catalog::runtime(name)?, form == Form::Json)?,
    };
    out.write_all(text.as_bytes()).map_err(|e| Error::usage(format!("cannot write the answer: {e}")))
}

/// Every named format that says something about the model.
fn formats_of(model: &Model) -> Vec<WeightFormat> {
    let mut all = WeightFormat::named();
    all.retain(|f| *f != WeightFormat::Mxfp4 || model.has_experts());
    all
}

/// The shelf and the name that the words mean.
fn target(words: &[String]) -> Result<(Shelf, &str)> {
    match words {
        [name] => Ok((guess(name)?, name)),
        [kind, name] => {
            let found = Shelf::ALL.into_iter().find(|s| kind == s.singular() || kind == s.plural());
            found.map(|s| (s, name.as_str())).ok_or_else(|| {
                let kinds = Shelf::ALL.map(Shelf::singular);
                let near = did_you_mean(kind, kinds).map_or(String::new(), |k| format!("did you mean `{k}`? "));
                Error::usage(format!("`{kind}` is not a kind of thing to show"))
                    .help(format!("{near}kinds: {}", kinds.join(", ")))
            })
        }
        _ => Err(Error::usage("`show` takes a kind and a name")),
    }
}

/// The kind of a bare name or path.
fn guess(name: &str) -> Result<Shelf> {
    if let Some(shelf) = Shelf::ALL.into_iter().find(|s| s.has(name)) {
        return Ok(shelf);
    }
    match catalog::extension(name) {
        Some("json") => return Ok(Shelf::Models),
        Some(_) => return catalog::shelf_of_file(name),
        None => {}
    }
    let near = Shelf::ALL.into_iter().filter_map(|s| s.nearest(name).map(|n| (s, n)));
    let help: Vec<String> = near.map(|(s, n)| format!("`{n}` ({})", s.singular())).collect();
    let guess = if help.is_empty() { String::new() } else { format!("did you mean {}? ", help.join(" or ")) };
    Err(Error::usage(format!("`{name}` is not in the catalog"))
        .help(format!("{guess}`kvplan list models`, `list hardware` and `list runtimes` show what is")))
}
