//! Steps for AVX2, AVX-VNNI, AVX-512, and AVX-512 BF16 and VNNI.

use super::{Patch, Step, Widened, rows, rows_prefetching, steps_alone, together};
use crate::lanes::{Avx2, Avx512};
use crate::lowp::prefetch::Prefetcher;
use crate::lowp::{Dot, Format};
use std::arch::x86_64::*;

/// # Safety
/// As for [`super::multiply`].
pub(super) unsafe fn multiply(dot: Dot, format: Format, patch: &Patch, prefetcher: &mut Prefetcher) {
    // SAFETY: the caller's promise.
    unsafe {
        match (dot, format) {
            (Dot::Scalar | Dot::Neon | Dot::NeonDot | Dot::Amx, _) => {
                unreachable!("{dot} multiplies elsewhere")
            }
            (Dot::Avx2 | Dot::AvxVnni, Format::Bf16) => bf16_avx2(patch),
            (Dot::Avx512 | Dot::Avx512Vnni, Format::Bf16) => bf16_avx512(patch),
            (Dot::Avx512Dot, Format::Bf16) => bf16_dot(patch),
            (Dot::Avx2, Format::Int8 | Format::Int4) => int8_avx2(patch),
            (Dot::Avx512, Format::Int8 | Format::Int4) => int8_avx512(patch),
            (Dot::AvxVnni, Format::Int8 | Format::Int4) => int8_avx_vnni(patch),
            (Dot::Avx512Vnni | Dot::Avx512Dot, Format::Int8 | Format::Int4) => int8_dot(patch, prefetcher),
        }
    }
}

/// One function for each kind, which has the instructions.
macro_rules! kernel {
    ($name:ident, $features:literal, $step:ty, $rows:literal, $panels:literal) => {
        #[doc = concat!("# Safety\nThe machine has ", $features, "; as for [`multiply`].")]
        #[target_feature(enable = $features)]
        unsafe fn $name(patch: &Patch) {
            // SAFETY: the caller's promise.
            unsafe { rows::<$step, $rows, $panels>(patch) }
        }
    };
}

// As many sums as fit into sixteen or thirty-two registers, beside B and A.
kernel!(bf16_avx2, "avx2,fma", Widened<Avx2>, 3, 1);
kernel!(int8_avx2, "avx2,fma", Signs, 4, 1);
kernel!(int8_avx_vnni, "avx2,fma,avxvnni", Vnni2, 5, 1);
kernel!(bf16_avx512, "avx512f,avx512dq,avx512bw,avx512vl", Widened<Avx512>, 4, 4);
kernel!(bf16_dot, "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16", Pairs, 4, 4);

/// # Safety
/// The machine has AVX-512 F, DQ, BW, VL and VNNI; as for [`multiply`].
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vnni")]
unsafe fn int8_dot(patch: &Patch, prefetcher: &mut Prefetcher) {
    let patch = &Patch { rows: together(patch.rows), ..*patch };
    // SAFETY: the caller's promise; tiles have the rows that do not count, and their sums have a place.
    unsafe {
        match patch.rows {
            1 => rows::<Vnni512, 1, 4>(patch),
            2 => rows::<Vnni512, 2, 4>(patch),
            3 => rows::<Vnni512, 3, 4>(patch),
            4 => rows::<Vnni512, 4, 4>(patch),
            6 => rows::<Vnni512, 6, 4>(patch),
            12 => rows::<Vnni512, 12, 2>(patch),
            _ if prefetcher.is_there() => rows_prefetching::<Vnni512, 8, 2>(patch, prefetcher),
            _ => rows::<Vnni512, 8, 2>(patch),
        }
    }
}

/// # Safety
/// The machine has AVX-512 F, DQ, BW and VL; as for [`multiply`].
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
unsafe fn int8_avx512(patch: &Patch) {
    let patch = &Patch { rows: together(patch.rows), ..*patch };
    // SAFETY: the caller's promise; tiles have the rows that do not count, and their sums have a place.
    unsafe {
        match patch.rows {
            1 => rows::<Int16, 1, 4>(patch),
            2 => rows::<Int16, 2, 4>(patch),
            3 => rows::<Int16, 3, 4>(patch),
            4 => rows::<Int16, 4, 4>(patch),
            6 => rows::<Int16, 6, 2>(patch),
            12 => rows::<Int16, 12, 2>(patch),
            _ => rows::<Int16, 8, 2>(patch),
        }
    }
}

/// As for [`super::alone`].
///
/// # Safety
/// The machine has `dot`.
pub(super) unsafe fn alone(dot: Dot, format: Format, times: usize) -> Option<usize> {
    /// A function that has the instructions.
    macro_rules! steps {
        ($features:literal, $step:ty, $sums:literal) => {{
            #[target_feature(enable = $features)]
            unsafe fn steps(format: Format, times: usize) -> usize {
                // SAFETY: the caller's promise.
                unsafe { steps_alone::<$step, $sums>(format, times) }
            }
            // SAFETY: the caller's promise.
            Some(unsafe { steps(format, times) })
        }};
    }
    match dot {
        Dot::AvxVnni if format.is_integers() => steps!("avx2,fma,avxvnni", Vnni2, 6),
        Dot::Avx512Vnni | Dot::Avx512Dot if format.is_integers() => steps!("avx512f,avx512vnni", Vnni512, 16),
        Dot::Avx512Dot => steps!("avx512f,avx512bf16", Pairs, 16),
        _ => None,
    }
}

