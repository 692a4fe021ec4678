//! What is done to the rows of a whole patch on AMX: two lines of numbers, with nothing to decide on the way.

use std::marker::PhantomData;

use super::numbers::{Biased, Columns, Kept, Numbers, Scaled, ScaledOnto};
use super::{Conversion, Finish, Place, Rows, is_f32};
use crate::epilogue::{Combine, Epilogue, Region, Store};
use crate::lanes::activation::{ActivationFn, with_activation};
use crate::lanes::{Avx512, Lanes};
use crate::lowp::patch::Sums;
use crate::lowp::{Dot, LINES};

/// What is done to numbers once they are converted.
trait Applied {
    /// # Safety
    /// As [`Rows`] says.
    unsafe fn at(x: Avx512, place: &Place, row: usize, at: usize) -> Avx512;
}

struct Nothing;
struct Activated<F>(PhantomData<F>);
struct Added;
struct Gated<F>(PhantomData<F>);

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

impl Applied for Added {
    #[inline(always)]
    unsafe fn at(x: Avx512, place: &Place, row: usize, at: usize) -> Avx512 {
        // SAFETY: the caller's promise.
        x + unsafe { other(place, row, at) }
    }
}

impl<F: ActivationFn> Applied for Gated<F> {
    #[inline(always)]
    unsafe fn at(x: Avx512, place: &Place, row: usize, at: usize) -> Avx512 {
        // SAFETY: the caller's promise.
        F::value(unsafe { other(place, row, at) }) * x
    }
}

/// The numbers of the other matrix.
///
/// # Safety
/// As [`Rows`] says.
#[inline(always)]
unsafe fn other(place: &Place, row: usize, at: usize) -> Avx512 {
    let (Combine::Add(other) | Combine::Gate(_, other)) = place.epilogue.combine else {
        unreachable!("`fused` picks it for these")
    };
    let [first, left] = place.region.corner;
    // SAFETY: the caller's promise.
    unsafe { Avx512::load(other.start.add((first + row) * other.stride + left + at)) }
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

/// The same, rounded to `bf16`: of each row a line, among tiles or in C.
///
/// # Safety
/// As [`square`] says; C is not `f32`, and the machine has AVX-512 BF16.
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn rounded_square<N: Numbers, A: Applied>(
    place: &Place,
    column: usize,
    sums: *mut Sums,
    from: usize,
    to: usize,
) {
    let Region { c, stride, .. } = place.region;
    let scale = if let Store::ScaledBf16(scale) = place.epilogue.store { scale } else { 1.0 };
    // SAFETY: the caller's promise.
    unsafe {
        let scale = Avx512::splat(scale);
        let left = Columns::<Avx512>::of::<N>(place, column, LINES);
        let right = Columns::<Avx512>::of::<N>(place, column + LINES, LINES);
        for row in from..to {
            let sums = sums.cast::<f32>().add(row * 2 * LINES);
            let number = |columns: Columns<Avx512>, at: usize| {
                let x = columns.numbers::<N>(place, sums.add(at), row, column + at, LINES);
                A::at(x, place, row, column + at) * scale
            };
            let to = match place.epilogue.store {
                Store::Bf16Tiles(tiles) => place.line(tiles, column, row),
                Store::F32 | Store::Streaming | Store::ScaledBf16(_) => {
                    c.cast::<u16>().add(row * stride + column)
                }
            };
            number(left, 0).store_bf16(number(right, LINES), to);
        }
    }
}

/// What is done to rows of whole squares on a machine with AMX.
pub(in crate::lowp) fn fused(conversion: Conversion, epilogue: &Epilogue) -> Finish {
    let rounds = !is_f32(epilogue) && Dot::Avx512Dot.is_available();
    let of_rows = |rows: Option<Rows>, rounded: Option<Rows>| {
        let finish = |rows| Finish { rows, is_all: is_f32(epilogue), applies: true };
        let rounded = rounded.filter(|_| rounds).map(|rows| Finish { rows, is_all: true, applies: true });
        rounded.or(rows.map(finish))
    };
    let finish = match conversion {
        Conversion::Keep => of_rows(Some(square::<Kept, Nothing, false>), None),
        Conversion::Add => of_rows(applied::<Biased>(epilogue), rounded::<Biased>(epilogue)),
        Conversion::Scale => of_rows(applied::<Scaled>(epilogue), rounded::<Scaled>(epilogue)),
        Conversion::ScaleOnto => of_rows(applied::<ScaledOnto>(epilogue), rounded::<ScaledOnto>(epilogue)),
    };
    finish.unwrap_or_else(|| super::finish(crate::isa::Isa::Avx512, conversion, epilogue))
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
        (None, Combine::Add(_)) => Some(square::<N, Added, false>),
        (None, Combine::Gate(act, _)) => with_activation!(act, |F| Some(square::<N, Gated<F>, false>)),
        (Some(_), _) | (None, Combine::Derivative(..) | Combine::DerivativeBf16(..)) => None,
    }
}

/// Those of what is frequent where C is `bf16`: queries, keys and values, and inner layers.
fn rounded<N: Numbers>(epilogue: &Epilogue) -> Option<Rows> {
    if epilogue.keep.is_some() {
        return None;
    }
    match (epilogue.activation, epilogue.combine) {
        (None, Combine::Nothing) => Some(rounded_square::<N, Nothing>),
        (Some(act), Combine::Nothing) => with_activation!(act, |F| Some(rounded_square::<N, Activated<F>>)),
        (None, Combine::Gate(act, _)) => {
            with_activation!(act, |F| Some(rounded_square::<N, Gated<F>>))
        }
        _ => None,
    }
}
