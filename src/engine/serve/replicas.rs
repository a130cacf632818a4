//! Replicas that share the experts of every layer: ranks of data parallel that run in step.
//!
//! Each replica has its requests, its batch, its KV and its own attention; what it computes of the experts is for the tokens of
//! all. So no rank is a step ahead of another: all choose their batches at the same moment, the experts' kernels run over the
//! tokens of all ranks, and the step is over when the slowest rank is. A rank without requests runs along and has nothing of
//! its own. Ignored: the balancer's look at queues (requests are dealt in turn before the run); experts of unequal load.
//! Rival: ranks on their own that take each other to be as full as they are, which doubles the experts' part of every prompt
//! and hides that others wait for it. Deterministic: ranks are looked at in order.

use super::{Served, Server};
use crate::engine::Unwatched;
use crate::error::{Error, Result};
use crate::units::Ps;

/// Serves all requests of all replicas.
///
/// # Errors
/// As [`Server::run`].
pub fn together(mut ranks: Vec<Server<'_>>) -> Result<Vec<Served>> {
    let (mut now, mut seen) = (Ps::ZERO, Ps::ZERO);
    loop {
        for rank in &mut ranks {
            rank.arrive(seen);
            rank.choose(now);
        }
        if ranks.iter().any(Server::busy) {
            (now, seen) = step(&mut ranks, now)?;
            continue;
        }
        let lingering: Vec<bool> = ranks.iter_mut().map(Server::lets_go).collect();
        if lingering.contains(&true) {
            continue;
        }
        if ranks.iter().any(|r| !r.waiting.is_empty()) {
            return Err(Error::internal("an idle engine leaves a request waiting"));
        }
        let Some(next) = ranks.iter().filter_map(Server::next_arrival).min() else {
            return Ok(ranks.into_iter().map(Server::finish).collect());
        };
        now = now.max(next);
        seen = now;
        for rank in &mut ranks {
            rank.last_end = None;
        }
    }
}

/// One step of all of them; returns its end, and the time up to which arrivals take part in the next choice.
fn step(ranks: &mut [Server<'_>], now: Ps) -> Result<(Ps, Ps)> {
    let stall = ranks.iter_mut().map(|r| std::mem::take(&mut r.stall)).max();
    let start = now + stall.unwrap_or_default();
    let rows: f64 = ranks.iter().map(Server::rows).sum();
    let mut times = Vec::with_capacity(ranks.len());
    for rank in ranks.iter_mut() {
        rank.lingering = 0;
        let busy = rank.busy();
        times.push(busy.then(|| rank.timed(start, Some(rows))).transpose()?);
    }
    let end = times.iter().flatten().map(|t| t.end).max().unwrap_or(start);
    for (rank, times) in ranks.iter_mut().zip(times) {
        let Some(mut times) = times else { continue };
        times.exposed += end.saturating_sub(times.end);
        times.end = end;
        rank.told(&times, &mut Unwatched)?;
        rank.running.advance();
        rank.sync(end);
    }
    let ahead = ranks.first().is_some_and(|r| r.setup.rules.ahead);
    Ok((end, if ahead { start } else { end }))
}
