//! Sixteen `f32` in registers, the same sixteen on every instruction set.
//!
//! A kernel is written once, over `L: Lanes`, and compiled once per [`Isa`]. It holds sixteen numbers whatever the
//! machine: one AVX-512 register, two AVX2 registers, four NEON registers, or an array. Nothing that a kernel can see tells
//! it which, so nothing that it computes can depend on it.
//!
//! # Writing a kernel
//!
//! ```
//! use glassformer_cpu::dispatch;
//! use glassformer_cpu::isa::Isa;
//! use glassformer_cpu::lanes::{LANES, Lanes, exp};
//!
//! /// x ← exp(x · scale)
//! ///
//! /// # Safety
//! /// The machine has `L`'s instructions; `x` is valid for `n` reads and writes.
//! #[inline(always)]
//! unsafe fn scaled_exp<L: Lanes>(x: *mut f32, n: usize, scale: f32) {
//!     // SAFETY: the caller's promise; `i + LANES ≤ n` in the loop, and the tail touches `n − i < LANES` numbers.
//!     unsafe {
//!         let scale = L::splat(scale);
//!         let mut i = 0;
//!         while i + LANES <= n {
//!             exp(L::load(x.add(i)) * scale).store(x.add(i));
//!             i += LANES;
//!         }
//!         exp(L::load_first(x.add(i), n - i) * scale).store_first(x.add(i), n - i);
//!     }
//! }
//!
//! let mut x = vec![0.0_f32; 37];
//! for isa in Isa::available() {
//!     // SAFETY: `isa` is available, and the pointer and the length are those of one vector.
//!     unsafe { dispatch!(isa, scaled_exp(x.as_mut_ptr(), x.len(), 0.5)) };
//! }
//! ```
//!
//! Three rules:
//!
//! 1. Kernels, and every generic helper that they call with lanes, are `#[inline(always)]`. Only code that is inlined
//!    into the functions behind [`dispatch!`](crate::dispatch) is compiled with the wide instructions; the rest is
//!    still right, but slow. So also: plain loops rather than closures in the innermost parts.
//! 2. Making lanes (`splat`, `zero`, `load`) is `unsafe`: the machine must have the instructions. A value of the type
//!    proves that it does, so arithmetic on lanes is safe, has operators, and takes constants from [`Lanes::constant`].
//! 3. Where the order of a sum could show in the result, let lanes run across outputs, not along the sum; where it must
//!    run along (norms, softmax), [`Lanes::sum`] adds in one fixed order everywhere.
//!
//! [`Isa`]: crate::isa::Isa

use std::ops::{Add, Div, Mul, Neg, Range, Sub};

use crate::isa::Isa;

pub(crate) mod activation;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod bf16;
#[doc(hidden)]
pub mod dispatch;
pub(crate) mod map;
mod maths;
#[cfg(target_arch = "aarch64")]
mod neon;
mod prefetch;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod registers;
mod scalar;
mod transpose;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub(crate) use maths::polynomial;
pub use maths::{erf, exp, ln, sigmoid, tanh};
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub(crate) use prefetch::{prefetch, prefetch_l2};
pub use scalar::Scalar;

/// How many numbers a value of [`Lanes`] holds.
pub const LANES: usize = 16;

