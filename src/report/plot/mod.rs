//! Figures: each is laid out once as a [`scene::Scene`] and then written as SVG or PNG.
//!
//! A layout knows widths of its texts from the embedded font, so that labels are placed where they collide with
//! nothing, and the same picture comes out on a machine with no fonts. The rival, drawing straight to a backend, lays
//! out twice and cannot be tested for overlaps. Colours are Okabe and Ito's, told apart by colour-blind readers; in grey,
//! dashes and markers do it. Series are named where they end rather than in a box. Shapes are drawn by plotters; the
//! letters of a PNG are set here, because plotters sets them on whole pixels, without bearings.
//!
//! An SVG asks for the embedded font's family (`DejaVu Sans`) and falls back on one of the same widths. Units: canvas
//! units, one CSS pixel at the size asked for. Ignored: dark mode. Deterministic: equal series give
//! equal bytes, on any processor: logarithms are `libm`'s and places are rounded to tenths. A figure
//! computes nothing: it gets its series from `plan`.

pub mod attention;
pub mod calibration;
pub mod canvas;
pub mod chrome;
pub mod equal;
pub mod eval;
pub mod face;
pub mod frame;
pub mod how_far;
pub mod layers;
pub mod place;
pub mod policies;
pub mod price;
pub mod reproduce;
pub mod savings;
pub mod scene;
pub mod steps;
pub mod tiers;
pub mod tornado;
pub mod validate;

/// What a figure is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// Vector.
    Svg,
    /// Bitmap at twice the size.
    Png,
}

/// Colours of Okabe and Ito, and greys.
pub mod color {
    use plotters::style::RGBColor;

    /// Text and axes.
    pub const INK: RGBColor = RGBColor(38, 38, 42);
    /// Secondary text.
    pub const QUIET: RGBColor = RGBColor(95, 95, 102);
    /// Grid.
    pub const GRID: RGBColor = RGBColor(228, 228, 232);
    /// Everything in HBM.
    pub const BLUE: RGBColor = RGBColor(0, 114, 178);
    /// Stream.
    pub const VERMILION: RGBColor = RGBColor(213, 94, 0);
    /// Host attention.
    pub const GREEN: RGBColor = RGBColor(0, 128, 94);
    /// Staged.
    pub const PURPLE: RGBColor = RGBColor(170, 80, 140);
    /// The engine as it is.
    pub const GREY: RGBColor = RGBColor(85, 85, 90);
    /// Fill of the free zone.
    pub const YELLOW: RGBColor = RGBColor(240, 228, 66);
    /// Fill of where tiering pays.
    pub const SKY: RGBColor = RGBColor(86, 180, 233);
}
