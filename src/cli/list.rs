//! `kvplan list`: what is in the binary.

use std::io::Write;

use super::grid::{Cell, Column, Form, Grid};
use crate::catalog;
use crate::error::{Error, Result};
use crate::hardware::{Hardware, Source};
use crate::model::{Attention, KvFormat, Model};
use crate::policy;
use crate::trace::{TraceReader, embedded};
use crate::units::text::{group, significant};

/// A shelf to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// Models by name.
    Models,
    /// GPUs with their link and host.
    Hardware,
    /// Serving software.
    Runtimes,
    /// What decides where a token lives.
    Policies,
    /// Recorded attention in the binary.
    Traces,
}

/// Arguments of `list`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "EXAMPLES:\n  kvplan list hardware\n  kvplan list models --format csv")]
pub struct ListArgs {
    /// What to list
    #[arg(value_enum, value_name = "WHAT")]
    pub what: What,
    /// Form of the list
    #[arg(long, value_enum, default_value_t = Form::Table, value_name = "FORMAT")]
    pub format: Form,
}

/// Lists a shelf.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: &ListArgs, out: &mut dyn Write) -> Result<()> {
    let grid = match args.what {
        What::Models => models()?,
        What::Hardware => hardware()?,
        What::Runtimes => runtimes()?,
        What::Policies => policies(),
        What::Traces => traces()?,
    };
    out.write_all(grid.render(args.format)?.as_bytes())
        .map_err(|e| Error::usage(format!("cannot write the list: {e}")))
}

fn models() -> Result<Grid> {
    let mut grid = Grid::new(&[
        Column("name", "NAME", false),
        Column("parameters", "PARAMETERS", true),
        Column("layers", "LAYERS", true),
        Column("attention", "ATTENTION", false),
        Column("kv_fp16_bytes_per_token", "KV/TOKEN FP16", true),
        Column("max_context_tokens", "CONTEXT", true),
        Column("family", "", false),
    ]);
    for id in catalog::model_ids() {
        let m = catalog::model(id)?;
        let kv = m.kv_bytes_per_token(KvFormat::Fp16);
        grid.row(vec![
            Cell::text(id),
            Cell::number(m.parameters() as f64, count(m.parameters())),
            Cell::number(m.layers.len() as f64, m.layers.len().to_string()),
            Cell::text(attention(&m)),
            Cell::number(kv, format!("{} B", group(&format!("{kv:.0}")))),
            Cell::number(f64::from(m.max_context), group(&m.max_context.to_string())),
            Cell::text(&m.family),
        ]);
    }
    Ok(grid)
}

/// `70.6 B` for people.
fn count(parameters: u64) -> String {
    let (scale, unit) = if parameters >= 1_000_000_000 {
        (1e9, "B")
    } else {
        (1e6, "M")
    };
    format!("{} {unit}", significant(parameters as f64 / scale))
}

/// `64 heads, 8 KV` and what else is special.
fn attention(m: &Model) -> String {
    let sliding = m
        .layers
        .iter()
        .filter(|l| l.kv_rule().window.is_some())
        .count();
    let base = match m.layers.first().map(|l| l.attention) {
        Some(Attention::Latent {
            heads,
            kv_rank,
            rope,
            ..
        }) => format!("{heads} heads, latent {kv_rank} + {rope}"),
        Some(Attention::Grouped {
            heads, kv_heads, ..
        }) => format!("{heads} heads, {kv_heads} KV"),
        None => String::new(),
    };
    if sliding == 0 {
        base
    } else {
        format!("{base}, {sliding} of {} layers slide", m.layers.len())
    }
}

