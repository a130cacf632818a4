//! A stand-in for NVIDIA's driver: `libcuda.so` and `libnvidia-ml.so.1` built from `tests/standin`, for tests on machines
//! with no GPU. Its device says of itself that it is not a GPU; no figure that it gives is a result.
//!
//! The loader reads `LD_LIBRARY_PATH` when a process starts, so what uses the stand-in runs in a child: the kvplan binary
//! (`kvplan`), or a test that starts itself again (`in_child`).
#![allow(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::native;

/// Which driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// All that cudarc may ask for.
    Current,
    /// Without `cuMemcpyBatchAsync`, as drivers before CUDA 12.8.
    BeforeBatch,
    /// The current driver with no NVML beside it.
    WithoutNvml,
    /// A library of the driver's name that has only `cuInit`.
    Hollow,
}

fn standin(file: &str) -> PathBuf {
    native::root().join("tests/standin").join(file)
}

/// Sources of libcuda: the stand-in's own, the kernels, and what runs those on the CPU.
fn cuda_units(driver: Driver) -> Vec<PathBuf> {
    if driver == Driver::Hollow {
        return vec![standin("hollow/hollow.cpp")];
    }
    let mut units: Vec<PathBuf> = fs::read_dir(standin(""))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "cpp"))
        .filter(|p| !p.ends_with("nvml.cpp"))
        .filter(|p| driver != Driver::BeforeBatch || !p.ends_with("api_batch.cpp"))
        .collect();
    units.extend(native::kernel_sources());
    units.extend(native::fibers());
    units.sort();
    units
}

/// Copies a library into the folder under a name, unless it is there.
fn place(library: &Path, folder: &Path, name: &str) {
    let to = folder.join(name);
    if to.exists() {
        return;
    }
    let beside = folder.join(format!("{name}.{}", std::process::id()) + &native::unique());
    fs::copy(library, &beside).unwrap();
    fs::rename(beside, to).unwrap();
}

/// The folder that holds the libraries; built once. `None` without a C++ compiler.
pub(crate) fn folder(driver: Driver) -> Option<PathBuf> {
    // cudarc tries libcuda.so before libcuda.so.1: under the first name no real driver can come before.
    let cuda = native::shared_object("libcuda.so", &cuda_units(driver), "-O2")?;
    let nvml = native::shared_object("libnvidia-ml.so.1", &[standin("nvml.cpp")], "-O2")?;
    let key = native::hash(&[
        cuda.to_str().unwrap().as_bytes(),
        nvml.to_str().unwrap().as_bytes(),
    ]);
    let folder = native::work().join(format!("standin-{driver:?}-{}", &key[..16]));
    fs::create_dir_all(&folder).unwrap();
    place(&cuda, &folder, "libcuda.so");
    place(&cuda, &folder, "libcuda.so.1");
    if driver != Driver::WithoutNvml {
        place(&nvml, &folder, "libnvidia-ml.so.1");
    }
    Some(folder)
}

/// A command that finds these libraries before any others, and none of the stand-in's settings but these.
fn command(program: &Path, folder: &Path, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("FAKE")) {
        command.env_remove(name);
    }
    command
        .env("LD_LIBRARY_PATH", folder)
        .env_remove("CUDA_VISIBLE_DEVICES");
    command.envs(settings.iter().copied());
    command
}

/// The kvplan binary on a machine with this driver. `None` without a C++ compiler.
pub(crate) fn kvplan(
    driver: Driver,
    settings: &[(&str, &str)],
    arguments: &[&str],
) -> Option<Output> {
    let mut command = kvplan_command(driver, settings)?;
    Some(command.args(arguments).output().unwrap())
}

/// The same before it is started.
pub(crate) fn kvplan_command(driver: Driver, settings: &[(&str, &str)]) -> Option<Command> {
    program(driver, Path::new(env!("CARGO_BIN_EXE_kvplan")), settings)
}

/// Any program on a machine with this driver, before it is started.
pub(crate) fn program(
    driver: Driver,
    program: &Path,
    settings: &[(&str, &str)],
) -> Option<Command> {
    Some(command(program, &folder(driver)?, settings))
}

/// Whether this machine has a driver of its own, which would be found where none is wanted.
pub(crate) fn driver_is_here() -> bool {
    ["libcuda.so", "libcuda.so.1"].iter().any(|name| {
        // SAFETY: loads a library by name, as cudarc does.
        unsafe { libloading::Library::new(*name) }.is_ok()
    })
}

const CHILD: &str = "KVPLAN_TEST_WITH_STANDIN";

/// Runs a test's body in a child that has this driver. Called by the test of that name, in the parent and in the child;
/// false if there is no C++ compiler.
pub(crate) fn in_child(test: &str, driver: Driver, settings: &[(&str, &str)], body: fn()) -> bool {
    if std::env::var(CHILD).is_ok_and(|name| name == test) {
        body();
        eprintln!("{CHILD} {test} done");
        return true;
    }
    let Some(folder) = folder(driver) else {
        return false;
    };
    let out = command(&std::env::current_exe().unwrap(), &folder, settings)
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, test)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    let ran = errors.contains(&format!("{CHILD} {test} done"));
    assert!(
        out.status.success() && ran,
        "{test} with {settings:?}\n{printed}{errors}"
    );
    true
}
