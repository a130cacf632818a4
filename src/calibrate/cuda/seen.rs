//! What was seen of a GPU before, during and after a run, as conditions and as sentences about what spoils it.
//!
//! Every fact may be missing: laptops, containers, MIG and WSL2 answer less, and what is missing is shown as `n/a`. A
//! sentence is a note beside the figures, never a refusal; only the reader knows whether a laptop on battery is the
//! machine that is meant. The link is judged by its best state during copies: at rest it is slow to save power.

use crate::calibrate::raw::{Head, tidy};

/// Reasons for low clocks that are told, by their bits in NVML.
const THROTTLES: &[(u64, &str)] = &[
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x10, "held by other GPUs (sync boost)"),
    (0x20, "heat"),
    (0x40, "heat (hardware)"),
    (0x80, "power brake"),
];

/// Memory of others that is no concern \[bytes\].
const OTHERS: u64 = 64 << 20;

/// One look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Generation and lanes of the link.
    pub(super) link: Option<(u32, u32)>,
    /// The most of both that GPU and slot allow.
    pub(super) link_most: Option<(u32, u32)>,
    /// Clock of the multiprocessors and of memory \[MHz\].
    pub(super) clocks: Option<(u32, u32)>,
    /// The highest of both \[MHz\].
    pub(super) clocks_most: Option<(u32, u32)>,
    /// Why clocks are low, NVML's bits.
    pub(super) throttle: Option<u64>,
    /// Power drawn and its limit \[mW\].
    pub(super) power: Option<(u32, u32)>,
    /// Degrees Celsius.
    pub(super) temperature: Option<u32>,
    /// Whether it runs on battery.
    pub(super) battery: Option<bool>,
    /// Packets that the link sent again, since the driver started.
    pub(super) replays: Option<u32>,
    /// Whether memory is protected by ECC.
    pub(super) ecc: Option<bool>,
    /// Errors that ECC could not correct, since the driver started.
    pub(super) ecc_errors: Option<u64>,
    /// Whether the card is cut into instances.
    pub(super) mig: Option<bool>,
    /// Other processes on the GPU.
    pub(super) others: Option<usize>,
    /// Memory in use \[bytes\].
    pub(super) used: Option<u64>,
    /// How busy it was over the last second \[%\].
    pub(super) busy: Option<u32>,
}

/// All looks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Looks {
    /// Before anything ran.
    pub(super) before: Seen,
    /// While copies or kernels ran.
    pub(super) during: Vec<Seen>,
    /// After.
    pub(super) after: Seen,
}

fn pair(text: &str, pair: Option<(u32, u32)>, between: &str) -> String {
    pair.map_or("n/a".into(), |(a, b)| format!("{text}{a}{between}{b}"))
}

fn link(seen: Option<(u32, u32)>) -> String {
    pair("gen ", seen, " x")
}

fn answer<T: ToString>(x: Option<T>) -> String {
    x.map_or("n/a".into(), |x| x.to_string())
}

fn yes(x: Option<bool>) -> String {
    answer(x.map(|x| if x { "yes" } else { "no" }))
}

impl Looks {
    /// The best link during copies.
    fn best_link(&self) -> Option<(u32, u32)> {
        self.during.iter().filter_map(|s| s.link).max()
    }

    /// The lowest clocks while something ran.
    fn low_clocks(&self) -> Option<(u32, u32)> {
        self.during.iter().filter_map(|s| s.clocks).min()
    }

    /// All reasons for low clocks while something ran.
    fn throttle(&self) -> Option<u64> {
        let all = self.during.iter().filter_map(|s| s.throttle);
        all.reduce(|a, b| a | b)
    }

    /// As lines of a head. Link and clocks are conditions of measurements, which are quoted beside their parameters.
    pub(super) fn head(&self) -> Head {
        let (first, last) = (&self.before, &self.after);
        let link_now = link(self.best_link());
        let clocks = self.low_clocks();
        let clocks = clocks.map_or("n/a".into(), |(sm, memory)| {
            format!("{sm} and {memory} MHz")
        });
        let watts = last.power.map(|(now, most)| (now / 1000, most / 1000));
        let mut out: Head = [
            ("gpu.battery", yes(first.battery)),
            ("gpu.clocks_most_mhz", pair("", first.clocks_most, " and ")),
            ("gpu.ecc", yes(first.ecc)),
            ("gpu.link_at_rest", link(first.link)),
            ("gpu.link_most", link(first.link_most)),
            ("gpu.mig", yes(first.mig)),
            ("gpu.other_processes", answer(first.others)),
            ("gpu.power_w", pair("", watts, " of ")),
            ("gpu.replays", answer(self.replays())),
            ("gpu.temperature_c", answer(last.temperature)),
            ("gpu.throttled", self.throttled()),
        ]
        .into_iter()
        .map(|(k, v)| (k.into(), tidy(&v)))
        .collect();
        for measurement in ["copy", "pieces", "zero_copy"] {
            out.insert(format!("{measurement}.link"), link_now.clone());
        }
        for measurement in ["hbm", "attention", "quant", "dequant"] {
            out.insert(format!("{measurement}.clocks"), clocks.clone());
        }
        for (i, note) in self.notes().iter().enumerate() {
            out.insert(format!("note.{i:02}"), tidy(note));
        }
        out
    }

