//! The stand-in driver keeps its own law, runs our kernels, and shows a missing wait: what later tests rest on.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUevent_flags, CUresult};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, LaunchConfig, PushKernelArg, result};
use cudarc::nvrtc::Ptx;

use crate::standin::{Driver, in_child};

/// A test that runs with the stand-in driver and these settings.
macro_rules! with_driver {
    ($name:ident, $driver:expr, [$($key:literal = $value:literal),*], $body:expr) => {
        #[test]
        fn $name() {
            let name = concat!("standin_driver::", stringify!($name));
            if !in_child(name, $driver, &[$((concat!("FAKE", $key), $value)),*], $body) {
                skip!("no C++ compiler");
            }
        }
    };
}

const PAGES: &str = include_str!("../../kernels/ptx/pages.ptx");
const GATE: &str = include_str!("../../kernels/ptx/gate.ptx");
const ATTEND: &str = include_str!("../../kernels/ptx/attend.ptx");

/// Two streams and memory on both sides: pinned `host` and `device`, `n` bytes each.
struct Bench {
    ctx: Arc<CudaContext>,
    up: Arc<CudaStream>,
    down: Arc<CudaStream>,
    host: *mut u8,
    device: u64,
    n: usize,
}

impl Bench {
    fn new(n: usize) -> Self {
        let ctx = CudaContext::new(0).unwrap();
        let (up, down) = (ctx.new_stream().unwrap(), ctx.new_stream().unwrap());
        // SAFETY: plain allocations that live as long as the process.
        let (host, device) = unsafe {
            (
                result::malloc_host(n, 2).unwrap().cast(),
                result::malloc_sync(n).unwrap(),
            )
        };
        Self {
            ctx,
            up,
            down,
            host,
            device,
            n,
        }
    }

    fn host(&self, at: usize, n: usize) -> &'static mut [u8] {
        assert!(at + n <= self.n);
        // SAFETY: within the allocation; no test looks while a copy may run.
        unsafe { std::slice::from_raw_parts_mut(self.host.add(at), n) }
    }

    fn h2d(&self, stream: &CudaStream, at: usize, n: usize) {
        // SAFETY: ranges within both allocations.
        unsafe {
            result::memcpy_htod_async(
                self.device + at as u64,
                self.host(at, n),
                stream.cu_stream(),
            )
        }
        .unwrap();
    }

    fn d2h(&self, stream: &CudaStream, at: usize, n: usize) {
        // SAFETY: ranges within both allocations.
        unsafe {
            result::memcpy_dtoh_async(
                self.host(at, n),
                self.device + at as u64,
                stream.cu_stream(),
            )
        }
        .unwrap();
    }

    fn event(&self) -> CudaEvent {
        self.ctx
            .new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
            .unwrap()
    }

    /// Microseconds that what `f` issues on `up` takes.
    fn time(&self, f: impl FnOnce()) -> f64 {
        let (from, to) = (self.event(), self.event());
        from.record(&self.up).unwrap();
        f();
        to.record(&self.up).unwrap();
        f64::from(from.elapsed_ms(&to).unwrap()) * 1e3
    }

    /// Gathers 16-byte pages `index` (on the host at 0) from the host at 4096 to the device.
    fn gather(&self, stream: &Arc<CudaStream>, n: i32, words: i32, blocks: u32) {
        let module = self.ctx.load_module(Ptx::from_src(PAGES)).unwrap();
        let f = module.load_function("kv_gather_pages").unwrap();
        let (src, index, stride) = (self.host as u64 + 4096, self.host as u64, 0u64);
        let mut builder = stream.launch_builder(&f);
        builder
            .arg(&src)
            .arg(&stride)
            .arg(&self.device)
            .arg(&stride)
            .arg(&index)
            .arg(&n)
            .arg(&words);
        let shape = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (64, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the lists fit the allocations.
        unsafe { builder.launch(shape) }.unwrap();
        // The module must outlive the launch.
        stream.synchronize().unwrap();
    }
}

fn near(got: f64, want: f64) {
    assert!((got / want - 1.0).abs() < 1e-3, "{got} us for {want} us");
}

with_driver!(
    copies_take_latency_and_bytes,
    Driver::Current,
    [
        "CUDA_SUBMIT_US" = "0",
        "CUDA_JITTER" = "0",
        "CUDA_H2D_GBPS" = "20",
        "CUDA_D2H_GBPS" = "10",
        "CUDA_COPY_US" = "6"
    ],
    || {
        let b = Bench::new(4_000_000);
        // 6 us + 4e6 bytes / 20e3 bytes per us = 206 us up, / 10e3 = 406 us down; 2e5 bytes: 16 and 26.
        near(b.time(|| b.h2d(&b.up, 0, 4_000_000)), 206.0);
        near(b.time(|| b.d2h(&b.up, 0, 4_000_000)), 406.0);
        near(b.time(|| b.h2d(&b.up, 0, 200_000)), 16.0);
        near(b.time(|| b.d2h(&b.up, 0, 200_000)), 26.0);
    }
);

