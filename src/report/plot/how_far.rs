//! How far and how fast: tokens per request against output tokens per second on one card.
//!
//! Shown: the wall where HBM is full, the strip in which streaming is free, each T1 mode, the engine as it is (preempt
//! and recompute) as a dashed floor, and the area where tiering beats it, shaded.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::color::{BLUE, GREEN, GREY, GRID, INK, QUIET, VERMILION, YELLOW};
use super::{Image, SANS, SIZE, broken, font};
use crate::error::Result;
use crate::plan::curve::{Curve, Series};
use crate::units::text::{group, significant};

type Area<'a, DB> = DrawingArea<DB, Shift>;
type Chart<'a, DB> = ChartContext<'a, DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws the curve into bytes.
///
/// # Errors
/// Internal only.
pub fn draw(curve: &Curve, image: Image) -> Result<Vec<u8>> {
    font()?;
    match image {
        Image::Svg => {
            let mut text = String::new();
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            paint(&area, curve, 1.0)?;
            drop(area);
            Ok(text.into_bytes())
        }
        Image::Png => {
            let (w, h) = (SIZE.0 * 2, SIZE.1 * 2);
            let mut pixels = vec![0; (w * h * 3) as usize];
            let area = BitMapBackend::with_buffer(&mut pixels, (w, h)).into_drawing_area();
            paint(&area, curve, 2.0)?;
            drop(area);
            super::png(&pixels, w, h)
        }
    }
}

/// The axes' ranges: log2 of tokens, log10 of tokens/s.
struct Ranges {
    x: (f64, f64),
    y: (f64, f64),
}

