//! Sixteen lanes in four NEON registers.
//!
//! Every `unsafe` block below rests on one fact: a value of [`Neon`] comes from an `unsafe` function whose caller
//! promised the instructions, so whoever holds one may use them.

use super::transpose::{four_by_four, plain};
use super::{LANES, Lanes};
use crate::isa::Isa;
#[allow(clippy::wildcard_imports)] // intrinsics carry their origin in their names
use std::arch::aarch64::*;
use std::ops::{Add, Div, Mul, Neg, Range, Sub};

/// Sixteen lanes in four registers, four in each.
#[derive(Clone, Copy, Debug)]
pub struct Neon(float32x4_t, float32x4_t, float32x4_t, float32x4_t);

/// The same function for each of the four registers.
macro_rules! each {
    ($function:ident($x:expr)) => {
        Neon($function($x.0), $function($x.1), $function($x.2), $function($x.3))
    };
    ($function:ident($x:expr, $y:expr)) => {
        Neon($function($x.0, $y.0), $function($x.1, $y.1), $function($x.2, $y.2), $function($x.3, $y.3))
    };
    ($function:ident($x:expr, $y:expr, $z:expr)) => {
        Neon(
            $function($x.0, $y.0, $z.0),
            $function($x.1, $y.1, $z.1),
            $function($x.2, $y.2, $z.2),
            $function($x.3, $y.3, $z.3),
        )
    };
}

/// The larger; `y` where either is NaN, and where both are zero. `fmax` and `fmaxnm` answer otherwise.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn larger(x: float32x4_t, y: float32x4_t) -> float32x4_t {
    // SAFETY: the caller promises NEON.
    unsafe { vbslq_f32(vcgtq_f32(x, y), x, y) }
}

/// The smaller; `y` where either is NaN, and where both are zero.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn smaller(x: float32x4_t, y: float32x4_t) -> float32x4_t {
    // SAFETY: the caller promises NEON.
    unsafe { vbslq_f32(vcltq_f32(x, y), x, y) }
}

/// `term + x · y`, rounded once.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn fused(x: float32x4_t, y: float32x4_t, term: float32x4_t) -> float32x4_t {
    // SAFETY: the caller promises NEON.
    unsafe { vfmaq_f32(term, x, y) }
}

/// 2^n for integers `n` from −126 to 127.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn power(n: float32x4_t) -> float32x4_t {
    // SAFETY: the caller promises NEON.
    unsafe { vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)))) }
}

/// The mantissas of [`Lanes::split`].
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn mantissa(x: float32x4_t) -> float32x4_t {
    // SAFETY: the caller promises NEON.
    unsafe {
        let fraction = vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x007F_FFFF));
        vreinterpretq_f32_u32(vorrq_u32(fraction, vdupq_n_u32(0x3F80_0000)))
    }
}

/// The exponents of [`Lanes::split`].
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn exponent(x: float32x4_t) -> float32x4_t {
    // SAFETY: the caller promises NEON.
    unsafe {
        let biased = vreinterpretq_s32_u32(vshrq_n_u32::<23>(vreinterpretq_u32_f32(x)));
        vcvtq_f32_s32(vsubq_s32(biased, vdupq_n_s32(127)))
    }
}

/// The numbers whose upper halves these are the lower ones of.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn lower_half(x: float32x4_t) -> float32x4_t {
    // SAFETY: the caller promises NEON.
    unsafe { vreinterpretq_f32_u32(vshlq_n_u32::<16>(vreinterpretq_u32_f32(x))) }
}

/// These without their lower halves.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn upper_half(x: float32x4_t) -> float32x4_t {
    // SAFETY: the caller promises NEON.
    unsafe { vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0xFFFF_0000))) }
}

/// An operator by its intrinsic.
macro_rules! operator {
    ($name:ident, $method:ident, $intrinsic:ident) => {
        impl $name for Neon {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                // SAFETY: the values prove the instructions.
                unsafe { each!($intrinsic(self, other)) }
            }
        }
    };
}

operator!(Add, add, vaddq_f32);
operator!(Sub, sub, vsubq_f32);
operator!(Mul, mul, vmulq_f32);
operator!(Div, div, vdivq_f32);

impl Neg for Neon {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        // SAFETY: the value proves the instructions.
        unsafe { each!(vnegq_f32(self)) }
    }
}

impl Lanes for Neon {
    const ISA: Isa = Isa::Neon;

