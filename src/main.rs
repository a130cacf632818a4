//! The kvplan binary: see `kvplan::cli`.

fn main() {}
