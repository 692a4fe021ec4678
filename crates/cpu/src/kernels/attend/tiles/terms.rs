//! From scores to terms: the online softmax of `online_softmax.rs` where terms are rounded to eight bits.

use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::super::super::online_softmax::{LEAST, POWER, SLACK};
use super::{BLOCK, Gathered, ScoredBlock, TERMS, TILE, TILES, VECTORS};
use crate::lanes::bf16::round_two;
use crate::lanes::{Avx512, LANES, Lanes, exp};

/// From scores to terms of the softmax, exp(score − level), in pairs of `bf16`; zero where a row sees nothing. Terms are added to the sums, lane
/// by lane.
///
/// A level keeps terms from being too large for a float, or all of them too small, and need not be near the largest score. So rows
/// begin at level 0, which costs nothing, and are looked through for another one only where their sums ask for it.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; there are scores of all rows and vectors that are seen, and room for as many terms.
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
pub unsafe fn online_softmax(block: &ScoredBlock<'_>, gathered: &mut Gathered<'_>, terms: *mut f32) {
    for row in 0..block.rows.len() {
        // SAFETY: the caller's promise.
        unsafe {
            let scores = block.scores.as_ptr().add(row * TILE);
            let to = terms.add(row * TERMS);
            let sums = gathered.sums[row * LANES..][..LANES].as_mut_ptr();
            let before = if gathered.is_empty { _mm512_setzero_ps() } else { _mm512_loadu_ps(sums) };
            let level = gathered.levels[row];
            if level == 0.0 || level == f32::NEG_INFINITY {
                let sum = terms_of_row(scores, &block.seen, to, before, |score| at_level_zero(score));
                if is_sound(sum) {
                    gathered.levels[row] = 0.0;
                    _mm512_storeu_ps(sums, sum);
                    continue;
                }
            }
            _mm512_storeu_ps(sums, before);
            let largest = largest(scores, &block.seen);
            if largest - (level + SLACK) > 0.0 {
                raise(gathered, row, largest);
            }
            // Where a row sees nothing, zeros are written already.
            let level = gathered.levels[row];
            if level != f32::NEG_INFINITY {
                let before = _mm512_loadu_ps(sums);
                let sum = terms_of_row(scores, &block.seen, to, before, |score| exponential(score, level));
                _mm512_storeu_ps(sums, sum);
            }
        }
    }
}

/// Writes the terms of a row, in pairs, and adds them to the sum.
///
/// # Safety
/// As for [`online_softmax`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn terms_of_row(
    scores: *const f32,
    seen: &Range<usize>,
    to: *mut f32,
    mut sum: __m512,
    term: impl Fn(__m512) -> __m512,
) -> __m512 {
    let mut v = seen.start & !1;
    while v < seen.end {
        // SAFETY: the caller's promise. Two neighbors stand side by side.
        unsafe {
            let from = scores.add(place(v));
            let mut pair = [_mm512_setzero_ps(); 2];
            for (half, pair) in pair.iter_mut().enumerate() {
                if seen.contains(&(v + half)) {
                    *pair = term(_mm512_loadu_ps(from.add(half * LANES)));
                    sum = _mm512_add_ps(sum, *pair);
                }
            }
            _mm512_storeu_si512(to.add(v * LANES / 2).cast(), round_two(pair));
        }
        v += 2;
    }
    sum
}

/// Whether no term was too large for a float, and they are not all too small.
#[inline]
#[target_feature(enable = "avx512f")]
fn is_sound(sum: __m512) -> bool {
    const MOST: f32 = 1e30;
    _mm512_cmp_ps_mask::<_CMP_LT_OQ>(sum, _mm512_set1_ps(MOST)) == 0xffff
        && _mm512_cmp_ps_mask::<_CMP_GT_OQ>(sum, _mm512_set1_ps(1.0 / MOST)) != 0
}

/// The largest score of a row. What is no number is passed over.
///
/// # Safety
/// As for [`online_softmax`].
#[target_feature(enable = "avx512f")]
unsafe fn largest(scores: *const f32, seen: &Range<usize>) -> f32 {
    let mut largest = _mm512_set1_ps(f32::NEG_INFINITY);
    for v in seen.clone() {
        // SAFETY: the caller's promise.
        largest = unsafe { _mm512_max_ps(_mm512_loadu_ps(scores.add(place(v))), largest) };
    }
    _mm512_reduce_max_ps(largest)
}

/// Where vector `v` of a stretch stands, after the first of its row.
#[inline(always)]
fn place(v: usize) -> usize {
    debug_assert!(v < TILES * VECTORS);
    v / VECTORS * (BLOCK * TILE) + v % VECTORS * LANES
}

/// exp(score − level), as a term.
#[inline]
#[target_feature(enable = "avx512f")]
fn exponential(score: __m512, level: f32) -> __m512 {
    power(_mm512_fmadd_ps(score, _mm512_set1_ps(LOG2_E), _mm512_set1_ps(-level * LOG2_E)))
}

/// exp(score), as a term. To a number so large that there is nothing behind the point an integer is added, and taken off again.
#[inline]
#[target_feature(enable = "avx512f")]
fn at_level_zero(score: __m512) -> __m512 {
    const POINT: f32 = 12_582_912.0; // 1.5 · 2²³
    let (unit, point) = (_mm512_set1_ps(LOG2_E), _mm512_set1_ps(POINT));
    let n = _mm512_sub_ps(_mm512_fmadd_ps(score, unit, point), point);
    let there = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(score, _mm512_set1_ps(LEAST));
    scaled(_mm512_fmsub_ps(score, unit, n), n, there)
}

/// 2ᵗ, as a term: as for a softmax in `f32`, what is below e^−80 is zero, and exactly so.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn power(t: __m512) -> __m512 {
    let n = _mm512_roundscale_ps::<8>(t);
    // Not below: what is no number stays none.
    let there = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(t, _mm512_set1_ps(LEAST * LOG2_E));
    scaled(_mm512_sub_ps(t, n), n, there)
}

/// 2ᶠ · 2ⁿ, |f| ≤ ½, or zero: 2ᶠ is approximate, since terms are rounded to eight bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn scaled(f: __m512, n: __m512, there: u16) -> __m512 {
    let [p0, p1, p2, p3] = POWER.map(|p| _mm512_set1_ps(p));
    let p = _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_fmadd_ps(p3, f, p2), f, p1), f, p0);
    _mm512_maskz_scalef_ps(there, p, n)
}

/// Raises the level of a row, and shrinks what was gathered below it.
///
/// # Safety
/// The machine has AVX-512.
#[inline(never)]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")]
unsafe fn raise(gathered: &mut Gathered<'_>, row: usize, largest: f32) {
    let level = std::mem::replace(&mut gathered.levels[row], largest);
    if gathered.is_empty || level == f32::NEG_INFINITY {
        return;
    }
    let sums = gathered.sums[row * LANES..][..LANES].chunks_exact_mut(LANES);
    let mixed = gathered.mixed[row * gathered.stride..][..gathered.stride].chunks_exact_mut(LANES);
    // SAFETY: the caller's promise; all are whole vectors.
    unsafe {
        let factor = exp(Avx512::splat(level - largest));
        for vector in sums.chain(mixed) {
            (Avx512::load(vector.as_ptr()) * factor).store(vector.as_mut_ptr());
        }
    }
}
