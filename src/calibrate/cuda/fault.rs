//! Errors of the driver as messages with a way out.
//!
//! A code is printed as a number with what is known of it here: asking the driver for a text is a call of its own, which
//! fails the program where no driver is loaded.

use cudarc::driver::DriverError;

use crate::error::{Cause, Error};

/// What can be done without this GPU.
const OTHERWISE: &str = "`--host-only` measures memory and cores and takes GPU and link from the catalog (`--gpu NAME`); \
    `--from FILE` fits what was measured elsewhere";

/// Code, what it means, what to do.
const KNOWN: &[(i32, &str, &str)] = &[
    (2, "out of memory", "stop what else uses the GPU"),
    (
        34,
        "a stub of the CUDA toolkit was loaded instead of the driver",
        "take the toolkit's `stubs` folder out of LD_LIBRARY_PATH",
    ),
    (
        46,
        "the GPU is in exclusive mode and another process has it",
        "stop that process, or `nvidia-smi -c DEFAULT`",
    ),
    (
        100,
        "the driver shows no GPU",
        "look at `nvidia-smi -L` and at CUDA_VISIBLE_DEVICES",
    ),
    (101, "there is no GPU of that number", "see `nvidia-smi -L`"),
    (
        201,
        "the context was lost",
        "another process or a reset ended it: run again",
    ),
    (
        209,
        "the kernels do not run on this GPU",
        "cards from compute capability 8.0 on can be measured",
    ),
    (
        214,
        "an ECC error of memory that could not be corrected",
        "see `nvidia-smi -q -d ECC`; reset the GPU or replace it",
    ),
    (
        218,
        "the driver's compiler refuses the kernels",
        "update the driver",
    ),
    (
        222,
        "the driver's compiler is too old for the kernels (PTX 8.0, CUDA 12.0)",
        "update the driver",
    ),
    (
        700,
        "a kernel used memory that is not its own",
        "this is a bug: run the checks of calibration/gpu.sh and report what they say",
    ),
    (
        702,
        "a kernel ran longer than the display driver allows",
        "measure on a GPU without a screen",
    ),
    (
        719,
        "a kernel failed",
        "run the checks of calibration/gpu.sh; `dmesg` may tell of a fault of the card (Xid)",
    ),
    (
        802,
        "the system is not yet initialised",
        "on machines with NVSwitch start `nvidia-fabricmanager`",
    ),
    (
        803,
        "the driver's library and its kernel module are of different versions",
        "reboot, or unload and reload the nvidia modules",
    ),
    (
        804,
        "a forward-compatibility package is in the way on a GPU that does not support it",
        "take its `compat` folder out of LD_LIBRARY_PATH",
    ),
    (
        999,
        "unknown: kernel module not loaded, /dev/nvidia* missing, or a laptop after sleep",
        "`nvidia-smi` must work first; after sleep `modprobe -r nvidia_uvm && modprobe nvidia_uvm`",
    ),
];

/// A GPU that cannot be used, and the way out.
pub(super) fn refused(why: impl Into<String>, way: &str) -> Error {
    Error::new(Cause::Device, why).help(format!("{way}; {OTHERWISE}"))
}

/// The driver's code of an error.
pub(super) fn code(e: DriverError) -> i32 {
    e.0 as i32
}

/// A call named by `what` failed.
pub(super) fn failed(what: &str, e: DriverError) -> Error {
    coded(what, code(e))
}

/// The same by its code.
pub(super) fn coded(what: &str, code: i32) -> Error {
    let known = KNOWN.iter().find(|k| k.0 == code);
    let (means, way) = known.map_or(
        ("", "the CUDA driver API lists the codes (CUresult)"),
        |k| (k.1, k.2),
    );
    let text = if means.is_empty() {
        String::new()
    } else {
        format!(": {means}")
    };
    refused(format!("{what}: CUDA error {code}{text}"), way)
}

#[cfg(test)]
mod tests {
    use super::coded;

    #[test]
    fn every_message_names_its_code_and_what_else_can_be_done() {
        for code in [2, 34, 803, 12345] {
            let e = coded("cuInit", code);
            assert_eq!(e.exit_code(), 4);
            assert!(e.message.starts_with(&format!("cuInit: CUDA error {code}")));
            let help = e.help.unwrap();
            assert!(
                help.contains("--host-only") && help.contains("--from"),
                "{help}"
            );
        }
    }
}
