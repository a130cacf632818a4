//! `calibrate` from outside on the stand-in driver, whose time law is known: what it finds, predicts and keeps.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use kvplan::calibrate::cuda::Gpu;
use kvplan::calibrate::cuda::tier_loop::{Mode, check};
use kvplan::trace::default_trace;
use tempfile::TempDir;

use crate::native;
use crate::standin::{Driver, in_child, kvplan_command, program};

/// Kernels take their time and compute nothing; little noise, since a mean over many operations keeps its bias.
const TIMED: [(&str, &str); 2] = [("FAKECUDA_SKIP_COMPUTE", "1"), ("FAKECUDA_JITTER", "0.001")];

const STEM: &str = "host-rtx-5080";

/// A run in a folder of its own.
fn calibrate(
    driver: Driver,
    settings: &[(&str, &str)],
    more: &[&str],
) -> Option<(TempDir, Output)> {
    let folder = tempfile::tempdir().unwrap();
    let fixed = [
        "calibrate",
        "--gpu",
        "rtx-5080",
        "--anonymous",
        "--unchecked",
    ];
    let mut command = kvplan_command(driver, &[&TIMED, settings].concat())?;
    let out = command
        .current_dir(folder.path())
        .args(fixed)
        .args(more)
        .output()
        .unwrap();
    Some((folder, out))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one file in a folder that begins with the run's name.
fn only(folder: &Path, ending: &str) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let name = |p: &PathBuf| p.file_name().unwrap().to_str().unwrap().to_string();
    let mine = |p: &PathBuf| name(p).starts_with(STEM) && name(p).ends_with(ending);
    let found: Vec<PathBuf> = files.filter(mine).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

fn profile(folder: &Path) -> toml::Table {
    let path = only(&folder.join("calibration"), ".toml");
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// Parameters by name.
fn parameters(profile: &toml::Table) -> BTreeMap<String, f64> {
    let all = profile["calibration"]["parameter"].as_array().unwrap();
    let one = |p: &toml::Value| {
        (
            p["name"].as_str().unwrap().into(),
            p["value"].as_float().unwrap(),
        )
    };
    all.iter().map(one).collect()
}

#[track_caller]
fn near(found: &BTreeMap<String, f64>, name: &str, truth: f64) {
    let got = found
        .get(name)
        .copied()
        .unwrap_or_else(|| panic!("no {name}"));
    assert!(
        (got / truth - 1.0).abs() < 0.02,
        "{name} is {got}, in truth {truth}"
    );
}

/// What is predicted of the device and how far off, by mode and shape; steps with attention on the host are left out, since
/// the host takes no time here, and what the host's own clock is part of.
fn holdouts(profile: &toml::Table) -> Vec<(String, String, f64)> {
    let all = profile["calibration"]["holdout"].as_array().unwrap();
    let word = |h: &toml::Value, key: &str| h[key].as_str().unwrap().to_string();
    let one = |h: &toml::Value| {
        (
            word(h, "mode"),
            word(h, "shape"),
            h["error"].as_float().unwrap(),
        )
    };
    let host = [
        "ddr_",
        "select",
        "sort",
        "host_",
        "multiply_add",
        "tier_loop.host-attention.step",
        "pieces.gather-stage",
    ];
    let timed = |h: &(String, String, f64)| !host.iter().any(|own| h.0.starts_with(own));
    all.iter().map(one).filter(timed).collect()
}

/// All modes, every lane, and the raw file again: to the byte the same.
#[test]
fn a_run_finds_the_truth_and_predicts_within_two_percent() {
    let Some((folder, out)) = calibrate(Driver::Current, &[], &["--quick"]) else {
        skip!("no C++ compiler")
    };
    assert!(out.status.success(), "{}", text(&out.stderr));
    let profile = profile(folder.path());
    let found = parameters(&profile);
    let conditions = &profile["calibration"]["conditions"];
    assert_eq!(conditions["gpu.pinned_by"].as_str(), Some("registered"));
    assert!(found.keys().any(|k| k.starts_with("ddr_read.")), "no host");
    for (name, truth) in [
        ("copy.pinned.h2d.bandwidth", 25e9),
        ("copy.pinned.h2d.call", 8e-6),
        ("copy.pinned.d2h.bandwidth", 22e9),
        ("copy.pinned.d2h.call", 8e-6),
        ("copy.duplex.h2d.bandwidth", 20e9),
        ("copy.duplex.d2h.bandwidth", 17.6e9),
        ("copy.pageable.h2d.bandwidth", 6e9),
        ("copy.synchronous.h2d.call", 9.5e-6),
        ("pieces.loop.h2d.piece", 8e-6),
        ("pieces.batch.h2d.piece", 0.3e-6),
        ("pieces.batch.h2d.bandwidth", 6e9),
        ("pieces.batch-large.h2d.bandwidth", 25e9),
        ("pieces.zero-copy.h2d.bandwidth", 20e9),
        ("zero_copy.read.h2d.threads=1.bandwidth", 4e9),
        ("zero_copy.read.h2d.threads=32.bandwidth", 20e9),
        ("zero_copy.write.d2h.threads=4.bandwidth", 16e9),
        ("hbm.read.bandwidth", 900e9),
        ("hbm.copy.bandwidth", 450e9),
        ("hbm.read.call", 4e-6),
        ("attention.group=4.head_dim=128.bandwidth", 600e9),
    ] {
        near(&found, name, truth);
    }
    let held = holdouts(&profile);
    for mode in Mode::ALL {
        let own = held
            .iter()
            .filter(|h| h.0.starts_with(&format!("tier_loop.{}.", mode.word())));
        assert!(own.count() > 0, "{} is not among {held:?}", mode.word());
    }
    for (mode, shape, error) in &held {
        assert!(error.abs() < 0.02, "{mode} {shape}: off by {error}");
    }
    assert!(held.len() > 60, "{}", held.len());
    same_from_raw(folder.path(), &out);
}

fn same_from_raw(folder: &Path, first: &Output) {
    let raw = only(&folder.join("calibration/raw"), ".csv");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kvplan"));
    let again = command
        .current_dir(folder)
        .args(["calibrate", "-o", "again", "--from"])
        .arg(raw)
        .output()
        .unwrap();
    assert_eq!(text(&again.stdout), text(&first.stdout));
    let files = ["calibration", "again"].map(|f| fs::read(only(&folder.join(f), ".toml")).unwrap());
    assert!(files[0] == files[1], "the profile differs");
}

/// Another link, no copies of many pieces, one copy engine, little memory: all of it shows, and predictions hold.
#[test]
fn an_older_and_smaller_device() {
    let settings = [
        ("FAKECUDA_H2D_GBPS", "6"),
        ("FAKECUDA_D2H_GBPS", "12"),
        ("FAKECUDA_COPY_US", "30"),
        ("FAKECUDA_HBM_GBPS", "200"),
        ("FAKECUDA_ATTEND_GBPS", "150"),
        ("FAKECUDA_COPY_ENGINES", "1"),
        ("FAKECUDA_MEM_GB", "1.2"),
        (
            "FAKECUDA_FAIL",
            "cuMemHostRegister_v2:0:801,cuMemHostAlloc:2:2",
        ),
        ("FAKENVML_PCIE_GEN", "3"),
        ("FAKENVML_PCIE_WIDTH", "8"),
        ("FAKENVML_POWER_SOURCE", "1"),
        ("FAKENVML_THROTTLE", "0x24"),
        ("FAKENVML_MIG", "1"),
        ("FAKENVML_ECC_ERRORS", "rising"),
        ("FAKENVML_PCIE_REPLAYS", "rising"),
        ("FAKENVML_PROCESSES", "42:1000000 43:5"),
    ];
    let Some((folder, out)) = calibrate(Driver::BeforeBatch, &settings, &["--quick", "--gpu-only"])
    else {
        skip!("no C++ compiler")
    };
    assert!(out.status.success(), "{}", text(&out.stderr));
    let profile = profile(folder.path());
    let found = parameters(&profile);
    near(&found, "copy.pinned.h2d.bandwidth", 6e9);
    near(&found, "copy.pinned.h2d.call", 30e-6);
    near(&found, "copy.pinned.d2h.bandwidth", 12e9);
    near(&found, "hbm.read.bandwidth", 200e9);
    assert!(
        !found
            .keys()
            .any(|k| k.contains("batch") || k.contains("duplex"))
    );
    for (mode, shape, error) in &holdouts(&profile) {
        assert!(error.abs() < 0.02, "{mode} {shape}: off by {error}");
    }
    let conditions = &profile["calibration"]["conditions"];
    // Half a GiB of pinned memory was asked for and refused, half of that was given; 85 % of 1.2 GB on the device.
    let bytes = |key: &str| conditions[key].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(bytes("gpu.pinned_bytes"), 256 << 20);
    assert_eq!(conditions["gpu.pinned_by"].as_str(), Some("driver"));
    assert!((1_019_000_000..=1_020_000_000).contains(&bytes("gpu.measured_bytes")));
    let notes = profile["calibration"]["notes"].to_string();
    for words in [
        "gen 3 of 4, x8 of x16",
        "ran on battery",
        "power cap, heat",
        "a MIG instance",
        "2 other processes",
        "ECC is on",
        "Resizable BAR is off",
        "errors of memory that ECC could not correct came during the run",
        "PCIe errors during the run: ",
    ] {
        assert!(notes.contains(words), "{words:?} is not in {notes}");
    }
    let link = profile["calibration"]["parameter"].to_string();
    assert!(link.contains("link gen 3 x8"), "conditions of copies");
}

/// Ctrl-C in a run that takes as long as its law says. How far it is by then depends on the machine: too early, nothing is
/// finished, so it may try again, later.
#[test]
fn an_interrupted_run_keeps_what_is_finished() {
    // Copies that take 2 ms to begin: the whole run takes 16 s then, its rounds some tenths of one.
    let settings = [
        ("FAKECUDA_REAL_TIME", "1"),
        ("FAKECUDA_MEM_GB", "1.2"),
        ("FAKECUDA_PINNED_GB", "0.1"),
        ("FAKECUDA_COPY_US", "2000"),
    ];
    for seconds in [5, 9, 13] {
        match interrupted(&settings, seconds) {
            None => skip!("no C++ compiler"),
            Some(true) => return,
            Some(false) => {}
        }
    }
    panic!("nothing was kept");
}

/// Whether a run that is interrupted after so many seconds kept something; none without a compiler.
fn interrupted(settings: &[(&str, &str)], seconds: u64) -> Option<bool> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = kvplan_command(Driver::Current, &[&TIMED[..], settings].concat())?;
    let fixed = [
        "calibrate",
        "--gpu",
        "rtx-5080",
        "--anonymous",
        "--unchecked",
        "--quick",
        "--gpu-only",
    ];
    let piped = std::process::Stdio::piped;
    let child = command
        .current_dir(folder.path())
        .args(fixed)
        .stdout(piped())
        .stderr(piped());
    let child = child.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(seconds));
    let begun = Instant::now();
    let pid = child.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let out = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "it went on");
    assert_eq!(out.status.code(), Some(130), "{}", text(&out.stderr));
    if !folder.path().join("calibration/raw").is_dir() {
        return Some(false);
    }
    let raw = fs::read_to_string(only(&folder.path().join("calibration/raw"), ".csv")).unwrap();
    assert!(raw.contains("# partial = interrupted\n"));
    if !raw.lines().any(|l| l.starts_with("copy,pinned,")) {
        return Some(false);
    }
    assert!(
        text(&out.stderr).contains("what is finished is kept"),
        "{}",
        text(&out.stderr)
    );
    let profile = profile(folder.path());
    assert_eq!(
        profile["calibration"]["conditions"]["partial"].as_str(),
        Some("interrupted")
    );
    Some(true)
}

