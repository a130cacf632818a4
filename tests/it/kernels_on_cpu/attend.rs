//! Attention over two lists of pages, its merge and its scores against loops in binary64.
//!
//! Slack: weights are rounded to binary16 before they meet V (2^-11 relative, and they sum to 1), logits are binary32 sums.

use super::attend_case::{Case, Got, List, Row, log_sum_exp};
use super::numbers::{Draw, half, int, near};
use super::shim::{Mem, Shim, args, shape};

/// Attention, merge and scores as the step runs them.
pub(super) fn attend(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let case = Case::draw(draw, 90);
    compare(&case, shim, draw, order)
}

/// No tokens at all: no output, no log-sum-exp, no scores.
pub(super) fn nothing(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let case = Case::draw(draw, 0);
    compare(&case, shim, draw, order)
}

fn compare(case: &Case, shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let stride = 200;
    let before: Vec<f32> = (0..case.sequences() * stride)
        .map(|_| draw.unit().abs() as f32)
        .collect();
    let mut score: Vec<f64> = before.iter().map(|s| f64::from(*s)).collect();
    let got = case.launch(shim, order, &Mem::of(&before), stride)?;
    for seq in 0..case.sequences() {
        for head in 0..case.heads() {
            let row = case.plain(seq, head);
            compare_row(case, &got, seq, head, &row)?;
            add_mass(case, &mut score[seq * stride..], seq, &row);
        }
    }
    near("score", &got.score, &score, 2.0 * case.logit_slack())
}

fn compare_row(case: &Case, got: &Got, seq: usize, head: usize, row: &Row) -> Result<(), String> {
    let (at, slack) = (seq * case.heads() + head, case.logit_slack());
    let name = |what| format!("{what} of sequence {seq}, head {head}");
    near(
        &name("output"),
        &got.out[at * case.d..][..case.d],
        &row.out,
        5e-4 + 2.0 * slack,
    )?;
    near(&name("log-sum-exp"), &got.lse[at..=at], &[row.lse], slack)?;
    let mine = &got.logits[at * case.logit_stride()..][..case.logit_stride()];
    let stored: Vec<f32> = (0..2)
        .flat_map(|l| (0..case.lists[l].tokens[seq]).map(move |slot| (l, slot)))
        .map(|(l, slot)| mine[case.logit_at(seq, l, slot)])
        .collect();
    near(&name("logit"), &stored, &row.logits, slack)
}

/// Adds the row's weights, divided by the number of heads, to its positions.
fn add_mass(case: &Case, score: &mut [f64], seq: usize, row: &Row) {
    let positions = case.lists.iter().flat_map(|l| {
        let from = seq * l.stride * case.page_tokens;
        l.positions[from..from + l.tokens[seq]].iter()
    });
    for (position, logit) in positions.zip(&row.logits) {
        score[*position as usize] += (logit - row.lse).exp() / case.heads() as f64;
    }
}

/// Any partial results, some that say nothing and hold NaN.
pub(super) fn merge(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let (d, heads, sequences) = (
        draw.one_of(&[64, 128]),
        draw.within(1, 3),
        draw.within(1, 2),
    );
    let (parts, rows) = (draw.within(1, 9), heads * sequences);
    let silent = |draw: &mut Draw| draw.within(0, 2) == 0;
    let lse: Vec<f32> = (0..rows * parts)
        .map(|_| {
            if silent(draw) {
                f32::NEG_INFINITY
            } else {
                (draw.unit() * 8.0) as f32
            }
        })
        .collect();
    let number = |i: usize, draw: &mut Draw| {
        if lse[i / d].is_finite() {
            draw.unit() as f32
        } else {
            f32::NAN
        }
    };
    let part: Vec<f32> = (0..rows * parts * d).map(|i| number(i, draw)).collect();
    let (part_mem, lse_mem) = (Mem::of(&part), Mem::of(&lse));
    let (out, joint) = (Mem::unset::<f32>(rows * d), Mem::unset::<f32>(rows));
    let list = args![&part_mem, &lse_mem, int(parts), &out, &joint];
    shim.launch("kv_merge", shape([heads, sequences, 1], d), order, list)?;
    let (out, joint): (Vec<f32>, Vec<f32>) = (out.read()?, joint.read()?);
    for row in 0..rows {
        let mine: Vec<f64> = lse[row * parts..][..parts]
            .iter()
            .map(|l| f64::from(*l))
            .collect();
        let whole = log_sum_exp(&mine);
        let loud = || (0..parts).filter(|p| mine[*p].is_finite());
        let at = |p: usize, i: usize| f64::from(part[(row * parts + p) * d + i]);
        let mean = |i| loud().map(|p| (mine[p] - whole).exp() * at(p, i)).sum();
        near(
            "merged",
            &out[row * d..][..d],
            &(0..d).map(mean).collect::<Vec<_>>(),
            1e-5,
        )?;
        near("log-sum-exp", &joint[row..=row], &[whole], 1e-5)?;
    }
    Ok(())
}

