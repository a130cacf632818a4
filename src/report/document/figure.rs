//! Figures as data: stacked bars, panels of points, ranges around a value; each with the table behind it.

use super::data::Data;

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// How to read it, and the text alternative.
    pub text: String,
    /// What is drawn.
    pub drawing: Drawing,
    /// The table behind it.
    pub data: Data,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    /// Stacked bars, in groups.
    Bars(Bars),
    /// Points over two axes, a panel a card.
    Panels(Panels),
    /// How far a figure moves either way, row by row.
    Ranges(Vec<Ranges>),
}

/// A colour by its role; the format chooses the shade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// What always stands: weights, linear layers, T0.
    Blue,
    /// What reads memory: KV in HBM, attention.
    Sky,
    /// What the host does.
    Green,
    /// What crosses the link.
    Vermilion,
    /// Staging and buffers.
    Purple,
    /// Degraded, re-tiered.
    Yellow,
    /// Fixed costs.
    Grey,
    /// Small kernels, communication.
    Dark,
    /// Preempted and computed again.
    Orange,
}

impl Ink {
    /// Its name in a stylesheet.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blue => "blue",
            Self::Sky => "sky",
            Self::Green => "green",
            Self::Vermilion => "vermilion",
            Self::Purple => "purple",
            Self::Yellow => "yellow",
            Self::Grey => "grey",
            Self::Dark => "dark",
            Self::Orange => "orange",
        }
    }
}

/// Stacked bars on one scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Name of the scale, with its unit.
    pub scale: String,
    /// One unit of the scale, in base units.
    pub unit: f64,
    /// Parts that bars are made of.
    pub parts: Vec<(String, Ink)>,
    /// Bars by card.
    pub groups: Vec<Group>,
}

/// Bars that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name; empty if there is one group only.
    pub name: String,
    /// Its bars.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Sizes of its parts in base units, each with its words.
    pub pieces: Vec<(usize, f64, String)>,
    /// What stands at its end.
    pub total: String,
    /// A mark on it, with its words.
    pub limit: Option<(f64, String)>,
}

/// Panels of points, all on the same scales.
#[derive(Clone, Debug, PartialEq)]
pub struct Panels {
    /// Name of the axis across.
    pub across: String,
    /// One unit of it, in base units.
    pub unit: f64,
    /// Name of the axis upwards.
    pub upwards: String,
    /// The panels.
    pub panels: Vec<Panel>,
}

/// A panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Its name; empty if there is one panel only.
    pub name: String,
    /// Its points.
    pub points: Vec<Point>,
    /// A line upwards, with its words.
    pub limit: Option<(f64, String)>,
}

/// What a point stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Software runs it today.
    Today,
    /// No engine runs it.
    NotToday,
    /// Another model or another purchase.
    Other,
    /// Simulated as asked.
    Simulated,
    /// On the front of a sweep.
    Front,
}

impl Standing {
    /// All, in the order of a key.
    pub const ALL: [Self; 5] = [
        Self::Today,
        Self::NotToday,
        Self::Other,
        Self::Simulated,
        Self::Front,
    ];

    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Today => "runs today",
            Self::NotToday => "no engine runs it yet",
            Self::Other => "changes the model, or another purchase",
            Self::Simulated => "simulated",
            Self::Front => "no other cell is better",
        }
    }
}

/// A point.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its name; empty if it is not named on the panel.
    pub name: String,
    /// Across, in base units.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// Interval of `y`.
    pub range: Option<(f64, f64)>,
    /// What it stands for.
    pub standing: Standing,
    /// Its words.
    pub tip: String,
}

/// How far each input moves one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges {
    /// What is moved, of what.
    pub name: String,
    /// Name of the scale.
    pub scale: String,
    /// The figure at the values used.
    pub base: f64,
    /// Name of an input, the figure at its low and at its high end, words.
    pub rows: Vec<(String, f64, f64, String)>,
}
