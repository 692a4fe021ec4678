//! The epilogue of a product: what is done to each number of C while it is still in the nearest cache.
//!
//! A fused product has the bits of the product and the steps that it replaces: the operations and their order are the same. They are done in
//! place, a few rows at a time. That costs one more load and store, beside the dozens of instructions of an activation, and needs one loop for
//! each of them instead of one for each kind of product. Only products on AMX do the most frequent ones in registers (`lowp/epilogue.rs`).

use std::marker::PhantomData;

use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::activation::{ActivationKind, with_activation};
use crate::lanes::map::{Back, Gated, Sum, Two, Value, one, two};
use crate::lanes::{LANES, Lanes, prefetch_l2};

/// What becomes of every number x of A·B: the bias is added, then the activation is applied, then x is combined with another number, and
/// at last it is stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue {
    /// One number per column.
    pub bias: Option<*const f32>,
    /// f(x).
    pub activation: Option<ActivationKind>,
    /// x and a number of another matrix.
    pub combine: Combine,
    /// How C is written.
    pub store: Store,
    /// Of a product in `bf16`: x before the activation is kept here for the backward pass, as the A of another product. There may be anything
    /// behind the last column.
    pub keep: Option<*mut f32>,
}

/// How x is combined with the number o that stands in another matrix where x stands in C.
#[derive(Clone, Copy, Debug, Default)]
pub enum Combine {
    /// Not at all.
    #[default]
    Nothing,
    /// x + o: a residual.
    Add(Other),
    /// f(o) · x: o is the gate of a gated layer, and x is what it lets through.
    Gate(ActivationKind, Other),
    /// f′(o) · x: f was applied to o in the forward pass, and x is the gradient.
    Derivative(ActivationKind, Other),
    /// The same in a product in `bf16`. o was kept as [`Epilogue::keep`] says.
    DerivativeBf16(ActivationKind, *const f32),
}

/// How C is written. Products in `f32`, and those of coded weights, write `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Store {
    /// `f32`.
    #[default]
    F32,
    /// `f32`, past the caches where that is possible: C is too large to stay in them.
    Streaming,
    /// Of a product in `bf16` that only others read: their A, as [`RowQuantizer`](crate::lowp::RowQuantizer) would write it. C is not used.
    Bf16Tiles(*mut f32),
    /// C times this number, rounded to `bf16`, row by row. Strides count `bf16`. C has whole lines of them, and one block of k.
    ScaledBf16(f32),
}

/// A matrix of the shape of C, row-major.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    /// Its first number.
    pub start: *const f32,
    /// How far apart its rows begin.
    pub stride: usize,
}

/// Some rows and columns of C.
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

impl Epilogue {
    /// Whether [`Epilogue::apply`] changes anything.
    pub(crate) fn changes(&self) -> bool {
        self.activation.is_some() || !matches!(self.combine, Combine::Nothing)
    }

    /// Prefetches what it will read beside a region of C.
    #[inline(always)]
    pub(crate) fn prefetch(&self, region: &Region) {
        if let Combine::Add(other) | Combine::Gate(_, other) | Combine::Derivative(_, other) = self.combine {
            let start = other.start.wrapping_add(region.corner[0] * other.stride + region.corner[1]);
            for row in 0..region.rows {
                for at in (0..region.columns).step_by(LANES) {
                    prefetch_l2(start.wrapping_add(row * other.stride + at));
                }
            }
        }
    }

    /// Applies the activation to a region of C, and combines it, in place. One function for all products: it is long.
    ///
    /// # Safety
    /// `isa` is one of this machine's; the region is valid for reads and writes, and the other matrix, where there is one, for reads.
    pub(crate) unsafe fn apply(&self, isa: Isa, region: &Region) {
        if self.changes() {
            // SAFETY: the caller's promise.
            unsafe { dispatch!(isa, |L| self.apply_on::<L>(region)) };
        }
    }

