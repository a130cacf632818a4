//! Kernels that only move bytes: what arrives is compared word by word, what must not change too.

use super::numbers::{Draw, int, same};
use super::shim::{Mem, Shim, args, shape};

/// 16-byte words that stand for "not written".
const UNSET: u128 = u128::MAX;

/// Pages of several layers on a scattered and on a dense side.
struct Pages {
    words: usize,
    scattered: usize,
    layers: usize,
    index: Vec<i32>,
    grid: [usize; 3],
    block: usize,
}

impl Pages {
    fn draw(draw: &mut Draw) -> Self {
        let (words, scattered) = (draw.within(1, 70), draw.within(1, 12));
        let (n, layers) = (draw.within(1, scattered), draw.within(1, 3));
        Self {
            words,
            scattered,
            layers,
            index: draw.distinct(n, scattered),
            grid: [draw.within(1, 5), layers, 1],
            block: draw.one_of(&[32, 33, 64, 128]),
        }
    }

    /// A layer of the scattered side, with a gap behind it, and of the dense side.
    fn layer_words(&self) -> (usize, usize) {
        (
            self.scattered * self.words + 3,
            self.index.len() * self.words,
        )
    }
}

pub(super) fn gather_pages(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let p = Pages::draw(draw);
    let (far, near) = p.layer_words();
    let src = draw.words(far * p.layers);
    let dst = Mem::unset::<u128>(near * p.layers);
    let (from, index) = (Mem::of(&src), Mem::of(&p.index));
    let (n, words) = (int(p.index.len()), int(p.words));
    let list = args![&from, far as u64, &dst, near as u64, &index, n, words];
    shim.launch("kv_gather_pages", shape(p.grid, p.block), order, list)?;
    let mut want = vec![UNSET; near * p.layers];
    for layer in 0..p.layers {
        for (i, page) in p.index.iter().enumerate() {
            let at = layer * far + *page as usize * p.words;
            want[layer * near + i * p.words..][..p.words].copy_from_slice(&src[at..][..p.words]);
        }
    }
    same("gathered", &dst.read()?, &want)
}

pub(super) fn scatter_pages(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let p = Pages::draw(draw);
    let (far, near) = p.layer_words();
    let src = draw.words(near * p.layers);
    let dst = Mem::unset::<u128>(far * p.layers);
    let (from, index) = (Mem::of(&src), Mem::of(&p.index));
    let (n, words) = (int(p.index.len()), int(p.words));
    let list = args![&from, near as u64, &dst, far as u64, &index, n, words];
    shim.launch("kv_scatter_pages", shape(p.grid, p.block), order, list)?;
    let mut want = vec![UNSET; far * p.layers];
    for layer in 0..p.layers {
        for (i, page) in p.index.iter().enumerate() {
            let at = layer * far + *page as usize * p.words;
            want[at..][..p.words].copy_from_slice(&src[layer * near + i * p.words..][..p.words]);
        }
    }
    same("scattered", &dst.read()?, &want)
}

/// Tokens in pages of several layers.
struct Tokens {
    kv_heads: usize,
    page_tokens: usize,
    row_words: usize,
    pages: usize,
    layers: usize,
    n: usize,
    slots: Vec<i32>,
    grid: [usize; 3],
    block: usize,
}

impl Tokens {
    fn draw(draw: &mut Draw) -> Self {
        let (pages, page_tokens) = (draw.within(2, 5), draw.one_of(&[16, 32]));
        let (n, layers) = (draw.within(1, page_tokens), draw.within(1, 3));
        Self {
            kv_heads: draw.within(1, 4),
            page_tokens,
            row_words: draw.one_of(&[8, 16]),
            pages,
            layers,
            n,
            // Twice as many, so that moves have slots to move to.
            slots: draw.distinct(2 * n, pages * page_tokens),
            grid: [draw.within(1, 5), layers, 1],
            block: draw.one_of(&[32, 64, 96]),
        }
    }

    /// A token of one layer.
    fn token_words(&self) -> usize {
        2 * self.kv_heads * self.row_words
    }

    fn layer_words(&self) -> usize {
        self.pages * self.page_tokens * self.token_words() + 5
    }

    /// Where word `w` of a token lies in a layer: [page][row][token of the page][word].
    fn at(&self, slot: i32, w: usize) -> usize {
        let (page, token) = (
            slot as usize / self.page_tokens,
            slot as usize % self.page_tokens,
        );
        let (row, word) = (w / self.row_words, w % self.row_words);
        let row = page * 2 * self.kv_heads + row;
        (row * self.page_tokens + token) * self.row_words + word
    }
}

