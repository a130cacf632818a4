//! Copies by method: who issues them, and what each piece costs.
//!
//! * Copy engine, one call: `call + bytes / rate`. One call a piece: `n * call + bytes / rate`. One batched call: a
//!   descriptor a piece.
//! * A gather kernel: `call + n * piece + bytes / rate`; it issues from the GPU, so that a piece costs a quarter of a
//!   microsecond, but takes SMs (vLLM's offloading post).
//! * Pageable memory goes through a pinned buffer that one CPU thread fills, so both rates add in series.
//!
//! Both directions at once run at the link's duplex share each; memory at another socket comes at most at that of the way
//! between sockets.

use super::transfer;
use crate::hardware::Link;

/// Who moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A copy engine, all of it in one call.
    Whole,
    /// A copy engine, one call a piece.
    Calls,
    /// A copy engine, one call with a descriptor a piece.
    Batched,
    /// A kernel that gathers pieces.
    Gather,
    /// A kernel that reads or writes the other side's memory in a stream.
    Kernel,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Host to device.
    Up,
    /// Device to host.
    Down,
}

/// A copy of pieces of equal size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// Who moves them.
    pub method: Method,
    /// Which way.
    pub direction: Direction,
    /// Whether the other direction is busy too.
    pub duplex: bool,
    /// Whether host memory is pinned.
    pub pinned: bool,
    /// Whether it lies at another socket than the GPU.
    pub remote: bool,
    /// Pieces.
    pub pieces: f64,
    /// Bytes of all of them.
    pub bytes: f64,
}

/// Bytes a second of the link for this copy, once it streams.
pub fn rate(link: &Link, copies: &Copies) -> f64 {
    let lone = match copies.direction {
        Direction::Up => link.h2d.get(),
        Direction::Down => link.d2h.get(),
    };
    let share = match (copies.method, copies.direction) {
        (Method::Gather, _) => link.gather_share().get(),
        (Method::Kernel, Direction::Up) => link.in_place_share().get(),
        // Writes are posted: a kernel need not wait for them.
        _ => 1.0,
    };
    let both = if copies.duplex {
        link.duplex.get()
    } else {
        1.0
    };
    let rate = lone * share * both;
    let rate = if copies.remote {
        rate.min(link.remote().get())
    } else {
        rate
    };
    if copies.pinned {
        rate
    } else {
        1.0 / (1.0 / rate + 1.0 / link.staging().get())
    }
}

/// Seconds of it.
pub fn seconds(link: &Link, copies: &Copies) -> f64 {
    let rate = rate(link, copies);
    let (call, n) = (link.call.get(), copies.pieces);
    match copies.method {
        Method::Whole | Method::Kernel => call + copies.bytes / rate,
        Method::Calls => n * call + copies.bytes / rate,
        Method::Batched => call + n * transfer::piece(link, copies.bytes / n) + copies.bytes / rate,
        Method::Gather => call + n * link.gather_piece().get() + copies.bytes / rate,
    }
}
