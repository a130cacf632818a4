//! Files written beside their final name and renamed when finished, so that a name never holds half a file.

use crate::error::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

/// `FILE` becomes `FILE.PID.part`: two processes that write the same file never share a part, and the part that a killed
/// run left behind is never overwritten by the run that imports it.
pub fn part_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    name.into()
}

/// Creates `FILE.PID.part`.
pub(crate) fn create(path: &Path) -> Result<File> {
    if path.as_os_str() == "-" {
        return Err(cannot_write(path, &"a trace is not written to stdout"));
    }
    if path.is_dir() {
        return Err(cannot_write(path, &"it is a directory"));
    }
    // A rename would put a file in the place of a pipe or a device.
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return Err(cannot_write(path, &"it is a pipe or a device"));
    }
    File::create(part_name(path)).map_err(|e| cannot_write(path, &e))
}

/// Flushes `FILE.PID.part` to the disk and gives it its name.
pub(crate) fn publish(file: &File, path: &Path) -> Result<()> {
    file.sync_all()
        .and_then(|()| std::fs::rename(part_name(path), path))
        .map_err(|e| cannot_write(path, &e))
}

pub(crate) fn cannot_write(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::usage(format!("cannot write {}: {why}", path.display()))
        .help("name a file in a folder that exists and can be written")
}
