//! The verbs calibrate, doctor and compare, from outside.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kvplan::calibrate::raw::Raw;
use tempfile::TempDir;

use crate::calibrate_make::{run, times};

fn kvplan(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvplan"));
    command.current_dir(dir).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with the raw file of the known truth.
fn folder() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("raw.csv");
    fs::write(&raw, run().text()).unwrap();
    (dir, raw)
}

const STEM: &str = "build-7-rtx-5080-2026-11-30";

#[test]
fn a_recorded_run_gives_the_profile_that_is_kept() {
    let (dir, _) = folder();
    let out = kvplan(dir.path(), &["calibrate", "--from", "raw.csv", "-q"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("MEASURED AND FITTED"));
    let profile = dir.path().join(format!("calibration/{STEM}.toml"));
    let got = fs::read_to_string(&profile).unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/goldens/calibrate.toml");
    if std::env::var_os("KVPLAN_BLESS").is_some() {
        fs::write(&kept, &got).unwrap();
    }
    assert_eq!(got, fs::read_to_string(kept).unwrap());
    // The measurements that it names lie beside it.
    let raw = fs::read_to_string(dir.path().join(format!("calibration/raw/{STEM}.csv")));
    assert_eq!(raw.unwrap(), run().text());
    // It is a machine like any other.
    let path = profile.display().to_string();
    let shown = kvplan(dir.path(), &["show", "hardware", &path]);
    assert!(
        text(&shown.stdout).contains("copy.pinned.h2d.bandwidth"),
        "{}",
        text(&shown.stderr)
    );
    let model = [
        "--model",
        "llama-3.1-8b",
        "--output",
        "64",
        "--batch",
        "1",
        "--weights",
        "int4",
    ];
    let simulated = kvplan(
        dir.path(),
        &[
            &["simulate", "--trace", "none", "--hardware", &path][..],
            &model,
        ]
        .concat(),
    );
    assert!(simulated.status.success(), "{}", text(&simulated.stderr));
}

/// A profile of the same name that says something else is kept beside the new one; the same one is left alone.
#[test]
fn an_older_profile_is_kept() {
    let (dir, _) = folder();
    let calibrate = || kvplan(dir.path(), &["calibrate", "--from", "raw.csv"]);
    let folder = dir.path().join("calibration");
    let profile = folder.join(format!("{STEM}.toml"));
    assert!(calibrate().status.success());
    let first = fs::read_to_string(&profile).unwrap();
    assert!(calibrate().status.success());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2); // and raw/
    for n in 1..=2 {
        let mine = format!("{first}# mine, {n}\n");
        fs::write(&profile, &mine).unwrap();
        let out = calibrate();
        assert!(text(&out.stderr).contains(&format!("{STEM}.{n}.toml")));
        let kept = fs::read_to_string(folder.join(format!("{STEM}.{n}.toml")));
        assert_eq!(kept.unwrap(), mine);
        assert_eq!(fs::read_to_string(&profile).unwrap(), first);
    }
}

/// Runs of one name with other times, `factor` as slow: how many profiles there are of it afterwards.
fn slower(dir: &Path, factor: f64) -> PathBuf {
    let mut raw = Raw::default();
    raw.head = run().head;
    for series in run().series() {
        for us in &series.us {
            raw.push(series.point.clone(), series.part, us * factor);
        }
    }
    let path = dir.join(format!("raw-{factor}.csv"));
    fs::write(&path, raw.text()).unwrap();
    path
}

