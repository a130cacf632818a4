//! Vocabularies of `SentencePiece` (Llama-2, Mistral), which GGUF files hold as pieces with scores.
//!
//! The rule joins, again and again, the two neighbours whose joint piece has the highest score. That is byte-pair merging
//! with one merge for every way to cut a piece in two, ranked by the score of the piece; so the same crate does it. A
//! space is `▁`, one is put before a text where the file says so (Llama does), and characters without a piece become
//! bytes (`<0x0A>`). Equal scores of different pieces go by the lower id, where the original takes the leftmost pair;
//! trained vocabularies have no equal scores.

use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Replace, Sequence};
use tokenizers::{Result, Tokenizer};

/// A piece's space.
const SPACE: &str = "\u{2581}";

/// The tokenizer of pieces with their scores; `prefix` says whether a space goes before a text.
///
/// # Errors
/// The crate's: pieces that make no vocabulary.
pub(super) fn tokenizer(
    pieces: &[String],
    scores: &[f64],
    unknown: Option<&str>,
    prefix: bool,
) -> Result<Tokenizer> {
    let vocab: Vocab = (0u32..)
        .zip(pieces)
        .map(|(id, t)| (t.clone(), id))
        .collect();
    let merges = merges(pieces, scores, &vocab);
    let mut bpe = BPE::builder()
        .vocab_and_merges(vocab, merges)
        .byte_fallback(true)
        .fuse_unk(true);
    if let Some(unknown) = unknown {
        bpe = bpe.unk_token(unknown.into());
    }
    let mut tokenizer = Tokenizer::new(bpe.build()?);
    let mut parts: Vec<NormalizerWrapper> = Vec::new();
    if prefix {
        parts.push(Prepend::new(SPACE.into()).into());
    }
    parts.push(Replace::new(" ", SPACE)?.into());
    tokenizer.with_normalizer(Some(Sequence::new(parts)))?;
    let mut back: Vec<DecoderWrapper> = vec![
        Replace::new(SPACE, " ")?.into(),
        ByteFallback::new().into(),
        Fuse::new().into(),
    ];
    if prefix {
        back.push(Strip::new(' ', 1, 0).into());
    }
    tokenizer.with_decoder(Some(Decoders::new(back)));
    Ok(tokenizer)
}

/// Every way to cut a piece into two pieces, those of the highest score first.
fn merges(pieces: &[String], scores: &[f64], vocab: &Vocab) -> Vec<(String, String)> {
    let mut ranked: Vec<(f64, usize, String, String)> = Vec::new();
    for (id, (piece, score)) in pieces.iter().zip(scores).enumerate() {
        for (at, _) in piece.char_indices().skip(1) {
            let (left, right) = piece.split_at(at);
            if vocab.contains_key(left) && vocab.contains_key(right) {
                ranked.push((*score, id, left.into(), right.into()));
            }
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    ranked.into_iter().map(|(_, _, l, r)| (l, r)).collect()
}
