//! Numbers as people write them: `$1,234.50`, `-3`, `18.`, `20 %`.
//!
//! A comma joins only groups of three digits; a point with no digit behind it ends a sentence; a minus counts only where
//! nothing that it could subtract from stands before it. The normal form has no sign of nought, no leading and no trailing
//! zeros, so equal numbers are equal texts.

/// The answer of a text: the first number behind its last `####`, otherwise its last number.
pub(super) fn extract(text: &str) -> Option<String> {
    let marked = text.rfind("####").map(|at| &text[at + 4..]);
    marked
        .and_then(|t| all(t.lines().next().unwrap_or_default()).into_iter().next())
        .or_else(|| all(text).pop())
}

/// All numbers of a text in their normal form.
fn all(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let starts = chars[at].is_ascii_digit() || point_first(&chars, at);
        if starts {
            let (digits, end) = scan(&chars, at);
            found.push(normal(negative(&chars, at), &digits));
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// `.5`, but not the `.5` of `1.2.5` or of `a.5`.
fn point_first(chars: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).map(|i| chars[i]);
    chars[at] == '.'
        && digit(chars, at + 1)
        && !before.is_some_and(|c| c.is_alphanumeric() || c == '.')
}

fn digit(chars: &[char], at: usize) -> bool {
    chars.get(at).is_some_and(char::is_ascii_digit)
}

/// Digits from `at` on, with at most one point, and where they end.
fn scan(chars: &[char], mut at: usize) -> (String, usize) {
    let mut digits = String::new();
    while let Some(c) = chars.get(at) {
        match c {
            '0'..='9' => digits.push(*c),
            ',' if group_of_three(chars, at) && !digits.contains('.') && !digits.is_empty() => {}
            '.' if digit(chars, at + 1) && !digits.contains('.') => digits.push('.'),
            _ => break,
        }
        at += 1;
    }
    (digits, at)
}

/// Whether exactly three digits follow.
fn group_of_three(chars: &[char], at: usize) -> bool {
    (1..=3).all(|i| digit(chars, at + i)) && !digit(chars, at + 4)
}

/// Whether a minus belongs to the number that starts at `at`; a dollar sign may stand between or before.
fn negative(chars: &[char], at: usize) -> bool {
    let mut i = at;
    let mut before = || {
        i = i.checked_sub(1)?;
        Some(chars[i])
    };
    let mut c = before();
    if c == Some('$') {
        c = before();
        if c == Some('\\') {
            c = before();
        }
    }
    if !matches!(c, Some('-' | '\u{2212}')) {
        return false;
    }
    match before() {
        Some('$') => !before().is_some_and(char::is_alphanumeric),
        Some(c) => !(c.is_alphanumeric() || matches!(c, ')' | ']' | '}' | '-' | '%')),
        None => true,
    }
}

/// One text a number.
fn normal(negative: bool, digits: &str) -> String {
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let part = part.trim_end_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let text = if part.is_empty() {
        whole.to_string()
    } else {
        format!("{whole}.{part}")
    };
    if negative && text != "0" {
        format!("-{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::extract;

    #[test]
    fn numbers_as_models_write_them() {
        for (text, want) in [
            ("She makes $18 every day.", "18"),
            ("= $70,000.00.", "70000"),
            ("total: 1,234,567", "1234567"),
            // Not a group of three: two numbers, the last is 23.
            ("1,23", "23"),
            ("between 3,4000 things", "4000"),
            ("#### 1,000", "1000"),
            ("#### -7 dollars, up from 12", "-7"),
            // The mark wins over what is written after it on other lines.
            ("#### 42\nThere were 3 cars and 10 bikes.", "42"),
            ("first #### 1, then\n#### 2", "2"),
            // A mark with nothing behind it: the last number of the text.
            ("It is 5 ####", "5"),
            ("a loss of -$5", "-5"),
            ("a loss of $-5", "-5"),
            ("a loss of \u{2212}5", "-5"),
            // A minus that subtracts is no sign; so is a dash between two numbers.
            ("10-3", "3"),
            ("x-3", "3"),
            ("f(x) -3", "-3"),
            ("20%", "20"),
            ("about 0.50", "0.5"),
            ("about .50", "0.5"),
            ("007", "7"),
            ("-0", "0"),
            ("The answer is 12.", "12"),
            ("version 1.2.3", "3"),
            ("**18**", "18"),
            ("$\\boxed{9}$", "9"),
            ("9.000", "9"),
        ] {
            assert_eq!(extract(text).as_deref(), Some(want), "{text}");
        }
        for text in ["", "none at all", "####", "eighteen", ".", "$", "-"] {
            assert_eq!(extract(text), None, "{text}");
        }
    }
}
