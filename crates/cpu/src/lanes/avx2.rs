//! Sixteen lanes in two AVX2 registers.
//!
//! Every `unsafe` block below rests on one fact: a value of [`Avx2`] comes from an `unsafe` function whose caller
//! promised the instructions, so whoever holds one may use them.

use super::registers::{by_registers, operators};
use super::transpose::plain;
use super::{LANES, Lanes};
use crate::isa::Isa;
use std::arch::x86_64::*;
use std::ops::Range;

/// Sixteen lanes in two registers: 0 to 7, and 8 to 15.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(__m256, __m256);

/// Eight integers of all ones, then eight zeros: a window into it masks the first `n` of eight lanes.
static WINDOW: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// The first `n` of eight lanes.
///
/// # Safety
/// The machine has AVX; `n ≤ 8`.
#[inline(always)]
unsafe fn first(n: usize) -> __m256i {
    // SAFETY: `8 − n` is at most 8, and eight integers follow it.
    unsafe { _mm256_loadu_si256(WINDOW.as_ptr().add(8 - n).cast()) }
}

/// Eight lanes added: 4 + 4, 2 + 2, 1 + 1.
///
/// # Safety
/// The machine has AVX.
#[inline(always)]
pub(super) unsafe fn sum(x: __m256) -> f32 {
    // SAFETY: the caller promises AVX, which includes SSE.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// The largest of eight lanes.
///
/// # Safety
/// The machine has AVX.
#[inline(always)]
pub(super) unsafe fn largest(x: __m256) -> f32 {
    // SAFETY: the caller promises AVX, which includes SSE.
    unsafe {
        let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// Eight rows of eight columns, column by column: pairs of rows, then fours, within each half of a register; then the halves.
///
/// # Safety
/// The machine has AVX.
#[inline(always)]
unsafe fn transposed_eight(rows: [__m256; 8]) -> [__m256; 8] {
    let (mut pairs, mut fours, mut eights) = (rows, rows, rows);
    // SAFETY: the caller promises AVX.
    unsafe {
        for i in [0, 2, 4, 6] {
            pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
            pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
        }
        // Column c of each half: rows 0 to 3 in `fours[c]`, rows 4 to 7 in `fours[4 + c]`.
        for i in [0, 4] {
            for half in [0, 1] {
                let (upper, lower) = (pairs[i + half], pairs[i + half + 2]);
                fours[i + 2 * half] = _mm256_shuffle_ps::<0x44>(upper, lower);
                fours[i + 2 * half + 1] = _mm256_shuffle_ps::<0xEE>(upper, lower);
            }
        }
        for c in 0..4 {
            eights[c] = _mm256_permute2f128_ps::<0x20>(fours[c], fours[4 + c]);
            eights[4 + c] = _mm256_permute2f128_ps::<0x31>(fours[c], fours[4 + c]);
        }
    }
    eights
}

/// Transposes eight rows of eight numbers into columns of a `[8, 16]` block.
///
/// # Safety
/// The machine has AVX2; the rows are valid for reads and the block for writes.
#[inline(always)]
unsafe fn eight_by_eight(from: *const f32, stride: isize, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut rows = [_mm256_setzero_ps(); 8];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = _mm256_loadu_ps(from.offset(r as isize * stride));
        }
        for (d, column) in transposed_eight(rows).into_iter().enumerate() {
            _mm256_storeu_ps(to.add(d * LANES), column);
        }
    }
}

operators! {
    Avx2: [0 1];
    add: _mm256_add_ps; sub: _mm256_sub_ps; mul: _mm256_mul_ps; div: _mm256_div_ps;
    neg: |x| _mm256_xor_ps(x, _mm256_set1_ps(-0.0));
}

impl Lanes for Avx2 {
    const ISA: Isa = Isa::Avx2;

    type Mask = [__m256; 2];

    by_registers! {
        [0 1]; 8 numbers in each;
        splat: |value| _mm256_set1_ps(value);
        load: |from| _mm256_loadu_ps(from);
        store: |x, to| _mm256_storeu_ps(to, x);
        fma: |x, factor, term| _mm256_fmadd_ps(x, factor, term);
        max: |x, y| _mm256_max_ps(x, y);
        min: |x, y| _mm256_min_ps(x, y);
        abs: |x| _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
        round: |x| _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
        less_than: |x, y| _mm256_cmp_ps::<_CMP_LT_OQ>(x, y);
        select: |mask, yes, no| _mm256_blendv_ps(no, yes, mask);
        power: |n| {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        };
        mantissa: |x| {
            let fraction = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x007F_FFFF));
            _mm256_castsi256_ps(_mm256_or_si256(fraction, _mm256_set1_epi32(0x3F80_0000)))
        };
        exponent: |x| {
            let biased = _mm256_srli_epi32::<23>(_mm256_castps_si256(x));
            _mm256_cvtepi32_ps(_mm256_sub_epi32(biased, _mm256_set1_epi32(127)))
        };
        lower: |x| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_castps_si256(x)));
        upper: |x| _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0xFFFF_0000_u32.cast_signed())));
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, n: usize) -> Self {
        // SAFETY: the caller promises the instructions and `n` reads; masked lanes are not read, and the second
        // address, which may lie past the end, is computed without claiming that it is inside.
        unsafe {
            Self(
                _mm256_maskload_ps(from, first(n.min(8))),
                _mm256_maskload_ps(from.wrapping_add(8), first(n.saturating_sub(8))),
            )
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, n: usize) {
        // SAFETY: as for `load_first`, for writes.
        unsafe {
            _mm256_maskstore_ps(to, first(n.min(8)), self.0);
            _mm256_maskstore_ps(to.wrapping_add(8), first(n.saturating_sub(8)), self.1);
        }
    }

    #[inline(always)]
    fn transpose_eight(rows: [Self; 8]) -> [Self; 8] {
        let mut parts = [[rows[0].0; 8]; 2];
        for i in 0..8 {
            parts[0][i] = rows[i].0;
            parts[1][i] = rows[i].1;
        }
        let mut transposed = rows;
        for (i, part) in parts.into_iter().enumerate() {
            // SAFETY: the values prove the instructions.
            let columns = unsafe { transposed_eight(part) };
            for j in 0..4 {
                transposed[4 * i + j] = Self(columns[2 * j], columns[2 * j + 1]);
            }
        }
        transposed
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, stride: isize, lanes: Range<usize>, size: usize, to: *mut f32) {
        for half in [0..8, 8..LANES] {
            let whole = lanes.start <= half.start && half.end <= lanes.end;
            let blocks = if whole { size / 8 } else { 0 };
            for block in 0..blocks {
                let corner = from.wrapping_offset(half.start as isize * stride).wrapping_add(block * 8);
                // SAFETY: the caller's promise; eight rows, and eight of their numbers, are there.
                unsafe { eight_by_eight(corner, stride, to.add(block * 8 * LANES + half.start)) };
            }
            // SAFETY: the caller's promise.
            unsafe { plain(from, stride, half, &lanes, blocks * 8..size, to) };
        }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: the value proves the instructions.
        unsafe { sum(_mm256_add_ps(self.0, self.1)) }
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        // SAFETY: the value proves the instructions.
        unsafe { largest(_mm256_max_ps(self.0, self.1)) }
    }
}
