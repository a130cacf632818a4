//! A test of the tests: faults planted into the sources, each of which some check must see.
//!
//! Every barrier of every kernel is taken out in turn; the rest are slips that such kernels are prone to: a wrong page, a
//! forgotten rescale, a mask, a stride, a tie. A fault that no check sees is a hole in the checks. Each runs in a process of
//! its own, since what it writes may lie anywhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rayon::prelude::*;

use super::shim::Shim;
use super::{CHECKS, run};
use crate::native;

/// Source, what it says, what the fault says instead, the checks that must see it.
type Fault = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

const FAULTS: &[Fault] = &[
    (
        "pages",
        "(size_t)index[i] * words;\n    uint4* to",
        "(size_t)i * words;\n    uint4* to",
        &["gather_pages"],
    ),
    (
        "pages",
        "src + blockIdx.y * src_layer + (size_t)index",
        "src + (size_t)index",
        &["gather_pages"],
    ),
    (
        "pages",
        "dst_layer + (size_t)index[i]",
        "dst_layer + (size_t)i",
        &["scatter_pages"],
    ),
    (
        "tokens",
        "records + i * record_words + (size_t)blockIdx.y * words;",
        "records + i * record_words;",
        &["gather_tokens", "scatter_tokens"],
    ),
    (
        "tokens",
        "dst_slots[i], row",
        "src_slots[i], row",
        &["move_tokens"],
    ),
    (
        "bandwidth",
        "+= v.x + v.y + v.z + v.w",
        "+= v.x + v.y + v.z",
        &["read"],
    ),
    (
        "bandwidth",
        "(threadIdx.x & 31) == 0",
        "threadIdx.x == 0",
        &["read"],
    ),
    (
        "quant_token",
        "most / 127.f",
        "most / 128.f",
        &["int8_by_token"],
    ),
    (
        "quant_token",
        "__float2int_rn(fminf",
        "(int)(fminf",
        &["int8_by_token"],
    ),
    (
        "quant_token",
        "kv_group_max(most, lanes)",
        "kv_group_max(most, lanes / 2)",
        &["int8_by_token"],
    ),
    (
        "quant_channel",
        "step > 0.f ? 1.f / step : 0.f",
        "1.f / step",
        &["int8_by_channel"],
    ),
    (
        "quant_channel",
        "other < lanes",
        "other < lanes - 1",
        &["int8_by_channel"],
    ),
    (
        "quant_channel",
        "step[i + 4] *",
        "step[i] *",
        &["int8_by_channel"],
    ),
    ("attend", "    sum *= shrink;\n", "", &["attend"]),
    ("attend", "out[r][0] *= first, ", "", &["attend"]),
    ("attend", "shrink, 8 * t + 4", "shrink, 8 * t", &["attend"]),
    (
        "attend",
        "token < left ? values",
        "true ? values",
        &["attend"],
    ),
    (
        "attend",
        "8 * o + 2 * t + 1 < left",
        "8 * o + 2 * t < left",
        &["attend"],
    ),
    ("attend", "slot / page_tokens]", "0]", &["attend"]),
    (
        "attend",
        "kv_head) * page_tokens + slot % page_tokens",
        "kv_head) * page_tokens",
        &["attend"],
    ),
    (
        "attend",
        "ahead ? i - res_tiles : i",
        "i - (ahead ? res_tiles - 1 : 0)",
        &["attend"],
    ),
    (
        "attend",
        "(size_t)kv_heads * page_tokens",
        "(size_t)page_tokens",
        &["attend"],
    ),
    ("attend", "share * joint.sum", "joint.sum", &["attend"]),
    (
        "attend",
        "most * KV_LN2 + logf(sum)",
        "most + logf(sum)",
        &["attend"],
    ),
    (
        "attend",
        "blockIdx.y % head_tiles * KV_HEADS",
        "0",
        &["attend"],
    ),
    (
        "attend",
        "kv_high_halves(w[0], w[1])",
        "kv_low_halves(w[0], w[1])",
        &["attend"],
    ),
    (
        "merge",
        "__expf(mine[p] - most)",
        "__expf(mine[p])",
        &["merge"],
    ),
    ("merge", "if (share > 0.f) {", "{", &["merge"]),
    ("score", "- lse[row]", "- lse[h]", &["score"]),
    (
        "score",
        "if (i >= res && i < padded) continue;",
        "if (i >= res && i < padded) pre += 0;",
        &["score"],
    ),
    ("score", "+ i - padded]", "+ i - res]", &["score"]),
    ("select", "  *left -= above;\n", "", &["select"]),
    (
        "select",
        "tied_before < left)",
        "tied_before <= left)",
        &["select"],
    ),
    ("select", "score + 0.f", "score", &["select"]),
    (
        "select",
        "bits & 0x80000000u ? ~bits",
        "bits & 0x80000000u ? bits",
        &["select"],
    ),
];

