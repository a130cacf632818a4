//! The figure: what it says, where it puts it, and that it is never broken.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use kvplan::plan::curve::{self, Curve};
use kvplan::report::plot::Image;
use kvplan::report::plot::color::SKY;
use kvplan::report::plot::face::Face;
use kvplan::report::plot::how_far;
use kvplan::report::plot::place::Rect;
use kvplan::report::plot::scene::{Scene, Shape};
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Scenario, Settings, Verb, resolve};
use proptest::prelude::*;

fn scenario(given: &[(&str, &str)]) -> Scenario {
    let mut settings = Settings::defaults(Verb::Simulate);
    for (name, text) in given {
        settings
            .set(name, &[(*text).to_string()], Origin::Flag)
            .unwrap();
    }
    resolve::scenario(&settings).unwrap()
}

fn curve_of(given: &[(&str, &str)]) -> Curve {
    let s = scenario(given);
    curve::curve(&s, s.prompt + s.output).unwrap()
}

/// Deployments that differ in what there is to draw.
static DEPLOYMENTS: LazyLock<Vec<Curve>> = LazyLock::new(|| {
    let small = [
        ("model", "deepseek-r1-distill-qwen-7b"),
        ("weights", "bf16"),
    ];
    let desktop = |more: &[(&'static str, &'static str)]| {
        curve_of(&[&small[..], &[("hardware", "rtx-4090")], more].concat())
    };
    vec![
        curve_of(&[("hardware", "gh200")]),
        curve_of(&[("hardware", "h100-sxm")]),
        curve_of(&[("hardware", "rtx-pro-6000")]),
        curve_of(&[("hardware", "h200-sxm")]),
        curve_of(&[("hardware", "h200-sxm"), ("output", "64512")]),
        curve_of(&[("hardware", "h200-sxm"), ("gpus", "2"), ("batch", "1")]),
        curve_of(&[
            ("hardware", "h100-sxm"),
            ("prompt", "16384"),
            ("output", "4096"),
        ]),
        desktop(&[("output", "31744")]),
        desktop(&[("output", "200000"), ("batch", "4")]),
        desktop(&[("prompt", "14000"), ("output", "3000")]),
    ]
});

/// A curve with a wall in its middle, made up: T1 modes as given from the wall (third point) on.
fn made(engine: [Option<f64>; 3], stream: [Option<f64>; 3]) -> Curve {
    let past = |v: [Option<f64>; 3]| [&[None, None][..], &v].concat();
    Curve {
        title: "a < b & c".into(),
        subtitle: "made up".into(),
        caption: "made up".into(),
        tokens: vec![1024, 2048, 4096, 8192, 16384],
        in_hbm: vec![Some(200.0), Some(200.0), Some(100.0), None, None],
        engine: past(engine),
        stream: past(stream),
        staged: past(stream),
        host: vec![None; 5],
        wall: 4096,
        free_until: 5000,
    }
}

fn shaded(scene: &Scene) -> Vec<&Vec<(f64, f64)>> {
    let sky = |s: &&Shape| matches!(s, Shape::Area { color, .. } if *color == SKY);
    scene
        .shapes
        .iter()
        .filter(sky)
        .map(|s| match s {
            Shape::Area { points, .. } => points,
            _ => unreachable!(),
        })
        .collect()
}

fn says(scene: &Scene, text: &str) -> bool {
    scene.words.iter().any(|w| w.text.contains(text))
}

#[test]
fn labels_lie_on_the_canvas_and_never_on_one_another() {
    let face = Face::embedded().unwrap();
    let canvas = Rect {
        left: 0.0,
        top: 0.0,
        right: f64::from(how_far::SIZE.0),
        bottom: f64::from(how_far::SIZE.1),
    };
    for c in DEPLOYMENTS.iter() {
        let scene = how_far::scene(c).unwrap();
        for (i, a) in scene.words.iter().enumerate() {
            let r = a.bounds(&face);
            assert!(canvas.holds(&r), "{}: `{}` at {r:?}", c.title, a.text);
            for b in &scene.words[..i] {
                let (a, b) = (&a.text, b);
                assert!(
                    !r.meets(&b.bounds(&face)),
                    "{}: `{a}` on `{}`",
                    c.title,
                    b.text
                );
            }
        }
    }
}

