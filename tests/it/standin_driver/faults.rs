//! What goes wrong on request, and what a slip of the caller shows as.

use std::ffi::c_void;

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{CudaContext, result};
use cudarc::nvrtc::Ptx;

use super::{Bench, PAGES};
use crate::standin::Driver;

with_driver!(
    an_older_driver_has_no_batch,
    Driver::BeforeBatch,
    [],
    || {
        // SAFETY: looking for a symbol.
        let found =
            |name: &[u8]| unsafe { sys::culib().get::<unsafe extern "C" fn()>(name).is_ok() };
        assert!(!found(b"cuMemcpyBatchAsync\0"));
        assert!(found(b"cuMemcpyHtoDAsync_v2\0"));
    }
);

with_driver!(
    a_forgotten_wait_shows_as_wrong_data,
    Driver::Current,
    [],
    || {
        let b = Bench::new(4096);
        for wait in [true, false] {
            b.host(0, 2048).fill(if wait { 7 } else { 9 });
            b.h2d(&b.up, 0, 2048);
            if wait {
                b.down.join(&b.up).unwrap();
            }
            // SAFETY: ranges within both allocations.
            unsafe { result::memcpy_dtoh_async(b.host(2048, 2048), b.device, b.down.cu_stream()) }
                .unwrap();
            b.down.synchronize().unwrap();
            let right = b
                .host(2048, 2048)
                .iter()
                .all(|x| *x == if wait { 7 } else { 9 });
            assert_eq!(right, wait);
        }
    }
);

with_driver!(
    asked_for_failures_come_at_their_call,
    Driver::Current,
    ["CUDA_FAIL" = "cuMemAlloc_v2:2:2,cuStreamCreate:2:1"],
    || {
        let ctx = CudaContext::new(0).unwrap();
        let _first = ctx.new_stream().unwrap();
        assert_eq!(
            ctx.new_stream().unwrap_err().0,
            CUresult::CUDA_ERROR_INVALID_VALUE
        );
        // SAFETY: allocations that live as long as the process.
        let codes = [0; 3].map(|_| unsafe { result::malloc_sync(64) }.err().map(|e| e.0));
        assert_eq!(
            codes,
            [None, Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY), None]
        );
    }
);

with_driver!(
    memory_ends_where_it_says,
    Driver::Current,
    ["CUDA_MEM_GB" = "0.001"],
    || {
        let ctx = CudaContext::new(0).unwrap();
        assert_eq!(ctx.mem_get_info().unwrap(), (1_000_000, 1_000_000));
        // SAFETY: an allocation that is given back.
        unsafe {
            assert_eq!(
                result::malloc_sync(1_000_001).unwrap_err().0,
                CUresult::CUDA_ERROR_OUT_OF_MEMORY
            );
            let p = result::malloc_sync(600_000).unwrap();
            assert_eq!(ctx.mem_get_info().unwrap().0, 400_000);
            result::free_sync(p).unwrap();
        }
    }
);

with_driver!(
    a_ptx_newer_than_the_driver_is_refused,
    Driver::Current,
    ["CUDA_PTX_MAX" = "7.8"],
    || {
        let ctx = CudaContext::new(0).unwrap();
        let code = ctx.load_module(Ptx::from_src(PAGES)).unwrap_err().0;
        assert_eq!(code, CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    }
);

with_driver!(
    every_kernel_loads_and_has_a_cost,
    Driver::Current,
    [],
    || {
        let ctx = CudaContext::new(0).unwrap();
        for entry in std::fs::read_dir(crate::native::root().join("kernels/ptx")).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(
                ctx.load_module(Ptx::from_src(text)).is_ok(),
                "{}",
                path.display()
            );
        }
    }
);

with_driver!(
    nvml_answers_as_it_is_told,
    Driver::Current,
    [
        "NVML_PCIE_GEN" = "1",
        "NVML_NUMA" = "n/a",
        "NVML_PROCESSES" = "42:1000 43:2000",
        "NVML_POWER_SOURCE" = "1",
        "NVML_MIG" = "error:999"
    ],
    || {
        use nvml_wrapper::enums::device::PowerSource;
        use nvml_wrapper::error::NvmlError;
        let nvml = nvml_wrapper::Nvml::init().unwrap();
        let device = nvml.device_by_pci_bus_id("0000:01:00.0").unwrap();
        assert!(device.name().unwrap().contains("not a GPU"));
        assert_eq!(
            (
                device.current_pcie_link_gen().unwrap(),
                device.max_pcie_link_gen().unwrap()
            ),
            (1, 4)
        );
        assert!(matches!(
            device.numa_node_id(),
            Err(NvmlError::NotSupported)
        ));
        assert!(matches!(device.mig_mode(), Err(NvmlError::Unknown)));
        let pids: Vec<u32> = device
            .running_compute_processes()
            .unwrap()
            .iter()
            .map(|p| p.pid)
            .collect();
        assert_eq!(pids, [42, 43]);
        assert_eq!(device.power_source().unwrap(), PowerSource::Battery);
        assert!(device.is_ecc_enabled().unwrap().currently_enabled);
        assert_eq!(device.memory_info().unwrap().total, 8_000_000_000);
        assert!(nvml.device_by_pci_bus_id("0000:09:00.0").is_err());
    }
);

with_driver!(
    without_nvml_its_start_is_an_error,
    Driver::WithoutNvml,
    [],
    || {
        // A real NVML of this machine may be found instead; then it is not the stand-in's device that it names.
        if let Ok(nvml) = nvml_wrapper::Nvml::init() {
            assert!(
                nvml.device_by_index(0)
                    .is_ok_and(|d| !d.name().unwrap().contains("not a GPU"))
            );
        }
    }
);

with_driver!(a_broken_ptx_says_why, Driver::Current, [], || {
    let ctx = CudaContext::new(0).unwrap();
    ctx.bind_to_thread().unwrap();
    let mut log = [0u8; 200];
    let mut options = [
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
    let mut module = std::ptr::null_mut();
    // SAFETY: two options with their values, and a text that ends in NUL.
    let code = unsafe {
        sys::cuModuleLoadDataEx(
            &raw mut module,
            c"nonsense".as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    assert_eq!(code, CUresult::CUDA_ERROR_INVALID_PTX);
    assert!(String::from_utf8_lossy(&log).contains("refused"));
});
