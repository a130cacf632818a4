//! Results as pages: what a reader sees of a made-up answer (the figures of the fixtures are for layout only).

use kvplan::metrics::Outcome;
use kvplan::plan::answer::Plan;
use kvplan::report::{Style, csv, json, md, table};

fn plan() -> Plan {
    serde_json::from_str(include_str!("fixtures/plan.json")).unwrap()
}

fn outcome() -> Outcome {
    serde_json::from_str(include_str!("fixtures/outcome.json")).unwrap()
}

fn no_fit() -> Outcome {
    serde_json::from_str(include_str!("fixtures/no-fit.json")).unwrap()
}

#[test]
fn look() {
    std::fs::write("/tmp/look/plan.txt", table::plan(&plan(), Style::default())).unwrap();
    std::fs::write(
        "/tmp/look/outcome.txt",
        table::outcome(&outcome(), Style::default()),
    )
    .unwrap();
    std::fs::write(
        "/tmp/look/no.txt",
        table::outcome(&no_fit(), Style::default()),
    )
    .unwrap();
    std::fs::write("/tmp/look/plan.md", md::plan(&plan())).unwrap();
    std::fs::write("/tmp/look/plan.csv", csv::plan(&plan()).unwrap()).unwrap();
    std::fs::write("/tmp/look/plan.json", json::pretty(&plan()).unwrap()).unwrap();
}