fn ranges(c: &Curve) -> Ranges {
    let values = [&c.in_hbm, &c.engine, &c.stream, &c.host]
        .into_iter()
        .flatten()
        .flatten()
        .copied();
    let (low, high) = values.fold((f64::INFINITY, 1.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let x = (
        f64::from(c.tokens[0]).log2(),
        f64::from(*c.tokens.last().unwrap_or(&c.tokens[0])).log2(),
    );
    Ranges {
        x: (x.0, x.1 + 0.28 * (x.1 - x.0)),
        y: ((low.max(0.1) / 1.35).log10(), (high * 1.4).log10()),
    }
}

fn paint<DB: DrawingBackend>(area: &Area<'_, DB>, c: &Curve, scale: f64) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let px = |n: f64| -> u32 { (n * scale).round() as u32 };
    let r = ranges(c);
    area.fill(&WHITE).map_err(broken)?;
    let left = px(18.0) as i32;
    area.draw(&Text::new(
        c.title.clone(),
        (left, px(14.0) as i32),
        (SANS, px(17.0)).into_font().color(&INK),
    ))
    .map_err(broken)?;
    area.draw(&Text::new(
        c.subtitle.clone(),
        (left, px(37.0) as i32),
        (SANS, px(12.0)).into_font().color(&QUIET),
    ))
    .map_err(broken)?;
    let mut chart = ChartBuilder::on(area)
        .margin_top(px(60.0))
        .margin_left(px(10.0))
        .margin_right(px(14.0))
        .margin_bottom(px(8.0))
        .x_label_area_size(px(44.0))
        .y_label_area_size(px(58.0))
        .build_cartesian_2d(r.x.0..r.x.1, r.y.0..r.y.1)
        .map_err(broken)?;
    axes(&mut chart, &r, px(12.0))?;
    zones(&mut chart, c, &r, px(11.0))?;
    gain(&mut chart, c)?;
    series(&mut chart, c, &r, scale)?;
    area.present().map_err(broken)
}

/// Grid and labels at powers of two and at 1, 2, 5 times powers of ten.
fn axes<DB: DrawingBackend>(chart: &mut Chart<'_, DB>, r: &Ranges, size: u32) -> Result<()>
where
    DB::ErrorType: 'static,
{
    chart
        .configure_mesh()
        .disable_mesh()
        .x_labels(0)
        .y_labels(0)
        .x_desc("tokens per request (prompt and output)")
        .y_desc("output tokens per second, all requests")
        .axis_style(QUIET)
        .axis_desc_style((SANS, size).into_font().color(&INK))
        .draw()
        .map_err(broken)?;
    let style = (SANS, size).into_font().color(&INK);
    for (v, text) in x_ticks(r) {
        line(chart, vec![(v, r.y.0), (v, r.y.1)], GRID.stroke_width(1))?;
        label(
            chart,
            (v, r.y.0),
            text,
            style.clone(),
            (-(size as i32), size as i32 / 2),
        )?;
    }
    for (v, text) in y_ticks(r) {
        line(chart, vec![(r.x.0, v), (r.x.1, v)], GRID.stroke_width(1))?;
        let width = text.len() as i32 * size as i32 * 6 / 10;
        label(
            chart,
            (r.x.0, v),
            text,
            style.clone(),
            (-width - 6, -(size as i32) / 2),
        )?;
    }
    Ok(())
}

fn x_ticks(r: &Ranges) -> Vec<(f64, String)> {
    (8..24)
        .map(f64::from)
        .filter(|v| *v >= r.x.0 && *v <= r.x.1)
        .map(|v| (v, format!("{}Ki", 2f64.powf(v - 10.0))))
        .collect()
}

fn y_ticks(r: &Ranges) -> Vec<(f64, String)> {
    (-1..6)
        .flat_map(|p| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(p)))
        .map(|v| (v.log10(), significant_tick(v)))
        .filter(|(v, _)| *v >= r.y.0 && *v <= r.y.1)
        .collect()
}

fn significant_tick(v: f64) -> String {
    if v >= 1.0 {
        group(&format!("{v:.0}"))
    } else {
        significant(v)
    }
}

fn line<DB: DrawingBackend>(
    chart: &mut Chart<'_, DB>,
    points: Vec<(f64, f64)>,
    style: ShapeStyle,
) -> Result<()>
where
    DB::ErrorType: 'static,
{
    chart
        .draw_series(std::iter::once(PathElement::new(points, style)))
        .map_err(broken)?;
    Ok(())
}

fn label<'b, DB: DrawingBackend + 'b>(
    chart: &mut Chart<'_, DB>,
    at: (f64, f64),
    text: String,
    style: TextStyle<'b>,
    offset: (i32, i32),
) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let element = EmptyElement::at(at) + Text::new(text, offset, style);
    chart.plotting_area().draw(&element).map_err(broken)
}

/// The wall, and the strip beyond it in which streaming is free.
fn zones<DB: DrawingBackend>(
    chart: &mut Chart<'_, DB>,
    c: &Curve,
    r: &Ranges,
    size: u32,
) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let end = f64::from(*c.tokens.last().unwrap_or(&1)).log2();
    let wall = f64::from(c.wall.max(1)).log2();
    if wall <= r.x.0 || wall >= end {
        let text = if wall >= end {
            "everything fits: no wall in this range"
        } else {
            "past the wall everywhere"
        };
        let style = (SANS, size).into_font().color(&QUIET);
        return label(
            chart,
            (r.x.0, r.y.1),
            text.into(),
            style,
            (size as i32, size as i32),
        );
    }
    let free = f64::from(c.free_until.max(1)).log2().min(end);
    let strip = Rectangle::new([(wall, r.y.0), (free, r.y.1)], YELLOW.mix(0.22).filled());
    chart.draw_series(std::iter::once(strip)).map_err(broken)?;
    line(
        chart,
        vec![(wall, r.y.0), (wall, r.y.1)],
        INK.stroke_width(1),
    )?;
    let style = (SANS, size).into_font().color(&INK);
    let text = format!("wall: {} tokens", group(&c.wall.to_string()));
    let width = text.len() as i32 * size as i32 * 55 / 100;
    label(
        chart,
        (wall, r.y.1),
        text,
        style.clone(),
        (-width - size as i32 / 2, size as i32 / 2),
    )?;
    let text = format!(
        "T1 streams for free up to {}",
        group(&c.free_until.to_string())
    );
    label(
        chart,
        (wall, r.y.1),
        text,
        style,
        (size as i32 / 2, size as i32 / 2),
    )
}

/// The better T1 mode of each point.
fn tiered(c: &Curve) -> Series {
    c.stream
        .iter()
        .zip(&c.host)
        .map(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(*b)),
            (a, b) => a.or(*b),
        })
        .collect()
}

