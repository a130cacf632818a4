//! Expressions in `\boxed{}`: taken out with their braces, brought to a normal form, compared.
//!
//! The normal form drops what does not change the value: spacing, `\left` and `\right`, dollar, per cent and degree signs,
//! commas between groups of three digits, a unit in `\text{}` behind a number, a name before `=`, a full stop at the end.
//! `\dfrac`, `\tfrac` and `\frac12` become `\frac{1}{2}`. Two forms are equal as texts, or as rational numbers in 128 bit.

/// What the last box of a text holds, in its normal form.
pub(super) fn extract(text: &str) -> Option<String> {
    let marks = ["\\boxed", "\\fbox"];
    let mut starts: Vec<usize> = marks
        .iter()
        .flat_map(|m| text.match_indices(m).map(|(at, m)| at + m.len()))
        .collect();
    starts.sort_unstable();
    let found = starts.into_iter().rev().find_map(|at| content(&text[at..]));
    found.map(normal).filter(|t| !t.is_empty())
}

/// What stands in the braces that a text begins with, or its first word where there are none (`\boxed 5`).
fn content(rest: &str) -> Option<&str> {
    let trimmed = rest.trim_start();
    if !trimmed.starts_with('{') {
        let word = trimmed
            .split(|c: char| c.is_whitespace() || c == '$')
            .next()?;
        return (trimmed.len() < rest.len() && !word.is_empty()).then_some(word);
    }
    let end = closing(trimmed)?;
    Some(&trimmed[1..end])
}

/// Where the brace that a text begins with is closed; `\{` and `\}` are signs, not braces.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut escaped) = (0usize, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Signs that say nothing, with what stands in their place.
const SIGNS: &[(&str, &str)] = &[
    ("\\left", ""),
    ("\\right", ""),
    ("\\!", ""),
    ("\\,", ""),
    ("\\;", ""),
    ("\\:", ""),
    ("\\ ", ""),
    ("\\quad", ""),
    ("~", ""),
    ("\\$", ""),
    ("$", ""),
    ("\\%", ""),
    ("%", ""),
    ("^{\\circ}", ""),
    ("^\\circ", ""),
    ("\\degree", ""),
    ("\\dfrac", "\\frac"),
    ("\\tfrac", "\\frac"),
    ("\\cfrac", "\\frac"),
    ("\u{2212}", "-"),
    ("\\mathrm", "\\text"),
    ("\\textbf", "\\text"),
    ("\\mbox", "\\text"),
    ("\\leq", "\\le"),
    ("\\geq", "\\ge"),
    ("\\neq", "\\ne"),
];

/// The normal form of an expression.
pub(super) fn normal(text: &str) -> String {
    let mut out = text.trim().to_string();
    // Whole commands only: `\leftarrow` is no `\left`, and `\leqslant` is no `\leq`.
    for (from, to) in SIGNS {
        out = replaced(&out, from, to);
    }
    out = without_text(&out);
    out.retain(|c| !c.is_whitespace());
    out = out.trim_end_matches(['.', ',', ';']).to_string();
    out = value_of_equation(&out).to_string();
    out = ungrouped(&out);
    braced(&out)
}

/// Replaces a sign; a command in letters only where no letter follows.
fn replaced(text: &str, from: &str, to: &str) -> String {
    let command = from.starts_with('\\') && from.ends_with(|c: char| c.is_ascii_alphabetic());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let after = &rest[at + from.len()..];
        let longer = command && after.starts_with(|c: char| c.is_ascii_alphabetic());
        out.push_str(&rest[..at]);
        out.push_str(if longer { from } else { to });
        rest = after;
    }
    out + rest
}

