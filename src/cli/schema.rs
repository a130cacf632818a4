//! `kvplan schema`: the JSON schema of results and scenarios.

use clap::{Args, ValueEnum};

use crate::compare::Comparison;
use crate::error::Result;
use crate::fit::Fit;
use crate::metrics::Outcome;
use crate::plan::answer::Plan;
use crate::plan::selfcheck::SelfCheck;
use crate::report::json;
use crate::reproduce::Reproduction;
use crate::validate::answer::Validation;

use super::out::Out;

/// What has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Result of `simulate`.
    Outcome,
    /// Result of `plan`.
    Plan,
    /// Result of `plan --find`.
    Solve,
    /// Result of `sweep`.
    Sweep,
    /// Result of `sweep --shard`.
    SweepShard,
    /// Result of `reproduce`.
    Reproduce,
    /// Result of `fit`.
    Fit,
    /// Result of `validate`.
    Validate,
    /// Result of `compare` of a plan and a log.
    Compare,
    /// Result of `compare` of two profiles.
    Drift,
    /// Result of `calibrate`.
    Calibrate,
    /// Result of `selfcheck`.
    Selfcheck,
    /// Result of `eval`.
    Eval,
    /// A scenario file.
    Scenario,
}

/// Arguments of `schema`.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "EXAMPLES:\n  kvplan schema outcome\n  kvplan schema scenario")]
pub struct SchemaArgs {
    /// What to describe.
    #[arg(value_enum, value_name = "WHAT")]
    what: What,
}

/// Prints it.
///
/// # Errors
/// The result cannot be written.
pub fn run(args: &SchemaArgs, out: &mut Out) -> Result<()> {
    let schema = match args.what {
        What::Outcome => schemars::schema_for!(Outcome).to_value(),
        What::Plan => schemars::schema_for!(Plan).to_value(),
        What::Solve => schemars::schema_for!(crate::plan::solve::answer::Solution).to_value(),
        What::Sweep => schemars::schema_for!(crate::sweep::answer::Answer).to_value(),
        What::SweepShard => schemars::schema_for!(crate::sweep::shard::Part).to_value(),
        What::Reproduce => schemars::schema_for!(Reproduction).to_value(),
        What::Fit => schemars::schema_for!(Fit).to_value(),
        What::Validate => schemars::schema_for!(Validation).to_value(),
        What::Compare => schemars::schema_for!(Comparison).to_value(),
        What::Drift => schemars::schema_for!(crate::compare::profiles::Drift).to_value(),
        What::Calibrate => schemars::schema_for!(crate::calibrate::Answer).to_value(),
        What::Selfcheck => schemars::schema_for!(SelfCheck).to_value(),
        What::Eval => schemars::schema_for!(crate::eval::Evaluation).to_value(),
        What::Scenario => crate::scenario::schema::scenario(),
    };
    out.result(&json::pretty(&schema)?)
}
