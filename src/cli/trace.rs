//! `kvplan trace`: import, look into, check, export, draw and continue recorded attention.
//!
//! A FILE is a path, or the name of a trace in the binary (`kvplan trace info smol_1_t9_s5`). Exit codes: 0 fine;
//! 1 `verify` found a sound but unfinished file; 2 a path that cannot be read or written; 3 damaged or impossible data.

use super::interrupt;
use super::part::remove_stale;
use super::same::keep;
use crate::error::{Cause, Error, Result};
use crate::trace::{Rows, TraceReader, beside, export, find, half, import, stats, synth, verify};
use crate::units::Bytes;
use crate::units::text::{group, printable, show_bytes};
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Verbs of `trace`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum TraceCommand {
    /// Turns .npy, .npz, .safetensors, a raw pair's .json or a partial .kvt into a .kvt trace.
    Import(ImportArgs),
    /// Says what a trace holds and where its attention lies.
    Info(InfoArgs),
    /// Prints the first rows, one line a row.
    Head(HeadArgs),
    /// Reads everything: checksums, weights, row sums. Exit 1 if sound but unfinished, 3 if damaged.
    Verify(VerifyArgs),
    /// Writes a raw pair: OUT.json and OUT.rows.f16 (and OUT.layers.f16 where there are per-layer rows).
    Export(ExportArgs),
    /// Draws a trace from a few numbers, or continues a recorded one by its fitted shape.
    Synth(SynthArgs),
}

impl TraceCommand {
    /// Bytes it will read or write, for a progress bar: the size of its file.
    pub fn bytes(&self) -> u64 {
        let path = match self {
            Self::Import(a) => a.file.clone(),
            Self::Info(a) => PathBuf::from(&a.file),
            Self::Head(a) => PathBuf::from(&a.file),
            Self::Verify(a) => PathBuf::from(&a.file),
            Self::Export(a) => PathBuf::from(&a.file),
            Self::Synth(a) => return a.bytes(),
        };
        std::fs::metadata(path).map_or(0, |m| m.len())
    }
}

/// Arguments of `trace import`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "EXAMPLES:\n  kvplan trace import rows.json -o mine.kvt")]
pub struct ImportArgs {
    /// Arrays are named `rows`, `prompt`, `layers`, `column_sums`; rows are padded (rows x positions) or one after another.
    pub file: PathBuf,
    /// Trace to write.
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
    /// Prompt tokens, where the file does not say; what it says must agree.
    #[arg(long, value_name = "N")]
    pub prompt: Option<u32>,
    /// Model that was recorded; takes the place of what the file says.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

/// Arguments of `trace info`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan trace info smol_1_t9_s5\n  kvplan trace info mine.kvt --format json"
)]
pub struct InfoArgs {
    /// Path, or name of a trace in the binary.
    pub file: String,
    /// Generated tokens counted as recent.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub window: u32,
    /// How to print.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = TraceFormat::Table)]
    pub format: TraceFormat,
}

/// Arguments of `trace head`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "EXAMPLES:\n  kvplan trace head smol_1_t9_s5 -n 3")]
pub struct HeadArgs {
    /// Path, or name of a trace in the binary.
    pub file: String,
    /// Rows to print.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5)]
    pub rows: u32,
}

/// Arguments of `trace verify`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "EXAMPLES:\n  kvplan trace verify mine.kvt")]
pub struct VerifyArgs {
    /// Path, or name of a trace in the binary.
    pub file: String,
    /// How to print.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = TraceFormat::Table)]
    pub format: TraceFormat,
}

/// Arguments of `trace export`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "EXAMPLES:\n  kvplan trace export smol_1_t9_s5 -o rows.json")]
pub struct ExportArgs {
    /// Path, or name of a trace in the binary.
    pub file: String,
    /// JSON to write; rows go beside it.
    #[arg(short, long, value_name = "FILE.json")]
    pub out: PathBuf,
}

