//! Rows for tests: a raw pair read from disk, rows made from numbers, and where the reference material lies.

use std::fs;
use std::path::{Path, PathBuf};

use kvplan::error::Result;
use kvplan::trace::Rows;

/// The shared folder, if this checkout has one.
pub(crate) fn shared() -> Option<PathBuf> {
    let path = std::env::var_os("KVPLAN_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    path.join("traces").is_dir().then_some(path)
}

/// Rows in memory.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) prompt: u32,
    pub(crate) sums: Option<Vec<f32>>,
    pub(crate) rows: Vec<Vec<u16>>,
}

impl Rows for Made {
    fn prompt(&self) -> u32 {
        self.prompt
    }

    fn rows(&self) -> u32 {
        u32::try_from(self.rows.len()).unwrap()
    }

    fn column_sums(&self) -> Option<&[f32]> {
        self.sums.as_deref()
    }

    fn for_each(&self, limit: u32, f: &mut dyn FnMut(u32, &[u16]) -> Result<()>) -> Result<()> {
        (0..)
            .zip(self.rows.iter().take(limit as usize))
            .try_for_each(|(t, row)| f(t, row))
    }
}

impl Made {
    /// A raw pair `NAME.json` and `NAME.rows.f16`.
    pub(crate) fn read(folder: &Path, name: &str) -> Self {
        let header: serde_json::Value =
            serde_json::from_slice(&fs::read(folder.join(format!("{name}.json"))).unwrap())
                .unwrap();
        let prompt = u32::try_from(header["prompt_len"].as_u64().unwrap()).unwrap();
        let bytes = fs::read(folder.join(format!("{name}.rows.f16"))).unwrap();
        let mut halves = bytes
            .chunks_exact(2)
            .map(|b| u16::from_le_bytes([b[0], b[1]]));
        let rows = (0..header["rows"].as_u64().unwrap() as usize)
            .map(|t| halves.by_ref().take(prompt as usize + t + 1).collect())
            .collect();
        assert!(halves.next().is_none(), "{name}: more weights than rows");
        Self {
            prompt,
            sums: None,
            rows,
        }
    }

    /// The same, cut after `rows` rows.
    pub(crate) fn cut(&self, rows: usize) -> Self {
        Self {
            rows: self.rows[..rows].to_vec(),
            ..self.clone()
        }
    }
}

/// A binary16 number as f64, from its definition.
pub(crate) fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}
