//! One deployment as a page: what was asked, whether it fits, memory, speed, traffic, tiers, quality, assumptions.

use crate::metrics::{Assumption, Fetched, Outcome, TierUse};

use super::cells::{
    NONE, card, count, figure, gib, in_full, maybe_percent, percent, rate, signed_gib, size,
    spaced, time,
};
use super::page::{Block, Grid, Mood, Page};

/// The page of an outcome.
pub fn page(outcome: &Outcome) -> Page {
    let mut page = Page::default();
    question(&mut page, outcome);
    verdict(&mut page, outcome);
    memory(&mut page, outcome);
    if let Some(serving) = &outcome.serving {
        super::serving::sections(&mut page, serving);
    }
    if outcome.fits {
        speed(&mut page, outcome);
        traffic(&mut page, outcome);
    }
    super::sure::of_outcome(&mut page, outcome);
    tiers(&mut page, outcome);
    quality(&mut page, outcome);
    assumptions(&mut page, &outcome.assumptions);
    if !outcome.notes.is_empty() {
        page.title("Notes");
        page.list(outcome.notes.clone());
    }
    page
}

fn question(page: &mut Page, o: &Outcome) {
    page.title("Question");
    page.text(asked(o));
    page.facts([
        ("formats", format!("weights {}, KV {}", o.weights, o.kv)),
        ("policy", spaced(&o.policy)),
        ("T1", format!("{}, overlap {}", o.t1_mode, o.overlap)),
        (
            "runs as",
            format!("{} requests on {}, seed {}", o.occupancy, o.runtime, o.seed),
        ),
    ]);
}

/// The question in a sentence.
pub(super) fn asked(o: &Outcome) -> String {
    let own = o.occupancy == "listed" || o.serving.as_ref().is_some_and(|s| s.own_lengths);
    format!(
        "{} of {} on {}, {}{} prompt + {} output tokens each.",
        o.serving.as_ref().map_or_else(
            || requests(o.batch),
            |s| format!(
                "{}, at most {} together,",
                requests(u32::try_from(s.requests).unwrap_or(u32::MAX)),
                count(u64::from(o.batch))
            ),
        ),
        o.model,
        card(&o.hardware, o.gpus),
        if own { "up to " } else { "" },
        count(u64::from(o.prompt_tokens)),
        count(u64::from(o.output_tokens)),
    )
}

/// `1 request`, `8 requests`.
pub(super) fn requests(n: u32) -> String {
    if n == 1 {
        "1 request".into()
    } else {
        format!("{} requests", count(u64::from(n)))
    }
}

fn verdict(page: &mut Page, o: &Outcome) {
    page.title("Answer");
    let (text, mood) = answer(o);
    page.push(Block::Verdict(text, mood));
    page.text(format!(
        "With everything in HBM a request may reach {} tokens here, all requests alike.",
        count(o.holds_tokens_per_request)
    ));
    if !o.changes.is_empty() {
        page.text("What would make it fit, each checked:");
        page.list(o.changes.clone());
    }
}

/// Whether it fits, and how fast it is or what is missing.
pub(super) fn answer(o: &Outcome) -> (String, Mood) {
    let peak = format!(
        "{} at the peak, {} usable",
        size(o.memory.hbm_peak_bytes),
        size(o.memory.hbm_capacity_bytes)
    );
    if o.fits {
        let speed = figure(o.throughput.output_tokens_per_s);
        let text = format!(
            "Fits: {peak}. {speed} output tokens/s over the run, bound by {}.",
            o.bound_by
        );
        return (text, Mood::Good);
    }
    let text = match o.shortfall_bytes {
        0 => format!(
            "Does not fit: {} of host memory needed, {} may be pinned ({peak} of HBM).",
            size(o.memory.ddr_peak_bytes),
            size(o.memory.ddr_capacity_bytes)
        ),
        short => format!("Does not fit: {} of HBM missing ({peak}).", size(short)),
    };
    (text, Mood::Bad)
}

