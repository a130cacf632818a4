//! Laws that turn a model and a machine into time, one small function each.
//!
//! A law takes physical quantities (bytes, rows, flops) and a profile, and gives seconds; [`Prepared`] strings them
//! together for one deployment and rounds up to picoseconds, once. What is modelled: roofline terms with the fitted
//! efficiency and floor of each kernel family. What is ignored: L2 hits of caches under ~50 MB, wave quantisation,
//! clocks; the fits of the reference measurements miss by 5-12 % (attention) and 3-9 % (linear), so no answer here is
//! better than that. Rival: a bare roofline, which is about 45 % off end to end (PEERS 2.7), or a table of measured
//! kernels, which is mute about machines nobody measured. Units: seconds, bytes, FLOP.

pub mod attention;
pub mod collective;
pub mod copies;
pub mod cpu;
pub mod eager_tier;
pub mod elementwise;
pub mod linear;
pub mod prefill;
mod prepared;
pub mod transfer;

pub use prepared::{BatchCost, Class, Prepared, Traffic};
