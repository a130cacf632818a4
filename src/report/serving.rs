//! Requests over time as sections of a page: what clients see, how full the server was.

use crate::metrics::serving::{Serving, Spread};

use super::cells::{count, figure, percent, size, time};
use super::page::{Grid, Page};

/// Rows of the table over time.
const ROWS: usize = 12;

/// The sections.
pub(super) fn sections(page: &mut Page, s: &Serving) {
    page.title("Under load");
    page.facts([
        (
            "requests",
            match s.offered_requests_per_s {
                Some(rate) => format!("{}, {} a second", count(s.requests), figure(Some(rate))),
                None => format!("{}, all at once", count(s.requests)),
            },
        ),
        (
            "served",
            format!(
                "{} requests/s, {} output tokens/s over {}",
                figure(Some(s.requests_per_s)),
                figure(Some(s.output_tokens_per_s)),
                time(Some(s.makespan_s))
            ),
        ),
        (
            "together at most",
            format!(
                "{} requests, {} tokens a step",
                count(u64::from(s.max_running)),
                count(u64::from(s.token_budget_tokens))
            ),
        ),
        (
            "running",
            format!(
                "{} mean, {} most",
                figure(Some(s.running_mean)),
                count(u64::from(s.running_max))
            ),
        ),
        (
            "in line",
            format!(
                "{} mean, {} most",
                figure(Some(s.waiting_mean)),
                count(u64::from(s.waiting_max))
            ),
        ),
        (
            "gave way",
            format!(
                "{} times, {} of them swapped",
                count(s.preemptions),
                count(s.swaps)
            ),
        ),
        (
            "prompts from the prefix cache",
            format!(
                "{} tokens of {}",
                count(s.cached_tokens_total),
                count(s.prompt_tokens_total)
            ),
        ),
        (
            "KV in HBM",
            format!(
                "{} mean, room for {}",
                size(s.kv_mean_bytes),
                size(s.kv_room_bytes)
            ),
        ),
    ]);
    times(page, s);
    limits(page, s);
    page.title("Tiers under load (share of the tokens, prompts too, mean over time)");
    page.facts([
        ("T0 GPU memory", percent(s.t0_share)),
        ("T1 host, exact", percent(s.t1_share)),
        ("T2 host, 8 bit", percent(s.t2_share)),
        ("T3 destroyed", percent(s.t3_share)),
    ]);
    page.list(s.unused_tiers.clone());
    over_time(page, s);
}

fn times(page: &mut Page, s: &Serving) {
    let mut grid = Grid::new(["TIME", "MEAN", "P50", "P90", "P99", "MOST"]);
    let rows: [(&str, &Spread); 7] = [
        ("to the first token (TTFT)", &s.ttft),
        ("  on the way to the engine", &s.front),
        ("  in line", &s.queued),
        ("  computing the prompt", &s.prefill),
        ("per further token (TPOT)", &s.tpot),
        ("between tokens (ITL)", &s.itl),
        ("to the last token (E2EL)", &s.e2el),
    ];
    for (name, t) in rows {
        grid.row([
            name.to_string(),
            time(t.mean_s),
            time(t.p50_s),
            time(t.p90_s),
            time(t.p99_s),
            time(t.max_s),
        ]);
    }
    page.grid(grid);
    sure(page, s);
}

/// p5 to p95 of what clients see, over draws.
fn sure(page: &mut Page, s: &Serving) {
    let Some(i) = &s.intervals else {
        return;
    };
    page.text(format!(
        "5th to 95th percentile of {} draws of what is not known exactly:",
        i.draws
    ));
    let times = |low: Option<f64>, high: Option<f64>| format!("{} to {}", time(low), time(high));
    page.facts([
        ("TTFT mean", times(i.ttft_mean_s_p5, i.ttft_mean_s_p95)),
        ("TTFT P99", times(i.ttft_p99_s_p5, i.ttft_p99_s_p95)),
        ("TPOT mean", times(i.tpot_mean_s_p5, i.tpot_mean_s_p95)),
        ("TPOT P99", times(i.tpot_p99_s_p5, i.tpot_p99_s_p95)),
        ("makespan", times(i.makespan_s_p5, i.makespan_s_p95)),
        (
            "output tokens/s",
            format!(
                "{} to {}",
                figure(i.output_tokens_per_s_p5),
                figure(i.output_tokens_per_s_p95)
            ),
        ),
    ]);
}

fn limits(page: &mut Page, s: &Serving) {
    let (Some(rate), Some(share)) = (s.goodput_requests_per_s, s.met_share) else {
        return;
    };
    let part = |name: &str, limit: Option<f64>| limit.map(|l| format!("{name} {}", time(Some(l))));
    let asked: Vec<String> = [
        part("TTFT", s.slo_ttft_s),
        part("TPOT", s.slo_tpot_s),
        part("E2EL", s.slo_e2el_s),
    ]
    .into_iter()
    .flatten()
    .collect();
    page.text(format!(
        "{} of the requests keep to {}: a goodput of {} requests/s.",
        percent(share),
        asked.join(", "),
        figure(Some(rate))
    ));
}

fn over_time(page: &mut Page, s: &Serving) {
    page.title("Over time");
    let mut grid = Grid::new([
        "AT",
        "RUNNING",
        "IN LINE",
        "T0\ntokens",
        "T1\ntokens",
        "T2\ntokens",
        "KV IN HBM",
    ]);
    let every = s.over_time.len().div_ceil(ROWS).max(1);
    for m in s.over_time.iter().step_by(every) {
        grid.row([
            time(Some(m.at_s)),
            count(u64::from(m.running)),
            count(u64::from(m.waiting)),
            count(m.t0_tokens),
            count(m.t1_tokens),
            count(m.t2_tokens),
            size(m.kv_bytes),
        ]);
    }
    page.grid(grid);
}
