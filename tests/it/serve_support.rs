//! Loads for tests of the server, and a second, plain scheduler that they are held against.

use std::sync::Arc;

use kvplan::engine::Job;
use kvplan::engine::audit::Audit;
use kvplan::engine::serve::{GiveWay, Rules, Serve, Served, Server};
use kvplan::policy;
use kvplan::replay;
use kvplan::units::Ps;
use kvplan::workload::Request;

use crate::engine_support::World;

/// A request that comes at some millisecond, under a policy placed by its lengths alone.
pub(crate) fn job(policy: &str, at_ms: u64, prompt: u32, output: u32) -> Job {
    let spec = policy::parse(policy).unwrap();
    let mut timeline = replay::by_length(&spec, prompt, output).unwrap();
    timeline.never_moves = spec.never_moves(prompt);
    Job {
        request: Request {
            prompt,
            output,
            arrival: Ps(at_ms * 1_000_000_000),
            generated: 0,
        },
        timeline: Arc::new(timeline),
        phase: 0,
    }
}

/// Rules with all the room of a world.
pub(crate) fn rules(world: &World, max_running: u32, token_budget: u32) -> Rules {
    Rules {
        max_running,
        token_budget,
        give_way: GiveWay::Recompute,
        ahead: false,
        pool: world.ledger.pool(),
        ddr: world.ledger.ddr_capacity.as_f64(),
    }
}

/// Serves them, audited.
pub(crate) fn serve(world: &World, jobs: Vec<Job>, rules: Rules) -> Served {
    serve_with(world, jobs, rules, &[], 0)
}

/// The same with prompt blocks.
pub(crate) fn serve_with(
    world: &World,
    jobs: Vec<Job>,
    rules: Rules,
    blocks: &[Vec<u32>],
    block_tokens: u32,
) -> Served {
    let server = Server::new(Serve {
        prepared: &world.prepared,
        ledger: &world.ledger,
        jobs,
        blocks,
        block_tokens,
        rules,
    });
    server
        .unwrap()
        .run(&mut Audit::new(&world.prepared))
        .unwrap()
}

/// One request of the plain scheduler.
#[derive(Clone, Debug)]
struct Plain {
    at: u64,
    prompt: u32,
    output: u32,
    /// Tokens given.
    given: u32,
    /// Positions computed.
    there: u32,
    begun: Option<u64>,
    first: u64,
    last: u64,
}

impl Plain {
    fn new(job: &Job) -> Self {
        Self {
            at: job.request.arrival.0,
            prompt: job.request.prompt,
            output: job.request.output,
            given: 0,
            there: 0,
            begun: None,
            first: 0,
            last: 0,
        }
    }

    /// Whether only its last token is missing.
    fn decodes(&self) -> bool {
        self.given > 0 && self.there >= self.prompt + self.given - 1
    }

    /// Pages: who decodes holds its prompt and all given tokens, whose prompt is not done that and one more.
    fn pages(&self, page: u32) -> u32 {
        (self.prompt + self.given + u32::from(!self.decodes())).div_ceil(page)
    }

    /// Books a chunk that was computed by `now`.
    fn fill(&mut self, chunk: u32, now: u64) {
        self.there += chunk;
        if self.there == self.prompt + self.given {
            self.given += 1;
            if self.given == 1 {
                self.first = now;
            }
            self.last = now;
        }
    }
}

/// What the plain scheduler says of a request: begin of its prompt, first and last token (ps), and of all: preemptions.
pub(crate) struct Said {
    pub(crate) times: Vec<(u64, u64, u64)>,
    pub(crate) preemptions: u64,
}

/// A scheduler written again from the rules, with nothing but vectors: request by request, step by step, everything in HBM.
/// `room` is in pages, `step` gives a step's time from decode contexts, chunks (before, new) and
/// how many prompts end with it.
pub(crate) fn plain(
    jobs: &[Job],
    (max_running, token_budget): (usize, u32),
    (page, room): (u32, u32),
    step: impl Fn(&[u32], &[(u32, u32)], u32) -> u64,
) -> Said {
    let mut all: Vec<Plain> = jobs.iter().map(Plain::new).collect();
    let (mut waiting, mut running): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut now, mut come, mut preemptions) = (0u64, 0usize, 0u64);
    loop {
        while come < all.len() && all[come].at <= now {
            waiting.push(come);
            come += 1;
        }
        let used = |running: &[usize], all: &[Plain]| {
            running.iter().map(|r| all[*r].pages(page)).sum::<u32>()
        };
        let before = preemptions;
        while used(&running, &all) > room && running.len() > 1 {
            let victim = running.pop().unwrap();
            all[victim].there = 0;
            waiting.insert(0, victim);
            preemptions += 1;
        }
        let mut left = token_budget;
        let (mut contexts, mut chunks, mut filled) = (Vec::new(), Vec::new(), Vec::new());
        for r in &running {
            if all[*r].decodes() {
                contexts.push(all[*r].prompt + all[*r].given);
                left -= 1;
            }
        }
        for r in &running {
            if !all[*r].decodes() {
                let chunk = (all[*r].prompt + all[*r].given - all[*r].there).min(left);
                left -= chunk;
                chunks.push((all[*r].there, chunk));
                filled.push((*r, chunk));
            }
        }
        while preemptions == before
            && !waiting.is_empty()
            && running.len() < max_running
            && left > 0
        {
            let next = waiting[0];
            let need = (all[next].prompt + all[next].given + 1).div_ceil(page);
            if !running.is_empty() && used(&running, &all) + need > room {
                break;
            }
            waiting.remove(0);
            running.push(next);
            all[next].begun.get_or_insert(now);
            let chunk = (all[next].prompt + all[next].given).min(left);
            left -= chunk;
            chunks.push((0, chunk));
            filled.push((next, chunk));
        }
        if running.is_empty() {
            if come == all.len() {
                break;
            }
            now = now.max(all[come].at);
            continue;
        }
        chunks.retain(|c| c.1 > 0);
        let decoding: Vec<usize> = running
            .iter()
            .copied()
            .filter(|r| all[*r].decodes())
            .collect();
        let over = |(r, chunk): &&(usize, u32)| {
            *chunk > 0 && all[*r].there + chunk == all[*r].prompt + all[*r].given
        };
        let ends = u32::try_from(filled.iter().filter(over).count()).unwrap();
        now += step(&contexts, &chunks, ends);
        for r in decoding {
            all[r].there += 1;
            all[r].given += 1;
            all[r].last = now;
        }
        for (r, chunk) in filled {
            all[r].fill(chunk, now);
        }
        running.retain(|r| all[*r].given < all[*r].output);
    }
    Said {
        times: all
            .iter()
            .map(|p| (p.begun.unwrap_or(0), p.first, p.last))
            .collect(),
        preemptions,
    }
}
