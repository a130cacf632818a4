//! The stand-in driver keeps its own law, runs our kernels, and shows a missing wait: what later tests rest on.
#![allow(unsafe_code, clippy::pedantic)]

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, LaunchConfig, PushKernelArg, result};
use cudarc::nvrtc::Ptx;

/// A test that runs with the stand-in driver and these settings.
macro_rules! with_driver {
    ($name:ident, $driver:expr, [$($key:literal = $value:literal),*], $body:expr) => {
        #[test]
        fn $name() {
            let path = concat!(module_path!(), "::", stringify!($name));
            let name = path.split_once("::").unwrap().1;
            if !$crate::standin::in_child(name, $driver, &[$((concat!("FAKE", $key), $value)),*], $body) {
                skip!("no C++ compiler");
            }
        }
    };
}

mod faults;
mod laws;

const PAGES: &str = include_str!("../../kernels/ptx/pages.ptx");

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
