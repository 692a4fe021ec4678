//! Sixteen lanes in one AVX-512 register.
//!
//! Every `unsafe` block below rests on one fact: a value of [`Avx512`] comes from an `unsafe` function whose caller
//! promised the instructions, so whoever holds one may use them.

use super::bf16::{round_interleaved, round_two};
use super::registers::{by_registers, operators};
use super::transpose::sixteen_by_sixteen;
use super::{LANES, Lanes};
use crate::isa::Isa;
use std::arch::x86_64::*;
use std::ops::Range;

/// Sixteen lanes in one register.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(__m512);

impl Avx512 {
    /// Writes these and `behind` to `to` on, rounded to `bf16`.
    ///
    /// # Safety
    /// The machine has AVX-512 BF16; `to` is valid for 32 writes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(crate) unsafe fn store_bf16(self, behind: Self, to: *mut u16) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), round_two([self.0, behind.0])) };
    }

    /// These and those of another row, rounded to `bf16` and interleaved: these are the lower ones of pairs.
    ///
    /// # Safety
    /// The machine has AVX-512 BF16.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(crate) unsafe fn pair_bf16(self, other: Self) -> Self {
        Self(_mm512_castsi512_ps(round_interleaved([self.0, other.0])))
    }

    /// Writes these to `to` on, past the caches. Other threads see it behind an `sfence`.
    ///
    /// # Safety
    /// `to` is valid for sixteen writes, and aligned to 64 bytes.
    #[inline(always)]
    pub(crate) unsafe fn store_far(self, to: *mut f32) {
        // SAFETY: the caller's promise, and that of whoever made these lanes.
        unsafe { _mm512_stream_ps(to, self.0) };
    }
}

/// The first `n ≤ 16` lanes.
#[inline(always)]
fn first(n: usize) -> __mmask16 {
    ((1_u32 << n) - 1) as __mmask16
}

operators! {
    Avx512: [0];
    add: _mm512_add_ps; sub: _mm512_sub_ps; mul: _mm512_mul_ps; div: _mm512_div_ps;
    neg: |x| _mm512_xor_ps(x, _mm512_set1_ps(-0.0));
}

impl Avx512 {
    /// Lanes 0 to 7 and 8 to 15.
    #[inline(always)]
    fn parts(self) -> (__m256, __m256) {
        // SAFETY: the value proves the instructions.
        unsafe { (_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0)) }
    }
}

impl Lanes for Avx512 {
    const ISA: Isa = Isa::Avx512;
    const IS_WIDE: bool = true;

    type Mask = [__mmask16; 1];

    by_registers! {
        [0]; 16 numbers in each;
        splat: |value| _mm512_set1_ps(value);
        load: |from| _mm512_loadu_ps(from);
        store: |x, to| _mm512_storeu_ps(to, x);
        fma: |x, factor, term| _mm512_fmadd_ps(x, factor, term);
        max: |x, y| _mm512_max_ps(x, y);
        min: |x, y| _mm512_min_ps(x, y);
        abs: |x| _mm512_abs_ps(x);
        round: |x| _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
        less_than: |x, y| _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, y);
        select: |mask, yes, no| _mm512_mask_blend_ps(mask, no, yes);
        power: |n| _mm512_scalef_ps(_mm512_set1_ps(1.0), n);
        mantissa: |x| {
            let fraction = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x007F_FFFF));
            _mm512_castsi512_ps(_mm512_or_si512(fraction, _mm512_set1_epi32(0x3F80_0000)))
        };
        exponent: |x| {
            let biased = _mm512_srli_epi32::<23>(_mm512_castps_si512(x));
            _mm512_cvtepi32_ps(_mm512_sub_epi32(biased, _mm512_set1_epi32(127)))
        };
        lower: |x| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_castps_si512(x)));
        upper: |x| {
            let upper = _mm512_set1_epi32(0xFFFF_0000_u32.cast_signed());
            _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), upper))
        };
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, n: usize) -> Self {
        // SAFETY: the caller promises the instructions and `n` reads; masked lanes are not read.
        Self(unsafe { _mm512_maskz_loadu_ps(first(n), from) })
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, n: usize) {
        // SAFETY: the caller promises `n` writes; masked lanes are not written.
        unsafe { _mm512_mask_storeu_ps(to, first(n), self.0) };
    }

    #[inline(always)]
    fn scale_by_power(self, exponent: Self) -> Self {
        // SAFETY: the values prove the instructions.
        Self(unsafe { _mm512_scalef_ps(self.0, exponent.0) })
    }

    /// Pairs of rows, then fours, within each quarter of a register; then the quarters go where they belong.
    #[inline(always)]
    fn transpose_eight(rows: [Self; 8]) -> [Self; 8] {
        // SAFETY: the values prove the instructions.
        unsafe {
            let mut pairs = [rows[0].0; 8];
            for i in [0, 2, 4, 6] {
                pairs[i] = _mm512_unpacklo_ps(rows[i].0, rows[i + 1].0);
                pairs[i + 1] = _mm512_unpackhi_ps(rows[i].0, rows[i + 1].0);
            }
            // Column c of each quarter: rows 0 to 3 in `fours[c]`, rows 4 to 7 in `fours[4 + c]`.
            let mut fours = pairs;
            for i in [0, 4] {
                for half in [0, 1] {
                    let upper = _mm512_castps_pd(pairs[i + half]);
                    let lower = _mm512_castps_pd(pairs[i + half + 2]);
                    fours[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(upper, lower));
                    fours[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(upper, lower));
                }
            }
            let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
            let last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
            let mut transposed = rows;
            for c in [0, 2] {
                for (quarters, to) in [(first, 0), (last, 4)] {
                    let mut eights = [_mm512_setzero_ps(); 2];
                    for next in [0, 1] {
                        let upper = _mm512_castps_pd(fours[c + next]);
                        let lower = _mm512_castps_pd(fours[4 + c + next]);
                        eights[next] = _mm512_castpd_ps(_mm512_permutex2var_pd(upper, quarters, lower));
                    }
                    let [even, odd] = eights;
                    transposed[to + c / 2] = Self(_mm512_shuffle_f32x4::<0x44>(even, odd));
                    transposed[to + 2 + c / 2] = Self(_mm512_shuffle_f32x4::<0xEE>(even, odd));
                }
            }
            transposed
        }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, stride: isize, lanes: Range<usize>, size: usize, to: *mut f32) {
        let mut d = 0;
        while d < size {
            let count = (size - d).min(LANES);
            // SAFETY: the caller's promise; `count` numbers of each row and as many columns are there.
            unsafe {
                sixteen_by_sixteen(from.wrapping_add(d), stride, lanes.clone(), count, to.add(d * LANES));
            };
            d += LANES;
        }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let (low, high) = self.parts();
        // SAFETY: the value proves AVX-512, which includes AVX.
        unsafe { super::avx2::sum(_mm256_add_ps(low, high)) }
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        let (low, high) = self.parts();
        // SAFETY: the value proves AVX-512, which includes AVX.
        unsafe { super::avx2::largest(_mm256_max_ps(low, high)) }
    }
}
