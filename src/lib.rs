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
//! # Examples
//! A question, as the command line asks it, and its answer:
//! ```
//! use kvplan::scenario::{Settings, Verb, resolve, settings::Origin};
//!
//! let mut settings = Settings::defaults(Verb::Plan);
//! settings.set("hardware", &["gh200".into(), "h200-sxm".into()], Origin::Flag)?;
//! settings.set("intervals", &["none".into()], Origin::Flag)?;
//! let plan = kvplan::plan::plan(&resolve::question(&settings)?)?;
//! let best = plan.rows[0].verdict.best_runnable.as_deref();
//! assert_eq!((plan.rows.len(), best), (2, Some("fp8-kv")));
//! # Ok::<(), kvplan::error::Error>(())
//! ```
//! Policies over a recording: what each keeps in HBM, and the attention on what it destroyed:
//! ```
//! use kvplan::{policy, replay, trace};
//!
//! let recording = trace::default_trace()?;
//! let specs = [policy::parse("streaming-llm:window=512")?, policy::parse("tova-mean:budget=512")?];
//! for timeline in replay::run(&recording, &specs)? {
//!     let [hbm, _, _, gone] = timeline.tokens_end();
//!     assert!(hbm <= 516.0 && gone > 600.0 && timeline.mass_mean()[3] < 0.5);
//! }
//! # Ok::<(), kvplan::error::Error>(())
//! ```
//!
//! # Layers
//! The modules below are one linear order, bottom up: a file uses `crate::` only of modules listed above its own
//! (`tests/it/layering.rs` reads this file; blank lines keep rustfmt from sorting them). Further rules: `score`, `policy` and `replay` never import `hardware` or
//! `service`; `engine` never imports `trace`, `score`, `policy` or `replay`; `report` computes nothing.
#![cfg_attr(test, allow(clippy::unwrap_used))]

// 1: causes, exit codes, places.
pub mod error;

// 2: bytes, rates, time; parse and print.
pub mod units;

// 3: percentiles, intervals, seeded streams.
pub mod stats;

// 4: finished work beside a result, for going on.
pub mod journal;

// 5: inner loops over slices.
pub mod simd;

// 6: shapes, KV and weight bytes.
pub mod model;

// 7: machine and runtime profiles; Value{value, source, interval}.
pub mod hardware;

// 8: the .kvt format.
pub mod trace;

// 9: requests.
pub mod workload;

// 10: names to embedded data.
pub mod catalog;

// 11: what replay hands to the engine.
pub mod timeline;

// 12: how much a position matters.
pub mod score;

// 13: where a token lives; one file a policy.
pub mod policy;

// 14: rows -> policies -> timeline.
pub mod replay;

// 15: a model on a machine: the knobs.
pub mod deploy;

// 16: what is not known exactly, and draws of it.
pub mod uncertain;

// 17: one law a function: model + machine -> time.
pub mod service;

// 18: the HBM and DDR ledger.
pub mod memory;

// 19: a real model's forward pass, with its attention.
pub mod forward;

// 20: traces of a real model.
pub mod record;

// 21: what a policy does to a real model.
pub mod eval;

// 22: what this machine can do, measured and fitted.
pub mod calibrate;

// 23: the step and the batch.
pub mod engine;

// 24: Outcome = JSON.
pub mod metrics;

// 25: one question, resolved.
pub mod scenario;

// 26: the answer against its alternatives.
pub mod plan;

// 27: many questions at once.
pub mod sweep;

// 28: predicted against measured.
pub mod validate;

// 29: the published figures beside ours.
pub mod reproduce;

// 30: parameters of the laws from measurements.
pub mod fit;

// 31: a plan beside an engine's own log.
pub mod compare;

// 32: table, csv, markdown, HTML, plots.
pub mod report;

// 33: the page: plan, over HTTP, on this machine.
#[cfg(feature = "serve")]
pub mod web;

// 34: one file a verb.
pub mod cli;
