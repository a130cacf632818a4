//! Pinned memory of the host, which kernels can reach.
//!
//! Portable and mapped, not write-combined: the host reads it too. The memory of a cache is ours, in large pages where the
//! system gives them ([`pages`]), and then registered with the driver, for the driver's own is in small pages, which cost
//! attention on the host up to a quarter of its rate. Where the driver does not register (Windows, some WSL2), it is the
//! driver's. Rival: the driver's always, which needs one call less and is what most engines do.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, result, sys};
use memmap2::MmapMut;

use super::arena::{Cut, Plain, most, outside};
use super::fault::coded;
use super::gpu::Gpu;
use super::guard;
use crate::calibrate::pages;
use crate::error::Result;

/// Share of the available host memory that is pinned at most: a quarter.
const OF_HOST: u64 = 4;

/// Whose the memory is.
#[derive(Debug)]
enum Owner {
    Driver(*mut c_void),
    Us(MmapMut),
}

impl Owner {
    /// The driver's own.
    fn driver(bytes: usize) -> std::result::Result<Self, DriverError> {
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the context of this thread is that of the GPU; freed when dropped.
        let at = unsafe { result::malloc_host(bytes, flags) }?;
        // SAFETY: all of it is ours and nothing uses it yet.
        touch(unsafe { std::slice::from_raw_parts_mut(at.cast(), bytes) });
        Ok(Self::Driver(at))
    }

    /// Ours, registered; `None` where that does not go.
    fn registered(bytes: usize) -> Option<Self> {
        if !cfg!(target_os = "linux") || !guard::has("cuMemHostRegister_v2") {
            return None;
        }
        let mut memory = pages::large(bytes).ok()?;
        touch(&mut memory);
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: mapped memory of that size; unregistered before it is unmapped.
        let code =
            unsafe { sys::cuMemHostRegister_v2(memory.as_mut_ptr().cast(), bytes, flags) } as i32;
        (code == 0).then_some(Self::Us(memory))
    }

    fn start(&mut self) -> *mut u8 {
        match self {
            Self::Driver(at) => at.cast(),
            Self::Us(memory) => memory.as_mut_ptr(),
        }
    }
}

/// Takes every page into use.
fn touch(memory: &mut [u8]) {
    memory.iter_mut().step_by(pages::SMALL).for_each(|b| *b = 0);
}

/// Pinned memory.
#[derive(Debug)]
pub(super) struct Pinned {
    host: *mut u8,
    /// Where kernels find it.
    pub(super) at: u64,
    pub(super) bytes: u64,
    owner: Owner,
    ctx: Arc<CudaContext>,
}

impl Pinned {
    /// As much of `wanted` as is there, within a quarter of `available`, registered if that goes; every page touched.
    pub(super) fn new(gpu: &Gpu, wanted: u64, floor: u64, available: Option<u64>) -> Result<Self> {
        let most_of = available.map_or(wanted, |a| a / OF_HOST);
        let take = |bytes| {
            let owner = Owner::registered(bytes).map_or_else(|| Owner::driver(bytes), Ok);
            owner.map(|o| (o, bytes as u64))
        };
        let (owner, bytes) = most("pinned memory", wanted.min(most_of), floor, take)?;
        Self::of(gpu, owner, bytes)
    }

    /// Few `bytes` of the driver's.
    pub(super) fn small(gpu: &Gpu, bytes: u64) -> Result<Self> {
        let take = |bytes| Owner::driver(bytes).map(|o| (o, bytes as u64));
        let (owner, bytes) = most("pinned memory", bytes, bytes, take)?;
        Self::of(gpu, owner, bytes)
    }

    fn of(gpu: &Gpu, owner: Owner, bytes: u64) -> Result<Self> {
        let ctx = Arc::clone(&gpu.ctx);
        let mut made = Self {
            host: std::ptr::null_mut(),
            at: 0,
            bytes,
            owner,
            ctx,
        };
        made.host = made.owner.start();
        // SAFETY: memory that was taken with DEVICEMAP; the address is written.
        let code =
            unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut made.at, made.host.cast(), 0) };
        if code as i32 != 0 {
            return Err(coded("mapping pinned memory", code as i32));
        }
        Ok(made)
    }

    /// Whose it is, as a condition.
    pub(super) fn kind(&self) -> &'static str {
        match self.owner {
            Owner::Driver(_) => "driver",
            Owner::Us(_) => "registered",
        }
    }

    /// All of it, to cut; by addresses that kernels use.
    pub(super) fn cut(&self) -> Cut {
        Cut::all(self.at, self.bytes)
    }

    /// Where the host finds `bytes` from a kernel's address on.
    pub(super) fn host(&self, at: u64, bytes: u64) -> Result<*mut u8> {
        let from = at.checked_sub(self.at);
        let from = from.filter(|f| f.checked_add(bytes).is_some_and(|end| end <= self.bytes));
        let from = from.ok_or_else(outside)?;
        // SAFETY: within the allocation.
        Ok(unsafe { self.host.add(from as usize) })
    }

    /// Writes numbers there. No copy or kernel may be using the place.
    pub(super) fn write<T: Plain>(&self, at: u64, data: &[T]) -> Result<()> {
        let to = self.host(at, size_of_val(data) as u64)?;
        // SAFETY: as many bytes, apart from each other.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr().cast(), to, size_of_val(data)) };
        Ok(())
    }

    /// Reads numbers. No copy or kernel may be writing there.
    pub(super) fn read<T: Plain>(&self, at: u64, count: usize) -> Result<Vec<T>> {
        let bytes = count * size_of::<T>();
        let from = self.host(at, bytes as u64)?;
        let mut out = vec![T::default(); count];
        // SAFETY: as many bytes, apart from each other; any bits are a `Plain`.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr().cast(), bytes) };
        Ok(out)
    }

    /// The bytes there. No copy or kernel may be writing there while they are looked at.
    pub(super) fn bytes(&self, at: u64, bytes: u64) -> Result<&[u8]> {
        let from = self.host(at, bytes)?;
        // SAFETY: within the allocation; who writes meanwhile is the caller's to exclude.
        Ok(unsafe { std::slice::from_raw_parts(from, bytes as usize) })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.ctx.bind_to_thread().is_err() {
            return;
        }
        match &mut self.owner {
            Owner::Driver(at) => {
                // SAFETY: taken by `driver`, freed once.
                unsafe { result::free_host(*at) }.ok();
            }
            Owner::Us(memory) => {
                // SAFETY: registered once, and unmapped only after this.
                unsafe { sys::cuMemHostUnregister(memory.as_mut_ptr().cast()) };
            }
        }
    }
}
