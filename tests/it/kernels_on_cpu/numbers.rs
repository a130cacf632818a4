//! Random numbers and shapes for kernel tests, binary16 both ways, and comparisons that name where they fail.

use kvplan::simd::lanes::widen_one;

/// SplitMix64: the same numbers everywhere.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// From `low` up to `high`, both included.
    pub(crate) fn within(&mut self, low: usize, high: usize) -> usize {
        low + usize::try_from(self.next() % (high - low + 1) as u64).unwrap()
    }

    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.within(0, of.len() - 1)]
    }

    /// From -1 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// `n` of the numbers below `of`, in any order, none twice.
    pub(crate) fn distinct(&mut self, n: usize, of: usize) -> Vec<i32> {
        let mut all: Vec<i32> = (0..i32::try_from(of).unwrap()).collect();
        for i in 0..n {
            let j = self.within(i, of - 1);
            all.swap(i, j);
        }
        all.truncate(n);
        all
    }

    /// `n` binary16 numbers of magnitude up to `size`.
    pub(crate) fn halves(&mut self, n: usize, size: f64) -> Vec<u16> {
        (0..n).map(|_| half(self.unit() * size)).collect()
    }

    /// Any 16-byte words.
    pub(crate) fn words(&mut self, n: usize) -> Vec<u128> {
        (0..n)
            .map(|_| u128::from(self.next()) << 64 | u128::from(self.next()))
            .collect()
    }
}

/// The binary16 number nearest to `x` (ties to the even one).
pub(crate) fn half(x: f64) -> u16 {
    let sign = u16::from(x.is_sign_negative()) << 15;
    let size = x.abs();
    if size.is_nan() {
        return 0x7e00;
    }
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // The unit in the last place: 2^-24 below the normal numbers, else 2^(e - 10).
    let exponent = if size < 2f64.powi(-14) {
        -14
    } else {
        exponent_of(size)
    };
    let digits = (size * 2f64.powi(10 - exponent)).round_ties_even() as u16;
    let normal = u16::try_from(exponent + 14).unwrap() << 10;
    sign | (normal + digits)
}

fn exponent_of(size: f64) -> i32 {
    i32::try_from(size.to_bits() >> 52).unwrap() - 1023
}

/// A binary16 number's value.
pub(crate) fn value(bits: u16) -> f64 {
    f64::from(widen_one(bits))
}

/// An index as kernels take it.
pub(crate) fn int(n: usize) -> i32 {
    i32::try_from(n).unwrap()
}

/// Equal, or where not.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: &[T],
    want: &[T],
) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{what}: {} for {}", got.len(), want.len()));
    }
    match got.iter().zip(want).position(|(g, w)| g != w) {
        None => Ok(()),
        Some(at) => Err(format!("{what}[{at}]: {:?} for {:?}", got[at], want[at])),
    }
}

/// Within `slack` of each other (two minus infinities are), or where not.
pub(crate) fn near(what: &str, got: &[f32], want: &[f64], slack: f64) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{what}: {} for {}", got.len(), want.len()));
    }
    let off = |(g, w): (&f32, &f64)| {
        let g = f64::from(*g);
        let alike = g.is_infinite() && w.is_infinite() && (g > 0.0) == (*w > 0.0);
        !(alike || (g - w).abs() <= slack)
    };
    match got.iter().zip(want).position(off) {
        None => Ok(()),
        Some(at) => Err(format!(
            "{what}[{at}]: {} for {}, slack {slack}",
            got[at], want[at]
        )),
    }
}

#[test]
fn halves_round_trip_and_ties_go_to_even() {
    for bits in (0..=0x7bff).chain(0x8000..=0xfbff) {
        assert_eq!(half(value(bits)), bits);
    }
    // Between 1 and 1 + 2^-10 lies 1 + 2^-11: to even, 1. Between 1 + 2^-10 and 1 + 2^-9: to 1 + 2^-9.
    assert_eq!(half(1.0 + 2f64.powi(-11)), 0x3c00);
    assert_eq!(half(1.0 + 3.0 * 2f64.powi(-11)), 0x3c02);
    assert_eq!(half(65519.9), 0x7bff);
    assert_eq!(half(65520.0), 0x7c00);
}
