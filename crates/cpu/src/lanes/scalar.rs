//! Sixteen lanes in an array, for any machine.
//!
//! `fma` multiplies, rounds and adds: a fused one without the instruction is a call into the C library, fifty times as
//! slow. The compiler vectorises these loops with what the target always has (SSE2, NEON).
//!
//! Arithmetic is never inlined: a machine without vector instructions is rare, and each kernel would be twice as large for it.

use super::{LANES, Lanes};
use crate::isa::Isa;

/// Sixteen lanes in an array.
#[derive(Clone, Copy, Debug)]
pub struct Scalar([f32; LANES]);

impl Scalar {
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> Self {
        Self(self.0.map(f))
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let mut result = self;
        for (x, y) in result.0.iter_mut().zip(other.0) {
            *x = f(*x, y);
        }
        result
    }

    /// Halves onto halves until one is left.
    #[inline(always)]
    fn fold(self, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut x = self.0;
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                x[i] = f(x[i], x[i + half]);
            }
            half /= 2;
        }
        x[0]
    }
}

macro_rules! operator {
    ($name:ident, $method:ident, $symbol:tt) => {
        impl std::ops::$name for Scalar {
            type Output = Self;
            #[inline(never)]
            fn $method(self, other: Self) -> Self {
                self.zip(other, |x, y| x $symbol y)
            }
        }
    };
}

operator!(Add, add, +);
operator!(Sub, sub, -);
operator!(Mul, mul, *);
operator!(Div, div, /);

impl std::ops::Neg for Scalar {
    type Output = Self;
    #[inline(never)]
    fn neg(self) -> Self {
        self.map(|x| -x)
    }
}

#[inline(always)]
fn larger(x: f32, y: f32) -> f32 {
    if x > y { x } else { y }
}

impl Lanes for Scalar {
    const ISA: Isa = Isa::Scalar;

    type Mask = [bool; LANES];

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise; an array of `f32` is aligned as one `f32` is.
        Self(unsafe { from.cast::<[f32; LANES]>().read() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as for `load`.
        unsafe { to.cast::<[f32; LANES]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, n: usize) -> Self {
        let mut result = [0.0; LANES];
        // SAFETY: the caller promises `n` reads, and `n` is at most the array's length.
        unsafe { from.copy_to_nonoverlapping(result.as_mut_ptr(), n) };
        Self(result)
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, n: usize) {
        // SAFETY: the caller promises `n` writes, and `n` is at most the array's length.
        unsafe { to.copy_from_nonoverlapping(self.0.as_ptr(), n) };
    }

    #[inline(never)]
    fn fma(self, factor: Self, term: Self) -> Self {
        self * factor + term
    }

    #[inline(never)]
    fn fused(self, factor: Self, term: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].mul_add(factor.0[i], term.0[i])))
    }

    #[inline(never)]
    fn max(self, other: Self) -> Self {
        self.zip(other, larger)
    }

    #[inline(never)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |x, y| if x < y { x } else { y })
    }

    #[inline(never)]
    fn abs(self) -> Self {
        self.map(f32::abs)
    }

    #[inline(never)]
    fn round(self) -> Self {
        self.map(f32::round_ties_even)
    }

    #[inline(never)]
    fn less_than(self, other: Self) -> Self::Mask {
        let mut mask = [false; LANES];
        for (m, (x, y)) in mask.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            *m = x < y;
        }
        mask
    }

    #[inline(never)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        let mut result = no;
        for (x, (m, y)) in result.0.iter_mut().zip(mask.into_iter().zip(yes.0)) {
            *x = if m { y } else { *x };
        }
        result
    }

    #[inline(never)]
    fn power(self) -> Self {
        self.map(|n| f32::from_bits(((n as i32 + 127) as u32) << 23))
    }

    #[inline(never)]
    fn split(self) -> (Self, Self) {
        let mantissa = self.map(|x| f32::from_bits(x.to_bits() & 0x007F_FFFF | 0x3F80_0000));
        let exponent = self.map(|x| ((x.to_bits() >> 23) as i32 - 127) as f32);
        (mantissa, exponent)
    }

    #[inline(never)]
    fn unpack_bf16(self) -> [Self; 2] {
        let bits = |keep: fn(u32) -> u32| self.map(|x| f32::from_bits(keep(x.to_bits())));
        [bits(|x| x << 16), bits(|x| x & 0xFFFF_0000)]
    }

    #[inline(never)]
    fn sum(self) -> f32 {
        self.fold(|x, y| x + y)
    }

    #[inline(never)]
    fn largest(self) -> f32 {
        self.fold(larger)
    }
}
