//! The kvplan binary: see `kvplan::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kvplan::cli::main()
}
