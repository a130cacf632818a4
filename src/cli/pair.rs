//! The files of a calibration: a profile and the measurements behind it, under one name.
//!
//! Older ones that say something else are kept under one number, and a kept profile names the measurements that it was
//! made from. One run at a time writes into a folder: it holds the folder's lock meanwhile (where folders can be locked).
//! Measurements that lie there already are left as they are.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

use super::out::Out;

/// What is to be kept.
pub(super) struct Pair<'a> {
    pub(super) folder: &'a Path,
    /// Name of both files without their ending.
    pub(super) stem: &'a str,
    pub(super) raw: &'a str,
    pub(super) profile: &'a str,
    /// Where the measurements were read, if they were.
    pub(super) from: Option<&'a Path>,
}

/// Tries to write in a folder, before minutes of measuring; leaves nothing there.
pub(super) fn writable(folder: &Path) -> Result<()> {
    let new: Vec<PathBuf> = [folder.join("raw"), folder.to_path_buf()]
        .into_iter()
        .filter(|f| !f.exists())
        .collect();
    let raw = made(folder)?;
    let probe = raw.join(format!(".kvplan-{}.part", std::process::id()));
    let tried = File::create(&probe).and_then(|_| fs::remove_file(&probe));
    for folder in &new {
        fs::remove_dir(folder).unwrap_or(()); // only where nothing is in it
    }
    tried.map_err(|e| refused(&raw, "cannot be written in", &e))
}

fn refused(path: &Path, what: &str, why: &std::io::Error) -> Error {
    Error::usage(format!("{}: {what}: {why}", path.display())).help("name another folder with -o")
}

/// The folder of raw files.
fn made(folder: &Path) -> Result<PathBuf> {
    let raw = folder.join("raw");
    fs::create_dir_all(&raw).map_err(|e| refused(&raw, "cannot be made", &e))?;
    Ok(raw)
}

/// Whether a file says this already, or is what was read.
fn there(path: &Path, text: &str, from: Option<&Path>) -> bool {
    let same = |other: &Path| Some(other.canonicalize().ok()? == path.canonicalize().ok()?);
    fs::read(path).is_ok_and(|old| old == text.as_bytes()) || from.and_then(same) == Some(true)
}

impl Pair<'_> {
    /// Writes what is not there yet; older files of that name are kept.
    ///
    /// # Errors
    /// The folder or a file cannot be written (exit 2).
    pub(super) fn keep(&self, out: &Out) -> Result<()> {
        let raws = made(self.folder)?;
        let lock = File::open(self.folder).and_then(|f| f.lock().map(|()| f));
        let raw = raws.join(format!("{}.csv", self.stem));
        let profile = self.folder.join(format!("{}.toml", self.stem));
        let fresh = !there(&raw, self.raw, self.from);
        let other = !there(&profile, self.profile, None);
        if (fresh && raw.is_file()) || (other && profile.is_file()) {
            self.set_aside(&raws, fresh && raw.is_file(), out)?;
        }
        if fresh {
            write(&raw, self.raw, out)?;
        }
        write(&profile, self.profile, out)?;
        drop(lock);
        Ok(())
    }

    /// Gives the older files the first number that neither has.
    fn set_aside(&self, raws: &Path, moved: bool, out: &Out) -> Result<()> {
        let name = |n: u32| format!("{}.{n}", self.stem);
        let csv = |name: &str| raws.join(format!("{name}.csv"));
        let toml = |name: &str| self.folder.join(format!("{name}.toml"));
        let taken = |p: PathBuf| p.symlink_metadata().is_ok();
        let mut free = (1..=u32::MAX).map(name);
        let Some(free) = free.find(|n| !taken(csv(n)) && !taken(toml(n))) else {
            return Ok(());
        };
        let old = (csv(self.stem), toml(self.stem));
        if moved {
            let kept = fs::rename(&old.0, csv(&free));
            kept.map_err(|e| refused(&old.0, "cannot be kept aside", &e))?;
        }
        if !old.1.is_file() {
            return Ok(());
        }
        let kept = toml(&free);
        let text = fs::read_to_string(&old.1).unwrap_or_default();
        let line = |stem: &str| format!("raw = \"raw/{stem}.csv\"");
        if moved && text.contains(&line(self.stem)) {
            let mut file = Out::beside(&kept)?;
            file.result(&text.replacen(&line(self.stem), &line(&free), 1))?;
            file.finish()?;
        } else {
            let renamed = fs::rename(&old.1, &kept);
            renamed.map_err(|e| refused(&old.1, "cannot be kept aside", &e))?;
        }
        out.note(&format!("kept the older as {}", kept.display()));
        Ok(())
    }
}

fn write(path: &Path, text: &str, out: &Out) -> Result<()> {
    let mut file = Out::beside(path)?;
    file.result(text)?;
    file.finish()?;
    out.note(&format!("wrote {}", path.display()));
    Ok(())
}
