//! The command line.

pub mod grid;
pub mod list;
pub mod show;
