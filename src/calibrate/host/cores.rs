//! Which processor each thread of a measurement runs on.
//!
//! One each, physical cores before their second threads. Left alone, the system wakes two threads on one processor often
//! enough, and moves one away only after milliseconds: a third of the samples then take twice the time. Threads that work
//! all day, as those of a serving process, have been moved long since. Ignored: which cores share a cache or a memory
//! node, beyond the order of their numbers. Rival: many more samples of threads that are not pinned, whose median still
//! depends on luck.

#[cfg(target_os = "linux")]
use std::fs;

/// Processors that this process may use, in the order in which threads take them; empty where that is not known.
pub(super) fn order() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        let most = rustix::thread::CpuSet::MAX_CPU;
        let mut all: Vec<usize> = (0..most).filter(|cpu| set.is_set(*cpu)).collect();
        let allowed = all.clone();
        all.sort_by_key(|cpu| place(*cpu, &siblings(*cpu), &allowed));
        return all;
    }
    Vec::new()
}

/// Keeps the calling thread on a processor, if the system lets it.
pub(super) fn stay(cpu: Option<usize>) {
    #[cfg(target_os = "linux")]
    if let Some(cpu) = cpu {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        // Without leave it runs anywhere, as it would have.
        rustix::thread::sched_setaffinity(None, &set).ok();
    }
    #[cfg(not(target_os = "linux"))]
    let _ = cpu;
}

/// Processors that share a core with this one, itself among them.
#[cfg(target_os = "linux")]
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    ranges(&fs::read_to_string(path).unwrap_or_default())
}

/// Numbers of a list such as `0,4-6`.
#[cfg(any(target_os = "linux", test))]
fn ranges(list: &str) -> Vec<usize> {
    let range = |one: &str| {
        let (first, end) = one.split_once('-').unwrap_or((one, one));
        Some(first.parse::<usize>().ok()?..=end.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// How many allowed processors of its core come before it, then its number.
#[cfg(any(target_os = "linux", test))]
fn place(cpu: usize, siblings: &[usize], allowed: &[usize]) -> (usize, usize) {
    let before = |other: &&usize| **other < cpu && allowed.contains(other);
    (siblings.iter().filter(before).count(), cpu)
}

#[cfg(test)]
mod tests {
    use super::{place, ranges};

    #[test]
    fn lists_are_read_as_linux_writes_them() {
        assert_eq!(ranges("0,4-6\n"), [0, 4, 5, 6]);
        assert_eq!(ranges("3"), [3]);
        assert_eq!(ranges(""), [0usize; 0]);
        assert_eq!(ranges("a-b,7"), [7]);
    }

    /// Four cores of two threads, 0 and 4, 1 and 5 and so on; the process may use 1, 2, 4, 5 and 6: cores 1, 2, 0 first.
    #[test]
    fn cores_come_before_second_threads() {
        let mut all = vec![1, 2, 4, 5, 6];
        let allowed = all.clone();
        all.sort_by_key(|cpu| place(*cpu, &[cpu % 4, cpu % 4 + 4], &allowed));
        assert_eq!(all, [1, 2, 4, 5, 6]);
    }
}
