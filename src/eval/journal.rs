//! The journal of an evaluation: its first line is the whole question, with the checksum of the problems.
//!
//! A cell is a policy on a problem. How lines are written, checked and read back is [`crate::journal`].

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Cell;
use super::answer::Question;
use super::sum::Asked;
use crate::error::{Error, Result};
use crate::journal::{self, Journal, Words, checksum, differs};

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    schema: String,
    kvplan_version: String,
    question: Question,
    policies: Vec<String>,
    problems: usize,
    file: (u64, u32),
}

/// Opens the journal of an evaluation of so many problems of a file; with `resume`, what it holds is given back.
///
/// # Errors
/// As [`Journal::open`].
pub fn open(
    path: &Path,
    question: &Question,
    policies: &[Asked],
    (file, problems): (&Path, usize),
    resume: bool,
) -> Result<(Journal, Vec<Cell>)> {
    let sum =
        checksum(file).map_err(|e| Error::usage(format!("cannot read {}: {e}", file.display())))?;
    let head = Head {
        schema: <Head as journal::Head>::SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        question: question.clone(),
        policies: policies.iter().map(|p| p.spec.to_string()).collect(),
        problems,
        file: sum,
    };
    let count = policies.len();
    let key = |cell: &Cell| {
        let ours = cell.problem < problems
            && cell.policy < count
            && cell.own.is_none() == question.teacher_forced;
        ours.then_some(cell.problem * count + cell.policy)
    };
    Journal::open(path, &head, resume, key)
}

impl journal::Head for Head {
    const SCHEMA: &'static str = "kvplan/eval-journal/1";
    const WORDS: Words = Words {
        what: "evaluation",
        one: "an evaluation",
    };

    fn difference(&self, found: &Self) -> Option<String> {
        let (now, then) = (&self.question, &found.question);
        let forced = |q: &Question| q.teacher_forced.to_string();
        differs("its form", &found.schema, &self.schema)
            .or_else(|| differs("kvplan", &found.kvplan_version, &self.kvplan_version))
            .or_else(|| differs("the model", &then.weights_sha256, &now.weights_sha256))
            .or_else(|| {
                let list = |h: &Self| h.policies.join(" ");
                differs("the list of policies", &list(found), &list(self))
            })
            .or_else(|| {
                let number = |h: &Self| h.problems.to_string();
                differs("the number of problems", &number(found), &number(self))
            })
            .or_else(|| {
                (self.file != found.file).then(|| "the file of problems has changed".into())
            })
            .or_else(|| differs("--teacher-forced", &forced(then), &forced(now)))
            .or_else(|| {
                let most = |q: &Question| q.max_new_tokens.to_string();
                differs("--max-new", &most(then), &most(now))
            })
            .or_else(|| (self != found).then(|| "its question differs".into()))
    }
}