fn memory(page: &mut Page, o: &Outcome) {
    let m = &o.memory;
    page.title("Where the memory goes (GiB, all GPUs, at the HBM peak)");
    let mut grid = Grid::new(["HBM", "GiB"]);
    grid.row(["weights", &gib(m.weights_bytes)]);
    grid.row(["KV in HBM (T0)", &gib(m.kv_t0_bytes)]);
    grid.row(["staging of T1", &gib(m.staging_bytes)]);
    grid.row(["activations", &gib(m.activation_bytes)]);
    grid.row(["runtime reserve", &gib(m.reserve_bytes)]);
    grid.row(["sum at the peak", &gib(m.hbm_peak_bytes)]);
    grid.row(["usable", &gib(m.hbm_capacity_bytes)]);
    page.grid(grid);
    let mut facts = vec![
        (
            "KV if all stayed in HBM",
            format!("{} GiB", gib(m.kv_full_bytes)),
        ),
        (
            "HBM freed by moving",
            format!(
                "{} GiB, {}",
                signed_gib(m.hbm_saved_moved_bytes),
                if m.hbm_saved_moved_bytes < 0 {
                    "as staging takes more than moving frees"
                } else {
                    "staging taken off"
                }
            ),
        ),
        (
            "HBM freed by destroying",
            format!("{} GiB", signed_gib(m.hbm_saved_destroyed_bytes)),
        ),
        (
            "host memory at its peak",
            format!(
                "{} GiB of {} GiB that may be pinned",
                gib(m.ddr_peak_bytes),
                gib(m.ddr_capacity_bytes)
            ),
        ),
    ];
    if let Some(pages) = m.hbm_saved_moved_whole_pages_bytes {
        facts.insert(
            2,
            (
                "  without compaction",
                format!("{} GiB: pages are freed only when empty", signed_gib(pages)),
            ),
        );
    }
    page.facts(facts);
}

fn speed(page: &mut Page, o: &Outcome) {
    let t = &o.throughput;
    page.title("Speed (decode; prefill is its own figure)");
    page.facts([
        ("output tokens/s, whole run", figure(t.output_tokens_per_s)),
        ("  at the end of the chains", figure(t.at_end_tokens_per_s)),
        (
            "  if all fitted in HBM",
            figure(t.full_cache_output_tokens_per_s),
        ),
        (
            "time per output token",
            format!(
                "{} mean, {} p99 over steps",
                time(t.tpot_mean_s),
                time(t.tpot_p99_s)
            ),
        ),
        ("prefill of all prompts", time(t.prefill_s)),
        ("first prefill to last token", time(t.makespan_s)),
    ]);
    let s = &o.step;
    let parts = [
        ("linear layers", s.linear_s),
        ("attention", s.attention_s),
        ("other kernels", s.other_s),
        ("all-reduce", s.collective_s),
        ("CPU between steps", s.gap_s),
        ("waiting for transfers", s.exposed_transfer_s),
        ("waiting for the host", s.exposed_host_s),
        ("re-tiering", s.retier_s),
        ("prefill and recompute", s.recompute_s),
    ];
    let shown: Vec<String> = parts
        .iter()
        .filter(|(_, v)| *v > 0.0)
        .map(|(n, v)| format!("{n} {}", time(Some(*v))))
        .collect();
    if !shown.is_empty() {
        page.text(format!("A mean step is {}.", shown.join(" + ")));
    }
    if o.preemptions > 0 {
        page.text(format!(
            "{} preemptions, each recomputed later.",
            count(o.preemptions)
        ));
    }
}

fn traffic(page: &mut Page, o: &Outcome) {
    let t = &o.traffic;
    page.title("Link");
    let free = o.free_t1_bytes.map_or_else(|| NONE.into(), size);
    page.facts([
        (
            "host to GPU, whole run",
            format!(
                "{}, link busy {}",
                size(t.h2d_bytes),
                percent(t.h2d_busy_share)
            ),
        ),
        ("GPU to host, whole run", size(t.d2h_bytes)),
        (
            "GPU waits for transfers",
            format!("{} of the run", percent(t.exposed_transfer_share)),
        ),
        ("T1 that streams for free", format!("{free} a step")),
        (
            "link at which T1 is free",
            rate(o.breakeven_link_bytes_per_s),
        ),
    ]);
}