/// Arguments of `trace synth`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan trace synth --prompt 128 --rows 2000 -o drawn.kvt\n  kvplan trace synth --like smol_1_t9_s5 --steps 4000 -o longer.kvt"
)]
pub struct SynthArgs {
    /// Trace to write.
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
    /// Random seed: equal seeds give equal rows.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::record::whole::<u64>)]
    pub seed: u64,
    /// Recorded trace to continue: its rows are kept, drawn ones follow.
    #[arg(long, value_name = "TRACE", requires = "steps", conflicts_with_all = ["prompt", "rows", "sinks", "recency", "middle", "heavy", "drift", "revisit"])]
    pub like: Option<String>,
    /// Rows of the continued trace, recorded ones included.
    #[arg(long, value_name = "N", requires = "like")]
    pub steps: Option<u32>,
    /// Prompt tokens.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub prompt: u32,
    /// Rows to draw.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub rows: u32,
    /// Numbers of the shape.
    #[command(flatten)]
    pub shape: ShapeArgs,
}

impl SynthArgs {
    /// Bytes of the rows it will write, if the prompt is as given.
    fn bytes(&self) -> u64 {
        let rows = u64::from(self.steps.unwrap_or(self.rows));
        rows * (2 * u64::from(self.prompt) + rows + 1)
    }
}

/// The shape of a drawn trace; defaults are those of the shipped `SmolLM2` traces.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ShapeArgs {
    /// Share on the first four positions.
    #[arg(long, value_name = "SHARE", default_value_t = synth::Shape::default().sinks, allow_negative_numbers = true)]
    pub sinks: f64,
    /// Share on the latest 128 tokens.
    #[arg(long, value_name = "SHARE", default_value_t = synth::Shape::default().recency, allow_negative_numbers = true)]
    pub recency: f64,
    /// Share on older generated tokens after 1,000 steps; what the three leave goes to the prompt.
    #[arg(long, value_name = "SHARE", default_value_t = synth::Shape::default().middle, allow_negative_numbers = true)]
    pub middle: f64,
    /// Share of the tokens that are heavy hitters, which do not decay.
    #[arg(long, value_name = "SHARE", default_value_t = synth::Shape::default().heavy, allow_negative_numbers = true)]
    pub heavy: f64,
    /// Share of the heavy hitters that cease to be any within 64 steps.
    #[arg(long, value_name = "SHARE", default_value_t = synth::Shape::default().drift, allow_negative_numbers = true)]
    pub drift: f64,
    /// Spread (of logs) with which stretches of text are revisited, from one 64 rows to the next.
    #[arg(long, value_name = "SPREAD", default_value_t = synth::Shape::default().revisit, allow_negative_numbers = true)]
    pub revisit: f64,
}

impl ShapeArgs {
    fn shape(self) -> synth::Shape {
        let plain = |x: f64| x + 0.0; // -0 is 0
        synth::Shape {
            sinks: plain(self.sinks),
            recency: plain(self.recency),
            middle: plain(self.middle),
            heavy: plain(self.heavy),
            drift: plain(self.drift),
            revisit: plain(self.revisit),
        }
    }
}

/// How `info` and `verify` print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Runs a verb of `trace`.
///
/// # Errors
/// See the module's exit codes.
pub fn run(command: &TraceCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        TraceCommand::Import(args) => run_import(args, out),
        TraceCommand::Info(args) => info(args, out),
        TraceCommand::Head(args) => head(args, out),
        TraceCommand::Verify(args) => run_verify(args, out),
        TraceCommand::Export(args) => run_export(args, out),
        TraceCommand::Synth(args) => run_synth(args, out),
    }
}

fn run_import(args: &ImportArgs, out: &mut dyn Write) -> Result<()> {
    let options = import::Options {
        prompt: args.prompt,
        model: args.model.clone(),
    };
    check_apart(&args.file, &args.out)?;
    let part = begun(Some(&args.file), &args.out);
    let made = import::import(&args.file, &options, &args.out)?;
    interrupt::release(&part);
    line(
        out,
        &format!(
            "{}: {} rows after a prompt of {} tokens",
            args.out.display(),
            count(made.rows),
            count(made.prompt)
        ),
    )
}

/// The half of a file that is now made `from` another, removed if the run is interrupted; those of dead processes go, but not
/// where one of them may be what it is made from.
fn begun(from: Option<&Path>, out: &Path) -> PathBuf {
    if from.is_none_or(|f| f.extension().is_none_or(|e| e != "part")) {
        remove_stale(out);
    }
    let part = beside::stale_name(out, std::process::id());
    interrupt::guard(&part);
    part
}

