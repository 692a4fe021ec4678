//! What these kernels need of an instruction set beyond [`Lanes`]: how much its registers hold, and how to transpose a matrix.
#![allow(clippy::inline_always)] // see `crate::lanes`

use std::ops::Range;

#[cfg(target_arch = "aarch64")]
use crate::lanes::Neon;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lanes::{LANES, Lanes, Scalar};

/// Lanes with what attention needs of them.
pub(super) trait Machine: Lanes {
    /// Whether a product keeps four vectors beside each of six rows: 24 sums and what they are made of need the 32
    /// registers of AVX-512. Elsewhere it keeps one, which is two registers a row, or four of NEON's 32.
    const WIDE: bool;

    /// Rows into columns: `to[d · 16 + lane] = from[lane · stride + d]` for d below `size`; zero in all lanes outside
    /// of `lanes`, whose rows are not read.
    ///
    /// # Safety
    /// The machine has the instructions; the rows of `lanes` are valid for `size` reads, `to` for 16 · `size` writes.
    unsafe fn turn(from: *const f32, stride: isize, lanes: Range<usize>, size: usize, to: *mut f32);
}

/// [`Machine::turn`], number by number, for dimensions `from_d..size`.
///
/// # Safety
/// As for [`Machine::turn`].
#[inline(always)]
unsafe fn turn_plain(
    from: *const f32,
    stride: isize,
    (all, lanes): (Range<usize>, &Range<usize>),
    dims: Range<usize>,
    to: *mut f32,
) {
    for lane in all {
        let there = lanes.contains(&lane);
        let row = from.wrapping_offset(lane as isize * stride);
        for d in dims.clone() {
            // SAFETY: the caller's promise, and rows outside of `lanes` are not read.
            unsafe { to.add(d * LANES + lane).write(if there { row.add(d).read() } else { 0.0 }) };
        }
    }
}

impl Machine for Scalar {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn turn(from: *const f32, stride: isize, lanes: Range<usize>, size: usize, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { turn_plain(from, stride, (0..LANES, &lanes), 0..size, to) };
    }
}

