//! Norms of rows, and their gradients.

use glassformer_graph::ops::{Norm, NormGrad, NormKind};
use glassformer_graph::{Capacity, Shape};

use super::row::{Dot, Sums, Total, load, splat_first, store, sums};
use super::split::{over_columns, over_rows};
use super::{Call, CpuOperation, Needs};
use crate::dispatch;
use crate::lanes::{LANES, Lanes};
use crate::lowp::{RowFormat, RowsToQuantize};

/// Registers of columns that are summed over rows at once.
const ABREAST: usize = 4;

/// Parts whose moments are computed before the first of them is normed.
const AT_ONCE: usize = 8;

/// What a norm needs of one row: a number near its mean, what is missing to the mean, one over the deviation.
///
/// The mean is kept in two parts because one `f32` is not enough: where it is a hundred deviations from zero, its last
/// bit would already be seen in the result.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Moments {
    shift: f32,
    rest: f32,
    inverse: f32,
}

/// Floats that the moments of one part of a row take.
pub(super) const MOMENTS: usize = size_of::<Moments>() / size_of::<f32>();

/// Σ (x − shift) and Σ (x − shift)².
struct Deviations {
    x: *const f32,
    shift: f32,
}

impl Sums<2> for Deviations {
    #[inline(always)]
    unsafe fn add<L: Lanes>(&self, at: usize, some: usize, [sum, squares]: [L; 2]) -> [L; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let d = load::<L>(self.x.add(at), some) - splat_first(self.shift, some);
            [sum + d, d.fma(d, squares)]
        }
    }
}

/// # Safety
/// The machine has `L`'s instructions; `x` is valid for `width` reads.
#[inline(always)]
unsafe fn moments<L: Lanes>(norm: &Norm, x: *const f32, width: usize) -> Moments {
    let n = width as f64;
    // SAFETY: the caller's promise.
    unsafe {
        let (shift, rest, variance) = match norm.kind {
            NormKind::Layer | NormKind::LayerWithoutBias => {
                let [sum] = sums::<L, 1>(&Total(x), width);
                let shift = (f64::from(sum) / n) as f32;
                let [sum, squares] = sums::<L, 2>(&Deviations { x, shift }, width);
                let rest = f64::from(sum) / n;
                (shift, rest as f32, f64::from(squares) / n - rest * rest)
            }
            NormKind::Rms => {
                let [squares] = sums::<L, 1>(&Dot(x, x), width);
                (0.0, 0.0, f64::from(squares) / n)
            }
        };
        let inverse = 1.0 / (variance.max(0.0) + f64::from(norm.epsilon)).sqrt();
        Moments { shift, rest, inverse: inverse as f32 }
    }
}

impl Moments {
    /// (x − mean) / deviation.
    #[inline(always)]
    fn normed<L: Lanes>(&self, x: L) -> L {
        (x - x.constant(self.shift) - x.constant(self.rest)) * x.constant(self.inverse)
    }
}

/// Inputs x, γ and, for some kinds, β. Outputs y, and y quantized, if it is.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn norm(op: &Norm, quantized: Option<RowFormat>, call: Call<'_>) {
    let (x, gamma, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
    let beta = call.inputs.get(2).map_or(std::ptr::null(), |beta| beta.data.cast_const());
    over_rows(call.worker, y.rows, y.width, |rows| {
        for first in rows.clone().step_by(AT_ONCE) {
            let some = first..rows.end.min(first + AT_ONCE);
            let at = first * y.width;
            // SAFETY: `isa` is this machine's; these rows lie within x and y, γ and β are as wide as a part, and nobody
            // else writes these rows.
            unsafe {
                let (x, y) = (x.data.add(at), y.data.add(at));
                let (count, size) = (some.len() * op.parts, gamma.width);
                let parts = Parts { x, y, gamma: gamma.data, beta, count, size };
                dispatch!(call.run.isa, |L| parts.norm::<L>(op));
            }
            // While they are near.
            if let Some(format) = quantized {
                let rows =
                    RowsToQuantize { rows: y.rows, k: y.width, from: y.data, to: call.outputs[1].data };
                // SAFETY: as above; the planner gave the second output its size.
                some.for_each(|row| unsafe {
                    format.run_row(call.run.isa, &rows, row);
                });
            }
        }
    });
}