/// Refuses to write a trace over the one it is made from.
fn check_apart(from: &Path, to: &Path) -> Result<()> {
    keep(
        [from],
        Some(to),
        "the trace would replace what it is made from",
    )
}

fn run_export(args: &ExportArgs, out: &mut dyn Write) -> Result<()> {
    let reader = find(&args.file)?;
    let parts: Vec<PathBuf> = export::targets(&reader, &args.out)?
        .iter()
        .map(|t| begun(None, t))
        .collect();
    export::export(&reader, &args.out)?;
    for part in &parts {
        interrupt::release(part);
    }
    let rows = group(&reader.rows().to_string());
    line(out, &format!("{}: {rows} rows", args.out.display()))
}

fn run_synth(args: &SynthArgs, out: &mut dyn Write) -> Result<()> {
    let part = begun(args.like.as_deref().map(Path::new), &args.out);
    let (rows, from) = if let (Some(like), Some(steps)) = (&args.like, args.steps) {
        check_apart(Path::new(like), &args.out)?;
        let reader = find(like)?;
        (
            steps,
            synth::continued(&reader, steps, args.seed, &args.out)?,
        )
    } else {
        synth::fresh(
            &args.shape.shape(),
            args.prompt,
            args.rows,
            args.seed,
            &args.out,
        )?;
        (args.rows, 0)
    };
    interrupt::release(&part);
    line(
        out,
        &format!(
            "{}: {} rows, drawn from row {} on",
            args.out.display(),
            count(rows),
            count(from)
        ),
    )
}

fn info(args: &InfoArgs, out: &mut dyn Write) -> Result<()> {
    let reader = find(&args.file)?;
    let mass = stats::mass_shares(&reader, args.window, 0)?;
    match args.format {
        TraceFormat::Json => line(out, &pretty(&info_json(&reader, args.window, mass))),
        TraceFormat::Table => info_table(&reader, args.window, mass, out),
    }
}

fn info_json(reader: &TraceReader, window: u32, mass: Option<stats::MassShares>) -> Value {
    let header = reader.header();
    json!({
        "name": reader.name(),
        "model": header.model,
        "architecture": header.architecture,
        "quantisation": header.quantisation,
        "weights_sha256": header.weights_sha256,
        "layers": header.layers,
        "heads": header.heads,
        "kv_heads": header.kv_heads,
        "head_dim": header.head_dim,
        "averaging": header.averaging,
        "sampler": header.sampler,
        "forced_tokens": header.forced.len(),
        "prompt": reader.prompt(),
        "rows": reader.rows(),
        "planned_rows": header.planned_rows,
        "synthetic_from": reader.synthetic_from(),
        "partial": reader.is_partial(),
        "file_bytes": reader.file_bytes(),
        "chunk_rows": header.chunk_rows,
        "sections": header.sections.iter().map(|s| &s.kind).collect::<Vec<_>>(),
        "prompt_column_sums": header.prompt_column_sums.is_some(),
        "recorder": header.recorder,
        "recent_window": window,
        "mass": mass,
    })
}

fn info_table(
    reader: &TraceReader,
    window: u32,
    mass: Option<stats::MassShares>,
    out: &mut dyn Write,
) -> Result<()> {
    let header = reader.header();
    let model = [Some(&header.model), header.quantisation.as_ref()];
    let model: Vec<&str> = model.into_iter().flatten().map(String::as_str).collect();
    field(out, "trace", reader.name())?;
    field(out, "model", shown(model.join(" ").trim()))?;
    field(out, "shape", shape(reader))?;
    field(out, "prompt", format!("{} tokens", count(reader.prompt())))?;
    field(out, "rows", rows_text(reader))?;
    if let Some(from) = reader.synthetic_from() {
        field(
            out,
            "synthetic",
            format!("drawn, not recorded, from row {} on", count(from)),
        )?;
    }
    field(out, "file", show_bytes(Bytes(reader.file_bytes())))?;
    let kinds: Vec<&str> = header.sections.iter().map(|s| s.kind.as_str()).collect();
    field(out, "sections", kinds.join(", "))?;
    field(out, "averaging", shown(&header.averaging))?;
    field(out, "recorder", shown(&header.recorder))?;
    let Some(mass) = mass else {
        return field(out, "mass", "no rows");
    };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    field(out, "mass", "mean over rows")?;
    field(
        out,
        "  sinks",
        format!("{}  first {} positions", percent(mass.sinks), stats::SINKS),
    )?;
    field(
        out,
        "  prompt",
        format!("{}  the rest of it", percent(mass.prompt)),
    )?;
    field(
        out,
        "  recent",
        format!("{}  last {window} generated", percent(mass.recent)),
    )?;
    field(
        out,
        "  middle",
        format!("{}  generated before those", percent(mass.middle)),
    )
}

