//! What is done to the numbers of a row before they are written.
#![allow(clippy::inline_always)] // the first rule of `lanes`

use std::marker::PhantomData;

use super::{Place, line_of};
use crate::epilogue::Two;
use crate::lanes::Lanes;
use crate::lanes::activation::ActivationFn;
use crate::lanes::bf16::{from_bf16, to_bf16};
use crate::lowp::{Format, LINES};

/// What follows.
pub(super) trait Follows {
    /// For the same numbers.
    ///
    /// # Safety
    /// As [`Rows`](super::Rows) says.
    unsafe fn at<L: Lanes>(x: L, place: &Place, row: usize, at: usize, some: usize) -> L;
}

pub(super) struct Nothing;
pub(super) struct ActivationKind<B>(PhantomData<B>);
pub(super) struct With<T>(PhantomData<T>);
pub(super) struct BentAndKept<B>(PhantomData<B>);
pub(super) struct NarrowSloped<B>(PhantomData<B>);

impl Follows for Nothing {
    #[inline(always)]
    unsafe fn at<L: Lanes>(x: L, _: &Place, _: usize, _: usize, _: usize) -> L {
        x
    }
}

impl<B: ActivationFn> Follows for ActivationKind<B> {
    #[inline(always)]
    unsafe fn at<L: Lanes>(x: L, _: &Place, _: usize, _: usize, _: usize) -> L {
        B::value(x)
    }
}

impl<T: Two> Follows for With<T> {
    #[inline(always)]
    unsafe fn at<L: Lanes>(x: L, place: &Place, row: usize, at: usize, some: usize) -> L {
        let (start, stride) = place.other;
        // SAFETY: the caller's promise.
        T::at(x, unsafe { L::load_first(start.add(row * stride + at), some) })
    }
}

impl<B: ActivationFn> Follows for BentAndKept<B> {
    #[inline(always)]
    unsafe fn at<L: Lanes>(x: L, place: &Place, row: usize, at: usize, _: usize) -> L {
        let numbers = x.to_array();
        // SAFETY: the caller's promise; whole lines belong to the place.
        unsafe {
            let to = half_line_of(place, at, row);
            for (i, &number) in numbers.iter().enumerate() {
                *to.add(i) = to_bf16(number);
            }
        }
        B::value(x)
    }
}

impl<B: ActivationFn> Follows for NarrowSloped<B> {
    #[inline(always)]
    unsafe fn at<L: Lanes>(x: L, place: &Place, row: usize, at: usize, _: usize) -> L {
        let mut numbers = [0.0; LINES];
        // SAFETY: the caller's promise; whole lines belong to the place.
        unsafe {
            let from = half_line_of(place, at, row);
            for (i, number) in numbers.iter_mut().enumerate() {
                *number = from_bf16(*from.add(i));
            }
            B::slope(L::load(numbers.as_ptr())) * x
        }
    }
}

/// Where a row of what is kept is, from a column on: sixteen numbers.
#[inline(always)]
fn half_line_of(place: &Place, column: usize, row: usize) -> *mut u16 {
    let first = (place.part.corner[1] + column) % Format::Bf16.depth();
    line_of(place, column, row, place.other.0.cast_mut()).wrapping_add(first)
}
