//! Queries, keys and values from rows of numbers to the pairs that tiles hold.

use std::arch::x86_64::*;

use super::{DEPTH, HeadRows, PAGE, PANEL};
use crate::lanes::bf16::{interleave, round_interleaved, round_two};
use crate::lanes::{Avx512, LANES, Lanes};

/// The first `some` lanes, at most sixteen.
fn first(some: usize) -> u16 {
    ((1_u32 << some.min(LANES)) - 1) as u16
}

/// Sixteen numbers of a row of `size` from `d` on, zeros behind its end.
///
/// # Safety
/// The row is valid for reads.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn some(row: *const f32, size: usize, d: usize) -> __m512 {
    // SAFETY: the caller's promise; lanes beyond the row are not read.
    unsafe {
        if d + LANES <= size {
            _mm512_loadu_ps(row.add(d))
        } else {
            _mm512_maskz_loadu_ps(first(size - d.min(size)), row.wrapping_add(d))
        }
    }
}

/// A row of `size` numbers times `scale`, in `pairs` pairs, with zeros behind its end.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; the row is valid for reads, `to` for writes of `pairs`, a multiple of sixteen.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub unsafe fn quantize_row(from: *const f32, size: usize, scale: f32, to: *mut f32, pairs: usize) {
    let scale = _mm512_set1_ps(scale);
    for step in 0..pairs / LANES {
        let d = step * DEPTH;
        // SAFETY: the caller's promise; lanes beyond the row are not read.
        unsafe {
            let [low, high] = [d, d + LANES].map(|d| some(from, size, d));
            let (low, high) = (_mm512_mul_ps(low, scale), _mm512_mul_ps(high, scale));
            _mm512_storeu_si512(to.add(step * LANES).cast(), round_two([low, high]));
        }
    }
}

/// Some rows times `scale`, each in `pairs` pairs, with zeros behind their ends.
///
/// # Safety
/// As for [`quantize_row`], for each.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub unsafe fn quantize_rows(rows: HeadRows, scale: f32, to: *mut f32, pairs: usize) {
    let HeadRows { start, stride, count, size } = rows;
    for row in 0..count {
        // SAFETY: the caller's promise.
        unsafe { quantize_row(start.add(row * stride), size, scale, to.add(row * pairs), pairs) };
    }
}

/// Up to sixteen keys times `scale`, as a page, transposed.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; the keys are valid for reads, the page for writes.
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
pub unsafe fn pack_keys(keys: HeadRows, scale: f32, to: *mut f32) {
    let HeadRows { start, count, size, .. } = keys;
    let mut rounded = [0.0; PAGE * LANES];
    for (step, d) in (0..size).step_by(DEPTH).enumerate() {
        let some = (size - d).min(DEPTH);
        // SAFETY: the caller's promise; a tile of keys is sixteen lines of sixteen pairs.
        unsafe {
            let (pairs, lines) = (rounded.as_mut_ptr(), to.add(step * PAGE * LANES));
            quantize_rows(HeadRows { start: start.add(d), size: some, ..keys }, scale, pairs, LANES);
            Avx512::transpose(pairs, LANES as isize, 0..count, LANES, lines);
        }
    }
}

/// Values times `scale`, as so many pages in one, with zeros behind the last.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; the values are valid for reads, `to` for writes.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub unsafe fn pack_values(values: HeadRows, pages: usize, scale: f32, to: *mut f32) {
    let HeadRows { start, stride, count, size } = values;
    let scale = _mm512_set1_ps(scale);
    for pair in 0..pages * PAGE / 2 {
        for panel in 0..size.div_ceil(LANES) {
            // SAFETY: the caller's promise; rows that are not there are not read.
            unsafe {
                let mut rows = [_mm512_setzero_ps(); 2];
                for (nth, row) in rows.iter_mut().enumerate() {
                    if 2 * pair + nth < count {
                        let row_at = start.add((2 * pair + nth) * stride);
                        *row = _mm512_mul_ps(some(row_at, size, panel * LANES), scale);
                    }
                }
                let to = to.add(panel * pages * PANEL + pair * LANES);
                _mm512_storeu_si512(to.cast(), round_interleaved(rows));
            }
        }
    }
}

/// The same of values that are in low precision, whose stride is in pairs, and whole panels.
///
/// # Safety
/// As for [`pack_values`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub unsafe fn pair_values(values: HeadRows, pages: usize, to: *mut f32) {
    let HeadRows { start, stride, count, size } = values;
    for pair in 0..pages * PAGE / 2 {
        for panel in 0..size / LANES {
            // SAFETY: the caller's promise; rows that are not there are not read.
            unsafe {
                let row = |row: usize| {
                    let at = start.wrapping_add(row * stride + panel * LANES / 2);
                    if row < count { _mm256_loadu_si256(at.cast()) } else { _mm256_setzero_si256() }
                };
                let low = _mm512_castsi256_si512(row(2 * pair));
                let both = _mm512_inserti64x4::<1>(low, row(2 * pair + 1));
                let to = to.add(panel * pages * PANEL + pair * LANES);
                _mm512_storeu_si512(to.cast(), interleave(both));
            }
        }
    }
}

/// Writes `some` numbers as the lower (0) or the upper (1) ones of the pairs of a line.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; the numbers are valid for reads, the line for writes.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub unsafe fn merge(from: *const f32, some: usize, nth: usize, line: *mut f32) {
    let places = 0x5555_5555_u32 << nth;
    // SAFETY: the caller's promise; lanes that are not wanted are neither read nor written.
    unsafe {
        let numbers = _mm512_maskz_loadu_ps(first(some), from);
        _mm512_mask_storeu_epi16(line.cast(), places, round_interleaved([numbers, numbers]));
    }
}
