//! Every kernel of `kernels/`, run on the CPU by its shim, against plain loops in binary64.
//!
//! Shapes and numbers are drawn from fixed seeds; each is run with the threads of a block in six orders, shared memory and
//! outputs poisoned before. `mutants` then plants faults into the sources and asks that these same checks see them.
#![allow(clippy::pedantic)]

mod attend;
mod attend_case;
mod device;
mod int8;
mod moves;
mod mutants;
mod numbers;
mod select;
pub(crate) mod shim;

use crate::standin::{Driver, in_child};
use numbers::Draw;
use shim::{ORDERS, Shim};

/// A kernel against its plain loop: one drawn case, one order of threads.
type Check = fn(&Shim, &mut Draw, u32) -> Result<(), String>;

/// All checks, with how many cases each draws.
const CHECKS: &[(&str, Check, u64)] = &[
    ("gather_pages", moves::gather_pages, 6),
    ("scatter_pages", moves::scatter_pages, 6),
    ("gather_tokens", moves::gather_tokens, 6),
    ("scatter_tokens", moves::scatter_tokens, 6),
    ("move_tokens", moves::move_tokens, 6),
    ("read", moves::read, 4),
    ("copy", moves::copy, 4),
    ("hold", moves::hold, 2),
    ("int8_by_token", int8::by_token, 8),
    ("int8_by_channel", int8::by_channel, 8),
    ("attend", attend::attend, 16),
    ("attend_nothing", attend::nothing, 1),
    ("merge", attend::merge, 6),
    ("score", attend::score, 6),
    ("select", select::top, 12),
];

/// Runs a check on all its cases in all orders; the first failure, with what repeats it.
fn run(shim: &Shim, (name, check, cases): (&str, Check, u64)) -> Result<(), String> {
    for case in 0..cases {
        for order in ORDERS {
            check(shim, &mut Draw(case * 7919 + 5), order)
                .map_err(|e| format!("{name}, case {case}, order {order}: {e}"))?;
        }
    }
    Ok(())
}

/// Runs the check of that name on the kernels as they are.
fn pass(name: &str) {
    let Some(shim) = Shim::whole() else {
        skip!("no C++ compiler")
    };
    let check = CHECKS.iter().find(|c| c.0 == name).unwrap();
    run(shim, *check).unwrap();
}

#[test]
fn pages_are_gathered_and_scattered() {
    pass("gather_pages");
    pass("scatter_pages");
}

#[test]
fn tokens_are_gathered_scattered_and_moved() {
    pass("gather_tokens");
    pass("scatter_tokens");
    pass("move_tokens");
}

#[test]
fn streams_read_and_copy_all_and_the_gate_opens() {
    pass("read");
    pass("copy");
    pass("hold");
}

#[test]
fn int8_is_the_nearest_step_and_comes_back() {
    pass("int8_by_token");
    pass("int8_by_channel");
}

#[test]
fn attention_is_that_of_a_plain_loop() {
    pass("attend");
    pass("attend_nothing");
}

#[test]
fn partial_results_merge_and_scores_add_up() {
    pass("merge");
    pass("score");
}

#[test]
fn the_best_scored_are_chosen_ties_to_the_lower_position() {
    pass("select");
}

/// All checks through the stand-in driver, as a real one would run them.
#[test]
fn the_checks_run_through_a_driver() {
    let path = concat!(module_path!(), "::the_checks_run_through_a_driver");
    let name = path.split_once("::").unwrap().1;
    let settings = [("KVPLAN_GPU", "1")];
    let ran = in_child(name, Driver::Current, &settings, || {
        for check in CHECKS {
            let case = Shim::whole().unwrap();
            check.1(case, &mut Draw(5), 0).unwrap_or_else(|e| panic!("{}: {e}", check.0));
        }
    });
    if !ran {
        skip!("no C++ compiler");
    }
}
