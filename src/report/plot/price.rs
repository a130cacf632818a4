//! The price of a GiB: throughput kept against HBM saved, a line a link.

use plotters::style::RGBColor;

use super::chrome::{self, Linear};
use super::color::{BLUE, GREEN, INK, PURPLE, QUIET, VERMILION};
use super::face::Face;
use super::place::Rect;
use super::scene::{Scene, Shape, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::plan::figures::price::{LINKS, Price, TICKS};
use crate::units::GIB;
use crate::units::text::group;

const SIZE: (u32, u32) = (540, 490);

/// Colour of each link.
const COLORS: [RGBColor; 4] = [VERMILION, PURPLE, GREEN, BLUE];

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(p: &Price, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(p)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(p: &Price) -> Result<Scene> {
    let face = Face::embedded()?;
    let (mut scene, inner) = chrome::begin(&p.words, SIZE, &face);
    let edge = Rect {
        left: inner.left + 46.0,
        top: inner.top + 24.0,
        right: inner.right - 106.0,
        bottom: inner.bottom - 40.0,
    };
    let saved = p.lines.iter().flatten().map(|q| q.saved / GIB);
    let most = saved.fold(0.0, f64::max).max(1e-3);
    let x = Linear {
        range: (0.0, 1.04 * most),
        at: (edge.left, edge.right),
    };
    let y = Linear {
        range: (0.0, 1.2),
        at: (edge.bottom, edge.top),
    };
    chrome::across(&mut scene, &x, edge, 6.0, chrome::tick);
    chrome::upwards(&mut scene, &y, edge, 5.0, |v| format!("{:.0} %", 100.0 * v));
    let at = (f64::midpoint(edge.left, edge.right), edge.bottom + 34.0);
    scene.write(
        "HBM saved by moving (GiB)",
        at,
        Side::Middle,
        chrome::EM,
        INK,
    );
    let at = (inner.left, inner.top + 10.0);
    let text = "tokens/s, share of everything in HBM";
    scene.write(text, at, Side::Left, chrome::EM, INK);
    let mut taken = Vec::new();
    for ((line, link), color) in p.lines.iter().zip(LINKS).zip(COLORS) {
        draw_line(&mut scene, line, (&x, &y), color, !link.is_finite());
        if let Some(last) = line.last() {
            let place = free(&mut taken, y.place(last.kept) + 4.0);
            let at = (x.place(last.saved / GIB) + 8.0, place);
            let text = format!("{}  {:.0} %", name(link), 100.0 * last.kept);
            scene.write(text, at, Side::Left, chrome::EM, color);
        }
    }
    published(&mut scene, p, (&x, &y), &face, edge);
    Ok(scene)
}

/// A place for a label at least a line from the ones above it.
fn free(taken: &mut Vec<f64>, wanted: f64) -> f64 {
    let mut y = wanted;
    while taken.iter().any(|t: &f64| (t - y).abs() < 15.0) {
        y -= 5.0;
    }
    taken.push(y);
    y
}

fn name(link: f64) -> String {
    if link.is_finite() {
        format!("{:.0} GB/s", link / 1e9)
    } else {
        "infinite".into()
    }
}

fn draw_line(
    scene: &mut Scene,
    line: &[crate::plan::figures::price::Point],
    (x, y): (&Linear, &Linear),
    color: RGBColor,
    named: bool,
) {
    let place = |q: &crate::plan::figures::price::Point| (x.place(q.saved / GIB), y.place(q.kept));
    scene.line(line.iter().map(place).collect(), color, 2.0);
    for q in line.iter().filter(|q| TICKS.contains(&q.in_hbm)) {
        let at = place(q);
        scene.line(vec![(at.0, at.1 - 6.0), (at.0, at.1 + 6.0)], color, 1.5);
        if named {
            // The first says what the others are, too.
            let first = TICKS.first() == Some(&q.in_hbm);
            let text = format!("{} %{}", q.in_hbm, if first { " in HBM" } else { "" });
            // Over the line and to the right, where it falls away; the long one higher, clear of the next.
            let up = if first { 15.0 } else { 7.0 };
            scene.write(text, (at.0 + 4.0, at.1 - up), Side::Left, 11.5, QUIET);
        }
    }
}

/// The published point, hollow, and the link it would take.
fn published(scene: &mut Scene, p: &Price, (x, y): (&Linear, &Linear), face: &Face, edge: Rect) {
    let Some(point) = p.published else {
        return;
    };
    let at = (x.place(point.saved / GIB), y.place(point.kept));
    for (radius, color) in [(6.0, INK), (4.2, RGBColor(255, 255, 255))] {
        scene.shapes.push(Shape::Dot { at, radius, color });
    }
    let lines = [
        "published: 48 GiB, 5 to 7 % lost".to_string(),
        format!(
            "reading them takes {} GB/s",
            group(&format!("{:.0}", point.link / 1e9))
        ),
    ];
    for (i, text) in lines.into_iter().enumerate() {
        let width = face.width(&text, 11.5);
        let left = (at.0 - width / 2.0).clamp(edge.left + 4.0, edge.right - width);
        let y = at.1 - 36.0 + 13.0 * i as f64;
        scene.write(text, (left, y), Side::Left, 11.5, QUIET);
    }
}
