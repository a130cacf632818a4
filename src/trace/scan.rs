//! How many whole rows a file holds: by its end record, or by walking up to the cut.
//!
//! A finished file is recognised by its last 32 bytes alone, so opening does not read it. Everything else is walked from
//! the front, a record header a group. A cut ends the walk; a record that is there but wrong is damage, not a cut.

use crate::error::{Error, Result};
use crate::trace::header::MAX_TOKENS;
use crate::trace::layout::{RECORD, Record, Tag};
use crate::trace::reader::TraceReader;

impl TraceReader {
    /// The number of rows of a finished file, by its last 32 bytes; nothing if they are not a fitting end record.
    pub(crate) fn finished(&self) -> Result<Option<u32>> {
        let Some(at) = self.source.len().checked_sub(RECORD) else {
            return Ok(None);
        };
        let done = self.record(at)?.filter(|r| r.tag == Tag::Done);
        Ok(done
            .map(|r| r.rows)
            .filter(|&rows| rows <= MAX_TOKENS && self.group(rows).is_ok_and(|end| end == at)))
    }

    /// Counts whole rows from the front: (rows, partial).
    pub(crate) fn walk(&self) -> Result<(u32, bool)> {
        let (mut rows, mut last) = (0, false);
        loop {
            let at = self.group(rows)?;
            if at
                .checked_add(RECORD)
                .is_none_or(|end| end > self.source.len())
            {
                return Ok((rows, true));
            }
            let record = self.record(at)?.ok_or_else(|| self.damaged(at))?;
            match record.tag {
                Tag::Done if record.rows == rows => return self.end(at, rows),
                Tag::Chunk if !last && self.starts_group(&record, rows) => {
                    let end = rows + record.rows;
                    if end > MAX_TOKENS || self.group(end)? > self.source.len() {
                        return Ok((rows, true));
                    }
                    last = record.rows < self.header.chunk_rows;
                    rows = end;
                }
                _ => return Err(self.out_of_place(at)),
            }
        }
    }

    fn starts_group(&self, record: &Record, rows: u32) -> bool {
        record.section == 0
            && record.first_row == rows
            && (1..=self.header.chunk_rows).contains(&record.rows)
    }

    fn end(&self, at: u64, rows: u32) -> Result<(u32, bool)> {
        match self.source.len() - at - RECORD {
            0 => Ok((rows, false)),
            more => Err(Error::data(format!(
                "{}: {more} bytes follow the end of the trace at byte {}",
                self.label,
                at + RECORD
            ))
            .help("the file was appended to; cut it there")),
        }
    }

    pub(crate) fn check_rows(&self) -> Result<()> {
        let problem = match self.header.planned_rows {
            Some(planned) if !self.partial && planned != self.rows => {
                format!(
                    "planned_rows is {planned}, the finished file has {}",
                    self.rows
                )
            }
            _ => match self.header.forced.last() {
                Some(&t) if !self.partial && t >= self.rows => {
                    format!("forced names row {t} of {}", self.rows)
                }
                _ => return Ok(()),
            },
        };
        Err(Error::data(format!(
            "{}: the header contradicts the rows: {problem}",
            self.label
        )))
    }
}
