//! Sums in registers of AVX2, AVX-VNNI, AVX-512, and AVX-512 VNNI.
//!
//! Codes have no sign and A has one, which is what `vpdpbusd` and `vpmaddubsw` want.
#![allow(clippy::cast_ptr_alignment)] // lines are aligned to 64 bytes, and parts of them to their own size
#![allow(clippy::wildcard_imports)] // intrinsics carry their origin in their names

use std::arch::x86_64::*;

use super::strip::Sums;
use super::{LINE, LINES};
use crate::lanes::{Avx2, Avx512, Lanes};

/// Sixteen sums in two registers, by `vpmaddubsw`, which adds pairs in sixteen bits. With codes up to 63 they cannot
/// saturate. Codes of eight bits are taken as 128 less than they are: their absolute values are multiplied by A with their
/// signs, and two products of at most 128 · 127 cannot saturate either.
#[derive(Clone, Copy)]
pub(super) struct Pairs([__m256i; 2]);

impl Sums for Pairs {
    type Numbers = Avx2;
    type Codes = [__m256i; 2];
    type Left = __m256i;

    #[inline(always)]
    unsafe fn begin<const BITS: usize>(with: i32) -> Self {
        // With eight bits the offset, 128, is taken away from the codes themselves.
        let with = if BITS == 8 { 0 } else { with };
        // SAFETY: the caller's promise.
        Self(unsafe { [_mm256_set1_epi32(with); 2] })
    }

    #[inline(always)]
    unsafe fn codes<const BITS: usize>(from: *const u8) -> [[__m256i; 2]; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let halves = [half_codes::<BITS>(from), half_codes::<BITS>(from.add(LINE / 2))];
            std::array::from_fn(|four| [halves[0][four], halves[1][four]])
        }
    }

    #[inline(always)]
    unsafe fn left(from: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_set1_epi32(*from.cast()) }
    }

    #[inline(always)]
    unsafe fn add<const BITS: usize>(self, codes: [__m256i; 2], left: __m256i) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let add = |sums: __m256i, codes: __m256i| {
                let pairs = if BITS == 8 {
                    let codes = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
                    _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(left, codes))
                } else {
                    _mm256_maddubs_epi16(codes, left)
                };
                _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
            };
            Self([add(self.0[0], codes[0]), add(self.0[1], codes[1])])
        }
    }

    #[inline(always)]
    unsafe fn f16(from: *const u8) -> Avx2 {
        // SAFETY: the caller's promise.
        unsafe {
            let half = |at: usize| _mm256_cvtph_ps(_mm_load_si128(from.add(at).cast()));
            two([half(0), half(16)])
        }
    }

    #[inline(always)]
    unsafe fn steps(from: *const u8) -> Avx2 {
        // SAFETY: the caller's promise.
        unsafe {
            let half =
                |at: usize| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.add(at).cast())));
            two([half(0), half(8)])
        }
    }
}

/// Two registers as lanes. The compiler sees through the array.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn two(halves: [__m256; 2]) -> Avx2 {
    let mut numbers = [0.0_f32; LINES];
    // SAFETY: the array has sixteen places.
    unsafe {
        _mm256_storeu_ps(numbers.as_mut_ptr(), halves[0]);
        _mm256_storeu_ps(numbers.as_mut_ptr().add(8), halves[1]);
        Avx2::load(numbers.as_ptr())
    }
}

/// The codes of eight columns at sixteen steps, from where they begin in the first line.
///
/// # Safety
/// The machine has AVX2; the lines are there.
#[inline(always)]
unsafe fn half_codes<const BITS: usize>(from: *const u8) -> [__m256i; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let line = |at: usize| _mm256_load_si256(from.add(at * LINE).cast());
        if BITS == 8 {
            return [line(0), line(1), line(2), line(3)];
        }
        let low = _mm256_set1_epi8(15);
        let both = |codes: __m256i| {
            [_mm256_and_si256(codes, low), _mm256_and_si256(_mm256_srli_epi16::<4>(codes), low)]
        };
        let ([a, b], [c, d]) = (both(line(0)), both(line(1)));
        if BITS == 4 {
            return [a, b, c, d];
        }
        let upper = line(2);
        let with = |codes: __m256i, moved: __m256i| {
            _mm256_or_si256(codes, _mm256_and_si256(moved, _mm256_set1_epi8(0x30)))
        };
        [
            with(a, _mm256_slli_epi16::<4>(upper)),
            with(b, _mm256_slli_epi16::<2>(upper)),
            with(c, upper),
            with(d, _mm256_srli_epi16::<2>(upper)),
        ]
    }
}

/// The same by `vpdpbusd`.
#[derive(Clone, Copy)]
pub(super) struct Vnni2([__m256i; 2]);

impl Sums for Vnni2 {
    type Numbers = Avx2;
    type Codes = [__m256i; 2];
    type Left = __m256i;

