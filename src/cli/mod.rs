//! The command line.

pub mod trace;
