//! What every measurement works with: a GPU, its kernels, three streams, memory, a gate and a clock.
//!
//! A sample is queued as a whole behind a kernel that waits for a flag in host memory, then the flag is set: so the time
//! between the two events is that of the device alone, however slowly the host queues. The gate opens by itself after about
//! a second, so that a queue which is full before the host gets that far cannot stop the program; samples queue fewer than
//! a thousand operations for the same reason. Streams: `compute` for kernels, `copy` for what comes up, `back` for what
//! goes down. Times are microseconds by events, whose resolution is about half of one; samples last 200 and more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaEvent, CudaStream};

use super::arena::{self, Cut, Device, Plain};
use super::fault::failed;
use super::gpu::Gpu;
use super::kernels::{Args, Grid, Kernels};
use super::nvml::Watch;
use super::pinned::Pinned;
use crate::error::Result;

/// Looks of the gate at its flag, half a microsecond each: about a second.
const LOOKS: u64 = 2_000_000;

/// Longest warming of the link.
const WARM: Duration = Duration::from_millis(500);

/// Bytes of a copy that warms it.
const WARMING: u64 = 16 << 20;

/// Most copies that warm it.
const WARMINGS: u32 = 64;

/// Bytes of the numbers that fill memory, over and over.
const PATTERN: u64 = 16 << 20;

/// Bytes for tables of pages and the like, between host and device.
const TABLES: u64 = 8 << 20;

/// Least memory on both sides \[bytes\].
pub(super) const LEAST: (u64, u64) = (192 << 20, 48 << 20);

/// Everything to measure with.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) kernels: Kernels,
    /// Kernels run here.
    pub(super) compute: Arc<CudaStream>,
    /// What comes up runs here.
    pub(super) copy: Arc<CudaStream>,
    /// What goes down runs here.
    pub(super) back: Arc<CudaStream>,
    pub(super) device: Device,
    pub(super) pinned: Pinned,
    /// Flag of the gate, then tables on their way up.
    desk: Pinned,
    start: CudaEvent,
    end: CudaEvent,
    joint: CudaEvent,
    pub(super) gpu: Gpu,
}

/// An event that keeps time.
pub(super) fn event(gpu: &Gpu) -> Result<CudaEvent> {
    let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
    gpu.ctx
        .new_event(flags)
        .map_err(|e| failed("making an event", e))
}

/// Records an event.
pub(super) fn record(event: &CudaEvent, stream: &CudaStream) -> Result<()> {
    event
        .record(stream)
        .map_err(|e| failed("recording an event", e))
}

/// Makes a stream wait for an event.
pub(super) fn wait(stream: &CudaStream, event: &CudaEvent) -> Result<()> {
    stream
        .wait(event)
        .map_err(|e| failed("waiting for an event", e))
}

/// Waits for all that a stream has.
pub(super) fn finish(stream: &CudaStream) -> Result<()> {
    stream
        .synchronize()
        .map_err(|e| failed("waiting for the device", e))
}

/// Microseconds between two events; waits for both.
pub(super) fn between(from: &CudaEvent, to: &CudaEvent) -> Result<f64> {
    let ms = from
        .elapsed_ms(to)
        .map_err(|e| failed("waiting for the device", e))?;
    Ok(f64::from(ms) * 1e3)
}

impl Rig {
    /// Takes memory: as much of `wanted` (device, pinned) as is there; pinned memory next to the card.
    pub(super) fn new(
        gpu: Gpu,
        watch: &Watch,
        wanted: (u64, u64),
        available: Option<u64>,
    ) -> Result<Self> {
        let stream = || {
            gpu.ctx
                .new_stream()
                .map_err(|e| failed("making a stream", e))
        };
        let desk = Pinned::small(&gpu, TABLES + 4096)?;
        let pinned = watch.beside(|| Pinned::new(&gpu, wanted.1, LEAST.1, available))?;
        Ok(Self {
            kernels: Kernels::load(&gpu)?,
            compute: stream()?,
            copy: stream()?,
            back: stream()?,
            device: Device::new(&gpu, wanted.0, LEAST.0)?,
            start: event(&gpu)?,
            end: event(&gpu)?,
            joint: event(&gpu)?,
            pinned,
            desk,
            gpu,
        })
    }

