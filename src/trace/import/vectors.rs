//! Keys, queries and kept sets beside the rows of an archive.
//!
//! Position-major, as a cache is filled: `keys` is `[prompt + rows, layers, KV heads, dim]`; `queries` is `[w + rows,
//! layers, heads, dim]` with the last w prompt positions first; `kept` is `[rows, layers, KV heads, positions]` of truth
//! values, false after the row's own position. Shapes say what the header did not know, and are refused where they
//! contradict each other. Numbers are rounded to binary16 and must be finite.

use crate::error::{Error, Result};
use crate::trace::header::Header;
use crate::trace::import::numbers::Numbers;
use crate::trace::import::rows::Extent;
use crate::trace::layout::MAX_PAYLOAD;
use crate::trace::section::{KEPT, KEYS, QUERIES, Section};
use crate::trace::writer::TraceWriter;

/// Most layers, heads or entries of a head taken.
const MAX_SIDE: u64 = 1 << 16;

/// An array and its shape.
type Array<'a> = Option<(Numbers<'a>, Vec<u64>)>;

/// What an archive holds besides rows.
#[derive(Default)]
pub(crate) struct Arrays<'a> {
    pub(crate) keys: Array<'a>,
    pub(crate) queries: Array<'a>,
    pub(crate) kept: Array<'a>,
}

/// One section being filled.
pub(crate) struct Stream<'a> {
    kind: &'static str,
    numbers: Numbers<'a>,
    prompt: u32,
    /// Numbers before the first row.
    before: usize,
    /// Numbers of a row; for kept sets, lanes.
    row: usize,
    /// Positions of a padded kept set.
    columns: usize,
    buffer: Vec<u16>,
}

impl<'a> Arrays<'a> {
    /// Adds the sections to the header, in the order of the streams that fill them.
    pub(crate) fn declare(self, header: &mut Header, extent: Extent) -> Result<Vec<Stream<'a>>> {
        let mut streams = Vec::new();
        if let Some((numbers, shape)) = self.keys {
            let all = u64::from(extent.prompt) + u64::from(extent.rows);
            let [_, kv_heads, dim] = sides(&numbers.label, &shape, all..=all, header)?;
            agree(&numbers.label, "KV heads", &mut header.kv_heads, kv_heads)?;
            agree(&numbers.label, "dim", &mut header.head_dim, dim)?;
            let section = Section::keys(header);
            streams.push(Stream::new(KEYS, numbers, section, header, 0)?);
        }
        if let Some((numbers, shape)) = self.queries {
            let rows = u64::from(extent.rows);
            let most = u64::from(extent.prompt) + rows;
            let [positions, heads, dim] = sides(&numbers.label, &shape, rows..=most, header)?;
            agree(&numbers.label, "heads", &mut header.heads, heads)?;
            agree(&numbers.label, "dim", &mut header.head_dim, dim)?;
            let section = Section::queries(header, positions - extent.rows);
            streams.push(Stream::new(QUERIES, numbers, section, header, 0)?);
        }
        if let Some((numbers, shape)) = self.kept {
            let rows = u64::from(extent.rows);
            let [_, kv_heads, columns] = sides(&numbers.label, &shape, rows..=rows, header)?;
            agree(&numbers.label, "KV heads", &mut header.kv_heads, kv_heads)?;
            if columns < extent.prompt + extent.rows {
                return Err(Error::data(format!(
                    "{}: {columns} positions cannot hold the last row",
                    numbers.label
                )));
            }
            let section = Section::kept(header);
            streams.push(Stream::new(KEPT, numbers, section, header, columns)?);
        }
        match (header.heads, header.kv_heads) {
            (Some(heads), Some(kv)) if kv == 0 || !heads.is_multiple_of(kv) => Err(Error::data(
                format!("{heads} query heads are no whole number of groups for {kv} KV heads"),
            )),
            _ => Ok(streams),
        }
    }
}

