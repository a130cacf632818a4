//! How many bytes of recordings this process has read and written: what a progress bar shows.
//!
//! A counter beside the readers, because they are shared between threads and know nothing of terminals; `cli` watches it.

use std::sync::atomic::{AtomicU64, Ordering};

static BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts `bytes` as read or written.
pub(crate) fn add(bytes: usize) {
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Bytes so far.
pub fn bytes() -> u64 {
    BYTES.load(Ordering::Relaxed)
}
