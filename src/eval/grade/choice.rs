//! Choices: by letter in its usual phrasings, or by the choice's own words.
//!
//! In this order, the first that says something: the last `answer is (B)` and its kin, a box, a text that is or begins with
//! a letter, the last `(B)`, and last the words of exactly one choice. `A` is a letter only where it cannot be an article.

/// Words that a letter follows.
const BEFORE: [&str; 8] = [
    "answer is",
    "answer:",
    "answer would be",
    "answer choice is",
    "choice is",
    "option is",
    "option",
    "choice",
];

/// Index of the choice that a text settles on.
pub(super) fn extract(text: &str, choices: &[String]) -> Option<usize> {
    phrased(text, choices)
        .or_else(|| boxed(text, choices))
        .or_else(|| leading(text, choices.len()))
        .or_else(|| bracketed(text, choices.len()))
        .or_else(|| worded(text, choices))
}

/// The last `answer is` that a letter or a choice's words follow.
fn phrased(text: &str, choices: &[String]) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    let mut ends: Vec<usize> = BEFORE
        .iter()
        .flat_map(|p| lower.match_indices(p).map(|(at, p)| at + p.len()))
        .collect();
    ends.sort_unstable();
    ends.into_iter().rev().find_map(|at| {
        let rest =
            text[at..].trim_start_matches(|c: char| c.is_whitespace() || ":*\"'`$".contains(c));
        begins(rest, choices).or_else(|| letter(rest, choices.len()))
    })
}

/// A letter that a text begins with, alone or before something that no word goes on with.
fn letter(text: &str, count: usize) -> Option<usize> {
    let open = text.trim_start_matches(['(', '[', '*']);
    let mut chars = open.chars();
    let first = chars.next()?;
    let at = index(first, count)?;
    let rest = chars.as_str();
    let next = rest.chars().next();
    let closed = matches!(next, Some(')' | ']'));
    let ends = match next {
        Some(c) if c.is_alphanumeric() || "'-_{^+=".contains(c) => false,
        Some(' ') => first != 'A' || !article(rest.trim_start()),
        _ => true,
    };
    // A small letter is one only in brackets.
    (closed || ends && first.is_ascii_uppercase()).then_some(at)
}

/// Whether a word follows that `A` would be the article of.
fn article(rest: &str) -> bool {
    let word: String = rest.chars().take_while(|c| c.is_alphabetic()).collect();
    !word.is_empty() && !["because", "since", "as", "for", "and", "is"].contains(&word.as_str())
}

fn index(c: char, count: usize) -> Option<usize> {
    let at = c.to_ascii_uppercase() as usize;
    let at = at.checked_sub('A' as usize)?;
    (at < count.min(26)).then_some(at)
}

/// The only choice whose words a text begins with; of several, the longest.
fn begins(text: &str, choices: &[String]) -> Option<usize> {
    let text = plain(text);
    let found = choices.iter().enumerate().filter(|(_, c)| {
        let words = plain(c);
        !words.is_empty() && (text == words || text.starts_with(&format!("{words} ")))
    });
    found
        .max_by_key(|(at, c)| (c.len(), usize::MAX - at))
        .map(|(at, _)| at)
}

fn boxed(text: &str, choices: &[String]) -> Option<usize> {
    let inner = super::boxed::extract(text)?;
    letter(&inner, choices.len())
        .filter(|_| inner.len() <= 3)
        .or_else(|| {
            choices
                .iter()
                .position(|c| super::boxed::normal(c) == inner)
        })
}

/// A text that is a letter, or whose first line begins with one as a list does: `B. because`.
fn leading(text: &str, count: usize) -> Option<usize> {
    let line = text.trim_start().trim_start_matches(['(', '[', '*']);
    let mut chars = line.chars();
    let first = chars.next()?;
    let at = index(first, count)?;
    let next = chars.next();
    if matches!(next, Some(')' | ']' | '*')) {
        return Some(at);
    }
    let listed = matches!(next, None | Some('\n' | '.' | ':' | ','));
    (listed && first.is_ascii_uppercase()).then_some(at)
}