    /// # Safety
    /// As for [`Epilogue::apply`]; the machine has `L`'s instructions.
    #[inline(always)]
    unsafe fn apply_on<L: Lanes>(&self, region: &Region) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(act) = self.activation {
                with_activation!(act, |F| for row in 0..region.rows {
                    let c = region.c.add(row * region.stride);
                    one::<L>(Value::<F>(PhantomData), c, c, region.columns);
                });
            }
            match self.combine {
                Combine::Nothing => {}
                Combine::Add(other) => both::<L>(Sum, region, other),
                Combine::Gate(act, other) => {
                    with_activation!(act, |F| both::<L>(Gated::<F>(PhantomData), region, other));
                }
                Combine::Derivative(act, other) => {
                    with_activation!(act, |F| both::<L>(Back::<F>(PhantomData), region, other));
                }
                Combine::DerivativeBf16(..) => unreachable!("products in `bf16` read that row by row"),
            }
        }
    }
}

/// x = f(o, x).
///
/// # Safety
/// As for [`Epilogue::apply_on`].
#[inline(always)]
unsafe fn both<L: Lanes>(f: impl Two, region: &Region, other: Other) {
    for row in 0..region.rows {
        // SAFETY: the caller's promise.
        unsafe {
            let c = region.c.add(row * region.stride);
            let o = other.start.add((region.corner[0] + row) * other.stride + region.corner[1]);
            two::<L>(f, o, c, c, region.columns);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use glassformer_graph::ops::Activation;

    use super::*;
    use crate::lanes::activation::ActivationFn;

    /// Epilogues with everything that may follow a product, with rows of `other` that begin `stride` apart.
    pub(crate) fn epilogues(other: &[f32], stride: usize) -> Vec<Epilogue> {
        let other = Other { start: other.as_ptr(), stride };
        let acts = Activation::ALL.into_iter().map(ActivationKind::exact).chain([
            ActivationKind::ApproximateGelu,
            ActivationKind::ApproximateGeluTanh,
            ActivationKind::ApproximateSilu,
        ]);
        let combined = |combine: Combine| Epilogue { combine, ..Epilogue::default() };
        acts.flat_map(|act| {
            [
                Epilogue { activation: Some(act), ..Epilogue::default() },
                combined(Combine::Gate(act, other)),
                combined(Combine::Derivative(act, other)),
            ]
        })
        .chain([combined(Combine::Add(other))])
        .collect()
    }

    /// `[rows, columns]` numbers of `c`, whose rows begin `stride` apart, one by one as the steps behind a product do it.
    pub(crate) fn followed(
        isa: Isa,
        c: &[f32],
        [rows, columns, stride]: [usize; 3],
        epilogue: &Epilogue,
    ) -> Vec<f32> {
        let mut c = c.to_vec();
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let x = epilogue.activation.map_or(c[i * stride + j], |act| value(isa, act, c[i * stride + j]));
            // SAFETY: the other matrix has this number.
            let at = |other: Other| unsafe { *other.start.add(i * other.stride + j) };
            c[i * stride + j] = match epilogue.combine {
                Combine::Nothing => x,
                Combine::Add(other) => x + at(other),
                Combine::Gate(act, other) => value(isa, act, at(other)) * x,
                Combine::Derivative(act, other) => slope(isa, act, at(other)) * x,
                Combine::DerivativeBf16(..) => unreachable!("tests of products in `bf16` compare it"),
            };
        }
        c
    }

    fn slope(isa: Isa, act: ActivationKind, x: f32) -> f32 {
        // SAFETY: tests only ask for what the machine has.
        unsafe {
            dispatch!(isa, |L| with_activation!(act, |F| F::slope(<L as Lanes>::splat(x)).to_array()[0]))
        }
    }

    fn value(isa: Isa, act: ActivationKind, x: f32) -> f32 {
        // SAFETY: tests only ask for what the machine has.
        unsafe {
            dispatch!(isa, |L| with_activation!(act, |F| F::value(<L as Lanes>::splat(x)).to_array()[0]))
        }
    }
}
