//! Runs the cells: windows of them on all cores, each recording decoded once for many policies.
//!
//! A window is a stretch of cells in the order of the grid's replays. Its scenarios are resolved, the placements they
//! need are replayed together, then each cell runs alone on them; what the next window does not need is forgotten. A
//! window ends by number or by the steps its timelines hold, so that memory does not grow with the grid.

use rayon::prelude::*;

use crate::error::{Cause, Error, Result};
use crate::metrics::Outcome;
use crate::plan::{Placement, Recordings, placement, simulate_on};
use crate::scenario::{Scenario, TraceRef, resolve};

use super::Sweep;
use super::answer::{Cell, Solved};
use super::grid::Grid;
use super::shard::Shard;

/// Most cells of a window.
const WINDOW: usize = 256;

/// Most decode steps of a window's timelines: some hundred bytes each.
const STEPS: u64 = 1 << 21;

/// Runs all cells but the `finished` ones, and gives all of them, in no order. Each new one is first shown to `sink`.
///
/// # Errors
/// What concerns the whole sweep: damage in a file that all cells rest on, a broken law, an error of `sink`.
pub fn run(
    sweep: &Sweep,
    finished: Vec<Cell>,
    sink: &(dyn Fn(&Cell) -> Result<()> + Sync),
) -> Result<Vec<Cell>> {
    run_shard(sweep, Shard { number: 1, of: 1 }, finished, sink)
}

/// The same for the cells of one shard.
///
/// # Errors
/// As [`run`].
pub fn run_shard(
    sweep: &Sweep,
    shard: Shard,
    finished: Vec<Cell>,
    sink: &(dyn Fn(&Cell) -> Result<()> + Sync),
) -> Result<Vec<Cell>> {
    let grid = &sweep.grid;
    let mut done = vec![false; grid.cells()];
    for cell in &finished {
        done[cell.index] = true;
    }
    let mut left = shard
        .turns(grid.cells())
        .map(|turn| grid.at_turn(turn))
        .filter(|index| !done[*index])
        .peekable();
    let mut cells = finished;
    let mut shelf = Shelf::of(grid);
    while left.peek().is_some() {
        let indices: Vec<usize> = left.by_ref().take(WINDOW).collect();
        let asked: Vec<Asked> = indices
            .par_iter()
            .map(|index| Asked::new(sweep, *index))
            .collect::<Result<_>>()?;
        let mut rest = &asked[..];
        while !rest.is_empty() {
            let (window, after) = rest.split_at(window(rest));
            rest = after;
            shelf.prepare(window)?;
            let new: Vec<Cell> = window
                .par_iter()
                .map(|asked| {
                    let cell = asked.run(sweep, &shelf)?;
                    sink(&cell)?;
                    Ok(cell)
                })
                .collect::<Result<_>>()?;
            cells.extend(new);
        }
    }
    Ok(cells)
}

/// Cells that fit into one window, at least one.
fn window(asked: &[Asked]) -> usize {
    let mut steps = 0u64;
    let fits = asked.iter().take_while(|a| {
        steps += a.steps();
        steps <= STEPS
    });
    fits.count().max(1)
}

/// A cell before it runs: its scenario, or why there is none.
struct Asked {
    index: usize,
    place: Vec<usize>,
    scenario: std::result::Result<Scenario, String>,
    placement: Option<Placement>,
}

/// An error of one cell as its reason; one that concerns all stays an error. `own` are the files that the cell has and others
/// have not.
fn reason<T>(
    outcome: Result<T>,
    own: impl Fn() -> Vec<String>,
) -> Result<std::result::Result<T, String>> {
    let e = match outcome {
        Ok(value) => return Ok(Ok(value)),
        Err(e) => e,
    };
    match e.cause {
        Cause::Usage | Cause::Infeasible => Ok(Err(words(e))),
        Cause::Data if own().iter().any(|file| is_of(&e, file)) => Ok(Err(words(e))),
        _ => Err(e),
    }
}

/// Whether an error says that a file is broken: it names the file, or stands in it.
fn is_of(e: &Error, file: &str) -> bool {
    let place = e.place.as_ref();
    e.message.contains(file) || place.is_some_and(|p| p.file == file)
}

/// An error in a line, with the file that it stands in and the way out.
fn words(e: Error) -> String {
    let file = e.place.filter(|_| e.cause == Cause::Data);
    let message = file.map_or(e.message.clone(), |p| format!("{}: {}", p.file, e.message));
    match e.help {
        Some(help) => format!("{message}; {help}"),
        None => message,
    }
}

fn scenario(grid: &Grid, place: &[usize], bare: bool) -> Result<Scenario> {
    resolve::scenario(&grid.settings(place, bare)?)
}

impl Asked {
    fn new(sweep: &Sweep, index: usize) -> Result<Self> {
        let place = sweep.grid.place(index);
        let solved = sweep.solves(&place);
        let own = || sweep.grid.own_files(&place);
        let scenario = reason(scenario(&sweep.grid, &place, solved), own)?;
        // A budget that is still to be solved is no placement yet.
        let placement = match &scenario {
            Ok(s) if !solved => placement(s).ok(),
            _ => None,
        };
        Ok(Self {
            index,
            place,
            scenario,
            placement,
        })
    }

    /// Decode steps that its timelines hold.
    fn steps(&self) -> u64 {
        self.scenario.as_ref().map_or(0, |s| {
            let traces = match &s.trace {
                TraceRef::Paths(paths) => paths.len() as u64,
                TraceRef::None | TraceRef::Embedded => 1,
            };
            u64::from(s.output) * traces
        })
    }