/// The last `(B)`.
fn bracketed(text: &str, count: usize) -> Option<usize> {
    let all = text.match_indices('(').filter_map(|(at, _)| {
        let mut chars = text[at + 1..].chars();
        let found = index(chars.next()?, count)?;
        (chars.next()? == ')').then_some(found)
    });
    all.fold(None, |_, found| Some(found))
}

/// The only choice whose words stand in a text; one that is a part of another that stands there does not count.
fn worded(text: &str, choices: &[String]) -> Option<usize> {
    let text = format!(" {} ", plain(text));
    let there: Vec<(usize, String)> = choices
        .iter()
        .map(|c| format!(" {} ", plain(c)))
        .enumerate()
        .filter(|(_, c)| c.trim().len() > 1 && text.contains(c.as_str()))
        .collect();
    let mut whole = there.iter().filter(|(at, c)| {
        !there.iter().any(|(other, longer)| {
            other != at && longer.len() > c.len() && longer.contains(c.as_str())
        })
    });
    let first = whole.next()?;
    whole.next().is_none().then_some(first.0)
}

/// Words in small letters, one blank between, no punctuation but the sign of a number.
fn plain(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let sign = |at: usize| {
        let after = chars.get(at + 1).is_some_and(char::is_ascii_digit);
        after
            && !at
                .checked_sub(1)
                .is_some_and(|i| chars[i].is_alphanumeric())
    };
    let spaced = chars.iter().enumerate().map(|(at, c)| match c {
        c if c.is_alphanumeric() => *c,
        '+' if sign(at) => '+',
        '-' | '\u{2212}' if sign(at) => '-',
        _ => ' ',
    });
    let spaced: String = spaced.collect();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::extract;

    fn of(text: &str) -> Option<usize> {
        let choices = [
            "Planetary density will decrease.",
            "Planetary years will become longer.",
            "Planetary days will become shorter.",
            "gravity",
        ];
        extract(text, &choices.map(String::from))
    }

    #[test]
    fn letters_in_their_usual_phrasings() {
        for (text, want) in [
            ("The answer is (C).", 2),
            ("the correct answer is C", 2),
            ("The answer is **B** because years", 1),
            ("Answer: D", 3),
            ("Answer:\nD", 3),
            ("C", 2),
            ("C.", 2),
            ("(c)", 2),
            ("b) Planetary years", 1),
            ("B. Planetary years will become longer.", 1),
            ("It could be option A, but the answer is C.", 2),
            ("The answer is A because the density falls", 0),
            ("The answer is A.", 0),
            ("I think (A) or (B), so (B)", 1),
            (r"Thus $\boxed{D}$", 3),
            (r"Thus $\boxed{\text{(D)}}$", 3),
            ("Option B is right", 1),
            // What is said last counts.
            ("The answer is B. No, wait: the answer is D.", 3),
        ] {
            assert_eq!(of(text), Some(want), "{text}");
        }
    }

    #[test]
    fn the_words_of_a_choice() {
        assert_eq!(
            of("The answer is planetary days will become shorter"),
            Some(2)
        );
        assert_eq!(of("Days: PLANETARY  DAYS will become shorter!"), Some(2));
        assert_eq!(of("It is gravity."), Some(3));
        // Words that begin with what looks like a letter are words.
        let signs = ["mass of +3.", "mass of -3."].map(String::from);
        assert_eq!(extract("The answer is: mass of -3", &signs), Some(1));
        let made = ["C_{2}H_{6}", "A cat", "b", "CO"].map(String::from);
        assert_eq!(extract("The answer is C_{2}H_{6}.", &made), Some(0));
        assert_eq!(extract("The answer is A cat.", &made), Some(1));
        assert_eq!(extract("The answer is C_{2}", &made), None);
        // Two of them: it does not say which.
        assert_eq!(of("Planetary years will become longer, and gravity"), None);
        let nested = ["control", "the control group", "x", "y"].map(String::from);
        assert_eq!(extract("it is the control group", &nested), Some(1));
        assert_eq!(extract("it is the control", &nested), Some(0));
    }

    #[test]
    fn no_answer_is_no_answer() {
        for text in [
            "",
            "A planet spins.",
            "The answer is a planet",
            "The answer is A planet that spins",
            "E",
            "(E)",
            "Because of the gravitation",
            "A-level physics says nothing",
            "Aliens",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
