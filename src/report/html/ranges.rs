//! Ranges around a value: for each input a bar from what its low end gives to what its high end gives.

use maud::{Markup, html};

use super::super::cells::figure;
use super::super::document::figure::Ranges;
use super::super::plot::chrome::Linear;
use super::axis::{around, place, sane, under};

/// Width and height of a bar \[its own units\].
const SIZE: (f64, f64) = (1000.0, 24.0);

/// Draws them.
pub(super) fn draw(all: &[Ranges], level: u8) -> Markup {
    html! {
        div.chart data-roving="" role="group" aria-label="Ranges; arrow keys go from input to input" {
            ul.key {
                li { svg.swatch viewBox="0 0 12 12" aria-hidden="true" { rect.vermilion width="12" height="12" {} } "at the low end of the input" }
                li { svg.swatch viewBox="0 0 12 12" aria-hidden="true" { rect.blue width="12" height="12" {} } "at its high end" }
            }
            div.groups { @for r in all { (one(r, level)) } }
        }
    }
}

fn one(r: &Ranges, level: u8) -> Markup {
    let ends = r.rows.iter().flat_map(|(_, low, high, _)| [*low, *high]);
    let axis = around(ends.chain([r.base]), (0.0, SIZE.0));
    let base = axis.place(sane(r.base));
    html! {
        div.group {
            @if level <= 4 { h4 { (r.name) } } @else { h5 { (r.name) } }
            @for (name, low, high, tip) in &r.rows {
                div.bar {
                    span.name { (name) }
                    svg viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } preserveAspectRatio="none" role="group" aria-label=(tip) {
                        g.mark role="img" aria-label=(tip) data-tip=(tip) {
                            title { (tip) }
                            (side("vermilion", base, *low, &axis, 3.0))
                            (side("blue", base, *high, &axis, 12.0))
                        }
                        line.limit x1=(place(base)) x2=(place(base)) y1="0" y2=(SIZE.1) {}
                    }
                    span.total { (figure(Some(*low))) " .. " (figure(Some(*high))) }
                }
            }
            (under(&axis, &r.scale))
        }
    }
}

fn side(ink: &str, base: f64, end: f64, axis: &Linear, y: f64) -> Markup {
    let end = axis.place(sane(end));
    html! { rect.(ink) x=(place(base.min(end))) y=(y) width=(place((end - base).abs())) height="9" {} }
}