    fn run(&self, sweep: &Sweep, open: &Shelf) -> Result<Cell> {
        let mut cell = Cell {
            index: self.index,
            vary: sweep.grid.vary(self.index),
            ..Cell::default()
        };
        let scenario = match &self.scenario {
            Ok(scenario) => scenario,
            Err(why) => {
                cell.refused = Some(why.clone());
                return Ok(cell);
            }
        };
        let ran = open
            .get(&scenario.trace)
            .and_then(|traces| self.outcome(sweep, scenario, traces));
        match reason(ran, || sweep.grid.own_files(&self.place))? {
            Ok((solved, outcome)) => (cell.equal, cell.outcome) = (solved, Some(outcome)),
            Err(why) => cell.refused = Some(why),
        }
        Ok(cell)
    }

    /// The outcome, and how its policy's budget was solved where it was.
    fn outcome(
        &self,
        sweep: &Sweep,
        scenario: &Scenario,
        traces: &Recordings,
    ) -> Result<(Option<Solved>, Outcome)> {
        if sweep.solves(&self.place) {
            let (solved, outcome) = self.solved(sweep, scenario, traces)?;
            return Ok((Some(solved), outcome));
        }
        Ok((None, simulate_on(scenario, traces)?))
    }

    /// The cell with its policy's budget solved.
    fn solved(
        &self,
        sweep: &Sweep,
        own: &Scenario,
        traces: &Recordings,
    ) -> Result<(Solved, Outcome)> {
        let equal = sweep
            .equal
            .ok_or_else(|| Error::internal("nothing to be equal at"))?;
        let aside = traces.aside(); // its timelines serve this cell alone
        let target = match (equal.target, sweep.grid.policy_axis()) {
            (Some(target), _) => target,
            (None, Some(axis)) => {
                let mut place = self.place.clone();
                place[axis] = 0;
                equal.reference(&scenario(&sweep.grid, &place, false)?, traces)?
            }
            (None, None) => return Err(Error::internal("no reference to be equal with")),
        };
        let (scenario, parameter, value) = equal.solve(own, traces, target)?;
        let outcome = simulate_on(&asked_as_solved(scenario), &aside)?;
        let judged = equal.judge(
            &scenario_of(own, &outcome),
            &aside,
            (parameter, value, target),
        )?;
        Ok((judged, outcome))
    }
}

/// The policy among the settings of a scenario is the solved one, so that its outcome can be run again.
fn asked_as_solved(mut scenario: Scenario) -> Scenario {
    let policy = crate::policy::parse(&scenario.policy).map(|spec| spec.to_string());
    for setting in scenario.asked.iter_mut().filter(|a| a.name == "policy") {
        if let Ok(policy) = &policy {
            setting.value.clone_from(policy);
        }
    }
    scenario
}

/// The scenario with the policy of an outcome.
fn scenario_of(own: &Scenario, outcome: &Outcome) -> Scenario {
    Scenario {
        policy: outcome.policy.clone(),
        ..own.clone()
    }
}

impl Sweep {
    /// Whether the policy's budget at a place is solved for, not given.
    fn solves(&self, place: &[usize]) -> bool {
        match (self.equal, self.grid.policy_axis()) {
            (Some(equal), _) if equal.target.is_some() => true,
            (Some(_), Some(axis)) => place[axis] > 0,
            _ => false,
        }
    }
}

/// Open recordings of a window, or why they do not open.
struct Shelf {
    open: Vec<(TraceRef, Result<Recordings>)>,
    /// Whether cells have recordings of their own.
    varied: bool,
}

impl Shelf {
    fn of(grid: &Grid) -> Self {
        Self {
            open: Vec::new(),
            varied: grid.axes.iter().any(|a| a.key() == "trace"),
        }
    }

    /// Opens what a window needs, forgets the rest, replays. Damage in one recording of several is left to the cells that ask
    /// for it.
    fn prepare(&mut self, window: &[Asked]) -> Result<()> {
        let mut wanted: Vec<(TraceRef, Vec<Placement>)> = Vec::new();
        for asked in window {
            let Ok(scenario) = &asked.scenario else {
                continue;
            };
            let known = wanted.iter().position(|(t, _)| *t == scenario.trace);
            let at = known.unwrap_or_else(|| {
                wanted.push((scenario.trace.clone(), Vec::new()));
                wanted.len() - 1
            });
            wanted[at].1.extend(asked.placement);
        }
        self.open
            .retain(|(t, _)| wanted.iter().any(|(w, _)| w == t));
        for (trace, placements) in wanted {
            if !self.open.iter().any(|(t, _)| *t == trace) {
                self.open.push((trace.clone(), Recordings::open(&trace)));
            }
            let replayed = self.get(&trace).and_then(|recordings| {
                recordings.keep(&placements);
                recordings.prepare(&placements)
            });
            match replayed {
                Err(e) if e.cause == Cause::Data && self.varied => {}
                all => all?,
            }
        }
        Ok(())
    }

    fn get(&self, trace: &TraceRef) -> Result<&Recordings> {
        let found = self.open.iter().find(|(t, _)| t == trace);
        let (_, recordings) =
            found.ok_or_else(|| Error::internal("a recording of the sweep is not open"))?;
        recordings.as_ref().map_err(Clone::clone)
    }
}
