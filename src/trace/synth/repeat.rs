//! Whether a text goes round in circles at the end of its recording, and with which period.
//!
//! Long chains of small models often end in a loop. From then on every token has had the same tokens before it as its
//! copy one period earlier, so both rows look alike, age by age; that is what is looked for, in the last rows and over
//! ages within the window. New tokens of a loop are copies of those of its last period: they differ less than the text
//! before did. Rival: comparing token ids, which a trace need not carry. Ignored: loops longer than the window, and
//! that a loop may end. Units: tokens.
//!
//! Seen in recordings: the median of what a token draws once old stays as it was, its outliers go (every period is gone
//! back to alike), and so do revisits of single stretches: their variance falls to 0.01 to 0.03.

use super::WINDOW;
use super::trim::mean;

/// Rows that are compared with those a period before.
pub(super) const ROWS: usize = 64;
/// Rows that are kept for it.
pub(super) const KEPT: usize = ROWS + WINDOW as usize;
/// Ages that are compared.
const AGES: [usize; 16] = [2, 4, 6, 9, 12, 15, 19, 23, 27, 31, 36, 41, 46, 51, 57, 63];
/// Shortest period.
const SHORTEST: usize = 4;
/// Variance of revisits in a loop at most.
pub(super) const REVISIT: f64 = 0.02;
/// Correlation from which a text is taken to repeat itself. Recorded: 0.39 in a text that does not, 0.72 to 1 in texts that
/// do, the least where the loop is five periods old.
const ALIKE: f64 = 0.6;

/// Logs of the weights of a row at the ages that are compared.
pub(super) type Profile = [f64; AGES.len()];

/// The profile of a row of generated tokens, if it is long enough.
pub(super) fn profile(generated: &[f32], floor: f64) -> Option<Profile> {
    let last = generated.len().checked_sub(1)?;
    (last >= AGES[AGES.len() - 1])
        .then(|| AGES.map(|age| (f64::from(generated[last - age]) + floor).ln()))
}

/// The period in which the last of these rows repeat, if they do.
pub(super) fn period(profiles: &[Profile]) -> Option<usize> {
    let start = profiles.len().checked_sub(ROWS)?;
    let typical: Profile = std::array::from_fn(|a| mean(profiles.iter().map(|row| row[a])));
    let off: Vec<Profile> = profiles
        .iter()
        .map(|row| std::array::from_fn(|a| row[a] - typical[a]))
        .collect();
    let dot = |a: &Profile, b: &Profile| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let around = mean(off.iter().map(|row| dot(row, row))).max(1e-12);
    let product = |lag: usize| mean((start..off.len()).map(|t| dot(&off[t], &off[t - lag])));
    let alike: Vec<(usize, f64)> = (SHORTEST..=start.min(WINDOW as usize))
        .map(|lag| (lag, product(lag) / around))
        .collect();
    let best = alike.iter().map(|(_, c)| *c).fold(0.0, f64::max);
    // Of a period and its multiples, the shortest.
    let first = alike.iter().find(|(_, c)| *c >= 0.95 * best);
    first.filter(|_| best >= ALIKE).map(|(lag, _)| *lag)
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Profile, period};

    /// A number that looks random, -0.5 to 0.5.
    fn any(i: usize) -> f64 {
        let x = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((x ^ x >> 29) % 1009) as f64 / 1009.0 - 0.5
    }

    /// Rows whose tokens repeat every 26 with noise are found to; rows of ever new tokens are not; too few say nothing.
    #[test]
    fn a_loop_is_found_and_nothing_else() {
        let rows = |token: &dyn Fn(usize) -> usize| -> Vec<Profile> {
            let weight =
                |t: usize, a: usize| any(token(t) * 31 + token(t + 7 * a)) + 0.3 * any(t * 977 + a);
            (0..KEPT)
                .map(|t| std::array::from_fn(|a| weight(t, a) - a as f64))
                .collect()
        };
        let looping = rows(&|t| t % 26);
        assert_eq!(period(&looping), Some(26));
        assert_eq!(period(&rows(&|t| t)), None);
        assert_eq!(period(&looping[..super::ROWS + 20]), None);
        assert_eq!(period(&looping[..super::ROWS - 1]), None);
    }
}
