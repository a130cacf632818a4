//! The kernels: PTX in the binary, compiled by the driver, launched by name.
//!
//! The driver compiles for the very card, and says what it dislikes in a log that is asked for here and passed on. Arguments
//! are numbers and addresses by value; nothing checks them against the kernel but tests on the stand-in driver, whose
//! modules know how many bytes each parameter has.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, result, sys};
use sha2::{Digest, Sha256};

use super::arena::checked;
use super::fault::{coded, failed};
use super::gpu::Gpu;
use crate::calibrate::raw::tidy;
use crate::error::{Error, Result};

macro_rules! sources {
    ($($file:literal: $($name:literal)+;)+) => {
        /// Each file, its text, its kernels.
        const SOURCES: &[(&str, &str, &[&str])] =
            &[$(($file, include_str!(concat!("../../../kernels/ptx/", $file, ".ptx")), &[$($name),+])),+];
    };
}

sources! {
    "attend": "kv_attend_64" "kv_attend_128";
    "bandwidth": "kv_read" "kv_copy";
    "gate": "kv_hold";
    "merge": "kv_merge";
    "pages": "kv_gather_pages" "kv_scatter_pages";
    "quant_channel": "kv_quant_channel" "kv_dequant_channel";
    "quant_token": "kv_quant_token" "kv_dequant_token";
    "score": "kv_score";
    "select": "kv_select_top";
    "tokens": "kv_gather_tokens" "kv_scatter_tokens" "kv_move_tokens";
}

/// Dynamic shared memory that needs no asking \[bytes\].
const FREE_SHARED: u32 = 48 << 10;

/// Room for the compiler's log \[bytes\].
const LOG: usize = 8192;

/// All kernels, loaded.
#[derive(Debug)]
pub(super) struct Kernels {
    modules: Vec<sys::CUmodule>,
    functions: BTreeMap<&'static str, sys::CUfunction>,
    ctx: Arc<CudaContext>,
}

/// What tells these kernels from others: the start of a hash of all PTX.
pub(super) fn fingerprint() -> String {
    let mut sum = Sha256::new();
    for (_, text, _) in SOURCES {
        sum.update(text.as_bytes());
    }
    crate::units::text::hex(&sum.finalize()[..8])
}

/// Compiles one text; the first lines of the log are part of the error.
fn compile(file: &str, text: &str) -> Result<sys::CUmodule> {
    let text = CString::new(text).map_err(|_| Error::internal("a zero in the kernels' PTX"))?;
    let mut log = vec![0u8; LOG];
    let mut options = [
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG as *mut c_void];
    let mut module = std::ptr::null_mut();
    // SAFETY: two options with their values, a buffer of the size told, a text that ends in a zero.
    let code = unsafe {
        sys::cuModuleLoadDataEx(
            &raw mut module,
            text.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    } as i32;
    if code == 0 {
        return Ok(module);
    }
    let end = log.iter().position(|b| *b == 0).unwrap_or(LOG);
    let said = tidy(&String::from_utf8_lossy(&log[..end]));
    let mut error = coded(&format!("compiling {file}.ptx"), code);
    if !said.is_empty() {
        error.message += &format!("; the driver's compiler says: {said}");
    }
    Err(error)
}

impl Kernels {
    /// Compiles and loads all of them.
    pub(super) fn load(gpu: &Gpu) -> Result<Self> {
        let mut all = Self {
            modules: Vec::new(),
            functions: BTreeMap::new(),
            ctx: Arc::clone(&gpu.ctx),
        };
        for (file, text, names) in SOURCES {
            let module = compile(file, text)?;
            all.modules.push(module);
            for name in *names {
                let c_name =
                    CString::new(*name).map_err(|_| Error::internal("a zero in a name"))?;
                // SAFETY: a module that was just loaded.
                let function = unsafe { result::module::get_function(module, c_name) };
                let function =
                    function.map_err(|e| failed(&format!("finding {name} in {file}.ptx"), e))?;
                all.functions.insert(name, function);
            }
        }
        Ok(all)
    }

    /// Launches a kernel.
    pub(super) fn launch(
        &self,
        stream: &CudaStream,
        name: &str,
        grid: Grid,
        args: Args,
    ) -> Result<()> {
        let function = *self
            .functions
            .get(name)
            .ok_or_else(|| Error::internal(format!("no kernel {name}")))?;
        if grid.shared > FREE_SHARED {
            let what =
                sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a function of a loaded module.
            let asked = unsafe {
                result::function::set_function_attribute(function, what, grid.shared as i32)
            };
            asked.map_err(|e| {
                failed(
                    &format!("{name}: {} bytes of shared memory", grid.shared),
                    e,
                )
            })?;
        }
        let mut values = args.0;
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
        let ([x, y, z], [bx, by, bz]) = (grid.grid, grid.block);
        // SAFETY: a function of a loaded module with as many arguments as it has (tests check each against its PTX); the
        // addresses among them are cut from our allocations, and lists hold places within those.
        let code = unsafe {
            sys::cuLaunchKernel(
                function,
                x,
                y,
                z,
                bx,
                by,
                bz,
                grid.shared,
                stream.cu_stream(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        checked(&format!("launching {name}"), code as i32)
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.ctx.bind_to_thread().is_ok() {
            for module in &self.modules {
                // SAFETY: loaded by `load`, unloaded once; nothing runs any more when a rig is dropped.
                unsafe { result::module::unload(*module) }.ok();
            }
        }
    }
}

/// Blocks and threads of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
}

impl Grid {
    /// Blocks in three dimensions, threads in one.
    pub(super) fn new(grid: [u32; 3], threads: u32) -> Self {
        Self {
            grid,
            block: [threads, 1, 1],
            shared: 0,
        }
    }

    /// Blocks in one dimension.
    pub(super) fn of(blocks: u32, threads: u32) -> Self {
        Self::new([blocks.max(1), 1, 1], threads)
    }

    /// The same with threads in two dimensions.
    pub(super) fn rows(mut self, rows: u32) -> Self {
        self.block[1] = rows;
        self
    }

    /// The same with dynamic shared memory \[bytes\].
    pub(super) fn shared(mut self, bytes: u32) -> Self {
        self.shared = bytes;
        self
    }
}

/// Arguments of a launch, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Args(Vec<[u8; 8]>);

impl Args {
    /// None yet.
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn push(mut self, bytes: &[u8]) -> Self {
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        self.0.push(value);
        self
    }

    /// An address, or a whole number of 64 bits.
    pub(super) fn at(self, address: u64) -> Self {
        self.push(&address.to_le_bytes())
    }

    /// A whole number of 32 bits.
    pub(super) fn int(self, n: u64) -> Self {
        self.push(&(n as u32).to_le_bytes())
    }

    /// A number.
    pub(super) fn float(self, x: f32) -> Self {
        self.push(&x.to_le_bytes())
    }
}
