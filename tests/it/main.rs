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

mod catalog;
mod cli_hostile;
mod cli_readme;
mod engine_pipeline;
mod extend;
mod hand;
mod layering;
mod model_cli;
mod model_gguf;
mod model_hf;
mod model_shapes;
mod policy_four_tier;
mod policy_registry;
mod replay_golden;
mod replay_laws;
mod replay_length;
mod replay_simd;
mod replay_support;
mod report_pages;
mod scenario_settings;
mod trace_format;
mod trace_hostile;
mod trace_import;
mod trace_import_hostile;
mod trace_make;
mod trace_set;
mod trace_shipped;
mod trace_synth;
mod trace_verb;
