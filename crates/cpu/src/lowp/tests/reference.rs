//! Products as naive loops.

use glassformer_tensor::{CodedRow, Coding};

/// The nearest `bf16`, in `f32`, by trying both neighbors.
pub(super) fn rounded(x: f32) -> f32 {
    let below = f32::from_bits(x.to_bits() & 0xffff_0000);
    let above = f32::from_bits((x.to_bits() & 0xffff_0000) + 0x1_0000);
    let (down, up) = ((x - below).abs(), (above - x).abs());
    let even = below.to_bits() & 0x1_0000 == 0;
    if down < up || down == up && even { below } else { above }
}

/// The reference for `bf16`, in `f64`.
pub(super) fn bf16_reference(row: &[f32], column: &[f32], bias: Option<f32>) -> f32 {
    let terms = row.iter().zip(column).map(|(&a, &b)| f64::from(rounded(a)) * f64::from(rounded(b)));
    (terms.sum::<f64>() + f64::from(bias.unwrap_or(0.0))) as f32
}

/// What AMX does, number by number: even and odd steps of a tile apart.
pub(super) fn amx_reference(row: &[f32], column: &[f32], bias: Option<f32>) -> f32 {
    let mut sum = 0.0_f32;
    for (a, b) in row.chunks(32).zip(column.chunks(32)) {
        let of = |parity: usize| {
            let terms = a.iter().zip(b).skip(parity).step_by(2);
            terms.fold(0.0_f32, |sum, (&a, &b)| rounded(a).mul_add(rounded(b), sum))
        };
        sum += of(0) + of(1);
    }
    bias.map_or(sum, |bias| sum + bias)
}

/// The reference for integers, to the bit: a scale for the column, and one for each block of the row.
pub(super) fn int8_reference(row: &[f32], column: &[f32], bias: Option<f32>) -> f32 {
    integers_reference(row, integers(column), bias)
}

/// The same with a column in four bits.
pub(super) fn int4_reference(row: &[f32], column: &[f32], bias: Option<f32>) -> f32 {
    let mut coded = CodedRow::default();
    Coding::INT4.encode(column, &mut coded);
    let integer = |(at, &code): (usize, &u8)| (i64::from(code) - 8) * i64::from(coded.scale_steps[at / 16]);
    integers_reference(row, (coded.codes.iter().enumerate().map(integer).collect(), coded.scales[0]), bias)
}

/// Numbers as integers with one scale.
fn integers(numbers: &[f32]) -> (Vec<i64>, f32) {
    let most = numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
    let integers = numbers.iter().map(|x| (x * inverse).round_ties_even() as i64);
    (integers.collect(), most / 127.0)
}

/// Rows of some lengths are rounded to `bf16` first.
fn integers_reference(row: &[f32], (b, scale_b): (Vec<i64>, f32), bias: Option<f32>) -> f32 {
    let rounds = (2049..=4096).contains(&row.len());
    let row: Vec<f32> = row.iter().map(|&x| if rounds { rounded(x) } else { x }).collect();
    let tiles = row.len().div_ceil(64).max(1);
    let blocks = tiles.div_ceil(16);
    let mut c = bias.unwrap_or(-0.0);
    for block in 0..blocks {
        let start = |block: usize| row.len().min(64 * (tiles * block / blocks));
        let some = start(block)..start(block + 1);
        let (a, scale_a) = integers(&row[some.clone()]);
        let sum: i64 = a.iter().zip(&b[some]).map(|(a, b)| a * b).sum();
        c = (sum as f32).mul_add(scale_a * scale_b, c);
    }
    c
}
