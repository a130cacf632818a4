//! One integration binary: a module per way it can fail.
#![allow(clippy::unwrap_used, missing_docs)]

mod catalog;
mod layering;
mod model_cli;
mod model_gguf;
mod model_hf;
mod model_shapes;