/// So many parts of `size` numbers, and what they are normed by. A null `beta` is none.
#[derive(Clone, Copy)]
struct Parts {
    x: *const f32,
    y: *mut f32,
    gamma: *const f32,
    beta: *const f32,
    count: usize,
    size: usize,
}

impl Parts {
    /// Norms all parts.
    ///
    /// # Safety
    /// The machine has `L`'s instructions; x and y hold the parts, γ and β `size` numbers.
    #[inline(always)]
    unsafe fn norm<L: Lanes>(&self, op: &Norm) {
        let Self { x, count, size, .. } = *self;
        // Moments are long chains of operations. Those of several parts are computed at the same time.
        let mut moments = [Moments { shift: 0.0, rest: 0.0, inverse: 0.0 }; AT_ONCE];
        for first in (0..count).step_by(AT_ONCE) {
            let some = AT_ONCE.min(count - first);
            // SAFETY: these parts lie within x and y; columns stay below `size`.
            unsafe {
                for (part, moments) in moments[..some].iter_mut().enumerate() {
                    *moments = self::moments::<L>(op, x.add((first + part) * size), size);
                }
                for (part, moments) in moments[..some].iter().enumerate() {
                    self.apply::<L>(moments, first + part);
                }
            }
        }
    }

    /// Norms one part.
    ///
    /// # Safety
    /// As for [`Parts::norm`].
    #[inline(always)]
    unsafe fn apply<L: Lanes>(&self, moments: &Moments, part: usize) {
        let whole = self.size / LANES * LANES;
        // SAFETY: the caller's promise; columns stay below `size`.
        unsafe {
            for column in (0..whole).step_by(LANES) {
                self.apply_some::<L>(moments, part, column, LANES);
            }
            if whole < self.size {
                self.apply_some::<L>(moments, part, whole, self.size - whole);
            }
        }
    }

    /// Norms `some` numbers of a part, from a column on.
    ///
    /// # Safety
    /// As for [`Parts::norm`].
    #[inline(always)]
    unsafe fn apply_some<L: Lanes>(&self, moments: &Moments, part: usize, column: usize, some: usize) {
        let Self { x, y, gamma, beta, size, .. } = *self;
        let at = part * size + column;
        // SAFETY: the caller's promise.
        unsafe {
            let n = moments.normed(load::<L>(x.add(at), some));
            let gain = load::<L>(gamma.add(column), some);
            let bias = if beta.is_null() { L::zero() } else { load::<L>(beta.add(column), some) };
            store(n.fma(gain, bias), y.add(at), some);
        }
    }
}

/// Σ h and Σ h ⊙ n, where h = γ ⊙ dy.
struct GradSums {
    x: *const f32,
    gamma: *const f32,
    dy: *const f32,
    row: Moments,
}

impl Sums<2> for GradSums {
    #[inline(always)]
    unsafe fn add<L: Lanes>(&self, at: usize, some: usize, [sum, along]: [L; 2]) -> [L; 2] {
        // SAFETY: the caller's promise. Beyond `some` h is zero.
        unsafe {
            let h = load::<L>(self.gamma.add(at), some) * load(self.dy.add(at), some);
            let n = self.row.normed(load::<L>(self.x.add(at), some));
            [sum + h, h.fma(n, along)]
        }
    }
}

impl CpuOperation for Norm {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { norm(self, None, call) };
    }
}

