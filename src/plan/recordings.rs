//! The recordings of a question, and what was already replayed from them.
//!
//! A plan asks for the same placement many times: every card on which everything fits, every T1 mode at the least
//! budget. A replay depends on the policy at its resolved budget and on the lengths, on nothing else (the replay never
//! sees the hardware), so each is done once and shared. Two threads that ask at the same moment may both do it; they
//! get the same timeline. Looked up in order, not by hash: a question has some dozen of them. Who knows many placements
//! beforehand, as a sweep does, has them replayed in one pass over the rows ([`Recordings::prepare`]) and forgets those
//! that are no longer needed ([`Recordings::keep`]), since a timeline takes some tens of bytes a step.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use crate::error::Result;
use crate::policy::PolicySpec;
use crate::replay;
use crate::scenario::TraceRef;
use crate::timeline::{Selection, Timeline};
use crate::trace::{self, TraceReader};

/// One timeline a recording, or a single one from lengths.
type Timelines = Vec<Arc<Timeline>>;

/// Open recordings; none means that counts come from lengths alone.
#[derive(Debug, Default)]
pub struct Recordings {
    readers: Vec<Arc<TraceReader>>,
    known: Mutex<Vec<(Placement, Timelines)>>,
}

/// What a replay depends on, besides the recordings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// The policy at its resolved budget.
    pub spec: PolicySpec,
    /// What each step fetches, where only some host tokens take part.
    pub selection: Option<Selection>,
    /// Prompt tokens.
    pub prompt: u32,
    /// Output tokens.
    pub output: u32,
}

/// Policies replayed by one thread in one pass: enough to decode the rows for many, few enough to share the work.
const TOGETHER: usize = 8;

impl Recordings {
    /// Opens the recordings a scenario names.
    ///
    /// # Errors
    /// Data or usage, naming the file.
    pub fn open(trace: &TraceRef) -> Result<Self> {
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
    pub fn readers(&self) -> &[Arc<TraceReader>] {
        &self.readers
    }

    /// The placement by `spec` of `prompt` and `output` tokens under each recording, where only what `selection` fetches
    /// takes part if there is one.
    ///
    /// # Errors
    /// As [`replay::extended`] and [`replay::selected`].
    pub(super) fn timelines(
        &self,
        spec: &PolicySpec,
        selection: Option<Selection>,
        prompt: u32,
        output: u32,
    ) -> Result<Timelines> {
        let key = Placement {
            spec: *spec,
            selection,
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

    /// The same recordings with nothing replayed yet.
    #[must_use]
    pub fn aside(&self) -> Self {
        Self {
            readers: self.readers.clone(),
            known: Mutex::default(),
        }
    }

    /// Replays placements that will be asked for, many in one pass over the rows. What is refused is left to whoever
    /// asks for it.
    ///
    /// # Errors
    /// Damage in a recording; a policy that breaks a law.
    pub fn prepare(&self, wanted: &[Placement]) -> Result<()> {
        if self.readers.is_empty() {
            return Ok(()); // counts from lengths cost next to nothing
        }
        let mut fresh: Vec<Placement> = Vec::new();
        for placement in wanted {
            // Who selects attends to rows of its own: nothing to share.
            let alone = placement.selection.is_some() || fresh.contains(placement);
            if !alone && self.recall(placement).is_none() {
                fresh.push(*placement);
            }
        }
        fresh.sort_by_key(|p| (p.prompt, p.output));
        let same = |a: &Placement, b: &Placement| (a.prompt, a.output) == (b.prompt, b.output);
        let passes: Vec<&[Placement]> = fresh
            .chunk_by(same)
            .flat_map(|alike| alike.chunks(TOGETHER))
            .collect();
        passes.par_iter().try_for_each(|pass| self.pass(pass))
    }

    /// One pass over each recording for placements of the same lengths.
    fn pass(&self, alike: &[Placement]) -> Result<()> {
        let Some(first) = alike.first() else {
            return Ok(());
        };
        let specs: Vec<PolicySpec> = alike.iter().map(|p| p.spec).collect();
        let mut whole: Vec<Option<Timelines>> = vec![Some(Vec::new()); alike.len()];
        for reader in &self.readers {
            let each =
                replay::extended_together(reader.as_ref(), &specs, first.prompt, first.output)?;
            for (list, timeline) in whole.iter_mut().zip(each) {
                match (list.as_mut(), timeline) {
                    (Some(list), Ok(timeline)) => list.push(Arc::new(timeline)),
                    _ => *list = None,
                }
            }
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (placement, timelines) in alike.iter().zip(whole) {
            known.extend(timelines.map(|t| (*placement, placement.finish(t))));
        }
        Ok(())
    }

    /// Forgets all but these.
    pub fn keep(&self, wanted: &[Placement]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(placement, _)| wanted.contains(placement));
    }

    fn recall(&self, key: &Placement) -> Option<Timelines> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(k, _)| k == key);
        found.map(|(_, timelines)| timelines.clone())
    }

    fn replay(&self, key: &Placement) -> Result<Timelines> {
        let replayed = match self.readers.as_slice() {
            [] => vec![Arc::new(key.counted()?)],
            some => some
                .iter()
                .map(|t| key.replayed(t.as_ref()).map(Arc::new))
                .collect::<Result<_>>()?,
        };
        Ok(key.finish(replayed))
    }
}

impl Placement {
    /// What the engine also wants to know of a placement.
    fn finish(&self, timelines: Timelines) -> Timelines {
        let never_moves = self.spec.never_moves(self.prompt);
        let finished = |t: Arc<Timeline>| {
            Arc::new(Timeline {
                never_moves,
                ..Arc::unwrap_or_clone(t)
            })
        };
        timelines.into_iter().map(finished).collect()
    }

    fn replayed(&self, rows: &TraceReader) -> Result<Timeline> {
        let (spec, prompt, output) = (&self.spec, self.prompt, self.output);
        match self.selection {
            None => replay::extended(rows, spec, prompt, output),
            Some(selection) => replay::selected(rows, spec, selection, (prompt, output)),
        }
    }

    fn counted(&self) -> Result<Timeline> {
        let (spec, prompt, output) = (&self.spec, self.prompt, self.output);
        match self.selection {
            None => replay::by_length(spec, prompt, output),
            Some(selection) => replay::selected_by_length(spec, selection, (prompt, output)),
        }
    }
}
