//! Steps for NEON, with `sdot` or without it.
#![allow(clippy::cast_ptr_alignment)] // lines are aligned to 64 bytes

use super::{Patch, Step, rows, steps_alone};
use crate::lowp::neon::{Fours, Pairs, Sdot};
use crate::lowp::{Dot, Format};
use std::arch::aarch64::{
    float32x4_t, int8x16_t, int32x4_t, vandq_u32, vdupq_n_f32, vdupq_n_u32, vfmaq_f32, vld1q_s8, vld1q_u32,
    vreinterpretq_f32_u32, vreinterpretq_s8_u32, vshlq_n_u32,
};
use std::marker::PhantomData;

/// # Safety
/// As for [`super::multiply`].
pub(super) unsafe fn multiply(dot: Dot, format: Format, patch: &Patch) {
    // SAFETY: the caller's promise.
    unsafe {
        match (dot, format) {
            (Dot::Neon | Dot::NeonDot, Format::Bf16) => bf16(patch),
            (Dot::Neon, Format::Int8 | Format::Int4) => int8(patch),
            (Dot::NeonDot, Format::Int8 | Format::Int4) => int8_dot(patch),
            _ => unreachable!("{dot} multiplies elsewhere"),
        }
    }
}

// Four rows, which sixteen are a whole number of: sixteen sums, beside B and A.

/// # Safety
/// The machine has NEON; as for [`multiply`].
#[target_feature(enable = "neon")]
unsafe fn bf16(patch: &Patch) {
    // SAFETY: the caller's promise.
    unsafe { rows::<Widened, 4, 1>(patch) }
}

/// # Safety
/// The machine has NEON; as for [`multiply`].
#[target_feature(enable = "neon")]
unsafe fn int8(patch: &Patch) {
    // SAFETY: the caller's promise.
    unsafe { rows::<Integers<Pairs>, 4, 1>(patch) }
}

/// # Safety
/// The machine has NEON and `sdot`; as for [`multiply`].
#[target_feature(enable = "neon,dotprod")]
unsafe fn int8_dot(patch: &Patch) {
    // SAFETY: the caller's promise.
    unsafe { rows::<Integers<Sdot>, 4, 1>(patch) }
}

/// As for [`super::alone`].
///
/// # Safety
/// The machine has NEON and `sdot`.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn alone(format: Format, times: usize) -> Option<usize> {
    // SAFETY: the caller's promise.
    format.is_integers().then(|| unsafe { steps_alone::<Integers<Sdot>, 6>(format, times) })
}

/// Four registers of `f32`, to which widened `bf16` are added one by one.
#[derive(Clone, Copy)]
struct Widened([float32x4_t; 4]);

impl Step for Widened {
    type Left = [float32x4_t; 2];
    type Right = [[float32x4_t; 2]; 4];

    #[inline(always)]
    unsafe fn left(from: *const u32) -> [float32x4_t; 2] {
        // SAFETY: the caller's promise.
        let pair = unsafe { *from };
        // SAFETY: as above.
        unsafe { [vdupq_n_f32(f32::from_bits(pair << 16)), vdupq_n_f32(f32::from_bits(pair & 0xffff_0000))] }
    }

    #[inline(always)]
    unsafe fn right(line: *const u8) -> [[float32x4_t; 2]; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let upper = vdupq_n_u32(0xffff_0000);
            let quarter = |at: usize| {
                let pairs = vld1q_u32(line.add(at).cast());
                [
                    vreinterpretq_f32_u32(vshlq_n_u32::<16>(pairs)),
                    vreinterpretq_f32_u32(vandq_u32(pairs, upper)),
                ]
            };
            [quarter(0), quarter(16), quarter(32), quarter(48)]
        }
    }

    #[inline(always)]
    unsafe fn add(mut self, left: [float32x4_t; 2], right: [[float32x4_t; 2]; 4]) -> Self {
        for q in 0..4 {
            // SAFETY: the caller's promise.
            self.0[q] =
                unsafe { vfmaq_f32(vfmaq_f32(self.0[q], left[0], right[q][0]), left[1], right[q][1]) };
        }
        self
    }
}

/// Four registers of integer sums.
#[derive(Clone, Copy)]
struct Integers<F>([int32x4_t; 4], PhantomData<F>);

impl<F: Fours> Step for Integers<F> {
    type Left = int8x16_t;
    type Right = [int8x16_t; 4];

    #[inline(always)]
    unsafe fn left(from: *const u32) -> int8x16_t {
        // SAFETY: the caller's promise.
        unsafe { vreinterpretq_s8_u32(vdupq_n_u32(*from)) }
    }

    #[inline(always)]
    unsafe fn right(line: *const u8) -> [int8x16_t; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let quarter = |at: usize| vld1q_s8(line.add(at).cast());
            [quarter(0), quarter(16), quarter(32), quarter(48)]
        }
    }

    #[inline(always)]
    unsafe fn add(mut self, left: int8x16_t, right: [int8x16_t; 4]) -> Self {
        for q in 0..4 {
            // SAFETY: the caller's promise.
            self.0[q] = unsafe { F::add(self.0[q], left, right[q]) };
        }
        self
    }
}