/// Inputs x, γ, dy; outputs dx, dγ, for some kinds dβ, and the moments of every part.
///
/// First dx and the moments, rows shared out; then dγ and dβ, columns shared out, each a sum over rows in their order.
impl CpuOperation for NormGrad {
    fn needs(&self, inputs: &[Shape], capacity: &Capacity) -> Needs {
        let rows = capacity.count(inputs[0].rows);
        Needs { workspace: rows * self.norm.parts * MOMENTS, ..Needs::default() }
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, gamma, dy) = (call.inputs[0], call.inputs[1], call.inputs[2]);
        let (dx, kept) = (call.outputs[0], call.outputs[call.outputs.len() - 1]);
        let size = gamma.width;
        over_rows(call.worker, dx.rows, dx.width, |rows| {
            for part in rows.start * self.norm.parts..rows.end * self.norm.parts {
                // SAFETY: `isa` is this machine's; the part lies within x, dy and dx, its moments within `kept`, and nobody
                // else writes them.
                unsafe {
                    let at = part * size;
                    let (x, gamma, dy) = (x.data.add(at), gamma.data, dy.data.add(at));
                    let row = kept.data.add(part * MOMENTS).cast::<Moments>();
                    let dx = dx.data.add(at);
                    *row = dispatch!(call.run.isa, |L| input_grad::<L>(&self.norm, x, gamma, dy, dx, size));
                }
            }
        });
        call.worker.barrier();
        let dbeta = match self.norm.kind {
            NormKind::Layer => call.outputs[2].data,
            NormKind::LayerWithoutBias | NormKind::Rms => std::ptr::null_mut(),
        };
        let parts = dx.rows * self.norm.parts;
        over_columns(call.worker, size, |columns| {
            // SAFETY: `isa` is this machine's; all moments were written before the barrier; columns stay below `size`, and
            // nobody else writes them.
            unsafe {
                let (dgamma, moments) = (call.outputs[1].data, kept.data.cast());
                let grads = WeightGrads { x: x.data, dy: dy.data, moments, dgamma, dbeta, parts, size };
                let mut column = columns.start;
                while column < columns.end {
                    let left = columns.end - column;
                    if left >= ABREAST * LANES {
                        dispatch!(call.run.isa, |L| grads.run::<L, ABREAST>(column, LANES));
                        column += ABREAST * LANES;
                    } else {
                        dispatch!(call.run.isa, |L| grads.run::<L, 1>(column, left.min(LANES)));
                        column += left.min(LANES);
                    }
                }
            }
        });
    }
}

/// # Safety
/// The machine has `L`'s instructions; all pointers are valid for `size` numbers.
#[inline(always)]
unsafe fn input_grad<L: Lanes>(
    norm: &Norm,
    x: *const f32,
    gamma: *const f32,
    dy: *const f32,
    dx: *mut f32,
    size: usize,
) -> Moments {
    // SAFETY: the caller's promise; columns stay below `size`.
    unsafe {
        let row = moments::<L>(norm, x, size);
        let [sum, along] = sums::<L, 2>(&GradSums { x, gamma, dy, row }, size);
        let centre = match norm.kind {
            NormKind::Layer | NormKind::LayerWithoutBias => L::splat(sum / size as f32),
            NormKind::Rms => L::zero(),
        };
        let (along, inverse) = (L::splat(-along / size as f32), L::splat(row.inverse));
        for j in (0..size).step_by(LANES) {
            let some = LANES.min(size - j);
            let n = row.normed(load::<L>(x.add(j), some));
            let h = load::<L>(gamma.add(j), some) * load(dy.add(j), some);
            store(n.fma(along, h - centre) * inverse, dx.add(j), some);
        }
        row
    }
}

/// dγ and, where it is not null, dβ.
struct WeightGrads {
    x: *const f32,
    dy: *const f32,
    /// Those of every part.
    moments: *const Moments,
    dgamma: *mut f32,
    dbeta: *mut f32,
    parts: usize,
    size: usize,
}

impl WeightGrads {
    /// Those of some columns from one on, `some` in each of `V` registers.
    ///
    /// # Safety
    /// The machine has `L`'s instructions; x and dy hold `parts · size` numbers, there are `parts` moments, and the columns
    /// are below `size`; `some` is sixteen, or less in one register.
    #[inline(always)]
    unsafe fn run<L: Lanes, const V: usize>(&self, column: usize, some: usize) {
        let some = if V == 1 { some } else { LANES };
        // SAFETY: the caller's promise.
        unsafe {
            let (mut gain, mut bias) = ([L::zero(); V], [L::zero(); V]);
            for part in 0..self.parts {
                let row = *self.moments.add(part);
                for v in 0..V {
                    let at = part * self.size + column + v * LANES;
                    let n = row.normed(load::<L>(self.x.add(at), some));
                    let back = load::<L>(self.dy.add(at), some);
                    gain[v] = back.fma(n, gain[v]);
                    bias[v] = bias[v] + back;
                }
            }
            for v in 0..V {
                store(gain[v], self.dgamma.add(column + v * LANES), some);
                if !self.dbeta.is_null() {
                    store(bias[v], self.dbeta.add(column + v * LANES), some);
                }
            }
        }
    }
}
