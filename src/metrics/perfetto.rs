//! A window of a run as Chrome trace-event JSON, which Perfetto (ui.perfetto.dev) opens.
//!
//! One track a resource: compute stream, link up, link down, CPU gap, attention on the host; one slice a layer and step,
//! with bytes and tokens. The window is a few steps, as asked or around the first re-tier (the first eight where none
//! comes): a whole run would be gigabytes. What is written is written as the run goes; only the steps before a re-tier
//! that is still to come are held back. Ignored: prefill, which stalls all tracks and has none of its own.
//!
//! `ts` and `dur` are microseconds with six decimals, that is exact picoseconds of simulated time. A transfer belongs to
//! the step that it serves and may lie under the one before; a write-back runs under the step after its own, and says so
//! (`of_step`). Deterministic: the bytes depend on the scenario and the window alone.

use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;

use crate::engine::{Observer, Slice, StepFact, Track, What};
use crate::error::{Cause, Error, Result};
use crate::units::Ps;

/// Most steps of a window that is asked for: some 50 MB.
pub const MOST_STEPS: u64 = 1000;

/// Steps drawn before the first re-tier.
const BEFORE: u64 = 2;

/// Steps drawn where no window is asked for.
const WIDTH: u64 = 8;

/// Tracks in the order shown; a track's number is its place, from 1.
const TRACKS: [(Track, &str); 5] = [
    (Track::Compute, "compute stream"),
    (Track::Up, "link, host to device"),
    (Track::Down, "link, device to host"),
    (Track::Gap, "CPU gap"),
    (Track::Host, "attention on the host"),
];

/// What was drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Steps in the file, counted from 0.
    pub steps: Range<u64>,
    /// Slices.
    pub slices: u64,
    /// Steps of the whole run.
    pub of: u64,
}

/// Writes the slices of a run as they come.
pub struct Perfetto<'a> {
    out: &'a mut dyn Write,
    serial: bool,
    /// Steps to draw; none as long as no re-tier has come.
    window: Option<Range<u64>>,
    /// Whether the window was asked for.
    asked: bool,
    /// Number of the coming step.
    step: u64,
    /// Slices of the steps that may yet be drawn: the first few, then the last few.
    first: Vec<(u64, Vec<Slice>)>,
    last: VecDeque<(u64, Vec<Slice>)>,
    /// Tokens in host memory in the step before.
    host: Option<f64>,
    begun: bool,
    drawn: Drawn,
}

impl<'a> Perfetto<'a> {
    /// Into `out`: the steps of `window`, or those around the first re-tier. `serial` says that a step waits for its own
    /// write-back.
    pub fn new(out: &'a mut dyn Write, window: Option<Range<u64>>, serial: bool) -> Self {
        Self {
            out,
            serial,
            asked: window.is_some(),
            window,
            step: 0,
            first: Vec::new(),
            last: VecDeque::new(),
            host: None,
            begun: false,
            drawn: Drawn {
                steps: 0..0,
                slices: 0,
                of: 0,
            },
        }
    }

    /// Ends the file; returns what is in it.
    ///
    /// # Errors
    /// It cannot be written; no step of the window was run (exit 2).
    pub fn finish(mut self) -> Result<Drawn> {
        self.drawn.of = self.step;
        if self.window.is_none() {
            for (step, slices) in std::mem::take(&mut self.first) {
                self.write(step, &slices)?;
            }
        }
        if !self.begun {
            return Err(Error::usage(format!(
                "nothing to draw: the run has {} steps, and none of them is asked for",
                self.step
            ))
            .help("--perfetto-steps A..B counts decode steps from 0; B is not drawn"));
        }
        let Range { start, end } = self.drawn.steps;
        let text = format!(
            "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{{\"kvplan_version\":\"{}\",\"first_step\":{start},\"last_step\":{},\"steps_of_the_run\":{},\"slices\":{}}}}}\n",
            env!("CARGO_PKG_VERSION"),
            end - 1,
            self.step,
            self.drawn.slices
        );
        self.put(&text)?;
        Ok(self.drawn)
    }

