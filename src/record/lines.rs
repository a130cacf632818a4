//! Lines of a text file that a user wrote, with their numbers.
//!
//! UTF-8, with or without a byte-order mark; other encodings are refused by name, not read as rubbish. Empty lines are
//! passed over. One line is in memory at a time beyond those returned.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// Longest file taken \[bytes\].
const LIMIT: u64 = 1 << 30;

/// Longest line taken \[bytes\]: a device has no end, and no model's context holds as much.
const LONGEST: u64 = 64 << 20;

/// A line that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: u32,
    /// Its text, without the end of the line.
    pub text: String,
}

/// The lines of a file that are not empty, `limit` at most.
///
/// # Errors
/// Usage: it cannot be read. Data: a line that is no UTF-8 or over 64 MiB, by its number; a file over 1 GiB.
pub fn lines(path: &Path, limit: usize) -> Result<Vec<Line>> {
    let shown = path.display();
    let failed = |e: std::io::Error| Error::usage(format!("{shown}: cannot be read: {e}"));
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let mut all = Vec::new();
    let (mut number, mut total) = (0u32, 0u64);
    while all.len() < limit {
        let mut bytes = Vec::new();
        let mut line = file.by_ref().take(LONGEST);
        let read = line.read_until(b'\n', &mut bytes).map_err(failed)? as u64;
        if read == 0 {
            break;
        }
        total += read;
        if total > LIMIT {
            return Err(Error::data(format!("{shown}: is over 1 GiB")).help("cut it into several"));
        }
        number = number.saturating_add(1);
        let wrong = |why: &str| {
            Error::data(format!("{shown}, line {number}: {why}")).help("save the file as UTF-8")
        };
        if read == LONGEST && bytes.last() != Some(&b'\n') {
            return Err(
                Error::data(format!("{shown}, line {number}: is over 64 MiB"))
                    .help("a line holds one prompt"),
            );
        }
        let text = decoded(&bytes, number == 1).map_err(wrong)?;
        if !text.trim().is_empty() {
            all.push(Line {
                number,
                text: text.into(),
            });
        }
    }
    Ok(all)
}

/// A line's text; a byte-order mark is passed over at the start of the file.
fn decoded(bytes: &[u8], first: bool) -> std::result::Result<&str, &'static str> {
    if first && (bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF])) {
        return Err("the text is UTF-16");
    }
    let mark: &[u8] = if first { &[0xEF, 0xBB, 0xBF] } else { &[] };
    let text = std::str::from_utf8(bytes.strip_prefix(mark).unwrap_or(bytes));
    Ok(text
        .map_err(|_| "it is no UTF-8 text")?
        .trim_end_matches(['\n', '\r']))
}

/// Why a line is no JSON, without the number of the line, which is 1 to the parser.
pub fn not_json(e: &serde_json::Error) -> String {
    let text = e.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    format!("not JSON: {what} at column {}", e.column())
}

#[cfg(test)]
mod tests {
    use super::{Line, decoded, lines};

    #[test]
    fn marks_and_encodings() {
        assert_eq!(decoded(b"\xEF\xBB\xBF{}\r\n", true), Ok("{}"));
        assert_eq!(decoded(b"\xFF\xFE{\0", true), Err("the text is UTF-16"));
        assert_eq!(decoded(b"a\xFF\n", false), Err("it is no UTF-8 text"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_line_without_an_end_is_refused() {
        let error = lines(std::path::Path::new("/dev/zero"), 9).unwrap_err();
        assert_eq!(error.message, "/dev/zero, line 1: is over 64 MiB");
    }

    #[test]
    fn numbers_count_empty_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\n a\n\nb").unwrap();
        let line = |number, text: &str| Line {
            number,
            text: text.into(),
        };
        assert_eq!(
            lines(file.path(), 9).unwrap(),
            [line(2, " a"), line(4, "b")]
        );
        assert_eq!(lines(file.path(), 1).unwrap(), [line(2, " a")]);
    }
}