/// An older profile keeps the measurements behind it, under its number.
#[test]
fn an_older_profile_keeps_its_measurements() {
    let (dir, first) = folder();
    let of = |raw: &Path| kvplan(dir.path(), &["calibrate", "--from", raw.to_str().unwrap()]);
    let second = slower(dir.path(), 1.25);
    assert!(of(&first).status.success());
    let profile = dir.path().join(format!("calibration/{STEM}.toml"));
    let was = fs::read_to_string(&profile).unwrap();
    assert!(of(&second).status.success());
    let kept = dir.path().join(format!("calibration/{STEM}.1.toml"));
    let line = |name: &str| format!("raw = \"raw/{name}.csv\"");
    let kept = fs::read_to_string(kept).unwrap();
    assert_eq!(kept, was.replace(&line(STEM), &line(&format!("{STEM}.1"))));
    let raw =
        |name: &str| fs::read(dir.path().join(format!("calibration/raw/{name}.csv"))).unwrap();
    assert_eq!(raw(&format!("{STEM}.1")), fs::read(first).unwrap());
    assert_eq!(raw(STEM), fs::read(second).unwrap());
}

/// Six at once: each profile is there afterwards, and each has its measurements.
#[test]
fn runs_at_once_lose_nothing() {
    let (dir, _) = folder();
    let raws: Vec<PathBuf> = (0..6)
        .map(|i| slower(dir.path(), 1.0 + 0.1 * f64::from(i)))
        .collect();
    std::thread::scope(|s| {
        for raw in &raws {
            let dir = dir.path();
            s.spawn(move || {
                let out = kvplan(dir, &["calibrate", "--from", raw.to_str().unwrap(), "-q"]);
                assert!(out.status.success(), "{}", text(&out.stderr));
            });
        }
    });
    let folder = dir.path().join("calibration");
    for name in [STEM.to_string()]
        .into_iter()
        .chain((1..6).map(|n| format!("{STEM}.{n}")))
    {
        let profile = fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
        assert!(
            profile.contains(&format!("raw = \"raw/{name}.csv\"")),
            "{name}"
        );
        assert!(folder.join(format!("raw/{name}.csv")).is_file(), "{name}");
    }
}

/// A profile whose calibration says what cannot be is refused at its line.
#[test]
fn a_profile_that_contradicts_itself_is_refused() {
    let (dir, _) = folder();
    assert!(
        kvplan(dir.path(), &["calibrate", "--from", "raw.csv"])
            .status
            .success()
    );
    let profile = fs::read_to_string(dir.path().join(format!("calibration/{STEM}.toml"))).unwrap();
    let at = profile.find("[[calibration.parameter]]").unwrap();
    let value = profile[at..]
        .lines()
        .find(|l| l.starts_with("value = "))
        .unwrap();
    for (was, now, told) in [
        (value, "value = nan", "no finite number"),
        (value, "value = -1.0", "within its own interval"),
        (
            "unit = \"s\"",
            "unit = \"hours\"",
            "not s, bytes_per_s or flop_per_s",
        ),
        ("predicted_us = ", "predicted_us = inf # ", "not finite"),
    ] {
        let (head, rest) = profile.split_at(at);
        let text = head.to_string() + &rest.replacen(was, now, 1);
        assert_ne!(text, profile, "{was}");
        fs::write(dir.path().join("bad.toml"), text).unwrap();
        let out = kvplan(dir.path(), &["show", "hardware", "bad.toml"]);
        assert_eq!(out.status.code(), Some(3), "{now}");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            said.contains(told) && said.contains("bad.toml:"),
            "{now}: {said}"
        );
    }
}

#[test]
fn formats_and_standard_input() {
    let (dir, raw) = folder();
    let args = [
        "calibrate",
        "--from",
        "-",
        "-o",
        "out",
        "--anonymous",
        "--format",
        "json",
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .current_dir(dir.path())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&fs::read(raw).unwrap())
        .unwrap();
    let out = child.wait_with_output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(answer["schema"], "kvplan/calibrate/1");
    assert_eq!(answer["profile"], "host-rtx-5080-2026-11-30");
    assert!(!text(&out.stdout).contains("build-7"));
    let csv = kvplan(
        dir.path(),
        &["calibrate", "--from", "raw.csv", "--format", "csv", "-q"],
    );
    assert!(
        text(&csv.stdout).starts_with("name,unit,value,low,high,points,samples,worst_residual\n")
    );
}

