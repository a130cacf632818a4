//! Points over two axes, a panel a card, all panels on the same scales; names placed where they collide with nothing.

use maud::{Markup, html};

use super::super::document::figure::{Panel, Panels, Point, Standing};
use super::super::plot::chrome::Linear;
use super::super::plot::face::Face;
use super::super::plot::place::{Obstacles, Rect};
use super::axis::{Log, from_zero, place, sane, tick};
use crate::error::Result;

/// Width and height of a panel \[its own units\].
const SIZE: (f64, f64) = (360.0, 320.0);

/// Where the data go.
const EDGE: Rect = Rect {
    left: 42.0,
    top: 22.0,
    right: 350.0,
    bottom: 278.0,
};

/// Size of names \[units\].
const EM: f64 = 11.0;

/// Draws them.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub(super) fn draw(p: &Panels, level: u8) -> Result<Markup> {
    let all = || p.panels.iter().flat_map(|p| &p.points);
    let limits = p.panels.iter().filter_map(|p| p.limit.as_ref());
    let xs = all().map(|q| q.x).chain(limits.map(|(v, _)| *v));
    let x = from_zero(xs.map(|v| 1.05 * v / p.unit), (EDGE.left, EDGE.right));
    let ends = |q: &Point| {
        q.range
            .map_or([q.y, q.y], |(low, high)| [low.min(q.y), high.max(q.y)])
    };
    let y = Log::over(all().flat_map(ends), (EDGE.bottom, EDGE.top));
    let face = Face::embedded()?;
    let standings = Standing::ALL
        .into_iter()
        .filter(|s| all().any(|q| q.standing == *s));
    Ok(html! {
        div.chart data-roving="" role="group" aria-label={ "Points, " (p.upwards) " over " (p.across) "; arrow keys go from point to point" } {
            ul.key {
                @for s in standings { li { svg.swatch viewBox="-6 -6 12 12" aria-hidden="true" { (shape(s, 0.0, 0.0)) } (s.word()) } }
            }
            div.panels { @for panel in &p.panels { (one(panel, p, (&x, &y), &face, level)) } }
        }
    })
}

fn one(panel: &Panel, p: &Panels, (x, y): (&Linear, &Log), face: &Face, level: u8) -> Markup {
    let at = |q: &Point| (x.place(sane(q.x) / p.unit), y.place(sane(q.y)));
    let mut taken = Obstacles::default();
    if let Some((v, _)) = &panel.limit {
        let x = x.place(sane(*v) / p.unit);
        taken.paths.push(vec![(x, EDGE.top), (x, EDGE.bottom)]);
    }
    let whiskers = dodged(panel, &at, y);
    let upright = |w: &Whisker| vec![(w.x, w.high), (w.x, w.low)];
    taken.paths.extend(whiskers.iter().flatten().map(upright));
    taken
        .boxes
        .extend(panel.points.iter().map(|q| Rect::around(at(q), 11.0, 11.0)));
    let names = panel.points.iter().filter(|q| !q.name.is_empty());
    let names: Vec<Markup> = names.map(|q| name(q, at(q), face, &mut taken)).collect();
    html! {
        div.panel {
            @if !panel.name.is_empty() { @if level <= 4 { h4 { (panel.name) } } @else { h5 { (panel.name) } } }
            svg viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="group" aria-label={ (panel.name) ", " (panel.points.len()) " points" } {
                (axes(p, x, y))
                @if let Some((v, tip)) = &panel.limit {
                    @let at = place(x.place(sane(*v) / p.unit));
                    line.mark.limit x1=(at) x2=(at) y1=(EDGE.top) y2=(EDGE.bottom) role="img" aria-label=(tip) data-tip=(tip) { title { (tip) } }
                }
                @for n in &names { (n) }
                @for (q, w) in panel.points.iter().zip(&whiskers) { (mark(q, at(q), w.as_ref())) }
            }
        }
    }
}

/// An interval as it is drawn.
#[derive(Clone, Copy)]
struct Whisker {
    x: f64,
    low: f64,
    high: f64,
}

/// Intervals of a panel, moved sideways where they would lie on one another.
fn dodged(panel: &Panel, at: &dyn Fn(&Point) -> (f64, f64), y: &Log) -> Vec<Option<Whisker>> {
    let mut placed: Vec<Option<Whisker>> = Vec::new();
    for q in &panel.points {
        let (x, _) = at(q);
        let found = q.range.map(|(low, high)| {
            let (low, high) = (y.place(low), y.place(high));
            let free = |x: f64| {
                let meets =
                    |w: &Whisker| (w.x - x).abs() < 4.0 && w.high < low + 2.0 && high < w.low + 2.0;
                !placed.iter().flatten().any(meets)
            };
            let aside = (0..9).flat_map(|i| [5.0, -5.0].map(|by| x + by * f64::from(i)));
            Whisker {
                x: aside.into_iter().find(|x| free(*x)).unwrap_or(x),
                low,
                high,
            }
        });
        placed.push(found);
    }
    placed
}

