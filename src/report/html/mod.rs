//! A report as one HTML file: no network, no fonts, no scripts from elsewhere.
//!
//! Styles and the script lie beside as files of their own and are put in whole. Without the script the page is complete:
//! it adds sorting, filters, values on hover and focus. Markup is `maud`'s, which escapes every text; besides, the page's
//! own policy lets no script run but the one whose hash it names. Colours are classes, so that light, dark and print are
//! a matter of the stylesheet. Rival design: figures as pictures; they have no values, no dark side, and cannot be read aloud.

mod axis;
mod bars;
mod blocks;
mod data;
mod panels;
mod ranges;
mod seal;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::error::Result;

use super::document::figure::{Drawing, Figure};
use super::document::{Document, Part, Piece, Section, Verdict};
use super::page::Mood;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The page.
///
/// # Errors
/// Internal only: a table that is no CSV, an embedded font that cannot be read.
pub fn render(document: &Document) -> Result<String> {
    let mut parts = Vec::new();
    for (i, part) in document.parts.iter().enumerate() {
        parts.push(whole_part(part, i)?);
    }
    let again = section(&document.again, "", 2)?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(seal::policy(SCRIPT));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "kvplan " (document.version) };
                title { "kvplan: " (document.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the report" }
                header.top {
                    p.kicker { "kvplan report" }
                    h1 { (document.title) }
                    @for v in &document.verdicts { (verdict(v)) }
                    (contents(document))
                }
                main #main {
                    @for part in &parts { (part) }
                    (again)
                }
                footer { p { "Made by kvplan " (document.version) " from the results named above; nothing here was computed anew." } }
                div #tip role="status" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(page.into_string() + "\n")
}

fn verdict(v: &Verdict) -> Markup {
    let class = match v.mood {
        Mood::Good => "good",
        Mood::Bad => "bad",
        Mood::Plain => "plain",
    };
    html! {
        div.verdict.(class) {
            p.of {
                @match &v.of { Some(name) => (name), None => "Verdict" }
            }
            p.says { (v.text) }
            @if !v.sure.is_empty() { ul.sure { @for line in &v.sure { li { (line) } } } }
        }
    }
}

/// Links to the sections.
fn contents(document: &Document) -> Markup {
    let several = document.parts.len() > 1;
    html! {
        nav aria-label="Sections" {
            @for (i, part) in document.parts.iter().enumerate() {
                ul {
                    @if let (true, Some(name)) = (several, &part.name) {
                        li { a href={ "#part-" (i + 1) } { b { (name) } } }
                    }
                    @for s in &part.sections { li { a href={ "#" (prefix(i)) (s.id) } { (s.title) } } }
                    @if i + 1 == document.parts.len() {
                        li { a href={ "#" (document.again.id) } { (document.again.title) } }
                    }
                }
            }
        }
    }
}

/// What names of a part begin with, so that two parts may have a section alike.
fn prefix(part: usize) -> String {
    if part == 0 {
        String::new()
    } else {
        format!("part-{}-", part + 1)
    }
}

fn whole_part(part: &Part, i: usize) -> Result<Markup> {
    let level = if part.name.is_some() { 3 } else { 2 };
    let mut sections = Vec::new();
    for s in &part.sections {
        sections.push(section(s, &prefix(i), level)?);
    }
    Ok(html! {
        @if let Some(name) = &part.name { h2.part id={ "part-" (i + 1) } { (name) } }
        @for s in &sections { (s) }
    })
}

fn section(s: &Section, prefix: &str, level: u8) -> Result<Markup> {
    let mut pieces = Vec::new();
    for (i, p) in s.pieces.iter().enumerate() {
        let name = format!("{prefix}{}-{i}", s.id);
        pieces.push(piece(p, &name, level + 1)?);
    }
    let id = format!("{prefix}{}", s.id);
    Ok(html! {
        section id=(id) {
            (heading(level, &format!("{id}-title"), &s.title))
            @for p in &pieces { (p) }
        }
    })
}

fn piece(piece: &Piece, id: &str, level: u8) -> Result<Markup> {
    Ok(match piece {
        Piece::Block(block) => blocks::block(block, level),
        Piece::Data(table) => data::open(table, id)?,
        Piece::Folded(table) => data::folded(table, id)?,
        Piece::Figure(f) => figure(f, id, level)?,
    })
}

fn figure(f: &Figure, id: &str, level: u8) -> Result<Markup> {
    let drawn = match &f.drawing {
        Drawing::Bars(bars) => bars::draw(bars, level + 1),
        Drawing::Panels(panels) => panels::draw(panels, level + 1)?,
        Drawing::Ranges(ranges) => ranges::draw(ranges, level + 1),
    };
    let table = data::folded(&f.data, &format!("{id}-data"))?;
    Ok(html! {
        figure aria-labelledby={ (id) "-title" } aria-describedby={ (id) "-text" } {
            figcaption {
                (heading(level, &format!("{id}-title"), &f.title))
                p id={ (id) "-text" } { (f.text) }
            }
            (drawn)
            (table)
        }
    })
}

/// A heading of this level.
fn heading(level: u8, id: &str, text: &str) -> Markup {
    html! {
        @match level {
            2 => h2 id=(id) { (text) },
            3 => h3 id=(id) { (text) },
            4 => h4 id=(id) { (text) },
            _ => h5 id=(id) { (text) },
        }
    }
}
