//! `--perfetto`: a few steps of a run as a file that ui.perfetto.dev opens.
//!
//! Only fidelity `layer` knows what each resource does when, so a drawing asks for it; that gives way to nobody who spelt
//! out the other. The file is written beside and renamed like every result, once the run has ended well.

use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::deploy::Overlap;
use crate::error::{Error, Result};
use crate::metrics::Outcome;
use crate::metrics::perfetto::{MOST_STEPS, Perfetto};
use crate::plan;
use crate::scenario::settings::Origin;
use crate::scenario::{Scenario, Settings};
use crate::units::text::group;

use super::flags::{Deployment, read_by_the_run};
use super::out::Out;
use super::same::one_file;

/// Where to draw, and what.
#[derive(Clone, Debug, Args)]
#[rustfmt::skip] // help texts read best as one line each
pub struct DrawingArgs {
    /// Draw some steps layer by layer into FILE, for ui.perfetto.dev; implies --fidelity layer
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    perfetto: Option<PathBuf>,
    /// Steps to draw, from A up to but without B, at most 1,000 [default: eight around the first re-tier]
    #[arg(long, value_name = "A..B", requires = "perfetto", value_parser = steps)]
    perfetto_steps: Option<Range<u64>>,
}

impl DrawingArgs {
    /// Asks for fidelity `layer` where something is drawn.
    ///
    /// # Errors
    /// Fidelity `step` was spelt out (exit 2).
    pub fn adapt(&self, settings: &mut Settings) -> Result<()> {
        if self.perfetto.is_none() {
            return Ok(());
        }
        if settings
            .asked("fidelity")
            .is_some_and(|g| g.text() == "step")
        {
            return Err(settings
                .wrong(
                    "fidelity",
                    "contradicts the rest: --perfetto draws layer by layer",
                )
                .help("leave --fidelity out, or use --fidelity layer"));
        }
        settings.set("fidelity", &["layer".into()], Origin::Default)
    }

    /// Refuses to write over what the run reads, over the result, or into it.
    ///
    /// # Errors
    /// Exit 2.
    pub fn keep(
        &self,
        named: &[String],
        deployment: &Deployment<false>,
        result: Option<&Path>,
    ) -> Result<()> {
        let Some(path) = &self.perfetto else {
            return Ok(());
        };
        let why = if path.as_os_str() == "-" {
            "the result goes to stdout, a drawing needs a file".to_string()
        } else if let Some(file) = read_by_the_run(path, named, deployment) {
            format!("the drawing would replace {file} that the run reads")
        } else if result.is_some_and(|r| one_file(r, path)) {
            "the drawing and the result cannot be one file".to_string()
        } else {
            return Ok(());
        };
        Err(Error::usage(format!("{}: {why}", path.display()))
            .help("name another file with --perfetto"))
    }

    /// Simulates, and draws if that was asked for.
    ///
    /// # Errors
    /// As [`plan::simulate`]; the file cannot be written, or the run has none of the steps (exit 2).
    pub fn simulate(&self, scenario: &Scenario, out: &Out) -> Result<Outcome> {
        let Some(path) = &self.perfetto else {
            return plan::simulate(scenario);
        };
        let mut file = Out::new(false, out.quiet(), false);
        file.to_file(path)?;
        let serial = scenario.deployment.overlap == Overlap::Serial;
        let mut drawing = Perfetto::new(&mut file, self.perfetto_steps.clone(), serial);
        let outcome = plan::simulate_watched(scenario, &mut drawing)?;
        let drawn = drawing.finish()?;
        file.finish()?;
        let count = |n: u64| group(&n.to_string());
        out.note(&format!(
            "{}: steps {} to {} of {} (from 0), {} slices; run with fidelity layer",
            path.display(),
            count(drawn.steps.start),
            count(drawn.steps.end - 1),
            count(drawn.of),
            count(drawn.slices)
        ));
        Ok(outcome)
    }
}

/// `A..B`, not empty and not too long.
fn steps(text: &str) -> std::result::Result<Range<u64>, String> {
    let number = |t: &str| t.trim().replace(['_', ','], "").parse::<u64>().ok();
    let range = text
        .split_once("..")
        .and_then(|(a, b)| Some(number(a)?..number(b)?))
        .ok_or("takes two step numbers, A..B, such as 60..70")?;
    if range.is_empty() {
        return Err("draws nothing: A..B is from A up to but without B".into());
    }
    if range.end - range.start > MOST_STEPS {
        return Err(format!(
            "is {} steps long, over the {} that are drawn at most",
            group(&(range.end - range.start).to_string()),
            group(&MOST_STEPS.to_string())
        ));
    }
    Ok(range)
}
