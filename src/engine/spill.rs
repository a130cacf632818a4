//! What of a step depends on T1 and T2 alone: bytes over the link, the host's attention, what streaming adds in HBM.
//!
//! Between two decisions only T0 grows, so all this is worked out once and used for every step in between; the step
//! itself adds T0's attention. Streamed T1 is written into HBM and read again; streamed T2 is also dequantised (read,
//! and written at full size). Transfers and write-back are priced here as if alone on the link; where they meet, the
//! pipeline slows both. Ignored: a copy that starts while the one before is still in flight. Rival: everything anew each step, which gives
//! the same bits for several times the work. Seconds and bytes in f64, times in picoseconds; all figures of one GPU
//! except the bytes of the step, which are over all GPUs.

use super::step::StepTimes;
use crate::deploy::{Layout, T1Mode, WriteBack};
use crate::service::{Class, Prepared, Traffic, transfer};
use crate::units::Ps;

/// What it depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Key {
    /// Sequences running.
    pub(super) sequences: f64,
    /// Tokens in T1 and T2.
    pub(super) host: [f64; 2],
    /// Tokens written down, and the contiguous runs they lie in (0 where they are new).
    pub(super) down: (f64, f64),
}

/// The part of a step that T1, T2 and write-back make.
#[derive(Clone, Debug, Default)]
pub(super) struct Spill {
    /// What it was worked out for.
    pub(super) key: Option<Key>,
    /// Time the write-back keeps the downward link busy.
    pub(super) down: Ps,
    /// Share of its pace that each direction of the link keeps while it is under way: descriptors carry no bytes, so a
    /// write-back of many small pieces takes little from the other direction.
    pub(super) duplex: f64,
    /// Bytes and link time of the step; the rest is zero.
    pub(super) times: StepTimes,
    /// Class by class.
    pub(super) classes: Vec<ClassSpill>,
}

/// One class's part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClassSpill {
    /// HBM bytes that attention reads of T1 and T2 lying staged.
    pub(super) staged: f64,
    /// HBM bytes that streaming moves: written and read.
    pub(super) moved: f64,
    /// Seconds of the host's attention over one layer, where it takes part.
    pub(super) host: Option<f64>,
    /// Bytes over the link and bytes that the host reads, one layer.
    pub(super) traffic: Traffic,
    /// Share of the tokens in host memory that crosses the link.
    pub(super) share: f64,
}

impl Spill {
    /// Works it out, with each class's transfer time. `token_bytes` is a token's KV over all tiered layers.
    pub(super) fn of(prepared: &Prepared, key: Key, token_bytes: f64) -> (Self, Vec<Ps>) {
        let mut times = StepTimes::default();
        let (down, carrying) = write_back(prepared, key.down, token_bytes, &mut times);
        let lost = 1.0 - prepared.deployment.hardware.link.duplex.get();
        let mut classes = vec![ClassSpill::default(); prepared.classes.len()];
        let mut transfers = vec![Ps::ZERO; prepared.classes.len()];
        if key.host[0] + key.host[1] > 0.0 {
            for (i, class) in prepared.classes.iter().enumerate() {
                let traffic = traffic(prepared, class, key.host, &mut classes[i]);
                classes[i].traffic = traffic;
                transfers[i] = link(prepared, class, &key, traffic, &mut times);
                if traffic.host > 0.0 {
                    classes[i].host = Some(host(prepared, class, &key, traffic.host, &mut times));
                }
            }
        }
        let spill = Self {
            key: Some(key),
            down: Ps::from_secs(down),
            duplex: 1.0 - lost * carrying,
            times,
            classes,
        };
        (spill, transfers)
    }
}

