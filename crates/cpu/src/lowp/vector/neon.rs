//! Steps of integers for NEON, with `sdot` or without it.

use super::{Patch, Step, Widened, rows, steps_alone};
use crate::lanes::Neon;
use crate::lowp::neon::{Fours, Pairs, Sdot};
use crate::lowp::{Dot, Format};
use std::arch::aarch64::{int8x16_t, int32x4_t, vdupq_n_u32, vld1q_s8, vreinterpretq_s8_u32};
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
    unsafe { rows::<Widened<Neon>, 4, 1>(patch) }
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
