//! What a host says of itself: name, processor, memory, caches, the date.
//!
//! Read from the files in which Linux says it; elsewhere a fact is missing and nothing else changes. No command is run and
//! nothing is guessed: a missing fact is shown as unknown. Bytes, counts.

use std::collections::BTreeSet;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use super::limits;
use super::raw::{Head, tidy};
use crate::simd::dense::Dense;

/// Facts of a host, as far as it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: Option<String>,
    /// Operating system and kernel release.
    pub system: Option<String>,
    /// Processor.
    pub processor: Option<String>,
    /// Threads that this process may use.
    pub threads: usize,
    /// Memory \[bytes\].
    pub memory: Option<u64>,
    /// Memory that could be taken now, by the system and by the limits of this process \[bytes\].
    pub available: Option<u64>,
    /// All caches of the last level together \[bytes\].
    pub last_cache: Option<u64>,
    /// NUMA nodes.
    pub nodes: Option<usize>,
    /// Whether large pages are used without being asked for: `always`, `madvise`, `never`.
    pub large_pages: Option<String>,
    /// Registers that the loops use: `avx512`, `avx2`, `scalar`.
    pub path: &'static str,
    /// Whether this is Linux under Windows.
    pub wsl: bool,
}

/// Longest file of facts that is read \[bytes\].
const LONGEST: usize = 1 << 20;

fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    (text.len() <= LONGEST).then(|| text.trim().to_string())
}

/// The first value of `key` in lines `key : value`.
fn value(lines: &str, key: &str) -> Option<String> {
    let of = |l: &str| {
        let (name, value) = l.split_once(':')?;
        (name.trim() == key).then(|| tidy(value))
    };
    lines.lines().find_map(of)
}

/// A size such as `32768K` or `24052000 kB` \[bytes\].
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text[digits.len()..].trim().to_ascii_lowercase();
    let scale = match unit.as_str() {
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "" => 1,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

/// Sizes of the caches of the last level, each counted once however many threads share it.
fn last_cache(threads: usize) -> Option<u64> {
    let mut seen = BTreeSet::new();
    for cpu in 0..threads.min(4096) {
        let folder = |i: u32| format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{i}");
        let last = (0..6).rev().find(|i| fs::metadata(folder(*i)).is_ok());
        let Some(last) = last else { continue };
        let size = text(&format!("{}/size", folder(last))).and_then(|s| size(&s));
        let shared = text(&format!("{}/shared_cpu_list", folder(last)));
        seen.extend(size.zip(shared));
    }
    let total = seen.iter().map(|(size, _)| size).sum();
    (!seen.is_empty()).then_some(total)
}

fn nodes() -> Option<usize> {
    let list = fs::read_dir("/sys/devices/system/node").ok()?;
    let is_node = |name: &str| {
        let number = name.strip_prefix("node").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    let named = |e: std::io::Result<fs::DirEntry>| e.ok()?.file_name().into_string().ok();
    Some(list.filter_map(named).filter(|n| is_node(n)).count()).filter(|n| *n > 0)
}

/// The chosen one of `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_string())
}

impl Facts {
    /// Of this host.
    pub fn here() -> Self {
        let memory = text("/proc/meminfo").unwrap_or_default();
        let memory_of = |key: &str| value(&memory, key).and_then(|v| size(&v));
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let release = text("/proc/sys/kernel/osrelease").unwrap_or_default();
        let environment = || std::env::var("COMPUTERNAME").ok();
        Self {
            name: text("/proc/sys/kernel/hostname").or_else(environment),
            system: Some(tidy(&format!("{} {release}", std::env::consts::OS))),
            processor: text("/proc/cpuinfo").and_then(|t| value(&t, "model name")),
            threads,
            memory: memory_of("MemTotal"),
            available: memory_of("MemAvailable")
                .into_iter()
                .chain(limits::left())
                .min(),
            last_cache: last_cache(threads),
            nodes: nodes(),
            large_pages: text("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|t| chosen(&t)),
            path: Dense::best().name,
            wsl: release.to_ascii_lowercase().contains("microsoft"),
        }
    }

    /// As lines of a head; the name only where it may be told.
    pub fn head(&self, anonymous: bool) -> Head {
        let name = self.name.clone().filter(|_| !anonymous);
        let number = |n: Option<u64>| n.map(|n| n.to_string());
        let nodes = self.nodes.map(|n| n.to_string());
        [
            ("host", Some(name.unwrap_or_else(|| "host".into()))),
            ("host.cache_bytes", number(self.last_cache)),
            ("host.large_pages", self.large_pages.clone()),
            ("host.memory_bytes", number(self.memory)),
            ("host.nodes", nodes),
            ("host.path", Some(self.path.into())),
            ("host.processor", self.processor.clone()),
            ("host.system", self.system.clone()),
            ("host.threads", Some(self.threads.to_string())),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_string(), tidy(&value?))))
        .collect()
    }
}

/// Today as `2026-11-30`, by the clock of the host in UTC.
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date(since.map_or(0, |d| d.as_secs() / 86_400))
}

/// The date so many days after 1970-01-01. Years begin in March, so that a leap day is the last; 400 of them have 146,097
/// days, and from March on months come in fives of 153 days.
fn date(days: u64) -> String {
    let days = days + 719_468; // 1970-01-01 counted from 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!("{:04}-{month:02}-{of_month:02}", 400 * era + year + next)
}

#[cfg(test)]
mod tests {
    use super::{chosen, date, size, value};

    /// Days by hand: 1972 and 1976 were leap years; 2000-03-01 is 10,957 days of 1970 to 1999 (30 * 365 + 7) and 60 more.
    #[test]
    fn days_become_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(364), "1970-12-31");
        assert_eq!(date(2 * 365 + 31 + 28), "1972-02-29");
        assert_eq!(date(10_957), "2000-01-01");
        assert_eq!(date(10_957 + 59), "2000-02-29");
        assert_eq!(date(10_957 + 60), "2000-03-01");
        assert_eq!(date(10_957 + 366 + 364), "2001-12-31");
    }

    #[test]
    fn facts_are_read_as_linux_writes_them() {
        let memory = "MemTotal:       24052000 kB\nMemFree:  1 kB\n";
        assert_eq!(value(memory, "MemTotal").as_deref(), Some("24052000 kB"));
        assert_eq!(size("24052000 kB"), Some(24_629_248_000));
        assert_eq!(size("32768K"), Some(32 << 20));
        assert_eq!(size("many"), None);
        assert_eq!(size("1 parsec"), None);
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("always"), None);
    }
}
