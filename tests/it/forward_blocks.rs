//! Each block format against blocks written out by hand.

use kvplan::simd::dense::{Dense, Format};

/// Widened on every path; they agree.
fn widened<const N: usize>(format: Format, bytes: &[u8]) -> [f32; N] {
    let all = Dense::available().into_iter().map(|d| {
        let mut out = [0.0; N];
        d.widen(format, bytes, &mut out);
        out
    });
    all.reduce(|a, b| {
        assert_eq!(a.map(f32::to_bits), b.map(f32::to_bits));
        b
    })
    .unwrap()
}

fn same(got: &[f32], expected: &[f32]) {
    let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(got), bits(expected), "{got:?}\n{expected:?}");
}

/// 0.5 and 0.25 and -1.5 in binary16.
const HALF: [u8; 2] = [0x00, 0x38];
const QUARTER: [u8; 2] = [0x00, 0x34];
const MINUS: [u8; 2] = [0x00, 0xBE];

#[test]
fn plain_numbers() {
    // binary16: 1, -2, 2^-24 (smallest subnormal), 65504 (largest), then zeros.
    let mut bytes = vec![0x00, 0x3C, 0x00, 0xC0, 0x01, 0x00, 0xFF, 0x7B];
    bytes.resize(32, 0);
    let mut expected = [0.0; 16];
    expected[..4].copy_from_slice(&[1.0, -2.0, 1.0 / 16_777_216.0, 65504.0]);
    same(&widened::<16>(Format::F16, &bytes), &expected);
    // bfloat16 is the upper half of binary32: 1 = 3F80, -2.5 = C020, 2^-126 = 0080.
    let mut bytes = vec![0x80, 0x3F, 0x20, 0xC0, 0x80, 0x00];
    bytes.resize(32, 0);
    expected[..4].copy_from_slice(&[1.0, -2.5, f32::MIN_POSITIVE, 0.0]);
    same(&widened::<16>(Format::Bf16, &bytes), &expected);
    let bytes: Vec<u8> = [1.25f32; 16].iter().flat_map(|x| x.to_le_bytes()).collect();
    same(&widened::<16>(Format::F32, &bytes), &[1.25; 16]);
}

/// Bytes 0x10, 0x32, ... : low nibbles 0, 2, 4, .. 14 and again, high nibbles 1, 3, .. 15 and again.
fn ladder() -> Vec<u8> {
    let steps = [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE];
    [steps, steps].concat()
}

/// Quants of a ladder: sixteen low nibbles, then sixteen high ones.
const LADDER: [f32; 32] = [
    0., 2., 4., 6., 8., 10., 12., 14., 0., 2., 4., 6., 8., 10., 12., 14., //
    1., 3., 5., 7., 9., 11., 13., 15., 1., 3., 5., 7., 9., 11., 13., 15.,
];

#[test]
fn four_bits() {
    // Q4_0: (q - 8) / 2. First: -4, -3, ..., last: (15 - 8) / 2 = 3.5.
    let got = widened::<32>(Format::Q4_0, &[&HALF[..], &ladder()].concat());
    same(&got, &LADDER.map(|q| (q - 8.0) / 2.0));
    assert_eq!(
        [got[0], got[7], got[31]].map(f32::to_bits),
        [-4.0f32, 3.0, 3.5].map(f32::to_bits)
    );
    // Q4_1: q / 2 - 1.5.
    let got = widened::<32>(Format::Q4_1, &[&HALF[..], &MINUS, &ladder()].concat());
    same(&got, &LADDER.map(|q| q / 2.0 - 1.5));
    assert_eq!(
        [got[0], got[7], got[31]].map(f32::to_bits),
        [-1.5f32, 5.5, 6.0].map(f32::to_bits)
    );
}

#[test]
fn five_bits() {
    // The fifth bit of numbers 0, 9, 16 and 31 is set: bits 0 and 1 of bytes 0 and 1, bit 0 of byte 2, bit 7 of byte 3.
    let fifth = [0x01, 0x02, 0x01, 0x80];
    let mut quants = LADDER;
    for at in [0, 9, 16, 31] {
        quants[at] += 16.0;
    }
    let got = widened::<32>(Format::Q5_0, &[&HALF[..], &fifth, &ladder()].concat());
    same(&got, &quants.map(|q| (q - 16.0) / 2.0));
    // 16 - 16 = 0; (31 - 16) / 2 = 7.5.
    assert_eq!(
        [got[0], got[31]].map(f32::to_bits),
        [0.0f32, 7.5].map(f32::to_bits)
    );
    let got = widened::<32>(
        Format::Q5_1,
        &[&HALF[..], &MINUS, &fifth, &ladder()].concat(),
    );
    same(&got, &quants.map(|q| q / 2.0 - 1.5));
    assert_eq!(
        [got[0], got[31]].map(f32::to_bits),
        [6.5f32, 14.0].map(f32::to_bits)
    );
}

