//! Everything that can stand between `calibrate` and a GPU, provoked one by one: the message, the way out, the exit code.

use std::process::Output;

use crate::standin::{Driver, driver_is_here, kvplan, kvplan_command};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `calibrate` on such a machine, into a folder that is looked at afterwards.
fn calibrate(driver: Driver, settings: &[(&str, &str)], more: &[&str]) -> Option<Output> {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let fixed = [
        "calibrate",
        "--quick",
        "--gpu-only",
        "--gpu",
        "rtx-5080",
        "-o",
        at,
    ];
    let out = kvplan(driver, settings, &[&fixed, more].concat())?;
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(out.status.success() || left == 0, "a failed run left files");
    Some(out)
}

/// Exit code 4 with these words and both ways out, nothing on stdout.
#[track_caller]
fn refused(out: &Output, words: &[&str]) {
    let told = text(&out.stderr);
    assert_eq!(out.status.code(), Some(4), "{words:?}: {told}");
    for word in words.iter().chain(&["--host-only", "--from"]) {
        assert!(told.contains(word), "{word:?} is not in: {told}");
    }
    assert!(!told.contains("panicked"), "{told}");
    assert!(out.stdout.is_empty());
}

/// The device with these settings is refused with these words.
#[track_caller]
fn refuses(settings: &[(&str, &str)], words: &[&str]) {
    let Some(out) = calibrate(Driver::Current, settings, &[]) else {
        skip!("no C++ compiler")
    };
    refused(&out, words);
}

#[test]
fn no_driver() {
    if driver_is_here() {
        skip!("this machine has a driver of its own");
    }
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kvplan"));
    let out = command.arg("calibrate").output().unwrap();
    refused(&out, &["no NVIDIA driver", "libcuda.so.1", "nvcuda.dll"]);
}

#[test]
fn a_library_that_is_no_driver() {
    let Some(out) = calibrate(Driver::Hollow, &[], &[]) else {
        skip!("no C++ compiler")
    };
    refused(&out, &["has no cuDriverGetVersion"]);
}

#[test]
fn a_driver_too_old() {
    refuses(
        &[("FAKECUDA_VERSION", "11080")],
        &["supports CUDA 11.8, 12.0 is needed", "update"],
    );
}

#[test]
fn a_driver_that_does_not_start() {
    for (code, words) in [
        ("34", "a stub of the CUDA toolkit"),
        ("802", "nvidia-fabricmanager"),
        ("803", "reboot, or unload and reload"),
        ("804", "forward-compatibility"),
        ("999", "nvidia_uvm"),
        ("1", "CUDA error 1"),
    ] {
        let plan = format!("cuInit:1:{code}");
        refuses(
            &[("FAKECUDA_FAIL", &plan)],
            &["the driver does not start", words],
        );
    }
}

#[test]
fn no_gpu_or_hidden() {
    let hidden = [("FAKECUDA_DEVICES", "0"), ("CUDA_VISIBLE_DEVICES", "7")];
    refuses(
        &hidden,
        &[
            "shows no GPU",
            "CUDA_VISIBLE_DEVICES is \"7\"",
            "nvidia-smi -L",
        ],
    );
    refuses(
        &[("FAKECUDA_FAIL", "cuDeviceGetCount:1:3")],
        &["counting GPUs"],
    );
}

#[test]
fn a_number_that_no_gpu_has() {
    let Some(out) = calibrate(Driver::Current, &[], &["--device", "3"]) else {
        skip!("no C++ compiler")
    };
    refused(&out, &["there is no GPU 3: the driver shows 1"]);
}

#[test]
fn a_gpu_that_may_not_be_used() {
    refuses(
        &[("FAKECUDA_COMPUTE_MODE", "2")],
        &["compute mode forbids", "nvidia-smi -c DEFAULT"],
    );
    refuses(
        &[("FAKECUDA_FAIL", "cuDevicePrimaryCtxRetain:1:46")],
        &["exclusive mode"],
    );
}

#[test]
fn a_gpu_that_cannot_run_it() {
    refuses(
        &[("FAKECUDA_CC", "7.5")],
        &["compute capability 7.5, 8.0 is needed"],
    );
    refuses(&[("FAKECUDA_CAN_MAP", "0")], &["cannot map host memory"]);
    refuses(
        &[("FAKECUDA_PTX_MAX", "7.8")],
        &["compiling attend.ptx", "CUDA error 222", "PTX 8.0"],
    );
}

