//! Copies between host and device: pinned and pageable memory, both directions at once, one call after another.
//!
//! A sample is several copies of the same size behind the gate, each from and to another place, so that neither side finds
//! them in a cache. Pageable memory cannot wait behind a gate: the call itself waits. `synchronous` waits for each copy
//! before the next is asked for, as the published prototype does, so that what a host adds between two is in it. With
//! `duplex` the other direction has copies before, during and after.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys;

use super::arena::{checked, down, up};
use super::rig::{Rig, finish};
use crate::calibrate::probe::{Direction, Field, Point};
use crate::error::{Error, Result};

/// Most pageable memory that is copied from and to \[bytes\].
pub(super) const PAGEABLE: u64 = 256 << 20;

/// Bytes apart at which the next copy begins, at least.
const APART: u64 = 4096;

/// A place for the `i`th copy of `bytes` in memory of `all` bytes.
pub(super) fn place(i: u64, bytes: u64, all: u64) -> u64 {
    let each = bytes.next_multiple_of(APART);
    let rooms = (all / each).max(1);
    i % rooms * each
}

/// Microseconds of one copy, over `k` of them.
pub(super) fn copy(rig: &Rig, pageable: &mut Vec<u8>, point: &Point, k: u32) -> Result<f64> {
    let (k, bytes) = (u64::from(k), point.get(Field::Bytes).unwrap_or(0));
    let way = point.direction.unwrap_or(Direction::Up);
    let all = match point.mode.as_str() {
        "pinned" => rig.gated(stream(rig, way), &[], || each(rig, way, bytes, 0..k))?,
        "synchronous" => rig.ungated(stream(rig, way), || synchronous(rig, way, bytes, k))?,
        "duplex" => duplex(rig, way, bytes, k)?,
        "pageable" => rig.ungated(stream(rig, way), || paged(rig, pageable, way, bytes, k))?,
        mode => return Err(Error::internal(format!("no way to copy called `{mode}`"))),
    };
    Ok(all / k as f64)
}

fn stream(rig: &Rig, way: Direction) -> &Arc<CudaStream> {
    if way == Direction::Down {
        &rig.back
    } else {
        &rig.copy
    }
}

fn opposite(way: Direction) -> Direction {
    if way == Direction::Down {
        Direction::Up
    } else {
        Direction::Down
    }
}

/// Queues copies of those numbers; up in the lower halves of both memories, down in the upper.
fn each(rig: &Rig, way: Direction, bytes: u64, numbers: std::ops::Range<u64>) -> Result<()> {
    let half = |all: u64| all / 2 / APART * APART;
    let (host, device) = (half(rig.pinned.bytes), half(rig.device.bytes));
    for i in numbers {
        let (h, d) = (place(i, bytes, host), place(i, bytes, device));
        let (h, d) = (rig.pinned.at + h, rig.device.at + d);
        match way {
            Direction::Down => down(&rig.back, &rig.pinned, d + device, h + host, bytes)?,
            _ => up(&rig.copy, &rig.pinned, h, d, bytes)?,
        }
    }
    Ok(())
}

fn synchronous(rig: &Rig, way: Direction, bytes: u64, k: u64) -> Result<()> {
    for i in 0..k {
        each(rig, way, bytes, i..i + 1)?;
        finish(stream(rig, way))?;
    }
    Ok(())
}

fn duplex(rig: &Rig, way: Direction, bytes: u64, k: u64) -> Result<f64> {
    let (main, other) = (stream(rig, way), stream(rig, opposite(way)));
    let us = rig.gated(main, &[], || {
        rig.follow(other)?;
        each(rig, opposite(way), bytes, 0..2 * k + 2)?;
        each(rig, way, bytes, 0..k)
    })?;
    finish(other)?;
    Ok(us)
}

fn paged(rig: &Rig, pageable: &mut Vec<u8>, way: Direction, bytes: u64, k: u64) -> Result<()> {
    let all = PAGEABLE.min(rig.pinned.bytes).max(bytes);
    pageable.resize(all as usize, 1);
    for i in 0..k {
        let host = &mut pageable[place(i, bytes, all) as usize..][..bytes as usize];
        let device = rig.device.at + place(i, bytes, rig.device.bytes);
        let stream = stream(rig, way).cu_stream();
        // SAFETY: both ranges are ours; calls with pageable memory return when the host's part is done, and the stream is
        // waited for before anything else touches it.
        let code = unsafe {
            match way {
                Direction::Down => {
                    sys::cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), device, host.len(), stream)
                }
                _ => sys::cuMemcpyHtoDAsync_v2(device, host.as_ptr().cast(), host.len(), stream),
            }
        };
        checked("a copy of pageable memory", code as i32)?;
    }
    finish(stream(rig, way))
}

#[cfg(test)]
mod tests {
    use super::place;

    /// 3 rooms of 8,192 bytes in 25,000: the fourth copy is where the first was.
    #[test]
    fn copies_go_round_what_there_is() {
        let places: Vec<u64> = (0..4).map(|i| place(i, 5000, 25_000)).collect();
        assert_eq!(places, [0, 8192, 16384, 0]);
        assert_eq!(place(9, 100, 50), 0);
    }
}
