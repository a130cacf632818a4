//! Where T1 and T2 live when not in the host's own memory: another GPU's HBM over `NVLink`, memory behind CXL.
//!
//! A home is a way there and a place: rates of one GPU's path, a latency a copy, what is shared by all GPUs' paths, a
//! capacity. [`Hardware::at_home`] is the machine as tiering sees it with T1 there: the home's path takes the link's
//! place, its capacity that of pinned host memory. What is ignored: the home's own work (a peer that serves requests, a
//! module that serves others) and write-back passing through host memory on its way. Rival: a link profile a home; it
//! would not know what the home can hold. Bytes, bytes per second, seconds.

use serde::{Deserialize, Serialize};

use super::{Bandwidth, Capacity, Duration, Hardware, Share, Source, Value};

/// The home that every machine has: host memory over its link.
pub const DDR: &str = "ddr";

/// A place for T1 other than host memory.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Home {
    /// For people: `HBM of an idle peer over NVLink 4`.
    pub name: String,
    /// What one GPU reads from it.
    pub read: Value<Bandwidth>,
    /// What one GPU writes to it.
    pub write: Value<Bandwidth>,
    /// What all GPUs together read; none if each has a way and a place of its own.
    #[serde(default)]
    pub shared: Option<Value<Bandwidth>>,
    /// Share of its lone rate that each direction keeps while the other runs too.
    pub duplex: Value<Share>,
    /// One copy call, from issue to first byte.
    pub latency: Value<Duration>,
    /// What it holds: for each GPU where the place is its own, else for all of them.
    pub capacity: Value<Capacity>,
    /// Share of `read` that a kernel reaches which reads it in place; none where it cannot.
    #[serde(default)]
    pub in_place: Option<Value<Share>>,
    /// Whether the host's cores can attend to what lies there, at the shared rate.
    #[serde(default)]
    pub by_host: bool,
}

impl Hardware {
    /// Names of the homes of T1 on this machine, host memory first.
    pub fn home_names(&self) -> Vec<&str> {
        std::iter::once(DDR)
            .chain(self.homes.keys().map(String::as_str))
            .collect()
    }

    /// The machine with T1 of `gpus` GPUs in the home of that name; none if it has no such home.
    pub fn at_home(&self, name: &str, gpus: u32) -> Option<Self> {
        if name == DDR {
            return Some(self.clone());
        }
        let home = self.homes.get(name)?;
        let mut at = self.clone();
        at.link.name.clone_from(&home.name);
        at.link.h2d = home.read.clone();
        at.link.d2h = home.write.clone();
        at.link.duplex = home.duplex.clone();
        at.link.call = home.latency.clone();
        at.link.coherent = false;
        at.link.in_place.clone_from(&home.in_place);
        at.host.name.clone_from(&home.name);
        at.host.pinned_limit = match home.shared {
            Some(_) => home.capacity.clone(),
            None => home.capacity.scaled(f64::from(gpus)),
        };
        at.host.ddr_read = home.shared.clone().unwrap_or_else(|| {
            let free = f64::INFINITY;
            Value::new(
                free,
                free,
                free,
                Source::Assumed,
                "each GPU has a place of its own",
            )
        });
        Some(at)
    }
}
