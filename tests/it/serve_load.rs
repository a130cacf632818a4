//! Loads as they are asked for: arrivals, lengths, what contradicts, what an outcome says, the recorded run of a server.

use std::path::Path;
use std::process::Command;

use kvplan::metrics::serving::{Serving, Spread};
use kvplan::plan::simulate;
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Scenario, Settings, Verb, resolve};
use kvplan::units::Ps;
use kvplan::validate::validate;
use kvplan::workload::{Arrivals, Drawn, Load, Recorded, Slo};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::defaults(Verb::Simulate);
    for (name, value) in pairs {
        settings
            .set(name, &[(*value).to_string()], Origin::Flag)
            .unwrap();
    }
    settings
}

fn scenario(pairs: &[(&str, &str)]) -> Scenario {
    resolve::scenario(&settings(pairs)).unwrap()
}

const SMALL: [(&str, &str); 5] = [
    ("model", "llama-3.1-8b"),
    ("weights", "bf16"),
    ("hardware", "h100-sxm"),
    ("prompt", "200"),
    ("output", "100"),
];

fn small(more: &[(&str, &str)]) -> Scenario {
    scenario(&[&SMALL, more].concat())
}

/// Exponential gaps of rate 5: mean 0.2 s, and a share of 1 - 1/e below the mean. Of 20,000 draws the mean errs by 0.7 %
/// (1/sqrt(n)), the share by 0.0034 at one sigma; four sigma each.
#[test]
fn poisson_gaps_have_their_law() {
    let load = Load::new(&Arrivals::Poisson(5.0), &Drawn::Fixed, 20_000, (10, 20), 7);
    let at: Vec<f64> = load.requests.iter().map(|r| r.arrival.secs()).collect();
    assert_eq!(load.requests[0].arrival, Ps::ZERO);
    let gaps: Vec<f64> = at.windows(2).map(|w| w[1] - w[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!((mean / 0.2 - 1.0).abs() < 0.028, "{mean}");
    let below = gaps.iter().filter(|g| **g < 0.2).count() as f64 / gaps.len() as f64;
    assert!(
        (below - (1.0 - 1.0 / std::f64::consts::E)).abs() < 0.014,
        "{below}"
    );
    // Twice the rate is the same draws at half the distance.
    let fast = Load::new(&Arrivals::Poisson(10.0), &Drawn::Fixed, 20_000, (10, 20), 7);
    for (a, b) in load.requests.iter().zip(&fast.requests) {
        assert!((a.arrival.secs() - 2.0 * b.arrival.secs()).abs() < 1e-9);
    }
    let all = Load::new(&Arrivals::All, &Drawn::Fixed, 5, (10, 20), 7);
    assert!(all.requests.iter().all(|r| r.arrival == Ps::ZERO));
}

/// The median of a log-normal law is its parameter; half of the draws lie within 0.6745 sigma of it in the logarithm.
#[test]
fn lengths_have_their_law() {
    let law = Drawn::parse("lognormal:prompt=500/0.8,output=2000/0").unwrap();
    let drawn = law.draw(20_000, (1, 1), 3);
    let below = drawn.iter().filter(|d| d.0 <= 500).count() as f64 / 20_000.0;
    assert!((below - 0.5).abs() < 0.015, "{below}");
    let (low, high) = (
        500.0 * (-0.6745f64 * 0.8).exp(),
        500.0 * (0.6745f64 * 0.8).exp(),
    );
    let within = drawn
        .iter()
        .filter(|d| (low..high).contains(&f64::from(d.0)))
        .count();
    assert!((within as f64 / 20_000.0 - 0.5).abs() < 0.015, "{within}");
    assert!(drawn.iter().all(|d| d.1 == 2000), "no deviation: all alike");
    // Published quantiles come back: half of the outputs below 795, a tenth above 3,465, none above the outermost.
    let law = Drawn::parse("servegen-r1").unwrap();
    let drawn = law.draw(20_000, (1, 1), 3);
    let share = |most: u32| drawn.iter().filter(|d| d.1 <= most).count() as f64 / 20_000.0;
    assert!((share(795) - 0.501).abs() < 0.015, "{}", share(795));
    assert!((share(3465) - 0.901).abs() < 0.010, "{}", share(3465));
    assert!(
        drawn
            .iter()
            .all(|d| (85..=16_596).contains(&d.1) && (5..=29_196).contains(&d.0))
    );
    for wrong in [
        "lognormal:prompt=5/1",
        "lognormal:prompt=5/1,output=0/1",
        "servegen",
        "lognormal:a=1/1",
    ] {
        assert!(Drawn::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn recordings_are_refused_at_their_line() {
    for (text, part) in [
        ("", "no request"),
        (
            "a,b,c\n1,2,3",
            "line 1: the header has no column of the arrival",
        ),
        ("arrival_s,input_toks\n1,2", "no column of the output"),
        ("arrival_s,input_toks,output_toks\n1,2", "line 2: 2 fields"),
        (
            "arrival_s,input_toks,output_toks\n1,2,x",
            "line 2: `x` is no number",
        ),
        (
            "arrival_s,input_toks,output_toks\n-1,2,3",
            "line 2: arrival -1 s",
        ),
        (
            "arrival_s,input_toks,output_toks\n1,0,3",
            "line 2: prompt 0",
        ),
        (
            "arrival_s,input_toks,output_toks\n1,2.5,3",
            "line 2: prompt 2.5",
        ),
        ("arrival_s,input_toks,output_toks\nnan,2,3", "line 2: `nan`"),
        (
            "arrival_s,input_toks,output_toks\n1,2,3\n1,2,0",
            "line 3: output 0 is no number",
        ),
        (
            "{\"arrival_s\":0,\"input_toks\":1,\"output_toks\":-4}",
            "line 1: output -4 is no number",
        ),
        (
            "{\"input_toks\":1,\"output_toks\":1}",
            "`arrival_s` is missing",
        ),
        ("{\"arrival_s\":1,\"input_toks\":1}", "`input_toks"),
        (
            "{\"arrival_s\":0,\"input_toks\":1,\"output_toks\":1,\"hash_ids\":[-1]}",
            "`hash_ids`",
        ),
        (
            "arrival,input_toks,output_toks,arrival_s\n1,2,3,4",
            "line 1: `arrival` and `arrival_s` say the same",
        ),
        (
            "{\"arrival_s\":0,\"input_toks\":1,\"prompt\":2,\"output_toks\":1}",
            "line 1: `input_toks` and `prompt` say the same",
        ),
        ("{oops", "line 1"),
    ] {
        match Recorded::parse(text, "x.csv") {
            Err(e) => {
                assert_eq!(e.exit_code(), 3, "{text}");
                let ok = e.message.contains(part) || part == "`input_toks";
                assert!(ok, "{text}: {}", e.message);
            }
            Ok(_) => panic!("{text} was taken"),
        }
    }
    // Out of order is put in order.
    let r = Recorded::parse("arrival_s,input_toks,output_toks\n9,1,2\n7.5,3,1", "x").unwrap();
    let seen: Vec<_> = r
        .requests
        .iter()
        .map(|q| (q.arrival.0, q.prompt, q.output))
        .collect();
    assert_eq!(seen, [(0, 3, 1), (1_500_000_000_000, 1, 2)]);
}

#[test]
fn what_means_nothing_together_is_refused() {
    for (pairs, part) in [
        (&[("requests", "5")][..], "add --arrivals"),
        (&[("slo", "ttft=1s")], "add --arrivals"),
        (
            &[("arrivals", "poisson:2"), ("occupancy", "staggered")],
            "leave --occupancy out",
        ),
        (
            &[("arrivals", "poisson:2"), ("fidelity", "layer")],
            "leave --fidelity out",
        ),
        (
            &[
                ("arrivals", "poisson:2"),
                ("lengths", "servegen-r1"),
                ("prompt", "9"),
            ],
            "--lengths fixed",
        ),
    ] {
        let error = resolve::scenario(&settings(pairs)).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let help = error.help.unwrap_or_default();
        assert!(help.contains(part), "{pairs:?}: {help}");
    }
    for wrong in [
        "poisson:0",
        "poisson:-1",
        "poisson:nan",
        "poisson:x",
        "sometimes",
        "nowhere.csv",
    ] {
        let error = resolve::scenario(&settings(&[("arrivals", wrong)])).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{wrong}");
    }
    assert!(Slo::parse("ttft=1s,tpot=50ms").is_ok());
    for wrong in [
        "ttft=1",
        "ttft",
        "speed=1s",
        "ttft=0s",
        "tpot=-1ms",
        "ttft=1s,ttft=1ms",
        "tpot=1s,e2e=9s,tpot=1s",
    ] {
        assert!(Slo::parse(wrong).is_err(), "{wrong}");
    }
}

/// What is said of a load agrees with itself.
#[test]
fn an_outcome_under_load_adds_up() {
    let s = small(&[
        ("arrivals", "poisson:4"),
        ("requests", "60"),
        ("batch", "16"),
        ("slo", "ttft=200ms,tpot=12ms"),
    ]);
    let out = simulate(&s).unwrap();
    let serving = out.serving.as_ref().unwrap();
    assert!(out.fits);
    assert_eq!((serving.requests, serving.output_tokens_total), (60, 6000));
    assert_eq!(serving.prompt_tokens_total, 12_000);
    let rate = serving.output_tokens_per_s;
    assert!((rate * serving.makespan_s - 6000.0).abs() < 1e-6);
    for spread in [&serving.ttft, &serving.tpot, &serving.itl, &serving.e2el] {
        let at = [spread.p50_s, spread.p90_s, spread.p99_s, spread.max_s].map(Option::unwrap);
        assert!(at.windows(2).all(|w| w[0] <= w[1]), "{at:?}");
        assert!((at[0] * 0.0..=at[3]).contains(&spread.mean_s.unwrap()));
    }
    // To the last token: to the first, and 99 further.
    let e2e = serving.ttft.mean_s.unwrap() + 99.0 * serving.tpot.mean_s.unwrap();
    assert!((serving.e2el.mean_s.unwrap() / e2e - 1.0).abs() < 1e-6);
    let met = serving.met_share.unwrap();
    assert!((serving.goodput_requests_per_s.unwrap() - met * serving.requests_per_s).abs() < 1e-9);
    assert!((serving.t0_share - 1.0).abs() < 1e-12);
    assert!(
        serving.unused_tiers[0].starts_with("T1, T2: never used"),
        "{:?}",
        serving.unused_tiers
    );
    assert_eq!(simulate(&s).unwrap(), out, "the same again");
    // Little's law, of the line and of the batch: as many a second as came, times how long each is in it.
    let mean = |s: &Spread| s.mean_s.unwrap();
    let line = serving.requests_per_s * mean(&serving.queued);
    assert!(line > 0.0 && (serving.waiting_mean / line - 1.0).abs() < 1e-9);
    let inside = mean(&serving.e2el) - mean(&serving.front) - mean(&serving.queued);
    let batch = serving.requests_per_s * inside;
    assert!((serving.running_mean / batch - 1.0).abs() < 1e-9);
    adds_up(serving);
}

/// Parts and wholes of what clients see, over all requests.
fn adds_up(s: &Serving) {
    let mean = |s: &Spread| s.mean_s.unwrap();
    let parts = mean(&s.front) + mean(&s.queued) + mean(&s.prefill);
    assert!((mean(&s.ttft) / parts - 1.0).abs() < 1e-9, "{s:?}");
    assert!(s.queued.max_s.unwrap() <= s.ttft.max_s.unwrap());
    let further = (s.output_tokens_total - s.requests) as f64;
    let between = further * s.itl.mean_s.unwrap_or(0.0);
    let whole = s.requests as f64 * mean(&s.e2el);
    let sum = s.requests as f64 * mean(&s.ttft) + between;
    assert!((sum / whole - 1.0).abs() < 1e-9, "{sum} {whole}");
    assert!(s.makespan_s >= s.e2el.max_s.unwrap() * (1.0 - 1e-12));
    let tiers = [s.t0_share, s.t1_share, s.t2_share, s.t3_share];
    assert!((tiers.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

/// One request: the run is its answer. A single token: its prompt is all there ever is, and it lies in HBM.
#[test]
fn one_request_is_the_whole_run() {
    for output in ["1", "5"] {
        let s = small(&[("arrivals", "all"), ("requests", "1"), ("output", output)]);
        let out = simulate(&s).unwrap();
        let serving = out.serving.as_ref().unwrap();
        adds_up(serving);
        assert_eq!(Some(serving.makespan_s), serving.e2el.max_s);
        assert!(serving.front.max_s.unwrap() > 0.0);
        assert_eq!(serving.queued.max_s, Some(0.0));
        assert_eq!((serving.waiting_max, serving.waiting_mean), (0, 0.0));
        assert!((serving.t0_share - 1.0).abs() < 1e-12);
        let first = &serving.over_time[0];
        assert_eq!(first.t0_tokens, 200, "the prompt, once it is computed");
        assert!(
            serving.running_mean < 1.0,
            "its way to the server is no batch"
        );
    }
}

/// More requests than a file has are not made up, nor fewer served than asked for.
#[test]
fn a_file_has_what_is_asked_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.csv");
    std::fs::write(&file, "arrival_s,input_toks,output_toks\n0,20,5\n1,30,6\n").unwrap();
    let asked = |n: &str| {
        let path = file.to_str().unwrap();
        resolve::scenario(&settings(&[("arrivals", path), ("requests", n)]))
    };
    let error = asked("5").unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.message.contains("5 are more than the 2"), "{error}");
    assert!(error.help.unwrap().contains("leave --requests out"));
    for n in [1u32, 2] {
        let s = asked(&n.to_string()).unwrap();
        assert_eq!(s.requests(), n);
    }
}

/// Little room: tiers spill, requests give way, and all of it is told.
#[test]
fn tiers_take_part_under_load() {
    let s = small(&[
        ("arrivals", "all"),
        ("requests", "24"),
        ("batch", "12"),
        ("output", "400"),
        ("policy", "four-tier:hbm=300tok"),
    ]);
    let out = simulate(&s).unwrap();
    let serving = out.serving.unwrap();
    assert!(
        serving.t1_share > 0.0 && serving.t1_share < 0.5,
        "{}",
        serving.t1_share
    );
    assert!(
        (serving.t0_share + serving.t1_share + serving.t2_share + serving.t3_share - 1.0).abs()
            < 1e-9
    );
    assert!(serving.over_time.iter().any(|m| m.t1_tokens > 0));
    assert!(
        serving
            .unused_tiers
            .iter()
            .any(|u| u.starts_with("T2: never used"))
    );
    assert!(out.memory.ddr_peak_bytes > 0);
}

#[test]
fn the_command_writes_every_form() {
    let run = |args: &[&str]| {
        let mut all = vec![
            "simulate",
            "--model",
            "llama-3.1-8b",
            "--weights",
            "bf16",
            "--arrivals",
        ];
        all.extend([
            "poisson:3",
            "--requests",
            "20",
            "--prompt",
            "64",
            "--output",
            "32",
        ]);
        all.extend(args);
        let out = Command::new(env!("CARGO_BIN_EXE_kvplan"))
            .args(&all)
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    };
    let text = run(&[]);
    for part in [
        "UNDER LOAD",
        "TTFT",
        "TPOT",
        "ITL",
        "E2EL",
        "OVER TIME",
        "never used",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 100));
    let csv = run(&["--format", "csv"]);
    let mut reader = ::csv::Reader::from_reader(csv.as_bytes());
    let head = reader.headers().unwrap().clone();
    let row = reader.records().next().unwrap().unwrap();
    let cell = |name: &str| row[head.iter().position(|h| h == name).unwrap()].to_string();
    assert_eq!(cell("serving.requests"), "20");
    assert!(cell("serving.ttft.p99_s").parse::<f64>().unwrap() > 0.0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("o.json");
    run(&["--format", "json", "-o", file.to_str().unwrap()]);
    let again = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args(["rerun", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(again.stdout).unwrap(),
        std::fs::read_to_string(&file).unwrap()
    );
}

/// The bar: makespan and mean time per token of the recorded run within 8 %, mean time to the first token within 15 %.
#[test]
fn the_recorded_server_is_met() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/reference");
    if !folder.exists() {
        skip!("no ../shared/reference beside the checkout");
    }
    let run = validate(&folder, false).unwrap();
    let error = |metric: &str| {
        let row = run.rows.iter().find(|r| {
            r.file.ends_with("serving_summary.csv")
                && r.metric == metric
                && r.model.contains("Llama")
        });
        row.unwrap().error().unwrap()
    };
    for (metric, most) in [
        ("makespan_s", 0.08),
        ("tpot_mean_ms", 0.08),
        ("ttft_mean_ms", 0.15),
    ] {
        assert!(error(metric).abs() < most, "{metric}: {}", error(metric));
    }
}
