//! The last number that keeps to the limits, and the next, which does not.
//!
//! From a start outwards by doubling until one that keeps and one that does not are known, then by halving. From the easy
//! end a search costs twice the logarithm of the answer; from near the answer, twice that of how far it lies off.

use super::point::Tried;
use crate::error::Result;

/// A number and what it gives.
pub(super) type At = (u32, Tried);

/// The number `k` places from the easy end.
fn number((easy, hard): (u32, u32), k: u32) -> u32 {
    if hard >= easy { easy + k } else { easy - k }
}

/// How many places a number lies from the easy end; at most all of them.
pub(super) fn place((easy, hard): (u32, u32), n: u32) -> u32 {
    let k = if hard >= easy {
        n.saturating_sub(easy)
    } else {
        easy.saturating_sub(n)
    };
    k.min(easy.abs_diff(hard))
}

/// The last number that keeps to the limits, counted from the easy end, and the next, which does not, no more than `apart(k)`
/// places from it (1: neighbours), `k` places from the easy end. None first: not even the easiest does. None second: there
/// is no next. Begins `start` places from the easy end, and goes out from there in strides of `apart` at first.
pub(super) fn search(
    range: (u32, u32),
    start: u32,
    apart: impl Fn(u32) -> u32,
    at: &mut impl FnMut(u32) -> Result<Tried>,
) -> Result<(Option<At>, Option<At>)> {
    let most = range.0.abs_diff(range.1);
    let (mut good, mut bad): (Option<At>, Option<At>) = (None, None);
    let start = start.min(most);
    let (mut next, mut stride) = (Some(start), apart(start).max(1));
    while let Some(k) = next {
        let tried = at(number(range, k))?;
        if tried.ok() {
            good = Some((k, tried));
        } else {
            bad = Some((k, tried));
        }
        next = match (&good, &bad) {
            (Some((g, _)), None) if *g < most => Some(g.saturating_add(stride).min(most)),
            (None, Some((b, _))) if *b > 0 => Some(b.saturating_sub(stride)),
            (Some((g, _)), Some((b, _))) if b - g > apart(*g).max(1) => Some(g + (b - g) / 2),
            _ => None,
        };
        stride = stride.saturating_mul(2);
    }
    let numbered = |(k, tried): At| (number(range, k), tried);
    Ok((good.map(numbered), bad.map(numbered)))
}

/// Where to begin where more may keep to a limit that less breaks: the first place from the easy end, by doubling, that keeps
/// to all; the easy end if none does.
pub(super) fn climb(range: (u32, u32), at: &mut impl FnMut(u32) -> Result<Tried>) -> Result<u32> {
    let most = range.0.abs_diff(range.1);
    let mut k = 0;
    loop {
        if at(number(range, k))?.ok() {
            return Ok(k);
        }
        if k == most {
            return Ok(0);
        }
        k = k.saturating_mul(2).saturating_add(1).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a search finds where the first `n` places keep, and which numbers it tried.
    fn found(range: (u32, u32), start: u32, keep: u32) -> ([Option<u32>; 2], Vec<u32>) {
        let mut tried = Vec::new();
        let (good, bad) = search(range, start, |_| 1, &mut |n| {
            tried.push(n);
            let fine = n.abs_diff(range.0) < keep;
            Ok(if fine {
                Tried::default()
            } else {
                Tried::refused("too much".into())
            })
        })
        .unwrap();
        ([good.map(|g| g.0), bad.map(|b| b.0)], tried)
    }

    /// From 1 by 1, 2, 4: 1, 2, 4, 8; then half of 4 to 8: 6, 5.
    #[test]
    fn doubles_then_halves() {
        let (ends, tried) = found((1, 100), 0, 5);
        assert_eq!(ends, [Some(5), Some(6)]);
        assert_eq!(tried, [1, 2, 4, 8, 6, 5]);
    }

    #[test]
    fn every_start_finds_the_same_in_either_direction() {
        for keep in 0..=12 {
            for start in 0..=15 {
                for range in [(1, 11), (11, 1), (5, 5)] {
                    let (ends, tried) = found(range, start, keep);
                    assert_eq!(ends, found(range, 0, keep).0, "{range:?} {start} {keep}");
                    assert!(tried.len() <= 9, "{tried:?}");
                }
            }
        }
        assert_eq!(found((1, 10), 4, 0).0, [None, Some(1)]);
        assert_eq!(found((10, 1), 4, 99).0, [Some(1), None]);
    }
}
