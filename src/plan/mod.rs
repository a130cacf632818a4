//! The answer against its alternatives.

pub mod answer;

use crate::error::{Error, Result};
use crate::metrics::Outcome;
use crate::scenario::{Question, Scenario};

/// One deployment.
///
/// # Errors
/// Always, until the engine is in.
pub fn simulate(_scenario: &Scenario) -> Result<Outcome> {
    Err(Error::internal("the engine is not in yet"))
}

/// One question over several cards.
///
/// # Errors
/// Always, until the engine is in.
pub fn plan(_question: &Question) -> Result<answer::Plan> {
    Err(Error::internal("the engine is not in yet"))
}
