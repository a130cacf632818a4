//! Raw files: round trips, what is refused and where, files of other tools.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kvplan::calibrate::import;
use kvplan::calibrate::probe::{
    Direction, Field, Measurement, Pace, Part, Point, Probe, Reading, RecordedProbe, measure,
};
use kvplan::calibrate::raw::{Head, Raw, read};
use kvplan::error::{Cause, Result};
use proptest::prelude::*;

use crate::calibrate_make::run;

fn point() -> impl Strategy<Value = Point> {
    let measurement = prop::sample::select(Measurement::ALL);
    let way = prop::option::of(prop::sample::select(Direction::ALL));
    let size = (prop::sample::select(Field::ALL), 0u64..1 << 53);
    let sizes = prop::collection::vec(size, 0..5);
    (measurement, "[a-z0-9-]{0,8}", way, any::<bool>(), sizes).prop_map(
        |(m, mode, way, hold, sizes)| {
            let mut p = Point::new(m, &mode);
            p = way.into_iter().fold(p, Point::going);
            p = sizes.into_iter().fold(p, |p, (field, n)| p.with(field, n));
            if hold { p.held() } else { p }
        },
    )
}

fn raws() -> impl Strategy<Value = Raw> {
    let part = prop::sample::select(Part::ALL);
    let series = (point(), part, prop::collection::vec(1e-6f64..1e11, 1..4));
    let head = prop::collection::btree_map("[a-z][a-z_.]{0,8}x", "[a-zA-Z0-9 ,=#]{0,20}", 0..4);
    (prop::collection::vec(series, 0..8), head).prop_map(|(all, head)| {
        let mut raw = Raw::default();
        for (point, part, us) in all {
            for us in us {
                raw.push(point.clone(), part, us);
            }
        }
        raw.head = head
            .into_iter()
            .map(|(k, v)| (k, v.trim().to_string()))
            .collect();
        raw
    })
}

proptest! {
    #[test]
    fn a_raw_file_reads_back_to_the_bit(raw in raws()) {
        let text = raw.text();
        let again = read("x", text.as_bytes()).unwrap();
        prop_assert_eq!(&again.text(), &text);
        prop_assert_eq!(again, raw);
    }

    /// Nothing that others write panics, and an error is the file's fault.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Err(e) = import::read("x", bytes.as_slice()) {
            prop_assert!([2, 3].contains(&e.exit_code()), "{e:?}");
        }
    }
}

/// The file with one text in the place of another, and what is said of it.
fn told(from: &str, to: &str) -> String {
    let text = run().text();
    assert!(text.contains(from), "{from}");
    let e = read("x.csv", text.replacen(from, to, 1).as_bytes()).unwrap_err();
    assert_eq!(e.cause, Cause::Data);
    e.message
}

