//! The tier loop itself: decode steps over KV that lies partly in host memory, as a serving engine would run them.
//!
//! Modelled: the KV cache of a model's shape on both sides, a policy's decisions carried out, prefetch by layers, attention
//! over both lists, scores, write-back, re-tiers with compaction, in each of the T1 modes ([`Mode`]). Left out: everything
//! else that a model computes (projections, the feed-forward part, sampling), which would hide more of the transfers; a step
//! here is attention and movement alone, so that what the link costs is seen in full. Rival: timing each piece and adding
//! them up, which says nothing of whether they really run side by side.

mod book;
mod check;
mod content;
mod host;
mod marks;
mod mode;
mod plan;
mod retier;
mod run;
mod shape;
mod store;
mod timed;
mod turn;

pub use check::{Checked, POLICY, check};
pub use mode::{Mode, SELECTED, STAGED};

pub(super) use timed::{needs, sample};
