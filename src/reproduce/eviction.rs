//! What eviction destroys, and what may be said of the error.

use super::prototype::LENGTHS;
use super::{Claim, Status, Topic};
use crate::error::Result;
use crate::policy;
use crate::replay::quality::error_bound;
use crate::replay::{self, Quality, by_length};
use crate::timeline::Timeline;
use crate::trace::{Rows, default_trace, half};

/// Lengths at which compounding is shown: the mean chain of the int8 and of the fp16 runs, two caps, MATH level 5.
const CHAINS: [u32; 5] = [1111, 1422, 2048, 2781, 4096];

pub(super) fn claims() -> Result<Vec<Claim>> {
    Ok(vec![
        compounding()?,
        odd_pair()?,
        proposition()?,
        bound(),
        bottom_mass()?,
        top_mass()?,
    ])
}

/// Share of the generated tokens that is destroyed (%).
fn destroyed(policy: &str, length: u32) -> Result<f64> {
    let t = by_length(&policy::parse(policy)?, 100, length)?;
    Ok(100.0 * t.tokens_end()[3] / f64::from(length))
}

fn compounding() -> Result<Claim> {
    let mut shares = Vec::new();
    for length in CHAINS {
        let share = destroyed("four-tier:evict=0.03,semantics=per-interval", length)?;
        shares.push(format!("{share:.1} % of {length}"));
    }
    Ok(Claim::new(
        "compounding",
        Topic::Eviction,
        "3 % eviction",
        Status::Corrected,
    )
    .words("3 %", Some(shares.join(", ")))
    .arithmetic("c = floor((c + 64)(1 - r)) once past 132 tokens: the candidates tend to 64/r, a cache of constant size")
    .why("the ratio is applied at every interval, to what is left: it compounds"))
}

/// Hierarchy at 10 % against a streaming budget of 90 %.
fn odd_pair() -> Result<Claim> {
    let ours = destroyed("four-tier:evict=0.1,semantics=per-interval", 1422)?;
    let streaming = destroyed("stream-evict:budget=0.9", 1422)?;
    Ok(Claim::new(
        "odd-pair",
        Topic::Eviction,
        "10 % eviction does worse (34 %) than a baseline that keeps 90 % (56 %)",
        Status::Corrected,
    )
    .words(
        "10 % against 10 %",
        Some(format!(
            "{ours:.1} % against {streaming:.1} % of 1,422 tokens destroyed"
        )),
    )
    .arithmetic("by length: four-tier:evict=0.1,semantics=per-interval and stream-evict:budget=0.9")
    .why("the two ratios do not mean the same; compare at equal destroyed tokens"))
}

/// Which tokens are destroyed must not depend on where the others live.
fn proposition() -> Result<Claim> {
    let share = |setting: &str, lengths: &[u32]| -> Result<f64> {
        let spec = policy::parse(&format!(
            "four-tier:semantics=per-interval,evict=0.1,{setting}"
        ))?;
        let all = lengths
            .iter()
            .map(|n| by_length(&spec, 100, *n))
            .collect::<Result<Vec<Timeline>>>()?;
        let lost: f64 = all.iter().map(|t| t.tokens_end()[3]).sum();
        let made: f64 = lengths.iter().map(|n| f64::from(*n)).sum();
        Ok(100.0 * lost / made)
    };
    let lengths = &LENGTHS[0].1;
    let prototype = [
        share("preset=prototype,hbm=0.5", lengths)?,
        share("preset=prototype,hbm=0.3", lengths)?,
    ];
    let algorithm = [share("hbm=0.5", lengths)?, share("hbm=0.3", lengths)?];
    Ok(Claim::new(
        "proposition-1",
        Topic::Eviction,
        "where a token lives has no effect on the error (Proposition 1)",
        Status::Conditional,
    )
    .words(
        "always",
        Some(format!(
            "algorithm 1: {:.2} and {:.2} % destroyed at 50 and 30 % in HBM; prototype: {:.2} and {:.2} %",
            algorithm[0], algorithm[1], prototype[0], prototype[1]
        )),
    )
    .arithmetic("the 50 lengths of the 50/10 run, evict 0.1 an interval")
    .why("it holds if the choice of what is destroyed does not look at where tokens lie: so in algorithm 1, not in the prototype, which ranks what is on the GPU; and it depends on which tokens, not only on how many"))
}

/// Two tokens of weight 1/2; the destroyed value is 0, the kept one 1.
fn bound() -> Claim {
    let (weights, values) = ([0.5, 0.5], [0.0, 1.0]);
    let exact: f64 = weights.iter().zip(values).map(|(w, v)| w * v).sum();
    let renormalised = values[1];
    let error = (renormalised - exact).abs();
    let published = 2.0 * weights[0] * values[0];
    let ours = error_bound(weights[0]);
    Claim::new(
        "error-bound",
        Topic::Eviction,
        "the output error is at most 2 x sum over destroyed of weight x norm of value",
        Status::Corrected,
    )
    .words(
        &format!("bound {published:.1} where the error is {error:.1}"),
        Some(format!("bound {ours:.1}: 2 x destroyed mass x largest norm")),
    )
    .arithmetic("weights 1/2 and 1/2, destroyed value 0, kept value 1: output 1/2, renormalised 1, error 1/2, published bound 2 x 1/2 x 0 = 0")
    .why("the survivors are renormalised: o\u{302} - o = eps (o\u{302} - mean destroyed value)")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Mass of the destroyed on a recorded trace.
fn bottom_mass() -> Result<Claim> {
    let trace = default_trace()?;
    let spec = policy::parse("four-tier:hbm=0.5,evict=0.03,semantics=per-interval")?;
    let q = Quality::of(&replay::run(&trace, &[spec])?.remove(0));
    Ok(Claim::new(
        "bottom-3-percent",
        Topic::Eviction,
        "the bottom 3 to 5 % of the tokens draw less than 1 % of the attention",
        Status::Conditional,
    )
    .words(
        "< 1 %",
        Some(format!(
            "mean {}, p99 {}, worst step {}",
            percent(q.destroyed.mean),
            percent(q.destroyed.p99),
            percent(q.destroyed.max)
        )),
    )
    .arithmetic(format!(
        "four-tier:evict=0.03,semantics=per-interval over the embedded recording {} ({} rows): mass that the full cache puts on all tokens destroyed so far, {} of those generated",
        trace.name(),
        trace.rows(),
        percent(q.destroyed_share)
    ))
    .why("it is said of one interval; what counts at a step is everything destroyed by then. Another model, one recording: first order"))
}

/// Share of the mass on the fifth of the tokens that draw most.
fn top_mass() -> Result<Claim> {
    let trace = default_trace()?;
    let mut mass = vec![0f64; (trace.prompt() + trace.rows()) as usize];
    trace.for_each(u32::MAX, &mut |_, row| {
        for (sum, w) in mass.iter_mut().zip(row) {
            *sum += half::units(*w) as f64;
        }
        Ok(())
    })?;
    let total: f64 = mass.iter().sum();
    mass.sort_by(|a, b| b.total_cmp(a));
    let top: f64 = mass[..mass.len() / 5].iter().sum();
    Ok(Claim::new(
        "top-20-percent",
        Topic::Eviction,
        "the top 20 % of the tokens hold 56.5 % of the attention",
        Status::Conditional,
    )
    .words("56.5 %", Some(percent(top / total)))
    .arithmetic(format!(
        "the embedded recording {}: weights summed over its rows, prompt and first tokens included",
        trace.name()
    ))
    .why("another model and other averaging: a small model leans on its first tokens more"))
}
