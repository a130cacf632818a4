//! The re-tier's choice against a sort.

use super::numbers::{Draw, int, same};
use super::shim::{Mem, Shim, args, shape};

/// One sequence's question.
struct Ask {
    first: usize,
    count: usize,
    keep: usize,
}

impl Ask {
    fn draw(draw: &mut Draw, stride: usize) -> Self {
        let first = draw.within(0, stride);
        let count = draw.within(0, stride - first);
        let some = draw.within(0, count);
        let keep = draw.one_of(&[0, count, count + 3, some]);
        Self { first, count, keep }
    }

    /// Positions kept: best score first, ties to the lower position, then in order of position.
    fn answer(&self, score: &[f32]) -> Vec<i32> {
        let mut all: Vec<usize> = (self.first..self.first + self.count).collect();
        // A stable sort over ascending positions: equal scores stay in order of position. -0 equals +0.
        all.sort_by(|a, b| (score[*b] + 0.0).total_cmp(&(score[*a] + 0.0)));
        all.truncate(self.keep);
        all.sort_unstable();
        all.into_iter().map(int).collect()
    }
}

/// Scores with many ties, both zeros and dead positions among them.
fn scores(draw: &mut Draw, n: usize) -> Vec<f32> {
    let coarse = draw.within(0, 1) == 1;
    (0..n)
        .map(|_| match draw.within(0, 9) {
            0 => 0.0,
            1 => -0.0,
            2 => f32::NEG_INFINITY,
            _ if coarse => (draw.unit() * 4.0).round() as f32,
            _ => draw.unit() as f32,
        })
        .collect()
}

pub(super) fn top(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let (sequences, stride) = (draw.within(1, 3), draw.one_of(&[5, 130, 700]));
    let score = scores(draw, sequences * stride);
    let asks: Vec<Ask> = (0..sequences).map(|_| Ask::draw(draw, stride)).collect();
    let list = |f: fn(&Ask) -> usize| Mem::of(&asks.iter().map(|a| int(f(a))).collect::<Vec<_>>());
    let (first, count, keep) = (list(|a| a.first), list(|a| a.count), list(|a| a.keep));
    let (scores, tier) = (Mem::of(&score), Mem::unset::<u8>(sequences * stride));
    let chosen = Mem::unset::<i32>(sequences * stride);
    let form = shape([sequences, 1, 1], draw.one_of(&[32, 64, 256]));
    let arguments = args![&scores, &first, &count, &keep, int(stride), &tier, &chosen];
    shim.launch("kv_select_top", form, order, arguments)?;
    let (tier, chosen): (Vec<u8>, Vec<i32>) = (tier.read()?, chosen.read()?);
    for (s, ask) in asks.iter().enumerate() {
        let mine = s * stride..(s + 1) * stride;
        let mut want = ask.answer(&score[mine.clone()]);
        let mut tiers = vec![u8::MAX; stride];
        tiers[ask.first..ask.first + ask.count].fill(1);
        want.iter().for_each(|p| tiers[*p as usize] = 0);
        want.resize(stride, -1);
        same("tier", &tier[mine.clone()], &tiers)?;
        same("chosen", &chosen[mine], &want)?;
    }
    Ok(())
}
