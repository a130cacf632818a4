//! A recorded run of a server: the engine under its load, divided as it was.
//!
//! Everything is in HBM. Replicas (data parallel) take requests in turn, each with a batch and a budget of its own. Where
//! expert parallelism is on their experts are shared: a rank holds its share of them and computes it for the tokens of all
//! ranks, which cross the interconnect there and back, and all run in step ([`together`]). The makespan is that of the last
//! replica. Ignored: the balancer's look at queues, which takes turns where requests are alike.

use std::sync::Arc;

use super::machine::{Machine, Setup};
use crate::engine::serve::{GiveWay, Life, Rules, Serve, Server, together};
use crate::engine::{Job, Unwatched};
use crate::hardware::Choose;
use crate::memory::Ledger;
use crate::service::Prepared;
use crate::stats;
use crate::timeline::{Interval, Timeline};
use crate::units::Ps;
use crate::workload::Recorded;

/// How the GPUs are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// GPUs in tensor parallel.
    pub gpus: u32,
    /// Replicas.
    pub replicas: u32,
    /// Whether replicas share the experts of a layer.
    pub experts: bool,
}

impl Default for Division {
    fn default() -> Self {
        Self {
            gpus: 1,
            replicas: 1,
            experts: false,
        }
    }
}

/// A server and its load.
#[derive(Clone, Debug)]
pub struct Service {
    /// The model and its formats.
    pub setup: Setup,
    /// How the GPUs are divided.
    pub division: Division,
    /// Requests that run together; the runtime's default where it is not said.
    pub max_running: Option<u32>,
    /// Tokens of a step.
    pub token_budget: Option<u32>,
    /// Whether a batch is chosen ahead.
    pub ahead: Option<bool>,
    /// Whether prompts that begin alike share their blocks.
    pub prefix_cache: bool,
    /// What comes.
    pub load: Recorded,
}

/// What a run comes to (s): mean, median and 99th percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// From the first arrival to the last token.
    pub makespan: f64,
    /// Output tokens per second.
    pub throughput: f64,
    /// Time to the first token.
    pub ttft: [f64; 3],
    /// Time per further token, mean over each request.
    pub tpot: [f64; 3],
}

/// Sequences of a vLLM server that does not say how many.
const USUAL_RUNNING: u32 = 256;

/// Runs it; none if it cannot be run.
pub fn figures(machine: &Machine, service: &Service) -> Option<Figures> {
    let mut prepared = Prepared::new(&machine.deploy(&service.setup));
    let d = service.division;
    if d.experts {
        prepared.expert_ranks = f64::from(d.replicas);
    }
    let lives = lives(&prepared, service)?;
    let makespan = lives.iter().map(|l| l.last).max()?.secs();
    let tokens: f64 = lives.iter().map(|l| f64::from(l.output)).sum();
    let ttft = lives.iter().map(|l| l.times().ttft.secs()).collect();
    let tpot = lives.iter().filter_map(|l| l.times().tpot).map(Ps::secs);
    Some(Figures {
        makespan,
        throughput: tokens / makespan,
        ttft: summed(ttft)?,
        tpot: summed(tpot.collect())?,
    })
}

fn summed(mut all: Vec<f64>) -> Option<[f64; 3]> {
    let mean = stats::mean(all.iter().copied());
    let mut at = |share| stats::percentile(&mut all, share);
    Some([mean, at(0.5)?, at(0.99)?])
}

/// What all requests live through.
fn lives(prepared: &Prepared, service: &Service) -> Option<Vec<Life>> {
    let ledger = Ledger::new(prepared);
    let d = service.division;
    let shares: Vec<_> = (0..d.replicas).map(|r| blocks(service, r)).collect();
    let servers = (0..d.replicas).zip(&shares);
    let servers = servers.map(|(r, blocks)| server(prepared, &ledger, service, r, blocks));
    let servers: Vec<Server<'_>> = servers.collect::<Option<_>>()?;
    let served = if d.experts && d.replicas > 1 {
        together(servers).ok()?
    } else {
        let alone = servers.into_iter().map(|s| s.run(&mut Unwatched).ok());
        alone.collect::<Option<Vec<_>>>()?
    };
    Some(served.into_iter().flat_map(|s| s.lives).collect())
}

/// Prompt blocks of a replica's requests, where they are shared.
fn blocks(service: &Service, replica: u32) -> Vec<Vec<u32>> {
    if !service.prefix_cache {
        return Vec::new();
    }
    let replicas = service.division.replicas as usize;
    let all = service.load.blocks.iter();
    let own = all.skip(replica as usize).step_by(replicas.max(1));
    own.cloned().collect()
}

/// One replica with its share of the requests.
fn server<'a>(
    prepared: &'a Prepared,
    ledger: &'a Ledger,
    service: &Service,
    replica: u32,
    blocks: &'a [Vec<u32>],
) -> Option<Server<'a>> {
    let load = &service.load;
    let own = |i: usize| i % service.division.replicas as usize == replica as usize;
    let jobs: Vec<Job> = load
        .requests
        .iter()
        .enumerate()
        .filter(|(i, _)| own(*i))
        .map(|(_, request)| Job {
            request: *request,
            timeline: in_hbm(request.prompt, request.output),
            phase: 0,
        })
        .collect();
    let runtime = &prepared.deployment.runtime;
    #[allow(clippy::cast_possible_truncation)] // a count of tokens
    let usual = runtime.batched_tokens.get() as u32;
    let server = Server::new(Serve {
        prepared,
        ledger,
        jobs,
        blocks,
        block_tokens: load.block_tokens,
        rules: Rules {
            max_running: service.max_running.unwrap_or(USUAL_RUNNING),
            token_budget: service.token_budget.unwrap_or(usual),
            give_way: GiveWay::Recompute,
            ahead: service.ahead.unwrap_or(runtime.choose == Choose::Ahead),
            pool: ledger.pool(),
            ddr: ledger.ddr_capacity.as_f64(),
        },
    });
    server.ok()
}

/// A placement with everything in HBM.
fn in_hbm(prompt: u32, output: u32) -> Arc<Timeline> {
    let first = Interval {
        tokens: [f64::from(prompt) + 1.0, 0.0, 0.0, 0.0],
        ..Interval::default()
    };
    Arc::new(Timeline {
        prompt,
        steps: output,
        intervals: vec![first],
        ..Timeline::default()
    })
}
