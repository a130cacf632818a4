//! The list: which numbers a cause moves, and how wide it is.

use crate::hardware::kernels::Off;
use crate::hardware::value::lies;
use crate::hardware::{
    CpuParts, Front, Hardware, Link, Quantity, Runtime, Share, Source, Value, WarmUp,
};

/// One thing that may be otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Cause {
    /// What it is: `link`, `runtime.served`, `residual of attention`.
    pub name: &'static str,
    /// Where its width comes from.
    pub source: Source,
    /// Whether it is the software's, one for all cards.
    shared: bool,
    moves: Moves,
}

/// What a cause moves.
#[derive(Clone, Copy, Debug)]
enum Moves {
    /// Numbers of the machine and the software, together.
    Numbers(&'static [Number]),
    /// The laws of an operation.
    Operation(&'static str),
    /// The laws of linear layers, all operations.
    Linears,
    /// What a server adds to its steps, and to its prefills.
    Server,
    /// What it adds to its prefills besides.
    Prompts,
}

/// Where a number is; none where the machine has no such number.
type Number = for<'a> fn(&'a mut Hardware, &'a mut Runtime) -> Option<&'a mut dyn Known>;

/// A number with an interval.
trait Known {
    /// p5, best estimate and p95.
    fn interval(&self) -> [f64; 3];
    /// Takes another value.
    fn put(&mut self, value: f64);
    /// Where it comes from.
    fn source(&self) -> Source;
}

impl<Q: Quantity> Known for Value<Q> {
    fn interval(&self) -> [f64; 3] {
        [self.low, self.value, self.high]
    }

    fn put(&mut self, value: f64) {
        // A share of a roof is at most the roof, unless its interval says otherwise.
        self.value = if Q::UNIT == "share" {
            value.min(self.high.max(1.0))
        } else {
            value
        };
    }

    fn source(&self) -> Source {
        self.source
    }
}

impl Cause {
    /// The name of its stream of draws.
    pub(super) fn stream(&self, owner: &str) -> String {
        if self.shared {
            self.name.into()
        } else {
            format!("{} of {owner}", self.name)
        }
    }

    /// Moves what it moves to `z` standard deviations; residuals are gathered in `off`.
    pub(super) fn put(
        &self,
        hardware: &mut Hardware,
        runtime: &mut Runtime,
        z: f64,
        off: &mut Vec<(&'static str, f64)>,
    ) {
        match self.moves {
            Moves::Numbers(numbers) => {
                for number in numbers {
                    if let Some(known) = number(hardware, runtime) {
                        let [low, middle, high] = known.interval();
                        known.put(lies(low, middle, high, z));
                    }
                }
            }
            Moves::Operation(name) => off.push((name, z)),
            Moves::Linears => off.extend(LINEAR.map(|name| (name, z))),
            Moves::Server => {
                let by = factor(&runtime.served, z);
                runtime.off.step *= by;
                runtime.off.prefill *= by;
            }
            Moves::Prompts => runtime.off.prefill *= factor(&runtime.prompts, z),
        }
    }
}

/// How many times its best estimate a number is at `z`.
fn factor<Q: Quantity>(value: &Value<Q>, z: f64) -> f64 {
    lies(value.low / value.value, 1.0, value.high / value.value, z)
}

/// Evaluates every law of a machine so far off.
pub(super) fn put_off(hardware: &mut Hardware, off: Vec<(&'static str, f64)>) {
    if !off.is_empty() {
        hardware.gpu.kernels.put_off(&Off::new(off));
    }
}

/// Linear operations by name; `row` is one in a table.
const LINEAR: [&str; 16] = [
    "row",
    "qkv",
    "o",
    "gate_up",
    "down",
    "head",
    "q",
    "q_a",
    "q_b",
    "kv_a",
    "kv_b",
    "router",
    "experts_gate_up",
    "experts_down",
    "shared_gate_up",
    "shared_down",
];

/// The causes of a machine and its software, without those of no width.
pub(super) fn of(hardware: &Hardware, runtime: &Runtime) -> Vec<Cause> {
    let (mut h, mut r) = (hardware.clone(), runtime.clone());
    let numbers = OF_CARD
        .iter()
        .map(|n| (n, false))
        .chain(OF_SOFTWARE.iter().map(|n| (n, true)));
    let mut all: Vec<Cause> = numbers
        .filter_map(|((name, list), shared)| numbers_of(name, list, shared, &mut h, &mut r))
        .collect();
    all.extend(residuals(hardware));
    all.push(Cause {
        name: "runtime.served",
        source: runtime.served.source,
        shared: true,
        moves: Moves::Server,
    });
    all.push(Cause {
        name: "runtime.prompts",
        source: runtime.prompts.source,
        shared: true,
        moves: Moves::Prompts,
    });
    all
}

/// The cause behind some numbers; none where all are missing or known exactly.
fn numbers_of(
    name: &'static str,
    list: &'static [Number],
    shared: bool,
    hardware: &mut Hardware,
    runtime: &mut Runtime,
) -> Option<Cause> {
    let mut source = None;
    for number in list {
        let known = number(hardware, runtime);
        let wide = known.filter(|k| {
            let [low, _, high] = k.interval();
            low < high
        });
        source = source.or(wide.map(|k| k.source()));
    }
    Some(Cause {
        name,
        source: source?,
        shared,
        moves: Moves::Numbers(list),
    })
}

/// Residuals of the laws of kernels. Laws that were measured err apart, operation by operation; those taken from other cards
/// err together.
fn residuals(hardware: &Hardware) -> Vec<Cause> {
    let source = hardware.gpu.kernels.linear.share.source;
    let cause = |name, moves| Cause {
        name,
        source,
        shared: false,
        moves,
    };
    let operation = |name| cause(name, Moves::Operation(name));
    let mut all = vec![operation("attention"), operation("prefill")];
    if source == Source::Measured {
        all.extend(LINEAR.map(operation));
    } else {
        all.push(cause("linear", Moves::Linears));
    }
    all
}

/// Numbers of the card and its host, each once; but for the peaks of the GPU, of which the fitted laws are shares, so that
/// their residual holds what the peaks miss.
#[rustfmt::skip] // one row a cause
const OF_CARD: &[(&str, &[Number])] = &[
    ("gpu.memory", &[|h, _| Some(&mut h.gpu.memory)]),
    // No table of 4-bit products is at hand: its share is a guess of its own, beside the residual.
    ("gpu.kernels.linear_4bit", &[|h, _| of_class(&mut h.gpu.kernels.linear_4bit.share)]),
    // Large products on a card that nobody measured: the residual of its class is that of all sizes, most of which stream.
    (
        "gpu.kernels.gemm",
        &[
            |h, _| of_class(&mut h.gpu.kernels.linear.gemm),
            |h, _| of_class(&mut h.gpu.kernels.linear_8bit.gemm),
            |h, _| of_class(&mut h.gpu.kernels.linear_4bit.gemm),
        ],
    ),
    // One slot of one generation: what keeps one direction from its rate keeps the other.
    ("link", &[|h, _| Some(&mut h.link.h2d), |h, _| Some(&mut h.link.d2h)]),
    ("link.duplex", &[|h, _| Some(&mut h.link.duplex)]),
    // The driver's path behind every copy.
    ("link.call", &[|h, _| Some(&mut h.link.call), |h, _| Some(&mut h.link.descriptor), |h, _| Some(own(&mut h.link, Link::batched_piece, |l| &mut l.batched_piece))]),
    ("link.remote", &[|h, _| Some(own(&mut h.link, Link::remote, |l| &mut l.remote))]),
    ("link.gather", &[|h, _| Some(own(&mut h.link, Link::gather_piece, |l| &mut l.gather_piece))]),
    ("link.gather_share", &[|h, _| Some(own(&mut h.link, Link::gather_share, |l| &mut l.gather_share))]),
    ("link.staging", &[|h, _| Some(own(&mut h.link, Link::staging, |l| &mut l.staging))]),
    ("link.in_place", &[|h, _| Some(own(&mut h.link, Link::in_place_share, |l| &mut l.in_place))]),
    ("host.ddr_read", &[|h, _| Some(&mut h.host.ddr_read)]),
    ("host.attention_flops", &[|h, _| Some(&mut h.host.attention_flops)]),
    ("host.pinned_limit", &[|h, _| Some(&mut h.host.pinned_limit)]),
    ("interconnect.allreduce", &[
        |h, _| Some(&mut h.interconnect.as_mut()?.allreduce_fixed),
        |h, _| Some(h.interconnect.as_mut()?.allreduce_hop.as_mut()?),
    ]),
    ("interconnect.bandwidth", &[
        |h, _| Some(&mut h.interconnect.as_mut()?.bandwidth),
        |h, _| Some(h.interconnect.as_mut()?.bandwidth_of_8.as_mut()?),
    ]),
    ("interconnect.launch", &[|h, _| {
        let i = h.interconnect.as_mut()?;
        let value = i.launch();
        Some(i.launch.get_or_insert(value))
    }]),
];

/// Numbers of the software, each once.
#[rustfmt::skip] // one row a cause
const OF_SOFTWARE: &[(&str, &[Number])] = &[
    // One interpreter on one host.
    ("runtime.step_gap", &[|_, r| Some(&mut r.step_gap), |_, r| Some(&mut r.step_gap_per_sequence)]),
    ("runtime.layer_other", &[|_, r| Some(&mut r.layer_other)]),
    ("runtime.kernel_share", &[|_, r| Some(&mut r.kernel_share)]),
    ("runtime.reserve", &[|_, r| Some(&mut r.reserve), |_, r| Some(&mut r.reserve_multi_gpu)]),
    ("runtime.batched_tokens", &[|_, r| Some(&mut r.batched_tokens)]),
    ("runtime.activation_factor", &[|_, r| Some(&mut r.activation_factor)]),
    ("runtime.memory_fraction", &[|_, r| Some(&mut r.memory_fraction)]),
    ("runtime.warm_up.rows", &[|_, r| warm_up(r, |w| &mut w.rows), |_, r| warm_up(r, |w| &mut w.rows_small)]),
    ("runtime.warm_up.logit_bytes", &[|_, r| warm_up(r, |w| &mut w.logit_bytes)]),
    ("runtime.front.fixed", &[|_, r| front(r, |f| &mut f.fixed)]),
    ("runtime.front.each", &[|_, r| front(r, |f| &mut f.each)]),
    ("runtime.front.bunch", &[|_, r| front(r, |f| &mut f.bunch)]),
    ("runtime.front.queue", &[|_, r| front(r, |f| &mut f.queue)]),
    ("runtime.sampler", &[|_, r| {
        let value = r.sampler();
        Some(r.sampler.get_or_insert(value))
    }]),
    ("runtime.offload.copy", &[|_, r| Some(&mut r.offload.as_mut()?.copy)]),
    ("runtime.offload.fetch", &[|_, r| Some(&mut r.offload.as_mut()?.fetch)]),
    ("runtime.offload.scores", &[|_, r| Some(&mut r.offload.as_mut()?.scores)]),
    ("runtime.offload.books", &[|_, r| Some(&mut r.offload.as_mut()?.books)]),
    ("runtime.cpu.schedule", &[|_, r| cpu(r, |c| &mut c.schedule.fixed), |_, r| cpu(r, |c| &mut c.schedule.each)]),
    ("runtime.cpu.inputs", &[|_, r| cpu(r, |c| &mut c.inputs.fixed), |_, r| cpu(r, |c| &mut c.inputs.each)]),
    ("runtime.cpu.sampler", &[|_, r| cpu(r, |c| &mut c.sampler.fixed), |_, r| cpu(r, |c| &mut c.sampler.each)]),
    ("runtime.cpu.outputs", &[|_, r| cpu(r, |c| &mut c.outputs.fixed), |_, r| cpu(r, |c| &mut c.outputs.each)]),
    ("runtime.cpu.gather", &[|_, r| cpu(r, |c| &mut c.gather)]),
    ("runtime.cpu.workers", &[|_, r| Some(&mut r.cpu.as_mut()?.workers)]),
];

/// A share of the kernels where nobody measured it.
fn of_class(share: &mut Value<Share>) -> Option<&mut dyn Known> {
    if share.source == Source::Assumed {
        Some(share)
    } else {
        None
    }
}

/// A number that a link's profile may leave to what others measured.
fn own<Q: Quantity>(
    link: &mut Link,
    usual: fn(&Link) -> Value<Q>,
    of: fn(&mut Link) -> &mut Option<Value<Q>>,
) -> &mut dyn Known {
    let value = usual(link);
    of(link).get_or_insert(value)
}

fn warm_up<Q: Quantity>(
    runtime: &mut Runtime,
    of: fn(&mut WarmUp) -> &mut Value<Q>,
) -> Option<&mut dyn Known> {
    Some(of(runtime.warm_up.as_mut()?))
}

fn front<Q: Quantity>(
    runtime: &mut Runtime,
    of: fn(&mut Front) -> &mut Value<Q>,
) -> Option<&mut dyn Known> {
    Some(of(runtime.front.as_mut()?))
}

fn cpu<Q: Quantity>(
    runtime: &mut Runtime,
    of: fn(&mut CpuParts) -> &mut Value<Q>,
) -> Option<&mut dyn Known> {
    Some(of(runtime.cpu.as_mut()?))
}
