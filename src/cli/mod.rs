//! The command line: one file a verb, no arithmetic.
//!
//! stdout carries the result only and is a function of inputs and seed; everything else goes to stderr. Exit codes:
//! 0 answer; 1 ran, but the answer is no; 2 usage, what was asked; 3 bad data, what stands in a file; 4 no device; 70 a bug; 130 interrupted;
//! a closed pipe ends quietly with 0. All writing goes through [`out::Out`]: it creates the result file before the run,
//! writes it beside and renames it, so a killed run leaves either the old file or the new one. The flags of a
//! deployment are made from the table of settings in `scenario` and are the same for every verb.

pub mod calibrate;
pub mod compare;
pub mod doctor;
pub mod drawing;
mod ending;
pub mod eval;
pub mod explain;
pub mod find;
pub mod fit;
pub mod flags;
pub mod grid;
pub mod interrupt;
pub mod list;
pub mod man;
mod measured;
mod negative;
pub mod out;
mod pair;
mod part;
pub mod plan;
pub mod plot;
pub mod progress;
pub mod record;
pub mod render;
pub mod report;
pub mod reproduce;
pub mod rerun;
mod resumed;
mod same;
pub mod saved;
pub mod schema;
pub mod selfcheck;
#[cfg(feature = "serve")]
pub mod serve;
pub mod show;
pub mod simulate;
pub mod sweep;
pub mod trace;
pub mod validate;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::error::{Cause, Error, Result};
use crate::units::text::printable;
use out::Out;