    /// Fills both memories with numbers as a cache has them: what memory and arithmetic draw, and so their clocks, depends
    /// on the bits that pass.
    pub(super) fn fill(&self) -> Result<()> {
        let pattern = PATTERN.min(self.pinned.bytes).min(self.device.bytes);
        let mut state = 1u64;
        let mut number = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Either sign, 0.125 to 0.5.
            (state >> 40) as u16 & 0x87ff | 0x3000
        };
        let numbers: Vec<u16> = (0..pattern / 2).map(|_| number()).collect();
        for at in (0..self.pinned.bytes).step_by(pattern as usize) {
            let count = (pattern.min(self.pinned.bytes - at) / 2) as usize;
            self.pinned.write(self.pinned.at + at, &numbers[..count])?;
        }
        for at in (0..self.device.bytes).step_by(pattern as usize) {
            let bytes = pattern.min(self.device.bytes - at);
            arena::up(
                &self.copy,
                &self.pinned,
                self.pinned.at,
                self.device.at + at,
                bytes,
            )?;
        }
        finish(&self.copy)
    }

    /// Device memory to cut.
    pub(super) fn device(&self) -> Cut {
        self.device.cut()
    }

    /// Launches a kernel.
    pub(super) fn launch(
        &self,
        stream: &CudaStream,
        name: &str,
        grid: Grid,
        args: Args,
    ) -> Result<()> {
        self.kernels.launch(stream, name, grid, args)
    }

    /// Puts numbers on the device and waits until they are there.
    pub(super) fn put<T: Plain>(&self, at: u64, data: &[T]) -> Result<()> {
        for (i, part) in data.chunks((TABLES as usize) / size_of::<T>()).enumerate() {
            let bytes = size_of_val(part) as u64;
            self.desk.write(self.desk.at + 4096, part)?;
            arena::up(
                &self.compute,
                &self.desk,
                self.desk.at + 4096,
                at + i as u64 * TABLES,
                bytes,
            )?;
            finish(&self.compute)?;
        }
        Ok(())
    }

    /// Takes numbers off the device.
    pub(super) fn take<T: Plain>(&self, at: u64, count: usize) -> Result<Vec<T>> {
        let (most, mut out) = (
            (TABLES as usize) / size_of::<T>(),
            Vec::with_capacity(count),
        );
        while out.len() < count {
            let n = most.min(count - out.len());
            let from = at + (out.len() * size_of::<T>()) as u64;
            arena::down(
                &self.compute,
                &self.desk,
                from,
                self.desk.at + 4096,
                (n * size_of::<T>()) as u64,
            )?;
            finish(&self.compute)?;
            out.extend(self.desk.read::<T>(self.desk.at + 4096, n)?);
        }
        Ok(out)
    }

    fn flag(&self, open: u32) -> Result<()> {
        let flag = self.desk.host(self.desk.at, 4)?;
        // SAFETY: four bytes of ours at a page's start; the gate reads them while they are written, as it must.
        unsafe { flag.cast::<u32>().write_volatile(open) };
        Ok(())
    }

    /// Shuts the gate on a stream: nothing that is queued behind runs before [`Rig::open_gate`].
    pub(super) fn shut_gate(&self, stream: &CudaStream) -> Result<()> {
        self.flag(0)?;
        let args = Args::new().at(self.desk.at).int(LOOKS);
        self.launch(stream, "kv_hold", Grid::of(1, 1), args)
    }

    /// Opens it.
    pub(super) fn open_gate(&self) -> Result<()> {
        self.flag(1)
    }

    /// Microseconds that what `work` queues takes on `main` and `others` together, from the opening of the gate on.
    pub(super) fn gated(
        &self,
        main: &Arc<CudaStream>,
        others: &[&Arc<CudaStream>],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<f64> {
        self.shut_gate(main)?;
        let queued = self.queue(main, others, work);
        self.open_gate()?;
        finish(main)?;
        queued?;
        between(&self.start, &self.end)
    }

    fn queue(
        &self,
        main: &CudaStream,
        others: &[&Arc<CudaStream>],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        record(&self.start, main)?;
        for other in others {
            wait(other, &self.start)?;
        }
        work()?;
        for other in others {
            record(&self.joint, other)?;
            wait(main, &self.joint)?;
        }
        record(&self.end, main)
    }

    /// Makes a stream begin with the sample that is being queued.
    pub(super) fn follow(&self, stream: &CudaStream) -> Result<()> {
        wait(stream, &self.start)
    }

    /// The same with no gate: the host's queueing is in it.
    pub(super) fn ungated(
        &self,
        main: &CudaStream,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<f64> {
        self.queue(main, &[], work)?;
        between(&self.start, &self.end)
    }

    /// Copies both ways until the link is at its best, or half a second; looks at the card meanwhile.
    pub(super) fn warm(&self, watch: &mut Watch) -> Result<()> {
        let begun = Instant::now();
        let bytes = WARMING
            .min(self.pinned.bytes / 2)
            .min(self.device.bytes / 2);
        for i in 0..WARMINGS {
            let (host, device) = (self.pinned.at, self.device.at);
            arena::up(&self.copy, &self.pinned, host, device, bytes)?;
            arena::down(
                &self.back,
                &self.pinned,
                device + bytes,
                host + bytes,
                bytes,
            )?;
            watch.during();
            finish(&self.copy)?;
            finish(&self.back)?;
            if i > 8 && (watch.link_is_up() != Some(false)) || begun.elapsed() > WARM {
                break;
            }
        }
        Ok(())
    }
}
