//! A result while it is written: under a name of its own beside its target, until it is whole.
//!
//! `FILE.kvplan-PID.part` is made before the run and taken away again, so that a bad path fails at once and a run that is
//! killed while it computes leaves nothing; the first byte makes it anew. A run that is killed while it writes leaves it: the
//! next one that writes the same FILE removes what has that very name, whose process is gone and whose lock nobody holds.
//! Rival: a file without a name until it is whole, which cannot take the place of a file that is there.

use std::fs::{File, TryLockError};
use std::io::{BufWriter, Error, Result, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::trace::beside::stale_name;

use super::interrupt;

/// Times that a part is made where another process looks whether it is stale, and how long it is waited in between.
const TRIES: (usize, Duration) = (10, Duration::from_millis(10));

/// A result that is not whole yet.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    target: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Part {
    /// That of a target, which need not be there.
    ///
    /// # Errors
    /// It cannot be made, or this run is making it already.
    pub(super) fn new(target: &Path) -> Result<Self> {
        remove_stale(target);
        let path = stale_name(target, std::process::id());
        if !interrupt::guard(&path) {
            interrupt::release(&path);
            return Err(Error::other("this run writes another result there"));
        }
        let part = Self {
            path,
            target: target.to_path_buf(),
            file: None,
        };
        drop(part.make()?);
        std::fs::remove_file(&part.path)?;
        Ok(part)
    }

    /// What it will be called.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Puts it in its place, whole and on the disk.
    ///
    /// # Errors
    /// The disk is full and the like.
    pub(super) fn publish(&mut self) -> Result<()> {
        let file = self.open()?;
        file.flush()?;
        file.get_ref().sync_all()?;
        std::fs::rename(&self.path, &self.target)
    }

    /// The file, made with the first byte.
    fn open(&mut self) -> Result<&mut BufWriter<File>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => BufWriter::new(self.make()?),
        };
        Ok(self.file.insert(file))
    }

    /// An empty file that this process holds, with the permissions of what it will replace.
    fn make(&self) -> Result<File> {
        for _ in 0..TRIES.0 {
            let file = File::create(&self.path)?;
            // Where files have no locks, the process alone counts.
            let held = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            if !held && self.path.exists() {
                if let Ok(old) = std::fs::metadata(&self.target) {
                    file.set_permissions(old.permissions()).ok(); // else the default mode stands
                }
                return Ok(file);
            }
            std::thread::sleep(TRIES.1);
        }
        Err(Error::other("it is being written already"))
    }
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.open()?.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Part {
    /// What has not been put in its place is not wanted: what was there before stays.
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
        interrupt::release(&self.path);
    }
}

/// Removes the parts of a target whose processes are gone.
pub(super) fn remove_stale(target: &Path) {
    let folder = target.parent().filter(|f| !f.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new(".")));
    for entry in entries.into_iter().flatten().flatten() {
        let found = entry.file_name();
        let process = found.to_str().and_then(process);
        let own = process.is_some_and(|p| stale_name(target, p).file_name() == Some(&found));
        let file = entry.file_type().is_ok_and(|t| t.is_file());
        if own && file && process.is_some_and(is_gone) && is_free(&entry.path()) {
            std::fs::remove_file(entry.path()).ok(); // another's to remove, then
        }
    }
}

/// The process in a name that only [`stale_name`] makes: a number as it is printed.
fn process(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".part")?.rsplit_once(".kvplan-")?.1;
    number
        .parse()
        .ok()
        .filter(|p: &u32| p.to_string() == number)
}

/// Whether no process of this machine has this number, as far as the system says.
fn is_gone(process: u32) -> bool {
    let all = Path::new("/proc/self");
    process != std::process::id()
        && !(all.exists() && all.with_file_name(process.to_string()).exists())
}

/// Whether no process holds a file, be it one of another machine or container.
fn is_free(path: &Path) -> bool {
    File::open(path).is_ok_and(|f| f.try_lock().is_ok())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A number that no process has: Linux numbers them up to 2^22 at most.
    const GONE: u32 = 4_000_000_000;

    fn left(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_lies_beside_a_result_before_its_first_byte() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("r.json");
        let mut part = Part::new(&target).unwrap();
        assert!(left(folder.path()).is_empty());
        part.write_all(b"{}").unwrap();
        part.flush().unwrap();
        assert!(left(folder.path())[0].starts_with("r.json.kvplan-"));
        part.publish().unwrap();
        drop(part);
        assert_eq!(left(folder.path()), ["r.json"]);
    }

    #[test]
    fn only_what_a_dead_process_left_of_the_same_target_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let parent = std::os::unix::process::parent_id();
        let kept = [
            format!("r.json.kvplan-{parent}.part"),
            format!("other.json.kvplan-{GONE}.part"),
            format!("r.json.kvplan-0{GONE}.part"),
            format!("r.json.kvplan-{GONE}.part.txt"),
            format!("r.json.{GONE}.part"),
            "r.json.kvplan-4000000001.part".into(), // held below
            "r.json.kvplan-x.part".into(),
            "r.json.part".into(),
        ];
        for name in &kept {
            std::fs::write(path(name), "mine").unwrap();
        }
        std::fs::create_dir(path("r.json.kvplan-4000000002.part")).unwrap();
        let held = File::open(path("r.json.kvplan-4000000001.part")).unwrap();
        held.lock().unwrap();
        std::fs::write(path(&format!("r.json.kvplan-{GONE}.part")), "").unwrap();
        let before = left(folder.path()).len();
        drop(Part::new(&path("r.json")).unwrap());
        assert_eq!(left(folder.path()).len(), before - 1);
        assert!(kept.iter().all(|name| path(name).exists()));
        drop(held);
        drop(Part::new(&path("r.json")).unwrap());
        assert_eq!(left(folder.path()).len(), before - 2);
    }
}
