//! The recordings of a question, and what was already replayed from them.
//!
//! A plan asks for the same placement many times: every card on which everything fits, every T1 mode at the least
//! budget. A replay depends on the policy at its resolved budget and on the lengths, on nothing else (the replay never
//! sees the hardware), so each is done once and shared. Two threads that ask at the same moment may both do it; they
//! get the same timeline. Looked up in order, not by hash: a question has some dozen of them. Rival: one pass over the
//! rows for all budgets, which would have every budget resolved before anything runs.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::policy::PolicySpec;
use crate::replay;
use crate::scenario::TraceRef;
use crate::timeline::Timeline;
use crate::trace::{self, TraceReader};

/// One timeline a recording, or a single one from lengths.
type Timelines = Vec<Arc<Timeline>>;

/// Open recordings; none means that counts come from lengths alone.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    readers: Vec<Arc<TraceReader>>,
    known: Mutex<Vec<(Key, Timelines)>>,
}

/// What a replay depends on, besides the recordings.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Key {
    spec: PolicySpec,
    prompt: u32,
    output: u32,
}

impl Recordings {
    /// Opens the recordings a scenario names.
    ///
    /// # Errors
    /// Data or usage, naming the file.
    pub(super) fn open(trace: &TraceRef) -> Result<Self> {
        let readers = match trace {
            TraceRef::None => Vec::new(),
            TraceRef::Embedded => vec![Arc::new(trace::default_trace()?)],
            TraceRef::Paths(paths) => paths
                .iter()
                .map(|p| crate::trace::find(&p.to_string_lossy()).map(Arc::new))
                .collect::<Result<_>>()?,
        };
        Ok(Self {
            readers,
            known: Mutex::default(),
        })
    }

    /// The recordings.
    pub(super) fn readers(&self) -> &[Arc<TraceReader>] {
        &self.readers
    }

    /// The placement by `spec` of `prompt` and `output` tokens under each recording.
    ///
    /// # Errors
    /// As [`replay::extended`].
    pub(super) fn timelines(
        &self,
        spec: &PolicySpec,
        prompt: u32,
        output: u32,
    ) -> Result<Timelines> {
        let key = Key {
            spec: *spec,
            prompt,
            output,
        };
        if let Some(known) = self.recall(&key) {
            return Ok(known);
        }
        let fresh = self.replay(&key)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.push((key, fresh.clone()));
        Ok(fresh)
    }

    fn recall(&self, key: &Key) -> Option<Timelines> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(k, _)| k == key);
        found.map(|(_, timelines)| timelines.clone())
    }

    fn replay(&self, key: &Key) -> Result<Timelines> {
        let Key {
            spec,
            prompt,
            output,
        } = key;
        let replayed = match self.readers.as_slice() {
            [] => vec![replay::by_length(spec, *prompt, *output)?],
            some => some
                .iter()
                .map(|t| replay::extended(t.as_ref(), spec, *prompt, *output))
                .collect::<Result<_>>()?,
        };
        let never_moves = spec.never_moves(*prompt);
        let shared = |t| Arc::new(Timeline { never_moves, ..t });
        Ok(replayed.into_iter().map(shared).collect())
    }
}