/// In a child: the source with the fault, and the checks to run, one a line.
const CHILD: &str = "KVPLAN_PLANTED_FAULT";

/// Writes a changed source; where it lies.
fn written(name: &str, text: &str) -> PathBuf {
    let key = native::hash(&[text.as_bytes()]);
    let folder = native::work().join(format!("planted-{}", &key[..16]));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.cu"));
    fs::write(&path, text).unwrap();
    path
}

/// Whether the checks pass on a source, in a process of its own: a fault may write anywhere.
fn passes(name: &str, text: &str, checks: &[&str]) -> bool {
    let question = format!("{}\n{}", written(name, text).display(), checks.join("\n"));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kernels_on_cpu::mutants::child"])
        .env(CHILD, question)
        .output()
        .unwrap();
    child.status.success()
}

/// Runs what the parent asks; on its own it has nothing to do.
#[test]
fn child() {
    let Ok(question) = std::env::var(CHILD) else {
        return;
    };
    let mut lines = question.lines();
    let shim = Shim::with(Path::new(lines.next().unwrap())).unwrap();
    for name in lines {
        run(&shim, *CHECKS.iter().find(|c| c.0 == name).unwrap()).unwrap();
    }
}

fn source(name: &str) -> String {
    fs::read_to_string(native::root().join(format!("kernels/{name}.cu"))).unwrap()
}

/// A changed source: what was changed, its name, its text, the checks that must see it.
type Planted = (String, &'static str, String, &'static [&'static str]);

/// Of these the ones that no check sees.
fn missed(all: &[Planted]) -> Vec<&str> {
    let passing = all.par_iter().filter(|p| passes(p.1, &p.2, p.3));
    passing.map(|p| p.0.as_str()).collect()
}

#[test]
fn planted_faults_are_seen() {
    if native::compiler().is_none() {
        skip!("no C++ compiler");
    }
    let plant = |(name, old, new, checks): &Fault| {
        let text = source(name);
        assert!(text.contains(old), "{name}.cu no longer says {old}");
        (
            format!("{name}.cu: {new} for {old}"),
            *name,
            text.replacen(old, new, 1),
            *checks,
        )
    };
    let all: Vec<Planted> = FAULTS.iter().map(plant).collect();
    // The same way to run them finds nothing where nothing is planted.
    assert!(passes("merge", &source("merge"), &["merge"]));
    let missed = missed(&all);
    assert!(missed.is_empty(), "not seen:\n{}", missed.join("\n"));
}

/// The text with its `n`th barrier taken out.
fn without_barrier(text: &str, n: usize) -> String {
    let (at, barrier) = text.match_indices("__syncthreads();").nth(n).unwrap();
    format!("{};{}", &text[..at], &text[at + barrier.len()..])
}

#[test]
fn a_missing_barrier_is_seen() {
    if native::compiler().is_none() {
        skip!("no C++ compiler");
    }
    let checks: [(&str, &[&str]); 3] = [
        ("attend", &["attend"]),
        ("quant_channel", &["int8_by_channel"]),
        ("select", &["select"]),
    ];
    let mut all: Vec<Planted> = Vec::new();
    for (name, checks) in checks {
        let text = source(name);
        let barriers = text.matches("__syncthreads();").count();
        let plant = |n| {
            (
                format!("{name}.cu, barrier {n}"),
                name,
                without_barrier(&text, n),
                checks,
            )
        };
        all.extend((0..barriers).map(plant));
    }
    let barriers_of = |p: &PathBuf| {
        fs::read_to_string(p)
            .unwrap()
            .matches("__syncthreads();")
            .count()
    };
    let there: usize = native::kernel_sources().iter().map(barriers_of).sum();
    assert_eq!(
        all.len(),
        there,
        "a source with barriers is not in the list"
    );
    let missed = missed(&all);
    assert!(missed.is_empty(), "not seen:\n{}", missed.join("\n"));
}
