//! int8 kernels: scales to the bit, codes to the nearest step, and the numbers that come back.

use super::numbers::{Draw, half, int, near, same, value};
use super::shim::{Mem, Shape, Shim, args, shape};

/// Relative slack of a binary32 quotient and product: three roundings of 2^-24.
const ROUNDING: f64 = 4.0 / (1u64 << 24) as f64;

/// Where a row or group begins on the binary16 side: runs of `run` of them, `skip` numbers apart.
fn start(i: usize, run: usize, skip: usize, len: usize) -> usize {
    i / run * skip + i % run * len
}

/// A code is right if no other step is nearer; where two are as near within rounding, both are.
fn code_is_nearest(x: f64, step: f64, code: i8) -> bool {
    if step == 0.0 {
        return code == 0;
    }
    let off = (x / step - f64::from(code)).abs();
    off <= 0.5 + 127.0 * ROUNDING && (-127..=127).contains(&code)
}

/// Compares scales with `most / 127`, codes with the numbers, and the numbers that come back.
fn compare(
    x: &[u16],
    of: &[usize],
    most: &[f64],
    codes: &[i8],
    scales: &[f32],
    back: &[u16],
) -> Result<(), String> {
    let want: Vec<f64> = most.iter().map(|m| m / 127.0).collect();
    let largest = most.iter().fold(0.0, |a: f64, b| a.max(*b));
    near("scale", scales, &want, largest * ROUNDING)?;
    for (i, &bits) in x.iter().enumerate() {
        let step = f64::from(scales[of[i]]);
        if !code_is_nearest(value(bits), step, codes[i]) {
            return Err(format!(
                "code {i}: {} at step {step} for {}",
                codes[i],
                value(bits)
            ));
        }
        let exact = half(f64::from(scales[of[i]] * f32::from(codes[i])));
        if back[i] != exact {
            return Err(format!("back {i}: {} for {}", value(back[i]), value(exact)));
        }
    }
    Ok(())
}

/// Numbers with a few rows of zeros and a few large ones, in runs with gaps: the binary16 side and where it counts.
struct Spread {
    run: usize,
    skip: usize,
    data: Vec<u16>,
}

impl Spread {
    fn draw(draw: &mut Draw, items: usize, len: usize) -> Self {
        let run = draw.within(1, items);
        let skip = run * len + 8 * draw.within(0, 3);
        let mut data = vec![0x7e00; items.div_ceil(run) * skip];
        for i in 0..items {
            let size = draw.one_of(&[0.0, 0.01, 1.0, 1.0, 300.0]);
            let at = start(i, run, skip, len);
            data[at..][..len].copy_from_slice(&draw.halves(len, size));
        }
        Self { run, skip, data }
    }

    /// The same numbers side by side.
    fn dense(&self, data: &[u16], items: usize, len: usize) -> Vec<u16> {
        (0..items)
            .flat_map(|i| data[start(i, self.run, self.skip, len)..][..len].to_vec())
            .collect()
    }
}

fn largest(numbers: impl Iterator<Item = u16>) -> f64 {
    numbers.map(|b| value(b).abs()).fold(0.0, f64::max)
}

pub(super) fn by_token(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let (rows, cols) = (draw.within(1, 40), draw.one_of(&[8, 64, 128, 328]));
    let lanes = draw.one_of(&[8usize, 16, 32]);
    let spread = Spread::draw(draw, rows, cols);
    let (x, q, scale) = (
        Mem::of(&spread.data),
        Mem::unset::<i8>(rows * cols),
        Mem::unset::<f32>(rows),
    );
    let (run, skip, r, c) = (int(spread.run), spread.skip as u64, int(rows), int(cols));
    let form = shape([draw.within(1, 3), 1, 1], draw.one_of(&[32, 64]));
    shim.launch(
        "kv_quant_token",
        form,
        order,
        args![&x, run, skip, r, c, int(lanes), &q, &scale],
    )?;
    let back = Mem::of(&spread.data);
    let form = Shape {
        grid: [draw.within(1, 3), 1, 1],
        block: [draw.within(1, 20), 4, 1],
        shared: 0,
    };
    shim.launch(
        "kv_dequant_token",
        form,
        order,
        args![&q, &scale, r, c, &back, run, skip],
    )?;
    let numbers = spread.dense(&spread.data, rows, cols);
    let most: Vec<f64> = numbers
        .chunks(cols)
        .map(|row| largest(row.iter().copied()))
        .collect();
    let of: Vec<usize> = (0..rows * cols).map(|i| i / cols).collect();
    let back: Vec<u16> = back.read()?;
    gaps_untouched(&spread, &back, rows, cols)?;
    compare(
        &numbers,
        &of,
        &most,
        &q.read()?,
        &scale.read()?,
        &spread.dense(&back, rows, cols),
    )
}

pub(super) fn by_channel(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let (groups, tokens, cols) = (
        draw.within(1, 5),
        draw.one_of(&[1, 16, 32]),
        draw.one_of(&[64, 128]),
    );
    let len = tokens * cols;
    let spread = Spread::draw(draw, groups, len);
    let (x, q, scale) = (
        Mem::of(&spread.data),
        Mem::unset::<i8>(groups * len),
        Mem::unset::<f32>(groups * cols),
    );
    let (run, skip, g, t, c) = (
        int(spread.run),
        spread.skip as u64,
        int(groups),
        int(tokens),
        int(cols),
    );
    let threads = cols / 8 * draw.within(2, 8);
    let form = Shape {
        shared: threads * 32,
        ..shape([draw.within(1, 3), 1, 1], threads)
    };
    shim.launch(
        "kv_quant_channel",
        form,
        order,
        args![&x, run, skip, g, t, c, &q, &scale],
    )?;
    let back = Mem::of(&spread.data);
    shim.launch(
        "kv_dequant_channel",
        form,
        order,
        args![&q, &scale, g, t, c, &back, run, skip],
    )?;
    let numbers = spread.dense(&spread.data, groups, len);
    let channel = |i: usize| {
        numbers[i / cols * len..][..len]
            .iter()
            .skip(i % cols)
            .step_by(cols)
            .copied()
    };
    let most: Vec<f64> = (0..groups * cols).map(|i| largest(channel(i))).collect();
    let of: Vec<usize> = (0..groups * len)
        .map(|i| i / len * cols + i % cols)
        .collect();
    let back: Vec<u16> = back.read()?;
    gaps_untouched(&spread, &back, groups, len)?;
    compare(
        &numbers,
        &of,
        &most,
        &q.read()?,
        &scale.read()?,
        &spread.dense(&back, groups, len),
    )
}

/// What lies between the runs is as it was.
fn gaps_untouched(spread: &Spread, back: &[u16], items: usize, len: usize) -> Result<(), String> {
    let mut want = spread.data.clone();
    for i in 0..items {
        let at = start(i, spread.run, spread.skip, len);
        want[at..][..len].copy_from_slice(&back[at..][..len]);
    }
    same("gaps", back, &want)
}
