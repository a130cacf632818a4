//! What every trace of a model says of it.

use std::fs::File;
use std::io::Read;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::forward::Checkpoint;
use crate::trace::Header;

/// A header with the model's own facts: name, shape, format, licence, and the SHA-256 of its weights (of all files, one
/// after another, where there are several).
///
/// # Errors
/// Usage: a file of the model cannot be read.
pub fn facts(checkpoint: &Checkpoint) -> Result<Header> {
    let shape = &checkpoint.shape;
    let number = |n: usize| u32::try_from(n).ok();
    let mut header = Header::new(checkpoint.name.clone(), 0);
    header.architecture = Some(shape.architecture.clone());
    header.weights_sha256 = Some(digest(checkpoint)?);
    header.quantisation = Some(checkpoint.quantisation());
    header.licence.clone_from(&checkpoint.licence);
    header.layers = number(shape.layers);
    header.heads = number(shape.heads);
    header.kv_heads = number(shape.kv_heads);
    header.head_dim = number(shape.head_dim);
    Ok(header)
}

fn digest(checkpoint: &Checkpoint) -> Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    for path in checkpoint.files() {
        let failed =
            |e: std::io::Error| Error::usage(format!("{}: cannot be read: {e}", path.display()));
        let mut file = File::open(&path).map_err(failed)?;
        loop {
            let n = file.read(&mut buffer).map_err(failed)?;
            if n == 0 {
                break;
            }
            hash.update(&buffer[..n]);
        }
    }
    Ok(crate::units::text::hex(&hash.finalize()))
}
