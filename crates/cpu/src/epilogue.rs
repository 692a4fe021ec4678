//! What follows a product, number by number, done while C is still in the nearest cache.
//!
//! The operations are those of the steps that it replaces, in the same order, so a fused product has the bits of a product
//! and a step behind it. Here it is done in place, a few rows at a time: storing and loading once more costs two instructions of
//! the dozens of an activation, and leaves one loop for each of them instead of one for each kind of product. Products of narrow
//! numbers, which are fast enough to notice, do it in registers (`narrow/finish.rs`).
#![allow(clippy::inline_always)] // see the rules in `lanes`

use std::marker::PhantomData;

use crate::lanes::activation::{ActivationFn, ActivationKind, with_activation};
use crate::lanes::{LANES, Lanes, prefetch_l2};

/// What is done to every number x of C, after the bias was added.
#[derive(Clone, Copy, Debug, Default)]
pub enum Then {
    /// Nothing.
    #[default]
    Nothing,
    /// f(x).
    Activate(ActivationKind),
    /// x + o: a residual.
    Add(Other),
    /// f(o) · x: o is the gate of a gated layer, and x what it lets through.
    Gate(ActivationKind, Other),
    /// f′(o) · x: f bent o on the way there, and x is the gradient on the way back.
    Slope(ActivationKind, Other),
    /// Of a product in `bf16`: f(x), and x itself is kept here for the way back, where the A of another product would have it. Behind
    /// the last column there may be anything.
    ActivateAndKeep(ActivationKind, *mut f32),
    /// Of a product in `bf16`: f′(o) · x, where o was kept so.
    NarrowSlope(ActivationKind, *const f32),
}

/// A matrix of the shape of C, row-major: its number o stands where x stands in C.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    /// Its first number.
    pub start: *const f32,
    /// How far apart its rows begin.
    pub stride: usize,
}

/// A part of C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// Its first row and column in C.
    pub corner: [usize; 2],
    pub rows: usize,
    pub columns: usize,
    /// Its first number.
    pub c: *mut f32,
    /// How far apart the rows of C begin.
    pub stride: usize,
}

/// x and o together.
pub(crate) trait Two {
    fn at<L: Lanes>(x: L, other: L) -> L;
}

pub(crate) struct Sum;
pub(crate) struct Gated<B>(PhantomData<B>);
pub(crate) struct Sloped<B>(PhantomData<B>);

impl Two for Sum {
    #[inline(always)]
    fn at<L: Lanes>(x: L, other: L) -> L {
        x + other
    }
}

impl<B: ActivationFn> Two for Gated<B> {
    #[inline(always)]
    fn at<L: Lanes>(x: L, gate: L) -> L {
        B::value(gate) * x
    }
}

impl<B: ActivationFn> Two for Sloped<B> {
    #[inline(always)]
    fn at<L: Lanes>(x: L, bent: L) -> L {
        B::slope(bent) * x
    }
}

impl Then {
    /// Asks for what it will read beside a part of C.
    #[inline(always)]
    pub(crate) fn fetch(self, part: &Region) {
        if let Self::Add(other) | Self::Gate(_, other) | Self::Slope(_, other) = self {
            let start = other.start.wrapping_add(part.corner[0] * other.stride + part.corner[1]);
            for row in 0..part.rows {
                for at in (0..part.columns).step_by(LANES) {
                    prefetch_l2(start.wrapping_add(row * other.stride + at));
                }
            }
        }
    }

    /// Does it to a part of C.
    ///
    /// # Safety
    /// The machine has `L`'s instructions; the part is valid for reads and writes, and the other matrix, where there is one,
    /// for reads.
    #[inline(always)]
    pub(crate) unsafe fn run<L: Lanes>(self, part: &Region) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Nothing => {}
                Self::Activate(act) => with_activation!(act, |B| activate::<L, B>(part)),
                Self::Add(other) => both::<L, Sum>(part, other),
                Self::Gate(act, other) => with_activation!(act, |B| both::<L, Gated<B>>(part, other)),
                Self::Slope(act, other) => with_activation!(act, |B| both::<L, Sloped<B>>(part, other)),
                Self::ActivateAndKeep(..) | Self::NarrowSlope(..) => {
                    unreachable!("products of narrow numbers do that")
                }
            }
        }
    }
}