    /// Decides on the window once the first re-tier has come in `step`.
    fn decide(&mut self, step: u64) -> Result<()> {
        let start = step.saturating_sub(BEFORE);
        self.window = Some(start..start + WIDTH);
        self.first.clear();
        for (step, slices) in std::mem::take(&mut self.last) {
            self.write(step, &slices)?;
        }
        Ok(())
    }

    /// Holds back the slices of a step.
    fn hold(&mut self, slices: &[Slice]) {
        if self.step < WIDTH {
            self.first.push((self.step, slices.to_vec()));
        }
        self.last.push_back((self.step, slices.to_vec()));
        if self.last.len() as u64 > BEFORE + 1 {
            self.last.pop_front();
        }
    }

    /// Writes the slices of a step.
    fn write(&mut self, step: u64, slices: &[Slice]) -> Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.drawn.steps.start = step;
            self.put(&head())?;
        }
        self.drawn.steps.end = step + 1;
        self.drawn.slices += slices.len() as u64;
        let text: String = slices.iter().map(|s| line(step, s, self.serial)).collect();
        self.put(&text)
    }

    fn put(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes()).map_err(|e| {
            Error::new(Cause::Usage, format!("cannot write the drawing: {e}"))
                .help("name a file in a folder you may write to with --perfetto")
        })
    }
}

impl Observer for Perfetto<'_> {
    fn watches(&self) -> bool {
        false
    }

    fn draws(&self) -> bool {
        self.window.as_ref().is_none_or(|w| w.contains(&self.step))
    }

    fn drawn(&mut self, slices: &[Slice]) -> Result<()> {
        if self.window.is_some() {
            self.write(self.step, slices)
        } else {
            self.hold(slices);
            Ok(())
        }
    }

    fn step(&mut self, fact: &StepFact<'_>) -> Result<()> {
        let host = fact.held.tiers[1] + fact.held.tiers[2];
        let moved = self.host.is_some_and(|before| (before - host).abs() > 0.0);
        self.host = Some(host);
        if !self.asked && self.window.is_none() && (moved || fact.times.retier > Ps::ZERO) {
            self.decide(self.step)?;
        }
        self.step += 1;
        Ok(())
    }
}

/// The file up to the first slice: process and tracks by name.
fn head() -> String {
    let named = |(track, name): (Track, &str)| {
        let tid = number(track);
        format!(
            ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":{tid},\"args\":{{\"name\":\"{name}\"}}}}\
             ,\n{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":1,\"tid\":{tid},\"args\":{{\"sort_index\":{tid}}}}}"
        )
    };
    let process =
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"kvplan\"}}";
    let tracks: String = TRACKS.into_iter().map(named).collect();
    format!("{{\"traceEvents\":[\n{process}{tracks}")
}

/// A track's number.
fn number(track: Track) -> usize {
    1 + TRACKS.iter().position(|t| t.0 == track).unwrap_or(0)
}

/// One slice as a complete event.
fn line(step: u64, slice: &Slice, serial: bool) -> String {
    let (name, layer) = match slice.what {
        What::Layer(n) => (format!("layer {n}"), format!(",\"layer\":{n}")),
        What::Head => ("head".into(), String::new()),
        What::Pack => ("pack".into(), String::new()),
        What::Fetch => ("fetch promoted".into(), String::new()),
        What::Gap => ("gap".into(), String::new()),
        What::WriteBack if serial => ("write-back".into(), String::new()),
        What::WriteBack => {
            let of = step.saturating_sub(1);
            ("write-back".into(), format!(",\"of_step\":{of}"))
        }
    };
    let crossing = if slice.track == Track::Host {
        let [down, up] = slice.crossing;
        format!(",\"query_bytes\":{down},\"output_bytes\":{up}")
    } else {
        String::new()
    };
    format!(
        ",\n{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":1,\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{\"step\":{step}{layer},\"bytes\":{},\"tokens\":{}{crossing}}}}}",
        number(slice.track),
        micros(slice.begin),
        micros(slice.end.saturating_sub(slice.begin)),
        slice.bytes,
        slice.tokens
    )
}

/// Microseconds, to the picosecond.
fn micros(time: Ps) -> String {
    format!("{}.{:06}", time.0 / 1_000_000, time.0 % 1_000_000)
}
