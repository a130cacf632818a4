//! The question: a sentence, every setting, and the command line that asks it.

use crate::plan::answer::Setting;
use crate::plan::solve::Find;
use crate::plan::solve::answer::Solution;

use super::data::{Cell, Data};
use super::source::{Saved, Source};

/// Every setting with who decided it.
pub(super) fn settings(question: &[Setting]) -> Data {
    let mut data = Data::new("settings", "Every setting of the question")
        .text("setting", "name")
        .text("value", "value")
        .text("decided by", "from");
    for s in question {
        data.row([&s.name, &s.value, &s.from].map(Cell::text));
    }
    data
}

/// The command line that asks a plan's question again; others are asked again by `rerun` alone.
pub(super) fn command(source: &Source) -> Option<String> {
    match &source.saved {
        Saved::Plan(p) => Some(asked(&p.question, "", Vec::new())),
        Saved::Solution(s) => Some(asked(&s.question, searched(s), finds(s))),
        Saved::Outcome(_) | Saved::Sweep(_) => None,
    }
}

/// The setting that a search replaces: no flag says it.
fn searched(s: &Solution) -> &'static str {
    let find = Find::WORDS.iter().find(|(word, _)| *word == s.find);
    match find {
        // Of a policy the rest counts.
        None | Some((_, Find::MinHbm)) => "",
        Some((_, find)) => find.searched(),
    }
}

fn asked(question: &[Setting], but: &str, more: Vec<String>) -> String {
    let given = question
        .iter()
        .filter(|s| s.from != "default" && s.name != but);
    let flags = given.map(|s| format!("--{} {}", s.name, quoted(&s.value.replace(", ", ","))));
    let mut words = vec!["kvplan plan".to_string()];
    words.extend(flags);
    words.extend(more);
    words.push("--format json".into());
    words.join(" ")
}

/// Flags of a search.
fn finds(s: &Solution) -> Vec<String> {
    let l = &s.limits;
    let mut flags = vec![format!("--find {}", s.find)];
    flags.extend(l.tpot_p99_s.map(|t| format!("--tpot-p99 {t}s")));
    flags.extend(l.ttft_p99_s.map(|t| format!("--ttft-p99 {t}s")));
    flags.extend(l.max_hbm_bytes.map(|b| format!("--max-hbm {b}B")));
    flags.extend(l.max_ddr_bytes.map(|b| format!("--max-ddr {b}B")));
    let price = s.rows.first().and_then(|r| r.price_usd_per_gpu_hour);
    let one = s.rows.iter().all(|r| r.price_usd_per_gpu_hour == price);
    flags.extend(price.filter(|_| one).map(|p| format!("--price {p}")));
    flags
}

/// A word as a shell reads it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
