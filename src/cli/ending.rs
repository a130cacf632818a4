//! The format that the ending of a file's name asks for.
//!
//! An ending that says nothing is refused and not taken for a table: `-o plan.jsn` is a slip. Stdout, a pipe, a device and a
//! name without an ending say nothing and may.

use std::path::Path;

use crate::error::{Error, Result};

/// The format that a file's ending asks for among `known`; none where its name says nothing. `otherwise` is the way out beside
/// a known ending.
///
/// # Errors
/// An ending that is not known (exit 2).
pub(super) fn format<T: Copy>(
    path: &Path,
    known: &[(&str, T)],
    otherwise: &str,
) -> Result<Option<T>> {
    let special = path.as_os_str() == "-" || std::fs::metadata(path).is_ok_and(|m| !m.is_file());
    let ending = path.extension().map(|e| e.to_string_lossy().into_owned());
    let Some(ending) = ending.filter(|e| !special && !e.is_empty()) else {
        return Ok(None);
    };
    let found = known.iter().find(|k| k.0.eq_ignore_ascii_case(&ending));
    found.map(|k| Some(k.1)).ok_or_else(|| {
        let words: Vec<String> = known.iter().map(|k| format!(".{}", k.0)).collect();
        Error::usage(format!(
            "{}: `.{ending}` is the ending of no format of this result",
            path.display()
        ))
        .help(format!("end the name in {}{otherwise}", words.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_says_a_format_or_nothing_or_is_refused() {
        let known = [("json", 1), ("md", 2)];
        let of = |name: &str| format(Path::new(name), &known, "");
        assert_eq!(of("a.json").unwrap(), Some(1));
        assert_eq!(of("b.c/a.MD").unwrap(), Some(2));
        for name in ["-", "plan", "a.", ".json", "b.foo/a", "/dev/null", ".."] {
            assert_eq!(of(name).unwrap(), None, "{name}");
        }
        for name in ["a.jsn", "a.json.bak", "a.json "] {
            let error = of(name).unwrap_err();
            assert!(error.help.unwrap().contains(".json, .md"), "{name}");
        }
    }
}
