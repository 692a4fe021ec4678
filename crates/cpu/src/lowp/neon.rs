//! Integers four at a time on NEON: what [`super::vector`] and [`super::coded`] share.

use std::arch::aarch64::*;
use std::arch::asm;

/// How four sums get the products of four integers each.
pub(super) trait Fours: Copy {
    /// `sums[i] + Σ x[4·i + j] · y[4·i + j]`, exactly, where one side is never -128.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn add(sums: int32x4_t, x: int8x16_t, y: int8x16_t) -> int32x4_t;
}

/// By `smull` and two additions of pairs. The first is in sixteen bits: two products of at most 128 · 127 fit.
#[derive(Clone, Copy)]
pub(super) struct Pairs;

impl Fours for Pairs {
    #[inline(always)]
    unsafe fn add(sums: int32x4_t, x: int8x16_t, y: int8x16_t) -> int32x4_t {
        // SAFETY: the caller's promise.
        unsafe {
            let low = vmull_s8(vget_low_s8(x), vget_low_s8(y));
            vpadalq_s16(sums, vpaddq_s16(low, vmull_high_s8(x, y)))
        }
    }
}

/// By `sdot`, which does all of it. Its intrinsic is newer than the oldest compiler that we support.
#[derive(Clone, Copy)]
pub(super) struct Sdot;

impl Fours for Sdot {
    #[inline(always)]
    unsafe fn add(mut sums: int32x4_t, x: int8x16_t, y: int8x16_t) -> int32x4_t {
        // SAFETY: the caller's promise; only registers change.
        unsafe {
            asm!(
                "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
                inout(vreg) sums,
                in(vreg) x,
                in(vreg) y,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sums
    }
}
