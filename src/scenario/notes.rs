//! What is odd but possible, said with the answer: a chain past the model's context, a flag that changes nothing here.

use crate::deploy::T1Mode;
use crate::units::text::group;
use crate::workload::{Arrivals, Drawn, Lengths};

use super::settings::{Given, Settings};
use super::{Scenario, UnderLoad, Verb};

/// All of it, in the order in which it is shown.
pub(super) fn notes(settings: &Settings, scenario: &Scenario) -> Vec<String> {
    let mut notes = Vec::new();
    let model = &scenario.deployment.model;
    if scenario.tokens() > u64::from(model.max_context) {
        notes.push(format!(
            "{} tokens a request are past the {} that {} was made for: its answers there are not what this is about",
            group(&scenario.tokens().to_string()),
            group(&model.max_context.to_string()),
            model.id
        ));
    }
    if settings.verb == Verb::Plan {
        notes.extend(set_by_plan(settings, scenario.deployment.t1));
    }
    if let Some(l) = &scenario.load {
        notes.extend(load_notes(l, scenario.batch));
    }
    if let Some(l) = &scenario.lengths {
        notes.push(mixed(l, scenario.batch));
    }
    let full = scenario.policy.split(':').next() == Some("full");
    if full && settings.asked("t1").is_some() {
        notes.push("policy full keeps everything in HBM: --t1 has no effect".into());
    }
    notes
}

/// What a plan decides for itself.
fn set_by_plan(settings: &Settings, t1: T1Mode) -> Vec<String> {
    let asked = |name| settings.asked(name).map(Given::text);
    let mut notes = Vec::new();
    let adds = matches!(t1, T1Mode::Direct | T1Mode::Selective(_));
    if asked("t1").is_some() && !adds {
        notes.push("plan tries every T1 mode: --t1 has no effect on it".into());
    }
    if asked("occupancy").is_some_and(|o| ["lockstep", "staggered"].contains(&o.as_str())) {
        notes.push(
            "plan runs every way in lockstep and staggered: --occupancy has no effect on it".into(),
        );
    }
    if asked("policy").is_some_and(|p| p == "full") {
        notes.push("plan compares everything in HBM with ways that spill, which then move nothing: name a policy that spills".into());
    }
    notes
}

/// What a file of lengths comes to.
fn mixed(lengths: &Lengths, batch: u32) -> String {
    let all: Vec<(u32, u32)> = (0..batch).map(|i| lengths.of(i)).collect();
    let range = |of: fn(&(u32, u32)) -> u32| {
        let low = all.iter().map(of).min().unwrap_or(0);
        let high = all.iter().map(of).max().unwrap_or(0);
        let mean = all.iter().map(|r| f64::from(of(r))).sum::<f64>() / all.len().max(1) as f64;
        let text = |n: u32| group(&n.to_string());
        format!(
            "{} to {}, mean {}",
            text(low),
            text(high),
            group(&format!("{mean:.0}"))
        )
    };
    format!(
        "lengths of each request from a file of {} (request i has line i mod {}): prompts of {}, outputs of {} tokens; \
         prompt_tokens and output_tokens are the largest",
        lengths.count(),
        lengths.count(),
        range(|r| r.0),
        range(|r| r.1)
    )
}

/// What a load rests on.
fn load_notes(l: &UnderLoad, batch: u32) -> Vec<String> {
    let mut notes = Vec::new();
    if let Drawn::Quantiles(q) = &l.lengths {
        notes.push(format!(
            "lengths drawn from the quantiles of {} ({}): prompts and outputs apart, nothing beyond the outermost",
            q.name, q.reference
        ));
    }
    if l.load.blocks.iter().any(|b| !b.is_empty()) {
        notes.push(
            "prompt blocks that an earlier prompt has already are taken from the prefix cache, and lie in HBM once for all who run with them"
                .into(),
        );
    }
    if l.arrivals == Arrivals::All && l.load.requests.len() as u64 <= u64::from(batch) {
        notes.push("all requests come at once and run together: a static batch whose first prompts share steps".into());
    }
    notes
}
