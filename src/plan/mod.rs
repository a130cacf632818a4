//! The answer against its alternatives.

pub mod answer;
