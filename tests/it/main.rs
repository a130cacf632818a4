//! One integration binary: a module per way it can fail.
#![allow(clippy::unwrap_used, missing_docs)]

mod layering;
mod report_look;
