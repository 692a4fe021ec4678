//! How the sums of a row become its numbers.

use super::{Conversion, Place};
use crate::lanes::Lanes;
use crate::lowp::LINES;

/// A conversion that is known when a function is compiled.
pub(super) trait Numbers {
    const CONVERSION: Conversion;
}

macro_rules! numbers {
    ($($name:ident: $conversion:ident),+) => {$(
        pub(super) struct $name;

        impl Numbers for $name {
            const CONVERSION: Conversion = Conversion::$conversion;
        }
    )+};
}

numbers!(Kept: Keep, Biased: Add, Scaled: Scale, ScaledOnto: ScaleOnto);

/// What sixteen columns have in common in all rows.
#[derive(Clone, Copy)]
pub(super) struct Columns<L> {
    scales: L,
    bias: L,
}

impl<L: Lanes> Columns<L> {
    /// Of the columns from `at` of the place on, of which the first `some` count.
    ///
    /// # Safety
    /// As [`Rows`](super::Rows) says.
    #[inline(always)]
    pub unsafe fn of<N: Numbers>(place: &Place, at: usize, some: usize) -> Self {
        // SAFETY: the caller's promise; scales are there with integers.
        unsafe {
            let mut columns = Self { scales: L::zero(), bias: L::zero() };
            if matches!(N::CONVERSION, Conversion::Scale | Conversion::ScaleOnto) {
                columns.scales = L::load_first(place.scales[1].add(at), some);
            }
            if matches!(N::CONVERSION, Conversion::Add | Conversion::Scale) {
                columns.bias = L::load_first(place.bias.add(at), some);
            }
            columns
        }
    }

    /// The numbers of a row in these columns.
    ///
    /// # Safety
    /// As [`Rows`](super::Rows) says; the columns are those from `at` on.
    #[inline(always)]
    pub unsafe fn numbers<N: Numbers>(
        self,
        place: &Place,
        sums: *const f32,
        row: usize,
        at: usize,
        some: usize,
    ) -> L {
        // SAFETY: the caller's promise.
        unsafe {
            match N::CONVERSION {
                Conversion::Keep => L::load(sums),
                Conversion::Add => L::load(sums) + self.bias,
                Conversion::Scale | Conversion::ScaleOnto => {
                    let factor = L::splat(*place.scales[0].add(row)) * self.scales;
                    let onto = if matches!(N::CONVERSION, Conversion::Scale) {
                        self.bias
                    } else {
                        let c = place.region.c.wrapping_add(row * place.region.stride + at);
                        L::load_first(c, some)
                    };
                    integers::<L>(sums).fused(factor, onto)
                }
            }
        }
    }
}

/// Sixteen integers as numbers.
///
/// # Safety
/// The machine has `L`'s instructions; there are sixteen at `bits`.
#[inline(always)]
unsafe fn integers<L: Lanes>(bits: *const f32) -> L {
    let mut numbers = [0.0; LINES];
    // SAFETY: the caller's promise.
    unsafe {
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = (*bits.add(i)).to_bits().cast_signed() as f32;
        }
        L::load(numbers.as_ptr())
    }
}
