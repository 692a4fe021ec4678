//! What is done to the rows of a whole patch on AMX: two lines of numbers, with nothing to decide on the way.
#![allow(clippy::inline_always)] // the first rule of `lanes`

use std::marker::PhantomData;

use super::numbers::{Biased, Columns, Kept, Numbers, Scaled, ScaledOnto};
use super::{Conversion, Finish, Place, Rows, is_f32};
use crate::epilogue::{Combine, Epilogue, Gated, Store, Sum, Two};
use crate::lanes::activation::{ActivationFn, with_activation};
use crate::lanes::{Avx512, Lanes};
use crate::lowp::LINES;
use crate::lowp::patch::Sums;

/// What is done to numbers once they are converted.
trait Applied {
    /// # Safety
    /// As [`Rows`] says.
    unsafe fn at(x: Avx512, place: &Place, row: usize, at: usize) -> Avx512;
}

struct Nothing;
struct Activated<F>(PhantomData<F>);
struct With<T>(PhantomData<T>);

impl Applied for Nothing {
    #[inline(always)]
    unsafe fn at(x: Avx512, _: &Place, _: usize, _: usize) -> Avx512 {
        x
    }
}

impl<F: ActivationFn> Applied for Activated<F> {
    #[inline(always)]
    unsafe fn at(x: Avx512, _: &Place, _: usize, _: usize) -> Avx512 {
        F::value(x)
    }
}

impl<T: Two> Applied for With<T> {
    #[inline(always)]
    unsafe fn at(x: Avx512, place: &Place, row: usize, at: usize) -> Avx512 {
        let (Combine::Add(other) | Combine::Gate(_, other)) = place.epilogue.combine else {
            unreachable!("`fused` picks it for these")
        };
        let [first, left] = place.region.corner;
        // SAFETY: the caller's promise.
        T::at(x, unsafe { Avx512::load(other.start.add((first + row) * other.stride + left + at)) })
    }
}

/// [`Rows`] that apply what follows, too. To C past the caches if `FAR`, which begins with a line then.
///
/// # Safety
/// As [`Rows`] says; the patch is as wide as two lines, and the machine has AVX-512.
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")]
unsafe fn square<N: Numbers, A: Applied, const FAR: bool>(
    place: &Place,
    column: usize,
    sums: *mut Sums,
    from: usize,
    to: usize,
) {
    let (numbers, stride) = place.numbers(column, sums);
    // SAFETY: the caller's promise.
    unsafe {
        let left = Columns::<Avx512>::of::<N>(place, column, LINES);
        let right = Columns::<Avx512>::of::<N>(place, column + LINES, LINES);
        for row in from..to {
            let sums = sums.cast::<f32>().add(row * 2 * LINES);
            let to = numbers.add(row * stride);
            for (columns, at) in [(left, 0), (right, LINES)] {
                let x = columns.numbers::<N>(place, sums.add(at), row, column + at, LINES);
                let x = A::at(x, place, row, column + at);
                if FAR { x.store_far(to.add(at)) } else { x.store(to.add(at)) }
            }
        }
    }
}

/// What is done to rows of whole squares on a machine with AMX.
pub(in crate::lowp) fn fused(conversion: Conversion, epilogue: &Epilogue) -> Finish {
    let rows: Option<Rows> = match conversion {
        Conversion::Keep => Some(square::<Kept, Nothing, false>),
        Conversion::Add => applied::<Biased>(epilogue),
        Conversion::Scale => applied::<Scaled>(epilogue),
        Conversion::ScaleOnto => applied::<ScaledOnto>(epilogue),
    };
    match rows {
        Some(rows) => Finish { rows, is_all: is_f32(epilogue), applies: true },
        None => super::finish(crate::isa::Isa::Avx512, conversion, epilogue),
    }
}

/// Those of what is frequent.
fn applied<N: Numbers>(epilogue: &Epilogue) -> Option<Rows> {
    if epilogue.keep.is_some() {
        return None;
    }
    match (epilogue.activation, epilogue.combine) {
        (None, Combine::Nothing) if epilogue.store == Store::Streaming => Some(square::<N, Nothing, true>),
        (None, Combine::Nothing) => Some(square::<N, Nothing, false>),
        (Some(act), Combine::Nothing) => with_activation!(act, |F| Some(square::<N, Activated<F>, false>)),
        (None, Combine::Add(_)) => Some(square::<N, With<Sum>, false>),
        (None, Combine::Gate(act, _)) => with_activation!(act, |F| Some(square::<N, With<Gated<F>>, false>)),
        (Some(_), _) | (None, Combine::Derivative(..) | Combine::DerivativeBf16(..)) => None,
    }
}