/// # Safety
/// As for [`Then::run`].
#[inline(always)]
unsafe fn activate<L: Lanes, B: ActivationFn>(part: &Region) {
    for row in 0..part.rows {
        let mut at = 0;
        // SAFETY: the caller's promise; `at` stays below the part's columns.
        unsafe {
            let c = part.c.add(row * part.stride);
            while at + LANES <= part.columns {
                B::value(L::load(c.add(at))).store(c.add(at));
                at += LANES;
            }
            if at < part.columns {
                let some = part.columns - at;
                B::value(L::load_first(c.add(at), some)).store_first(c.add(at), some);
            }
        }
    }
}

/// # Safety
/// As for [`Then::run`].
#[inline(always)]
unsafe fn both<L: Lanes, F: Two>(part: &Region, other: Other) {
    for row in 0..part.rows {
        let mut at = 0;
        // SAFETY: the caller's promise; `at` stays below the part's columns.
        unsafe {
            let c = part.c.add(row * part.stride);
            let o = other.start.add((part.corner[0] + row) * other.stride + part.corner[1]);
            while at + LANES <= part.columns {
                F::at(L::load(c.add(at)), L::load(o.add(at))).store(c.add(at));
                at += LANES;
            }
            if at < part.columns {
                let some = part.columns - at;
                F::at(L::load_first(c.add(at), some), L::load_first(o.add(at), some))
                    .store_first(c.add(at), some);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use glassformer_graph::ops::Activation;

    use super::*;
    use crate::dispatch;
    use crate::isa::Isa;

    /// Everything that may follow a product, with rows of `other` that begin `stride` apart.
    pub(crate) fn thens(other: &[f32], stride: usize) -> Vec<Then> {
        let other = Other { start: other.as_ptr(), stride };
        let acts = Activation::ALL.into_iter().map(ActivationKind::exact).chain([
            ActivationKind::NearGelu,
            ActivationKind::NearGeluTanh,
            ActivationKind::NearSilu,
        ]);
        acts.flat_map(|act| [Then::Activate(act), Then::Gate(act, other), Then::Slope(act, other)])
            .chain([Then::Add(other)])
            .collect()
    }

    /// `[rows, columns]` numbers of `c`, whose rows begin `stride` apart, one by one as the steps behind a product do it.
    pub(crate) fn followed(isa: Isa, c: &[f32], [rows, columns, stride]: [usize; 3], then: Then) -> Vec<f32> {
        let mut c = c.to_vec();
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let x = c[i * stride + j];
            // SAFETY: the other matrix has this number.
            let at = |other: Other| unsafe { *other.start.add(i * other.stride + j) };
            c[i * stride + j] = match then {
                Then::Nothing => x,
                Then::Activate(act) => bent(isa, act, x),
                Then::Add(other) => x + at(other),
                Then::Gate(act, other) => bent(isa, act, at(other)) * x,
                Then::Slope(act, other) => slope(isa, act, at(other)) * x,
                Then::ActivateAndKeep(..) | Then::NarrowSlope(..) => {
                    unreachable!("tests of narrow numbers compare them")
                }
            };
        }
        c
    }

    fn slope(isa: Isa, act: ActivationKind, x: f32) -> f32 {
        // SAFETY: tests only ask for what the machine has.
        unsafe {
            dispatch!(isa, |L| with_activation!(act, |B| B::slope(<L as Lanes>::splat(x)).to_array()[0]))
        }
    }

    fn bent(isa: Isa, act: ActivationKind, x: f32) -> f32 {
        // SAFETY: tests only ask for what the machine has.
        unsafe {
            dispatch!(isa, |L| with_activation!(act, |B| B::value(<L as Lanes>::splat(x)).to_array()[0]))
        }
    }
}