#[test]
fn too_little_memory() {
    let full = [("FAKECUDA_MEM_GB", "8"), ("FAKECUDA_USED_GB", "7.9")];
    refuses(
        &full,
        &["256 MiB of memory are needed", "of 7629 MiB are free"],
    );
    refuses(
        &[("FAKECUDA_FAIL", "cuMemAlloc_v2:0:2")],
        &["of device memory are needed"],
    );
    refuses(
        &[(
            "FAKECUDA_FAIL",
            "cuMemHostRegister_v2:0:2,cuMemHostAlloc:0:2",
        )],
        &["of pinned memory are needed", "ulimit"],
    );
}

#[test]
fn what_breaks_on_the_way() {
    for (call, words) in [
        ("cuLaunchKernel:9:719", "a kernel failed"),
        ("cuLaunchKernel:30:700", "memory that is not its own"),
        ("cuMemcpyHtoDAsync_v2:20:214", "ECC"),
        ("cuStreamSynchronize:40:999", "CUDA error 999"),
        (
            "cuEventElapsedTime:5:702",
            "longer than the display driver allows",
        ),
        ("cuStreamCreate:1:2", "out of memory"),
        ("cuMemHostGetDevicePointer_v2:1:1", "mapping pinned memory"),
        ("cuModuleGetFunction:3:500", "finding"),
    ] {
        let plan = [("FAKECUDA_FAIL", call), ("FAKECUDA_SKIP_COMPUTE", "1")];
        let Some(out) = calibrate(Driver::Current, &plan, &["--unchecked"]) else {
            skip!("no C++ compiler")
        };
        refused(&out, &[words]);
    }
}

#[test]
fn doctor_says_what_it_finds_and_what_stands_in_the_way() {
    let of = |driver, settings: &[(&str, &str)]| {
        let out = kvplan_command(driver, settings)?
            .arg("doctor")
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        Some(text(&out.stdout))
    };
    let Some(found) = of(Driver::Current, &[("FAKENVML_NUMA", "1")]) else {
        skip!("no C++ compiler")
    };
    for line in [
        "gpu: Stand-in device (not a GPU)",
        "gpu.capability: 8.0",
        "gpu.cuda: 13.0",
        "gpu.link_at_rest: gen 4 x16",
        "gpu.numa_node: 1",
        "gpu.nvml: yes",
        "gpu.other_processes: 0",
        "calibrate: yes",
    ] {
        assert!(
            found.lines().any(|l| l == line),
            "{line:?} is not in:\n{found}"
        );
    }
    let old = of(Driver::Current, &[("FAKECUDA_VERSION", "11040")]).unwrap();
    assert!(
        old.contains("calibrate: no: the NVIDIA driver supports CUDA 11.4"),
        "{old}"
    );
    for (code, words) in [
        ("18", "differ: reboot"),
        ("9", "not loaded"),
        ("999", "NVML: "),
    ] {
        let found = of(
            Driver::Current,
            &[("FAKENVML_INIT", &format!("error:{code}"))],
        )
        .unwrap();
        assert!(found.contains("calibrate: yes"), "NVML is not needed");
        let line = found.lines().find(|l| l.starts_with("gpu.nvml: ")).unwrap();
        assert!(line.contains(words), "{line}");
    }
    if !driver_is_here() {
        let found = of(Driver::WithoutNvml, &[]).unwrap();
        assert!(found.contains("gpu.nvml: no NVML library"), "{found}");
    }
}

/// Every answer that NVML may refuse, refused at once.
#[test]
fn doctor_without_answers() {
    let names = "DRIVER PCIE_GEN PCIE_GEN_MAX PCIE_WIDTH PCIE_WIDTH_MAX PCIE_REPLAYS THROTTLE CLOCK CLOCK_MAX POWER_SOURCE \
        POWER POWER_LIMIT TEMPERATURE ECC ECC_ERRORS MIG IS_MIG MEMORY BAR1 NUMA UTILISATION PROCESSES GRAPHICS";
    let names: Vec<String> = names
        .split_whitespace()
        .map(|n| format!("FAKENVML_{n}"))
        .collect();
    for answer in ["n/a", "error:4", "error:999"] {
        let settings: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), answer)).collect();
        let Some(out) = kvplan(Driver::Current, &settings, &["doctor"]) else {
            skip!("no C++ compiler")
        };
        let found = text(&out.stdout);
        assert!(
            out.status.success() && found.contains("calibrate: yes"),
            "{found}"
        );
        assert!(
            found.contains("gpu.ecc: n/a") && found.contains("driver: n/a"),
            "{found}"
        );
    }
}