/// What a KV cache kept partly outside GPU memory costs, saves and risks on your machine.
#[derive(Debug, Parser)]
#[command(
    name = "kvplan",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_long_help = "EXAMPLES:\n  kvplan plan\n  kvplan plan --model llama-3.1-8b --weights bf16 --hardware rtx-4090,l40s --batch 16\n  \
        kvplan simulate --hardware gh200 --t1 host-attention --format json -o result.json\n  \
        kvplan explain result.json memory.kv_full_bytes\n  kvplan report -o report.html\n  kvplan list hardware\n\n\
        EXIT CODES: 0 answer; 1 ran, but the answer is no; 2 usage (what was asked); 3 bad data (what stands in a file); 4 no device; 70 a bug; 130 interrupted"
)]
struct Cli {
    /// Colour: a flag goes over `NO_COLOR`, that over `CLICOLOR_FORCE`, that over what the terminal can do.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    color: Color,
    /// No notes on stderr.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// More on stderr: how long it took.
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
#[rustfmt::skip] // help texts read best as one line each
enum Command {
    /// Runs one deployment: what fits, how fast, what it saves and risks.
    Simulate(Box<simulate::SimulateArgs>),
    /// Compares every way to serve a question on several cards, and says which to take.
    Plan(Box<plan::PlanArgs>),
    /// Runs a grid of deployments: what varies, what is best, what is equal.
    Sweep(Box<sweep::SweepArgs>),
    /// Lists what is in the binary: models, hardware, runtimes, policies, traces.
    List(list::ListArgs),
    /// Shows one model, machine, runtime or policy, factor by factor.
    Show(show::ShowArgs),
    /// Prints the formula, the values and the sources behind one figure of a result.
    Explain(explain::ExplainArgs),
    /// Lays saved results out as one HTML file, or as markdown.
    Report(report::ReportArgs),
    /// Computes a saved result again from the question it holds.
    Rerun(rerun::RerunArgs),
    /// Serves a page on this machine that plans as its sliders move.
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    /// Holds the laws of the simulator against your own scenario; exit 1 if one is broken.
    Selfcheck(Box<selfcheck::SelfcheckArgs>),
    /// Sets each published figure of the paper beside ours, with the arithmetic.
    Reproduce(reproduce::ReproduceArgs),
    /// Fits the laws of kernels on tables of measurements.
    Fit(fit::FitArgs),
    /// Holds predictions against tables of real measurements.
    Validate(validate::ValidateArgs),
    /// Measures this machine and fits a profile for --hardware.
    Calibrate(calibrate::CalibrateArgs),
    /// Says what this machine is and whether it can be calibrated.
    Doctor(doctor::DoctorArgs),
    /// Sets a plan's memory beside what an engine printed, or one calibrated profile beside another.
    Compare(compare::CompareArgs),
    /// Draws tokens per request against tokens/s for one card.
    Plot(Box<plot::PlotArgs>),
    /// Records a real model's attention: prompts in, traces (.kvt) out.
    Record(Box<record::RecordArgs>),
    /// Measures what tiering policies do to a real model: accuracy, texts, divergence.
    Eval(Box<eval::EvalArgs>),
    /// Imports, checks and prints recorded attention (.kvt).
    Trace { #[command(subcommand)] command: trace::TraceCommand },
    /// Prints a completion script for a shell.
    Completions(man::CompletionsArgs),
    /// Prints a manual page.
    Man(man::ManArgs),
    /// Prints the JSON schema of a result or a scenario.
    Schema(schema::SchemaArgs),
}

/// Whether the answer is yes (exit 0) or no (exit 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is an answer.
    Yes,
    /// It ran, but the answer is no: it does not fit.
    No,
}

impl Answer {
    /// Yes if `yes`.
    fn of(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    render::on_panic();
    threads();
    interrupt::install();
    let outcome = std::panic::catch_unwind(|| start(std::env::args_os()));
    ExitCode::from(outcome.unwrap_or(70))
}

/// One worker a core at most: more only wait for each other, whatever `RAYON_NUM_THREADS` says.
fn threads() {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let asked = std::env::var("RAYON_NUM_THREADS")
        .ok()
        .and_then(|t| t.parse().ok())
        .filter(|n| *n > 0);
    let n = asked.unwrap_or(cores).min(cores);
    rayon::ThreadPoolBuilder::new()
        .num_threads(n)
        .build_global()
        .ok(); // only the first call counts
}

/// The command line as clap knows it: every verb with every flag.
pub fn command() -> clap::Command {
    Cli::command()
}

fn start(args: impl IntoIterator<Item = std::ffi::OsString>) -> u8 {
    let cli = match Cli::try_parse_from(negative::joined(args)) {
        Ok(cli) => cli,
        Err(e) => return clap_exit(&e),
    };
    let mut out = Out::new(cli.color.stdout(), cli.quiet, cli.verbose);
    match run(&cli.command, &mut out).and_then(|answer| out.finish().map(|()| answer)) {
        Ok(Answer::Yes) => 0,
        Ok(Answer::No) => 1,
        Err(e) => {
            render::error(&e, cli.color.stderr());
            e.exit_code()
        }
    }
}

fn run(command: &Command, out: &mut Out) -> Result<Answer> {
    let done = |r: Result<()>| r.map(|()| Answer::Yes);
    match command {
        Command::Simulate(args) => simulate::run(args, out),
        Command::Plan(args) => plan::run(args, out),
        Command::Sweep(args) => sweep::run(args, out),
        Command::List(args) => done(list::run(args, out)),
        Command::Show(args) => done(show::run(args, out)),
        Command::Explain(args) => done(explain::run(args, out)),
        Command::Selfcheck(args) => selfcheck::run(args, out),
        #[cfg(feature = "serve")]
        Command::Serve(args) => done(serve::run(args, out)),
        Command::Reproduce(args) => done(reproduce::run(args, out)),
        Command::Fit(args) => done(fit::run(args, out)),
        Command::Validate(args) => done(validate::run(args, out)),
        Command::Calibrate(args) => done(calibrate::run(args, out)),
        Command::Doctor(args) => done(doctor::run(args, out)),
        Command::Compare(args) => compare::run(args, out),
        Command::Plot(args) => plot::run(args, out),
        Command::Record(args) => done(record::run(args, out)),
        Command::Eval(args) => done(eval::run(args, out)),
        Command::Report(args) => done(report::run(args, out)),
        Command::Rerun(args) => rerun::run(args, out),
        Command::Trace { command } => {
            let _watch = progress::watch("working", command.bytes(), out.quiet());
            done(trace::run(command, out))
        }
        Command::Completions(args) => done(man::completions(args, Cli::command(), out)),
        Command::Man(args) => done(man::man(args, Cli::command(), out)),
        Command::Schema(args) => done(schema::run(args, out)),
    }
}

/// Help and version are answers (0); usage errors are 2, as everywhere.
fn clap_exit(error: &clap::Error) -> u8 {
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    let told = error.to_string();
    let cropped = printable(&render::crop(&told, 4000));
    if code == 0 || cropped == told {
        error.print().ok(); // a closed pipe is no error
    } else {
        render::plain(&cropped);
    }
    code
}

impl Color {
    fn stdout(self) -> bool {
        self.decide(std::io::IsTerminal::is_terminal(&std::io::stdout()))
    }

    fn stderr(self) -> bool {
        self.decide(std::io::IsTerminal::is_terminal(&std::io::stderr()))
    }

    fn decide(self, terminal: bool) -> bool {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto if std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) => false,
            Self::Auto => set("CLICOLOR_FORCE") || terminal,
        }
    }
}

/// A file's bytes, at most `most` of them: a device has no length and no end.
pub(crate) fn read_bounded(path: &std::path::Path, most: u64) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(most)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An error of writing the result.
pub(crate) fn write_failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(Cause::Usage, format!("cannot write {what}: {error}"))
        .help("name a file in a folder you may write to with -o, or `-` for stdout")
}