/// Sixteen `f32` in registers.
///
/// `+ − × ÷` and negation are lane by lane, each rounded once, as IEEE 754 says. The `unsafe` methods need a machine
/// that has the implementation's instructions; the others have a value as the proof of that.
pub trait Lanes:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// The instruction set.
    const ISA: Isa;

    /// Whether 24 values and what they are made of fit into registers: the 32 of AVX-512. Elsewhere a value is two registers, or four.
    const IS_WIDE: bool = false;

    /// Sixteen answers, one per lane.
    type Mask: Copy;

    /// Zero in every lane.
    ///
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::splat(0.0) }
    }

    /// `value` in every lane.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn splat(value: f32) -> Self;

    /// The same on a machine that has the instructions: these prove it.
    #[must_use]
    #[inline(always)]
    fn constant(self, value: f32) -> Self {
        // SAFETY: whoever made these promised the instructions.
        unsafe { Self::splat(value) }
    }

    /// The sixteen numbers from `from` on, at any alignment.
    ///
    /// # Safety
    /// The machine has the instructions; `from` is valid for sixteen reads.
    unsafe fn load(from: *const f32) -> Self;

    /// Writes sixteen numbers from `to` on, at any alignment.
    ///
    /// # Safety
    /// `to` is valid for sixteen writes.
    unsafe fn store(self, to: *mut f32);

    /// The first `n ≤ 16` numbers from `from` on, then zeros; memory beyond the `n` is not touched.
    ///
    /// # Safety
    /// The machine has the instructions; `n ≤ 16`; `from` is valid for `n` reads.
    unsafe fn load_first(from: *const f32, n: usize) -> Self;

    /// Writes the first `n ≤ 16` lanes from `to` on; memory beyond the `n` is not touched.
    ///
    /// # Safety
    /// `n ≤ 16`; `to` is valid for `n` writes.
    unsafe fn store_first(self, to: *mut f32, n: usize);

    /// `self · factor + term`, rounded once; on [`Scalar`] rounded twice.
    #[must_use]
    fn fma(self, factor: Self, term: Self) -> Self;

    /// The same, rounded once on every machine: for what must have the same bits on all of them.
    #[must_use]
    #[inline(always)]
    fn fused(self, factor: Self, term: Self) -> Self {
        self.fma(factor, term)
    }

    /// The larger, lane by lane; `other` where either is NaN (so `bound.max(x)` lets a NaN of `x` through).
    #[must_use]
    fn max(self, other: Self) -> Self;

    /// The smaller, lane by lane; `other` where either is NaN (so `bound.min(x)` lets a NaN of `x` through).
    #[must_use]
    fn min(self, other: Self) -> Self;

    /// Without its sign.
    #[must_use]
    fn abs(self) -> Self;

    /// The nearest integer, of two the even one.
    #[must_use]
    fn round(self) -> Self;

    /// Where `self < other`; a NaN is neither less nor more.
    fn less_than(self, other: Self) -> Self::Mask;

    /// `yes` where the mask holds, `no` elsewhere.
    #[must_use]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;

    /// `self · 2^exponent` for `|self|` between ¼ and 4: rounded once, also where the result is subnormal or overflows.
    /// The exponents are integers from −252 to 254.
    #[must_use]
    #[inline(always)]
    fn scale_by_power(self, exponent: Self) -> Self {
        let half = (exponent * exponent.constant(0.5)).round();
        self * half.power() * (exponent - half).power()
    }

    /// 2^n for integers from −126 to 127.
    #[must_use]
    fn power(self) -> Self;

    /// The mantissa in [1, 2) and the exponent `e` with `self = mantissa · 2^e`, for positive normal numbers; for all
    /// others, whatever their bits say.
    fn split(self) -> (Self, Self);

    /// Eight rows of sixteen columns, column by column: each of the results has two columns of eight.
    #[must_use]
    #[inline(always)]
    fn transpose_eight(rows: [Self; 8]) -> [Self; 8] {
        let mut numbers = [[0.0; LANES]; 8];
        for row in 0..8 {
            numbers[row] = rows[row].to_array();
        }
        let mut transposed = rows;
        for pair in 0..8 {
            let mut columns = [0.0; LANES];
            for row in 0..8 {
                columns[row] = numbers[row][2 * pair];
                columns[8 + row] = numbers[row][2 * pair + 1];
            }
            // SAFETY: the rows prove the instructions; there are sixteen numbers.
            transposed[pair] = unsafe { Self::load(columns.as_ptr()) };
        }
        transposed
    }

    /// Rows into columns: `to[d · 16 + lane] = from[lane · stride + d]` for d below `size`; zero in all lanes outside of `lanes`, whose rows are
    /// not read.
    ///
    /// # Safety
    /// The machine has the instructions; the rows of `lanes` are valid for `size` reads, `to` for 16 · `size` writes.
    #[inline(always)]
    unsafe fn transpose(from: *const f32, stride: isize, lanes: Range<usize>, size: usize, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { transpose::plain(from, stride, 0..LANES, &lanes, 0..size, to) };
    }

    /// The bits of each lane as two numbers in `bf16`: those in the lower halves, and those in the upper ones.
    #[must_use]
    fn unpack_bf16(self) -> [Self; 2];

    /// All sixteen added, in one order for every implementation: halves onto halves, 8 + 8, 4 + 4, 2 + 2, 1 + 1.
    fn sum(self) -> f32;

    /// The largest of the sixteen. If one is NaN, the result may be any of them.
    fn largest(self) -> f32;

    /// The sixteen numbers as an array.
    fn to_array(self) -> [f32; LANES] {
        let mut array = [0.0; LANES];
        // SAFETY: the array has sixteen places.
        unsafe { self.store(array.as_mut_ptr()) };
        array
    }
}

#[cfg(test)]
mod tests;
