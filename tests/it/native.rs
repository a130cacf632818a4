//! C++ built for tests: units compiled into one shared object, kept under `target/` by the hash of all that went in.
//!
//! Two tests, or two test runs, may ask for the same object at once: each builds beside it and renames, so that nobody sees
//! half a file. Without a compiler the answer is `None` and the test skips.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

/// Where the repository lies.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder that builds go into.
pub(crate) fn work() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("native")
}

/// The first of `$CXX`, `g++`, `c++` that answers, with what it says of itself. What is built is for Linux.
pub(crate) fn compiler() -> Option<&'static (String, String)> {
    static FOUND: OnceLock<Option<(String, String)>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            if !cfg!(target_os = "linux") {
                return None;
            }
            let asked = std::env::var("CXX").ok();
            let names = asked.into_iter().chain(["g++".into(), "c++".into()]);
            names.into_iter().find_map(|name| {
                let out = Command::new(&name).arg("--version").output().ok()?;
                let version = String::from_utf8_lossy(&out.stdout).into_owned();
                out.status.success().then_some((name, version))
            })
        })
        .as_ref()
}

/// Sha-256 of several byte strings, each with its length, as hex.
pub(crate) fn hash(parts: &[&[u8]]) -> String {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update((part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    hex(&sum.finalize())
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = |b: &u8| [b >> 4, b & 15].map(|d| char::from(b"0123456789abcdef"[usize::from(d)]));
    bytes.iter().flat_map(digits).collect()
}

/// Every header that a unit may read.
fn headers() -> Vec<u8> {
    let mut paths: Vec<PathBuf> = ["kernels", "kernels/cpu", "tests/standin"]
        .iter()
        .filter_map(|folder| fs::read_dir(root().join(folder)).ok())
        .flat_map(|entries| entries.map(|e| e.unwrap().path()))
        .filter(|p| p.extension().is_some_and(|e| e == "cuh" || e == "hpp"))
        .collect();
    paths.sort();
    paths.iter().flat_map(|p| fs::read(p).unwrap()).collect()
}

const FLAGS: &[&str] = &[
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-Wall",
    "-Wextra",
    "-Wno-unknown-pragmas",
    "-DKV_ON_CPU",
];

/// Sources of the repository may not even draw a warning; what tests make out of them may.
fn strictness(unit: &Path) -> &'static str {
    let committed = ["kernels", "tests"]
        .iter()
        .any(|f| unit.starts_with(root().join(f)));
    if committed { "-Werror" } else { "-w" }
}

/// Runs the compiler into a file beside `to`, then renames it.
fn produce(to: &Path, arguments: &[&str]) {
    let beside = to.with_extension(format!("{}", std::process::id()) + &unique());
    let out = Command::new(&compiler().unwrap().0)
        .args(arguments)
        .arg("-o")
        .arg(&beside)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{arguments:?}\n{words}");
    fs::rename(beside, to).unwrap();
}

/// A suffix that nobody else in this process has.
pub(crate) fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The object file of one unit.
fn object(unit: &Path, optimise: &str) -> PathBuf {
    let name = unit.file_name().unwrap().to_str().unwrap();
    let text = fs::read(unit).unwrap();
    let flags = FLAGS.join(" ") + optimise;
    let version = compiler().unwrap().1.as_bytes();
    let key = hash(&[flags.as_bytes(), version, &headers(), &text]);
    let to = work().join(format!("{name}-{}.o", &key[..16]));
    if !to.exists() {
        let include =
            ["kernels", "tests/standin"].map(|f| format!("-I{}", root().join(f).display()));
        let mut arguments = FLAGS.to_vec();
        arguments.extend([
            optimise,
            strictness(unit),
            &include[0],
            &include[1],
            "-x",
            "c++",
            "-c",
        ]);
        arguments.push(unit.to_str().unwrap());
        produce(&to, &arguments);
    }
    to
}

/// A shared object of these units; `soname` is what the loader calls it. `None` without a compiler.
pub(crate) fn shared_object(soname: &str, units: &[PathBuf], optimise: &str) -> Option<PathBuf> {
    compiler()?;
    fs::create_dir_all(work()).unwrap();
    let objects: Vec<PathBuf> = std::thread::scope(|scope| {
        let running: Vec<_> = units
            .iter()
            .map(|unit| scope.spawn(move || object(unit, optimise)))
            .collect();
        running.into_iter().map(|r| r.join().unwrap()).collect()
    });
    let names: Vec<&str> = objects.iter().map(|o| o.to_str().unwrap()).collect();
    let key = hash(&[soname.as_bytes(), names.join("\n").as_bytes()]);
    let folder = work().join(&key[..16]);
    fs::create_dir_all(&folder).unwrap();
    let to = folder.join(soname);
    if !to.exists() {
        let calls_itself = format!("-Wl,-soname,{soname}");
        let mut arguments = vec!["-shared", "-Wl,-Bsymbolic", &calls_itself, "-pthread"];
        arguments.extend(names);
        produce(&to, &arguments);
    }
    Some(to)
}

/// The `.cu` files, in order of name.
pub(crate) fn kernel_sources() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(root().join("kernels"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "cu"))
        .collect();
    all.sort();
    all
}

/// What makes `.cu` files run on a CPU.
pub(crate) fn fibers() -> [PathBuf; 2] {
    ["fibers.cpp", "warp.cpp"].map(|f| root().join("kernels/cpu").join(f))
}
