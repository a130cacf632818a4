//! The flags of a deployment, made from the table of settings, and where results go.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum, ValueHint};

use crate::error::{Error, Result};
use crate::scenario::keys::{KEYS, Key, Verb};
use crate::scenario::settings::Origin;
use crate::scenario::{Settings, file, inputs};

use super::ending;
use super::out::Out;
use super::same::one_file;

/// Deployment flags and a scenario, as given; `PLAN` has lists of cards.
#[derive(Clone, Debug)]
pub struct Deployment<const PLAN: bool> {
    scenario: Option<PathBuf>,
    given: Vec<(&'static str, Vec<String>)>,
    audit: bool,
    /// Print the merged settings and stop.
    pub print_config: bool,
}

impl<const PLAN: bool> Deployment<PLAN> {
    const VERB: Verb = if PLAN { Verb::Plan } else { Verb::Simulate };

    /// Default < scenario < flag.
    ///
    /// # Errors
    /// The scenario cannot be used; a list where one value is meant (exit 2).
    pub fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::defaults(Self::VERB);
        settings.audit = self.audit;
        if let Some(path) = &self.scenario {
            file::load(path, &mut settings)?;
        }
        for (name, texts) in &self.given {
            settings.set(name, texts, Origin::Flag)?;
        }
        Ok(settings)
    }
}

impl<const PLAN: bool> Deployment<PLAN> {
    /// The first thing given, as it is written: what a verb has no use for.
    pub fn anything(&self) -> Option<String> {
        let scenario = self.scenario.as_ref().map(|p| p.display().to_string());
        let flags = [(self.audit, "audit"), (self.print_config, "print-config")];
        let flags = flags.iter().filter(|f| f.0).map(|f| f.1);
        let mut given = self.given.iter().map(|(name, _)| *name).chain(flags);
        scenario.or_else(|| given.next().map(|name| format!("--{name}")))
    }

    /// Whether a flag was given.
    pub fn gives(&self, name: &str) -> bool {
        self.given.iter().any(|(n, _)| *n == name)
    }

    /// Takes out the values of a flag that was given more than once.
    pub fn take_several(&mut self, name: &str) -> Option<Vec<String>> {
        let several = |(n, texts): &(&str, Vec<String>)| *n == name && texts.len() > 1;
        let at = self.given.iter().position(several)?;
        Some(self.given.remove(at).1)
    }
}

fn flag(key: &Key, verb: Verb) -> Arg {
    let words = match key.words {
        [] => String::new(),
        words => format!(" [{}]", words.join(", ")),
    };
    let arg = Arg::new(key.name)
        .long(key.name)
        .value_name(key.value)
        .help(format!("{}{words}", key.help))
        .allow_negative_numbers(true)
        .help_heading("Deployment")
        .action(if key.many(verb) {
            ArgAction::Append
        } else {
            ArgAction::Set
        });
    let arg = match key.default(verb) {
        Some(default) => arg.default_value(default),
        None => arg,
    };
    if key.name == "trace" {
        arg.value_hint(ValueHint::FilePath)
    } else {
        arg
    }
}

