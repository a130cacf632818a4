//! One published figure beside ours.

use serde::{Deserialize, Serialize};

/// What a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// KV bytes and savings.
    Memory,
    /// What the link has to carry.
    Link,
    /// The measured prototype.
    Prototype,
    /// What eviction destroys.
    Eviction,
    /// Answers of a model.
    Accuracy,
}

impl Topic {
    /// All, in order.
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Link,
        Self::Prototype,
        Self::Eviction,
        Self::Accuracy,
    ];

    /// Its heading.
    pub fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Link => "link",
            Self::Prototype => "prototype",
            Self::Eviction => "eviction",
            Self::Accuracy => "accuracy",
        }
    }
}

/// How a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Ours agrees within the tolerance that `why` gives.
    Reproduced,
    /// Arithmetic gives another figure, which is shown.
    Corrected,
    /// True under a condition that `why` names.
    Conditional,
    /// The published experiment cannot tell, for the reason given.
    Confounded,
    /// Needs a model and its answers; `why` says what would test it.
    NotTestedHere,
}

impl Status {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Corrected => "corrected",
            Self::Conditional => "conditional",
            Self::Confounded => "confounded",
            Self::NotTestedHere => "not tested here",
        }
    }
}

/// One published figure beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Claim {
    /// Stable name.
    pub id: String,
    /// What it is about.
    pub topic: Topic,
    /// What is claimed.
    pub claim: String,
    /// As published, with its unit.
    pub published: String,
    /// Ours, with its unit; none where nothing was computed.
    pub ours: Option<String>,
    /// Published over ours, where both are one positive number of one unit.
    pub published_over_ours: Option<f64>,
    /// How it stands.
    pub status: Status,
    /// The arithmetic, or what was run.
    pub arithmetic: String,
    /// Why the two differ, or what would settle it.
    pub why: String,
}

impl Claim {
    /// A claim of words.
    pub(super) fn new(id: &str, topic: Topic, claim: &str, status: Status) -> Self {
        Self {
            id: id.into(),
            topic,
            claim: claim.into(),
            published: String::new(),
            ours: None,
            published_over_ours: None,
            status,
            arithmetic: String::new(),
            why: String::new(),
        }
    }

    /// As published and ours, both shown by `show`.
    pub(super) fn figures(mut self, published: f64, ours: f64, show: fn(f64) -> String) -> Self {
        self.published = show(published);
        self.ours = Some(show(ours));
        let both = published > 0.0 && ours > 0.0;
        self.published_over_ours = both.then(|| published / ours);
        self
    }

    /// As published and ours, in words.
    pub(super) fn words(mut self, published: &str, ours: Option<String>) -> Self {
        self.published = published.into();
        self.ours = ours;
        self
    }

    pub(super) fn arithmetic(mut self, text: impl Into<String>) -> Self {
        self.arithmetic = text.into();
        self
    }

    pub(super) fn why(mut self, text: impl Into<String>) -> Self {
        self.why = text.into();
        self
    }
}