    type Mask = [uint32x4_t; 4];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller promises the instructions.
        unsafe { Self::splat(0.0) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller promises the instructions.
        unsafe {
            let register = vdupq_n_f32(value);
            Self(register, register, register, register)
        }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises the instructions and sixteen reads.
        unsafe {
            Self(vld1q_f32(from), vld1q_f32(from.add(4)), vld1q_f32(from.add(8)), vld1q_f32(from.add(12)))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller promises sixteen writes.
        unsafe {
            vst1q_f32(to, self.0);
            vst1q_f32(to.add(4), self.1);
            vst1q_f32(to.add(8), self.2);
            vst1q_f32(to.add(12), self.3);
        }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, n: usize) -> Self {
        // There are no masked loads. Put together lane by lane, it was so much code that the compiler kept no sums in registers
        // around it.
        let mut numbers = [0.0_f32; LANES];
        // SAFETY: the caller promises the instructions and `n` reads, and `n` is at most the array's length.
        unsafe {
            from.copy_to_nonoverlapping(numbers.as_mut_ptr(), n);
            Self::load(numbers.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, n: usize) {
        // SAFETY: the caller promises `n` writes, and `n` is at most the array's length.
        unsafe { to.copy_from_nonoverlapping(self.to_array().as_ptr(), n) };
    }

    #[inline(always)]
    fn fma(self, factor: Self, term: Self) -> Self {
        // SAFETY: the values prove the instructions.
        unsafe { each!(fused(self, factor, term)) }
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: the values prove the instructions.
        unsafe { each!(larger(self, other)) }
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        // SAFETY: the values prove the instructions.
        unsafe { each!(smaller(self, other)) }
    }

    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: the value proves the instructions.
        unsafe { each!(vabsq_f32(self)) }
    }

    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: the value proves the instructions.
        unsafe { each!(vrndnq_f32(self)) }
    }

    #[inline(always)]
    fn less_than(self, other: Self) -> Self::Mask {
        // SAFETY: the values prove the instructions.
        unsafe {
            [
                vcltq_f32(self.0, other.0),
                vcltq_f32(self.1, other.1),
                vcltq_f32(self.2, other.2),
                vcltq_f32(self.3, other.3),
            ]
        }
    }

    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        // SAFETY: the values prove the instructions.
        unsafe {
            Self(
                vbslq_f32(mask[0], yes.0, no.0),
                vbslq_f32(mask[1], yes.1, no.1),
                vbslq_f32(mask[2], yes.2, no.2),
                vbslq_f32(mask[3], yes.3, no.3),
            )
        }
    }

    #[inline(always)]
    fn scale_by_power(self, exponent: Self) -> Self {
        // SAFETY: the values prove the instructions.
        unsafe {
            let half = (exponent * Self::splat(0.5)).round();
            let rest = exponent - half;
            self * each!(power(half)) * each!(power(rest))
        }
    }

    #[inline(always)]
    fn split(self) -> (Self, Self) {
        // SAFETY: the value proves the instructions.
        unsafe { (each!(mantissa(self)), each!(exponent(self))) }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, stride: isize, lanes: Range<usize>, size: usize, to: *mut f32) {
        for quarter in [0..4, 4..8, 8..12, 12..LANES] {
            let whole = lanes.start <= quarter.start && quarter.end <= lanes.end;
            let blocks = if whole { size / 4 } else { 0 };
            for block in 0..blocks {
                let corner = from.wrapping_offset(quarter.start as isize * stride).wrapping_add(block * 4);
                // SAFETY: the caller's promise; four rows, and four of their numbers, are there.
                unsafe { four_by_four(corner, stride, to.add(block * 4 * LANES + quarter.start)) };
            }
            // SAFETY: the caller's promise.
            unsafe { plain(from, stride, quarter, &lanes, blocks * 4..size, to) };
        }
    }

    #[inline(always)]
    fn unpack_bf16(self) -> [Self; 2] {
        // SAFETY: the value proves the instructions.
        unsafe { [each!(lower_half(self)), each!(upper_half(self))] }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: the value proves the instructions.
        unsafe {
            let four = vaddq_f32(vaddq_f32(self.0, self.2), vaddq_f32(self.1, self.3));
            let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
            vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
        }
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        // SAFETY: the value proves the instructions.
        unsafe {
            let four = larger(larger(self.0, self.2), larger(self.1, self.3));
            let two = larger(four, vextq_f32::<2>(four, four));
            vgetq_lane_f32::<0>(larger(two, vdupq_laneq_f32::<1>(two)))
        }
    }
}
