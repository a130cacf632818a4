//! Predicted against measured: the service laws held against tables of real measurements.
//!
//! `validate DIR` reads whatever tables it knows by the end of their names ([`tables::KNOWN`]), predicts each row from
//! its configuration columns alone through the functions of `service`, and sums up how far off they are, pooled and by
//! GPU, framework and model. Every prediction has an interval: the laws are evaluated again for draws of everything that is
//! not known of the machine ([`machine`]), and whether such intervals hold as much as they claim is counted over servers
//! ([`coverage`]). Rival: cross-checking against
//! another simulator, which shares one's mistakes. What is ignored: the spread of a measurement itself (few sources state
//! it).
//!
//! Relative error is predicted / measured - 1. Median and p90 are nearest-rank, of its magnitude; the bias is the mean of
//! the signed error. Rows that cannot be predicted are counted under a reason; nothing is dropped silently. Order: files
//! as in [`tables::KNOWN`], then by name; rows as in the file.

pub mod answer;
pub mod coverage;
pub mod expected;
pub mod holdout;
pub mod machine;
pub mod names;
pub mod prototype;
pub mod served;
pub mod sheet;
pub mod steady;
pub mod stock;
pub mod tables;

use std::path::Path;

use rayon::prelude::*;

use crate::error::Result;
use answer::{Row, Run};
use machine::Scope;
use stock::Stock;
use tables::Case;

/// Reads, predicts and sums up every known table in a folder; with `leave_out` each card as if it had not been measured.
///
/// # Errors
/// Usage: the folder cannot be read or holds no known table. Data: a table is damaged, with file, line and column.
pub fn validate(folder: &Path, leave_out: bool) -> Result<Run> {
    let mut stock = Stock::new(leave_out);
    let mut rows = Vec::new();
    for (path, kind) in sheet::find(folder)? {
        let sheet = sheet::read(&path, kind)?;
        let cases = (kind.cases)(&sheet, &mut stock)?;
        let predicted: Vec<Row> = cases
            .into_par_iter()
            .map(|case| row(&sheet.file, kind.scope, case))
            .collect();
        rows.extend(predicted);
    }
    Ok(Run::new(rows))
}

/// A case with its prediction and interval.
fn row(file: &str, scope: Scope, case: Case) -> Row {
    let mut row = Row {
        file: file.to_string(),
        line: case.line,
        metric: case.metric,
        scope,
        gpu: case.gpu,
        framework: case.framework,
        model: case.model,
        measured: case.measured,
        predicted: None,
        skipped: None,
    };
    match case.law {
        Ok(law) => match law.family.interval(&law.of, scope) {
            Some(interval) => row.predicted = Some(interval),
            None => row.skipped = Some("the laws give no finite figure".into()),
        },
        Err(reason) => row.skipped = Some(reason),
    }
    row
}
