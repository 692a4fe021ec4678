//! Sixteen lanes in four NEON registers.
//!
//! Every `unsafe` block below rests on one fact: a value of [`Neon`] comes from an `unsafe` function whose caller
//! promised the instructions, so whoever holds one may use them.

use super::registers::{by_registers, operators};
use super::transpose::{four_by_four, plain};
use super::{LANES, Lanes};
use crate::isa::Isa;
use std::arch::aarch64::*;
use std::ops::Range;

/// Sixteen lanes in four registers, four in each.
#[derive(Clone, Copy, Debug)]
pub struct Neon(float32x4_t, float32x4_t, float32x4_t, float32x4_t);

/// The larger; `y` where either is NaN, and where both are zero. `fmax` and `fmaxnm` answer otherwise.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn larger(x: float32x4_t, y: float32x4_t) -> float32x4_t {
    // SAFETY: the caller promises NEON.
    unsafe { vbslq_f32(vcgtq_f32(x, y), x, y) }
}

operators! {
    Neon: [0 1 2 3];
    add: vaddq_f32; sub: vsubq_f32; mul: vmulq_f32; div: vdivq_f32;
    neg: |x| vnegq_f32(x);
}

impl Lanes for Neon {
    const ISA: Isa = Isa::Neon;

    type Mask = [uint32x4_t; 4];

    by_registers! {
        [0 1 2 3]; 4 numbers in each;
        splat: |value| vdupq_n_f32(value);
        load: |from| vld1q_f32(from);
        store: |x, to| vst1q_f32(to, x);
        fma: |x, factor, term| vfmaq_f32(term, x, factor);
        max: |x, y| larger(x, y);
        min: |x, y| vbslq_f32(vcltq_f32(x, y), x, y);
        abs: |x| vabsq_f32(x);
        round: |x| vrndnq_f32(x);
        less_than: |x, y| vcltq_f32(x, y);
        select: |mask, yes, no| vbslq_f32(mask, yes, no);
        power: |n| vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127))));
        mantissa: |x| {
            let fraction = vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x007F_FFFF));
            vreinterpretq_f32_u32(vorrq_u32(fraction, vdupq_n_u32(0x3F80_0000)))
        };
        exponent: |x| {
            let biased = vreinterpretq_s32_u32(vshrq_n_u32::<23>(vreinterpretq_u32_f32(x)));
            vcvtq_f32_s32(vsubq_s32(biased, vdupq_n_s32(127)))
        };
        lower: |x| vreinterpretq_f32_u32(vshlq_n_u32::<16>(vreinterpretq_u32_f32(x)));
        upper: |x| vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0xFFFF_0000)));
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
