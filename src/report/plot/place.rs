//! Places for labels: the first of some candidates that collides with the fewest things drawn.
//!
//! Greedy and in the caller's order of preference, so a figure changes little when its data do. The rival, a global
//! optimum over all labels, moves every label when one curve moves.

use super::scene::Point;

/// A box on the canvas \[units\], y downwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Left edge.
    pub left: f64,
    /// Top edge.
    pub top: f64,
    /// Right edge.
    pub right: f64,
    /// Bottom edge.
    pub bottom: f64,
}

impl Rect {
    /// A box of this size around a centre.
    pub fn around(centre: Point, width: f64, height: f64) -> Self {
        Self {
            left: centre.0 - width / 2.0,
            top: centre.1 - height / 2.0,
            right: centre.0 + width / 2.0,
            bottom: centre.1 + height / 2.0,
        }
    }

    /// The same, larger by `by` on every side.
    #[must_use]
    pub fn grown(self, by: f64) -> Self {
        Self {
            left: self.left - by,
            top: self.top - by,
            right: self.right + by,
            bottom: self.bottom + by,
        }
    }

    /// The same, moved sideways into `bounds` as far as it fits.
    #[must_use]
    pub fn moved_into(self, bounds: &Self) -> Self {
        let by = (bounds.right - self.right).min(0.0);
        let by = by + (bounds.left - self.left - by).max(0.0);
        Self {
            left: self.left + by,
            right: self.right + by,
            ..self
        }
    }

    /// Whether two boxes share a point.
    pub fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Whether the other lies in this one.
    pub fn holds(&self, other: &Self) -> bool {
        self.left <= other.left
            && self.right >= other.right
            && self.top <= other.top
            && self.bottom >= other.bottom
    }

    /// Whether a straight line from `a` to `b` has a point in the box (Liang and Barsky's clipping).
    pub fn crossed(&self, a: Point, b: Point) -> bool {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        for (step, room) in [
            (-dx, a.0 - self.left),
            (dx, self.right - a.0),
            (-dy, a.1 - self.top),
            (dy, self.bottom - a.1),
        ] {
            if step == 0.0 && room < 0.0 {
                return false;
            }
            if step < 0.0 {
                enter = enter.max(room / step);
            } else if step > 0.0 {
                leave = leave.min(room / step);
            }
        }
        enter <= leave
    }
}

/// What labels must keep clear of.
#[derive(Clone, Debug, Default)]
pub struct Obstacles {
    /// Paths.
    pub paths: Vec<Vec<Point>>,
    /// Labels placed already.
    pub boxes: Vec<Rect>,
}

impl Obstacles {
    /// How many things a box collides with.
    pub fn collisions(&self, r: &Rect) -> usize {
        let paths = self
            .paths
            .iter()
            .filter(|p| p.windows(2).any(|s| r.crossed(s[0], s[1])))
            .count();
        paths + self.boxes.iter().filter(|b| b.meets(r)).count()
    }

    /// Distance of a place to the nearest path \[units\].
    pub fn distance(&self, p: Point) -> f64 {
        self.paths
            .iter()
            .flat_map(|path| path.windows(2))
            .map(|s| to_segment(p, s[0], s[1]))
            .fold(f64::INFINITY, f64::min)
    }

    /// Number of the candidate within `bounds` that collides least, `more` collisions of its own counted, the first of
    /// equals; none if none is within.
    pub fn best(
        &self,
        candidates: &[Rect],
        bounds: &Rect,
        more: impl Fn(usize, &Rect) -> usize,
    ) -> Option<usize> {
        candidates
            .iter()
            .enumerate()
            .filter(|(_, r)| bounds.holds(r))
            .min_by_key(|(i, r)| (self.collisions(&r.grown(2.0)) + more(*i, r), *i))
            .map(|(i, _)| i)
    }
}

/// Distance of a place to a straight line from `a` to `b`.
fn to_segment(p: Point, a: Point, b: Point) -> f64 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let along = ((p.0 - a.0) * dx + (p.1 - a.1) * dy) / (dx * dx + dy * dy).max(1e-12);
    let share = along.clamp(0.0, 1.0);
    libm::hypot(p.0 - a.0 - share * dx, p.1 - a.1 - share * dy)
}
