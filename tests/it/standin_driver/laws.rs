//! Time: each test computes by hand what the settings make of an operation.

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{LaunchConfig, PushKernelArg, result};
use cudarc::nvrtc::Ptx;

use super::{Bench, near};
use crate::standin::Driver;

const GATE: &str = include_str!("../../../kernels/ptx/gate.ptx");
const STREAMS: &str = include_str!("../../../kernels/ptx/bandwidth.ptx");
const ATTEND: &str = include_str!("../../../kernels/ptx/attend.ptx");

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
        // 40,000 tokens of 8 KV heads * 512 bytes = 163.84 MB, q and partials 2 * 32 heads * (256 + 516) bytes = 49,408;
        // at 500 GB/s 327.78 us; 4 us for the kernel, 8.001 us for the copy of the counts before it.
        near(attend(&b, [30_000, 10_000, 0, 0]), 339.78);
        // 5,000 more that lie in mapped host memory: 20.48 MB at 20 GB/s, 1,024 us beside the rest.
        near(attend(&b, [30_000, 10_000, 5_000, 0]), 1036.0);
    }
);

/// Time of attention over 2 sequences, 8 KV heads of 4 q heads each, the prefetched list on the host. The counts (resident,
/// prefetched) are still on their way when the kernel is issued.
fn attend(b: &Bench, counts: [u32; 4]) -> f64 {
    let module = b.ctx.load_module(Ptx::from_src(ATTEND)).unwrap();
    let f = module.load_function("kv_attend_128").unwrap();
    b.host(0, 16)
        .copy_from_slice(&counts.map(u32::to_le_bytes).concat());
    let (any, mapped, none, stride) = (b.device, b.host as u64, 0u64, 2000i32);
    let (resident, ahead) = (b.device, b.device + 8);
    let (group, page, parts, scale) = (4i32, 16i32, 1i32, 0.1f32);
    b.time(|| {
        b.h2d(&b.up, 0, 16);
        let mut l = b.up.launch_builder(&f);
        l.arg(&any).arg(&any).arg(&any).arg(&resident).arg(&stride);
        l.arg(&mapped).arg(&any).arg(&ahead).arg(&stride);
        l.arg(&group).arg(&page).arg(&parts).arg(&scale);
        l.arg(&any).arg(&any).arg(&none).arg(&stride);
        // SAFETY: nothing runs: FAKECUDA_SKIP_COMPUTE.
        unsafe { l.launch(grid((1, 8, 2), 128)) }.unwrap();
    })
}

fn grid(grid_dim: (u32, u32, u32), block: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim,
        block_dim: (block, 1, 1),
        shared_mem_bytes: 0,
    }
}

with_driver!(
    a_copy_beside_a_kernel_takes_some_of_its_speed,
    Driver::Current,
    [
        "CUDA_SUBMIT_US" = "0",
        "CUDA_JITTER" = "0",
        "CUDA_SKIP_COMPUTE" = "1",
        "CUDA_HBM_GBPS" = "100",
        "CUDA_KERNEL_US" = "0",
        "CUDA_COPY_US" = "0",
        "CUDA_H2D_GBPS" = "10",
        "CUDA_CONTENTION" = "0.5"
    ],
    || {
        let b = Bench::new(5_000_000);
        let module = b.ctx.load_module(Ptx::from_src(STREAMS)).unwrap();
        let f = module.load_function("kv_read").unwrap();
        let words = 6_250_000u64;
        // 100 MB at 100 GB/s: 1,000 us alone. 5 MB at 10 GB/s: for 500 us half of the speed, so 750 us are left then.
        let took = b.time(|| {
            b.h2d(&b.down, 0, 5_000_000);
            let mut l = b.up.launch_builder(&f);
            l.arg(&b.device).arg(&words).arg(&b.device);
            // SAFETY: nothing runs: FAKECUDA_SKIP_COMPUTE.
            unsafe { l.launch(grid((64, 1, 1), 256)) }.unwrap();
        });
        near(took, 1250.0);
    }
);

with_driver!(
    waiting_takes_real_time_where_it_is_asked_for,
    Driver::Current,
    ["CUDA_REAL_TIME" = "1", "CUDA_COPY_US" = "30000"],
    || {
        let b = Bench::new(4096);
        let start = std::time::Instant::now();
        b.h2d(&b.up, 0, 4096);
        b.up.synchronize().unwrap();
        assert!(start.elapsed().as_micros() >= 30_000);
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
            l.launch(grid((1, 1, 1), 1)).unwrap();
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
