//! A scene to bytes: SVG in tenths of a unit, PNG at twice the size.
//!
//! plotters takes whole pixels, so the SVG is drawn ten times as large and shown through its view box, and the PNG is
//! drawn six times as large and averaged down, which smooths edges that plotters leaves jagged. Letters of the PNG are
//! set here on fractions of a pixel; those of the SVG are text, so that they can be searched and read aloud.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::{Error, Result};

use super::Image;
use super::face::{FAMILIES, Face};
use super::scene::{Point, Scene, Shape, Side, Words};

type Area<'a, DB> = DrawingArea<DB, Shift>;

/// Draws a scene.
///
/// # Errors
/// Internal only: the canvas is memory.
pub fn draw(scene: &Scene, image: Image) -> Result<Vec<u8>> {
    match image {
        Image::Svg => svg(scene),
        Image::Png => png(scene),
    }
}

/// Any drawing failure is a bug.
fn broken(e: impl std::fmt::Display) -> Error {
    Error::internal(format!("a figure could not be drawn: {e}"))
}

/// Scale of a backend's whole pixels to canvas units.
#[derive(Clone, Copy)]
struct Scale(u32);

impl Scale {
    fn whole(self, units: f64) -> i32 {
        #[allow(clippy::cast_possible_truncation)] // clamped to i32
        let pixels = (units * f64::from(self.0))
            .round()
            .clamp(f64::from(i32::MIN), f64::from(i32::MAX)) as i32;
        pixels
    }

    fn length(self, units: f64) -> u32 {
        self.whole(units.max(0.0)).unsigned_abs()
    }

    fn place(self, at: Point) -> (i32, i32) {
        (self.whole(at.0), self.whole(at.1))
    }

    fn size(self, scene: &Scene) -> (u32, u32) {
        (scene.size.0 * self.0, scene.size.1 * self.0)
    }
}

fn svg(scene: &Scene) -> Result<Vec<u8>> {
    let scale = Scale(10);
    let (w, h) = scale.size(scene);
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (w, h)).into_drawing_area();
    shapes(&area, scene, scale)?;
    for words in &scene.words {
        area.draw(&spoken(words, scale)).map_err(broken)?;
    }
    area.present().map_err(broken)?;
    drop(area);
    let (_, body) = text
        .split_once('>')
        .ok_or_else(|| broken("no root element"))?;
    let (shown_w, shown_h) = scene.size;
    Ok(format!(
        "<svg width=\"{shown_w}\" height=\"{shown_h}\" viewBox=\"0 0 {w} {h}\" \
         xmlns=\"http://www.w3.org/2000/svg\" role=\"img\">\n<title>{}</title>{body}",
        escaped(&scene.title)
    )
    .into_bytes())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Words as an SVG text: plotters' top anchor stands 0.76 em over the baseline, in whatever font.
fn spoken(words: &Words, scale: Scale) -> Text<'_, (i32, i32), String> {
    let anchor = match words.side {
        Side::Left => HPos::Left,
        Side::Middle => HPos::Center,
        Side::Right => HPos::Right,
    };
    // plotters writes the height over 1.24 as the em.
    let height = words.em * f64::from(scale.0) * 1.24;
    let style = TextStyle::from((FAMILIES, height).into_font())
        .color(&words.color)
        .pos(Pos::new(anchor, VPos::Top));
    let at = (words.at.0, words.at.1 - 0.76 * words.em);
    Text::new(words.text.clone(), scale.place(at), style)
}

fn png(scene: &Scene) -> Result<Vec<u8>> {
    let (fine, shown) = (Scale(6), Scale(2));
    let (w, h) = fine.size(scene);
    let mut pixels = vec![255; w as usize * h as usize * 3];
    let area = BitMapBackend::with_buffer(&mut pixels, (w, h)).into_drawing_area();
    shapes(&area, scene, fine)?;
    area.present().map_err(broken)?;
    drop(area);
    let mut pixels = shrunk(&pixels, w as usize, h as usize, 3);
    let face = Face::embedded()?;
    let (w, h) = shown.size(scene);
    for words in &scene.words {
        set(&mut pixels, (w, h), words, &face, f64::from(shown.0));
    }
    encoded(&pixels, w, h)
}

/// Mean of each `by` times `by` pixels.
fn shrunk(pixels: &[u8], width: usize, height: usize, by: usize) -> Vec<u8> {
    let row = width * 3;
    let all = u32::try_from(by * by).unwrap_or(1);
    let mean = |y: usize, x: usize, c: usize| {
        let first = by * y * row + by * 3 * x + c;
        let of_line = |line: usize| -> u32 {
            let at = first + line * row;
            (0..by).map(|i| u32::from(pixels[at + 3 * i])).sum()
        };
        let sum: u32 = (0..by).map(of_line).sum();
        u8::try_from((sum + all / 2) / all).unwrap_or(u8::MAX)
    };
    (0..height / by)
        .flat_map(|y| (0..width / by).flat_map(move |x| (0..3).map(move |c| (y, x, c))))
        .map(|(y, x, c)| mean(y, x, c))
        .collect()
}

/// Sets words over pixels.
fn set(pixels: &mut [u8], (w, h): (u32, u32), words: &Words, face: &Face, scale: f64) {
    let place = words.bounds(face);
    let at = (place.left * scale, words.at.1 * scale);
    let ink = [words.color.0, words.color.1, words.color.2];
    face.paint(&words.text, at, words.em * scale, |x, y, share| {
        if !(0..i64::from(w)).contains(&x) || !(0..i64::from(h)).contains(&y) {
            return;
        }
        let Ok(first) = usize::try_from((y * i64::from(w) + x) * 3) else {
            return;
        };
        for (pixel, ink) in pixels[first..first + 3].iter_mut().zip(ink) {
            let under = f32::from(*pixel);
            #[allow(clippy::cast_possible_truncation)] // between two bytes
            let mixed = (under + (f32::from(ink) - under) * share.clamp(0.0, 1.0)).round() as u8;
            *pixel = mixed;
        }
    });
}

fn encoded(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Best);
    encoder.set_adaptive_filter(png::AdaptiveFilterType::Adaptive);
    let mut writer = encoder.write_header().map_err(broken)?;
    writer.write_image_data(pixels).map_err(broken)?;
    writer.finish().map_err(broken)?;
    Ok(out)
}

fn shapes<DB: DrawingBackend>(area: &Area<'_, DB>, scene: &Scene, scale: Scale) -> Result<()>
where
    DB::ErrorType: 'static,
{
    area.fill(&WHITE).map_err(broken)?;
    for shape in &scene.shapes {
        one(area, shape, scale)?;
    }
    Ok(())
}

fn one<DB: DrawingBackend>(area: &Area<'_, DB>, shape: &Shape, scale: Scale) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let whole =
        |points: &[Point]| -> Vec<(i32, i32)> { points.iter().map(|p| scale.place(*p)).collect() };
    match shape {
        Shape::Line {
            points,
            color,
            width,
            dash,
        } => {
            let style = color.stroke_width(scale.length(*width));
            match dash {
                None => area.draw(&PathElement::new(whole(points), style)),
                Some((on, off)) => area.draw(&DashedPathElement::new(
                    whole(points),
                    scale.length(*on),
                    scale.length(*off),
                    style,
                )),
            }
        }
        Shape::Area {
            points,
            color,
            opacity,
        } => area.draw(&Polygon::new(whole(points), color.mix(*opacity).filled())),
        Shape::Dot { at, radius, color } => area.draw(&Circle::new(
            scale.place(*at),
            scale.length(*radius),
            color.filled(),
        )),
    }
    .map_err(broken)
}
