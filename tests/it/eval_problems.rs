//! Files of problems: the shared ones read whole and grade their own solutions; what is wrong is named by line and key.

use std::path::{Path, PathBuf};

use kvplan::eval::grade::Gold;
use kvplan::eval::problems::{Problem, read};

fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("KVPLAN_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let path = root.join("problems").join(name);
    path.exists().then_some(path)
}

fn of(text: &str) -> Result<Vec<Problem>, kvplan::error::Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.jsonl");
    std::fs::write(&path, text).unwrap();
    read(&path, usize::MAX)
}

/// Problems whose own reference text is graded right.
fn right(problems: &[Problem]) -> usize {
    let graded = problems.iter().filter(|p| {
        let (gold, text) = (p.gold.as_ref().unwrap(), p.reference.as_ref().unwrap());
        gold.extract(text).is_some_and(|a| gold.is(&a))
    });
    graded.count()
}

#[test]
fn shared_problems_grade_their_own_solutions() {
    let names = [
        "gsm8k_test_300.jsonl",
        "math500_300.jsonl",
        "arc_challenge_300.jsonl",
    ];
    let Some(paths) = names.map(shared).into_iter().collect::<Option<Vec<_>>>() else {
        skip!("graded solutions: no ../shared/problems beside the checkout");
    };
    let all: Vec<Vec<Problem>> = paths.iter().map(|p| read(p, usize::MAX).unwrap()).collect();
    let [gsm8k, math, arc] = &all[..] else {
        unreachable!()
    };
    assert_eq!([gsm8k.len(), math.len(), arc.len()], [300; 3]);
    assert_eq!(right(gsm8k), 300);
    assert_eq!(right(math), 300);
    for p in arc {
        let gold = p.gold.as_ref().unwrap();
        let Gold::Choice { right, choices } = gold else {
            panic!("{gold:?}");
        };
        assert!(
            p.message
                .contains(&format!("\n{}. {}", gold.shown(), choices[*right]))
        );
        for (i, text) in choices.iter().enumerate() {
            let letter = char::from(b'A' + u8::try_from(i).unwrap());
            for answer in [
                format!("The correct answer is {letter}."),
                format!("{letter}. {text}"),
                format!("({letter})"),
                format!("It turns out that the answer is: {text}"),
            ] {
                let found = gold.extract(&answer);
                // Two choices of one problem may be spelt alike.
                let same = found.as_deref() == Some(&letter.to_string())
                    || choices.iter().filter(|c| *c == text).count() > 1;
                assert!(same, "line {}: {answer}: {found:?} of {choices:?}", p.line);
            }
        }
    }
    // A wrong solution is wrong: each one graded by the problem after it.
    for all in [gsm8k, math] {
        let shifted = all.iter().zip(all.iter().skip(1));
        let lucky = shifted.filter(|(p, next)| {
            let gold = p.gold.as_ref().unwrap();
            gold.extract(next.reference.as_ref().unwrap())
                .is_some_and(|a| gold.is(&a))
        });
        assert!(lucky.count() < 20);
    }
}

#[test]
fn each_form_gives_its_parts() {
    let lines = [
        r#"{"question": "q1", "answer": "so #### 1,200", "final": "1200"}"#,
        r#"{"question": "q2", "answer": "12 of 13\n#### 7"}"#,
        r#"{"problem": "p1", "solution": "\\boxed{\\frac12}", "answer": ""}"#,
        "",
        r#"{"query": "c1", "choices": ["red", "blue"], "gold": 1}"#,
        r#"{"prompt": "free", "text": "done"}"#,
        r#""only a text""#,
    ];
    let all = of(&lines.join("\n")).unwrap();
    let golds: Vec<Option<String>> = all
        .iter()
        .map(|p| p.gold.as_ref().map(Gold::shown))
        .collect();
    let some = |t: &str| Some(t.to_string());
    assert_eq!(
        golds,
        [
            some("1200"),
            some("7"),
            some("\\frac{1}{2}"),
            some("B"),
            None,
            None
        ]
    );
    assert_eq!(
        all.iter().map(|p| p.line).collect::<Vec<_>>(),
        [1, 2, 3, 5, 6, 7]
    );
    assert_eq!(
        all[3].message,
        "c1\nA. red\nB. blue\nAnswer with the letter of the right choice."
    );
    assert_eq!(
        (all[4].message.as_str(), all[4].reference.as_deref()),
        ("free", Some("done"))
    );
    assert_eq!(all[5].message, "only a text");
}

#[test]
fn what_is_wrong_is_named_by_line_and_key() {
    for (text, line, words) in [
        ("{", 1, "not JSON"),
        ("\"fine\"\n{\"question\": \"q\"}", 2, "`final`"),
        (
            r#"{"question": "q", "final": "none"}"#,
            1,
            "`none` holds no number",
        ),
        (r#"{"question": 3.5, "final": []}"#, 1, "`final` is no text"),
        (r#"{"problem": "p", "solution": "no box"}"#, 1, "boxed"),
        (r#"{"problem": "p"}"#, 1, "`answer`"),
        (r#"{"query": "c", "gold": 0}"#, 1, "`choices`"),
        (
            r#"{"query": "c", "choices": ["a"], "gold": 0}"#,
            1,
            "holds 1",
        ),
        (
            r#"{"query": "c", "choices": ["a", 2], "gold": 0}"#,
            1,
            "no text",
        ),
        (
            r#"{"query": "c", "choices": ["a", "b"], "gold": 2}"#,
            1,
            "`gold`",
        ),
        (
            r#"{"query": "c", "choices": ["a", "b"], "gold": -1}"#,
            1,
            "`gold`",
        ),
        (r#"{"prompt": {"a": 1}}"#, 1, "`prompt` is no text"),
        (r#"{"prompt": "  "}"#, 1, "empty"),
        (r#"{"other": "x"}"#, 1, "none of the keys"),
        ("[1]", 1, "neither"),
        ("null", 1, "neither"),
    ] {
        let e = of(text).unwrap_err();
        assert!(e.message.contains(&format!("line {line}:")), "{text}: {e}");
        assert!(e.message.contains(words), "{text}: {e}");
        assert_eq!(e.exit_code(), 3, "{text}");
        assert!(e.help.is_some());
    }
    for text in ["", "\n \n"] {
        let e = of(text).unwrap_err();
        assert!(e.message.contains("holds no problem"), "{e}");
        assert_eq!(e.exit_code(), 3);
    }
    assert_eq!(read(Path::new("not/there"), 1).unwrap_err().exit_code(), 2);
    assert_eq!(of("\"a\"\n\"b\"").unwrap().len(), 2);
}