/// Seconds the write-back keeps the downward link busy, and the share of them in which bytes move.
fn write_back(
    prepared: &Prepared,
    (tokens, runs): (f64, f64),
    token_bytes: f64,
    out: &mut StepTimes,
) -> (f64, f64) {
    let d = &prepared.deployment;
    let layers = prepared.order.len() as f64;
    let page = f64::from(d.runtime.page_tokens);
    let pieces = match (d.write_back, d.layout) {
        // A page of new tokens goes down at once: one piece of K and one of V a layer, or one for all layers.
        (WriteBack::Through, Layout::Layer) => 2.0 * layers * tokens / page,
        (WriteBack::Through, Layout::Token) => tokens / page,
        (WriteBack::AtDemotion, Layout::Layer) => 2.0 * layers * runs,
        (WriteBack::AtDemotion, Layout::Token) => runs,
    };
    let bytes = tokens * token_bytes;
    out.d2h_bytes += bytes * f64::from(d.gpus);
    let all = transfer::copy(&d.hardware.link, prepared.d2h_rate, bytes, pieces);
    let moving = bytes / prepared.d2h_rate;
    let carrying = if all > 0.0 && moving.is_finite() {
        (moving / all).min(1.0)
    } else {
        1.0
    };
    (all, carrying)
}

/// Time of one layer's T1 copy; counts its bytes.
fn link(
    prepared: &Prepared,
    class: &Class,
    key: &Key,
    traffic: Traffic,
    out: &mut StepTimes,
) -> Ps {
    let d = &prepared.deployment;
    let all = f64::from(class.count) * f64::from(d.gpus);
    out.h2d_bytes += traffic.link * all;
    out.t1_bytes += (traffic.link + traffic.host) * all;
    let pieces = match d.layout {
        Layout::Layer => 2.0 * key.sequences,
        Layout::Token => 2.0 * (key.host[0] + key.host[1]),
    };
    Ps::from_secs(transfer::copy(
        &d.hardware.link,
        prepared.h2d_rate,
        traffic.link,
        pieces,
    ))
}

/// Seconds of one layer's attention on the host over `bytes`; counts what crosses the link for it.
fn host(prepared: &Prepared, class: &Class, key: &Key, bytes: f64, out: &mut StepTimes) -> f64 {
    let (count, gpus) = (f64::from(class.count), f64::from(prepared.deployment.gpus));
    let (m, tokens) = (key.sequences, key.host[0] + key.host[1]);
    out.h2d_busy += Ps::from_secs(count * m * class.output_bytes / prepared.h2d_rate);
    out.h2d_bytes += count * gpus * m * class.output_bytes;
    out.d2h_bytes += count * gpus * m * class.query_bytes;
    prepared.host_attention(class, m, bytes, tokens)
}

/// What a step moves for one class's T1 and T2, by T1 mode (DESIGN 5.1); a layer with a window has none.
fn traffic(
    prepared: &Prepared,
    class: &Class,
    [t1, t2]: [f64; 2],
    out: &mut ClassSpill,
) -> Traffic {
    if class.window.is_some() {
        return Traffic::default();
    }
    let host = class.kv_token * t1 + class.t2_token * t2;
    match prepared.deployment.t1 {
        T1Mode::HostAttention => Traffic {
            host,
            ..Traffic::default()
        },
        T1Mode::Stream => streamed(class, t1, t2, 1.0, out),
        T1Mode::Staged(buffer) => {
            let d = &prepared.deployment;
            let tiered = prepared.classes.iter().filter(|c| c.window.is_none());
            let layers: f64 = tiered.map(|c| f64::from(c.count)).sum();
            let room = buffer.map_or(f64::INFINITY, |b| b.as_f64() / f64::from(d.gpus) / layers);
            let share = if host > 0.0 {
                (1.0 - room / host).max(0.0)
            } else {
                0.0
            };
            streamed(class, t1, t2, share, out)
        }
    }
}

/// Traffic when `share` of T1 and T2 streams and the rest lies staged in HBM.
fn streamed(class: &Class, t1: f64, t2: f64, share: f64, out: &mut ClassSpill) -> Traffic {
    let (full, half) = (class.kv_token, class.t2_token);
    out.share = share;
    out.staged = (1.0 - share) * (full * t1 + (half + 2.0 * full) * t2);
    out.moved = share * (2.0 * full * t1 + 2.0 * (half + full) * t2);
    Traffic {
        link: share * (full * t1 + half * t2),
        ..Traffic::default()
    }
}
