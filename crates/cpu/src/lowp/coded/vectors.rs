//! Sums in registers of AVX2 and AVX-512, by `vpdpbusd` or without it.
//!
//! Codes have no sign and A has one, which is what `vpdpbusd` and `vpmaddubsw` want.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::strip::Sums;
use super::{LINE, LINES};
use crate::lanes::{Avx2, Avx512, Lanes};

/// How sums get the products of four codes and four integers of A each.
///
/// # Safety
/// Of all functions: the machine has the instructions.
pub(super) trait Fours: Copy {
    /// Whether codes of eight bits are taken as 128 less than they are. Then sums begin without an offset.
    const IS_SIGNED: bool;

    unsafe fn add_256<const BITS: usize>(sums: __m256i, codes: __m256i, left: __m256i) -> __m256i;

    unsafe fn add_512<const BITS: usize>(sums: __m512i, codes: __m512i, left: __m512i) -> __m512i;
}

/// By `vpmaddubsw`, which adds pairs in sixteen bits. With codes up to 63 they cannot saturate. Of codes of eight bits the absolute values
/// are multiplied by A with their signs, and two products of at most 128 · 127 cannot saturate either.
#[derive(Clone, Copy)]
pub(super) struct Pairs;

impl Fours for Pairs {
    const IS_SIGNED: bool = true;

    #[inline(always)]
    unsafe fn add_256<const BITS: usize>(sums: __m256i, codes: __m256i, left: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let pairs = if BITS == 8 {
                let codes = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
                _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(left, codes))
            } else {
                _mm256_maddubs_epi16(codes, left)
            };
            _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }

    #[inline(always)]
    unsafe fn add_512<const BITS: usize>(sums: __m512i, codes: __m512i, left: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let pairs = if BITS == 8 {
                let codes = _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
                let negative = _mm512_movepi8_mask(codes);
                let left = _mm512_mask_sub_epi8(left, negative, _mm512_setzero_si512(), left);
                _mm512_maddubs_epi16(_mm512_abs_epi8(codes), left)
            } else {
                _mm512_maddubs_epi16(codes, left)
            };
            _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
        }
    }
}

/// By `vpdpbusd`.
#[derive(Clone, Copy)]
pub(super) struct Vnni;

impl Fours for Vnni {
    const IS_SIGNED: bool = false;

    #[inline(always)]
    unsafe fn add_256<const BITS: usize>(sums: __m256i, codes: __m256i, left: __m256i) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_dpbusd_avx_epi32(sums, codes, left) }
    }

    #[inline(always)]
    unsafe fn add_512<const BITS: usize>(sums: __m512i, codes: __m512i, left: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_dpbusd_epi32(sums, codes, left) }
    }
}

/// Codes of sixteen steps, of which two lines hold the lower halves, and with six bits a third one the upper bits of each.
macro_rules! codes {
    ($line:expr, $and:ident, $or:ident, $right:ident, $left:ident, $all:ident) => {{
        let line = $line;
        if BITS == 8 {
            return [line(0), line(1), line(2), line(3)];
        }
        let both = |at: usize| [$and(line(at), $all(15)), $and($right::<4>(line(at)), $all(15))];
        let ([a, b], [c, d]) = (both(0), both(1));
        if BITS == 4 {
            return [a, b, c, d];
        }
        let upper = line(2);
        let with = |codes, moved| $or(codes, $and(moved, $all(0x30)));
        [with(a, $left::<4>(upper)), with(b, $left::<2>(upper)), with(c, upper), with(d, $right::<2>(upper))]
    }};
}

/// Sixteen sums in two registers.
#[derive(Clone, Copy)]
pub(super) struct Two<F>([__m256i; 2], PhantomData<F>);

impl<F: Fours> Sums for Two<F> {
    type Numbers = Avx2;
    type Codes = [__m256i; 2];
    type Left = __m256i;

    #[inline(always)]
    unsafe fn begin<const BITS: usize>(with: i32) -> Self {
        let with = if F::IS_SIGNED && BITS == 8 { 0 } else { with };
        // SAFETY: the caller's promise.
        Self(unsafe { [_mm256_set1_epi32(with); 2] }, PhantomData)
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
        let half = |h: usize| unsafe { F::add_256::<BITS>(self.0[h], codes[h], left) };
        Self([half(0), half(1)], PhantomData)
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
        codes!(
            |at: usize| _mm256_load_si256(from.add(at * LINE).cast()),
            _mm256_and_si256,
            _mm256_or_si256,
            _mm256_srli_epi16,
            _mm256_slli_epi16,
            _mm256_set1_epi8
        )
    }
}

/// Sixteen sums in one register.
#[derive(Clone, Copy)]
pub(super) struct One<F>(pub(super) __m512i, pub(super) PhantomData<F>);

impl<F: Fours> Sums for One<F> {
    type Numbers = Avx512;
    type Codes = __m512i;
    type Left = __m512i;

    #[inline(always)]
    unsafe fn begin<const BITS: usize>(with: i32) -> Self {
        let with = if F::IS_SIGNED && BITS == 8 { 0 } else { with };
        // SAFETY: the caller's promise.
        Self(unsafe { _mm512_set1_epi32(with) }, PhantomData)
    }

    #[inline(always)]
    unsafe fn codes<const BITS: usize>(from: *const u8) -> [__m512i; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            codes!(
                |at: usize| _mm512_load_si512(from.add(at * LINE).cast()),
                _mm512_and_si512,
                _mm512_or_si512,
                _mm512_srli_epi16,
                _mm512_slli_epi16,
                _mm512_set1_epi8
            )
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
        Self(unsafe { F::add_512::<BITS>(self.0, codes, left) }, PhantomData)
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
