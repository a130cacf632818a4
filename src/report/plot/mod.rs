//! Figures: one file each, drawn by plotters with an embedded font, SVG first and PNG at twice the size.
//!
//! The font is compiled in, so a figure is the same bytes on a machine with no fonts. Colours are Okabe and Ito's, told
//! apart by colour-blind readers; series also differ in dash or marker, and are named where they end rather than in a
//! box. A figure computes nothing: it gets its series from `plan`.

pub mod how_far;

use std::sync::Once;

use plotters::prelude::*;
use plotters::style::register_font;

use crate::error::{Error, Result};

/// One string is both the key of the embedded font and the CSS family list written into the SVG.
pub const SANS: &str = "DejaVu Sans, Verdana, sans-serif";

static FONT: &[u8] = include_bytes!("../font/kvplan-sans.ttf");

/// Size of a figure [px at scale 1].
pub const SIZE: (u32, u32) = (820, 500);

/// Colours of Okabe and Ito.
pub mod color {
    use plotters::style::RGBColor;

    /// Text and axes.
    pub const INK: RGBColor = RGBColor(38, 38, 42);
    /// Secondary text.
    pub const QUIET: RGBColor = RGBColor(105, 105, 112);
    /// Grid.
    pub const GRID: RGBColor = RGBColor(228, 228, 232);
    /// Everything in HBM.
    pub const BLUE: RGBColor = RGBColor(0, 114, 178);
    /// Stream.
    pub const VERMILION: RGBColor = RGBColor(213, 94, 0);
    /// Host attention.
    pub const GREEN: RGBColor = RGBColor(0, 158, 115);
    /// The engine as it is.
    pub const GREY: RGBColor = RGBColor(95, 95, 100);
    /// Fills.
    pub const YELLOW: RGBColor = RGBColor(240, 228, 66);
}

/// What a figure is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// Vector.
    Svg,
    /// Bitmap at twice the size.
    Png,
}

/// Registers the embedded font, once.
fn font() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut ok = true;
    ONCE.call_once(|| {
        // plotters' own fallbacks ask for "sans-serif".
        ok = register_font(SANS, FontStyle::Normal, FONT).is_ok()
            && register_font("sans-serif", FontStyle::Normal, FONT).is_ok();
    });
    if ok {
        Ok(())
    } else {
        Err(Error::internal("the embedded font cannot be read"))
    }
}

/// Any drawing failure is a bug: the canvas is memory.
fn broken(e: impl std::fmt::Display) -> Error {
    Error::internal(format!("a figure could not be drawn: {e}"))
}

/// Encodes RGB pixels.
fn png(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(broken)?;
    writer.write_image_data(pixels).map_err(broken)?;
    writer.finish().map_err(broken)?;
    Ok(out)
}
