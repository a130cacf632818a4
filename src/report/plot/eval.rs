//! Divergence against what policies keep: a panel for tokens retained, one for tokens in HBM.
//!
//! The axis upwards is logarithmic, with a strip for 0 under it: what changes no bit is not a small number. A few families
//! are named beside their lines, more of them in a key; beyond as many as there are colours, lines are dashed.

use plotters::style::RGBColor;

use super::chrome::{self, Fill, Linear};
use super::color::{BLUE, GREEN, GREY, GRID, INK, PURPLE, QUIET, SKY, VERMILION};
use super::face::Face;
use super::place::{Obstacles, Rect};
use super::scene::{Scene, Shape, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::eval::figure::{Figure, Panel, Point};
use crate::plan::figures::Words;

const SIZE: (u32, u32) = (900, 500);

/// Colours of the families, in turn.
const COLORS: [RGBColor; 7] = [
    BLUE,
    VERMILION,
    GREEN,
    PURPLE,
    GREY,
    SKY,
    RGBColor(150, 110, 0),
];

/// Families that are named beside their lines; more go into a key.
const BESIDE: usize = 4;

/// Height of the strip for 0 \[units\].
const STRIP: f64 = 32.0;

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(f: &Figure, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(f)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(f: &Figure) -> Result<Scene> {
    let face = Face::embedded()?;
    let words = Words {
        title: f.title.clone(),
        subtitle: f.subtitle.clone(),
        caption: f.caption.clone(),
    };
    let (mut scene, mut inner) = chrome::begin(&words, SIZE, &face);
    if f.families.len() > BESIDE {
        let entry = |(i, name)| (name, fill(i));
        let names = f.families.iter().map(String::as_str).enumerate();
        let entries: Vec<(&str, Fill)> = names.map(entry).collect();
        inner.top += chrome::key(&mut scene, &face, &entries, inner);
    }
    let at = (inner.left, inner.top + 10.0);
    scene.write(
        "KL(full || policy), nat a token",
        at,
        Side::Left,
        chrome::EM,
        INK,
    );
    let gap = 58.0;
    let width = (inner.right - inner.left - 52.0 - gap - 8.0) / 2.0;
    let y = Upwards::of(f, inner.bottom - 40.0, inner.top + 26.0);
    for (i, panel) in f.panels.iter().enumerate() {
        let left = inner.left + 52.0 + i as f64 * (width + gap);
        let edge = Rect {
            left,
            top: inner.top + 26.0,
            right: left + width,
            bottom: inner.bottom - 40.0,
        };
        draw_panel(&mut scene, &face, f, panel, &y, edge);
    }
    Ok(scene)
}

/// How a family shows in the key.
fn fill(family: usize) -> Fill {
    let color = COLORS[family % COLORS.len()];
    if family < COLORS.len() {
        Fill::Plain(color)
    } else {
        Fill::Hatched(color)
    }
}

/// The logarithmic axis with its strip.
struct Upwards {
    /// log10 at the ends.
    range: (f64, f64),
    zero: f64,
    at: (f64, f64),
}

impl Upwards {
    fn of(f: &Figure, bottom: f64, top: f64) -> Self {
        let points = f
            .panels
            .iter()
            .flat_map(|p| &p.lines)
            .flat_map(|l| &l.points);
        let values =
            points.flat_map(|p| [Some(p.kl), p.interval.map(|i| i.0), p.interval.map(|i| i.1)]);
        let positive = values.flatten().filter(|v| *v > 1e-12);
        let (low, high) = positive.fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = if low.is_finite() {
            (low, high)
        } else {
            (1e-4, 1.0)
        };
        let mut range = (libm::log10(low).floor(), libm::log10(high).ceil());
        if range.1 <= range.0 {
            range.1 = range.0 + 1.0;
        }
        Self {
            range,
            zero: bottom - STRIP / 2.0,
            at: (bottom - STRIP, top),
        }
    }

    fn place(&self, kl: f64) -> f64 {
        if kl <= 1e-12 {
            return self.zero;
        }
        let share = (libm::log10(kl) - self.range.0) / (self.range.1 - self.range.0);
        self.at.0 + share.clamp(0.0, 1.0) * (self.at.1 - self.at.0)
    }

    fn draw(&self, scene: &mut Scene, edge: Rect) {
        #[allow(clippy::cast_possible_truncation)] // a few decades
        let powers = self.range.0 as i32..=self.range.1 as i32;
        let label = |scene: &mut Scene, text: String, y: f64| {
            let at = (edge.left - 6.0, y + 0.36 * chrome::EM);
            scene.write(text, at, Side::Right, chrome::EM, INK);
        };
        for power in powers {
            let y = self.place(libm::pow(10.0, f64::from(power)));
            scene.line(vec![(edge.left, y), (edge.right, y)], GRID, 1.0);
            let text = if (-3..=1).contains(&power) {
                format!("{}", libm::pow(10.0, f64::from(power)))
            } else {
                format!("1e{power}")
            };
            label(scene, text, y);
        }
        label(scene, "0".into(), self.zero);
        scene.line(
            vec![(edge.left, edge.bottom), (edge.right, edge.bottom)],
            QUIET,
            1.0,
        );
    }
}

fn draw_panel(scene: &mut Scene, face: &Face, f: &Figure, panel: &Panel, y: &Upwards, edge: Rect) {
    let points = panel.lines.iter().flat_map(|l| &l.points);
    let least = points.map(|p| p.across).fold(panel.full, f64::min);
    let margin = 0.06 * (panel.full - least).max(1.0);
    let x = Linear {
        range: ((least - margin).max(0.0), panel.full + margin),
        at: (edge.left, edge.right),
    };
    chrome::across(scene, &x, edge, 5.0, chrome::tick);
    y.draw(scene, edge);
    let at = (f64::midpoint(edge.left, edge.right), edge.bottom + 34.0);
    scene.write(panel.across, at, Side::Middle, chrome::EM, INK);
    let full = x.place(panel.full);
    scene.shapes.push(Shape::Line {
        points: vec![(full, edge.top), (full, edge.bottom)],
        color: QUIET,
        width: 1.0,
        dash: Some((4.0, 4.0)),
    });
    let above = (full, edge.top - 5.0);
    if !panel.lines.is_empty() {
        scene.write("full cache", above, Side::Middle, 10.0, QUIET);
    }
    let mut taken = Obstacles::default();
    taken
        .paths
        .push(vec![(full, edge.top), (full, edge.bottom)]);
    let place = |p: &Point| (x.place(p.across), y.place(p.kl));
    for line in &panel.lines {
        let color = COLORS[line.family % COLORS.len()];
        let path: Vec<_> = line.points.iter().map(place).collect();
        for (p, at) in line.points.iter().zip(&path) {
            if let Some((low, high)) = p.interval.filter(|i| i.1 > 0.0) {
                let bar = vec![(at.0, y.place(low)), (at.0, y.place(high))];
                scene.line(bar.clone(), color, 1.0);
                taken.paths.push(bar);
            }
            let (at, radius) = (*at, 3.4);
            scene.shapes.push(Shape::Dot { at, radius, color });
            taken.boxes.push(Rect::around(at, 8.0, 8.0));
        }
        if path.len() > 1 {
            scene.shapes.push(Shape::Line {
                points: path.clone(),
                color,
                width: 1.8,
                dash: (line.family >= COLORS.len()).then_some((6.0, 4.0)),
            });
            taken.paths.push(path);
        }
    }
    name(scene, face, f, panel, &place, (&mut taken, edge));
}

/// Writes the families' names and then the budgets beside the points, where there is room.
fn name(
    scene: &mut Scene,
    face: &Face,
    f: &Figure,
    panel: &Panel,
    place: &dyn Fn(&Point) -> super::scene::Point,
    (taken, edge): (&mut Obstacles, Rect),
) {
    let bounds = Rect {
        left: edge.left + 2.0,
        bottom: edge.bottom - 3.0,
        ..edge.grown(6.0)
    };
    let beside = f.families.len() <= BESIDE;
    for (family, text) in f.families.iter().enumerate().filter(|_| beside) {
        let color = COLORS[family % COLORS.len()];
        let own = panel.lines.iter().filter(|l| l.family == family);
        let ends: Vec<_> = own.flat_map(|l| l.points.iter().map(place)).collect();
        write(
            scene,
            face,
            (text, 12.0, color),
            &ends,
            (taken, bounds),
            usize::MAX,
        );
    }
    for line in &panel.lines {
        let one = line
            .points
            .iter()
            .all(|p| p.budget == line.points[0].budget);
        let named = if one { 1 } else { line.points.len() };
        for p in line.points.iter().rev().take(named) {
            let text = (p.budget.as_str(), 10.0, QUIET);
            write(scene, face, text, &[place(p)], (taken, bounds), 0);
        }
    }
}

/// Writes a text beside one of some places, if it then collides with at most so many things.
fn write(
    scene: &mut Scene,
    face: &Face,
    (text, em, color): (&str, f64, RGBColor),
    places: &[super::scene::Point],
    (taken, bounds): (&mut Obstacles, Rect),
    most: usize,
) {
    let (width, height) = (face.width(text, em), 1.1 * em);
    let beside = |at: &super::scene::Point| {
        let (dx, dy) = (width / 2.0 + 8.0, height / 2.0 + 7.0);
        [
            (dx, 0.0),
            (-dx, 0.0),
            (0.0, -dy),
            (0.0, dy),
            (dx, -dy),
            (-dx, -dy),
            (dx, dy),
            (-dx, dy),
            (0.0, -2.2 * dy),
            (0.0, 2.2 * dy),
        ]
        .map(|(x, y)| Rect::around((at.0 + x, at.1 + y), width, height))
    };
    // A name may stand further off than a budget, which belongs to one point.
    let near = if most > 0 { 10 } else { 8 };
    let candidates: Vec<Rect> = places
        .iter()
        .flat_map(|at| beside(at).into_iter().take(near))
        .collect();
    let Some(best) = taken.best(&candidates, &bounds, |_, _| 0) else {
        return;
    };
    let r = candidates[best];
    if taken.collisions(&r) > most {
        return;
    }
    let at = (r.left, r.bottom - 0.28 * em);
    scene.write(text, at, Side::Left, em, color);
    taken.boxes.push(r);
}