/// Shades where a T1 mode beats the engine as it is (or where the engine cannot start at all).
fn gain<DB: DrawingBackend>(chart: &mut Chart<'_, DB>, c: &Curve) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let best = tiered(c);
    for i in 1..c.tokens.len() {
        let corner = |j: usize| {
            Some((
                f64::from(c.tokens[j]).log2(),
                best[j]?.log10(),
                c.engine[j]?.log10(),
            ))
        };
        let (Some(a), Some(b)) = (corner(i - 1), corner(i)) else {
            continue;
        };
        if a.1 > a.2 && b.1 > b.2 {
            let shape = Polygon::new(
                vec![(a.0, a.1), (b.0, b.1), (b.0, b.2), (a.0, a.2)],
                GREEN.mix(0.16).filled(),
            );
            chart.draw_series(std::iter::once(shape)).map_err(broken)?;
        }
    }
    Ok(())
}

/// Points of a series that exist, in plot coordinates.
fn points(c: &Curve, s: &Series) -> Vec<(f64, f64)> {
    c.tokens
        .iter()
        .zip(s)
        .filter_map(|(t, v)| Some((f64::from(*t).log2(), (*v)?.log10())))
        .collect()
}

/// Lines, markers and the names at their ends.
fn series<DB: DrawingBackend>(
    chart: &mut Chart<'_, DB>,
    c: &Curve,
    r: &Ranges,
    scale: f64,
) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let px = |n: f64| -> u32 { (n * scale).round() as u32 };
    let all = [
        (
            "engine as it is (preempts, recomputes)",
            points(c, &c.engine),
            GREY,
            true,
        ),
        ("all in HBM", points(c, &c.in_hbm), BLUE, false),
        ("stream T1", points(c, &c.stream), VERMILION, false),
        ("host attention", points(c, &c.host), GREEN, false),
    ];
    for (_, points, color, dashed) in &all {
        let style = color.stroke_width(px(2.0));
        if *dashed {
            let dashes = DashedLineSeries::new(points.clone(), px(7.0), px(5.0), style);
            chart.draw_series(dashes).map_err(broken)?;
        } else {
            line(chart, points.clone(), style)?;
        }
    }
    markers(chart, &all[2].1, &all[3].1, px(3.0))?;
    names(chart, &all, r, px(12.0))
}

/// Circles on streamed points, squares on host points, so that they differ without colour.
fn markers<DB: DrawingBackend>(
    chart: &mut Chart<'_, DB>,
    stream: &[(f64, f64)],
    host: &[(f64, f64)],
    size: u32,
) -> Result<()>
where
    DB::ErrorType: 'static,
{
    chart
        .draw_series(
            stream
                .iter()
                .step_by(4)
                .map(|p| Circle::new(*p, size, VERMILION.filled())),
        )
        .map_err(broken)?;
    chart
        .draw_series(
            host.iter()
                .step_by(4)
                .map(|p| TriangleMarker::new(*p, size + 1, GREEN.filled())),
        )
        .map_err(broken)?;
    Ok(())
}

type Named<'a> = (&'a str, Vec<(f64, f64)>, RGBColor, bool);

/// Names each series at its last point, pushed apart where they would overlap.
fn names<DB: DrawingBackend>(
    chart: &mut Chart<'_, DB>,
    all: &[Named<'_>],
    r: &Ranges,
    size: u32,
) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let mut ends: Vec<(f64, f64, &str, RGBColor)> = all
        .iter()
        .filter_map(|(n, p, c, _)| p.last().map(|e| (e.0, e.1, *n, *c)))
        .collect();
    ends.sort_by(|a, b| b.1.total_cmp(&a.1));
    let height = f64::from(chart.plotting_area().dim_in_pixel().1);
    let gap = (r.y.1 - r.y.0) * f64::from(size) * 1.25 / height;
    let mut above = f64::INFINITY;
    for (x, y, name, color) in ends {
        let at = y.min(above - gap);
        above = at;
        let text = match name {
            "engine as it is (preempts, recomputes)" => "engine as it is".to_string(),
            other => other.to_string(),
        };
        let text = format!("{text}  {}", significant(10f64.powf(y)));
        label(
            chart,
            (x, at),
            text,
            (SANS, size).into_font().color(&color),
            (size as i32 / 2, -(size as i32) / 2),
        )?;
    }
    Ok(())
}
