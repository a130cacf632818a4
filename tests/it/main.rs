//! One integration binary: a module per way it can fail.
#![allow(clippy::unwrap_used, missing_docs)]

/// Leaves a test early and says so where the test harness does not swallow it.
macro_rules! skip {
    ($why:expr) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "skipped: {}: {}", module_path!(), $why);
        return;
    }};
}

mod layering;
mod policy_four_tier;
mod policy_registry;
mod replay_golden;
mod replay_laws;
mod replay_length;
mod replay_simd;
mod replay_support;
mod trace_format;
mod trace_hostile;
mod trace_import;
mod trace_import_hostile;
mod trace_make;
mod trace_shipped;
mod trace_verb;