/// `\text{Evelyn}` alone is its words; behind something else it is a unit and goes. Brackets around one letter go as well.
fn without_text(text: &str) -> String {
    let mut out = text.to_string();
    while let Some(at) = out.find("\\text{") {
        let Some(end) = closing(&out[at + 5..]) else {
            break;
        };
        let (before, inner) = (out[..at].trim(), out[at + 6..at + 5 + end].trim());
        let after = out[at + 6 + end..].trim();
        let unit = !before.is_empty() && before.ends_with(|c: char| c.is_ascii_digit() || c == '}');
        out = if unit {
            // A power belongs to the unit: `5 \text{ cm}^2`.
            let power = after.strip_prefix('^').map_or(after, after_power);
            format!("{before} {power}")
        } else {
            format!("{before} {inner} {after}")
        };
    }
    let bare = out.trim();
    let inner = bare.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
    match inner {
        Some(one) if one.len() == 1 && one.bytes().all(|b| b.is_ascii_alphabetic()) => one.into(),
        _ => out,
    }
}

/// What follows an exponent.
fn after_power(text: &str) -> &str {
    match closing(text) {
        Some(end) if text.starts_with('{') => &text[end + 1..],
        _ => text
            .strip_prefix(|c: char| c.is_ascii_digit())
            .unwrap_or(text),
    }
}

/// `x=5` and `f(x)=5` are 5; an equation with more on its left stays.
fn value_of_equation(text: &str) -> &str {
    match text.split_once('=') {
        Some((name, value))
            if !value.contains('=')
                && !value.is_empty()
                && (name.len() == 1 || name.len() == 4 && name.ends_with(')'))
                && name.starts_with(|c: char| c.is_ascii_alphabetic()) =>
        {
            value
        }
        _ => text,
    }
}

/// `1,000` as `1000`, if the whole text is a number in groups; `(1,200)` stays a pair.
fn ungrouped(text: &str) -> String {
    let digits = text.trim_start_matches(['-', '+']);
    let whole = digits.split('.').next().unwrap_or_default();
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let number = |g: &str| g.bytes().all(|b| b.is_ascii_digit());
    let rest: Vec<&str> = groups.collect();
    let grouped = (1..=3).contains(&first.len())
        && number(first)
        && !rest.is_empty()
        && rest.iter().all(|g| g.len() == 3 && number(g));
    if grouped {
        text.replace(',', "")
    } else {
        text.to_string()
    }
}

/// Arguments of `\frac` and `\sqrt` in braces: `\frac12`, `\frac{1}2`, `\sqrt3`.
fn braced(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((at, name, arguments)) = next_command(rest) {
        out.push_str(&rest[..at + name.len()]);
        rest = &rest[at + name.len()..];
        for _ in 0..arguments {
            let Some(c) = rest.chars().next().filter(char::is_ascii_alphanumeric) else {
                // Braces, or a command: as it is, what stands in it by the same rule.
                let end = closing(rest).filter(|_| rest.starts_with('{'));
                let Some(end) = end else { break };
                out.push('{');
                out.push_str(&braced(&rest[1..end]));
                out.push('}');
                rest = &rest[end + 1..];
                continue;
            };
            out.push('{');
            out.push(c);
            out.push('}');
            rest = &rest[1..];
        }
    }
    out + rest
}

/// The next `\frac` or `\sqrt`, with the number of its arguments.
fn next_command(text: &str) -> Option<(usize, &'static str, usize)> {
    let of = |name: &'static str, n| text.find(name).map(|at| (at, name, n));
    let found = [of("\\frac", 2), of("\\sqrt", 1)];
    found.into_iter().flatten().min_by_key(|f| f.0)
}

/// Whether two normal forms say the same.
pub(super) fn equal(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    if let (Some(a), Some(b)) = (rational(a), rational(b)) {
        return a == b;
    }
    // Words: `Evelyn` and `evelyn`.
    let words = |t: &str| t.chars().all(char::is_alphabetic);
    a.len() > 1 && words(a) && words(b) && a.eq_ignore_ascii_case(b)
}

/// A decimal, a fraction or a quotient in lowest terms.
fn rational(text: &str) -> Option<(i128, i128)> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (n, d) = fraction(text).or_else(|| decimal(text))?;
    let divisor = gcd(n, d);
    let sign = if negative { -1 } else { 1 };
    (divisor != 0).then(|| (sign * n / divisor, d / divisor))
}