fn hardware() -> Result<Grid> {
    let mut grid = Grid::new(&[
        Column("name", "NAME", false),
        Column("memory_bytes", "MEMORY", true),
        Column("hbm_bytes_per_s", "BANDWIDTH", true),
        Column("link", "LINK", false),
        Column("h2d_bytes_per_s", "H2D", true),
        Column("host_memory_bytes", "HOST", true),
        Column("ddr_read_bytes_per_s", "DDR READ", true),
        Column("kernels", "KERNELS", false),
        Column("usd_per_hour", "", true),
    ]);
    for id in catalog::hardware_ids() {
        let h = catalog::hardware(id)?;
        grid.row(vec![
            Cell::text(id),
            Cell::number(h.gpu.memory.get(), h.gpu.memory.show()),
            Cell::number(h.gpu.hbm_bandwidth.get(), h.gpu.hbm_bandwidth.show()),
            Cell::text(&h.link.name),
            Cell::number(h.link.h2d.get(), h.link.h2d.show()),
            Cell::number(h.host.memory.get(), h.host.memory.show()),
            Cell::number(h.host.ddr_read.get(), h.host.ddr_read.show()),
            Cell::text(kernels(&h).word()),
            h.price
                .as_ref()
                .map_or_else(Cell::none, |p| Cell::number(p.get(), p.show())),
        ]);
    }
    Ok(grid)
}

/// Where the kernel figures come from: measured only if attention and 16-bit linear layers are.
fn kernels(h: &Hardware) -> Source {
    h.gpu
        .kernels
        .attention
        .share
        .source
        .max(h.gpu.kernels.linear.share.source)
}

fn runtimes() -> Result<Grid> {
    let mut grid = Grid::new(&[
        Column("name", "NAME", false),
        Column("software", "SOFTWARE", false),
        Column("dated", "DATED", false),
        Column("step_gap_s", "GAP A STEP", true),
        Column("layer_other_s", "", true),
        Column("reserve_bytes", "RESERVE", true),
        Column("batched_tokens", "", true),
        Column("page_tokens", "PAGE", true),
        Column("when_full", "WHEN KV IS FULL", false),
    ]);
    for id in catalog::runtime_ids() {
        let r = catalog::runtime(id)?;
        grid.row(vec![
            Cell::text(id),
            Cell::text(&r.name),
            Cell::text(&r.dated),
            Cell::number(r.step_gap.get(), r.step_gap.show()),
            Cell::number(r.layer_other.get(), r.layer_other.show()),
            Cell::number(r.reserve.get(), r.reserve.show()),
            Cell::number(r.batched_tokens.get(), r.batched_tokens.show()),
            Cell::number(f64::from(r.page_tokens), r.page_tokens.to_string()),
            Cell::text(if r.preempts { "preempts" } else { "waits" }),
        ]);
    }
    Ok(grid)
}

/// Parameters, needs and sources are `show policy NAME`'s: they would not fit beside each other.
fn policies() -> Grid {
    let mut grid = Grid::new(&[
        Column("name", "NAME", false),
        Column("summary", "WHAT IT DOES", false),
        Column("kind", "KIND", false),
    ]);
    for card in policy::cards() {
        let kind = match (card.oracle, card.destroys) {
            (true, _) => "reads the future",
            (false, true) => "destroys",
            (false, false) if card.params.iter().any(|p| p.key == "evict") => "moves, may evict",
            (false, false) => "keeps everything",
        };
        grid.row(vec![
            Cell::text(card.name),
            Cell::text(card.summary),
            Cell::text(kind),
        ]);
    }
    grid
}

fn traces() -> Result<Grid> {
    let mut grid = Grid::new(&[
        Column("name", "NAME", false),
        Column("model", "MODEL", false),
        Column("prompt_tokens", "PROMPT", true),
        Column("rows", "ROWS", true),
        Column("averaging", "A ROW IS", false),
        Column("file_bytes", "BYTES", true),
    ]);
    for (name, bytes) in embedded() {
        let t = TraceReader::from_bytes(name, bytes)?;
        let whole = |n: u64| Cell::number(n as f64, group(&n.to_string()));
        grid.row(vec![
            Cell::text(*name),
            Cell::text(&t.header().model),
            whole(t.prompt().into()),
            whole(t.rows().into()),
            Cell::text(&t.header().averaging),
            whole(t.file_bytes()),
        ]);
    }
    Ok(grid)
}