#[test]
fn every_number_in_every_svg_is_finite() {
    for c in DEPLOYMENTS.iter() {
        let svg = String::from_utf8(how_far::draw(c, Image::Svg).unwrap()).unwrap();
        let bare = svg.to_ascii_lowercase();
        assert!(
            !bare.contains("nan") && !bare.contains("inf\""),
            "{}",
            c.title
        );
        let mut numbers = 0;
        for name in [" points=\"", " x=\"", " y=\"", " cx=\"", " cy=\""] {
            for rest in svg.split(name).skip(1) {
                let (values, _) = rest.split_once('"').unwrap();
                for v in values.split([' ', ',']).filter(|v| !v.is_empty()) {
                    let v: f64 = v.parse().unwrap();
                    assert!((-10.0..=6410.0).contains(&v), "{}: {name}{values}", c.title);
                    numbers += 1;
                }
            }
        }
        assert!(numbers > 100, "{}: {numbers}", c.title);
    }
}

#[test]
fn modes_leave_the_curve_of_all_in_hbm_at_the_wall() {
    for c in DEPLOYMENTS.iter() {
        let Some(i) = c.tokens.iter().position(|t| *t == c.wall) else {
            continue;
        };
        assert_eq!(c.stream[i], c.in_hbm[i]);
        // The first 64 tokens past the wall cost staging, one interval and a page: a small step, never a jump.
        for series in [&c.stream, &c.host] {
            let step = series[i + 1].unwrap() / c.in_hbm[i].unwrap();
            assert!((0.93..1.0).contains(&step), "{}: {step}", c.title);
        }
    }
}

#[test]
fn the_wall_is_what_simulate_says_a_request_holds() {
    let given = [("hardware", "gh200")];
    let holds = kvplan::plan::simulate(&scenario(&given))
        .unwrap()
        .holds_tokens_per_request;
    assert_eq!(u64::from(curve_of(&given).wall), holds);
}

#[test]
fn shade_is_cut_where_the_curves_cross() {
    // Stream 100, 80, 20 against 100, 40, 40: it pays up to a place between 8,192 and 16,384. On a log scale stream
    // falls by log 4 while the gain at 8,192 is log 2, and the engine is level: half way, at 11,585.
    let c = made(
        [Some(100.0), Some(40.0), Some(40.0)],
        [Some(100.0), Some(80.0), Some(20.0)],
    );
    let scene = how_far::scene(&c).unwrap();
    let [polygon] = shaded(&scene)[..] else {
        panic!("one piece");
    };
    let x = |t: f64| {
        let axis: Vec<f64> = scene
            .words
            .iter()
            .filter(|w| w.text == "1Ki" || w.text == "16Ki")
            .map(|w| w.at.0)
            .collect();
        axis[0] + (axis[1] - axis[0]) * (t / 1024.0).log2() / 4.0
    };
    let ends = polygon.iter().map(|p| p.0);
    let (left, right) = ends.fold((f64::MAX, 0.0_f64), |(l, r), v| (l.min(v), r.max(v)));
    assert!((left - x(4096.0)).abs() < 0.01, "{left}");
    assert!((right - x(11_585.24)).abs() < 0.01, "{right}");
    assert!(says(&scene, "tiering pays"));
}

#[test]
fn nothing_is_shaded_where_tiering_never_pays() {
    let engine = [Some(100.0), Some(90.0), Some(80.0)];
    let scene = how_far::scene(&made(engine, [Some(100.0), Some(50.0), Some(20.0)])).unwrap();
    assert!(shaded(&scene).is_empty());
    assert!(!says(&scene, "tiering pays"));
}

#[test]
fn an_engine_that_cannot_hold_one_request_says_so() {
    let stream = [Some(100.0), Some(80.0), Some(50.0)];
    for engine in [[None; 3], [Some(100.0), Some(50.0), None]] {
        let scene = how_far::scene(&made(engine, stream)).unwrap();
        assert!(says(&scene, "cannot hold one request"), "{engine:?}");
        assert_eq!(shaded(&scene).len(), 1);
    }
}

#[test]
fn markup_in_names_is_escaped() {
    let one = [Some(100.0); 3];
    let svg = String::from_utf8(how_far::draw(&made(one, one), Image::Svg).unwrap()).unwrap();
    assert!(svg.contains("<title>a &lt; b &amp; c</title>"));
    assert!(!svg.contains("a < b"));
}

