//! The loop for NEON, with `sdot` or without it.
//!
//! Both sides have signs there. Codes of up to six bits are positive; those of eight are taken as 128 less than they are.

use std::arch::aarch64::*;
use std::arch::asm;
use std::marker::PhantomData;

use glassformer_tensor::Bits;

use super::strip::{Sums, rows};
use super::{Item, LINE, LINES, by_coding};
use crate::lanes::{Lanes, Neon};
use crate::lowp::Dot;
use crate::lowp::neon::{Fours, Pairs, Sdot};

/// # Safety
/// The machine has `dot`; as [`super::CodedGemm::run_item`] says.
pub(super) unsafe fn run(dot: Dot, item: &Item<'_>) {
    let coding = item.product.coding;
    // SAFETY: the caller's promise.
    unsafe {
        match dot {
            Dot::Neon => by_coding!(coding, plain(item)),
            Dot::NeonDot => by_coding!(coding, sdot(item)),
            _ => unreachable!("{dot} multiplies elsewhere"),
        }
    }
}

/// # Safety
/// The machine has NEON; as for [`run`].
#[target_feature(enable = "neon")]
unsafe fn plain<const BITS: usize, const SIXTEENS: usize>(item: &Item<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = rows::<Integers<Pairs>, BITS, SIXTEENS, 4, 1>(item, item.rows.start);
        rows::<Integers<Pairs>, BITS, SIXTEENS, 1, 2>(item, row);
    }
}

/// # Safety
/// The machine has NEON and `sdot`; as for [`run`].
#[target_feature(enable = "neon,dotprod")]
unsafe fn sdot<const BITS: usize, const SIXTEENS: usize>(item: &Item<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = rows::<Integers<Sdot>, BITS, SIXTEENS, 4, 1>(item, item.rows.start);
        rows::<Integers<Sdot>, BITS, SIXTEENS, 1, 2>(item, row);
    }
}

/// Sixteen sums in four registers.
#[derive(Clone, Copy)]
struct Integers<F>([int32x4_t; 4], PhantomData<F>);

impl<F: Fours> Sums for Integers<F> {
    type Numbers = Neon;
    type Codes = [int8x16_t; 4];
    type Left = int8x16_t;

    #[inline(always)]
    unsafe fn begin<const BITS: usize>(with: i32) -> Self {
        // With eight bits the offset, 128, is taken away from the codes themselves.
        let with = if BITS == 8 { 0 } else { with };
        // SAFETY: the caller's promise.
        Self(unsafe { [vdupq_n_s32(with); 4] }, PhantomData)
    }

    #[inline(always)]
    unsafe fn codes<const BITS: usize>(from: *const u8) -> [[int8x16_t; 4]; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b) = (quarter_codes::<BITS>(from), quarter_codes::<BITS>(from.add(16)));
            let (c, d) = (quarter_codes::<BITS>(from.add(32)), quarter_codes::<BITS>(from.add(48)));
            let four = |four: usize| [a[four], b[four], c[four], d[four]];
            [four(0), four(1), four(2), four(3)]
        }
    }

    #[inline(always)]
    unsafe fn left(from: *const u8) -> int8x16_t {
        // SAFETY: the caller's promise.
        unsafe { vreinterpretq_s8_s32(vld1q_dup_s32(from.cast())) }
    }

    #[inline(always)]
    unsafe fn add<const BITS: usize>(mut self, codes: [int8x16_t; 4], left: int8x16_t) -> Self {
        for q in 0..4 {
            // SAFETY: the caller's promise.
            self.0[q] = unsafe { F::add(self.0[q], codes[q], left) };
        }
        self
    }

    #[inline(always)]
    unsafe fn f16(from: *const u8) -> Neon {
        // SAFETY: the caller's promise.
        unsafe {
            let quarter = |at: usize| widen(from.add(at).cast());
            four([quarter(0), quarter(8), quarter(16), quarter(24)])
        }
    }
}

/// Four `f16` as `f32`. The intrinsic is newer than the oldest compiler that we support.
///
/// # Safety
/// The machine has NEON; they are there.
#[inline(always)]
unsafe fn widen(from: *const u16) -> float32x4_t {
    let wide;
    // SAFETY: the caller's promise; only registers change.
    unsafe {
        asm!(
            "fcvtl {0:v}.4s, {1:v}.4h",
            lateout(vreg) wide,
            in(vreg) vld1_u16(from),
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    wide
}

/// Four registers as lanes. The compiler sees through the array.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn four(quarters: [float32x4_t; 4]) -> Neon {
    let mut numbers = [0.0_f32; LINES];
    // SAFETY: the array has sixteen places.
    unsafe {
        for q in 0..4 {
            vst1q_f32(numbers.as_mut_ptr().add(4 * q), quarters[q]);
        }
        Neon::load(numbers.as_ptr())
    }
}

/// The codes of four columns at sixteen steps, from where they begin in the first line.
///
/// # Safety
/// The machine has NEON; the lines are there.
#[inline(always)]
unsafe fn quarter_codes<const BITS: usize>(from: *const u8) -> [int8x16_t; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let line = |at: usize| vld1q_u8(from.add(at * LINE));
        if BITS == 8 {
            let around = |at: usize| vreinterpretq_s8_u8(veorq_u8(line(at), vdupq_n_u8(128)));
            return [around(0), around(1), around(2), around(3)];
        }
        let both = |codes: uint8x16_t| [vandq_u8(codes, vdupq_n_u8(15)), vshrq_n_u8::<4>(codes)];
        let ([a, b], [c, d]) = (both(line(0)), both(line(1)));
        if BITS == 4 {
            let signed = |codes: uint8x16_t| vreinterpretq_s8_u8(codes);
            return [signed(a), signed(b), signed(c), signed(d)];
        }
        let upper = line(2);
        let with = |codes: uint8x16_t, moved: uint8x16_t| {
            vreinterpretq_s8_u8(vorrq_u8(codes, vandq_u8(moved, vdupq_n_u8(0x30))))
        };
        [
            with(a, vshlq_n_u8::<4>(upper)),
            with(b, vshlq_n_u8::<2>(upper)),
            with(c, upper),
            with(d, vshrq_n_u8::<2>(upper)),
        ]
    }
}