fn fraction(text: &str) -> Option<(i128, i128)> {
    let (over, under) = match text.strip_prefix("\\frac{") {
        Some(rest) => rest.strip_suffix('}')?.split_once("}{")?,
        None => text.split_once('/')?,
    };
    let (signed, over) = match over.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, over),
    };
    let (over, under) = (decimal(over)?, decimal(under)?);
    let n = over.0.checked_mul(under.1)?;
    let d = over.1.checked_mul(under.0)?;
    (d != 0).then_some((signed * n, d))
}

/// Digits with at most one point, at most 18 of them: products of two stay in 128 bit.
fn decimal(text: &str) -> Option<(i128, i128)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{part}");
    let ok = (1..=18).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let under = u32::try_from(part.len()).ok()?;
    ok.then(|| Some((digits.parse().ok()?, 10i128.checked_pow(under)?)))?
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::{equal, extract, normal};

    #[test]
    fn boxes_with_nested_braces() {
        for (text, want) in [
            (r"so $\boxed{\frac{1}{2}}$.", r"\frac{1}{2}"),
            (r"\boxed{a} then \boxed{b}", "b"),
            (
                r"\boxed{\left( 3, \frac{\pi}{2} \right)}",
                r"(3,\frac{\pi}{2})",
            ),
            (r"\boxed{\{1, 2\}}", r"\{1,2\}"),
            (r"\boxed 5$ is it", "5"),
            (r"\fbox{7}", "7"),
            (r"\boxed{ 3{,}000 }", "3{,}000"),
            // The last box was cut off: the one before it counts.
            (r"\boxed{4} and \boxed{5", "4"),
            (r"\boxed {12}", "12"),
        ] {
            assert_eq!(extract(text).as_deref(), Some(want), "{text}");
        }
        for text in [
            "",
            "boxed{5}",
            r"\boxed",
            r"\boxed{",
            r"\boxed{}",
            r"\boxed{ }",
            "the answer is 5",
        ] {
            assert_eq!(extract(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_equal_and_what_is_not() {
        for (a, b) in [
            (r"\dfrac{17}{50}", "0.34"),
            (r"\frac 59", r"\frac{5}{9}"),
            (r"\frac59", r"\tfrac{5}{9}"),
            (r"-\frac{1}{2}", "-.5"),
            (r"\frac{-1}{2}", r"-\frac{1}{2}"),
            (r"\frac{2}{4}", "1/2"),
            ("1,000", "1000"),
            ("10,000.50", "10000.5"),
            (r"5\text{ cm}^2", "5"),
            (r"5 \text{ cm}^{2}", "5.0"),
            (r"\text{Evelyn}", "evelyn"),
            (r"\text{(B)}", "B"),
            (r"90^\circ", "90"),
            (r"90^{\circ}", "90"),
            (r"50\%", "50"),
            (r"\$32.50", "32.5"),
            ("x=5", "5"),
            ("f(x)=5", "5"),
            ("5.", "5"),
            (r"3 \pm 2 \sqrt{2}", r"3\pm2\sqrt2"),
            (r"\sqrt{51}", r"\sqrt {51}"),
            (r"\left(6,31,-1\right)", "(6, 31, -1)"),
            ("p - q", "p-q"),
            (r"x \leq 3", r"x\le3"),
            (r"\frac{\sqrt3}2", r"\frac{\sqrt{3}}{2}"),
            ("\u{2212}4", "-4"),
        ] {
            assert!(
                equal(&normal(a), &normal(b)),
                "{a} and {b}: {} {}",
                normal(a),
                normal(b)
            );
        }
        for (a, b) in [
            ("5", "-5"),
            ("0.33", r"\frac{1}{3}"),
            ("(1,200)", "1200"),
            ("x+y=5", "5"),
            ("p-q", "q-p"),
            ("a", "A"),
            (r"2\sqrt{2}", r"\sqrt{8}"),
            (r"\leftarrow", "arrow"),
            ("1/0", "2/0"),
            ("", "0"),
            ("12", "1,2"),
            (r"\frac{1}{23}", r"\frac{12}{3}"),
        ] {
            assert!(
                !equal(&normal(a), &normal(b)),
                "{a} and {b}: {} {}",
                normal(a),
                normal(b)
            );
        }
    }
}
