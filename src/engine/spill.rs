//! What of a step depends on T1, T2 and streamed weights alone: bytes over the link, the host's attention, what streaming
//! adds in HBM.
//!
//! Between two decisions only T0 grows, so all this is worked out once and used for every step in between; the step
//! itself adds T0's attention. Streamed T1 is written into HBM and read again; streamed T2 is also dequantised (read,
//! and written at full size). What a kernel reads in place is in its own time; `selective` streams only what is fresh. Transfers and write-back are priced here as if alone on the link; where they meet, the
//! pipeline slows both. Ignored: a copy that starts while the one before is still in flight. Rival: everything anew each step, which gives
//! the same bits for several times the work. Seconds and bytes in f64, times in picoseconds; all figures of one GPU
//! except the bytes of the step, which are over all GPUs.

use super::step::StepTimes;
use crate::deploy::{Layout, ScoreCost, T1Mode, WriteBack};
use crate::service::{Class, Prepared, Traffic, transfer};
use crate::timeline::Fetch;
use crate::units::Ps;

/// What it depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Key {
    /// Sequences running.
    pub(super) sequences: f64,
    /// Tokens in T1 and T2.
    pub(super) host: [f64; 2],
    /// What is fetched of them, where only some take part.
    pub(super) fetch: Fetch,
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
    /// Share of the bytes up the link that is KV: what a re-tier makes stale.
    pub(super) kv_share: f64,
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
    /// Seconds that the attention kernel needs to read one layer's T1 and T2 in place, where it does.
    pub(super) in_place: Option<f64>,
    /// HBM bytes that the weights of attention on T1 and T2 cost besides, where the policy looks at them.
    pub(super) scored: f64,
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
        if key.host[0] + key.host[1] > 0.0 || prepared.streams_weights() {
            for (i, class) in prepared.classes.iter().enumerate() {
                let traffic = traffic(prepared, class, &key, &mut classes[i]);
                classes[i].traffic = traffic;
                transfers[i] = link(prepared, class, &key, traffic, &mut times);
                if traffic.host > 0.0 {
                    classes[i].host = Some(host(prepared, class, &key, traffic.host, &mut times));
                }
                if traffic.in_place > 0.0 {
                    classes[i].in_place = Some(in_place(prepared, class, traffic, &mut times));
                }
            }
        }
        slow_in_place(prepared, down * carrying, &mut classes, &mut times);
        let spill = Self {
            key: Some(key),
            down: Ps::from_secs(down),
            duplex: 1.0 - lost * carrying,
            kv_share: kv_share(prepared, &classes),
            times,
            classes,
        };
        (spill, transfers)
    }
}

