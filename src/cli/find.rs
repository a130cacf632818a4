//! `kvplan plan --find`: the most that keeps to limits.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clap::Args;

use crate::error::{Error, Result};
use crate::plan::solve::{Find, Limits, searches, solve};
use crate::report::{Style, json, md, solve as page, table};
use crate::scenario::settings::{Given, Origin};
use crate::scenario::{Question, Settings};
use crate::units::text;

use super::Answer;
use super::flags::Format;
use super::out::Out;
use super::progress;

/// What to find, and under which limits.
#[derive(Clone, Debug, Args)]
#[rustfmt::skip] // help texts read best as one line each
pub struct FindArgs {
    /// Find the most (or least) that keeps to the limits, with the limit that stops it, proven by running the next
    #[arg(long, value_name = "WHAT", value_parser = ["max-batch", "max-context", "max-rate", "min-hbm"], help_heading = "Find")]
    find: Option<String>,
    /// Time per output token at p99, such as 30ms
    #[arg(long, value_name = "TIME", value_parser = time, requires = "find", help_heading = "Find")]
    tpot_p99: Option<f64>,
    /// Time to the first token at p99, such as 2s
    #[arg(long, value_name = "TIME", value_parser = time, requires = "find", help_heading = "Find")]
    ttft_p99: Option<f64>,
    /// HBM in use at most, over all GPUs
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "find", help_heading = "Find")]
    max_hbm: Option<crate::units::Bytes>,
    /// Host memory in use at most
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "find", help_heading = "Find")]
    max_ddr: Option<crate::units::Bytes>,
    /// What a GPU costs an hour in USD [default: that of its profile, if it has one]
    #[arg(long, value_name = "USD", value_parser = price, requires = "find", help_heading = "Find")]
    price: Option<f64>,
}

/// Requests that run together where a rate is searched and nobody says how many: vLLM's default.
const TOGETHER: &str = "256";

impl FindArgs {
    /// What is to be found, if anything.
    pub fn find(&self) -> Option<Find> {
        let word = self.find.as_deref()?;
        let known = Find::WORDS.iter().find(|(w, _)| *w == word);
        known.map(|(_, f)| *f)
    }

    /// Fills in what the search needs and nobody said.
    ///
    /// # Errors
    /// Usage: a setting that is searched, halves of a batch without host attention. Internal: a setting that does not exist.
    pub fn adapt(&self, settings: &mut Settings) -> Result<()> {
        if let Some(find) = self.find() {
            refuse_searched(find, settings)?;
        }
        let host = |g: &Given| g.text() == "host-attention";
        if self.find().is_some()
            && settings.asked("split").is_some()
            && !settings.get("t1").is_some_and(host)
        {
            return Err(settings
                .wrong("split", "contradicts the rest: a search runs one T1 mode, and only host-attention splits a batch")
                .help("add --t1 host-attention, or leave --split out"));
        }
        if self.find() != Some(Find::MaxRate) {
            return Ok(());
        }
        if settings.get("arrivals").is_none() {
            settings.set("arrivals", &["poisson:1".into()], Origin::Default)?;
        }
        if settings.asked("policy").is_none() {
            // As engines are: hbm=fit would leave each of so many slots a small share.
            settings.set("policy", &["full".into()], Origin::Default)?;
        }
        if settings.asked("batch").is_none() {
            settings.set("batch", &[TOGETHER.into()], Origin::Default)?;
        }
        Ok(())
    }

    /// Finds it and writes the answer; no if no card keeps to the limits.
    ///
    /// # Errors
    /// As [`solve`].
    pub fn run(
        &self,
        find: Find,
        question: &Question,
        settings: &Settings,
        format: Format,
        out: &mut Out,
    ) -> Result<Answer> {
        let limits = Limits {
            tpot_p99: self.tpot_p99,
            ttft_p99: self.ttft_p99,
            max_hbm: self.max_hbm,
            max_ddr: self.max_ddr,
            price: self.price,
        };
        let done = Arc::new(AtomicU64::new(0));
        let bar = progress::searches(searches(question), Arc::clone(&done), out.quiet());
        let found = solve(question, settings, find, &limits, &done)?;
        drop(bar);
        if format != Format::Table {
            found.notes.iter().for_each(|n| out.note(n)); // a page shows its own
        }
        let style = Style { color: out.color() };
        out.result(&match format {
            Format::Table => table::render(&page::page(&found), style),
            Format::Json => json::pretty(&found)?,
            Format::Csv => page::table(&found)?,
            Format::Md => md::render(&page::page(&found)),
        })?;
        Ok(Answer::of(found.any()))
    }
}

/// Refuses a flag that sets what is searched; a scenario file may say it, for other questions.
///
/// # Errors
/// Usage, naming the way out.
fn refuse_searched(find: Find, settings: &Settings) -> Result<()> {
    let given = find.overridden(settings);
    if given.is_none_or(|g| g.origin != Origin::Flag) {
        return Ok(());
    }
    let name = find.searched();
    let what = if find == Find::MinHbm { "its hbm " } else { "" };
    let why = format!("{what}is what --find {} searches", find.word());
    Err(settings.wrong(name, why).help(match find {
        Find::MaxBatch => "leave --batch out; at one batch, `kvplan simulate` answers",
        Find::MaxContext => "leave --output out: the answer is prompt and output together, and --prompt says with how many tokens it begins",
        Find::MaxRate => "leave --arrivals out; say how many come with --requests; at one rate, `kvplan simulate` answers",
        Find::MinHbm => "leave hbm= out of --policy; at one budget, `kvplan simulate` answers",
    }))
}

/// Refuses a load where every way to serve a static batch is compared.
///
/// # Errors
/// Usage, naming the ways out.
pub fn refuse_load(question: &Question) -> Result<()> {
    if question.base.load.is_none() {
        return Ok(());
    }
    Err(
        Error::usage("plan compares ways to serve a static batch, not requests over time").help(
            "use `kvplan simulate` with --arrivals, or `kvplan plan --find max-rate --ttft-p99 2s`",
        ),
    )
}

/// Refuses weights in host memory where every way to serve is compared: it is one of them.
///
/// # Errors
/// Usage, naming the ways out.
pub fn refuse_weights(settings: &Settings) -> Result<()> {
    if settings.asked("weights-in-ddr").is_none() {
        return Ok(());
    }
    Err(settings
        .wrong(
            "weights-in-ddr",
            "plan compares it with the other ways by itself",
        )
        .help("leave it out; `kvplan simulate` and `kvplan plan --find` take it"))
}

/// A limit as `30ms` or `<=30ms`.
fn limit(text: &str) -> &str {
    let text = text.trim();
    let bare = text.strip_prefix("<=").or(text.strip_prefix('≤'));
    bare.unwrap_or(text).trim()
}

fn time(text: &str) -> std::result::Result<f64, String> {
    match text::seconds(limit(text))? {
        s if s > 0.0 && s.is_finite() => Ok(s),
        _ => Err("is no time over zero".into()),
    }
}

fn size(text: &str) -> std::result::Result<crate::units::Bytes, String> {
    match text::bytes(limit(text))? {
        b if b.0 > 0 => Ok(b),
        _ => Err("is no size over zero".into()),
    }
}

fn price(text: &str) -> std::result::Result<f64, String> {
    let number = text.trim().trim_end_matches("USD/h").trim().parse::<f64>();
    number
        .ok()
        .filter(|p| (1e-6..=1e6).contains(p))
        .ok_or_else(|| "takes US dollars per hour, such as 2.5".into())
}
