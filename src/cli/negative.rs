//! Negative numbers as values of flags.
//!
//! clap takes `-1GiB` for a bundle of short flags and advises `--`, which would make it another argument. Behind a flag it is
//! the flag's value: the two are joined by `=`, and the flag itself says what it takes. Rival: `allow_hyphen_values`, with
//! which a flag whose value was forgotten takes the next flag for it.

use std::ffi::OsString;

/// Words for what is below zero or no number, as `f64` reads them.
const WORDS: [&str; 3] = ["inf", "infinity", "nan"];

/// The arguments, a negative number joined to the flag before it.
pub(super) fn joined(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    let mut flags = true;
    for arg in args {
        let number = arg.to_str().is_some_and(is_negative);
        match out.last_mut() {
            Some(flag) if flags && number && takes_value(flag) => {
                flag.push("=");
                flag.push(arg);
            }
            _ => {
                flags &= arg != "--";
                out.push(arg);
            }
        }
    }
    out
}

/// Whether a text begins like a number below zero.
fn is_negative(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('-') else {
        return false;
    };
    let digits = rest.strip_prefix('.').unwrap_or(rest);
    digits.starts_with(|c: char| c.is_ascii_digit())
        || WORDS.iter().any(|w| rest.eq_ignore_ascii_case(w))
}

/// Whether an argument is a flag, long or short, without a value of its own.
fn takes_value(arg: &OsString) -> bool {
    let Some(text) = arg.to_str() else {
        return false;
    };
    let bare = |name: &str| !name.is_empty() && !name.contains('=');
    if let Some(name) = text.strip_prefix("--") {
        return bare(name);
    }
    let letter = text.strip_prefix('-').unwrap_or_default();
    letter.len() == 1 && letter.starts_with(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> String {
        let args = line.split(' ').map(OsString::from);
        let out = joined(args).into_iter().map(|a| a.into_string().unwrap());
        out.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_negative_number_is_the_value_of_the_flag_before_it() {
        for (line, expected) in [
            (
                "simulate --vram-reserve -1GiB",
                "simulate --vram-reserve=-1GiB",
            ),
            ("trace head t -n -3", "trace head t -n=-3"),
            ("a --x -.5 --y -inf", "a --x=-.5 --y=-inf"),
            // No numbers, no flags, or values that stand already.
            ("a --x -o f -q", "a --x -o f -q"),
            ("a --x=1 -2", "a --x=1 -2"),
            ("a -2", "a -2"),
            ("a --x -1 -2", "a --x=-1 -2"),
            ("a -- --x -1", "a -- --x -1"),
            ("a - -1", "a - -1"),
        ] {
            assert_eq!(of(line), expected);
        }
    }
}
