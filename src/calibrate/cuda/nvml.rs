//! NVML, asked for the conditions of a run; every question may go unanswered.
//!
//! The card is found by its PCI bus id: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER change the numbers that CUDA gives, not
//! those of NVML. Without NVML (a container without it, some WSL2) a run goes on and its conditions are unknown.

use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::PowerSource;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::seen::{Looks, Seen, bar};
use crate::calibrate::raw::{Head, tidy};

/// Most looks that are kept.
const MOST: usize = 10_000;

/// Watches a card during a run.
#[derive(Debug)]
pub struct Watch {
    nvml: Result<Nvml, String>,
    bus: String,
    looks: Looks,
}

/// Why NVML does not answer.
fn why(e: &NvmlError) -> String {
    match e {
        NvmlError::LibloadingError(_) => "no NVML library (libnvidia-ml.so.1)".into(),
        NvmlError::DriverNotLoaded => "NVML: the kernel module of the driver is not loaded".into(),
        NvmlError::LibRmVersionMismatch => {
            "NVML: library and kernel module of the driver differ: reboot, or reload the module"
                .into()
        }
        e => tidy(&format!("NVML: {e}")),
    }
}

/// Both, where both are known.
fn both<T>(a: Result<T, NvmlError>, b: Result<T, NvmlError>) -> Option<(T, T)> {
    Some((a.ok()?, b.ok()?))
}

/// Processes that are not this one.
fn others(device: &Device<'_>) -> Option<usize> {
    let compute = device.running_compute_processes().ok();
    let graphics = device.running_graphics_processes().ok();
    if compute.is_none() && graphics.is_none() {
        return None;
    }
    let all = compute.into_iter().chain(graphics).flatten();
    let mut pids: Vec<u32> = all
        .map(|p| p.pid)
        .filter(|p| *p != std::process::id())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    Some(pids.len())
}

fn look(device: &Device<'_>) -> Seen {
    let clock = |c| device.clock_info(c);
    let most = |c| device.max_clock_info(c);
    let mig = device.mig_mode().ok().map(|m| m.current == 1);
    Seen {
        link: both(
            device.current_pcie_link_gen(),
            device.current_pcie_link_width(),
        ),
        link_most: both(device.max_pcie_link_gen(), device.max_pcie_link_width()),
        clocks: both(clock(Clock::SM), clock(Clock::Memory)),
        clocks_most: both(most(Clock::SM), most(Clock::Memory)),
        throttle: device.current_throttle_reasons().ok().map(|r| r.bits()),
        power: both(device.power_usage(), device.enforced_power_limit()),
        temperature: device.temperature(TemperatureSensor::Gpu).ok(),
        battery: device
            .power_source()
            .ok()
            .map(|s| s == PowerSource::Battery),
        replays: device.pcie_replay_counter().ok(),
        ecc: device.is_ecc_enabled().ok().map(|e| e.currently_enabled),
        ecc_errors: device
            .total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)
            .ok(),
        mig: device
            .mig_is_mig_device_handle()
            .ok()
            .filter(|m| *m)
            .or(mig),
        others: others(device),
        used: device.memory_info().ok().map(|m| m.used),
        busy: device.utilization_rates().ok().map(|u| u.gpu),
    }
}

impl Watch {
    /// Of the card with this PCI bus id; looks at it for the first time.
    pub fn new(bus: &str) -> Self {
        let mut watch = Self {
            nvml: Nvml::init().map_err(|e| why(&e)),
            bus: bus.into(),
            looks: Looks::default(),
        };
        watch.looks.before = watch.now().unwrap_or_default();
        watch
    }

    fn device(&self) -> Option<Device<'_>> {
        let nvml = self.nvml.as_ref().ok()?;
        nvml.device_by_pci_bus_id(self.bus.as_str()).ok()
    }

    fn now(&self) -> Option<Seen> {
        self.device().map(|d| look(&d))
    }

    /// Looks while something runs.
    pub fn during(&mut self) {
        if self.looks.during.len() < MOST
            && let Some(seen) = self.now()
        {
            self.looks.during.push(seen);
        }
    }

    /// Whether the link was last seen at its best; none if nobody knows.
    pub fn link_is_up(&self) -> Option<bool> {
        let last = self.looks.during.last()?;
        Some(last.link? >= last.link_most?)
    }

    /// Runs `work` on the cores next to the card where the system tells which they are, so that pinned memory lies there.
    pub fn beside<T>(&self, work: impl FnOnce() -> T) -> T {
        #[cfg(target_os = "linux")]
        {
            let moved = self
                .device()
                .is_some_and(|mut d| d.set_cpu_affinity().is_ok());
            let done = work();
            if moved && let Some(mut device) = self.device() {
                device.clear_cpu_affinity().ok();
            }
            done
        }
        #[cfg(not(target_os = "linux"))]
        work()
    }

    /// Conditions as lines of a head, after a last look.
    pub fn head(&mut self) -> Head {
        self.looks.after = self.now().unwrap_or_default();
        let mut out = self.looks.head();
        let nvml = match (&self.nvml, self.device()) {
            (Err(why), _) => why.clone(),
            (Ok(_), None) => "NVML does not know this card".into(),
            (Ok(nvml), Some(device)) => {
                let driver = nvml.sys_driver_version().ok();
                out.insert("driver".into(), tidy(&driver.unwrap_or("n/a".into())));
                let node = device.numa_node_id().ok().map(|n| n.to_string());
                out.insert(
                    "gpu.numa_node".into(),
                    node.unwrap_or_else(|| numa_of(&self.bus)),
                );
                let memory = device.memory_info().ok().map(|m| m.total);
                let small = bar(device.bar1_memory_info().ok().map(|b| b.total), memory);
                out.extend(small.map(|note| ("note.bar".into(), note)));
                "yes".into()
            }
        };
        out.insert("gpu.nvml".into(), nvml);
        out
    }
}

/// The NUMA node that Linux has for a PCI device.
fn numa_of(bus: &str) -> String {
    let path = format!(
        "/sys/bus/pci/devices/{}/numa_node",
        bus.to_ascii_lowercase()
    );
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let node = text.trim().parse::<i64>().ok().filter(|n| *n >= 0);
    node.map_or("n/a".into(), |n| n.to_string())
}