    fn replays(&self) -> Option<u32> {
        Some(self.after.replays?.saturating_sub(self.before.replays?))
    }

    fn throttled(&self) -> String {
        let Some(bits) = self.throttle() else {
            return "n/a".into();
        };
        let words: Vec<&str> = THROTTLES
            .iter()
            .filter(|t| bits & t.0 != 0)
            .map(|t| t.1)
            .collect();
        if words.is_empty() {
            "no".into()
        } else {
            words.join(", ")
        }
    }

    /// What spoils the figures, a sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.link_notes(&mut out);
        self.load_notes(&mut out);
        let first = &self.before;
        if first.battery == Some(true) {
            out.push("the machine ran on battery: clocks and link are held down".into());
        }
        let throttled = self.throttled();
        if throttled != "n/a" && throttled != "no" {
            out.push(format!("clocks were held down during the run: {throttled}"));
        }
        if first.mig == Some(true) {
            out.push("a MIG instance: parameters hold for this instance, and the link is shared with the others".into());
        }
        if first.ecc == Some(true) {
            out.push("ECC is on: on cards with GDDR it takes some of the bandwidth, on cards with HBM it always is".into());
        }
        let errors = |s: &Seen| s.ecc_errors;
        if let (Some(was), Some(is)) = (errors(first), errors(&self.after))
            && is > was
        {
            out.push(format!(
                "{} errors of memory that ECC could not correct came during the run",
                is - was
            ));
        }
        if let Some(n) = self.replays().filter(|n| *n > 0) {
            out.push(format!("PCIe errors during the run: {n} packets were sent again; look at slot, riser and cable"));
        }
        out
    }

    fn link_notes(&self, out: &mut Vec<String>) {
        let (Some((speed, lanes)), Some((most, width))) = (self.best_link(), self.before.link_most)
        else {
            return;
        };
        if speed < most || lanes < width {
            out.push(format!(
                "the link runs at gen {speed} of {most}, x{lanes} of x{width}: slot, riser, BIOS or power saving; laptops are often x8 by design"
            ));
        }
    }

    fn load_notes(&self, out: &mut Vec<String>) {
        let first = &self.before;
        if let Some(n) = first.others.filter(|n| *n > 0) {
            out.push(format!(
                "{n} other processes use the GPU: results are noisy"
            ));
        } else if first.used.is_some_and(|b| b > OTHERS) && first.busy.is_some_and(|b| b > 5) {
            let mib = first.used.unwrap_or(0) >> 20;
            out.push(format!(
                "somebody whom the driver does not name uses the GPU ({mib} MiB, busy): results are noisy"
            ));
        }
    }
}

/// The note about Resizable BAR, where both sizes are known.
pub(super) fn bar(bar: Option<u64>, memory: Option<u64>) -> Option<String> {
    let small = bar? < memory?;
    small.then(|| "Resizable BAR is off: copies by the engines do not need it".into())
}

#[cfg(test)]
mod tests {
    use super::{Looks, Seen};

    /// A link that is slow at rest and fast during copies is no concern; one that stays slow is.
    #[test]
    fn the_link_is_judged_while_it_works() {
        let at = |generation| Seen {
            link: Some((generation, 16)),
            link_most: Some((5, 16)),
            ..Seen::default()
        };
        let looks = |during| Looks {
            before: at(1),
            during,
            after: at(1),
        };
        assert!(looks(vec![at(3), at(5)]).notes().is_empty());
        let notes = looks(vec![at(3)]).notes();
        assert!(notes[0].contains("gen 3 of 5, x16 of x16"), "{notes:?}");
        assert!(looks(Vec::new()).notes().is_empty(), "nothing was seen");
    }

    #[test]
    fn what_nobody_answers_is_said_to_be_missing() {
        let head = Looks::default().head();
        assert_eq!(head["gpu.replays"], "n/a");
        assert_eq!(head["copy.link"], "n/a");
        assert!(!head.contains_key("note.00"));
    }
}
