//! A file of requests, read whole and bounded.

use std::io::Read as _;
use std::path::Path;

use crate::error::{Error, Result};

/// What is read, in the words of its messages.
pub(super) struct Kind {
    /// What the file holds: `lengths`.
    pub(super) word: &'static str,
    /// Largest file that is read \[MiB\].
    pub(super) mebibytes: u64,
    /// What the flag takes, where there is no such file.
    pub(super) takes: &'static str,
    /// What to do about a larger one.
    pub(super) shorten: &'static str,
}

impl Kind {
    /// The text of a file.
    ///
    /// # Errors
    /// Usage: no such file. Data: too large, no text.
    pub(super) fn read(&self, path: &Path) -> Result<String> {
        let named = |why: String| format!("{} {}: {why}", self.word, path.to_string_lossy());
        let unreadable = |e: std::io::Error| Error::usage(named(e.to_string())).help(self.takes);
        if path.is_dir() {
            return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
        }
        let most = self.mebibytes << 20;
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|f| f.take(most + 1).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        if bytes.len() as u64 > most {
            return Err(
                Error::data(named(format!("is over {} MiB", self.mebibytes))).help(self.shorten),
            );
        }
        String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Error::data(named(format!("is not text (byte {at} is not UTF-8)")))
        })
    }
}
