//! Changes sound inputs: bytes, integers, ranges, words, halves of two inputs.

use kvplan::stats;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// Integers at which things break.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    7,
    0x7C00,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    1 << 30,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];

/// Longest input that is made [bytes].
const LONGEST: usize = 1 << 18;

pub(crate) struct Mutator {
    rng: ChaCha8Rng,
    words: &'static [&'static str],
}

impl Mutator {
    pub(crate) fn new(seed: u64, words: &'static [&'static str]) -> Self {
        Self {
            rng: stats::stream(seed, stats::Purpose::Phases),
            words,
        }
    }

    /// Whether something of that probability happens.
    pub(crate) fn chance(&mut self, of: u32, among: u32) -> bool {
        self.rng.random_range(0..among) < of
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n.max(1))
    }

    /// A changed input of the corpus.
    pub(crate) fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let at = self.below(corpus.len());
        let mut out = corpus[at].clone();
        let most = self.below(4) + 1;
        for _ in 0..=self.below(most) {
            self.change(&mut out, corpus);
        }
        out.truncate(LONGEST);
        out
    }

    fn change(&mut self, out: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(out.len());
        match self.below(9) {
            0 => self.flip(out, at),
            1 => self.edge(out, at),
            2 => out.truncate(at),
            3 => {
                let end = (at + 1 + self.below(16)).min(out.len());
                out.drain(at.min(end)..end);
            }
            4 => {
                let end = (at + 1 + self.below(64)).min(out.len());
                let copy = out[at.min(end)..end].to_vec();
                let to = self.below(out.len() + 1);
                out.splice(to..to, copy);
            }
            5 => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len());
                out.truncate(at);
                out.extend_from_slice(&other[from.min(other.len())..]);
            }
            6 => {
                let bytes: Vec<u8> = (0..=self.below(8)).map(|_| self.byte()).collect();
                out.splice(at..at, bytes);
            }
            _ => self.word(out, at),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // a random byte
    fn byte(&mut self) -> u8 {
        self.rng.next_u64() as u8
    }

    fn flip(&mut self, out: &mut [u8], at: usize) {
        let bit = self.below(8);
        if let Some(byte) = out.get_mut(at) {
            *byte ^= 1 << bit;
        }
    }

    /// An edge integer of 1, 2, 4 or 8 bytes in place of what is there.
    fn edge(&mut self, out: &mut [u8], at: usize) {
        let width = 1 << self.below(4);
        let value = EDGES[self.below(EDGES.len())].to_le_bytes();
        for (slot, byte) in out.iter_mut().skip(at).zip(&value[..width]) {
            *slot = *byte;
        }
    }

    /// A word of the format, put in or put in place of what is there.
    fn word(&mut self, out: &mut Vec<u8>, at: usize) {
        if self.words.is_empty() {
            return self.flip(out, at);
        }
        let word = self.words[self.below(self.words.len())].as_bytes();
        let end = if self.chance(1, 2) {
            at
        } else {
            (at + word.len()).min(out.len())
        };
        out.splice(at.min(end)..end, word.iter().copied());
    }
}
