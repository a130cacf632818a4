//! Files written beside their final name and renamed when finished, so that a name never holds half a file.
//!
//! What a kill leaves is worth keeping or not. Rows of a recording cost hours: `FILE.PID.part` stays until `record --resume`
//! or an import has taken it up. What is imported, drawn or exported is made again from what it came from:
//! `FILE.kvplan-PID.part` is held while its process lives, and whoever writes the same file next may remove it. Rival: one name
//! for both, where only a look into a file, cut anywhere, tells which of them it is.

use crate::error::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What becomes of half a file if its process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// Somebody goes on from it.
    Kept,
    /// It is made again.
    Stale,
}

impl Half {
    /// Its name, while this process writes `path`.
    pub(crate) fn name(self, path: &Path) -> PathBuf {
        match self {
            Self::Kept => part_name(path),
            Self::Stale => stale_name(path, std::process::id()),
        }
    }
}

/// `FILE` becomes `FILE.PID.part`: two processes that write the same file never share a part, and the part that a killed
/// run left behind is never overwritten by the run that imports it.
pub fn part_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    name.into()
}

/// `FILE` becomes `FILE.kvplan-PID.part`.
pub fn stale_name(path: &Path, process: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".kvplan-{process}.part"));
    name.into()
}

/// Removes what this process has of a file that it makes no more.
pub(crate) fn discard(path: &Path) {
    let _ = std::fs::remove_file(Half::Stale.name(path));
}

/// Creates the half of a file.
pub(crate) fn create(path: &Path, half: Half) -> Result<File> {
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
    let file = File::create(half.name(path)).map_err(|e| cannot_write(path, &e))?;
    file.try_lock().ok(); // where files have no locks, the number of the process is all there is
    Ok(file)
}

/// Flushes the half of a file to the disk and gives it its name.
pub(crate) fn publish(file: &File, path: &Path, half: Half) -> Result<()> {
    file.sync_all()
        .and_then(|()| std::fs::rename(half.name(path), path))
        .map_err(|e| cannot_write(path, &e))
}

pub(crate) fn cannot_write(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::usage(format!("cannot write {}: {why}", path.display()))
        .help("name a file in a folder that exists and can be written")
}
