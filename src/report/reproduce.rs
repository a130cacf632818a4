//! The published figures beside ours as a page: a table a topic, and the arithmetic under it.

use crate::error::{Error, Result};
use crate::reproduce::{Claim, Reproduction, Topic};

use super::page::{Grid, Page};

/// The page.
pub fn page(r: &Reproduction) -> Page {
    let mut page = Page::default();
    page.title("The published figures, computed again");
    page.text(&r.paper);
    page.text(format!(
        "Of {} claims: {}. Only what differs by more than its `why` allows is marked corrected; figures of other models are first order.",
        r.claims.len(),
        counts(&r.claims)
    ));
    for topic in Topic::ALL {
        section(&mut page, r, topic);
    }
    page
}

/// `12 reproduced, 9 corrected, ...`
fn counts(claims: &[Claim]) -> String {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    for c in claims {
        match seen.iter_mut().find(|(word, _)| *word == c.status.word()) {
            Some((_, n)) => *n += 1,
            None => seen.push((c.status.word(), 1)),
        }
    }
    let parts: Vec<String> = seen.iter().map(|(word, n)| format!("{n} {word}")).collect();
    parts.join(", ")
}

fn section(page: &mut Page, r: &Reproduction, topic: Topic) {
    let claims: Vec<&Claim> = r.claims.iter().filter(|c| c.topic == topic).collect();
    page.title(topic.word());
    let mut grid = Grid::new(["CLAIM", "PUBLISHED", "OURS", "STATUS"]).texts(&[0, 1, 2, 3]);
    for c in &claims {
        grid.row([
            c.claim.as_str(),
            &c.published,
            c.ours.as_deref().unwrap_or("-"),
            c.status.word(),
        ]);
    }
    page.grid(grid);
    page.list(reasons(&claims));
}

/// Arithmetic and reason of each claim; neighbours with the same ones share an item.
fn reasons(claims: &[&Claim]) -> Vec<String> {
    claims
        .chunk_by(|a, b| a.why == b.why)
        .map(|alike| {
            let sums: Vec<String> = alike
                .chunk_by(|a, b| a.arithmetic == b.arithmetic)
                .map(|same| {
                    let ids: Vec<&str> = same.iter().map(|c| c.id.as_str()).collect();
                    format!("{}: {}", ids.join(", "), same[0].arithmetic)
                })
                .collect();
            format!("{}. Why: {}.", sums.join(". "), alike[0].why)
        })
        .collect()
}

/// One row a claim.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn csv(r: &Reproduction) -> Result<String> {
    let failed = |e: &dyn std::fmt::Display| Error::internal(format!("csv: {e}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    for claim in &r.claims {
        writer.serialize(claim).map_err(|e| failed(&e))?;
    }
    let bytes = writer.into_inner().map_err(|e| failed(&e))?;
    String::from_utf8(bytes).map_err(|e| failed(&e))
}
