//! The module order of `src/lib.rs` is a law: imports only go up the list.

use std::fs;
use std::path::{Path, PathBuf};

/// (importer, imported) pairs forbidden although the order would allow them.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("score", &["hardware", "service"]),
    ("policy", &["hardware", "service"]),
    ("replay", &["hardware", "service"]),
    (
        "engine",
        &["trace", "score", "policy", "replay", "forward", "calibrate"],
    ),
    (
        "report",
        &["replay", "engine", "service", "memory", "policy", "score"],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn order() -> Vec<String> {
    let lib = fs::read_to_string(root().join("lib.rs")).unwrap();
    lib.lines()
        .filter_map(|l| {
            l.strip_prefix("pub mod ")?
                .strip_suffix(';')
                .map(String::from)
        })
        .collect()
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Top module a file belongs to.
fn module_of(path: &Path) -> String {
    let first = path
        .strip_prefix(root())
        .unwrap()
        .components()
        .next()
        .unwrap();
    first
        .as_os_str()
        .to_str()
        .unwrap()
        .trim_end_matches(".rs")
        .to_string()
}

/// Modules named after `crate::` in code (comments do not count).
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
        for (at, _) in line.match_indices("crate::") {
            let rest = &line[at + 7..];
            let names: Vec<&str> = match rest.strip_prefix('{') {
                Some(group) => group.split(',').map(str::trim).collect(),
                None => vec![rest],
            };
            for n in names {
                found.push(
                    n.chars()
                        .take_while(|c| c.is_alphanumeric() || *c == '_')
                        .collect(),
                );
            }
        }
    }
    found
}

#[test]
fn imports_only_go_up_the_list() {
    let order = order();
    assert!(order.len() > 15, "lib.rs was not read: {order:?}");
    let mut all = Vec::new();
    files(&root(), &mut all);
    let mut wrong = Vec::new();
    for path in all {
        let own = module_of(&path);
        let Some(rank) = order.iter().position(|m| *m == own) else {
            continue;
        };
        for name in imports(&fs::read_to_string(&path).unwrap()) {
            let Some(other) = order.iter().position(|m| *m == name) else {
                continue;
            };
            let forbidden = FORBIDDEN
                .iter()
                .any(|(m, list)| *m == own && list.contains(&name.as_str()));
            if other > rank || forbidden {
                wrong.push(format!("{} uses crate::{name}", path.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "imports against the order of src/lib.rs:\n{}",
        wrong.join("\n")
    );
}