#[test]
fn errors_name_line_and_column() {
    assert_eq!(
        told("ddr_read,,fit", "ddr_rad,,fit"),
        "x.csv: line 12, column 1 (measurement): `ddr_rad` is no measurement"
    );
    assert_eq!(
        told("ddr_read,,fit", "ddr_read,Up,fit"),
        "x.csv: line 12, column 2 (mode): `Up` is no mode: lower-case letters, digits and dashes"
    );
    assert_eq!(
        told("ddr_read,,fit", "ddr_read,,fits"),
        "x.csv: line 12, column 3 (use): `fits` is neither fit nor hold"
    );
    assert_eq!(
        told("h2d,4096,", "up,4096,"),
        "x.csv: line 129, column 5 (direction): `up` is no direction"
    );
    assert!(told("67108864,,1,", "6e7,,1,").ends_with("column 6 (bytes): `6e7` is no size"));
    assert!(told("67108864,,1,", "67108864,1,").ends_with("17 cells where there are 18 columns"));
    assert!(told(",0,", ",1,").contains("(sample): `1` is not the next sample of this point, 0"));
    assert!(told("# rows = ", "# rows = 9").contains("the head promises"));
    assert!(told("# rows = ", "# row = ").contains("the head lacks `# rows = N`"));
    assert!(told("# gpu = ", "# host = x\n# gpu = ").contains("`host` stands twice"));
    assert!(told("# gpu = ", "# Gpu = ").contains("a key is lower-case letters"));
    assert!(told("measurement,mode", "mode,measurement").contains("not the columns"));
    assert!(told("raw/1", "raw/2").contains("a raw file begins with"));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let text = run().text();
    for at in (0..text.len()).step_by(97) {
        let cut = &text.as_bytes()[..at];
        assert!(read("x", cut).is_err(), "cut at {at}");
    }
    let line = format!("# format = kvplan/raw/1\n# a = {}", "x".repeat(10_000_000));
    assert!(
        read("x", line.as_bytes())
            .unwrap_err()
            .message
            .contains("longer than any row")
    );
    for bad in ["0", "-1", "nan", "inf", "1e13", ""] {
        let text = run().text().replacen(",0,", &format!(",0,{bad}\n"), 1);
        assert!(read("x", text.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn a_report_of_nvbandwidth_becomes_copies() {
    let report = r#"{"nvbandwidth":{"CUDA Runtime Version":12040,"Driver Version":"550.54","git_version":"v0.8",
        "GPU Device list":["0: NVIDIA H100 80GB HBM3","1: NVIDIA H100 80GB HBM3"],
        "testcases":[
        {"name":"host_to_device_memcpy_ce","status":"Passed","bandwidth_matrix":[["55.6","55.4"]],"sum":111.0},
        {"name":"device_to_host_memcpy_ce","status":"Passed","bandwidth_matrix":[["N/A",55.0]]},
        {"name":"device_to_host_memcpy_sm","status":"Passed","bandwidth_matrix":null,"sum":"50.0"},
        {"name":"host_to_device_memcpy_sm","status":"Waived","bandwidth_matrix":[["1.0"]]},
        {"name":"device_to_device_memcpy_read_ce","status":"Passed","bandwidth_matrix":[["N/A","400"],["400","N/A"]]}]}}"#;
    let read = import::read("x", report.as_bytes()).unwrap();
    assert!(!read.own);
    let series = read.raw.series();
    assert_eq!(series.len(), 3);
    // 512 MiB at 55.6 GB/s: 536,870,912 / 55,600 = 9,655.95 us.
    // Of the two GPUs the first.
    assert!((series[0].us[0] - 9_655.95).abs() < 0.01 && series[0].us.len() == 1);
    assert_eq!(
        (series[1].us.len(), series[2].point.measurement),
        (1, Measurement::ZeroCopy)
    );
    assert_eq!(read.raw.of("gpu"), "0: NVIDIA H100 80GB HBM3");
    assert_eq!(read.raw.of("driver"), "550.54");
    let note = "left out of nvbandwidth's tests: host_to_device_memcpy_sm, device_to_device_memcpy_read_ce";
    assert_eq!(read.notes.len(), 2);
    assert_eq!(read.notes[0], note);
    assert!(read.notes[1].starts_with("of 2 GPUs the first is taken"));
    for bad in [
        "{",
        "{}",
        r#"{"nvbandwidth":{}}"#,
        r#"{"nvbandwidth":{"testcases":[{}]}}"#,
    ] {
        let e = import::read("x", bad.as_bytes()).unwrap_err();
        assert_eq!(e.cause, Cause::Data, "{bad}");
        assert!(e.help.is_some(), "{bad}");
    }
}

#[test]
fn rates_by_direction_and_bytes_become_copies() {
    let text = "direction,bytes,GB/s\nh2d, 1048576, 20.0\nDtoH,1048576,10\n";
    let raw = import::read("x", text.as_bytes()).unwrap().raw;
    // 1 MiB at 20 GB/s: 52.4288 us.
    assert!((raw.series()[0].us[0] - 52.4288).abs() < 1e-9);
    assert_eq!(raw.series()[1].point.direction, Some(Direction::Down));
    let told = |text: &str| import::read("x", text.as_bytes()).unwrap_err().message;
    assert_eq!(
        told("h2d,4096,fast"),
        "x: line 1, column 3: `fast` is no rate in GB/s"
    );
    assert_eq!(
        told("h2d,4096,5\n\nsideways,1,1"),
        "x: line 3, column 1: `sideways` is no direction: h2d or d2h"
    );
    assert_eq!(
        told("h2d,0,5"),
        "x: line 1, column 2: `0` is no number of bytes"
    );
    assert_eq!(told("h2d,1"), "x: line 1, column 2: 2 cells, not 3");
    assert!(told("").contains("nothing measured"));
}

/// Counts how often it is asked, and gives that as the time.
struct Counting {
    points: Vec<Point>,
    asked: Vec<u32>,
    order: Vec<usize>,
    pace: Pace,
}

impl Probe for Counting {
    fn points(&self) -> Vec<Point> {
        self.points.clone()
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn sample(&mut self, point: &Point) -> Result<Option<Vec<Reading>>> {
        let at = self.points.iter().position(|p| p == point).unwrap();
        self.asked[at] += 1;
        self.order.push(at);
        let us = f64::from(self.asked[at]);
        let reading = |part| Reading { part, us };
        // The last point cannot be measured; the others tell their parts in no order.
        Ok((at + 1 < self.points.len()).then(|| [Part::Transfer, Part::Step].map(reading).into()))
    }

    fn head(&mut self) -> Result<Head> {
        Ok(Head::new())
    }
}

#[test]
fn rounds_are_shuffled_and_warm_up_is_thrown_away() {
    let points: Vec<Point> = (0..8)
        .map(|n| Point::new(Measurement::TierLoop, "stream").with(Field::Depth, n))
        .collect();
    let pace = Pace {
        warm_up: 2,
        repetitions: 5,
        budget: Duration::MAX,
    };
    let probe = || Counting {
        asked: vec![0; points.len()],
        points: points.clone(),
        order: Vec::new(),
        pace,
    };
    let (mut a, mut b, done) = (probe(), probe(), AtomicU64::new(0));
    let raw = measure(&mut a, 3, &done).unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 7 * 7 + 1);
    assert_eq!(raw, measure(&mut b, 3, &done).unwrap());
    assert_eq!(a.order, b.order);
    let rounds: Vec<&[usize]> = a.order.chunks(7).collect();
    assert!(rounds[1] != rounds[2], "{:?}", a.order);
    assert_eq!(raw.points(), points[..7]);
    for series in raw.series() {
        assert_eq!(series.us, [3.0, 4.0, 5.0, 6.0, 7.0]);
    }
    // Recorded, it is the same file.
    let again = measure(&mut RecordedProbe::new(raw.clone()), 9, &done).unwrap();
    assert_eq!(again.text(), raw.text());
    // Out of time: three samples of each and no more.
    let mut late = probe();
    late.pace.budget = Duration::ZERO;
    let raw = measure(&mut late, 3, &done).unwrap();
    assert!(raw.series().iter().all(|s| s.us.len() == 3));
}
