//! Number by number: sums, products and activations. A map is a type, so that each becomes one loop without a branch.
#![allow(clippy::inline_always)] // see the rules in `lanes`

use glassformer_graph::ops::{Add, AddRow, Dropout, Fill, Mul, MulColumn, RepeatRow, Scale};

use super::split::{over_numbers, over_rows};
use super::{Call, CpuOperation};
use crate::dispatch;
use crate::lanes::{LANES, Lanes};

/// A map of one number.
pub(super) trait One: Copy {
    /// Its value, lane by lane.
    fn at<L: Lanes>(self, x: L) -> L;
}

/// A map of two numbers.
pub(super) trait Two: Copy {
    /// Its value, lane by lane.
    fn at<L: Lanes>(self, a: L, b: L) -> L;
}

/// `y = f(x)`, `n` numbers.
///
/// # Safety
/// The machine has `L`'s instructions; `x` is valid for `n` reads, `y` for `n` writes.
#[inline(always)]
pub(super) unsafe fn one<L: Lanes>(f: impl One, x: *const f32, y: *mut f32, n: usize) {
    // SAFETY: the caller's promise; the loop stops before `n`, and the tail touches `n − i < LANES` numbers.
    unsafe {
        let mut i = 0;
        while i + LANES <= n {
            f.at(L::load(x.add(i))).store(y.add(i));
            i += LANES;
        }
        if i < n {
            f.at(L::load_first(x.add(i), n - i)).store_first(y.add(i), n - i);
        }
    }
}

/// `y = f(a, b)`, `n` numbers.
///
/// # Safety
/// The machine has `L`'s instructions; `a` and `b` are valid for `n` reads, `y` for `n` writes.
#[inline(always)]
pub(super) unsafe fn two<L: Lanes>(f: impl Two, a: *const f32, b: *const f32, y: *mut f32, n: usize) {
    // SAFETY: as in `one`.
    unsafe {
        let mut i = 0;
        while i + LANES <= n {
            f.at(L::load(a.add(i)), L::load(b.add(i))).store(y.add(i));
            i += LANES;
        }
        if i < n {
            let (a, b) = (L::load_first(a.add(i), n - i), L::load_first(b.add(i), n - i));
            f.at(a, b).store_first(y.add(i), n - i);
        }
    }
}

/// `y = f(x)` over a whole block.
///
/// # Safety
/// As [`Call`] says; one input and one output of the same size.
pub(super) unsafe fn map_one(call: Call<'_>, f: impl One) {
    let (x, y) = (call.inputs[0], call.outputs[0]);
    over_numbers(call.worker, y.rows * y.width, |part| {
        // SAFETY: `isa` is this machine's; the part lies within both blocks, and nobody else writes it.
        unsafe {
            let (x, y) = (x.data.add(part.start), y.data.add(part.start));
            dispatch!(call.run.isa, |L| one::<L>(f, x, y, part.len()));
        }
    });
}

