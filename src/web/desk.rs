//! How much is computed at once.
//!
//! A question waits for one of a few turns, is computed on a thread of its own, and is answered within the time limit or
//! not at all. A browser that goes away while waiting leaves the queue; a computation that has begun cannot be stopped,
//! so it keeps its turn until it ends: slow questions delay each other, they never pile up.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::Semaphore;

use crate::error::{Error, Result};

use super::Limits;
use super::problem::Problem;

/// Turns and places in the queue.
#[derive(Debug)]
pub(super) struct Desk {
    turns: Arc<Semaphore>,
    places: Semaphore,
    pub(super) limits: Limits,
}

impl Desk {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(limits.at_once)),
            places: Semaphore::new(limits.waiting),
            limits,
        }
    }

    /// Computes when it is its turn.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Problem> {
        let _place = self
            .places
            .try_acquire()
            .map_err(|_| busy("too many questions at once"))?;
        let turns = Arc::clone(&self.turns);
        let turn = async move {
            let turn = turns.acquire_owned().await;
            let work = move || {
                let answer = work();
                drop(turn);
                answer
            };
            tokio::task::spawn_blocking(work).await
        };
        match tokio::time::timeout(self.limits.time, turn).await {
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(_)) => Err(Error::internal("the computation panicked").into()),
            Err(_) => {
                let seconds = self.limits.time.as_secs_f64();
                Err(busy(&format!("no answer within {seconds} s")))
            }
        }
    }
}

fn busy(message: &str) -> Problem {
    let help = "ask again in a moment, or for fewer tokens; `kvplan plan` has no time limit";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, message, help)
}
