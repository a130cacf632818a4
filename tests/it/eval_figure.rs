//! The figure of an evaluation: what is a line, what is written, and that nothing covers anything.

use kvplan::eval::answer::{Evaluation, PolicyResult, Question};
use kvplan::eval::figure::figure;
use kvplan::eval::policies;
use kvplan::policy;
use kvplan::report::plot::face::Face;
use kvplan::report::plot::{Image, eval as drawing, policies as side_by_side};

fn result(text: &str, held: [f64; 2], kl: f64) -> PolicyResult {
    PolicyResult {
        policy: text.into(),
        resolved: policy::parse(text).unwrap().to_string(),
        n: 20,
        predicted_tokens: 4000,
        kl_mean: Some(kl),
        kl_low: Some(0.7 * kl),
        kl_high: Some(1.5 * kl),
        retained_tokens_mean: held[0],
        hbm_peak_tokens_mean: held[1],
        ..PolicyResult::default()
    }
}

fn evaluation(policies: Vec<PolicyResult>) -> Evaluation {
    Evaluation {
        schema: "kvplan/eval/1".into(),
        kvplan_version: "0.1.0".into(),
        question: Question {
            model: "SmolLM2 135M Instruct".into(),
            weights_sha256: "b179".into(),
            quantisation: "Q4_1".into(),
            problems: "here/gsm8k.jsonl".into(),
            raw: false,
            teacher_forced: false,
            problems_without_given_text: None,
            max_new_tokens: 512,
            temperature: 0.0,
            top_p: 1.0,
            seed: 0,
            t2: "per-token-8".into(),
            positions: "kept".into(),
            equal: None,
        },
        policies,
        problems: Vec::new(),
        notes: Vec::new(),
    }
}

fn grid() -> Evaluation {
    let mut all = vec![result("full", [400.0, 610.0], 0.0)];
    let per = "semantics=per-interval";
    for (hbm, peak) in [("0.3", 330.0), ("0.5", 410.0), ("0.7", 480.0)] {
        for (evict, held, kl) in [
            ("0.01", 395.0, 1e-4),
            ("0.03", 380.0, 6e-4),
            ("0.1", 330.0, 3e-3),
        ] {
            all.push(result(
                &format!("four-tier:hbm={hbm},evict={evict},{per}"),
                [held, peak - 60.0 * kl],
                kl,
            ));
        }
    }
    all.push(result("four-tier:hbm=0.5,evict=0", [400.0, 420.0], 0.0));
    for (window, held, kl) in [(100, 160.0, 0.06), (200, 250.0, 0.02), (300, 330.0, 0.009)] {
        all.push(result(
            &format!("streaming-llm:window={window}"),
            [held, held + 5.0],
            kl,
        ));
    }
    for (budget, held, kl) in [(100, 170.0, 0.04), (200, 260.0, 0.011)] {
        all.push(result(
            &format!("h2o:heavy={budget},recent={budget}"),
            [held, held + 9.0],
            kl,
        ));
    }
    evaluation(all)
}

#[test]
fn families_are_lines() {
    let f = figure(&grid());
    assert_eq!(f.families, ["four-tier", "streaming-llm", "h2o"]);
    let [retained, hbm] = &f.panels;
    // Against tokens retained four-tier is one line of four points: hbm makes no difference there.
    let lengths: Vec<usize> = retained.lines.iter().map(|l| l.points.len()).collect();
    assert_eq!(lengths, [4, 3, 2]);
    let x: Vec<f64> = retained.lines[0].points.iter().map(|p| p.across).collect();
    assert_eq!(x, [330.0, 380.0, 395.0, 400.0]);
    // Against HBM there is a line an eviction, and along it only hbm changes.
    let four: Vec<_> = hbm.lines.iter().filter(|l| l.family == 0).collect();
    assert_eq!(four.len(), 4);
    assert!(
        four.iter()
            .all(|l| l.points.iter().all(|p| p.budget == l.points[0].budget))
    );
    assert!(
        f.subtitle.contains("n = 0 problems of gsm8k.jsonl") && f.subtitle.contains("4,000 tokens")
    );
    assert!(f.caption.contains("one vertical line"));
    // Two scores are two families, named by what tells them apart.
    let two = evaluation(vec![
        result("full", [9.0, 9.0], 0.0),
        result(
            "four-tier:score=per-age,evict=0.1,semantics=cumulative",
            [5.0, 5.0],
            0.1,
        ),
        result("four-tier:evict=0.1,semantics=cumulative", [5.0, 5.0], 0.2),
    ]);
    assert_eq!(
        figure(&two).families,
        ["four-tier, score per-age", "four-tier, score cumulative"]
    );
}