proptest! {
    /// A line crosses a box if one of many points on it lies in a slightly larger one, and only then.
    #[test]
    fn crossing_agrees_with_sampling(a in point(), b in point(), c in point(), w in 1.0..40.0, h in 1.0..40.0) {
        let r = Rect::around(c, w, h);
        let hit = |r: &Rect| (0..=2000).any(|i| {
            let s = f64::from(i) / 2000.0;
            let (x, y) = (a.0 + s * (b.0 - a.0), a.1 + s * (b.1 - a.1));
            r.left <= x && x <= r.right && r.top <= y && y <= r.bottom
        });
        if hit(&r) {
            prop_assert!(r.crossed(a, b));
        }
        if r.crossed(a, b) {
            prop_assert!(hit(&r.grown(0.2)));
        }
    }
}

fn point() -> impl Strategy<Value = (f64, f64)> {
    (0.0..100.0, 0.0..100.0)
}

fn plot(args: &[&str]) -> (i32, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .arg("plot")
        .args(args)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!err.contains("panicked"), "{err}");
    (out.status.code().unwrap(), err)
}

fn remade(folder: &Path, name: &str) -> Vec<u8> {
    let path = folder.join(name);
    let (code, err) = plot(&["--hardware", "gh200", "-o", path.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    std::fs::read(path).unwrap()
}

fn committed(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("reports/gallery")
        .join(name);
    std::fs::read(path).unwrap()
}

const REMAKE: &str = "the committed figure is stale; look at the new one, then commit it: KVPLAN=target/release/kvplan \
                      reports/gallery/make.sh; reports/gallery/how-far";

fn pixels(png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(png).read_info().unwrap();
    let mut out = vec![0; reader.output_buffer_size()];
    let info = reader.next_frame(&mut out).unwrap();
    (info.width, info.height, out)
}

#[test]
fn the_gallery_is_what_the_command_makes_now() {
    let folder = tempfile::tempdir().unwrap();
    let svg = remade(folder.path(), "a.svg");
    assert_eq!(svg, remade(folder.path(), "b.svg"), "two runs differ");
    assert!(svg == committed("how-far.svg"), "{REMAKE}.svg");
    let text = String::from_utf8(svg).unwrap();
    for said in [
        "DeepSeek-R1-Distill-Llama-70B on GH200",
        "HBM full: ",
        "tiering pays",
        "not calibrated",
    ] {
        assert!(text.contains(said), "`{said}` is not in the figure");
    }
    let png = remade(folder.path(), "a.png");
    assert!(png == remade(folder.path(), "b.png"), "two runs differ");
    let (w, h, new) = pixels(&png);
    assert_eq!((w, h), (2 * how_far::SIZE.0, 2 * how_far::SIZE.1));
    let (w, h, old) = pixels(&committed("how-far.png"));
    assert_eq!((w, h), (2 * how_far::SIZE.0, 2 * how_far::SIZE.1));
    let off = new
        .iter()
        .zip(&old)
        .filter(|(a, b)| a.abs_diff(**b) > 8)
        .count();
    assert!(
        off < new.len() / 10_000,
        "{off} of {} differ: {REMAKE}.png",
        new.len()
    );
    let colors: BTreeSet<&[u8]> = new.chunks(3).collect();
    assert!(colors.len() > 100, "edges are not smoothed");
}

#[test]
fn what_cannot_be_drawn_is_refused_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.svg");
    let file = file.to_str().unwrap();
    let refused = |code: i32, args: &[&str], texts: &[&str]| {
        let (got, err) = plot(args);
        assert_eq!(got, code, "{args:?}: {err}");
        for text in texts {
            assert!(err.contains(text), "{args:?}: `{text}` is not in {err}");
        }
    };
    refused(
        2,
        &["--kind", "how-fat", "-o", file],
        &["`how-fat`", "did you mean `how-far`"],
    );
    refused(2, &[], &["needs a file", "-o FILE.svg"]);
    refused(2, &["-o", "x.jpg"], &["x.jpg", "FILE.png"]);
    refused(2, &["-o", "nowhere/at/all.svg"], &["nowhere/at/all.svg"]);
    refused(
        2,
        &["-o", file, "--output", "100"],
        &["too short", "--output over 256"],
    );
    refused(
        2,
        &["-o", file, "--output", "2000000"],
        &["too long", "1,048,576"],
    );
    refused(
        2,
        &["-o", file, "--batch", "100000"],
        &["too large", "lower --batch"],
    );
    refused(2, &["-o", file, "--batch", "0"], &["batch"]);
    refused(
        1,
        &["-o", file, "--hardware", "rtx-4090"],
        &["short by", "--weights"],
    );
    assert!(!Path::new(file).exists(), "a refused figure left a file");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let (code, err) = plot(&["--list"]);
    assert_eq!((code, err.as_str()), (0, ""));
}
