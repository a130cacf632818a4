//! A bar on stderr for what takes over a second.
//!
//! Only on a terminal, never with `--quiet`, and only once a second has passed: short runs stay clean. The work does not
//! know of it; a thread watches the counter of bytes that `trace` keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::trace::progress;

/// A watched stretch of work; the bar goes when this does.
#[derive(Debug)]
pub struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(100);

/// Work shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Watches work that reads or writes about `total` bytes, named by `what`.
pub fn watch(what: &'static str, total: u64, quiet: bool) -> Watch {
    let before = progress::bytes();
    let template = "{msg} {wide_bar} {bytes} of {total_bytes}, {eta} left";
    start(what, template, total, quiet, move || {
        (progress::bytes() - before).min(total)
    })
}

/// Watches `total` cells, those done counted by whoever does them.
pub fn cells(total: u64, done: Arc<AtomicU64>, quiet: bool) -> Watch {
    let template = "{msg} {wide_bar} {human_pos} of {human_len}, {per_sec}, {eta} left";
    counted("cells", template, total, done, quiet)
}

/// Watches `total` searches, those done counted by whoever does them.
pub fn searches(total: u64, done: Arc<AtomicU64>, quiet: bool) -> Watch {
    let template = "{msg} {wide_bar} {human_pos} of {human_len}, {eta} left";
    counted("searches", template, total, done, quiet)
}

/// Watches a model run `total` tokens at most, those run counted by whoever runs them.
pub fn tokens(total: u64, done: Arc<AtomicU64>, quiet: bool) -> Watch {
    let template = "{msg} {wide_bar} {human_pos} of {human_len}, {per_sec}, at most {eta} left";
    counted("tokens", template, total, done, quiet)
}

/// Watches `total` samples at most, those taken counted by whoever takes them.
pub fn samples(total: u64, done: Arc<AtomicU64>, quiet: bool) -> Watch {
    let template = "{msg} {wide_bar} {human_pos} of {human_len}, at most {eta} left";
    counted("samples", template, total, done, quiet)
}

/// Watches what its workers count.
fn counted(
    what: &'static str,
    template: &'static str,
    total: u64,
    done: Arc<AtomicU64>,
    quiet: bool,
) -> Watch {
    start(what, template, total, quiet, move || {
        done.load(Ordering::Relaxed)
    })
}

fn start(
    what: &'static str,
    template: &'static str,
    total: u64,
    quiet: bool,
    position: impl Fn() -> u64 + Send + 'static,
) -> Watch {
    let over = Arc::new(AtomicBool::new(false));
    let shown = !quiet && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let seen = Arc::clone(&over);
    let work = move || draw(what, template, total, &position, &seen);
    let thread = shown.then(|| std::thread::spawn(work));
    Watch { over, thread }
}

fn draw(
    what: &'static str,
    template: &str,
    total: u64,
    position: &dyn Fn() -> u64,
    over: &AtomicBool,
) {
    let begun = std::time::Instant::now();
    let before = position();
    while begun.elapsed() < PATIENCE {
        if over.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(TICK / 4);
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    bar.set_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.set_message(what);
    bar.set_position(before);
    while !over.load(Ordering::Relaxed) {
        bar.set_position(position());
        std::thread::sleep(TICK);
    }
    bar.finish_and_clear();
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok(); // a bar that failed to draw is no failure of the work
        }
    }
}
