//! The one place that writes results.
//!
//! To stdout, or to a file that is tried before the run (a bad path fails at once, not after the work), written beside its
//! target and renamed at the end (`part`). A pipe closed by its reader (`| head -1`) ends the process quietly.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Stdout, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::units::text::printable;

use super::part::Part;
use super::same::whole;
use super::{render, write_failed};

/// Where the result goes.
#[derive(Debug)]
enum Sink {
    Stdout(BufWriter<Stdout>),
    File(Part),
    /// A pipe or a device, written directly.
    Special {
        file: BufWriter<File>,
        name: String,
    },
}

/// Result to stdout or a file, remarks to stderr.
#[derive(Debug)]
pub struct Out {
    sink: Sink,
    color: bool,
    quiet: bool,
    verbose: bool,
}

impl Out {
    /// To stdout.
    pub fn new(color: bool, quiet: bool, verbose: bool) -> Self {
        Self {
            sink: Sink::Stdout(BufWriter::new(std::io::stdout())),
            color,
            quiet,
            verbose,
        }
    }

    /// To a file beside the result, quietly.
    ///
    /// # Errors
    /// The file cannot be made (exit 2).
    pub fn beside(target: &Path) -> Result<Self> {
        let mut out = Self::new(false, true, false);
        out.to_file(target)?;
        Ok(out)
    }

    /// To a file from now on; `-` stays on stdout.
    ///
    /// # Errors
    /// The file cannot be made (exit 2).
    pub fn to_file(&mut self, target: &Path) -> Result<()> {
        if target.as_os_str() == "-" {
            return Ok(());
        }
        let shown = target.display().to_string();
        if target.is_dir() {
            return Err(
                Error::usage(format!("cannot write {shown}: is a directory"))
                    .help("name a file in it"),
            );
        }
        // A link is followed, so that the file it names is what changes.
        let target = &whole(target).unwrap_or_else(|| target.to_path_buf());
        if std::fs::metadata(target).is_ok_and(|m| !m.is_file()) {
            // A pipe or a device cannot be replaced by a rename.
            let file = std::fs::OpenOptions::new()
                .write(true)
                .open(target)
                .map_err(|e| write_failed(&shown, &e))?;
            self.color = false;
            self.sink = Sink::Special {
                file: BufWriter::new(file),
                name: shown,
            };
            return Ok(());
        }
        let part = Part::new(target).map_err(|e| write_failed(&shown, &e))?;
        self.color = false;
        self.sink = Sink::File(part);
        Ok(())
    }

    /// Whether remarks are unwanted.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether the result may carry colour.
    pub fn color(&self) -> bool {
        self.color
    }

    /// A remark on stderr, unless quiet.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            render::plain(&format!("note: {}\n", printable(text)));
        }
    }

    /// A remark on stderr that only `-v` wants.
    pub fn detail(&self, text: &str) {
        if self.verbose {
            render::plain(&format!("{text}\n"));
        }
    }

    /// Writes a whole result.
    ///
    /// # Errors
    /// The disk is full and the like (exit 2).
    pub fn result(&mut self, text: &str) -> Result<()> {
        self.bytes(text.as_bytes())
    }

    /// Writes a result that is not text.
    ///
    /// # Errors
    /// As [`Out::result`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let what = self.shown();
        self.write_all(bytes).map_err(|e| write_failed(&what, &e))
    }

    /// Flushes, and moves a file into its place.
    ///
    /// # Errors
    /// As [`Out::result`].
    pub fn finish(&mut self) -> Result<()> {
        let what = self.shown();
        self.flush().map_err(|e| write_failed(&what, &e))?;
        if let Sink::File(part) = &mut self.sink {
            part.publish().map_err(|e| write_failed(&what, &e))?;
            self.sink = Sink::Stdout(BufWriter::new(std::io::stdout()));
        }
        Ok(())
    }

    fn shown(&self) -> String {
        match &self.sink {
            Sink::Stdout(_) => "stdout".into(),
            Sink::File(part) => part.target().display().to_string(),
            Sink::Special { name, .. } => name.clone(),
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = match &mut self.sink {
            Sink::Stdout(s) => s.write(bytes),
            Sink::File(part) => part.write(bytes),
            Sink::Special { file, .. } => file.write(bytes),
        };
        written.or_else(closed_pipe)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = match &mut self.sink {
            Sink::Stdout(s) => s.flush(),
            Sink::File(part) => part.flush(),
            Sink::Special { file, .. } => file.flush(),
        };
        flushed.or_else(closed_pipe)
    }
}

/// Nobody reads any more: that is not an error, and nothing is left to do.
fn closed_pipe<T>(error: std::io::Error) -> std::io::Result<T> {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    Err(error)
}
