//! The committed PTX belongs to the sources beside it, and its entry points are those that the CPU build has.
//!
//! What PTX a source gives needs NVRTC (`kernels/kernels.py --check`); that it was made from this source does not.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::kernels_on_cpu::shim::Shim;
use crate::native;

/// The PTX of a source.
fn ptx(source: &Path) -> String {
    let name = source.file_stem().unwrap().to_str().unwrap();
    let path = native::root().join(format!("kernels/ptx/{name}.ptx"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Entry points with the sizes of their parameters.
fn entries(ptx: &str) -> Vec<(String, Vec<usize>)> {
    let size = |line: &str| match line.split_whitespace().nth(1) {
        Some(".u64") => 8,
        Some(".u32" | ".f32") => 4,
        other => panic!("a parameter of kind {other:?}"),
    };
    ptx.split(".visible .entry ")
        .skip(1)
        .map(|text| {
            let (name, rest) = text.split_once('(').unwrap();
            let (list, _) = rest.split_once(')').unwrap();
            (
                name.to_string(),
                list.lines()
                    .filter(|l| l.trim_start().starts_with(".param"))
                    .map(size)
                    .collect(),
            )
        })
        .collect()
}

#[test]
fn each_ptx_names_the_hash_of_its_source() {
    let common = fs::read(native::root().join("kernels/common.cuh")).unwrap();
    for source in native::kernel_sources() {
        let mut sum = Sha256::new();
        sum.update(&common);
        sum.update(fs::read(&source).unwrap());
        let want = native::hex(&sum.finalize());
        let text = ptx(&source);
        let first = text.lines().next().unwrap();
        assert!(
            first.contains(&want),
            "{}: run kernels/kernels.py ({first})",
            source.display()
        );
        assert!(
            text.contains("\n.version 8.0\n.target sm_80\n"),
            "{}",
            source.display()
        );
    }
}

#[test]
fn no_ptx_is_without_a_source() {
    let sources = native::kernel_sources().len();
    assert_eq!(
        fs::read_dir(native::root().join("kernels/ptx"))
            .unwrap()
            .count(),
        sources
    );
}

#[test]
fn the_cpu_build_has_the_same_entry_points() {
    let Some(shim) = Shim::whole() else {
        skip!("no C++ compiler")
    };
    for source in native::kernel_sources() {
        for (name, sizes) in entries(&ptx(&source)) {
            assert_eq!(shim.params(&name), Some(sizes), "{name}");
        }
    }
}