/// The tier loop in every mode over the shipped trace, computed: outputs and scores are those of attention over everything.
#[test]
fn the_tier_loop_computes_attention_over_everything() {
    let path = concat!(
        module_path!(),
        "::the_tier_loop_computes_attention_over_everything"
    );
    let name = path.split_once("::").unwrap().1;
    let ran = in_child(name, Driver::Current, &[], || {
        let gpu = Gpu::open(0).unwrap();
        let all = check(&gpu, &default_trace().unwrap(), 2).unwrap();
        assert_eq!(all.len(), 1 + Mode::ALL.len());
        for c in all {
            assert!(c.outputs > 500 && c.out > 0.0, "{c:?}");
            assert_eq!(
                c.score.is_some(),
                c.mode.scores() && c.mode != Mode::Resident,
                "{c:?}"
            );
        }
    });
    if !ran {
        skip!("no C++ compiler");
    }
}

/// Kernels that do nothing are seen.
#[test]
fn a_loop_that_computes_nothing_is_an_error() {
    let path = concat!(module_path!(), "::a_loop_that_computes_nothing_is_an_error");
    let name = path.split_once("::").unwrap().1;
    let ran = in_child(
        name,
        Driver::Current,
        &[("FAKECUDA_SKIP_COMPUTE", "1")],
        || {
            let gpu = Gpu::open(0).unwrap();
            let e = check(&gpu, &default_trace().unwrap(), 1).unwrap_err();
            assert!(e.message.contains("computes something else"), "{e}");
        },
    );
    if !ran {
        skip!("no C++ compiler");
    }
}

