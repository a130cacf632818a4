//! Measurements of the host: memory by threads, scores, int8, multiply-adds, attention.
//!
//! All of it works on one piece of memory several times larger than the last cache, of which each sample takes the next
//! part, so that nothing is found in a cache that a real step would not find there. Pages are touched first by the threads
//! of the pool, which spreads them over NUMA nodes as the system does; each thread stays on a processor of its own
//! (`cores`). A sample shorter than 200 us repeats its work until it is not and is divided. Bytes count what the work
//! is about: a copy of n bytes is n, though n are read and n written.

mod cores;
mod others;
mod points;
mod work;

use std::collections::BTreeMap;
use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::facts::Facts;
use super::probe::{Field, Pace, Part, Point, Probe, Reading};
use super::raw::Head;
use crate::error::{Error, Result};
use others::Ticks;
use work::Memory;

/// Shortest sample \[us\].
const SHORTEST: f64 = 200.0;

/// Most repetitions within a sample.
const MOST: u64 = 1 << 16;

/// This machine.
#[derive(Debug)]
pub struct HostProbe {
    facts: Facts,
    pace: Pace,
    points: Vec<Point>,
    memory: Memory,
    pools: BTreeMap<u64, ThreadPool>,
    /// How often a point's work is repeated within a sample.
    repeats: BTreeMap<Point, u64>,
    anonymous: bool,
    begun: Option<Ticks>,
}

impl HostProbe {
    /// Takes memory and starts threads.
    ///
    /// # Errors
    /// Device: there is too little memory, or no threads can be started.
    pub fn new(pace: Pace, anonymous: bool) -> Result<Self> {
        let facts = Facts::here();
        let mut pools = BTreeMap::new();
        let cores = cores::order();
        for n in points::threads(facts.threads, pace) {
            let cores = cores.clone();
            let pool = ThreadPoolBuilder::new()
                .num_threads(n)
                .start_handler(move |i| cores::stay(cores.get(i).copied()))
                .build();
            let pool = pool.map_err(|e| refused(&format!("{n} threads cannot be started: {e}")))?;
            pools.insert(n as u64, pool);
        }
        let most = pools.values().next_back();
        let most = most.ok_or_else(|| refused("no threads can be started"))?;
        let memory = most.install(|| Memory::new(&facts))?;
        let points = points::all(facts.threads, pace, memory.bytes());
        Ok(Self {
            facts,
            pace,
            points,
            memory,
            pools,
            repeats: BTreeMap::new(),
            anonymous,
            begun: Ticks::now(),
        })
    }

    /// Seconds of so many repetitions of a point's work.
    fn run(&mut self, point: &Point, repeats: u64) -> Option<f64> {
        let pool = self.pools.get(&point.get(Field::Threads).unwrap_or(1))?;
        let memory = &mut self.memory;
        Some(pool.install(|| {
            let begun = Instant::now();
            for _ in 0..repeats {
                work::once(point, memory);
            }
            begun.elapsed().as_secs_f64()
        }))
    }
}

fn refused(why: &str) -> Error {
    Error::new(crate::error::Cause::Device, why)
}

impl Probe for HostProbe {
    fn points(&self) -> Vec<Point> {
        self.points.clone()
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn sample(&mut self, point: &Point) -> Result<Option<Vec<Reading>>> {
        let known = self.repeats.get(point).copied();
        let repeats = known.unwrap_or(1);
        let Some(seconds) = self.run(point, repeats) else {
            return Ok(None);
        };
        let us = seconds * 1e6 / repeats as f64;
        if known.is_none() {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
            let enough = (SHORTEST / us.max(1e-3)).ceil().clamp(1.0, MOST as f64) as u64;
            self.repeats.insert(point.clone(), enough);
        }
        Ok(Some(vec![Reading {
            part: Part::Whole,
            us: us.max(1e-6),
        }]))
    }

    fn head(&mut self) -> Result<Head> {
        let mut head = self.facts.head(self.anonymous);
        let bytes = self.memory.bytes().to_string();
        head.insert("host.measured_bytes".into(), bytes);
        head.extend(others::head(self.begun));
        Ok(head)
    }
}
