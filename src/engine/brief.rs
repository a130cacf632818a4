//! Jobs that share a timeline share its brief form ([`crate::timeline::Timeline::brief`]), made once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Job;
use crate::timeline::Timeline;

/// Gives every job the brief form of its timeline.
pub(super) fn brief(jobs: &mut [Job]) {
    let mut known: BTreeMap<*const Timeline, Arc<Timeline>> = BTreeMap::new();
    // What is replaced must live as long as its address is looked up.
    let mut replaced: Vec<Arc<Timeline>> = Vec::new();
    for job in jobs {
        let short = known
            .entry(Arc::as_ptr(&job.timeline))
            .or_insert_with(|| job.timeline.brief());
        if !Arc::ptr_eq(short, &job.timeline) {
            replaced.push(std::mem::replace(&mut job.timeline, Arc::clone(short)));
        }
    }
}