fn shown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

fn count(n: u32) -> String {
    group(&n.to_string())
}

fn rows_text(reader: &TraceReader) -> String {
    let rows = count(reader.rows());
    match (reader.is_partial(), reader.header().planned_rows) {
        (false, _) => rows,
        (true, None) => format!("{rows}, partial: the file ends before its recorder finished"),
        (true, Some(planned)) => {
            format!("{rows} of {}, partial: the file is cut off", count(planned))
        }
    }
}

fn shape(reader: &TraceReader) -> String {
    let header = reader.header();
    let part = |n: Option<u32>, what: &str| n.map(|n| format!("{n} {what}"));
    let parts = [
        header.architecture.clone(),
        part(header.layers, "layers"),
        part(header.heads, "heads"),
        part(header.kv_heads, "KV heads"),
        part(header.head_dim, "wide"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    shown(&parts.join(", ")).to_string()
}

/// One line a row: step, own position, sum, own weight, and the three heaviest positions.
fn head(args: &HeadArgs, out: &mut dyn Write) -> Result<()> {
    let reader = find(&args.file)?;
    line(out, "  row  position       sum       own  heaviest")?;
    let weight = |bits: u16| half::units(bits) as f64 / half::ONE as f64;
    reader.for_each_in(0..args.rows, &mut |t, row| {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|a, b| row[*b].cmp(&row[*a]).then(a.cmp(b)));
        let top = order
            .iter()
            .take(3)
            .map(|&p| format!("{p}:{:.4}", weight(row[p])));
        let top: Vec<String> = top.collect();
        let own = row.last().map_or(0.0, |w| weight(*w));
        let sum = half::sum(row) as f64 / half::ONE as f64;
        let position = row.len() - 1;
        line(
            out,
            &format!(
                "{t:>5}  {position:>8}  {sum:>8.6}  {own:>8.6}  {}",
                top.join("  ")
            ),
        )
    })
}

fn run_verify(args: &VerifyArgs, out: &mut dyn Write) -> Result<()> {
    let reader = find(&args.file)?;
    let found = verify::verify(&reader)?;
    match args.format {
        TraceFormat::Json => line(
            out,
            &pretty(&json!({ "name": reader.name(), "sound": true, "result": found })),
        )?,
        TraceFormat::Table => {
            field(out, "rows", rows_text(&reader))?;
            field(out, "chunks", group(&found.chunks.to_string()))?;
            let worst = format!("{:.2e} in row {}", found.worst_sum_error, found.worst_row);
            field(out, "worst sum", format!("misses 1 by {worst}"))?;
            field(
                out,
                "result",
                if found.partial {
                    "sound, but partial"
                } else {
                    "sound"
                },
            )?;
        }
    }
    if found.partial {
        return Err(Error::new(
            Cause::Infeasible,
            format!(
                "{} is partial: {} whole rows",
                reader.label(),
                reader.rows()
            ),
        )
        .help("it can be used as it is; `kvplan trace import` of it writes a finished file"));
    }
    Ok(())
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

fn field(out: &mut dyn Write, name: &str, value: impl Display) -> Result<()> {
    line(out, &printable(&format!("{name:<10} {value}")))
}

fn line(out: &mut dyn Write, text: &str) -> Result<()> {
    writeln!(out, "{text}").map_err(|e| Error::usage(format!("cannot write the result: {e}")))
}
