//! Plain passes of kernels: device memory read and copied, host memory read and written in place, int8 there and back.
//!
//! Passes over device memory go round all of it, which is many times the L2 cache, so that none finds what the last one
//! left; one over host memory is given a number of blocks of 512 threads, one a multiprocessor as the card schedules them,
//! which shows how few fill the link.

use super::copies::place;
use super::kernels::{Args, Grid};
use super::rig::Rig;
use crate::calibrate::probe::{Direction, Field, Measurement, Point};
use crate::error::Result;

/// Numbers of a row of int8.
const COLS: u64 = 128;

/// Tokens that share a channel's scale.
const TOKENS: u64 = 16;

/// Blocks a multiprocessor of a pass over device memory.
const BLOCKS: u32 = 8;

/// Bytes of a number of the sum that keeps a read from being dropped.
const SINK: u64 = 256;

/// Microseconds of one pass, over `k` of them.
pub(super) fn pass(rig: &Rig, point: &Point, k: u32) -> Result<f64> {
    let bytes = point.get(Field::Bytes).unwrap_or(0);
    let one = |i: u64| match point.measurement {
        Measurement::ZeroCopy => in_place(rig, point, bytes, i),
        Measurement::Quant => quant(rig, &point.mode, bytes, i),
        Measurement::Dequant => dequant(rig, &point.mode, bytes, i),
        _ => device(rig, &point.mode, bytes, i),
    };
    let all = rig.gated(&rig.compute, &[], || (0..u64::from(k)).try_for_each(one))?;
    Ok(all / f64::from(k))
}

fn full(rig: &Rig) -> Grid {
    Grid::of(BLOCKS * rig.gpu.sms, 256)
}

/// The memory behind the sink, of which the `i`th pass of `bytes` takes the next part.
fn window(rig: &Rig, bytes: u64, i: u64) -> u64 {
    rig.device.at + SINK + place(i, bytes, rig.device.bytes - SINK)
}

fn device(rig: &Rig, mode: &str, bytes: u64, i: u64) -> Result<()> {
    if mode == "copy" {
        let from = window(rig, 2 * bytes, i);
        let args = Args::new().at(from).at(from + bytes).at(bytes / 16);
        return rig.launch(&rig.compute, "kv_copy", full(rig), args);
    }
    let args = Args::new()
        .at(window(rig, bytes, i))
        .at(bytes / 16)
        .at(rig.device.at);
    rig.launch(&rig.compute, "kv_read", full(rig), args)
}

fn in_place(rig: &Rig, point: &Point, bytes: u64, i: u64) -> Result<()> {
    let blocks = point.get(Field::Threads).unwrap_or(1) as u32;
    let host = rig.pinned.at + place(i, bytes, rig.pinned.bytes);
    if point.direction == Some(Direction::Down) {
        let args = Args::new()
            .at(window(rig, bytes, i))
            .at(host)
            .at(bytes / 16);
        return rig.launch(&rig.compute, "kv_copy", Grid::of(blocks, 512), args);
    }
    let args = Args::new().at(host).at(bytes / 16).at(rig.device.at);
    rig.launch(&rig.compute, "kv_read", Grid::of(blocks, 512), args)
}

/// `bytes` of binary16 to int8; a group of a channel is the tokens of one head of a page.
fn quant(rig: &Rig, mode: &str, bytes: u64, i: u64) -> Result<()> {
    let rows = bytes / 2 / COLS;
    let x = window(rig, 2 * bytes, i);
    let (q, scale) = (x + bytes, x + bytes + bytes / 2);
    if mode == "per-channel" {
        let groups = rows / TOKENS;
        let args = Args::new()
            .at(x)
            .int(groups)
            .at(0)
            .int(groups)
            .int(TOKENS)
            .int(COLS)
            .at(q)
            .at(scale);
        return rig.launch(
            &rig.compute,
            "kv_quant_channel",
            full(rig).shared(256 * 32),
            args,
        );
    }
    let args = Args::new()
        .at(x)
        .int(rows)
        .at(0)
        .int(rows)
        .int(COLS)
        .int(COLS / 8)
        .at(q)
        .at(scale);
    rig.launch(&rig.compute, "kv_quant_token", full(rig), args)
}

/// `bytes` of int8 back.
fn dequant(rig: &Rig, mode: &str, bytes: u64, i: u64) -> Result<()> {
    let rows = bytes / COLS;
    let q = window(rig, 4 * bytes, i);
    let (scale, y) = (q + bytes, q + 2 * bytes);
    if mode == "per-channel" {
        let groups = rows / TOKENS;
        let args = Args::new()
            .at(q)
            .at(scale)
            .int(groups)
            .int(TOKENS)
            .int(COLS)
            .at(y)
            .int(groups)
            .at(0);
        return rig.launch(&rig.compute, "kv_dequant_channel", full(rig), args);
    }
    let lanes = (COLS / 8) as u32;
    let grid = Grid::of(BLOCKS * rig.gpu.sms, lanes).rows(256 / lanes);
    let args = Args::new()
        .at(q)
        .at(scale)
        .int(rows)
        .int(COLS)
        .at(y)
        .int(rows)
        .at(0);
    rig.launch(&rig.compute, "kv_dequant_token", grid, args)
}