fn axes(p: &Panels, x: &Linear, y: &Log) -> Markup {
    html! {
        g aria-hidden="true" {
            @for v in x.ticks(5.0) {
                @let at = place(x.place(v));
                line.grid x1=(at) x2=(at) y1=(EDGE.top) y2=(EDGE.bottom) {}
                text.tick x=(at) y=(EDGE.bottom + 15.0) text-anchor="middle" { (tick(v)) }
            }
            @for v in y.ticks() {
                @let at = place(y.place(v));
                line.grid x1=(EDGE.left) x2=(EDGE.right) y1=(at) y2=(at) {}
                text.tick x=(EDGE.left - 6.0) y=(place(y.place(v) + 4.0)) text-anchor="end" { (tick(v)) }
            }
            text.tick x=(f64::midpoint(EDGE.left, EDGE.right)) y=(EDGE.bottom + 34.0) text-anchor="middle" { (p.across) }
            text.tick x="4" y="11" { (p.upwards) ", log scale" }
        }
    }
}

fn mark(q: &Point, (x, y): (f64, f64), whisker: Option<&Whisker>) -> Markup {
    html! {
        g.mark role="img" aria-label=(q.tip) data-tip=(q.tip) {
            title { (q.tip) }
            circle.reach cx=(place(x)) cy=(place(y)) r="9" {}
            @if let Some(w) = whisker {
                @let cap = |at: f64| format!("M{} {}h6", place(w.x - 3.0), place(at));
                path.whisker.(stroke(q.standing)) d={ "M" (place(w.x)) " " (place(w.low)) "V" (place(w.high)) (cap(w.low)) (cap(w.high)) } {}
            }
            (shape(q.standing, x, y))
        }
    }
}

/// The class of an interval's colour.
fn stroke(standing: Standing) -> &'static str {
    match standing {
        Standing::Today | Standing::Simulated => "today",
        Standing::NotToday | Standing::Front => "notyet",
        Standing::Other => "other",
    }
}

fn shape(standing: Standing, x: f64, y: f64) -> Markup {
    html! {
        @match standing {
            Standing::Today | Standing::Simulated => circle.dot.blue cx=(place(x)) cy=(place(y)) r="4.5" {},
            Standing::NotToday => circle.dot.hollow cx=(place(x)) cy=(place(y)) r="4" {},
            Standing::Front => circle.dot.vermilion cx=(place(x)) cy=(place(y)) r="5" {},
            Standing::Other => path.dot.dark d={ "M" (place(x)) " " (place(y - 5.5)) "l5.5 5.5l-5.5 5.5l-5.5 -5.5z" } {},
        }
    }
}

/// A name beside its point, tied to it by a line where it stands further off; none where there is no room.
fn name(q: &Point, (x, y): (f64, f64), face: &Face, taken: &mut Obstacles) -> Markup {
    let width = face.width(&q.name, EM);
    let beside = |dy: f64| {
        let far = 9.0 + if dy.abs() > 7.0 { 9.0 } else { 0.0 };
        [1.0, -1.0].map(|side| Rect::around((x + side * (far + width / 2.0), y + dy), width, EM))
    };
    let steps = (0..14).flat_map(|i| [f64::from(i), -f64::from(i)]);
    let candidates: Vec<Rect> = steps.flat_map(|i| beside(6.0 * i)).collect();
    let bounds = Rect {
        left: 4.0,
        right: SIZE.0 - 2.0,
        ..EDGE
    };
    let chosen = taken
        .best(&candidates, &bounds, |_, _| 0)
        .map(|i| candidates[i]);
    let Some(r) = chosen.filter(|r| taken.collisions(&r.grown(0.5)) == 0) else {
        return html! {};
    };
    taken.boxes.push(r);
    let middle = f64::midpoint(r.top, r.bottom);
    let near = if r.left > x {
        r.left - 1.5
    } else {
        r.right + 1.5
    };
    html! {
        @if (middle - y).abs() > 7.0 { line.leader x1=(place(x)) y1=(place(y)) x2=(place(near)) y2=(place(middle)) {} }
        text.label x=(place(r.left)) y=(place(middle + 0.36 * EM)) { (q.name) }
    }
}
