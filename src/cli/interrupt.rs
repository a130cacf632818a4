//! Ctrl-C: half-written files are removed, the exit code is 130.
//!
//! Results are written beside their target, so removing the part file leaves what was there before. Work that keeps what
//! it has finished promises so here, and the promise is printed last.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::render;

static PARTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn parts() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    PARTS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Removes this file if the run is interrupted; whether it is not one already.
pub fn guard(path: &Path) -> bool {
    let mut all = parts();
    let new = !all.iter().any(|p| p == path);
    all.push(path.to_path_buf());
    new
}

/// The file is in its place, or gone.
pub fn release(path: &Path) {
    let mut all = parts();
    if let Some(at) = all.iter().rposition(|p| p == path) {
        all.remove(at);
    }
}

static PROMISE: Mutex<Option<String>> = Mutex::new(None);

/// What is said when the run is interrupted: how to go on.
pub fn promise(text: Option<String>) {
    *PROMISE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner) = text;
}

static HELD: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

/// While on, the first Ctrl-C only asks work that looks at [`asked`] to end.
pub fn hold(on: bool) {
    HELD.store(on, Ordering::Relaxed);
}

static SERVING: AtomicBool = AtomicBool::new(false);

/// As [`hold`], for what runs until it is stopped: ending it so is no failure.
pub fn serve() {
    SERVING.store(true, Ordering::Relaxed);
    hold(true);
}

/// Whether Ctrl-C was pressed while held.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Installs the handler; where that is refused, the system's own stays.
pub fn install() {
    let stop = || {
        if HELD.swap(false, Ordering::Relaxed) {
            ASKED.store(true, Ordering::Relaxed);
            render::plain(if SERVING.load(Ordering::Relaxed) {
                "stopped\n"
            } else {
                "interrupted: what is finished is kept; once more ends at once\n"
            });
            return;
        }
        for part in parts().iter() {
            std::fs::remove_file(part).ok();
        }
        render::plain("interrupted\n");
        let promise = PROMISE
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(text) = &*promise {
            render::plain(&format!("  help: {text}\n"));
        }
        std::process::exit(130);
    };
    ctrlc::set_handler(stop).ok();
}
