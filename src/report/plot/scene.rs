//! A figure as data: shapes and words in canvas units, before any backend.
//!
//! Words stand on a baseline and hang on one end or their middle, which both backends can do exactly; a box around them
//! is known from the font. Origin top left, y downwards, one unit a CSS pixel.

use plotters::style::RGBColor;

use super::face::Face;
use super::place::Rect;

/// A place on the canvas \[units\].
pub type Point = (f64, f64);

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// An open path.
    Line {
        /// Its corners.
        points: Vec<Point>,
        /// Its colour.
        color: RGBColor,
        /// Its width \[units\].
        width: f64,
        /// Length of dashes and of the gaps between \[units\].
        dash: Option<(f64, f64)>,
    },
    /// A filled polygon.
    Area {
        /// Its corners.
        points: Vec<Point>,
        /// Its colour.
        color: RGBColor,
        /// 0 = clear, 1 = opaque.
        opacity: f64,
    },
    /// A filled circle.
    Dot {
        /// Its centre.
        at: Point,
        /// Its radius \[units\].
        radius: f64,
        /// Its colour.
        color: RGBColor,
    },
}

/// Where words hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// They begin at the place.
    Left,
    /// They are centred on it.
    Middle,
    /// They end at it.
    Right,
}

/// A line of text.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    /// The text.
    pub text: String,
    /// Where it hangs, on the baseline.
    pub at: Point,
    /// Which part hangs there.
    pub side: Side,
    /// Size of an em \[units\].
    pub em: f64,
    /// Its colour.
    pub color: RGBColor,
}

impl Words {
    /// The box of the text: its advance wide, from ascender to descender.
    pub fn bounds(&self, face: &Face) -> Rect {
        let width = face.width(&self.text, self.em);
        let left = match self.side {
            Side::Left => self.at.0,
            Side::Middle => self.at.0 - width / 2.0,
            Side::Right => self.at.0 - width,
        };
        Rect {
            left,
            top: self.at.1 - 0.8 * self.em,
            right: left + width,
            bottom: self.at.1 + 0.24 * self.em,
        }
    }
}

/// A whole figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// Width and height \[units\].
    pub size: (u32, u32),
    /// For readers who cannot see it.
    pub title: String,
    /// Drawn in this order.
    pub shapes: Vec<Shape>,
    /// Set over the shapes.
    pub words: Vec<Words>,
}

impl Scene {
    /// Adds an open path.
    pub fn line(&mut self, points: Vec<Point>, color: RGBColor, width: f64) {
        self.shapes.push(Shape::Line {
            points,
            color,
            width,
            dash: None,
        });
    }

    /// Adds a filled polygon.
    pub fn area(&mut self, points: Vec<Point>, color: RGBColor, opacity: f64) {
        self.shapes.push(Shape::Area {
            points,
            color,
            opacity,
        });
    }

    /// Adds words.
    pub fn write(
        &mut self,
        text: impl Into<String>,
        at: Point,
        side: Side,
        em: f64,
        color: RGBColor,
    ) {
        self.words.push(Words {
            text: text.into(),
            at,
            side,
            em,
            color,
        });
    }
}
