//! Number by number: sums and products, by [maps](crate::lanes::map).

use glassformer_graph::ops::{Add, AddRow, Dropout, Fill, Mul, MulColumn, RepeatRow, Scale};

use super::split::{each_row, over_numbers};
use super::{Call, CpuOperation};
use crate::dispatch;
use crate::lanes::map::{Multiply, One, Sum, Times, Two, one, two};

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

impl CpuOperation for Add {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { map_two(call, Sum) };
    }
}

impl CpuOperation for Mul {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { map_two(call, Multiply) };
    }
}

/// Adds one row to all.
///
/// Inputs x and r.
impl CpuOperation for AddRow {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, r, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        each_row(call.worker, y.rows, y.width, |i| {
            // SAFETY: `isa` is this machine's; row `i` lies within x and y, r has one row, nobody else writes row `i`.
            unsafe {
                let (x, y_row) = (x.data.add(i * y.width), y.data.add(i * y.width));
                dispatch!(call.run.isa, |L| two::<L>(Sum, x, r.data, y_row, y.width));
            }
        });
    }
}

/// Each row times its own number.
///
/// Inputs x and c.
impl CpuOperation for MulColumn {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, c, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        each_row(call.worker, y.rows, y.width, |i| {
            // SAFETY: `isa` is this machine's; row `i` lies within all blocks, nobody else writes it.
            unsafe {
                let (x, y_row) = (x.data.add(i * y.width), y.data.add(i * y.width));
                let factor = Times(*c.data.add(i));
                dispatch!(call.run.isa, |L| one::<L>(factor, x, y_row, y.width));
            }
        });
    }
}

/// Some columns times a number.
///
/// One input.
impl CpuOperation for Scale {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        let (from, to) = (self.from.min(y.width), self.to.min(y.width));
        if from == 0 && to == y.width {
            // SAFETY: the caller's promise.
            return unsafe { map_one(call, Times(self.factor)) };
        }
        each_row(call.worker, y.rows, y.width, |i| {
            // SAFETY: row `i` lies within both blocks, and nobody else writes it.
            let (x, y) = unsafe { (x.row(i), y.row_mut(i)) };
            for (j, (y, x)) in y.iter_mut().zip(x).enumerate() {
                *y = x * self.at(j);
            }
        });
    }
}

/// The same number everywhere.
///
/// No input.
impl CpuOperation for Fill {
    const BY_ROWS: bool = true;

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
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (r, y) = (call.inputs[0], call.outputs[0]);
        each_row(call.worker, y.rows, y.width, |i| {
            // SAFETY: nobody else writes row `i`, and y does not overlap r.
            unsafe { y.row_mut(i).copy_from_slice(r.row(0)) };
        });
    }
}

/// Numbers left out at random, by the draws of the reference.
///
/// One input.
impl CpuOperation for Dropout {
    const BY_ROWS: bool = true;

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
