//! One integration binary: a module per way it can fail.
#![allow(clippy::unwrap_used, missing_docs)]

/// Leaves a test early and says so aloud: goes around the harness's capture, so that a passing run shows it too.
macro_rules! skip {
    ($($why:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "SKIPPED: {}: {}", module_path!(), format!($($why)*));
        return;
    }};
}

mod binary;
mod calibrate_cli;
mod calibrate_fit;
mod calibrate_gpu;
mod calibrate_guard;
mod calibrate_host;
mod calibrate_make;
mod calibrate_raw;
mod catalog;
#[cfg(unix)]
mod cli_flags;
mod cli_hostile;
mod cli_readme;
mod cli_refusals;
mod cli_rerun;
mod compare;
mod engine_audit;
mod engine_extreme;
mod engine_fidelity;
mod engine_layer;
mod engine_paged;
mod engine_pipeline;
mod engine_stretch;
mod engine_support;
mod eval_cli;
mod eval_figure;
mod eval_model;
mod eval_problems;
mod eval_run;
mod extend;
mod figures;
mod fit;
mod forward_blocks;
mod forward_exact;
mod forward_folder;
mod forward_kernels;
mod forward_make;
mod forward_model;
mod forward_reference;
mod forward_refused;
mod forward_text;
mod forward_tiers;
mod hand;
mod help_examples;
mod kernels_on_cpu;
mod kernels_ptx;
mod laws;
mod layering;
mod longer;
mod memory;
mod model_cli;
mod model_gguf;
mod model_hf;
mod model_shapes;
mod native;
mod occupancy_file;
mod perfetto;
mod plot;
mod policy_cli;
mod policy_family;
mod policy_four_tier;
mod policy_golden;
mod policy_plain;
mod policy_registry;
mod record;
mod record_keys;
mod record_shipped;
mod replay_golden;
mod replay_laws;
mod replay_length;
mod replay_simd;
mod replay_support;
mod report_html;
mod report_pages;
mod reproduce;
mod scenario_settings;
mod selfcheck;
mod serve;
mod serve_load;
mod serve_prefix;
mod serve_replicas;
mod serve_support;
mod service;
mod solve;
mod solve_draws;
mod standin;
mod standin_driver;
mod sweep;
mod sweep_choice;
mod sweep_shards;
mod t1_modes;
mod t1_selective;
mod trace_format;
mod trace_hostile;
mod trace_import;
mod trace_import_hostile;
mod trace_make;
mod trace_set;
mod trace_shipped;
mod trace_synth;
mod trace_vectors;
mod trace_verb;
mod uncertain;
mod units;
mod validate;
#[cfg(feature = "serve")]
mod web;
#[cfg(feature = "serve")]
mod web_guard;
#[cfg(feature = "serve")]
mod web_support;
mod weights_in_ddr;
