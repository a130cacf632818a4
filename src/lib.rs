//! kvplan: a discrete-event simulator and capacity planner for serving reasoning LLMs with a tiered KV cache.
//!
//! # Reading guide
//! 1. [`timeline`]: the one type that passes between the two halves.
//! 2. [`policy`] and `policy/four_tier.rs`: what decides where a token lives. [`replay`] turns rows into a timeline.
//! 3. [`service`]: one law a function, model and hardware to time. [`memory`]: the ledger of a deployment.
//! 4. [`engine`]: the step. [`plan`]: the answer against its alternatives.
//!
//! # Data walk
//! ```text
//! recording -> trace (.kvt) -> policy replay -> timeline -> engine on a machine -> outcome -> plan -> report
//! ```
//! The replay never sees the hardware and the engine never sees attention.
//!
//! # Layers
//! The modules below are one linear order, bottom up: a file uses `crate::` only of modules listed above its own
//! (`tests/it/layering.rs` reads this file). Further rules: `score`, `policy` and `replay` never import `hardware` or
//! `service`; `engine` never imports `trace`, `score`, `policy` or `replay`; `report` computes nothing.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod catalog;
pub mod cli;
pub mod deploy;
pub mod engine;
pub mod error;
pub mod hardware;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod plan;
pub mod policy;
pub mod replay;
pub mod report;
pub mod scenario;
pub mod score;
pub mod service;
pub mod simd;
pub mod stats;
pub mod timeline;
pub mod trace;
pub mod units;
pub mod workload;
