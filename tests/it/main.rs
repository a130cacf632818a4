//! One integration binary: a module per way it can fail.
#![allow(clippy::unwrap_used, missing_docs)]

mod catalog;
mod layering;
mod model_shapes;
mod report_look;