/// `y = f(a, b)` over whole blocks.
///
/// # Safety
/// As [`Call`] says; two inputs and one output of the same size.
pub(super) unsafe fn map_two(call: Call<'_>, f: impl Two) {
    let (a, b, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
    over_numbers(call.worker, y.rows * y.width, |part| {
        // SAFETY: `isa` is this machine's; the part lies within all blocks, and nobody else writes it.
        unsafe {
            let (a, b, y) = (a.data.add(part.start), b.data.add(part.start), y.data.add(part.start));
            dispatch!(call.run.isa, |L| two::<L>(f, a, b, y, part.len()));
        }
    });
}

/// a + b.
#[derive(Clone, Copy)]
pub(super) struct Sum;
/// a · b.
#[derive(Clone, Copy)]
pub(super) struct Multiply;
/// The larger of a and b.
#[derive(Clone, Copy)]
pub(super) struct Larger;
/// a + b · factor.
#[derive(Clone, Copy)]
pub(super) struct PlusTimes(pub f32);
/// x · factor.
#[derive(Clone, Copy)]
pub(super) struct Times(pub f32);

impl Two for Larger {
    #[inline(always)]
    fn at<L: Lanes>(self, a: L, b: L) -> L {
        a.max(b)
    }
}

impl Two for PlusTimes {
    #[inline(always)]
    fn at<L: Lanes>(self, a: L, b: L) -> L {
        // SAFETY: `a` proves the instructions.
        b.fma(unsafe { L::splat(self.0) }, a)
    }
}

impl Two for Sum {
    #[inline(always)]
    fn at<L: Lanes>(self, a: L, b: L) -> L {
        a + b
    }
}

impl Two for Multiply {
    #[inline(always)]
    fn at<L: Lanes>(self, a: L, b: L) -> L {
        a * b
    }
}

impl One for Times {
    #[inline(always)]
    fn at<L: Lanes>(self, x: L) -> L {
        // SAFETY: `x` proves the instructions.
        x * unsafe { L::splat(self.0) }
    }
}

impl CpuOperation for Add {
    fn is_by_rows(&self) -> bool {
        true
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { map_two(call, Sum) };
    }
}

impl CpuOperation for Mul {
    fn is_by_rows(&self) -> bool {
        true
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { map_two(call, Multiply) };
    }
}

/// Adds one row to all.
///
/// Inputs x and r.
impl CpuOperation for AddRow {
    fn is_by_rows(&self) -> bool {
        true
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, r, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        over_rows(call.worker, y.rows, y.width, |rows| {
            for i in rows {
                // SAFETY: `isa` is this machine's; row `i` lies within x and y, r has one row, nobody else writes row `i`.
                unsafe {
                    let (x, y_row) = (x.data.add(i * y.width), y.data.add(i * y.width));
                    dispatch!(call.run.isa, |L| two::<L>(Sum, x, r.data, y_row, y.width));
                }
            }
        });
    }
}

/// Each row times its own number.
///
/// Inputs x and c.
impl CpuOperation for MulColumn {
    fn is_by_rows(&self) -> bool {
        true
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, c, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        over_rows(call.worker, y.rows, y.width, |rows| {
            for i in rows {
                // SAFETY: `isa` is this machine's; row `i` lies within all blocks, nobody else writes it.
                unsafe {
                    let (x, y_row) = (x.data.add(i * y.width), y.data.add(i * y.width));
                    let factor = Times(*c.data.add(i));
                    dispatch!(call.run.isa, |L| one::<L>(factor, x, y_row, y.width));
                }
            }
        });
    }
}

/// Some columns times a number.
///
/// One input.
impl CpuOperation for Scale {
    fn is_by_rows(&self) -> bool {
        true
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        let (from, to) = (self.from.min(y.width), self.to.min(y.width));
        if from == 0 && to == y.width {
            // SAFETY: the caller's promise.
            return unsafe { map_one(call, Times(self.factor)) };
        }
        over_rows(call.worker, y.rows, y.width, |rows| {
            for i in rows {
                // SAFETY: row `i` lies within both blocks, and nobody else writes it.
                let (x, y) = unsafe { (x.row(i), y.row_mut(i)) };
                for (j, (y, x)) in y.iter_mut().zip(x).enumerate() {
                    *y = x * self.at(j);
                }
            }
        });
    }
}

/// The same number everywhere.
///
/// No input.
impl CpuOperation for Fill {
    fn is_by_rows(&self) -> bool {
        true
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { set(call, 0, self.value) };
    }
}

/// `value` in all of output `which`.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn set(call: Call<'_>, which: usize, value: f32) {
    let y = call.outputs[which];
    over_numbers(call.worker, y.rows * y.width, |part| {
        // SAFETY: the part lies within y, and nobody else writes it.
        unsafe { std::slice::from_raw_parts_mut(y.data.add(part.start), part.len()) }.fill(value);
    });
}

/// The input again: for outputs of a graph that come from outside.
///
/// # Safety
/// As [`Call`] says; one input of the output's size.
pub(super) unsafe fn copy(call: Call<'_>) {
    let (x, y) = (call.inputs[0], call.outputs[0]);
    over_numbers(call.worker, y.rows * y.width, |part| {
        // SAFETY: the part lies within both blocks, which do not overlap, and nobody else writes it.
        unsafe { y.data.add(part.start).copy_from_nonoverlapping(x.data.add(part.start), part.len()) };
    });
}

/// One row, many times.
///
/// Input r of one row.
impl CpuOperation for RepeatRow {
    fn is_by_rows(&self) -> bool {
        true
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (r, y) = (call.inputs[0], call.outputs[0]);
        over_rows(call.worker, y.rows, y.width, |rows| {
            for i in rows {
                // SAFETY: nobody else writes row `i`, and y does not overlap r.
                unsafe { y.row_mut(i).copy_from_slice(r.row(0)) };
            }
        });
    }
}

/// Numbers left out at random, by the draws of the reference.
///
/// One input.
impl CpuOperation for Dropout {
    fn is_by_rows(&self) -> bool {
        true
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        let (key, width) = (self.key(call.run.batch), y.width);
        over_numbers(call.worker, y.rows * y.width, |part| {
            // SAFETY: the part lies within both blocks, which do not overlap, and nobody else writes it.
            let (x, y) = unsafe {
                (
                    std::slice::from_raw_parts(x.data.add(part.start), part.len()),
                    std::slice::from_raw_parts_mut(y.data.add(part.start), part.len()),
                )
            };
            // SAFETY: `isa` is this machine's. The loop is plain, but compiled for its instructions.
            unsafe {
                dispatch!(call.run.isa, |_L| drop_some(self, key, call.first * width + part.start, x, y));
            };
        });
    }
}

/// `y[i] = x[i] · factor(first + i)`.
#[inline(always)]
fn drop_some(op: &Dropout, key: u64, first: usize, x: &[f32], y: &mut [f32]) {
    for (i, (y, x)) in y.iter_mut().zip(x).enumerate() {
        *y = x * op.factor(key, first + i);
    }
}