#[test]
fn eight_bits() {
    let mut bytes = QUARTER.to_vec();
    bytes.extend((0..32u8).map(|i| i.wrapping_mul(8).wrapping_add(128))); // -128, -120, ..., 120
    let got = widened::<32>(Format::Q8_0, &bytes);
    let expected: Vec<f32> = (0..32u8).map(|i| -32.0 + 2.0 * f32::from(i)).collect();
    same(&got, &expected);
}

/// Scales 1, 2, 3, 4, 17, 34, 51, 20 and minima 5, 6, 7, 8, 18, 35, 52, 21 in six bits each. Bytes 0-3: scales 0-3 with
/// the upper two bits of scales 4-7 (1, 2, 3, 1) on top: 1+64, 2+128, 3+192, 4+64. Bytes 4-7: minima alike: 5+64, 6+128,
/// 7+192, 8+64. Bytes 8-11: lower four bits of scales 4-7 (1, 2, 3, 4) and above them of minima 4-7 (2, 3, 4, 5).
const PACKED: [u8; 12] = [65, 130, 195, 68, 69, 134, 199, 72, 0x21, 0x32, 0x43, 0x54];
const SCALES: [f32; 8] = [1., 2., 3., 4., 17., 34., 51., 20.];
const MINIMA: [f32; 8] = [5., 6., 7., 8., 18., 35., 52., 21.];

#[test]
fn four_bits_in_256() {
    // Quants: groups 0, 2, 4, 6 are low nibbles (all 3), groups 1, 3, 5, 7 high ones (all 12).
    let bytes = [&HALF[..], &QUARTER, &PACKED, &[0xC3; 128]].concat();
    let got = widened::<256>(Format::Q4K, &bytes);
    for (j, group) in got.chunks(32).enumerate() {
        let quant = if j % 2 == 0 { 3.0 } else { 12.0 };
        same(group, &[0.5 * SCALES[j] * quant - 0.25 * MINIMA[j]; 32]);
    }
    // Group 0: 0.5*1*3 - 0.25*5 = 0.25. Group 5: 0.5*34*12 - 0.25*35 = 195.25. Group 7: 0.5*20*12 - 0.25*21 = 114.75.
    same(&[got[0], got[160], got[255]], &[0.25, 195.25, 114.75]);
}

#[test]
fn five_bits_in_256() {
    // The fifth bit of group j is bit j of the 32 bytes: 0x21 sets it for groups 0 and 5, only in byte 1.
    let mut fifth = [0u8; 32];
    fifth[1] = 0x21;
    let bytes = [&HALF[..], &QUARTER, &PACKED, &fifth, &[0xC3; 128]].concat();
    let got = widened::<256>(Format::Q5K, &bytes);
    // Without: as Q4_K. With: group 0, number 1: 0.5*1*(3+16) - 1.25 = 8.25; group 5: 0.5*34*(12+16) - 8.75 = 467.25.
    same(
        &[got[0], got[1], got[160], got[161]],
        &[0.25, 8.25, 195.25, 467.25],
    );
    same(&[got[33], got[255]], &[0.5 * 2.0 * 12.0 - 1.5, 114.75]);
}

#[test]
fn six_bits_in_256() {
    let mut bytes = vec![0u8; 210];
    // Low four bits: first half 0x95, second half 0x00.
    bytes[..64].fill(0x95);
    // Upper two bits: of the first half's bytes 0b11_10_01_00: quarters 0, 1, 2, 3 get 0, 1, 2, 3; the second half none.
    bytes[128..160].fill(0xE4);
    // Scales of 16 numbers each: 1, 2, ..., 8 for the first half, -1, ..., -8 for the second.
    for i in 0..8u8 {
        bytes[192 + usize::from(i)] = i + 1;
        bytes[200 + usize::from(i)] = (i + 1).wrapping_neg();
    }
    bytes[208..].copy_from_slice(&HALF);
    let got = widened::<256>(Format::Q6K, &bytes);
    // First half, quarter 0: low nibble 5, upper 0: 5 - 32 = -27, scales 1 and 2. Quarter 1: 5+16-32 = -11, scales 3, 4.
    // Quarter 2: high nibble 9 + 32 - 32 = 9, scales 5, 6. Quarter 3: 9 + 48 - 32 = 25, scales 7, 8. All times 0.5.
    let first = [-13.5, -27.0, -16.5, -22.0, 22.5, 27.0, 87.5, 100.0];
    // Second half: 0 - 32 = -32, scales -1 to -8, times 0.5: 16, 32, ..., 128.
    let second = [16.0, 32.0, 48.0, 64.0, 80.0, 96.0, 112.0, 128.0];
    for (group, expected) in got.chunks(16).zip(first.iter().chain(&second)) {
        same(group, &[*expected; 16]);
    }
}
