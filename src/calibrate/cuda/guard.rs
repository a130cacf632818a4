//! What must be true before the first call into the driver, asked in an order in which no question can panic.
//!
//! cudarc opens the driver's library at the first call and panics if there is none, and again at the first call of a
//! function that the library lacks. So: is there a library, has it every function that is called here, what CUDA does it
//! support (this may be asked before it is started), does it start, does it show a GPU. A library that stands in for the
//! driver (a toolkit's stub, a half installed one) fails at one of these and is named.

use cudarc::driver::sys;

use super::fault::{coded, refused};
use crate::error::Result;

/// Oldest CUDA that a driver must support, as the driver writes it.
const OLDEST: i32 = 12_000;

/// Every function of the driver that is called, by cudarc or here.
const NEEDED: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorString",
    "cuGetErrorName",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostGetDevicePointer_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventElapsedTime",
];

/// A driver that has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Driver {
    /// CUDA that it supports: 13000 is 13.0.
    pub(super) cuda: i32,
    /// GPUs that it shows.
    pub(super) count: i32,
    /// Whether it copies many pieces in one call.
    pub(super) batch: bool,
}

/// Whether the driver's library has a function.
pub(super) fn has(name: &str) -> bool {
    let name: Vec<u8> = name.bytes().chain([0]).collect();
    // SAFETY: the library is there (`open` asks first); the symbol is looked up, not called.
    unsafe {
        sys::culib()
            .get::<unsafe extern "C" fn()>(name.as_slice())
            .is_ok()
    }
}

/// `13.0` of 13000.
pub(super) fn version(cuda: i32) -> String {
    format!("{}.{}", cuda / 1000, cuda % 1000 / 10)
}

/// What CUDA_VISIBLE_DEVICES says, where it is set.
fn visible() -> String {
    let set = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    set.map_or(String::new(), |v| {
        format!(" (CUDA_VISIBLE_DEVICES is {v:?})")
    })
}

/// Starts the driver.
///
/// # Errors
/// Device: there is none, it is too old, it does not start, or it shows no GPU.
pub(super) fn open() -> Result<Driver> {
    // SAFETY: opens libraries by the driver's names and closes them again.
    if !unsafe { sys::is_culib_present() } {
        return Err(refused(
            "no NVIDIA driver: libcuda.so.1 (on Windows nvcuda.dll) was not found",
            "install the driver, or run where the GPU is",
        ));
    }
    if let Some(missing) = NEEDED.iter().find(|n| !has(n)) {
        return Err(refused(
            format!("the NVIDIA driver's library was found but has no {missing}"),
            "it is too old, or a stand-in: install a driver for CUDA 12.0 or newer",
        ));
    }
    let mut cuda = 0;
    // SAFETY: a number is written; the call is allowed before cuInit.
    match unsafe { sys::cuDriverGetVersion(&raw mut cuda) } as i32 {
        0 => {}
        code => return Err(coded("cuDriverGetVersion", code)),
    }
    if cuda < OLDEST {
        let (have, need) = (version(cuda), version(OLDEST));
        return Err(refused(
            format!("the NVIDIA driver supports CUDA {have}, {need} is needed"),
            "update the driver (525 or newer)",
        ));
    }
    // SAFETY: no arguments but zero. The code is compared as a number: a driver may know codes that the bindings do not.
    match unsafe { sys::cuInit(0) } as i32 {
        0 => {}
        100 => {
            return Err(coded(
                &format!("the driver does not start{}", visible()),
                100,
            ));
        }
        code => return Err(coded("the driver does not start", code)),
    }
    let mut count = 0;
    // SAFETY: a number is written.
    match unsafe { sys::cuDeviceGetCount(&raw mut count) } as i32 {
        0 if count > 0 => {}
        0 => {
            return Err(refused(
                format!("the NVIDIA driver works but shows no GPU{}", visible()),
                "look at `nvidia-smi -L` and at CUDA_VISIBLE_DEVICES",
            ));
        }
        code => return Err(coded("counting GPUs", code)),
    }
    Ok(Driver {
        cuda,
        count,
        batch: has("cuMemcpyBatchAsync"),
    })
}
