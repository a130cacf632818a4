//! Policies side by side: how far each is from the full cache, and what a right answer costs it, with intervals.

use super::chrome::{self, Linear, SMALL};
use super::color::{BLUE, GRID, INK, QUIET, VERMILION};
use super::face::Face;
use super::frame::decimal_ticks;
use super::place::Rect;
use super::scene::{Point, Scene, Shape, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::eval::policies::{Policies, Row};
use crate::plan::figures::Words;
use crate::units::text::{group, significant};

/// Height of a row \[units\].
const ROW: f64 = 34.0;

const WIDTH: u32 = 560;

/// Smallest KL that has a place; what is nearer stands at the edge with its value.
const LEAST: f64 = 1e-7;

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(p: &Policies, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(p)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(p: &Policies) -> Result<Scene> {
    let face = Face::embedded()?;
    let words = Words {
        title: p.title.clone(),
        subtitle: p.subtitle.clone(),
        caption: p.caption.clone(),
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few hundred units
    let height = 262 + (ROW * p.rows.len() as f64) as u32;
    let (mut scene, inner) = chrome::begin(&words, (WIDTH, height), &face);
    let edge = Rect {
        left: inner.left + 150.0,
        top: inner.top + 34.0,
        right: inner.right - 58.0,
        bottom: inner.bottom - 36.0,
    };
    let costs = p.rows.iter().any(|r| r.tokens.is_some());
    let middle = edge.left + if costs { 0.56 } else { 1.0 } * (edge.right - edge.left);
    let first = Rect {
        right: if costs { middle - 52.0 } else { middle - 48.0 },
        ..edge
    };
    rows(&mut scene, &face, p, (inner, edge));
    divergence(&mut scene, p, first);
    if costs {
        cost(
            &mut scene,
            p,
            Rect {
                left: middle + 6.0,
                right: edge.right - 42.0,
                ..edge
            },
        );
    }
    Ok(scene)
}

/// The height at which a row stands.
fn level(edge: &Rect, rows: usize, i: usize) -> f64 {
    edge.top + (edge.bottom - edge.top) * (i as f64 + 0.5) / rows.max(1) as f64
}

/// Names at the left, tokens in HBM at the right.
fn rows(scene: &mut Scene, face: &Face, p: &Policies, (inner, edge): (Rect, Rect)) {
    let head = (inner.right, edge.top - 22.0);
    scene.write("HBM", head, Side::Right, SMALL, QUIET);
    scene.write("tokens", (head.0, head.1 + 14.0), Side::Right, SMALL, QUIET);
    for (i, row) in p.rows.iter().enumerate() {
        let y = level(&edge, p.rows.len(), i);
        let room = edge.left - inner.left - 10.0;
        let em = |text: &str, em: f64| em * (room / face.width(text, em)).min(1.0);
        scene.write(
            &row.name,
            (inner.left, y - 1.0),
            Side::Left,
            em(&row.name, chrome::EM),
            INK,
        );
        let below = (inner.left, y + 12.5);
        scene.write(&row.budget, below, Side::Left, em(&row.budget, 11.0), QUIET);
        let text = group(&format!("{:.0}", row.hbm_tokens));
        scene.write(text, (inner.right, y + 4.0), Side::Right, chrome::EM, INK);
    }
}

/// A panel of divergences.
fn divergence(scene: &mut Scene, p: &Policies, edge: Rect) {
    let ends = p.rows.iter().flat_map(|r| match r.kl.1 {
        Some((low, high)) => [low, high, r.kl.0],
        None => [r.kl.0; 3],
    });
    let sound = ends.filter(|v| *v > LEAST);
    let (low, high) = sound.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let (low, high) = if high > 0.0 {
        (low, high)
    } else {
        (1e-4, 1e-2)
    };
    let axis = Linear {
        range: (
            libm::log10(low) - 0.08,
            libm::log10(high.max(2.0 * low)) + 0.08,
        ),
        at: (edge.left, edge.right),
    };
    let ticks = decades(axis.range);
    let crowded = (edge.right - edge.left) / ticks.len().max(1) as f64;
    for v in ticks
        .into_iter()
        .step_by(if crowded < 44.0 { 2 } else { 1 })
    {
        let x = axis.place(libm::log10(v));
        scene.line(vec![(x, edge.top), (x, edge.bottom)], GRID, 1.0);
        scene.write(
            short(v),
            (x, edge.bottom + 1.3 * chrome::EM),
            Side::Middle,
            chrome::EM,
            INK,
        );
    }
    let title = "KL(full || policy), nat a token";
    scene.write(title, (edge.left, edge.top - 15.0), Side::Left, SMALL, INK);
    let place = |v: f64| axis.place(libm::log10(v.max(LEAST)).clamp(axis.range.0, axis.range.1));
    for (i, row) in p.rows.iter().enumerate() {
        let y = level(&edge, p.rows.len(), i);
        let range = row.kl.1.map(|(low, high)| (place(low), place(high), true));
        whisker(scene, (place(row.kl.0), y), range, BLUE);
        let text = in_short(row.kl.0);
        scene.write(text, (edge.right + 8.0, y + 4.0), Side::Left, SMALL, INK);
    }
}

/// A panel of tokens a right answer.
fn cost(scene: &mut Scene, p: &Policies, edge: Rect) {
    let most = p.rows.iter().filter_map(|r| r.tokens).map(|(v, _)| v);
    let most = 2.2 * most.fold(1.0, f64::max);
    let axis = Linear {
        range: (0.0, most),
        at: (edge.left, edge.right),
    };
    let wanted = ((edge.right - edge.left) / 56.0).clamp(1.0, 4.0);
    chrome::across(scene, &axis, edge, wanted, chrome::tick);
    let title = "tokens a right answer";
    scene.write(title, (edge.left, edge.top - 15.0), Side::Left, SMALL, INK);
    for (i, row) in p.rows.iter().enumerate() {
        let y = level(&edge, p.rows.len(), i);
        let Row {
            tokens: Some((v, (low, high))),
            ..
        } = row
        else {
            scene.write("none right", (edge.left, y + 4.0), Side::Left, SMALL, QUIET);
            continue;
        };
        let closed = high.is_some_and(|h| h <= most);
        let end = high.unwrap_or(most).min(most);
        let range = (axis.place(*low), axis.place(end), closed);
        whisker(scene, (axis.place(*v), y), Some(range), VERMILION);
        let text = group(&format!("{v:.0}"));
        scene.write(text, (edge.right + 8.0, y + 4.0), Side::Left, SMALL, INK);
    }
}

/// A dot with its interval; an arrow where the interval goes on.
fn whisker(
    scene: &mut Scene,
    at: Point,
    range: Option<(f64, f64, bool)>,
    color: plotters::style::RGBColor,
) {
    let y = at.1;
    if let Some((low, high, closed)) = range {
        scene.line(vec![(low, y), (high, y)], color, 1.6);
        scene.line(vec![(low, y - 4.0), (low, y + 4.0)], color, 1.6);
        if closed {
            scene.line(vec![(high, y - 4.0), (high, y + 4.0)], color, 1.6);
        } else {
            scene.area(
                vec![
                    (high + 4.0, y),
                    (high - 4.0, y - 4.0),
                    (high - 4.0, y + 4.0),
                ],
                color,
                1.0,
            );
        }
    }
    scene.shapes.push(Shape::Dot {
        at,
        radius: 4.4,
        color,
    });
}

/// A divergence in as few letters as a table has for it.
fn in_short(kl: f64) -> String {
    if kl >= 0.001 || kl <= 0.0 {
        significant(kl)
    } else {
        format!("{kl:.1e}")
    }
}

/// Whole powers of ten over a wide range, finer steps over a narrow one.
fn decades(range: (f64, f64)) -> Vec<f64> {
    let ticks = decimal_ticks(range);
    let whole = |v: &f64| (libm::log10(*v) - libm::log10(*v).round()).abs() < 1e-9;
    let powers: Vec<f64> = ticks.iter().copied().filter(whole).collect();
    if powers.len() >= 2 {
        powers
    } else {
        ticks.into_iter().step_by(2).collect()
    }
}

/// `0.001`, `1e-5`.
fn short(v: f64) -> String {
    if v >= 0.000_999 {
        format!("{}", (v * 1e4).round() / 1e4)
    } else {
        format!("{v:.0e}")
    }
}