    #[inline(always)]
    unsafe fn begin<const BITS: usize>(with: i32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { [_mm256_set1_epi32(with); 2] })
    }

    #[inline(always)]
    unsafe fn codes<const BITS: usize>(from: *const u8) -> [[__m256i; 2]; 4] {
        // SAFETY: the caller's promise.
        unsafe { Pairs::codes::<BITS>(from) }
    }

    #[inline(always)]
    unsafe fn left(from: *const u8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { Pairs::left(from) }
    }

    #[inline(always)]
    unsafe fn add<const BITS: usize>(self, codes: [__m256i; 2], left: __m256i) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self([
                _mm256_dpbusd_avx_epi32(self.0[0], codes[0], left),
                _mm256_dpbusd_avx_epi32(self.0[1], codes[1], left),
            ])
        }
    }

    #[inline(always)]
    unsafe fn f16(from: *const u8) -> Avx2 {
        // SAFETY: the caller's promise.
        unsafe { Pairs::f16(from) }
    }

    #[inline(always)]
    unsafe fn steps(from: *const u8) -> Avx2 {
        // SAFETY: the caller's promise.
        unsafe { Pairs::steps(from) }
    }
}

/// The same in one register.
#[derive(Clone, Copy)]
pub(super) struct Vnni512(pub(super) __m512i);

impl Sums for Vnni512 {
    type Numbers = Avx512;
    type Codes = __m512i;
    type Left = __m512i;

    #[inline(always)]
    unsafe fn begin<const BITS: usize>(with: i32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm512_set1_epi32(with) })
    }

    #[inline(always)]
    unsafe fn codes<const BITS: usize>(from: *const u8) -> [__m512i; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let line = |at: usize| _mm512_load_si512(from.add(at * LINE).cast());
            if BITS == 8 {
                return [line(0), line(1), line(2), line(3)];
            }
            let low = _mm512_set1_epi8(15);
            let both = |codes: __m512i| {
                [_mm512_and_si512(codes, low), _mm512_and_si512(_mm512_srli_epi16::<4>(codes), low)]
            };
            let ([a, b], [c, d]) = (both(line(0)), both(line(1)));
            if BITS == 4 {
                return [a, b, c, d];
            }
            let upper = line(2);
            // codes | moved & 0x30
            let with = |codes: __m512i, moved: __m512i| {
                _mm512_ternarylogic_epi32::<0xf8>(codes, moved, _mm512_set1_epi8(0x30))
            };
            [
                with(a, _mm512_slli_epi16::<4>(upper)),
                with(b, _mm512_slli_epi16::<2>(upper)),
                with(c, upper),
                with(d, _mm512_srli_epi16::<2>(upper)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn left(from: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_set1_epi32(*from.cast()) }
    }

    #[inline(always)]
    unsafe fn add<const BITS: usize>(self, codes: __m512i, left: __m512i) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm512_dpbusd_epi32(self.0, codes, left) })
    }

    #[inline(always)]
    unsafe fn f16(from: *const u8) -> Avx512 {
        // SAFETY: the caller's promise.
        unsafe { one(_mm512_cvtph_ps(_mm256_load_si256(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn steps(from: *const u8) -> Avx512 {
        // SAFETY: the caller's promise.
        unsafe { one(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128(from.cast())))) }
    }
}

/// The same without VNNI: as [`Pairs`], but signs are places in a mask.
#[derive(Clone, Copy)]
pub(super) struct Pairs512(__m512i);

impl Sums for Pairs512 {
    type Numbers = Avx512;
    /// Codes, or the absolute values of those of eight bits and which of them are negative.
    type Codes = (__m512i, __mmask64);
    type Left = __m512i;

    #[inline(always)]
    unsafe fn begin<const BITS: usize>(with: i32) -> Self {
        // As in `Pairs`.
        let with = if BITS == 8 { 0 } else { with };
        // SAFETY: the caller's promise.
        Self(unsafe { _mm512_set1_epi32(with) })
    }

    #[inline(always)]
    unsafe fn codes<const BITS: usize>(from: *const u8) -> [Self::Codes; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut all = [(_mm512_setzero_si512(), 0); 4];
            for (to, codes) in all.iter_mut().zip(Vnni512::codes::<BITS>(from)) {
                *to = (codes, 0);
                if BITS == 8 {
                    let signed = _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
                    *to = (_mm512_abs_epi8(signed), _mm512_movepi8_mask(signed));
                }
            }
            all
        }
    }

    #[inline(always)]
    unsafe fn left(from: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { Vnni512::left(from) }
    }

    #[inline(always)]
    unsafe fn add<const BITS: usize>(self, (codes, negative): Self::Codes, left: __m512i) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let left = if BITS == 8 {
                _mm512_mask_sub_epi8(left, negative, _mm512_setzero_si512(), left)
            } else {
                left
            };
            let pairs = _mm512_maddubs_epi16(codes, left);
            Self(_mm512_add_epi32(self.0, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1))))
        }
    }

    #[inline(always)]
    unsafe fn f16(from: *const u8) -> Avx512 {
        // SAFETY: the caller's promise.
        unsafe { Vnni512::f16(from) }
    }

    #[inline(always)]
    unsafe fn steps(from: *const u8) -> Avx512 {
        // SAFETY: the caller's promise.
        unsafe { Vnni512::steps(from) }
    }
}

/// A register as lanes. The compiler sees through the array.
///
/// # Safety
/// The machine has AVX-512 F.
#[inline(always)]
unsafe fn one(register: __m512) -> Avx512 {
    let mut numbers = [0.0_f32; LINES];
    // SAFETY: the array has sixteen places.
    unsafe {
        _mm512_storeu_ps(numbers.as_mut_ptr(), register);
        Avx512::load(numbers.as_ptr())
    }
}
