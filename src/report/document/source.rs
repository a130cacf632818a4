//! A saved result: what it holds, and by what its bytes are known again.

use sha2::{Digest, Sha256};

use crate::metrics::Outcome;
use crate::plan::answer::Plan;
use crate::plan::solve::answer::Solution;
use crate::sweep::answer::Answer;
use crate::units::text::hex;

/// What a result holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Saved {
    /// Of `plan`.
    Plan(Box<Plan>),
    /// Of `simulate`.
    Outcome(Box<Outcome>),
    /// Of `sweep`.
    Sweep(Box<Answer>),
    /// Of `plan --find`.
    Solution(Box<Solution>),
}

/// A saved result.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Name of the file, without its folder.
    pub name: String,
    /// SHA-256 of its bytes, in hex.
    pub sha256: String,
    /// Its size \[bytes\].
    pub bytes: u64,
    /// What it holds.
    pub saved: Saved,
}

impl Source {
    /// What was read from, or would be written to, a file of this name and text.
    pub fn of(name: String, text: &str, saved: Saved) -> Self {
        Self {
            name,
            sha256: hex(&Sha256::digest(text.as_bytes())),
            bytes: text.len() as u64,
            saved,
        }
    }

    /// Version of kvplan that made it.
    pub fn version(&self) -> &str {
        match &self.saved {
            Saved::Plan(p) => &p.kvplan_version,
            Saved::Outcome(o) => &o.kvplan_version,
            Saved::Sweep(s) => &s.kvplan_version,
            Saved::Solution(s) => &s.kvplan_version,
        }
    }
}