/// `vdpbf16ps`: pairs of `bf16` at once.
#[derive(Clone, Copy)]
struct Pairs(__m512);

impl Step for Pairs {
    type Left = __m512i;
    type Right = __m512i;

    #[inline(always)]
    unsafe fn left(from: *const u32) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_set1_epi32((*from).cast_signed()) }
    }

    #[inline(always)]
    unsafe fn right(line: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_load_si512(line.cast()) }
    }

    #[inline(always)]
    unsafe fn add(self, left: __m512i, right: __m512i) -> Self {
        // SAFETY: the caller's promise; all three are the same 64 bytes under other names.
        unsafe {
            let left = std::mem::transmute::<__m512i, __m512bh>(left);
            Self(_mm512_dpbf16_ps(self.0, left, std::mem::transmute::<__m512i, __m512bh>(right)))
        }
    }
}

/// Two registers of integer sums. `vpmaddubsw` wants one side without signs, and adds pairs in sixteen bits: so A's absolute
/// values are multiplied by B with A's signs. Pairs of at most 127 · 127 each cannot saturate.
#[derive(Clone, Copy)]
struct Signs([__m256i; 2]);

impl Step for Signs {
    /// A, and its absolute values.
    type Left = [__m256i; 2];
    type Right = [__m256i; 2];

    #[inline(always)]
    unsafe fn left(from: *const u32) -> [__m256i; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let signed = _mm256_set1_epi32((*from).cast_signed());
            [signed, _mm256_abs_epi8(signed)]
        }
    }

    #[inline(always)]
    unsafe fn right(line: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller's promise.
        unsafe { [_mm256_load_si256(line.cast()), _mm256_load_si256(line.add(32).cast())] }
    }

    #[inline(always)]
    unsafe fn add(self, [signs, left]: [__m256i; 2], right: [__m256i; 2]) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let half = |h: usize| {
                let pairs = _mm256_maddubs_epi16(left, _mm256_sign_epi8(right[h], signs));
                _mm256_add_epi32(self.0[h], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
            };
            Self([half(0), half(1)])
        }
    }
}

/// Integers in sixteen bits, as many as four of eight bits are: `vpmaddwd` adds a product of even places to one of odd places, so
/// B's are parted by shifts, and A's were before.
#[derive(Clone, Copy)]
struct Int16(__m512i);

impl Step for Int16 {
    const WIDER: usize = 2;
    type Left = [__m512i; 2];
    type Right = [__m512i; 2];

    #[inline(always)]
    unsafe fn left(from: *const u32) -> [__m512i; 2] {
        // SAFETY: the caller's promise.
        unsafe { [Vnni512::left(from), Vnni512::left(from.add(1))] }
    }

    #[inline(always)]
    unsafe fn right(line: *const u8) -> [__m512i; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let both = Vnni512::right(line);
            [_mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(both)), _mm512_srai_epi16::<8>(both)]
        }
    }

    #[inline(always)]
    unsafe fn add(self, left: [__m512i; 2], right: [__m512i; 2]) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let even = _mm512_add_epi32(self.0, _mm512_madd_epi16(left[0], right[0]));
            Self(_mm512_add_epi32(even, _mm512_madd_epi16(left[1], right[1])))
        }
    }
}

/// `vpdpbusd` on two registers: A was made 128 more than it is, and 128 times B is taken away at the end.
#[derive(Clone, Copy)]
struct Vnni2([__m256i; 2]);

impl Step for Vnni2 {
    type Left = __m256i;
    type Right = [__m256i; 2];

    #[inline(always)]
    unsafe fn shifted(self, shift: *const i32) -> Self {
        // SAFETY: the caller's promise; shifts are integers in the same place as numbers.
        unsafe {
            let shift = Signs::load(shift.cast()).0;
            Self([_mm256_add_epi32(self.0[0], shift[0]), _mm256_add_epi32(self.0[1], shift[1])])
        }
    }

    #[inline(always)]
    unsafe fn left(from: *const u32) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_set1_epi32((*from).cast_signed()) }
    }

    #[inline(always)]
    unsafe fn right(line: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller's promise.
        unsafe { Signs::right(line) }
    }

    #[inline(always)]
    unsafe fn add(self, left: __m256i, right: [__m256i; 2]) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self([
                _mm256_dpbusd_avx_epi32(self.0[0], left, right[0]),
                _mm256_dpbusd_avx_epi32(self.0[1], left, right[1]),
            ])
        }
    }
}

/// The same on one.
#[derive(Clone, Copy)]
struct Vnni512(__m512i);

impl Step for Vnni512 {
    type Left = __m512i;
    type Right = __m512i;

    #[inline(always)]
    unsafe fn shifted(self, shift: *const i32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm512_add_epi32(self.0, _mm512_load_si512(shift.cast())) })
    }

    #[inline(always)]
    unsafe fn left(from: *const u32) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_set1_epi32((*from).cast_signed()) }
    }

    #[inline(always)]
    unsafe fn right(line: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_load_si512(line.cast()) }
    }

    #[inline(always)]
    unsafe fn add(self, left: __m512i, right: __m512i) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm512_dpbusd_epi32(self.0, left, right) })
    }
}
