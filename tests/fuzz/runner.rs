//! Runs one target on mutated inputs and keeps what is new.

use crate::mutate::Mutator;
use crate::targets::{Outcome, Target};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// No input may take longer.
const LONGEST: Duration = Duration::from_secs(20);
/// Inputs kept at most.
const KEPT: usize = 2000;

pub(crate) struct Fuzzer<'a> {
    target: &'a Target,
    mutator: Mutator,
    corpus: Vec<Vec<u8>>,
    seen: BTreeSet<String>,
    inputs: u64,
    accepted: u64,
    slowest: Duration,
}

impl<'a> Fuzzer<'a> {
    /// Starts with the target's sound inputs, each of which must be accepted.
    pub(crate) fn new(target: &'a Target, seed: u64) -> Self {
        let mut out = Self {
            target,
            mutator: Mutator::new(seed, target.words),
            corpus: target.corpus.clone(),
            seen: BTreeSet::new(),
            inputs: 0,
            accepted: 0,
            slowest: Duration::ZERO,
        };
        for input in target.corpus.clone() {
            let outcome = out.run(&input);
            assert!(
                matches!(outcome, Outcome::Accepted(_)),
                "{}: a sound input was refused: {outcome:?}",
                target.name
            );
        }
        out
    }

    /// One mutated input.
    pub(crate) fn one(&mut self) {
        let mut input = self.mutator.next(&self.corpus);
        if let Some(repair) = self.target.repair
            && self.mutator.chance(3, 4)
        {
            repair(&mut input);
        }
        let outcome = self.run(&input);
        let (kind, text) = match outcome {
            Outcome::Accepted(text) => ("accepted", text),
            Outcome::Refused(text) => ("refused", text),
        };
        self.accepted += u64::from(kind == "accepted");
        if self.corpus.len() < KEPT
            && self
                .seen
                .insert(format!("{kind} {}", without_figures(&text)))
        {
            self.corpus.push(input);
        }
    }

    fn run(&mut self, input: &[u8]) -> Outcome {
        self.inputs += 1;
        let begin = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| (self.target.run)(input)));
        let took = begin.elapsed();
        self.slowest = self.slowest.max(took);
        let outcome = result.unwrap_or_else(|_| self.fail("panicked", input));
        if took > LONGEST {
            self.fail(&format!("took {took:?}"), input);
        }
        outcome
    }

    fn fail(&self, what: &str, input: &[u8]) -> ! {
        let name = format!("fuzz-{}-{}.bin", self.target.name, self.inputs);
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, input).unwrap();
        panic!(
            "{} {what} on input {}, kept in {}",
            self.target.name,
            self.inputs,
            path.display()
        );
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "fuzz {:<12} {:>9} inputs, {:>8} accepted, {:>5} outcomes, slowest {:?}",
            self.target.name,
            self.inputs,
            self.accepted,
            self.seen.len(),
            self.slowest
        )
    }
}

/// A message with what varies left out: figures, and what stands in backquotes.
fn without_figures(text: &str) -> String {
    let mut quoted = false;
    text.chars()
        .filter(|c| {
            if *c == '`' {
                quoted = !quoted;
            }
            !quoted && !c.is_ascii_digit()
        })
        .take(60)
        .collect()
}
