//! What others took of the processor while the host was measured.
//!
//! Medians over shuffled rounds take away a slow minute, not a busy machine: with others at work on every thread the
//! bandwidth that is left is theirs too. So the share of processor time that other processes used is a condition of the
//! run, and from [`NOTED`] on a note of the profile; on a virtual machine so is what the host gave to other guests. Read
//! from Linux's counters before and after; elsewhere unknown. Ignored: other guests' use of the memory's bandwidth, which
//! no counter shows.

use std::fs;

use crate::calibrate::raw::Head;

/// Share of the processor from which on others are noted.
const NOTED: f64 = 0.05;

/// Processor time since the machine started \[ticks\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    all: u64,
    busy: u64,
    stolen: u64,
    own: u64,
}

/// Shares of the processor's time over a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shares {
    /// Of other processes.
    pub(super) others: f64,
    /// Of other guests of the virtual machine's host.
    pub(super) stolen: f64,
}

impl Ticks {
    /// Now; none where the system does not tell.
    pub(super) fn now() -> Option<Self> {
        let read = |path| fs::read_to_string(path).ok();
        Self::read(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }

    /// From the first line of `/proc/stat` (user, nice, system, idle, iowait, irq, softirq, steal) and the 14th and 15th
    /// field of `/proc/self/stat`, counted after the name in brackets, which may hold anything.
    fn read(machine: &str, process: &str) -> Option<Self> {
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .map_while(|n| n.parse().ok())
            .collect();
        let &[user, nice, system, idle, wait, irq, softirq, stolen, ..] = ticks.as_slice() else {
            return None;
        };
        let (_, fields) = process.rsplit_once(')')?;
        let own: Vec<u64> = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map_while(|n| n.parse().ok())
            .collect();
        let sum = |parts: &[u64]| parts.iter().fold(0u64, |a, b| a.saturating_add(*b));
        let busy = sum(&[user, nice, system, irq, softirq]);
        Some(Self {
            all: sum(&[busy, idle, wait, stolen]),
            busy,
            stolen,
            own: sum(<&[u64; 2]>::try_from(own.as_slice()).ok()?),
        })
    }

    /// Shares between then and now; none over no time.
    fn until(self, now: Self) -> Option<Shares> {
        let all = now.all.checked_sub(self.all).filter(|n| *n > 0)? as f64;
        let own = now.own.saturating_sub(self.own);
        let others = now.busy.saturating_sub(self.busy).saturating_sub(own);
        Some(Shares {
            others: (others as f64 / all).min(1.0),
            stolen: (now.stolen.saturating_sub(self.stolen) as f64 / all).min(1.0),
        })
    }
}

/// Lines of a head over the while since `then`.
pub(super) fn head(then: Option<Ticks>) -> Head {
    let shares = then.and_then(|t| t.until(Ticks::now()?));
    let told = |share: Option<f64>| share.map_or("n/a".into(), percent);
    let mut out = Head::from([
        ("host.others_cpu".into(), told(shares.map(|s| s.others))),
        ("host.stolen_cpu".into(), told(shares.map(|s| s.stolen))),
    ]);
    if let Some(note) = shares.and_then(note) {
        out.insert("note.host".into(), note);
    }
    out
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn note(shares: Shares) -> Option<String> {
    let who = match (shares.others >= NOTED, shares.stolen >= NOTED) {
        (false, false) => return None,
        (true, false) => format!("other processes used {}", percent(shares.others)),
        (false, true) => format!("other virtual machines took {}", percent(shares.stolen)),
        (true, true) => format!(
            "other processes used {} and other virtual machines took {}",
            percent(shares.others),
            percent(shares.stolen)
        ),
    };
    let advice = "the host's values are too low and noisy, measure again when it is quiet";
    Some(format!(
        "{who} of the processor's time during the run: {advice}"
    ))
}

#[cfg(test)]
mod tests {
    use super::{Shares, Ticks, note};

    /// Between the two, 1000 ticks: 100 + 50 + 40 + 5 + 5 = 200 busy, of them 80 + 20 this process's, so others had 100;
    /// 30 were stolen.
    #[test]
    fn shares_of_a_while() {
        let then = Ticks::read(
            "cpu  10 0 10 100 0 0 0 0 0 0\ncpu0 1",
            "7 (a) b) S 1 1 1 0 -1 4 5 6 7 8 20 30 0",
        );
        let now = Ticks::read(
            "cpu  110 50 50 865 5 5 5 30 9 9\n",
            "7 (a) b) S 1 1 1 0 -1 4 5 6 7 8 100 50 0",
        );
        let shares = then.unwrap().until(now.unwrap()).unwrap();
        assert_eq!(
            shares,
            Shares {
                others: 0.1,
                stolen: 0.03
            }
        );
        let told = note(shares).unwrap();
        assert!(told.starts_with("other processes used 10 % of"), "{told}");
        assert_eq!(
            note(Shares {
                others: 0.049,
                stolen: 0.0
            }),
            None
        );
    }

    #[test]
    fn what_does_not_tell_is_none() {
        let own = "7 (x) S 1 1 1 0 -1 4 5 6 7 8 20 30 0";
        for (machine, process) in [
            ("", own),
            ("cpu 1 2 3", own),
            ("cpu 1 2 3 4 5 6 7 x", own),
            ("cpu0 1 2 3 4 5 6 7 8", own),
            ("cpu 1 2 3 4 5 6 7 8", "7 x S 1"),
            ("cpu 1 2 3 4 5 6 7 8", "7 (x) S 1 2"),
        ] {
            assert_eq!(
                Ticks::read(machine, process),
                None,
                "{machine:?} {process:?}"
            );
        }
        let still = Ticks::read("cpu 1 2 3 4 5 6 7 8", own).unwrap();
        assert_eq!(still.until(still), None);
    }
}
