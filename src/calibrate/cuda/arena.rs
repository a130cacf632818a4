//! Memory to measure in: one allocation on the device, one pinned on the host ([`Pinned`]), cut by offsets.
//!
//! One of each, because freeing waits for the whole device and because the safe slices of cudarc would order whatever
//! touches the same allocation. How much: what was planned, at most 85 % of what is free on the device and a quarter of what
//! is available on the host (pinned memory is taken from everybody); if even that is refused, half of it, three times at
//! most. Ranges are checked before every copy; nothing knows which copies still run, which is the caller's to wait for.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use super::fault::{code, coded, failed, refused};
use super::gpu::Gpu;
use super::pinned::Pinned;
use crate::error::{Error, Result};

/// Share of the free device memory that is taken at most: 85 %.
const OF_DEVICE: (u64, u64) = (85, 100);

/// How often a refused allocation is halved.
const HALVINGS: u32 = 3;

/// Where pieces begin \[bytes\].
pub(super) const ALIGN: u64 = 256;

/// Takes as much as possible of `wanted`, not less than `floor`.
pub(super) fn most<T>(
    what: &str,
    wanted: u64,
    floor: u64,
    take: impl Fn(usize) -> std::result::Result<T, DriverError>,
) -> Result<T> {
    let mut bytes = wanted / ALIGN * ALIGN;
    for _ in 0..=HALVINGS {
        if bytes < floor {
            break;
        }
        match take(usize::try_from(bytes).unwrap_or(0)) {
            Ok(taken) => return Ok(taken),
            Err(e) if code(e) == 2 => bytes = bytes / 2 / ALIGN * ALIGN,
            Err(e) => return Err(failed(&format!("taking {} MiB of {what}", bytes >> 20), e)),
        }
    }
    let [floor, wanted] = [floor, wanted].map(|b| b >> 20);
    Err(refused(
        format!(
            "{floor} MiB of {what} are needed; of {wanted} MiB nothing near was given (CUDA error 2)"
        ),
        "stop what else uses the memory, or raise the limit (`ulimit -l`, a container's memory)",
    ))
}

/// Memory of the device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) at: u64,
    pub(super) bytes: u64,
    ctx: Arc<CudaContext>,
}

impl Device {
    /// As much of `wanted` as is there.
    pub(super) fn new(gpu: &Gpu, wanted: u64, floor: u64) -> Result<Self> {
        let (free, _) = gpu
            .ctx
            .mem_get_info()
            .map_err(|e| failed("asking for free memory", e))?;
        let most_of = free as u64 / OF_DEVICE.1 * OF_DEVICE.0;
        // SAFETY: the context of this thread is that of the GPU; freed when dropped.
        let take = |bytes| unsafe { result::malloc_sync(bytes) }.map(|at| (at, bytes as u64));
        let (at, bytes) = most("device memory", wanted.min(most_of), floor, take)?;
        let ctx = Arc::clone(&gpu.ctx);
        Ok(Self { at, bytes, ctx })
    }

    /// All of it, to cut.
    pub(super) fn cut(&self) -> Cut {
        Cut::all(self.at, self.bytes)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.ctx.bind_to_thread().is_ok() {
            // SAFETY: taken by `new`, freed once.
            unsafe { result::free_sync(self.at) }.ok();
        }
    }
}

/// Numbers of which any bits are one.
pub(super) trait Plain: Copy + Default {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for i32 {}
impl Plain for f32 {}

pub(super) fn outside() -> Error {
    Error::internal("a range outside the memory that was taken to measure in")
}

/// Memory from which pieces are cut, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    next: u64,
    end: u64,
}

impl Cut {
    /// All `bytes` from an address on.
    pub(super) fn all(at: u64, bytes: u64) -> Self {
        Self {
            next: at,
            end: at + bytes,
        }
    }

    /// The address of the next `bytes`.
    pub(super) fn take(&mut self, bytes: u64) -> Result<u64> {
        let at = self.next;
        let end = at.checked_add(bytes.max(1)).filter(|e| *e <= self.end);
        self.next = end.ok_or_else(outside)?.next_multiple_of(ALIGN);
        Ok(at)
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }
}

/// Copies from pinned memory at `from` to the device.
pub(super) fn up(
    stream: &CudaStream,
    pinned: &Pinned,
    from: u64,
    to: u64,
    bytes: u64,
) -> Result<()> {
    let host = pinned.host(from, bytes)?;
    // SAFETY: the range is pinned memory of ours; the device's is the caller's, cut from an allocation.
    let code =
        unsafe { sys::cuMemcpyHtoDAsync_v2(to, host.cast(), bytes as usize, stream.cu_stream()) };
    checked("a copy to the device", code as i32)
}

/// Copies from the device to pinned memory at `to`.
pub(super) fn down(
    stream: &CudaStream,
    pinned: &Pinned,
    from: u64,
    to: u64,
    bytes: u64,
) -> Result<()> {
    let host = pinned.host(to, bytes)?;
    // SAFETY: as `up`.
    let code =
        unsafe { sys::cuMemcpyDtoHAsync_v2(host.cast(), from, bytes as usize, stream.cu_stream()) };
    checked("a copy to the host", code as i32)
}

/// Copies that no driver before CUDA 12.8 does in one call: from, to, bytes each; all in one direction.
pub(super) fn batch(stream: &CudaStream, moves: &[(u64, u64, usize)]) -> Result<()> {
    let mut from: Vec<u64> = moves.iter().map(|m| m.0).collect();
    let mut to: Vec<u64> = moves.iter().map(|m| m.1).collect();
    let mut bytes: Vec<usize> = moves.iter().map(|m| m.2).collect();
    let (mut first, mut failed) = (0usize, 0usize);
    // SAFETY: an attribute of zeros is one; lists of equal length, one attribute from the first copy on.
    let code = unsafe {
        let mut attribute: sys::CUmemcpyAttributes = std::mem::zeroed();
        attribute.srcAccessOrder = sys::CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        attribute.flags = sys::CUmemcpyFlags::CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE as u32;
        sys::cuMemcpyBatchAsync(
            to.as_mut_ptr(),
            from.as_mut_ptr(),
            bytes.as_mut_ptr(),
            moves.len(),
            &raw mut attribute,
            &raw mut first,
            1,
            &raw mut failed,
            stream.cu_stream(),
        )
    };
    checked("a batch of copies", code as i32)
}

/// The error of a code.
pub(super) fn checked(what: &str, code: i32) -> Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(coded(what, code))
    }
}