with_driver!(
    both_directions_slow_each_other,
    Driver::Current,
    [
        "CUDA_JITTER" = "0",
        "CUDA_H2D_GBPS" = "20",
        "CUDA_D2H_GBPS" = "20",
        "CUDA_COPY_US" = "0",
        "CUDA_SUBMIT_US" = "0",
        "CUDA_DUPLEX" = "0.5"
    ],
    || {
        let b = Bench::new(8_000_000);
        let both = b.time(|| {
            b.d2h(&b.down, 4_000_000, 4_000_000);
            b.h2d(&b.up, 0, 4_000_000);
        });
        // 200 us each alone, at half the rate together.
        near(both, 400.0);
    }
);

with_driver!(
    a_batch_pays_by_copy_and_falls_off_a_cliff,
    Driver::Current,
    [
        "CUDA_SUBMIT_US" = "0",
        "CUDA_JITTER" = "0",
        "CUDA_H2D_GBPS" = "20",
        "CUDA_BATCH_US" = "10",
        "CUDA_BATCH_COPY_US" = "0.5",
        "CUDA_BATCH_SMALL_GBPS" = "5"
    ],
    || {
        let b = Bench::new(4_000_000);
        // 100 copies: 10 + 100 * 0.5 + 100 * n / rate. 10,000 bytes at 5 GB/s: 260 us; 30,000 at 20 GB/s: 210 us.
        near(b.time(|| batch(&b, 100, 10_000)), 260.0);
        near(b.time(|| batch(&b, 100, 30_000)), 210.0);
    }
);

/// `count` copies of `n` bytes up in one call.
fn batch(b: &Bench, count: usize, n: usize) {
    let list = |base: u64| {
        (0..count)
            .map(|i| base + (i * n) as u64)
            .collect::<Vec<_>>()
    };
    let (mut to, mut from, mut sizes) = (list(b.device), list(b.host as u64), vec![n; count]);
    let (mut start, mut failed) = (0usize, 0usize);
    // SAFETY: an attribute of zeros is one; lists of `count`.
    let code = unsafe {
        let mut attribute: sys::CUmemcpyAttributes = std::mem::zeroed();
        attribute.srcAccessOrder = sys::CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        sys::cuMemcpyBatchAsync(
            to.as_mut_ptr(),
            from.as_mut_ptr(),
            sizes.as_mut_ptr(),
            count,
            &raw mut attribute,
            &raw mut start,
            1,
            &raw mut failed,
            b.up.cu_stream(),
        )
    };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

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
    a_kernel_reads_host_memory_at_the_rate_of_its_blocks,
    Driver::Current,
    [
        "CUDA_SUBMIT_US" = "0",
        "CUDA_JITTER" = "0",
        "CUDA_ZEROCOPY_GBPS" = "16",
        "CUDA_ZEROCOPY_SM_GBPS" = "2",
        "CUDA_KERNEL_US" = "5"
    ],
    || {
        let b = Bench::new(1 << 20);
        let (n, words) = (32usize, 1024usize);
        let bytes = n * words * 16;
        for (i, byte) in b.host(4096, bytes).iter_mut().enumerate() {
            *byte = (i * 7 + i / 251) as u8;
        }
        for i in 0..n {
            b.host(4 * i, 4)
                .copy_from_slice(&u32::try_from((i * 5 + 3) % n).unwrap().to_le_bytes());
        }
        // 524,288 bytes: 4 blocks read 8 GB/s (65.536 us), 16 and more the link's 16 GB/s (32.768 us).
        near(b.time(|| b.gather(&b.up, 32, 1024, 4)), 70.536);
        near(b.time(|| b.gather(&b.up, 32, 1024, 16)), 37.768);
        let sent = b.host(4096, bytes).to_vec();
        b.d2h(&b.up, 4096, bytes);
        b.up.synchronize().unwrap();
        // What lies at 4096 on the device is page 1 of 16 KiB pages from byte 4096 on: read the whole back instead.
        b.d2h(&b.up, 0, bytes);
        b.up.synchronize().unwrap();
        let page = words * 16;
        let got = b.host(0, bytes);
        assert!((0..n).all(|i| got[i * page..][..page] == sent[(i * 5 + 3) % n * page..][..page]));
    }
);

