//! The same checks through a driver, on whatever it drives: with `KVPLAN_GPU=1` memory of the tests is pinned and mapped, and
//! launches go to the committed PTX. `calibration/gpu.sh` runs them so on a real card; here the stand-in shows that they run.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::fs;
use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaContext, result, sys};

use super::shim::{Arg, Shape};
use crate::native;

/// A GPU with the kernels loaded.
pub(super) struct Device {
    ctx: Arc<CudaContext>,
    functions: BTreeMap<String, usize>,
}

/// The GPU, where one is asked for.
pub(super) fn asked() -> Option<&'static Device> {
    static FOUND: OnceLock<Option<Device>> = OnceLock::new();
    let wanted = || std::env::var("KVPLAN_GPU").is_ok_and(|v| v == "1");
    FOUND.get_or_init(|| wanted().then(Device::new)).as_ref()
}

/// Names after `.entry` in a PTX text.
fn entries(text: &str) -> Vec<String> {
    let name = |l: &str| {
        let (_, name) = l.split_once(".entry ")?;
        Some(name.trim_end_matches('(').trim().to_string())
    };
    text.lines().filter_map(name).collect()
}

impl Device {
    fn new() -> Self {
        let ctx = CudaContext::new(0).unwrap();
        let mut functions = BTreeMap::new();
        for file in fs::read_dir(native::root().join("kernels/ptx")).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            let c_text = CString::new(text.clone()).unwrap();
            // SAFETY: a text that ends in a zero; the module stays loaded.
            let module = unsafe { result::module::load_data(c_text.as_ptr().cast()) }.unwrap();
            for name in entries(&text) {
                let c_name = CString::new(name.clone()).unwrap();
                // SAFETY: a loaded module.
                let f = unsafe { result::module::get_function(module, c_name) }.unwrap();
                functions.insert(name, f as usize);
            }
        }
        Self { ctx, functions }
    }

    /// Pinned memory that kernels reach by the host's own addresses.
    pub(super) fn take(&self, bytes: usize) -> *mut u128 {
        self.ctx.bind_to_thread().unwrap();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: freed by `give`.
        unsafe { result::malloc_host(bytes, flags) }.unwrap().cast()
    }

    /// Gives it back.
    pub(super) fn give(&self, at: *mut u128) {
        if self.ctx.bind_to_thread().is_ok() {
            // SAFETY: taken by `take`.
            unsafe { result::free_host(at.cast::<c_void>()) }.ok();
        }
    }

    /// Launches a kernel and waits for it.
    pub(super) fn launch(&self, name: &str, shape: Shape, args: &[Arg]) -> Result<(), String> {
        let failed = |e: cudarc::driver::DriverError| format!("{name}: {:?}", e.0);
        self.ctx.bind_to_thread().map_err(failed)?;
        let function = self.functions[name] as sys::CUfunction;
        let mut values: Vec<[u8; 8]> = args.iter().map(|a| a.0).collect();
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
        let wide = |d: [usize; 3]| d.map(|n| u32::try_from(n).unwrap());
        let ([x, y, z], [bx, by, bz]) = (wide(shape.grid), wide(shape.block));
        let shared = u32::try_from(shape.shared).unwrap();
        let stream = std::ptr::null_mut();
        // SAFETY: arguments as the kernel has them (the same checks hold them against the sources on a CPU).
        unsafe {
            result::launch_kernel(
                function,
                (x, y, z),
                (bx, by, bz),
                shared,
                stream,
                &mut pointers,
            )
        }
        .map_err(failed)?;
        self.ctx.synchronize().map_err(failed)
    }
}

// SAFETY: handles of functions may be used by any thread that binds the context, as `launch` does.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}
