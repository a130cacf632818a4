//! Sentences, facts, lists and commands as HTML.

use maud::{Markup, html};

use super::super::page::Block;
use super::data::plain;

/// A block; titles within a section are of this level.
pub(super) fn block(block: &Block, level: u8) -> Markup {
    html! {
        @match block {
            Block::Title(text) => @if level <= 3 { h3 { (text) } } @else { h4 { (text) } },
            Block::Text(text) => p { (text) },
            Block::Verdict(text, _) => p.says { (text) },
            Block::Facts(facts) => dl {
                @for (name, value) in facts { div { dt { (name.trim()) } dd { (value) } } }
            },
            Block::Grid(grid) => (plain(grid)),
            Block::List(items) => ul.said { @for item in items { li { (item) } } },
            Block::Command(line) => pre tabindex="0" { code { (line) } },
        }
    }
}
