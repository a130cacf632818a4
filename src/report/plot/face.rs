//! The embedded font: widths for the layout, and letters for bitmaps.
//!
//! `DejaVu Sans`, cut down to Latin, Greek letters and arrows (licence beside the file). Widths are sums of advances
//! with kerning, as a browser sets them.

use ab_glyph::{Font as _, FontRef, Glyph, PxScale, ScaleFont as _, point};

use crate::error::{Error, Result};

use super::scene::Point;

/// CSS families written into an SVG; the fallbacks have the same widths within a few per cent.
pub const FAMILIES: &str = "DejaVu Sans, Verdana, sans-serif";

static DATA: &[u8] = include_bytes!("../font/kvplan-sans.ttf");

/// The embedded font, read.
#[derive(Clone, Debug)]
pub struct Face(FontRef<'static>);

impl Face {
    /// Reads it.
    ///
    /// # Errors
    /// Internal, if the embedded bytes are no font.
    pub fn embedded() -> Result<Self> {
        FontRef::try_from_slice(DATA)
            .map(Self)
            .map_err(|e| Error::internal(format!("the embedded font cannot be read: {e}")))
    }

    /// Advance of a text \[units of `em`\].
    pub fn width(&self, text: &str, em: f64) -> f64 {
        let (_, end) = self.set(text, (0.0, 0.0), em);
        f64::from(end)
    }

    /// Lines of at most `width` that a text breaks into, at spaces.
    pub fn wrap(&self, text: &str, em: f64, width: f64) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = String::new();
        for word in text.split(' ') {
            let longer = format!("{line} {word}");
            if line.is_empty() {
                line = word.into();
            } else if self.width(&longer, em) <= width {
                line = longer;
            } else {
                lines.push(std::mem::replace(&mut line, word.into()));
            }
        }
        lines.push(line);
        lines
    }

    /// Calls `paint` for every pixel of a text set at `at` on its baseline, with the share of it that is covered.
    pub fn paint(&self, text: &str, at: Point, em: f64, mut paint: impl FnMut(i64, i64, f32)) {
        for glyph in self.set(text, at, em).0 {
            if let Some(outline) = self.0.outline_glyph(glyph) {
                let corner = outline.px_bounds().min;
                #[allow(clippy::cast_possible_truncation)] // a place on a canvas
                let (left, top) = (corner.x as i64, corner.y as i64);
                outline.draw(|x, y, c| paint(left + i64::from(x), top + i64::from(y), c));
            }
        }
    }

    /// Glyphs at their places, and where the text ends.
    fn set(&self, text: &str, at: Point, em: f64) -> (Vec<Glyph>, f32) {
        #[allow(clippy::cast_possible_truncation)] // places on a canvas
        let (x, y, em) = (at.0 as f32, at.1 as f32, em as f32);
        let units = self.0.units_per_em().unwrap_or(1000.0);
        let scale = PxScale::from(em * self.0.height_unscaled() / units);
        let face = self.0.as_scaled(scale);
        let mut end = x;
        let mut glyphs: Vec<Glyph> = Vec::new();
        for c in text.chars() {
            let id = face.glyph_id(c);
            end += glyphs.last().map_or(0.0, |g| face.kern(g.id, id));
            glyphs.push(id.with_scale_and_position(scale, point(end, y)));
            end += face.h_advance(id);
        }
        (glyphs, end)
    }
}
