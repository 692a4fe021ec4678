//! How the sums of a row become its numbers.
#![allow(clippy::inline_always)] // the first rule of `lanes`

use super::Place;
use crate::lanes::Lanes;
use crate::lowp::LINES;

/// How sums become numbers.
pub(super) trait Numbers {
    /// What sixteen columns have in common in all rows, of which the first `some` count, from column `at` of the place on: a factor, and
    /// what is added.
    ///
    /// # Safety
    /// As [`Rows`](super::Rows) says.
    unsafe fn columns<L: Lanes>(place: &Place, at: usize, some: usize) -> [L; 2];

    /// The numbers of a row there.
    ///
    /// # Safety
    /// As [`Rows`](super::Rows) says; the columns are these.
    unsafe fn at<L: Lanes>(
        place: &Place,
        columns: [L; 2],
        sums: *const f32,
        row: usize,
        at: usize,
        some: usize,
    ) -> L;
}

pub(super) struct Kept;
pub(super) struct Biased;
pub(super) struct Scaled;
pub(super) struct ScaledOnto;

/// The bias of sixteen columns.
///
/// # Safety
/// As [`Rows`](super::Rows) says.
#[inline(always)]
unsafe fn bias<L: Lanes>(place: &Place, at: usize, some: usize) -> L {
    // SAFETY: the caller's promise.
    unsafe { L::load_first(place.bias.add(at), some) }
}

/// The scales of sixteen columns.
///
/// # Safety
/// As [`Rows`](super::Rows) says.
#[inline(always)]
unsafe fn scales<L: Lanes>(place: &Place, at: usize, some: usize) -> L {
    // SAFETY: the caller's promise.
    unsafe { L::load_first(place.scales[1].add(at), some) }
}

/// What integers of a row are multiplied by, where columns have these scales.
///
/// # Safety
/// As [`Rows`](super::Rows) says.
#[inline(always)]
unsafe fn factor<L: Lanes>(place: &Place, row: usize, scales: L) -> L {
    // SAFETY: the caller's promise.
    unsafe { L::splat(*place.scales[0].add(row)) * scales }
}

impl Numbers for Kept {
    #[inline(always)]
    unsafe fn columns<L: Lanes>(_: &Place, _: usize, _: usize) -> [L; 2] {
        // SAFETY: the caller's promise.
        [unsafe { L::zero() }; 2]
    }

    #[inline(always)]
    unsafe fn at<L: Lanes>(_: &Place, _: [L; 2], sums: *const f32, _: usize, _: usize, _: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load(sums) }
    }
}

impl Numbers for Biased {
    #[inline(always)]
    unsafe fn columns<L: Lanes>(place: &Place, at: usize, some: usize) -> [L; 2] {
        // SAFETY: the caller's promise.
        unsafe { [L::zero(), bias(place, at, some)] }
    }

    #[inline(always)]
    unsafe fn at<L: Lanes>(
        _: &Place,
        [_, bias]: [L; 2],
        sums: *const f32,
        _: usize,
        _: usize,
        _: usize,
    ) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load(sums) + bias }
    }
}

impl Numbers for Scaled {
    #[inline(always)]
    unsafe fn columns<L: Lanes>(place: &Place, at: usize, some: usize) -> [L; 2] {
        // SAFETY: the caller's promise.
        unsafe { [scales(place, at, some), bias(place, at, some)] }
    }

    #[inline(always)]
    unsafe fn at<L: Lanes>(
        place: &Place,
        [scales, bias]: [L; 2],
        sums: *const f32,
        row: usize,
        _: usize,
        _: usize,
    ) -> L {
        // SAFETY: the caller's promise.
        unsafe { integers::<L>(sums).fused(factor(place, row, scales), bias) }
    }
}

impl Numbers for ScaledOnto {
    #[inline(always)]
    unsafe fn columns<L: Lanes>(place: &Place, at: usize, some: usize) -> [L; 2] {
        // SAFETY: the caller's promise.
        unsafe { [scales(place, at, some), L::zero()] }
    }

    #[inline(always)]
    unsafe fn at<L: Lanes>(
        place: &Place,
        [scales, _]: [L; 2],
        sums: *const f32,
        row: usize,
        at: usize,
        some: usize,
    ) -> L {
        let c = place.region.c.wrapping_add(row * place.region.stride + at);
        // SAFETY: the caller's promise.
        unsafe { integers::<L>(sums).fused(factor(place, row, scales), L::load_first(c, some)) }
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
