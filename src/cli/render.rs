//! Errors for people: the message, the place with a caret, the way out.
//!
//! What users typed is shown with control characters escaped and overlong texts cropped: an argument of a megabyte or
//! a file of escape codes must not take over the terminal.

use std::io::Write;

use crate::error::{Cause, Error, Place};
use crate::units::text::printable;

const WIDTH: usize = 96;

/// Writes to stderr; nobody can be told if that fails.
pub fn plain(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).ok();
}

/// Renders an error on stderr.
pub fn error(error: &Error, color: bool) {
    plain(&text(error, color));
}

/// An error as text, with its place and the way out.
pub fn text(error: &Error, color: bool) -> String {
    let (bold, off) = if color {
        ("\x1b[1;31m", "\x1b[0m")
    } else {
        ("", "")
    };
    let mut out = match error.cause {
        Cause::Internal => format!(
            "{bold}error:{off} a bug in kvplan: {}\n",
            safe(&error.message)
        ),
        _ => format!("{bold}error:{off} {}\n", safe(&error.message)),
    };
    if let Some(place) = &error.place {
        out.push_str(&excerpt(place));
    }
    match (&error.help, error.cause) {
        (Some(help), _) => {
            out.push_str("  help: ");
            out.push_str(&printable(&crop(help, HELP)));
            out.push('\n');
        }
        (None, Cause::Internal) => out.push_str(REPORT),
        (None, _) => {}
    }
    out
}

const REPORT: &str = "  help: please report it with the command line and `kvplan --version`: the input is not at fault\n";

/// The line of a place with a caret under what is wrong.
fn excerpt(place: &Place) -> String {
    let text = &place.text;
    let start = floor(text, place.span.start.min(text.len()));
    let begin = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let end = text[start..].find('\n').map_or(text.len(), |i| start + i);
    let number = text[..start].matches('\n').count() + 1;
    let column = text[begin..start].chars().count();
    let stop = floor(text, place.span.end.clamp(start, end));
    let carets = text[start..stop].chars().count().max(1);
    let skip = if column + carets > WIDTH {
        column.saturating_sub(WIDTH / 2)
    } else {
        0
    };
    let line: String = text[begin..end].chars().skip(skip).take(WIDTH).collect();
    let margin = " ".repeat(number.to_string().len());
    let shift = " ".repeat(column - skip);
    let caret = "^".repeat(carets.min(WIDTH.saturating_sub(column - skip)).max(1));
    format!(
        "{margin}--> {}:{number}:{}\n{margin} |\n{number} | {}\n{margin} | {shift}{caret}\n",
        safe(&place.file),
        column + 1,
        printable(line.trim_end()),
    )
}

/// The nearest start of a character at or below a byte.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Longest way out (characters): it may hold a whole command line.
const HELP: usize = 2000;

/// Cropped, and without control characters other than line breaks.
fn safe(text: &str) -> String {
    printable(&crop(text, 600))
}

/// A text of at most `limit` characters, its middle left out.
pub fn crop(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_string();
    }
    let half = limit / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(length - half).collect();
    format!("{head} ... {tail}")
}

/// A panic is a bug: say so, name the place, ask for a report.
pub fn on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let message = payload
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into());
        let place = info
            .location()
            .map(|l| format!(" ({}:{})", l.file(), l.line()))
            .unwrap_or_default();
        plain(&format!(
            "error: a bug in kvplan: {}{place}\n{REPORT}",
            safe(&message)
        ));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_word() {
        let text = "batch = 8\nbatchs = 9\n";
        let e = Error::usage("unknown key `batchs`")
            .at("s.toml", text, 10..16)
            .help("did you mean `batch`?");
        let expected = "error: unknown key `batchs`\n --> s.toml:2:1\n  |\n2 | batchs = 9\n  | ^^^^^^\n  help: did you mean `batch`?\n";
        assert_eq!(super::text(&e, false), expected);
    }

    #[test]
    fn no_span_makes_it_panic() {
        let text = "ä = \"\u{1b}[2J\"\n\n\t€";
        for start in 0..text.len() + 3 {
            for end in 0..text.len() + 3 {
                let shown = excerpt(&Place {
                    file: "f".into(),
                    text: text.into(),
                    span: start..end,
                });
                assert!(shown.contains('^') && !shown.contains('\u{1b}'));
            }
        }
    }

    #[test]
    fn an_overlong_line_is_cropped_around_the_caret() {
        let text = format!("{}X{}", "a".repeat(5000), "b".repeat(5000));
        let shown = excerpt(&Place {
            file: "f".into(),
            text,
            span: 5000..5001,
        });
        let lines: Vec<&str> = shown.lines().collect();
        let caret = lines[3].find('^').unwrap();
        assert_eq!(&lines[2][caret..=caret], "X");
        assert!(lines[2].len() < 120);
    }
}
