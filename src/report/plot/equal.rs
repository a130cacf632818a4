//! Policies at equal peak HBM: what each destroys, and how fast it runs.

use super::chrome::{self, Fill, Linear};
use super::color::{INK, QUIET, VERMILION};
use super::face::Face;
use super::place::Rect;
use super::scene::{Scene, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::sweep::figure::{Equals, Row};

/// Height of a row \[units\].
const ROW: f64 = 34.0;

const WIDTH: u32 = 560;

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(e: &Equals, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(e)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(e: &Equals) -> Result<Scene> {
    let face = Face::embedded()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few hundred units
    let height = 226 + (ROW * e.rows.len() as f64) as u32;
    let (mut scene, inner) = chrome::begin(&e.words, (WIDTH, height), &face);
    let edge = Rect {
        left: inner.left + 186.0,
        top: inner.top + 22.0,
        right: inner.right - 128.0,
        bottom: inner.bottom - 34.0,
    };
    let most = e.rows.iter().filter_map(|r| r.mass).map(|(_, p99)| p99);
    let axis = Linear {
        range: (0.0, 1.05 * most.fold(1e-4, f64::max)),
        at: (edge.left, edge.right),
    };
    chrome::across(&mut scene, &axis, edge, 5.0, |v| {
        format!("{} %", chrome::tick(100.0 * v))
    });
    let at = (f64::midpoint(edge.left, edge.right), edge.bottom + 31.0);
    let text = "attention on destroyed tokens";
    scene.write(text, at, Side::Middle, chrome::EM, INK);
    let head = (edge.right + 12.0, edge.top - 6.0);
    scene.write("tokens/s, destroyed", head, Side::Left, 11.5, QUIET);
    let room = (edge.bottom - edge.top) / e.rows.len() as f64;
    for (i, row) in e.rows.iter().enumerate() {
        let y = edge.top + room * (i as f64 + 0.5);
        draw_row(&mut scene, &face, row, &axis, (inner.left, edge.right, y));
    }
    Ok(scene)
}

fn draw_row(
    scene: &mut Scene,
    face: &Face,
    row: &Row,
    axis: &Linear,
    (left, right, y): (f64, f64, f64),
) {
    let room = axis.at.0 - left - 10.0;
    let fitting = |text: &str, em: f64| em * (room / face.width(text, em)).min(1.0);
    // A long name goes on in the line below it.
    let (name, more) = match row.policy.split_once(',') {
        Some((name, more)) if face.width(&row.policy, 13.0) > room => (name, Some(more)),
        _ => (row.policy.as_str(), None),
    };
    let below: Vec<&str> = more.into_iter().chain(row.solved.as_deref()).collect();
    let above = if below.is_empty() { -4.0 } else { 2.0 };
    scene.write(
        name,
        (left, y - above),
        Side::Left,
        fitting(name, 13.0),
        INK,
    );
    if !below.is_empty() {
        let text = &below.join(", ");
        scene.write(
            text,
            (left, y + 12.0),
            Side::Left,
            fitting(text, 11.0),
            QUIET,
        );
    }
    if let Some(why) = &row.refused {
        let text = format!("not equal: {why}");
        let lines = face.wrap(&text, 11.0, right + 140.0 - axis.at.0);
        for (i, line) in lines.into_iter().take(2).enumerate() {
            let at = (axis.at.0 + 6.0, y - 3.0 + 13.0 * i as f64);
            scene.write(line, at, Side::Left, 11.0, QUIET);
        }
        return;
    }
    if let Some((mean, p99)) = row.mass {
        let bar = Rect {
            left: axis.at.0,
            top: y - 8.0,
            right: axis.place(mean),
            bottom: y + 8.0,
        };
        Fill::Hatched(VERMILION).draw(scene, bar);
        let (from, to) = (axis.place(mean), axis.place(p99));
        scene.line(vec![(from, y), (to, y)], INK, 1.2);
        scene.line(vec![(to, y - 5.0), (to, y + 5.0)], INK, 1.2);
    }
    let rate = row.tokens_per_s.map_or("-".into(), |r| {
        crate::units::text::group(&format!("{r:.0}"))
    });
    let text = format!("{rate}, {:.0} %", 100.0 * row.destroyed_share);
    scene.write(text, (right + 12.0, y + 4.0), Side::Left, 12.5, INK);
}
