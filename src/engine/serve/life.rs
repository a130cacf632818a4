//! What a request lived through, and the times that clients see.

use crate::units::Ps;
use crate::workload::Request;

/// One request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// When it came.
    pub arrival: Ps,
    /// When its prompt was first begun; none if never.
    pub begun: Option<Ps>,
    /// When its first token was there.
    pub first: Ps,
    /// When its last token so far was there.
    pub last: Ps,
    /// Prompt (tokens).
    pub prompt: u32,
    /// Output (tokens).
    pub output: u32,
    /// Prompt tokens found in the prefix cache.
    pub cached: u32,
    /// Requests in the engine when it came.
    pub ahead: u32,
    /// How often it gave way.
    pub preempted: u32,
    /// Whether it has all its tokens.
    pub ended: bool,
}

/// The times of a request as clients count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// From its coming to the begin of its prompt.
    pub queued: Ps,
    /// From its coming to its first token.
    pub ttft: Ps,
    /// Mean time per further token; none of a single token.
    pub tpot: Option<Ps>,
    /// From its coming to its last token.
    pub e2e: Ps,
}

impl Life {
    pub(super) fn new(request: &Request) -> Self {
        Self {
            arrival: request.arrival,
            prompt: request.prompt,
            output: request.output,
            ..Self::default()
        }
    }

    /// Its times.
    pub fn times(&self) -> Times {
        let further = u64::from(self.output.saturating_sub(1));
        let decoding = self.last.saturating_sub(self.first);
        let begun = self.begun.unwrap_or(self.arrival);
        Times {
            queued: begun.saturating_sub(self.arrival),
            ttft: self.first.saturating_sub(self.arrival),
            tpot: decoding.0.checked_div(further).map(Ps),
            e2e: self.last.saturating_sub(self.arrival),
        }
    }
}
