//! One GPU with a context of ours, and what it says of itself.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute_enum as Ask};
use cudarc::driver::{CudaContext, result};

use super::fault::{coded, failed, refused};
use super::guard::{self, Driver};
use crate::calibrate::raw::{Head, tidy};
use crate::error::Result;

/// Least compute capability, times ten: the kernels' PTX is for 8.0.
const LEAST: i32 = 80;

/// Least free memory that anything can be measured on \[bytes\].
const LEAST_FREE: usize = 256 << 20;

/// A GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub(super) ctx: Arc<CudaContext>,
    pub(super) driver: Driver,
    /// Number that CUDA gives it.
    pub index: usize,
    /// Name, as the driver has it.
    pub name: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub sms: u32,
    /// L2 cache \[bytes\].
    pub l2: u64,
    /// Copy engines.
    pub engines: u32,
    /// PCI bus id, by which NVML knows it.
    pub bus: String,
    /// Memory \[bytes\].
    pub memory: u64,
    /// Memory that was free before anything was taken \[bytes\].
    pub free: u64,
}

fn ask(device: sys::CUdevice, what: sys::CUdevice_attribute) -> Result<i32> {
    // SAFETY: a device that the driver gave, an attribute of the bindings.
    unsafe { result::device::get_attribute(device, what) }
        .map_err(|e| failed("asking the GPU for what it is", e))
}

fn bus_of(device: sys::CUdevice) -> Result<String> {
    let mut id = [0 as c_char; 32];
    // SAFETY: 32 bytes, of which the last stays zero.
    let code = unsafe { sys::cuDeviceGetPCIBusId(id.as_mut_ptr(), 31, device) };
    if code as i32 != 0 {
        return Err(coded("asking for the PCI bus id", code as i32));
    }
    // SAFETY: ends in a zero.
    Ok(unsafe { CStr::from_ptr(id.as_ptr()) }
        .to_string_lossy()
        .into_owned())
}

/// Refuses a GPU that nobody may use or that cannot run the kernels.
fn check(device: sys::CUdevice, name: &str) -> Result<(i32, i32)> {
    // 2 is CU_COMPUTEMODE_PROHIBITED.
    if ask(device, Ask::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)? == 2 {
        return Err(refused(
            format!("{name}: its compute mode forbids any context"),
            "`nvidia-smi -c DEFAULT` allows it",
        ));
    }
    let major = ask(device, Ask::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = ask(device, Ask::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    if 10 * major + minor < LEAST {
        return Err(refused(
            format!("{name}: compute capability {major}.{minor}, 8.0 is needed"),
            "cards from A100 and RTX 30 on can be measured",
        ));
    }
    if ask(device, Ask::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)? == 0 {
        return Err(refused(
            format!("{name}: it cannot map host memory, which measurements wait on"),
            "measure another GPU",
        ));
    }
    Ok((major, minor))
}

fn whole(n: i32) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

impl Gpu {
    /// Starts the driver and takes its GPU number `index`.
    ///
    /// # Errors
    /// Device: what stands in the way, and the way out.
    pub fn open(index: usize) -> Result<Self> {
        let driver = guard::open()?;
        let count = usize::try_from(driver.count).unwrap_or(0);
        if index >= count {
            return Err(refused(
                format!("there is no GPU {index}: the driver shows {count}"),
                "GPUs count from 0 in the order of CUDA, see `kvplan doctor`",
            ));
        }
        let device = result::device::get(index as i32).map_err(|e| failed("taking the GPU", e))?;
        let name =
            result::device::get_name(device).map_err(|e| failed("asking for its name", e))?;
        let name = tidy(&name);
        let capability = check(device, &name)?;
        let ctx =
            CudaContext::new(index).map_err(|e| failed(&format!("{name}: making a context"), e))?;
        let (free, total) = ctx
            .mem_get_info()
            .map_err(|e| failed("asking for free memory", e))?;
        if free < LEAST_FREE {
            let [need, free, total] = [LEAST_FREE, free, total].map(|b| b >> 20);
            return Err(refused(
                format!("{name}: {need} MiB of memory are needed, {free} of {total} MiB are free"),
                "stop what else uses the GPU",
            ));
        }
        Ok(Self {
            driver,
            index,
            capability,
            sms: whole(ask(device, Ask::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?).max(1),
            l2: whole(ask(device, Ask::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?).into(),
            engines: whole(ask(device, Ask::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)?),
            bus: bus_of(device)?,
            memory: total as u64,
            free: free as u64,
            name,
            ctx,
        })
    }

    /// CUDA that its driver supports: `13.0`.
    pub fn cuda(&self) -> String {
        guard::version(self.driver.cuda)
    }

    /// As lines of a head.
    pub fn head(&self) -> Head {
        let (major, minor) = self.capability;
        [
            ("gpu", self.name.clone()),
            (
                "gpu.batch_copies",
                if self.driver.batch { "yes" } else { "no" }.into(),
            ),
            ("gpu.capability", format!("{major}.{minor}")),
            ("gpu.copy_engines", self.engines.to_string()),
            ("gpu.cuda", self.cuda()),
            ("gpu.free_bytes", self.free.to_string()),
            ("gpu.l2_bytes", self.l2.to_string()),
            ("gpu.memory_bytes", self.memory.to_string()),
            ("gpu.multiprocessors", self.sms.to_string()),
        ]
        .into_iter()
        .map(|(key, value)| (key.into(), tidy(&value)))
        .collect()
    }
}
