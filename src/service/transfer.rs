//! Copies over the host link: `t = call + (n - 1) * piece + bytes / bandwidth`.
//!
//! A piece of a batched call costs a descriptor (2.3 us) below 28 KiB and a fraction of it above: a cliff that vLLM's
//! measurements show (METHODS 5.2) on NVIDIA; on an MI300X large pieces cost more. Host memory feeds every GPU's link: the rate of
//! one link is at most its share of the DDR read bandwidth. Both directions at once run at the link's duplex share (the
//! engine follows who meets whom), which was measured with host memory behind it. Ignored: host memory that feeds each
//! direction but not both (two channels, or many GPUs). A write-back is a token a step against all of T1, so that this is
//! under a thousandth; and shared in proportion, a faster way down would slow the way up.

use crate::hardware::{Hardware, Link};

/// Bytes per second of one GPU's host-to-device link when `gpus` stream together: DDR is shared.
pub fn h2d_rate(hardware: &Hardware, gpus: f64) -> f64 {
    hardware
        .link
        .h2d
        .get()
        .min(hardware.host.ddr_read.get() / gpus)
}

/// Bytes per second of one GPU's device-to-host link when `gpus` write together (DDR writes as fast as it reads).
pub fn d2h_rate(hardware: &Hardware, gpus: f64) -> f64 {
    hardware
        .link
        .d2h
        .get()
        .min(hardware.host.ddr_read.get() / gpus)
}

/// Bytes per second at which one GPU's kernels read host memory in place when `gpus` do so together: below the copy
/// engine's over `PCIe`, as good as equal over a coherent link.
pub fn in_place_rate(hardware: &Hardware, gpus: f64) -> f64 {
    let kernel = hardware.link.h2d.get() * hardware.link.in_place_share().get();
    kernel.min(hardware.host.ddr_read.get() / gpus)
}

/// Seconds that a piece of `bytes` costs in a batched call, besides its bytes.
pub fn piece(link: &Link, bytes: f64) -> f64 {
    if bytes >= Link::CLIFF {
        link.batched_piece().get()
    } else {
        link.descriptor.get()
    }
}

/// Seconds of a copy of `bytes` in `pieces` contiguous pieces at `rate`; nothing for no bytes.
pub fn copy(link: &Link, rate: f64, bytes: f64, pieces: f64) -> f64 {
    if bytes <= 0.0 {
        return 0.0;
    }
    let further = (pieces - 1.0).max(0.0);
    link.call.get() + further * piece(link, bytes / pieces.max(1.0)) + bytes / rate
}