impl<const PLAN: bool> Args for Deployment<PLAN> {
    fn augment_args(command: Command) -> Command {
        let scenario = Arg::new("scenario")
            .value_name("SCENARIO")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Scenario: a .toml file, or default, desktop or long-chain in the binary; flags go over it");
        let audit = Arg::new("audit")
            .long("audit")
            .action(ArgAction::SetTrue)
            .help("Check the laws of the simulator in every step (slower)");
        let config = Arg::new("print-config")
            .long("print-config")
            .action(ArgAction::SetTrue)
            .help("Print the merged scenario, each value with who decided it, and stop");
        command
            .arg(scenario)
            .args(KEYS.iter().map(|k| flag(k, Self::VERB)))
            .args([audit, config])
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const PLAN: bool> FromArgMatches for Deployment<PLAN> {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let said = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let texts = |name: &str| -> Vec<String> {
            matches
                .get_many::<String>(name)
                .into_iter()
                .flatten()
                .cloned()
                .collect()
        };
        let given = KEYS
            .iter()
            .filter(|k| said(k.name))
            .map(|k| (k.name, texts(k.name)));
        Ok(Self {
            scenario: matches.get_one::<PathBuf>("scenario").cloned(),
            given: given.collect(),
            audit: matches.get_flag("audit"),
            print_config: matches.get_flag("print-config"),
        })
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// How a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[value(alias("text"))]
    Table,
    /// For programs; base units, the unit in the key.
    Json,
    /// For spreadsheets; base units, the unit in the header.
    Csv,
    /// Markdown tables.
    Md,
}

/// Endings of a result's name, and the format that each asks for.
const ENDINGS: [(&str, Format); 4] = [
    ("json", Format::Json),
    ("csv", Format::Csv),
    ("md", Format::Md),
    ("txt", Format::Table),
];

/// Which of the files that a run reads `out` is, if it is one: the scenario, or one of those that its settings name.
pub(super) fn read_by_the_run<const PLAN: bool>(
    out: &Path,
    named: &[String],
    deployment: &Deployment<PLAN>,
) -> Option<&'static str> {
    let is = |path: &Path| out.exists() && one_file(path, out);
    match &deployment.scenario {
        Some(path) if is(path) => Some("the scenario"),
        _ => named.iter().any(|n| is(Path::new(n))).then_some("a file"),
    }
}

/// Refuses a result in the place of a file that the run reads.
///
/// # Errors
/// It is one of them (exit 2).
pub(super) fn keep_inputs<const PLAN: bool>(
    out: Option<&Path>,
    named: &[String],
    deployment: &Deployment<PLAN>,
) -> Result<()> {
    let Some(out) = out else {
        return Ok(());
    };
    let Some(file) = read_by_the_run(out, named, deployment) else {
        return Ok(());
    };
    Err(Error::usage(format!(
        "{}: the result would replace {file} that the run reads",
        out.display()
    ))
    .help("name another file with -o"))
}

/// Sees that a scenario can be written where it is to go.
///
/// # Errors
/// It cannot be, or its name says another format (exit 2).
pub(super) fn scenario_file(path: Option<&Path>, out: &mut Out) -> Result<()> {
    let Some(path) = path else {
        return Ok(());
    };
    ending::format(path, &[("toml", ()), ("txt", ())], ": a scenario is TOML")?;
    out.to_file(path)
}

/// Where a result goes.
#[derive(Clone, Debug, Args)]
pub struct ResultArgs {
    /// Format of the result [default: by the ending of --out (.json, .csv, .md, .txt), else table].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Result file, written whole or not at all; `-` is stdout.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl ResultArgs {
    /// The result as a file that a journal can lie beside.
    pub fn file(&self) -> Option<&std::path::Path> {
        let path = self.out.as_deref()?;
        let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file());
        (path.as_os_str() != "-" && !special).then_some(path)
    }

    /// The format asked for, or that of the file's ending.
    pub fn format(&self) -> Format {
        let asked = || self.by_name().ok().flatten();
        self.format.or_else(asked).unwrap_or(Format::Table)
    }

    /// The format that the file's name asks for, if it says any.
    ///
    /// # Errors
    /// Its ending is that of no format (exit 2).
    pub fn by_name(&self) -> Result<Option<Format>> {
        let otherwise = ", or say which with --format json, csv, md or table";
        let of = |path: &PathBuf| ending::format(path, &ENDINGS, otherwise);
        Ok(self.out.as_ref().map(of).transpose()?.flatten())
    }

    /// Refuses to overwrite what the run reads: its scenario, and the files that its settings name (models, machines,
    /// recordings, lengths).
    ///
    /// # Errors
    /// The result file is one of them (exit 2).
    pub fn keep<const PLAN: bool>(
        &self,
        named: &[String],
        deployment: &Deployment<PLAN>,
    ) -> Result<()> {
        keep_inputs(self.out.as_deref(), named, deployment)
    }

    /// Sees that the result file can be made, before the run.
    ///
    /// # Errors
    /// It cannot be made, or its ending is that of no format and none is said (exit 2).
    pub fn open(&self, out: &mut Out) -> Result<()> {
        if self.format.is_none() {
            self.by_name()?;
        }
        self.out.as_ref().map_or(Ok(()), |path| out.to_file(path))
    }

    /// The same for a scenario, which is TOML, made from these settings.
    ///
    /// # Errors
    /// It cannot be made, another format is asked for, or it would replace what it is made from (exit 2).
    pub fn open_scenario<const PLAN: bool>(
        &self,
        settings: &Settings,
        deployment: &Deployment<PLAN>,
        out: &mut Out,
    ) -> Result<()> {
        self.keep(&inputs::named(settings), deployment)?;
        if self.format.is_some() {
            return Err(
                Error::usage("--print-config prints a scenario, which has one format")
                    .help("leave --format out: a scenario is TOML"),
            );
        }
        scenario_file(self.out.as_deref(), out)
    }
}
