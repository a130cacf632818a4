//! The program under test, run with arguments.

use std::process::{Command, Output};

/// Exit code, stdout, stderr.
pub(crate) fn kvplan(args: &[&str]) -> (i32, String, String) {
    told(
        Command::new(env!("CARGO_BIN_EXE_kvplan"))
            .args(args)
            .output()
            .unwrap(),
    )
}

/// The same of a run that has ended.
pub(crate) fn told(out: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        out.status.code().unwrap(),
        text(out.stdout),
        text(out.stderr),
    )
}
