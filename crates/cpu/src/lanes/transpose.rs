//! Rows of memory into columns: see [`Lanes::transpose`](super::Lanes::transpose).

use std::ops::Range;

use super::LANES;

/// [`Lanes::transpose`](super::Lanes::transpose), number by number: these dimensions of the rows `all`,
/// of which those outside of `lanes` are taken as zeros.
///
/// # Safety
/// As for [`Lanes::transpose`](super::Lanes::transpose).
#[inline(always)]
pub(super) unsafe fn plain(
    from: *const f32,
    stride: isize,
    all: Range<usize>,
    lanes: &Range<usize>,
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

/// Transposes four rows of four numbers into columns of a `[4, 16]` block.
///
/// # Safety
/// The machine has NEON; the rows are valid for reads and the block for writes.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(super) unsafe fn four_by_four(from: *const f32, stride: isize, to: *mut f32) {
    use std::arch::aarch64::*;
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

/// Transposes sixteen rows, those outside of the given lanes taken as zeros, of `count ≤ 16` numbers into `[count, 16]`.
///
/// # Safety
/// The machine has AVX-512; the rows are valid for `count` reads, `to` for 16 · `count` writes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn sixteen_by_sixteen(
    from: *const f32,
    stride: isize,
    lanes: Range<usize>,
    count: usize,
    to: *mut f32,
) {
    use std::arch::x86_64::*;
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