with_driver!(
    attention_takes_the_time_of_its_bytes,
    Driver::Current,
    [
        "CUDA_SUBMIT_US" = "0",
        "CUDA_JITTER" = "0",
        "CUDA_SKIP_COMPUTE" = "1",
        "CUDA_ATTEND_GBPS" = "500",
        "CUDA_KERNEL_US" = "4",
        "CUDA_SMS" = "16"
    ],
    || {
        let b = Bench::new(1 << 20);
        let module = b.ctx.load_module(Ptx::from_src(ATTEND)).unwrap();
        let f = module.load_function("kv_attend_128").unwrap();
        // 2 sequences of 30,000 and 10,000 resident tokens; the counts are still on their way when the kernel is issued.
        b.host(0, 16)
            .copy_from_slice(&[30_000u32, 10_000, 0, 0].map(u32::to_le_bytes).concat());
        let (none, stride, group, page, parts, scale, logit_stride) =
            (0u64, 2000, 4, 16, 1, 0.1f32, 0i32);
        let (counts, ahead) = (b.device, b.device + 8);
        let took = b.time(|| {
            b.h2d(&b.up, 0, 16);
            let mut l = b.up.launch_builder(&f);
            l.arg(&b.device)
                .arg(&b.device)
                .arg(&b.device)
                .arg(&counts)
                .arg(&stride);
            l.arg(&b.device).arg(&b.device).arg(&ahead).arg(&stride);
            l.arg(&group)
                .arg(&page)
                .arg(&parts)
                .arg(&scale)
                .arg(&b.device)
                .arg(&b.device)
                .arg(&none)
                .arg(&logit_stride);
            let shape = LaunchConfig {
                grid_dim: (1, 8, 2),
                block_dim: (128, 1, 1),
                shared_mem_bytes: 0,
            };
            // SAFETY: nothing runs: FAKECUDA_SKIP_COMPUTE.
            unsafe { l.launch(shape) }.unwrap();
        });
        // 40,000 tokens of 8 KV heads * 512 bytes = 163.84 MB, q and partials 2 * 32 heads * (256 + 516) bytes = 49,408;
        // at 500 GB/s 327.78 us; 4 us for the kernel, 8.001 us for the copy before.
        near(took, 339.78);
    }
);

with_driver!(
    a_gate_keeps_queueing_out_of_the_time,
    Driver::Current,
    [
        "CUDA_JITTER" = "0",
        "CUDA_SUBMIT_US" = "50",
        "CUDA_COPY_US" = "2",
        "CUDA_H2D_GBPS" = "10"
    ],
    || {
        let b = Bench::new(100_000);
        let ten = |b: &Bench| (0..10).for_each(|_| b.h2d(&b.up, 0, 10_000));
        // Ten copies of 3 us each, issued every 50 us: 503 us from the first event on. Behind a gate: 30 us.
        assert!(b.time(|| ten(&b)) > 450.0);
        let flag: *mut u32 = b.host.cast();
        let module = b.ctx.load_module(Ptx::from_src(GATE)).unwrap();
        let f = module.load_function("kv_hold").unwrap();
        let (address, tries) = (flag as u64, 1_000_000u32);
        // SAFETY: the flag is pinned memory of ours.
        unsafe {
            flag.write_volatile(0);
            let mut l = b.up.launch_builder(&f);
            l.arg(&address).arg(&tries);
            l.launch(LaunchConfig {
                grid_dim: (1, 1, 1),
                block_dim: (1, 1, 1),
                shared_mem_bytes: 0,
            })
            .unwrap();
        }
        let (from, to) = (b.event(), b.event());
        from.record(&b.up).unwrap();
        ten(&b);
        to.record(&b.up).unwrap();
        // SAFETY: as above.
        unsafe { flag.write_volatile(1) };
        near(f64::from(from.elapsed_ms(&to).unwrap()) * 1e3, 30.0);
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
    a_graph_of_two_streams_runs_again_and_again,
    Driver::Current,
    [
        "CUDA_JITTER" = "0",
        "CUDA_H2D_GBPS" = "10",
        "CUDA_COPY_US" = "5",
        "CUDA_SUBMIT_US" = "40"
    ],
    || {
        let b = Bench::new(4096);
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let none =
            sys::CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        b.up.begin_capture(mode).unwrap();
        b.h2d(&b.up, 0, 2000);
        b.down.join(&b.up).unwrap();
        // SAFETY: ranges within both allocations.
        unsafe { result::memcpy_dtoh_async(b.host(2048, 2000), b.device, b.down.cu_stream()) }
            .unwrap();
        b.up.join(&b.down).unwrap();
        let graph = b.up.end_capture(none).unwrap().unwrap();
        for fill in [3, 4] {
            b.host(0, 2000).fill(fill);
            b.host(2048, 2000).fill(0);
            // 5 us and 2,000 bytes at 10 GB/s up (5.2 us), at 22 GB/s down (5.09 us), one call for both (40 us).
            near(b.time(|| graph.launch().unwrap()), 40.0 + 5.2 + 5.0909);
            assert!(b.host(2048, 2000).iter().all(|x| *x == fill));
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
