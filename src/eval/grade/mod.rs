//! Whether an answer is right: what is taken out of a text, and what it is held against.
//!
//! A rule a kind of problem: a number (GSM8K), an expression in `\boxed{}` (MATH), a choice (ARC). What a text does not say
//! in one of the usual forms counts as no answer, and no answer is wrong: a grader that guesses flatters the policy whose
//! texts are the vaguest. Numbers are compared exactly, as decimals and fractions, never in floating point. Rival: a
//! computer algebra system, which would find `2\sqrt{2}` and `\sqrt{8}` equal; here they differ, for every policy alike.
//! Deterministic: a function of the two texts alone.

mod boxed;
mod choice;
mod number;

use serde::{Deserialize, Serialize};

/// The right answer of a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gold {
    /// A number: the last one of the text, or the one behind its last `####`.
    Number(String),
    /// An expression: the last one in `\boxed{}`.
    Boxed(String),
    /// One of some choices, by its letter or its words.
    Choice {
        /// Index of the right one.
        right: usize,
        /// All of them.
        choices: Vec<String>,
    },
}

impl Gold {
    /// A number.
    ///
    /// # Errors
    /// A sentence: there is none in it.
    pub fn number(text: &str) -> Result<Self, String> {
        number::extract(text)
            .map(Self::Number)
            .ok_or_else(|| format!("`{}` holds no number", short(text)))
    }

    /// An expression.
    pub fn expression(text: &str) -> Self {
        Self::Boxed(boxed::normal(text))
    }

    /// The expression that a solution puts into its last box.
    pub fn boxed_in(solution: &str) -> Option<Self> {
        boxed::extract(solution).map(Self::Boxed)
    }

    /// The answer that a text gives, in its normal form; none if it gives none.
    pub fn extract(&self, text: &str) -> Option<String> {
        match self {
            Self::Number(_) => number::extract(text),
            Self::Boxed(_) => boxed::extract(text),
            Self::Choice { choices, .. } => choice::extract(text, choices).map(letter),
        }
    }

    /// Whether an extracted answer is the right one.
    pub fn is(&self, answer: &str) -> bool {
        match self {
            Self::Number(gold) => gold == answer,
            Self::Boxed(gold) => boxed::equal(gold, answer),
            Self::Choice { right, .. } => letter(*right) == answer,
        }
    }

    /// Whether two texts gave the same answer; none is the same as none.
    pub fn same(&self, a: Option<&str>, b: Option<&str>) -> bool {
        match (self, a, b) {
            (Self::Boxed(_), Some(a), Some(b)) => boxed::equal(a, b),
            _ => a == b,
        }
    }

    /// The right answer as a reader sees it.
    pub fn shown(&self) -> String {
        match self {
            Self::Number(text) | Self::Boxed(text) => text.clone(),
            Self::Choice { right, .. } => letter(*right),
        }
    }
}

/// `A` for 0.
pub(super) fn letter(index: usize) -> String {
    let at = u8::try_from(index).unwrap_or(u8::MAX).min(25);
    char::from(b'A' + at).to_string()
}

/// The first words of a text, for a message.
pub(super) fn short(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}