/// Any logits: what lies in the gap between the lists is not looked at.
pub(super) fn score(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let (heads, sequences, room) = (draw.within(1, 5), draw.within(1, 3), 70);
    let stride = 2 * room + 20;
    let mut count = || {
        (0..sequences)
            .map(|_| draw.within(0, room))
            .collect::<Vec<_>>()
    };
    let (res, pre) = (count(), count());
    let logits: Vec<f32> = (0..sequences * heads * stride)
        .map(|_| (draw.unit() * 5.0) as f32)
        .collect();
    let lse: Vec<f32> = (0..sequences * heads)
        .map(|_| (5.0 + draw.unit()) as f32)
        .collect();
    let positions: Vec<Vec<i32>> = (0..sequences)
        .map(|_| draw.distinct(2 * room, 2 * room))
        .collect();
    let half_of = |from: usize| {
        positions
            .iter()
            .flat_map(|p| p[from..from + room].to_vec())
            .collect::<Vec<i32>>()
    };
    let ints = |n: &[usize]| Mem::of(&n.iter().map(|n| int(*n)).collect::<Vec<_>>());
    let (res_at, pre_at) = (Mem::of(&half_of(0)), Mem::of(&half_of(room)));
    let (res_n, pre_n, score) = (
        ints(&res),
        ints(&pre),
        Mem::of(&vec![0.5f32; sequences * 2 * room]),
    );
    let (l, z, weight) = (Mem::of(&logits), Mem::of(&lse), 0.25f32);
    let list = args![
        &l,
        int(stride),
        &z,
        int(heads),
        weight,
        &res_at,
        &res_n,
        int(room),
        &pre_at,
        &pre_n,
        int(room),
        &score,
        int(2 * room)
    ];
    shim.launch(
        "kv_score",
        shape([draw.within(1, 3), sequences, 1], draw.one_of(&[32, 100])),
        order,
        list,
    )?;
    let mut want = vec![0.5; sequences * 2 * room];
    for seq in 0..sequences {
        let padded = res[seq].div_ceil(16) * 16;
        let slots = (0..res[seq])
            .map(|i| (i, i))
            .chain((0..pre[seq]).map(|i| (padded + i, room + i)));
        for (at, place) in slots {
            let weight = |h| {
                (f64::from(logits[(seq * heads + h) * stride + at])
                    - f64::from(lse[seq * heads + h]))
                .exp()
            };
            let mass: f64 = (0..heads).map(weight).sum();
            want[seq * 2 * room + positions[seq][place] as usize] += 0.25 * mass;
        }
    }
    near("score", &score.read()?, &want, 1e-5)
}

/// The shim's matrix step rounds nothing: whole numbers come out whole, in the right place.
#[test]
fn whole_numbers_attend_exactly() {
    let Some(shim) = Shim::whole() else {
        skip!("no C++ compiler")
    };
    // One token: its weight is 1 whatever its key, so the output is its V to the bit.
    let mut case = Case::draw(&mut Draw(3), 1);
    let row = [case.kv_heads, case.page_tokens, case.d];
    case.lists = [
        List::draw(&mut Draw(1), vec![1], &[vec![4]], row),
        List::draw(&mut Draw(2), vec![0], &[vec![]], row),
    ];
    case.q = vec![half(1.0); case.heads() * case.d];
    let got = case.launch(shim, 0, &Mem::of(&[0f32; 200]), 200).unwrap();
    for head in 0..case.heads() {
        let v = &case.rows(0, head / case.group, 1)[0];
        assert!(
            got.out[head * case.d..][..case.d]
                .iter()
                .zip(v)
                .all(|(o, v)| f64::from(*o).to_bits() == v.to_bits())
        );
    }
}
