//! Stacked bars: a small SVG a bar, as wide as there is room, with words beside it.
//!
//! Words are HTML, so that they keep their size on a narrow screen; only the bar is stretched. Each part can be reached with
//! the arrow keys and says its value.

use maud::{Markup, html};

use super::super::document::figure::{Bar, Bars, Group, Ink};
use super::super::plot::chrome::Linear;
use super::axis::{from_zero, place, sane, under};

/// Width and height of a bar \[its own units\].
const SIZE: (f64, f64) = (1000.0, 24.0);

/// Draws them.
pub(super) fn draw(bars: &Bars, level: u8) -> Markup {
    let all = || bars.groups.iter().flat_map(|g| &g.bars);
    let sums = all().map(|b| b.pieces.iter().map(|(_, v, _)| sane(*v)).sum::<f64>());
    let limits = all().filter_map(|b| b.limit.as_ref().map(|(v, _)| *v));
    let longest = sums.chain(limits).map(|v| 1.01 * v / bars.unit);
    let axis = from_zero(longest, (0.0, SIZE.0));
    let used = |part: usize| all().any(|b| b.pieces.iter().any(|(p, _, _)| *p == part));
    html! {
        div.chart data-roving="" role="group" aria-label={ "Bars, " (bars.scale) "; arrow keys go from part to part" } {
            ul.key {
                @for (i, (name, ink)) in bars.parts.iter().enumerate() {
                    @if used(i) { li { (swatch(*ink)) (name) } }
                }
                @if all().any(|b| b.limit.is_some()) {
                    li { svg.swatch viewBox="0 0 12 12" aria-hidden="true" { line.limit x1="6" x2="6" y1="0" y2="12" {} } "may be used" }
                }
            }
            div.groups { @for g in &bars.groups { (group(g, bars, &axis, level)) } }
        }
    }
}

fn swatch(ink: Ink) -> Markup {
    html! { svg.swatch viewBox="0 0 12 12" aria-hidden="true" { rect.(ink.name()) width="12" height="12" {} } }
}

fn group(g: &Group, bars: &Bars, axis: &Linear, level: u8) -> Markup {
    html! {
        div.group {
            @if !g.name.is_empty() { @if level <= 4 { h4 { (g.name) } } @else { h5 { (g.name) } } }
            @for b in &g.bars { (bar(b, &g.name, bars, axis)) }
            (under(axis, &bars.scale))
        }
    }
}

fn bar(b: &Bar, group: &str, bars: &Bars, axis: &Linear) -> Markup {
    let mut from = 0.0;
    let mut drawn = Vec::new();
    for (part, size, tip) in &b.pieces {
        let to = from + sane(*size) / bars.unit;
        let ink = bars.parts.get(*part).map_or(Ink::Grey, |(_, ink)| *ink);
        drawn.push((axis.place(from), axis.place(to), ink, tip));
        from = to;
    }
    let label = format!("{group} {}: {}", b.name, b.total);
    html! {
        div.bar {
            span.name { (b.name) }
            svg viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } preserveAspectRatio="none" role="group" aria-label=(label.trim()) {
                @for v in axis.ticks(5.0) {
                    line.grid x1=(place(axis.place(v))) x2=(place(axis.place(v))) y1="0" y2=(SIZE.1) {}
                }
                @for (from, to, ink, tip) in &drawn {
                    rect.mark.(ink.name()) x=(place(*from)) y="3" width=(place(to - from)) height="18"
                        role="img" aria-label=(tip) data-tip=(tip) { title { (tip) } }
                }
                @if let Some((at, tip)) = &b.limit {
                    @let x = place(axis.place(sane(*at) / bars.unit));
                    line.mark.limit x1=(x) x2=(x) y1="0" y2=(SIZE.1) role="img" aria-label=(tip) data-tip=(tip) { title { (tip) } }
                }
            }
            span.total { (b.total) }
        }
    }
}
