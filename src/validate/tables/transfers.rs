//! `transfers.csv`: copies between host and device by method, direction, size and host, in GB/s a direction.
//!
//! A card in the catalog on its own link is taken as it stands; any other card or link is the class of that link: lanes
//! and generation of `PCIe`, or C2C. A rate is of the bytes of one direction, except where the direction says total.

use super::super::names;
use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, Scope};
use crate::catalog;
use crate::error::Result;
use crate::hardware::{Link, Source, Value};
use crate::service::copies::{self, Copies, Direction, Method};

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "transfers.csv",
    columns: &[
        "gpu",
        "link",
        "pinned",
        "method",
        "direction",
        "block_bytes",
        "n_blocks",
        "total_bytes",
        "GBps_per_direction",
        "exact_or_read_from_plot",
        "host",
    ],
    scope: Scope::Parts,
    cases,
};

/// Size of a copy that does not state it \[bytes\]: large.
const LARGE: f64 = 512.0 * 1024.0 * 1024.0;

/// Bytes a second of a lane of `PCIe` 1, after coding; each generation doubles it.
const LANE: f64 = 0.985e9 / 4.0;

fn cases(sheet: &Sheet, stock: &mut Stock) -> Result<Vec<Case>> {
    sheet.lines().map(|line| case(line, stock)).collect()
}

fn case(line: Line<'_>, stock: &mut Stock) -> Result<Case> {
    Ok(Case {
        line: line.number,
        metric: "GBps_per_direction",
        gpu: line.text("gpu")?.into(),
        framework: line.text("method")?.into(),
        model: format!(
            "{}, {}",
            line.text("link")?,
            line.text("exact_or_read_from_plot")?
        ),
        measured: line.positive("GBps_per_direction")?,
        fits: None,
        law: law(line, stock)?,
    })
}

fn law(line: Line<'_>, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let copies = copies(line)?;
    let both = if line.text("direction")?.ends_with("total") {
        2.0
    } else {
        1.0
    };
    let class = or_reason!(class_of(line.text("link")?)?);
    let own = names::hardware(line.text("gpu")?);
    let family = match own {
        Some(id) if catalog::hardware(&id)?.link.name == class.name => {
            stock.family(&id, "vllm", None)?
        }
        _ => stock.family("h100-sxm", "vllm", Some(class))?,
    };
    Ok(Ok(Law::new(family, move |m| {
        both * copies.bytes / copies::seconds(&m.hardware.link, &copies) / 1e9
    })))
}

fn copies(line: Line<'_>) -> Result<Copies> {
    let block = line.optional("block_bytes")?;
    let pieces = line.optional("n_blocks")?.unwrap_or(1.0);
    let bytes = match (line.optional("total_bytes")?, block) {
        (Some(total), _) => total,
        (None, Some(block)) => block * pieces,
        (None, None) => LARGE,
    };
    let direction = line.text("direction")?;
    let text = line.text("method")?.to_ascii_lowercase();
    let method = if text.contains("batchasync") {
        Method::Batched
    } else if text.contains("kernel") && pieces > 1.0 || text.contains("copy kernel") {
        Method::Gather
    } else if text.contains("kernel") {
        Method::Kernel
    } else if pieces > 1.0 {
        Method::Calls
    } else {
        Method::Whole
    };
    Ok(Copies {
        method,
        direction: if direction.starts_with("D2H") {
            Direction::Down
        } else {
            Direction::Up
        },
        duplex: direction.contains("while") || direction.contains("bidirectional"),
        pinned: line.text("pinned")? != "no",
        remote: line.text("host")?.to_ascii_lowercase().contains("remote"),
        pieces,
        bytes,
    })
}

/// The link of a class: `PCIe4 x8`, `PCIe3 x16 (inferred from rate)`, `NVLink-C2C`.
fn class_of(text: &str) -> Result<std::result::Result<Link, Reason>> {
    if text.starts_with("NVLink-C2C") {
        return Ok(Ok(catalog::hardware("gh200")?.link));
    }
    let digits = |mark: char| -> Option<u32> {
        let after = &text[text.find(mark)? + mark.len_utf8()..];
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        after[..end].parse().ok()
    };
    let lanes = digits('x').filter(|n| (1..=32).contains(n)).unwrap_or(16);
    // A row that names no generation is a card of today.
    let generation = digits('e').filter(|g| (1..=7).contains(g)).unwrap_or(5);
    let mut link = catalog::hardware("h100-sxm")?.link;
    if (generation, lanes) == (5, 16) {
        return Ok(Ok(link));
    }
    let raw = LANE * f64::from(1 << (generation - 1)) * f64::from(lanes);
    let class = || {
        Value::new(
            0.83 * raw,
            0.7 * raw,
            0.91 * raw,
            Source::Published,
            "share of PCIe's raw rate that pinned copies reach, 12 hosts",
        )
    };
    (link.h2d, link.d2h) = (class(), class());
    link.name = format!("PCIe {generation} x{lanes}");
    Ok(Ok(link))
}