#[cfg(target_arch = "aarch64")]
impl Machine for Neon {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn turn(from: *const f32, stride: isize, lanes: Range<usize>, size: usize, to: *mut f32) {
        for quarter in [0..4, 4..8, 8..12, 12..LANES] {
            let whole = lanes.start <= quarter.start && quarter.end <= lanes.end;
            let blocks = if whole { size / 4 } else { 0 };
            for block in 0..blocks {
                let corner = from.wrapping_offset(quarter.start as isize * stride).wrapping_add(block * 4);
                // SAFETY: the caller's promise; four rows, and four of their numbers, are there.
                unsafe { four_by_four(corner, stride, to.add(block * 4 * LANES + quarter.start)) };
            }
            // SAFETY: the caller's promise.
            unsafe { turn_plain(from, stride, (quarter, &lanes), blocks * 4..size, to) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Machine for Avx2 {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn turn(from: *const f32, stride: isize, lanes: Range<usize>, size: usize, to: *mut f32) {
        for half in [0..8, 8..LANES] {
            let whole = lanes.start <= half.start && half.end <= lanes.end;
            let blocks = if whole { size / 8 } else { 0 };
            for block in 0..blocks {
                let corner = from.wrapping_offset(half.start as isize * stride).wrapping_add(block * 8);
                // SAFETY: the caller's promise; eight rows, and eight of their numbers, are there.
                unsafe { eight_by_eight(corner, stride, to.add(block * 8 * LANES + half.start)) };
            }
            // SAFETY: the caller's promise.
            unsafe { turn_plain(from, stride, (half, &lanes), blocks * 8..size, to) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Machine for Avx512 {
    const WIDE: bool = true;

    #[inline(always)]
    unsafe fn turn(from: *const f32, stride: isize, lanes: Range<usize>, size: usize, to: *mut f32) {
        let mut d = 0;
        while d < size {
            let count = (size - d).min(LANES);
            // SAFETY: the caller's promise; `count` numbers of each row and as many columns are there.
            unsafe {
                sixteen_by_sixteen((from.wrapping_add(d), stride, lanes.clone()), count, to.add(d * LANES));
            };
            d += LANES;
        }
    }
}

/// Transposes four rows of four numbers into columns of a `[4, 16]` block.
///
/// # Safety
/// The machine has NEON; the rows are valid for reads and the block for writes.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn four_by_four(from: *const f32, stride: isize, to: *mut f32) {
    use std::arch::aarch64::{
        vld1q_f32, vreinterpretq_f32_f64, vreinterpretq_f64_f32, vst1q_f32, vtrn1q_f32, vtrn1q_f64,
        vtrn2q_f32, vtrn2q_f64,
    };
    // SAFETY: the caller's promise.
    unsafe {
        let row = |r: isize| vld1q_f32(from.offset(r * stride));
        // Even and odd columns of pairs of rows, then the pairs.
        let pairs = |r: isize| {
            let (x, y) = (row(r), row(r + 1));
            [vreinterpretq_f64_f32(vtrn1q_f32(x, y)), vreinterpretq_f64_f32(vtrn2q_f32(x, y))]
        };
        let (above, below) = (pairs(0), pairs(2));
        for odd in 0..2 {
            let low = vreinterpretq_f32_f64(vtrn1q_f64(above[odd], below[odd]));
            let high = vreinterpretq_f32_f64(vtrn2q_f64(above[odd], below[odd]));
            vst1q_f32(to.add(odd * LANES), low);
            vst1q_f32(to.add((odd + 2) * LANES), high);
        }
    }
}

/// Transposes eight rows of eight numbers into columns of a `[8, 16]` block.
///
/// # Safety
/// The machine has AVX2; the rows are valid for reads and the block for writes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn eight_by_eight(from: *const f32, stride: isize, to: *mut f32) {
    use std::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };
    // SAFETY: the caller's promise.
    unsafe {
        let mut x = [_mm256_setzero_ps(); 8];
        for (r, row) in x.iter_mut().enumerate() {
            *row = _mm256_loadu_ps(from.offset(r as isize * stride));
        }
        // Pairs of rows, then fours of rows, inside halves of registers; then the halves.
        let mut y = x;
        for r in 0..4 {
            y[2 * r] = _mm256_unpacklo_ps(x[2 * r], x[2 * r + 1]);
            y[2 * r + 1] = _mm256_unpackhi_ps(x[2 * r], x[2 * r + 1]);
        }
        for r in [0, 4] {
            x[r] = _mm256_shuffle_ps::<0x44>(y[r], y[r + 2]);
            x[r + 1] = _mm256_shuffle_ps::<0xEE>(y[r], y[r + 2]);
            x[r + 2] = _mm256_shuffle_ps::<0x44>(y[r + 1], y[r + 3]);
            x[r + 3] = _mm256_shuffle_ps::<0xEE>(y[r + 1], y[r + 3]);
        }
        for d in 0..4 {
            _mm256_storeu_ps(to.add(d * LANES), _mm256_permute2f128_ps::<0x20>(x[d], x[d + 4]));
            _mm256_storeu_ps(to.add((d + 4) * LANES), _mm256_permute2f128_ps::<0x31>(x[d], x[d + 4]));
        }
    }
}

/// Transposes sixteen rows, those outside of the given lanes taken as zeros, of `count ≤ 16` numbers into `[count, 16]`.
///
/// # Safety
/// The machine has AVX-512; the rows are valid for `count` reads, `to` for 16 · `count` writes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn sixteen_by_sixteen(
    (from, stride, lanes): (*const f32, isize, Range<usize>),
    count: usize,
    to: *mut f32,
) {
    use std::arch::x86_64::{
        _mm512_castpd_ps, _mm512_castps_pd, _mm512_maskz_loadu_ps, _mm512_setzero_ps, _mm512_shuffle_f32x4,
        _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
    };
    // SAFETY: the caller's promise; numbers beyond `count` are masked, rows outside of `lanes` left alone.
    unsafe {
        let mask = ((1_u32 << count) - 1) as u16;
        let mut x = [_mm512_setzero_ps(); LANES];
        for (r, row) in x.iter_mut().enumerate() {
            if lanes.contains(&r) {
                *row = _mm512_maskz_loadu_ps(mask, from.offset(r as isize * stride));
            }
        }
        // Pairs of rows, then fours of rows, inside quarters of registers.
        let mut y = x;
        for r in 0..8 {
            y[2 * r] = _mm512_unpacklo_ps(x[2 * r], x[2 * r + 1]);
            y[2 * r + 1] = _mm512_unpackhi_ps(x[2 * r], x[2 * r + 1]);
        }
        for r in [0, 4, 8, 12] {
            for side in 0..2 {
                let (low, high) = (_mm512_castps_pd(y[r + side]), _mm512_castps_pd(y[r + 2 + side]));
                x[r + 2 * side] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
                x[r + 2 * side + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
            }
        }
        // x[4 · quad + c] now holds, in its quarter q, column 4q + c of rows 4 · quad to 4 · quad + 3: transpose quarters.
        for c in 0..4 {
            let low = _mm512_shuffle_f32x4::<0x44>(x[c], x[4 + c]);
            let low_next = _mm512_shuffle_f32x4::<0x44>(x[8 + c], x[12 + c]);
            let high = _mm512_shuffle_f32x4::<0xEE>(x[c], x[4 + c]);
            let high_next = _mm512_shuffle_f32x4::<0xEE>(x[8 + c], x[12 + c]);
            y[c] = _mm512_shuffle_f32x4::<0x88>(low, low_next);
            y[4 + c] = _mm512_shuffle_f32x4::<0xDD>(low, low_next);
            y[8 + c] = _mm512_shuffle_f32x4::<0x88>(high, high_next);
            y[12 + c] = _mm512_shuffle_f32x4::<0xDD>(high, high_next);
        }
        for (d, column) in y.into_iter().enumerate().take(count) {
            _mm512_storeu_ps(to.add(d * LANES), column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch;
    use crate::isa::Isa;

    #[test]
    fn transposing_moves_every_number_and_reads_no_row_outside() {
        for isa in Isa::available() {
            for (size, stride) in [(1, 3), (5, 5), (8, 11), (16, 16), (24, 30), (35, 40), (64, 64)] {
                for lanes in [0..16, 0..8, 3..16, 0..1, 5..5] {
                    let from: Vec<f32> = (0..stride * LANES).map(|x| x as f32 + 1.0).collect();
                    let mut to = vec![f32::NAN; size * LANES];
                    let (source, target) = (from.as_ptr(), to.as_mut_ptr());
                    // SAFETY: sixteen rows of `stride ≥ size` numbers, and room for as many columns.
                    unsafe {
                        dispatch!(isa, |L| L::turn(source, stride as isize, lanes.clone(), size, target));
                    };
                    for (at, &x) in to.iter().enumerate() {
                        let (d, lane) = (at / LANES, at % LANES);
                        let expected = if lanes.contains(&lane) { from[lane * stride + d] } else { 0.0 };
                        assert_eq!(x, expected, "{isa}, size {size}, lanes {lanes:?}, d {d}, lane {lane}");
                    }
                }
            }
        }
    }
}