#[test]
fn figures_of_other_tools_lie_over_the_card_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("rates.csv"),
        "h2d,536870912,54\nd2h,536870912,53\n",
    )
    .unwrap();
    let out = kvplan(
        dir.path(),
        &["calibrate", "--from", "rates.csv", "--gpu", "H100 SXM"],
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    let profile = dir.path().join("calibration/host-h100-sxm-undated.toml");
    let written = fs::read_to_string(profile).unwrap();
    assert!(
        written.contains("h2d = { value = \"54.0 GB/s\""),
        "{written}"
    );
    let raw =
        fs::read_to_string(dir.path().join("calibration/raw/host-h100-sxm-undated.csv")).unwrap();
    assert!(raw.contains("# gpu_id = h100-sxm\n"));
    // And that file gives the same profile.
    let again = [
        "calibrate",
        "--from",
        "calibration/raw/host-h100-sxm-undated.csv",
        "-o",
        "again",
    ];
    assert!(kvplan(dir.path(), &again).status.success());
    let again = fs::read_to_string(dir.path().join("again/host-h100-sxm-undated.toml")).unwrap();
    assert_eq!(again, written);
}

#[test]
fn no_device_is_exit_code_4_and_names_the_ways_out() {
    if crate::standin::driver_is_here() {
        skip!("this machine has a driver of its own");
    }
    let dir = tempfile::tempdir().unwrap();
    let out = kvplan(dir.path(), &["calibrate"]);
    assert_eq!(out.status.code(), Some(4));
    let told = text(&out.stderr);
    assert!(
        told.contains("--host-only") && told.contains("--from"),
        "{told}"
    );
    assert!(out.stdout.is_empty() && fs::read_dir(dir.path()).unwrap().next().is_none());
    let doctor = kvplan(dir.path(), &["doctor"]);
    assert!(doctor.status.success());
    let said = text(&doctor.stdout);
    assert!(said.contains("\ncalibrate: no: "), "{said}");
    assert!(said.contains("host.threads: "), "{said}");
    let json = kvplan(dir.path(), &["doctor", "--format", "json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&json.stdout).unwrap();
    assert!(rows.iter().any(|r| r["what"] == "calibrate"));
}

#[test]
fn what_cannot_be_used_is_refused() {
    let (dir, _) = folder();
    let cut = run().text();
    let whole_lines = cut[..cut.len() - 1].rfind('\n').unwrap() + 1;
    fs::write(dir.path().join("cut.csv"), &cut[..whole_lines]).unwrap();
    let of = |args: &[&str], code: i32, told: &str| {
        let out = kvplan(dir.path(), args);
        assert_eq!(
            out.status.code(),
            Some(code),
            "{args:?}: {}",
            text(&out.stderr)
        );
        assert!(
            text(&out.stderr).contains(told),
            "{args:?}: {}",
            text(&out.stderr)
        );
    };
    of(&["calibrate", "--from", "none.csv"], 2, "cannot be read");
    of(&["calibrate", "--from", "."], 2, "is a directory");
    of(&["calibrate", "--from", "cut.csv"], 3, "the head promises");
    of(
        &["calibrate", "--from", "raw.csv", "--gpu", "rtx-508"],
        2,
        "did you mean `rtx-5080`?",
    );
    of(
        &["calibrate", "--from", "raw.csv", "-o", "raw.csv"],
        2,
        "raw.csv: is a file",
    );
    of(
        &["calibrate", "--from", "raw.csv", "--quick"],
        2,
        "cannot be used with",
    );
    let card = run().text().replace("gpu_id = rtx-5080", "gpu_id = nosuch");
    fs::write(dir.path().join("card.csv"), card).unwrap();
    of(
        &["calibrate", "--from", "card.csv"],
        3,
        "card.csv: its `gpu_id`",
    );
    of(&["compare", "raw.csv", "raw.csv"], 2, "not a profile");
    of(&["compare", "raw.csv"], 2, "--engine-log");
}

/// The link half as slow again on the second day, all else alike: rates at 2/3.
#[test]
fn drift_beyond_the_tolerance_is_exit_code_1() {
    let (dir, _) = folder();
    let mut slow = run();
    let copies: Vec<_> = slow
        .points()
        .into_iter()
        .filter(|p| p.mode == "pinned")
        .collect();
    slow = kvplan::calibrate::raw::Raw::default();
    for point in run().points() {
        let exact = run().sample(&point, 8).next().unwrap().us;
        times(
            &mut slow,
            &point,
            exact * if copies.contains(&point) { 1.5 } else { 1.0 },
            9,
        );
    }
    slow.head = run().head;
    slow.head.insert("date".into(), "2026-12-01".into());
    fs::write(dir.path().join("slow.csv"), slow.text()).unwrap();
    for file in ["raw.csv", "slow.csv"] {
        assert!(
            kvplan(dir.path(), &["calibrate", "--from", file, "-q"])
                .status
                .success()
        );
    }
    let old = format!("calibration/{STEM}.toml");
    let new = "calibration/build-7-rtx-5080-2026-12-01.toml";
    let same = kvplan(dir.path(), &["compare", &old, &old]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    assert!(text(&same.stdout).contains("No value drifted by more than 10 %"));
    let out = kvplan(dir.path(), &["compare", &old, new, "--format", "json"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let drift: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let values = drift["values"].as_array().unwrap();
    let h2d = values.iter().find(|v| v["key"] == "link.h2d").unwrap();
    let by = h2d["drift"].as_f64().unwrap();
    assert!(
        (by + 1.0 / 3.0).abs() < 0.02 && h2d["beyond"] == true && h2d["within_intervals"] == false,
        "{h2d}"
    );
    assert_eq!(drift["question"], "desktop");
    let runs = |w: &serde_json::Value| w["old_tokens_per_s"].is_number();
    assert!(drift["plan"].as_array().unwrap().iter().any(runs));
    assert!(
        drift["plan"]
            .as_array()
            .unwrap()
            .iter()
            .any(|w| w["name"] == "stream")
    );
    let lenient = kvplan(dir.path(), &["compare", &old, new, "--tolerance", "60%"]);
    assert_eq!(lenient.status.code(), Some(0), "{}", text(&lenient.stdout));
    let table = kvplan(dir.path(), &["compare", &old, new]);
    assert!(text(&table.stdout).contains("values drifted by more than 10 %"));
}

/// The figure names every fitted value and every prediction, with the errors of the JSON, and is the same twice.
#[test]
fn a_calibration_is_drawn_with_its_residuals() {
    let (dir, _) = folder();
    let draw = |file: &str| {
        let args = [
            "calibrate",
            "--from",
            "raw.csv",
            "-q",
            "--format",
            "json",
            "--plot",
            file,
        ];
        let out = kvplan(dir.path(), &args);
        assert!(out.status.success(), "{}", text(&out.stderr));
        serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap()
    };
    let answer = draw("a.svg");
    draw("b.svg");
    let svg = fs::read_to_string(dir.path().join("a.svg")).unwrap();
    assert!(svg == fs::read_to_string(dir.path().join("b.svg")).unwrap());
    assert!(!svg.contains("NaN") && svg.contains("predicted, not fitted"));
    let said = |share: &serde_json::Value| format!("{:+.1} %", 100.0 * share.as_f64().unwrap());
    let c = &answer["calibration"];
    for p in c["parameter"].as_array().unwrap() {
        let name = p["name"].as_str().unwrap().replace('.', " ");
        assert!(
            svg.contains(&name) && svg.contains(&said(&p["worst_residual"])),
            "{name}"
        );
    }
    for h in c["holdout"].as_array().unwrap() {
        assert!(svg.contains(&said(&h["error"])), "{h}");
    }
    let out = kvplan(
        dir.path(),
        &["calibrate", "--from", "raw.csv", "--plot", "a.gif"],
    );
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains(".svg or .png"));
}