fn tiers(page: &mut Page, o: &Outcome) {
    page.title("Tiers, per request");
    let mut grid = Grid::new(["TIER", "TOKENS\nmean", "TOKENS\nat end", "ATTENTION\nmean"]);
    let named: [(&str, &TierUse); 4] = [
        ("T0 GPU memory", &o.tiers.t0),
        ("T1 host, exact", &o.tiers.t1),
        ("T2 host, 8 bit", &o.tiers.t2),
        ("T3 destroyed", &o.tiers.t3),
    ];
    for (name, tier) in named {
        grid.row([
            name.to_string(),
            figure(Some(tier.tokens_mean)),
            figure(Some(tier.tokens_end)),
            maybe_percent(tier.mass_mean),
        ]);
    }
    page.grid(grid);
    let m = &o.moves;
    page.text(format!(
        "{} re-tiers; on average {} tokens demoted and {} promoted each.",
        count(u64::from(m.retiers)),
        figure(Some(m.demoted_per_retier)),
        figure(Some(m.promoted_per_retier)),
    ));
}

fn quality(page: &mut Page, o: &Outcome) {
    page.title("Quality");
    page.list(sentences(o));
}

/// What can be said of quality, each with its caveat.
pub(super) fn sentences(o: &Outcome) -> Vec<String> {
    let q = &o.quality;
    let mut items = Vec::new();
    let selects = o.fetched.tokens_mean.is_some();
    if selects {
        items.extend(left_out(o, &o.fetched));
    }
    if q.destroyed_share > 0.0 {
        let share = percent(q.destroyed_share);
        items.push(if q.destroyed_share <= 1.0 {
            format!("{share} of the generated tokens are destroyed by the end.")
        } else {
            format!("Destroyed by the end: {share} of as many tokens as were generated; the prompt goes, too.")
        });
        items.push(format!(
            "Attention the full cache would give them: {} mean, {} p99, {} worst step.",
            maybe_percent(q.destroyed_mass_mean),
            maybe_percent(q.destroyed_mass_p99),
            maybe_percent(q.destroyed_mass_max),
        ));
        items.extend(bound(o));
        items.push("A proxy for settings of one policy family; it is not accuracy and does not rank families.".into());
    } else if selects {
        items.extend(bound(o));
        items.push("A proxy for settings of one policy family; it is not accuracy and does not rank families.".into());
    } else if o.tiers.t2.tokens_end > 0.0 {
        items.push(
            "No token is destroyed; those in T2 are kept in 8 bit, whose cost in answers is not modelled.".into(),
        );
    } else {
        items.push(
            "No token is destroyed and T1 is exact: the same answers as with everything in HBM, up to rounding.".into(),
        );
    }
    items.extend(trace(o));
    items
}

/// What `selective` leaves out.
fn left_out(o: &Outcome, f: &Fetched) -> Vec<String> {
    let q = &o.quality;
    let mut items = vec![format!(
        "Not exact: of the host tokens {} take part in a step (mean), {} of them newly fetched; the rest is left out of it.",
        figure(f.tokens_mean),
        figure(f.fresh_mean),
    )];
    items.push(match q.residual_mass_mean {
        Some(_) => format!(
            "Attention the full cache would give what is left out: {} mean, {} p99, {} worst step.",
            maybe_percent(q.residual_mass_mean),
            maybe_percent(q.residual_mass_p99),
            maybe_percent(q.residual_mass_max),
        ),
        None => "What that costs in attention is not known without a trace.".into(),
    });
    items
}

/// The bound on the error of an attention output.
fn bound(o: &Outcome) -> Option<String> {
    let bound = o.quality.output_error_bound?;
    Some(format!(
        "Error of an attention output: at most {} times the largest value norm.",
        figure(Some(bound))
    ))
}

fn trace(o: &Outcome) -> Option<String> {
    let name = o.trace.name.as_ref()?;
    if o.depends_on_trace.is_empty() {
        return None;
    }
    let model = o
        .trace
        .recorded_model
        .as_deref()
        .unwrap_or("an unnamed model");
    let past = match o.trace.synthetic_share {
        s if s > 0.0 => format!(
            "; {} of the steps lie past what was recorded and are drawn or extrapolated",
            percent(s)
        ),
        _ => String::new(),
    };
    let rows = count(u64::from(o.trace.rows));
    Some(format!(
        "Attention and moves rest on trace {name} ({rows} steps recorded on {model}){past}."
    ))
}

fn assumptions(page: &mut Page, list: &[Assumption]) {
    if list.is_empty() {
        return;
    }
    page.title("What the numbers rest on");
    page.facts(list.iter().map(|a| (a.name.clone(), in_full(a))));
}