/// The first side, within `first`, and the last two; the second is the number of layers.
fn sides(
    label: &str,
    shape: &[u64],
    first: std::ops::RangeInclusive<u64>,
    header: &mut Header,
) -> Result<[u32; 3]> {
    let [positions, layers, heads, last] = *shape else {
        return Err(Error::data(format!(
            "{label} has {} dimensions; positions x layers x heads x entries are 4",
            shape.len()
        )));
    };
    if !first.contains(&positions) {
        return Err(Error::data(format!(
            "{label} has {positions} positions, {} to {} belong to these rows",
            first.start(),
            first.end()
        )));
    }
    // The last side of kept sets is a number of positions.
    let bounded = [layers, heads].iter().all(|n| (1..=MAX_SIDE).contains(n));
    let narrow = |n: u64| u32::try_from(n).ok().filter(|n| bounded && *n > 0);
    match (
        narrow(positions),
        narrow(layers),
        narrow(heads),
        narrow(last),
    ) {
        (Some(positions), Some(layers), Some(heads), Some(last)) => {
            agree(label, "layers", &mut header.layers, layers)?;
            Ok([positions, heads, last])
        }
        _ => Err(Error::data(format!(
            "{label}: sides of 0 or over {MAX_SIDE} are not taken ({shape:?})"
        ))),
    }
}

/// Fills in what the header does not know; refuses what it knows otherwise.
fn agree(label: &str, what: &str, known: &mut Option<u32>, given: u32) -> Result<()> {
    match *known.get_or_insert(given) {
        same if same == given => Ok(()),
        other => Err(Error::data(format!(
            "{label} has {given} {what}, another array or the header has {other}"
        ))),
    }
}

impl<'a> Stream<'a> {
    fn new(
        kind: &'static str,
        numbers: Numbers<'a>,
        section: Option<Section>,
        header: &mut Header,
        columns: u32,
    ) -> Result<Self> {
        let too_large = || {
            Error::data(format!(
                "{}: more than {MAX_PAYLOAD} bytes would stand before the first row or in one row",
                numbers.label
            ))
        };
        let section = section.ok_or_else(too_large)?;
        if section.bytes_once > MAX_PAYLOAD || u64::from(section.bytes_per_row) > MAX_PAYLOAD {
            return Err(too_large());
        }
        let row = match kind {
            KEPT => section.lanes,
            _ => section.bytes_per_row / 2,
        };
        let stream = Self {
            kind,
            prompt: header.prompt_length,
            before: usize::try_from(section.bytes_once / 2).map_err(|_| too_large())?,
            row: row as usize,
            columns: columns as usize,
            buffer: Vec::new(),
            numbers,
        };
        header.sections.push(section);
        Ok(stream)
    }

    /// Reads and writes what stands before the first row.
    pub(crate) fn once(&mut self, writer: &mut TraceWriter) -> Result<()> {
        if self.before == 0 {
            return Ok(());
        }
        self.vectors(self.before)?;
        let bytes: Vec<u8> = self.buffer.iter().flat_map(|v| v.to_le_bytes()).collect();
        writer.put_once(self.kind, &bytes)
    }

    /// Reads and writes row `t`.
    pub(crate) fn row(&mut self, t: u32, writer: &mut TraceWriter) -> Result<()> {
        if self.kind == KEPT {
            let bits = self.kept(t)?;
            return writer.push_kept(&bits);
        }
        self.vectors(self.row)?;
        writer.push_vectors(self.kind, &self.buffer)
    }

    /// Refuses anything after the last row.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.numbers.end()
    }

    fn vectors(&mut self, n: usize) -> Result<()> {
        let at = self.numbers.at;
        self.buffer.clear();
        self.numbers.take(n, &mut self.buffer)?;
        match self.buffer.iter().position(|v| v & 0x7C00 == 0x7C00) {
            None => Ok(()),
            Some(i) => Err(Error::data(format!(
                "{}: number {i} after byte {at} is not finite in binary16",
                self.numbers.label
            ))
            .help("keys and queries are stored in binary16, up to 65504")),
        }
    }

    /// The bits of row `t`.
    fn kept(&mut self, t: u32) -> Result<Vec<u8>> {
        let length = self.prompt as usize + t as usize + 1;
        let width = length.div_ceil(8);
        let mut bits = vec![0u8; self.row * width];
        for lane in 0..self.row {
            let at = self.numbers.at;
            self.buffer.clear();
            self.numbers.take(self.columns, &mut self.buffer)?;
            let wrong = |(p, v): (usize, &u16)| *v > 1 || (p >= length && *v != 0);
            if let Some(p) = self.buffer.iter().enumerate().position(wrong) {
                return Err(Error::data(format!(
                    "{}: row {t}: position {p} is {} (from byte {at}); kept sets are 0 or 1, and 0 after position {}",
                    self.numbers.label,
                    self.buffer[p],
                    length - 1
                )));
            }
            for (p, _) in self.buffer.iter().enumerate().filter(|(_, v)| **v == 1) {
                bits[lane * width + p / 8] |= 1 << (p % 8);
            }
        }
        Ok(bits)
    }
}
