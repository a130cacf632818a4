//! Every way to run it as one table, to sort and to filter.

use super::data::{Cell, Data};
use super::entry::Entry;
use super::figure::Standing;
use super::sure;

/// The table.
pub(super) fn table(entries: &[&Entry]) -> Data {
    let mut data = Data::new("ways", "A row a card and way")
        .text("card", "card")
        .text("way", "way")
        .text("fits", "fits")
        .text("runs in", "runs_in")
        .figure("tokens/s", "output_tokens_per_s")
        .figure("p5", "output_tokens_per_s_p5")
        .figure("p95", "output_tokens_per_s_p95")
        .figure("staggered, tokens/s", "staggered.output_tokens_per_s")
        .figure("time a token", "tpot_mean_s")
        .figure("at p99", "tpot_p99_s")
        .figure("HBM, GiB", "hbm_peak_bytes")
        .figure("freed, GiB", "hbm_saved_moved_bytes")
        .figure("host, GiB", "ddr_peak_bytes")
        .figure("destroyed", "destroyed_share")
        .text("bound by", "bound_by")
        .text("remark", "remark")
        .filtered(&[0, 2, 3, 14]);
    for e in entries {
        data.row(row(e));
    }
    data.without_empty("output_tokens_per_s_p5")
        .without_empty("output_tokens_per_s_p95")
        .without_empty("staggered.output_tokens_per_s")
        .without_zeros("destroyed_share")
        .without_empty("runs_in")
        .without_empty("remark")
}

fn row(e: &Entry) -> Vec<Cell> {
    let o = e.outcome;
    let t = &o.throughput;
    let runs: Vec<&str> = e.runs_in.iter().map(|r| r.software.as_str()).collect();
    vec![
        Cell::text(&e.card),
        Cell::text(&e.way),
        Cell::yes(o.fits),
        match (runs.is_empty(), e.standing) {
            (false, _) => Cell::text(runs.join(", ")),
            (true, Standing::Simulated | Standing::Front) => Cell::none(),
            (true, _) => Cell::text("nothing yet"),
        },
        Cell::figure(t.output_tokens_per_s),
        Cell::figure(sure::range(o).map(|r| r.0)),
        Cell::figure(sure::range(o).map(|r| r.1)),
        Cell::figure(e.staggered.and_then(|s| s.output_tokens_per_s)),
        Cell::time(t.tpot_mean_s),
        Cell::time(t.tpot_p99_s),
        Cell::gib(o.memory.hbm_peak_bytes),
        Cell::signed_gib(Some(o.memory.hbm_saved_moved_bytes)),
        Cell::gib(o.memory.ddr_peak_bytes),
        Cell::share(Some(o.quality.destroyed_share)),
        Cell::text(&o.bound_by),
        e.remark.map_or_else(Cell::none, Cell::text),
    ]
}