pub(super) fn gather_tokens(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let t = Tokens::draw(draw);
    let (layer, token) = (t.layer_words(), t.token_words());
    let record = t.layers * token + 2;
    let src = draw.words(layer * t.layers);
    let (from, slots) = (Mem::of(&src), Mem::of(&t.slots[..t.n]));
    let records = Mem::unset::<u128>(t.n * record);
    let (heads, page, row) = (int(t.kv_heads), int(t.page_tokens), int(t.row_words));
    let list = args![
        &from,
        layer as u64,
        &slots,
        int(t.n),
        &records,
        record as u64,
        heads,
        page,
        row
    ];
    shim.launch("kv_gather_tokens", shape(t.grid, t.block), order, list)?;
    let mut want = vec![UNSET; t.n * record];
    for i in 0..t.n {
        for l in 0..t.layers {
            for w in 0..token {
                want[i * record + l * token + w] = src[l * layer + t.at(t.slots[i], w)];
            }
        }
    }
    same("record", &records.read()?, &want)
}

pub(super) fn scatter_tokens(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let t = Tokens::draw(draw);
    let (layer, token) = (t.layer_words(), t.token_words());
    let record = t.layers * token + 2;
    let src = draw.words(t.n * record);
    let (records, slots) = (Mem::of(&src), Mem::of(&t.slots[..t.n]));
    let arena = Mem::unset::<u128>(layer * t.layers);
    let (heads, page, row) = (int(t.kv_heads), int(t.page_tokens), int(t.row_words));
    let list = args![
        &records,
        record as u64,
        &slots,
        int(t.n),
        &arena,
        layer as u64,
        heads,
        page,
        row
    ];
    shim.launch("kv_scatter_tokens", shape(t.grid, t.block), order, list)?;
    let mut want = vec![UNSET; layer * t.layers];
    for i in 0..t.n {
        for l in 0..t.layers {
            for w in 0..token {
                want[l * layer + t.at(t.slots[i], w)] = src[i * record + l * token + w];
            }
        }
    }
    same("arena", &arena.read()?, &want)
}

/// Within one arena, as compaction does it: the sources stay as they were.
pub(super) fn move_tokens(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let t = Tokens::draw(draw);
    let (layer, token) = (t.layer_words(), t.token_words());
    let src = draw.words(layer * t.layers);
    let (from, to) = t.slots.split_at(t.n);
    let (arena, from_mem, to_mem) = (Mem::of(&src), Mem::of(from), Mem::of(to));
    let (heads, page, row) = (int(t.kv_heads), int(t.page_tokens), int(t.row_words));
    let stride = layer as u64;
    let list = args![
        &arena,
        stride,
        &from_mem,
        &arena,
        stride,
        &to_mem,
        int(t.n),
        heads,
        page,
        row
    ];
    shim.launch("kv_move_tokens", shape(t.grid, t.block), order, list)?;
    let mut want = src.clone();
    for (i, l) in (0..t.n).flat_map(|i| (0..t.layers).map(move |l| (i, l))) {
        for w in 0..token {
            want[l * layer + t.at(to[i], w)] = src[l * layer + t.at(from[i], w)];
        }
    }
    same("arena", &arena.read()?, &want)
}

pub(super) fn read(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let words = draw.within(1, 3000);
    let data: Vec<u32> = (0..4 * words).map(|_| (draw.next() >> 32) as u32).collect();
    let (from, sink) = (Mem::of(&data), Mem::of(&[7u32]));
    let form = shape([draw.within(1, 4), 1, 1], draw.one_of(&[32, 128, 256]));
    shim.launch("kv_read", form, order, args![&from, words as u64, &sink])?;
    let want = data.iter().fold(7u32, |sum, x| sum.wrapping_add(*x));
    same("sink", &sink.read()?, &[want])
}

pub(super) fn copy(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let words = draw.within(1, 3000);
    let src = draw.words(words);
    let (from, to) = (Mem::of(&src), Mem::unset::<u128>(words));
    let form = shape([draw.within(1, 4), 1, 1], draw.one_of(&[32, 100, 256]));
    shim.launch("kv_copy", form, order, args![&from, &to, words as u64])?;
    same("copied", &to.read()?, &src)
}

/// Open, it lets through at once; shut, it gives up after its tries.
pub(super) fn hold(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let flag = Mem::of(&[u32::from(draw.next() & 1 == 1)]);
    shim.launch("kv_hold", shape([1, 1, 1], 1), order, args![&flag, 1000u32])
}
