//! Policies on the command line: the list fits a terminal, a card says all, an exact rule is never swapped silently.

use crate::binary::kvplan;

#[test]
fn the_list_is_at_most_100_columns_wide() {
    let (code, out, _) = kvplan(&["list", "policies"]);
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 1 + kvplan::policy::names().len());
    for line in out.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn a_card_shows_parameters_needs_and_source() {
    let (code, out, _) = kvplan(&["show", "policy", "r-kv:budget=512"]);
    assert_eq!(code, 0);
    for part in [
        "arXiv 2505.24133",
        "one placement a KV head",
        "queries from 8 before the end of the prompt",
        "r-kv-importance",
        "destroys tokens",
        "512",
        "lambda",
    ] {
        assert!(out.contains(part), "`{part}` is not in:\n{out}");
    }
    let (_, json, _) = kvplan(&["show", "tova", "--format", "json"]);
    let card: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(card["lanes"], "layer");
    assert_eq!(card["stand_in"], "tova-mean");
    assert_eq!(card["needs"], "per-layer rows (section `layers`)");
    assert_eq!(card["parameters"][0]["key"], "budget");
}

#[test]
fn the_embedded_trace_runs_approximations_under_their_names_only() {
    for (exact, instead) in [
        ("tova", "tova-mean"),
        ("h2o", "h2o-mean"),
        ("r-kv", "r-kv-importance"),
        ("snap-kv", "snap-kv-mean"),
    ] {
        let (code, out, err) = kvplan(&[
            "simulate", "--policy", exact, "--prompt", "128", "--output", "200",
        ]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(
            err.contains("the trace does not carry") && err.contains(&format!("`{instead}`")),
            "{err}"
        );
        let (code, out, err) = kvplan(&[
            "simulate", "--policy", instead, "--prompt", "128", "--output", "200",
        ]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains(instead), "{out}");
    }
}

/// Another prompt than the trace's: fine where the prompt is pinned, refused where it is ranked; more steps than were
/// recorded: fine for both.
#[test]
fn the_default_question_under_other_policies() {
    for policy in ["stream-evict", "raas:budget=2048"] {
        let (code, _, err) = kvplan(&["simulate", "--policy", policy]);
        assert_eq!(code, 0, "{err}");
    }
    let (code, _, err) = kvplan(&["simulate", "--policy", "lru"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("--prompt 128") && !err.contains("protect="),
        "{err}"
    );
    let (code, _, err) = kvplan(&["simulate", "--policy", "lru", "--prompt", "128"]);
    assert_eq!(code, 0, "{err}");
}
