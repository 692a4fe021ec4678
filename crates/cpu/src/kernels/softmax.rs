//! Scores into probabilities, the loss that reads them, and both gradients.

use glassformer_graph::ops::{CrossEntropy, CrossEntropyGrad, DotColumns, Softmax, SoftmaxGrad};

use super::row::{Dot, Sums, Total, largest, load, store, sums};
use super::split::each_row;
use super::{Call, CpuOperation};
use crate::dispatch;
use crate::lanes::map::{Times, one};
use crate::lanes::{LANES, Lanes, exp};

/// Σ exp(x − most), each term also written to `y` where that is not null.
struct Exponentials {
    x: *const f32,
    y: *mut f32,
    most: f32,
}

impl Sums<1> for Exponentials {
    #[inline(always)]
    unsafe fn add<L: Lanes>(&self, at: usize, some: usize, [sum]: [L; 1]) -> [L; 1] {
        // SAFETY: the caller's promise. What lanes beyond `some` hold is taken out before it is added.
        unsafe {
            let mut e = exp(load::<L>(self.x.add(at), some) - L::splat(self.most));
            if !self.y.is_null() {
                store(e, self.y.add(at), some);
            }
            if some < LANES {
                let mut first = [0.0; LANES];
                e.store_first(first.as_mut_ptr(), some);
                e = L::load(first.as_ptr());
            }
            [sum + e]
        }
    }
}

/// Writes exp(x − max), and gives the maximum and the sum.
///
/// # Safety
/// The machine has `L`'s instructions; `x` is valid for `width` reads and `y`, if not null, for as many writes.
#[inline(always)]
unsafe fn exponentials<L: Lanes>(x: *const f32, y: *mut f32, width: usize) -> (f32, f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let most = largest::<L>(x, width);
        let [sum] = sums::<L, 1>(&Exponentials { x, y, most }, width);
        (most, sum)
    }
}

/// The logarithm of the sum of exponentials.
///
/// # Safety
/// The machine has `L`'s instructions; `x` is valid for `width` reads.
#[inline(always)]
pub(super) unsafe fn log_sum<L: Lanes>(x: *const f32, width: usize) -> f32 {
    // SAFETY: the caller's promise.
    let (most, sum) = unsafe { exponentials::<L>(x, std::ptr::null_mut(), width) };
    most + sum.ln()
}

/// # Safety
/// As `exponentials`, with `y` not null.
#[inline(always)]
unsafe fn softmax_row<L: Lanes>(x: *const f32, y: *mut f32, width: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let (_, sum) = exponentials::<L>(x, y, width);
        one::<L>(Times(1.0 / sum), y, y, width);
    }
}

/// One input.
impl CpuOperation for Softmax {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        each_row(call.worker, y.rows, y.width, |i| {
            // SAFETY: `isa` is this machine's; row `i` lies within both blocks, and nobody else writes it.
            unsafe {
                let (x, y_row) = (x.data.add(i * y.width), y.data.add(i * y.width));
                dispatch!(call.run.isa, |L| softmax_row::<L>(x, y_row, y.width));
            }
        });
    }
}

/// `dx = y ⊙ (dy − y · dy)`.
///
/// Inputs y and dy.
impl CpuOperation for SoftmaxGrad {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (y, dy, dx) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        each_row(call.worker, dx.rows, dx.width, |i| {
            let at = i * dx.width;
            // SAFETY: `isa` is this machine's; row `i` lies within all blocks, and nobody else writes it.
            unsafe {
                let (y, dy, out) = (y.data.add(at), dy.data.add(at), dx.data.add(at));
                dispatch!(call.run.isa, |L| softmax_back::<L>(y, dy, out, dx.width));
            }
        });
    }
}

/// # Safety
/// The machine has `L`'s instructions; all pointers are valid for `width` numbers.
#[inline(always)]
unsafe fn softmax_back<L: Lanes>(y: *const f32, dy: *const f32, dx: *mut f32, width: usize) {
    // SAFETY: the caller's promise; columns stay below `width`.
    unsafe {
        let [dot] = sums::<L, 1>(&Dot(y, dy), width);
        for j in (0..width).step_by(LANES) {
            let some = LANES.min(width - j);
            let p = load::<L>(y.add(j), some);
            store(p * (load::<L>(dy.add(j), some) - L::splat(dot)), dx.add(j), some);
        }
    }
}

/// `y[i] = a[i] · b[i]`.
///
/// Inputs a and b.
impl CpuOperation for DotColumns {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (a, b, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        each_row(call.worker, a.rows, a.width, |i| {
            // SAFETY: `isa` is this machine's; row `i` lies within all blocks, and nobody else writes it.
            unsafe {
                let dot = Dot(a.data.add(i * a.width), b.data.add(i * a.width));
                *y.data.add(i) = dispatch!(call.run.isa, |L| sums::<L, 1>(&dot, a.width))[0];
            }
        });
    }
}

/// One input, and the batch has a label and a weight for each of its rows.
impl CpuOperation for CrossEntropy {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        let packed = call.run.batch.side(self.side);
        each_row(call.worker, x.rows, x.width, |i| {
            let label = packed.labels[i] as usize;
            // SAFETY: `isa` is this machine's; row `i` lies within x and y, and nobody else writes y's.
            unsafe {
                let row = x.data.add(i * x.width);
                let smoothing = f64::from(self.smoothing);
                let loss =
                    dispatch!(call.run.isa, |L| loss_of_row::<L>(row, x.row(i)[label], smoothing, x.width));
                *y.data.add(i) = (f64::from(packed.weights[i]) * loss) as f32;
            }
        });
    }
}

/// `ln Σ exp(x − m) − (1 − s)(right − m) − s · mean(x − m)` with m the maximum: where the label is right, the two large
/// numbers of the usual form would cancel.
///
/// # Safety
/// The machine has `L`'s instructions; `x` is valid for `width` reads.
#[inline(always)]
unsafe fn loss_of_row<L: Lanes>(x: *const f32, right: f32, smoothing: f64, width: usize) -> f64 {
    // SAFETY: the caller's promise.
    unsafe {
        let (most, sum) = exponentials::<L>(x, std::ptr::null_mut(), width);
        let [total] = sums::<L, 1>(&Total(x), width);
        let (most, mean) = (f64::from(most), f64::from(total) / width as f64);
        f64::from(sum).ln() - (1.0 - smoothing) * (f64::from(right) - most) - smoothing * (mean - most)
    }
}

/// Inputs logits and dy, and the batch has a label and a weight for each row.
impl CpuOperation for CrossEntropyGrad {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, dy, dx) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        let packed = call.run.batch.side(self.of.side);
        let share = self.of.smoothing / x.width as f32;
        each_row(call.worker, x.rows, x.width, |i| {
            let label = packed.labels[i] as usize;
            // SAFETY: `isa` is this machine's; row `i` lies within all blocks, and nobody else writes it.
            unsafe {
                let (from, to) = (x.data.add(i * x.width), dx.data.add(i * x.width));
                dispatch!(call.run.isa, |L| softmax_row::<L>(from, to, x.width));
                let factor = *dy.data.add(i) * packed.weights[i];
                let row = dx.row_mut(i);
                row[label] -= 1.0 - self.of.smoothing;
                for p in row {
                    *p = factor * (*p - share);
                }
            }
        });
    }
}
