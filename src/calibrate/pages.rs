//! Host memory as a KV cache takes it: once, whole, and in large pages where the system gives them.
//!
//! With pages of 4 KiB every tile of keys or values is on a page of its own, and finding it costs attention 3 to 25 % of
//! its time on a virtual machine, where two tables are walked. Ignored: pinning, which is the driver's to do, and in whose
//! memory large pages depend on it. Rival: pages of 1 GiB set aside by the administrator, which few machines have.

use memmap2::MmapMut;

/// The least page of a system, where each use of memory begins \[bytes\].
pub const SMALL: usize = 4096;

/// So many bytes from a page's boundary on, zero; large pages are asked for, not insisted on.
///
/// # Errors
/// The system's, if it does not have them.
pub fn large(bytes: usize) -> std::io::Result<MmapMut> {
    let memory = MmapMut::map_anon(bytes)?;
    // A system without large pages refuses; then small ones do.
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    Ok(memory)
}