/// The script for a GPU machine, whole, on the stand-in: every step that can run passes, within its limits. Timed runs
/// compute nothing, as in the other tests.
#[cfg(unix)]
#[test]
fn the_script_for_a_gpu_passes() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(mut script) = program(Driver::Current, Path::new("bash"), &TIMED[1..]) else {
        skip!("no C++ compiler")
    };
    let folder = tempfile::tempdir().unwrap();
    let wrapper = folder.path().join("kvplan");
    let timed = format!(
        "#!/bin/sh\ncase \"$*\" in *--unchecked*) export {}=1 ;; esac\nexec {:?} \"$@\"\n",
        TIMED[0].0,
        env!("CARGO_BIN_EXE_kvplan")
    );
    fs::write(&wrapper, timed).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let into = folder.path().join("run");
    let out = script
        .arg(native::root().join("calibration/gpu.sh"))
        .arg(&into)
        .env("KVPLAN", &wrapper)
        .env("KVPLAN_TESTS", std::env::current_exe().unwrap())
        .env("KVPLAN_CARD", "rtx-5080")
        .env_remove("OUT")
        .output()
        .unwrap();
    let told = text(&out.stdout);
    assert!(out.status.success(), "{told}\n{}", text(&out.stderr));
    for step in [
        "doctor",
        "kernels",
        "tier_loop",
        "calibrate",
        "again",
        "same",
    ] {
        assert!(told.contains(&format!("{step}: passed")), "{step}: {told}");
    }
    let summary = fs::read_to_string(into.join("summary.txt")).unwrap();
    assert!(summary.contains("predicted and not fitted"), "{summary}");
    let holdout = fs::read_to_string(into.join("holdout.txt")).unwrap();
    assert!(holdout.contains("tier_loop"), "{holdout}");
}
