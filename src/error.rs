//! What went wrong, by cause, and the way out.
//!
//! One struct instead of an enum a module: what callers branch on is the *cause* (it decides the exit code), what
//! people read is the message, the place and the help. Messages are lower case, name the thing (file, flag, key,
//! byte) and carry no full stop. The library never prints and never exits; `cli` renders and maps to exit codes.

use std::fmt;

/// The cause of an error; it decides the exit code (DESIGN 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The run worked and the answer is no (does not fit, target missed): exit 1.
    Infeasible,
    /// What was asked: a flag, a setting's value wherever it stands, a name, a path that cannot be opened or written: exit 2.
    Usage,
    /// What stands in a file, of whatever kind, once it has been read: damaged, malformed, a key or a value that such a file
    /// cannot have, an architecture that is not known: exit 3.
    Data,
    /// No driver or device: exit 4.
    Device,
    /// A law of the simulator was broken: a bug in kvplan: exit 70.
    Internal,
    /// Stopped by Ctrl-C: exit 130.
    Interrupted,
}

/// A place in a text file, for rendering with a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// File name as the user gave it.
    pub file: String,
    /// Whole text of the file.
    pub text: String,
    /// Byte range of the offending text.
    pub span: std::ops::Range<usize>,
}

/// An error with its cause, and where known its place and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Decides the exit code.
    pub cause: Cause,
    /// What went wrong, naming the thing.
    pub message: String,
    /// Where in a text file.
    pub place: Option<Box<Place>>,
    /// The way out.
    pub help: Option<String>,
}

/// The result type of the crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A new error of this cause.
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self {
            cause,
            message: message.into(),
            place: None,
            help: None,
        }
    }

    /// What was asked (exit 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Cause::Usage, message)
    }

    /// What stands in a file (exit 3).
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(Cause::Data, message)
    }

    /// A bug in kvplan (exit 70).
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Cause::Internal, message)
    }

    /// Adds the way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says which flag or file it is about.
    #[must_use]
    pub fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Adds the place in a text file.
    #[must_use]
    pub fn at(
        mut self,
        file: impl Into<String>,
        text: impl Into<String>,
        span: std::ops::Range<usize>,
    ) -> Self {
        self.place = Some(Box::new(Place {
            file: file.into(),
            text: text.into(),
            span,
        }));
        self
    }

    /// The process exit code (DESIGN 8).
    pub fn exit_code(&self) -> u8 {
        match self.cause {
            Cause::Infeasible => 1,
            Cause::Usage => 2,
            Cause::Data => 3,
            Cause::Device => 4,
            Cause::Internal => 70,
            Cause::Interrupted => 130,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The closest of `known` to `given`, if any is close enough to suggest.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if given.len() > 100 {
        return None; // no name is that long, and comparing is quadratic
    }
    let given = given.to_lowercase();
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(&given, &k.to_lowercase()), k))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))
        .map(|(_, k)| k)
}