/// Share of the bytes up the link that is KV; all of it where no weights come.
fn kv_share(prepared: &Prepared, classes: &[ClassSpill]) -> f64 {
    let (mut kv, mut weights) = (0.0, 0.0);
    for (class, spilled) in prepared.classes.iter().zip(classes) {
        kv += spilled.traffic.link * f64::from(class.count);
        weights += class.host_weights * f64::from(class.count);
    }
    if weights > 0.0 {
        kv / (kv + weights)
    } else {
        1.0
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

/// Time of one layer's copy of T1 and of weights; counts its bytes.
fn link(
    prepared: &Prepared,
    class: &Class,
    key: &Key,
    traffic: Traffic,
    out: &mut StepTimes,
) -> Ps {
    let d = &prepared.deployment;
    let all = f64::from(class.count) * f64::from(d.gpus);
    let weights = class.host_weights;
    out.h2d_bytes += (traffic.link + weights) * all;
    out.t1_bytes += (traffic.link + traffic.host + traffic.in_place) * all;
    let fresh = key.fetch.fresh;
    let pieces = match (d.layout, d.t1) {
        (Layout::Layer, T1Mode::Selective(_)) => 2.0 * key.fetch.fresh_runs,
        (Layout::Token, T1Mode::Selective(_)) => 2.0 * (fresh[0] + fresh[1]),
        (Layout::Layer, _) => 2.0 * key.sequences,
        (Layout::Token, _) => 2.0 * (key.host[0] + key.host[1]),
    };
    // What one layer has of weights is one piece.
    let pieces = match (traffic.link > 0.0, weights > 0.0) {
        (true, true) => pieces + 1.0,
        (true, false) => pieces,
        (false, _) => 1.0,
    };
    Ps::from_secs(transfer::copy(
        &d.hardware.link,
        prepared.h2d_rate,
        traffic.link + weights,
        pieces,
    ))
}

/// Seconds of one layer's attention on the host over `bytes`, of one half where the batch is split; counts what crosses
/// the link for it.
fn host(prepared: &Prepared, class: &Class, key: &Key, bytes: f64, out: &mut StepTimes) -> f64 {
    let (count, gpus) = (f64::from(class.count), f64::from(prepared.deployment.gpus));
    let (m, tokens) = (key.sequences, key.host[0] + key.host[1]);
    out.h2d_busy += Ps::from_secs(count * m * class.output_bytes / prepared.h2d_rate);
    out.h2d_bytes += count * gpus * m * class.output_bytes;
    out.d2h_bytes += count * gpus * m * class.query_bytes;
    if prepared.scores {
        // With it the host knows its tokens' weights; nobody waits for it.
        out.d2h_bytes += count * gpus * m * class.lse_bytes;
    }
    let parts = if prepared.deployment.halves() && m >= 2.0 {
        2.0
    } else {
        1.0
    };
    prepared.host_attention(class, m / parts, bytes / parts, tokens / parts)
}

/// Seconds that one layer's kernel needs to read its T1 and T2 in place; counts its bytes.
fn in_place(prepared: &Prepared, class: &Class, traffic: Traffic, out: &mut StepTimes) -> f64 {
    let seconds = prepared.read_in_place(class, traffic.in_place);
    let count = f64::from(class.count);
    out.h2d_busy += Ps::from_secs(seconds * count);
    // A second pass over K crosses the link again.
    let read = traffic.in_place * prepared.passes(class);
    out.h2d_bytes += read * count * f64::from(prepared.deployment.gpus);
    seconds
}

/// Stretches what is read in place by the `down` seconds in which a write-back moves bytes beside it: over the shorter of
/// the two, both run at the duplex share.
/// Spread over all layers, since a kernel's reads are no transfer that the pipeline follows.
fn slow_in_place(prepared: &Prepared, down: f64, classes: &mut [ClassSpill], out: &mut StepTimes) {
    let read =
        |(c, spilled): (&Class, &ClassSpill)| spilled.in_place.unwrap_or(0.0) * f64::from(c.count);
    let all: f64 = prepared.classes.iter().zip(&*classes).map(read).sum();
    if all <= 0.0 || down <= 0.0 || !all.is_finite() {
        return;
    }
    let share = prepared.deployment.hardware.link.duplex.get();
    let delay = all.min(down) * (1.0 / share - 1.0);
    for seconds in classes.iter_mut().filter_map(|c| c.in_place.as_mut()) {
        *seconds *= 1.0 + delay / all;
    }
    out.h2d_busy += Ps::from_secs(delay);
}

/// What a step moves for one class's T1 and T2, by T1 mode (DESIGN 5.1); a layer with a window has none.
fn traffic(prepared: &Prepared, class: &Class, key: &Key, out: &mut ClassSpill) -> Traffic {
    let [t1, t2] = key.host;
    if class.window.is_some() || t1 + t2 <= 0.0 {
        return Traffic::default();
    }
    let d = &prepared.deployment;
    let host = class.kv_token * t1 + class.t2_token * t2;
    match d.t1 {
        T1Mode::HostAttention => Traffic {
            host,
            ..Traffic::default()
        },
        T1Mode::Direct => {
            // K is read again over the link; logits and weights go through HBM whatever they are of.
            if d.score_cost == ScoreCost::Eager {
                out.scored = class.score_token * (t1 + t2);
            }
            Traffic {
                in_place: host,
                ..Traffic::default()
            }
        }
        T1Mode::Selective(_) => selected(class, &key.fetch, t1 + t2, out),
        T1Mode::Stream => streamed(class, t1, t2, 1.0, out),
        T1Mode::Staged(buffer) => {
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
    out.scored = class.score_token * (t1 + t2);
    out.staged = (1.0 - share) * (full * t1 + (half + 2.0 * full) * t2);
    out.moved = share * (2.0 * full * t1 + 2.0 * (half + full) * t2);
    Traffic {
        link: share * (full * t1 + half * t2),
        ..Traffic::default()
    }
}

/// Traffic where only what is fetched takes part: it lies in HBM at full size, what is fresh comes over the link, T2 as 8
/// bit to be dequantised on arrival.
fn selected(class: &Class, fetch: &Fetch, host: f64, out: &mut ClassSpill) -> Traffic {
    let (full, half) = (class.kv_token, class.t2_token);
    let ([one, two], [fresh, fresh_two]) = (fetch.fetched, fetch.fresh);
    out.share = (fresh + fresh_two) / host;
    out.scored = class.score_token * (one + two);
    out.staged = full * (one + two);
    out.moved = full * fresh + (2.0 * half + full) * fresh_two;
    Traffic {
        link: full * fresh + half * fresh_two,
        ..Traffic::default()
    }
}