/// More families than colours, their points close together.
fn many() -> Evaluation {
    let text = [
        "four-tier:evict=0.1,semantics=cumulative",
        "four-tier:evict=0.1,semantics=cumulative,score=per-age",
        "four-tier:evict=0.1,semantics=cumulative,score=last",
        "stream-evict:budget=0.5",
        "streaming-llm:window=64",
        "h2o:heavy=32,recent=32",
        "tova:budget=64",
        "r-kv:budget=64",
        "random:budget=64,window=16",
    ];
    let mut all = vec![result("full", [9.0, 9.0], 0.0)];
    all.extend(
        (1u8..)
            .zip(text)
            .map(|(i, t)| result(t, [5.0, 5.0], 0.01 * f64::from(i))),
    );
    evaluation(all)
}

#[test]
fn words_stay_on_the_canvas_and_off_each_other() {
    let face = Face::embedded().unwrap();
    for e in [
        grid(),
        evaluation(vec![result("full", [9.0, 9.0], 0.0)]),
        evaluation(Vec::new()),
        many(),
    ] {
        let scene = drawing::scene(&figure(&e)).unwrap();
        let boxes: Vec<_> = scene
            .words
            .iter()
            .map(|w| (w.text.clone(), w.bounds(&face)))
            .collect();
        for (i, (text, r)) in boxes.iter().enumerate() {
            let (w, h) = (f64::from(scene.size.0), f64::from(scene.size.1));
            assert!(
                r.left >= 0.0 && r.right <= w && r.top >= 0.0 && r.bottom <= h,
                "{text}: {r:?}"
            );
            for (other, s) in &boxes[..i] {
                assert!(
                    !r.grown(-1.0).meets(&s.grown(-1.0)),
                    "`{text}` and `{other}`"
                );
            }
        }
        let svg = drawing::draw(&figure(&e), Image::Svg).unwrap();
        assert_eq!(svg, drawing::draw(&figure(&e), Image::Svg).unwrap());
        if let Some(folder) = std::env::var_os("KVPLAN_KEEP_FIGURES") {
            let path = std::path::Path::new(&folder).join(format!("eval{}.png", e.policies.len()));
            std::fs::write(path, drawing::draw(&figure(&e), Image::Png).unwrap()).unwrap();
        }
    }
}

/// Two policies at equal HBM, one with a right answer: 2 right of 20 at 300 tokens each cost 3,000 tokens a right answer, and
/// an accuracy between 0.05 and 0.25 means 300 / 0.25 = 1,200 to 300 / 0.05 = 6,000.
#[test]
fn policies_side_by_side_have_their_costs_and_their_order() {
    let mut e = evaluation(vec![
        result("full", [400.0, 610.0], 0.0),
        result("h2o:heavy=64,recent=64", [120.0, 130.0], 2e-3),
        result("streaming-llm:window=120", [124.0, 131.0], 9e-4),
    ]);
    assert!(!policies::side_by_side(&e));
    let graded = &mut e.policies[1];
    (graded.graded, graded.correct) = (20, Some(2));
    (graded.tokens_per_answer, graded.tokens_per_correct_answer) = (Some(300.0), Some(3000.0));
    (graded.accuracy, graded.accuracy_low, graded.accuracy_high) =
        (Some(0.1), Some(0.05), Some(0.25));
    assert!(policies::side_by_side(&e));
    let p = policies::policies(&e);
    let names: Vec<&str> = p.rows.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(
        names,
        ["streaming-llm", "h2o"],
        "the nearest to the full cache first"
    );
    assert_eq!(p.rows[0].tokens, None);
    let (cost, (low, high)) = p.rows[1].tokens.unwrap();
    assert!(
        (cost - 3000.0).abs() < 1e-9
            && (low - 1200.0).abs() < 1e-9
            && (high.unwrap() - 6000.0).abs() < 1e-9
    );
    let scene = side_by_side::scene(&p).unwrap();
    let face = Face::embedded().unwrap();
    for (i, a) in scene.words.iter().enumerate() {
        let r = a.bounds(&face);
        assert!(
            r.left >= 0.0
                && r.right <= f64::from(scene.size.0)
                && r.bottom <= f64::from(scene.size.1),
            "{}",
            a.text
        );
        for b in &scene.words[..i] {
            let other = b.bounds(&face);
            let apart =
                r.top + 2.0 >= other.bottom || other.top + 2.0 >= r.bottom || !r.meets(&other);
            assert!(apart, "`{}` on `{}`", a.text, b.text);
        }
    }
}
