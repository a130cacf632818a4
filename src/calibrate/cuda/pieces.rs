//! Many pieces that lie scattered in host memory, brought to one place on the device, in the ways in which it is done.
//!
//! `loop`: a copy a piece. `batch` and `batch-large`: all in one call, pieces below and from 28 KiB on, between which drivers
//! are known to change their way (vLLM's measurements). `gather-stage`: the host gathers into pinned memory and one copy
//! follows. `scatter`: what lies dense on the host and scattered on the device, one copy and a kernel. `zero-copy`: a kernel
//! reads the pieces over the link. Pieces are at random pages, none twice, so that neither prefetchers nor caches help.

use std::time::Instant;

use super::arena::{Cut, batch, up};
use super::kernels::{Args, Grid};
use super::rig::Rig;
use crate::calibrate::probe::{Field, Point};
use crate::error::{Error, Result};

/// Bytes of a word of the kernels.
const WORD: u64 = 16;

/// Where things lie for one sample.
struct Place {
    pieces: u64,
    bytes: u64,
    /// Pieces in host memory, and how many have room there.
    host: u64,
    rooms: u64,
    /// Pinned memory of all pieces side by side.
    stage: u64,
    /// Device memory of all pieces, twice.
    dense: u64,
    apart: u64,
    index: u64,
}

impl Place {
    fn new(rig: &Rig, point: &Point) -> Result<Self> {
        let pieces = point.get(Field::Pieces).unwrap_or(0);
        let bytes = point.get(Field::Bytes).unwrap_or(0);
        let (mut host, mut device) = (rig.pinned.cut(), rig.device());
        let stage = host.take(pieces * bytes)?;
        let (dense, index) = (device.take(pieces * bytes)?, device.take(4 * pieces)?);
        Ok(Self {
            pieces,
            bytes,
            stage,
            dense,
            index,
            apart: device.take(pieces * bytes)?,
            rooms: rooms(&host, bytes, pieces)?,
            host: host.take(0)?,
        })
    }

    /// Which piece of host memory the `i`th is: a walk by an odd stride, another one each time.
    fn room(&self, i: u64, turn: u64) -> u64 {
        let stride = (self.rooms / 2 + turn * 2) | 1;
        (turn * 7919 + i * stride) % self.rooms
    }

    fn from(&self, i: u64, turn: u64) -> u64 {
        self.host + self.room(i, turn) * self.bytes
    }

    fn list(&self, turn: u64) -> Vec<u32> {
        (0..self.pieces)
            .map(|i| self.room(i, turn) as u32)
            .collect()
    }
}

/// A power of two of pieces, so that an odd stride meets each once.
fn rooms(host: &Cut, bytes: u64, pieces: u64) -> Result<u64> {
    let rooms = host.left() / bytes.max(1);
    let rooms = 1 << rooms.max(1).ilog2();
    if rooms < pieces {
        return Err(Error::internal("too little pinned memory for pieces"));
    }
    Ok(rooms)
}

/// Microseconds of all pieces, over `k` times.
pub(super) fn pieces(rig: &Rig, point: &Point, k: u32) -> Result<f64> {
    let place = Place::new(rig, point)?;
    let all = match point.mode.as_str() {
        "loop" => rig.gated(&rig.copy, &[], || {
            (0..u64::from(k)).try_for_each(|turn| looped(rig, &place, turn))
        })?,
        "batch" | "batch-large" => rig.gated(&rig.copy, &[], || {
            (0..u64::from(k)).try_for_each(|turn| batched(rig, &place, turn))
        })?,
        "gather-stage" => staged(rig, &place, k)?,
        "scatter" => scattered(rig, &place, k)?,
        "zero-copy" => zero_copy(rig, &place, k)?,
        mode => {
            return Err(Error::internal(format!(
                "no way to bring pieces called `{mode}`"
            )));
        }
    };
    Ok(all / f64::from(k))
}

fn looped(rig: &Rig, place: &Place, turn: u64) -> Result<()> {
    for i in 0..place.pieces {
        let to = place.dense + i * place.bytes;
        up(&rig.copy, &rig.pinned, place.from(i, turn), to, place.bytes)?;
    }
    Ok(())
}

fn batched(rig: &Rig, place: &Place, turn: u64) -> Result<()> {
    let one = |i| {
        let host = rig.pinned.host(place.from(i, turn), place.bytes)?;
        Ok((
            host as u64,
            place.dense + i * place.bytes,
            place.bytes as usize,
        ))
    };
    let moves = (0..place.pieces).map(one).collect::<Result<Vec<_>>>()?;
    batch(&rig.copy, &moves)
}

/// The host's part by its own clock, the copy's by events.
fn staged(rig: &Rig, place: &Place, k: u32) -> Result<f64> {
    let bytes = place.bytes as usize;
    let to = rig.pinned.host(place.stage, place.pieces * place.bytes)?;
    let begun = Instant::now();
    for turn in 0..u64::from(k) {
        for i in 0..place.pieces {
            let from = rig.pinned.host(place.from(i, turn), place.bytes)?;
            // SAFETY: both within pinned memory, apart from each other, and no copy runs.
            unsafe { std::ptr::copy_nonoverlapping(from, to.add(i as usize * bytes), bytes) };
        }
    }
    let host = begun.elapsed().as_secs_f64() * 1e6;
    let device = rig.gated(&rig.copy, &[], || {
        (0..k).try_for_each(|_| {
            up(
                &rig.copy,
                &rig.pinned,
                place.stage,
                place.dense,
                place.pieces * place.bytes,
            )
        })
    })?;
    Ok(host + device)
}

fn moved(place: &Place, src: u64, dst: u64) -> Args {
    let words = place.bytes / WORD;
    Args::new()
        .at(src)
        .at(0)
        .at(dst)
        .at(0)
        .at(place.index)
        .int(place.pieces)
        .int(words)
}

fn grid(rig: &Rig, place: &Place) -> Grid {
    Grid::of((place.pieces as u32).min(2 * rig.gpu.sms), 256)
}

fn scattered(rig: &Rig, place: &Place, k: u32) -> Result<f64> {
    let order: Vec<u32> = (0..place.pieces as u32).rev().collect();
    rig.put(place.index, &order)?;
    let bytes = place.pieces * place.bytes;
    rig.gated(&rig.copy, &[], || {
        for _ in 0..k {
            up(&rig.copy, &rig.pinned, place.stage, place.dense, bytes)?;
            let args = moved(place, place.dense, place.apart);
            rig.launch(&rig.copy, "kv_scatter_pages", grid(rig, place), args)?;
        }
        Ok(())
    })
}

fn zero_copy(rig: &Rig, place: &Place, k: u32) -> Result<f64> {
    rig.put(place.index, &place.list(u64::from(k)))?;
    rig.gated(&rig.copy, &[], || {
        (0..k).try_for_each(|_| {
            let args = moved(place, place.host, place.dense);
            rig.launch(&rig.copy, "kv_gather_pages", grid(rig, place), args)
        })
    })
}
