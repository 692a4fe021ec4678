//! Norms of rows, and their gradients.
#![allow(clippy::inline_always)] // see the rules in `lanes`

use glassformer_graph::ops::{Norm, NormGrad, NormKind};

use super::Call;
use super::row::{Dot, Sums, Total, load, splat_first, store, sums};
use super::split::{over_columns, over_rows};
use crate::dispatch;
use crate::lanes::{LANES, Lanes};
use crate::lowp::RowFormat;

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
    near: f32,
    rest: f32,
    inverse: f32,
}

/// Floats that the moments of one part of a row take.
pub(super) const MOMENTS: usize = size_of::<Moments>() / size_of::<f32>();

/// Σ (x − near) and Σ (x − near)².
struct Apart {
    x: *const f32,
    near: f32,
}

impl Sums<2> for Apart {
    #[inline(always)]
    unsafe fn add<L: Lanes>(&self, at: usize, some: usize, [sum, squares]: [L; 2]) -> [L; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let d = load::<L>(self.x.add(at), some) - splat_first(self.near, some);
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
        let (near, rest, variance) = match norm.kind {
            NormKind::Layer | NormKind::LayerWithoutBias => {
                let [sum] = sums::<L, 1>(&Total(x), width);
                let near = (f64::from(sum) / n) as f32;
                let [sum, squares] = sums::<L, 2>(&Apart { x, near }, width);
                let rest = f64::from(sum) / n;
                (near, rest as f32, f64::from(squares) / n - rest * rest)
            }
            NormKind::Rms => {
                let [squares] = sums::<L, 1>(&Dot(x, x), width);
                (0.0, 0.0, f64::from(squares) / n)
            }
        };
        let inverse = 1.0 / (variance.max(0.0) + f64::from(norm.epsilon)).sqrt();
        Moments { near, rest, inverse: inverse as f32 }
    }
}

impl Moments {
    /// (x − mean) / deviation.
    #[inline(always)]
    fn normed<L: Lanes>(&self, x: L) -> L {
        // SAFETY: `x` proves the instructions.
        unsafe { (x - L::splat(self.near) - L::splat(self.rest)) * L::splat(self.inverse) }
    }
}

/// Inputs x, γ and, for some kinds, β. Outputs y, and y quantized, if it is.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn norm(op: &Norm, narrowed: Option<RowFormat>, call: Call<'_>) {
    let (x, gamma, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
    let beta = call.inputs.get(2).map_or(std::ptr::null(), |beta| beta.data.cast_const());
    over_rows(call.worker, y.rows, y.width, |rows| {
        for first in rows.clone().step_by(AT_ONCE) {
            let some = first..rows.end.min(first + AT_ONCE);
            let at = first * y.width;
            // SAFETY: `isa` is this machine's; these rows lie within x and y, γ and β are as wide as a part, and nobody
            // else writes these rows.
            unsafe {
                let (x, to) = (x.data.add(at), y.data.add(at));
                let (parts, size) = (some.len() * op.parts, gamma.width);
                dispatch!(call.run.isa, |L| norm_parts::<L>(op, (x, to), (gamma.data, beta), (parts, size)));
            }
            // While they are near.
            if let Some(kind) = narrowed {
                let to = call.outputs[1].data;
                // SAFETY: as above; the planner gave the second output its size.
                some.for_each(|row| unsafe {
                    kind.run_row(call.run.isa, (y.rows, y.width), (y.data, to), row);
                });
            }
        }
    });
}

/// Norms `parts` parts of `size` numbers; a null `beta` is none.
///
/// # Safety
/// The machine has `L`'s instructions; `x` and `y` hold the parts, `gamma` and `beta` `size` numbers.
#[inline(always)]
unsafe fn norm_parts<L: Lanes>(
    op: &Norm,
    (x, y): (*const f32, *mut f32),
    (gamma, beta): (*const f32, *const f32),
    (parts, size): (usize, usize),
) {
    // Moments are long chains of operations. Those of several parts, one after the other, are computed at the same time.
    let mut moments = [Moments { near: 0.0, rest: 0.0, inverse: 0.0 }; AT_ONCE];
    for first in (0..parts).step_by(AT_ONCE) {
        let some = AT_ONCE.min(parts - first);
        // SAFETY: these parts lie within x and y; columns stay below `size`.
        unsafe {
            for (part, moments) in moments[..some].iter_mut().enumerate() {
                *moments = self::moments::<L>(op, x.add((first + part) * size), size);
            }
            for (part, moments) in moments[..some].iter().enumerate() {
                let at = (first + part) * size;
                apply::<L>(moments, (x.add(at), y.add(at)), (gamma, beta), size);
            }
        }
    }
}

/// Norms one part.
///
/// # Safety
/// As for [`norm_parts`].
#[inline(always)]
unsafe fn apply<L: Lanes>(
    moments: &Moments,
    (x, y): (*const f32, *mut f32),
    (gamma, beta): (*const f32, *const f32),
    size: usize,
) {
    let mut j = 0;
    // SAFETY: the caller's promise; columns stay below `size`.
    unsafe {
        while j + LANES <= size {
            apply_some::<L>(moments, (x.add(j), y.add(j)), (gamma, beta), (j, LANES));
            j += LANES;
        }
        if j < size {
            apply_some::<L>(moments, (x.add(j), y.add(j)), (gamma, beta), (j, size - j));
        }
    }
}

/// Norms `some` numbers of a part, from column `j` on.
///
/// # Safety
/// As for [`norm_parts`].
#[inline(always)]
unsafe fn apply_some<L: Lanes>(
    moments: &Moments,
    (x, y): (*const f32, *mut f32),
    (gamma, beta): (*const f32, *const f32),
    (j, some): (usize, usize),
) {
    // SAFETY: the caller's promise.
    unsafe {
        let n = moments.normed(load::<L>(x, some));
        let gain = load::<L>(gamma.add(j), some);
        let bias = if beta.is_null() { L::zero() } else { load::<L>(beta.add(j), some) };
        store(n.fma(gain, bias), y, some);
    }
}

/// Σ h and Σ h ⊙ n, where h = γ ⊙ dy.
struct Flows {
    x: *const f32,
    gamma: *const f32,
    dy: *const f32,
    row: Moments,
}

impl Sums<2> for Flows {
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

/// Inputs x, γ, dy; outputs dx, dγ, for some kinds dβ, and the moments of every part.
///
/// First dx and the moments, rows shared out; then dγ and dβ, columns shared out, each a sum over rows in their order.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn norm_grad(op: &NormGrad, call: Call<'_>) {
    let (x, gamma, dy) = (call.inputs[0], call.inputs[1], call.inputs[2]);
    let (dx, kept) = (call.outputs[0], call.outputs[call.outputs.len() - 1]);
    let size = gamma.width;
    over_rows(call.worker, dx.rows, dx.width, |rows| {
        for part in rows.start * op.norm.parts..rows.end * op.norm.parts {
            // SAFETY: `isa` is this machine's; the part lies within x, dy and dx, its moments within `kept`, and nobody
            // else writes them.
            unsafe {
                let at = part * size;
                let flows =
                    (x.data.add(at).cast_const(), gamma.data.cast_const(), dy.data.add(at).cast_const());
                let row = kept.data.add(part * MOMENTS).cast::<Moments>();
                *row = dispatch!(call.run.isa, |L| input_grad::<L>(&op.norm, flows, dx.data.add(at), size));
            }
        }
    });
    call.worker.barrier();
    let dbeta = match op.norm.kind {
        NormKind::Layer => call.outputs[2].data,
        NormKind::LayerWithoutBias | NormKind::Rms => std::ptr::null_mut(),
    };
    let parts = dx.rows * op.norm.parts;
    over_columns(call.worker, size, |columns| {
        // SAFETY: `isa` is this machine's; all moments were written before the barrier; columns stay below `size`, and
        // nobody else writes them.
        unsafe {
            let from = (x.data.cast_const(), dy.data.cast_const(), kept.data.cast::<Moments>().cast_const());
            let to = (call.outputs[1].data, dbeta);
            let mut j = columns.start;
            while j < columns.end {
                let some = (ABREAST * LANES).min(columns.end - j);
                if some == ABREAST * LANES {
                    dispatch!(call.run.isa, |L| weight_grads::<L, ABREAST>(
                        from,
                        to,
                        (j, some),
                        (parts, size)
                    ));
                    j += some;
                } else {
                    let some = some.min(LANES);
                    dispatch!(call.run.isa, |L| weight_grads::<L, 1>(from, to, (j, some), (parts, size)));
                    j += some;
                }
            }
        }
    });
}

/// # Safety
/// The machine has `L`'s instructions; all pointers are valid for `size` numbers.
#[inline(always)]
unsafe fn input_grad<L: Lanes>(
    norm: &Norm,
    (x, gamma, dy): (*const f32, *const f32, *const f32),
    dx: *mut f32,
    size: usize,
) -> Moments {
    // SAFETY: the caller's promise; columns stay below `size`.
    unsafe {
        let row = moments::<L>(norm, x, size);
        let [sum, along] = sums::<L, 2>(&Flows { x, gamma, dy, row }, size);
        let centre = match norm.kind {
            NormKind::Layer | NormKind::LayerWithoutBias => L::splat(sum / size as f32),
            NormKind::Rms => L::zero(),
        };
        let (along, inverse) = (L::splat(-along / size as f32), L::splat(row.inverse));
        let mut j = 0;
        while j < size {
            let some = LANES.min(size - j);
            let n = row.normed(load::<L>(x.add(j), some));
            let h = load::<L>(gamma.add(j), some) * load(dy.add(j), some);
            store(n.fma(along, h - centre) * inverse, dx.add(j), some);
            j += LANES;
        }
        row
    }
}

/// dγ and, where it is not null, dβ of the `some` columns from `j` on, sixteen in each of `V` registers.
///
/// # Safety
/// The machine has `L`'s instructions; x and dy hold `parts · size` numbers, there are `parts` moments, and the columns
/// are below `size`; they are fewer than sixteen only in one register.
#[inline(always)]
unsafe fn weight_grads<L: Lanes, const V: usize>(
    (x, dy, moments): (*const f32, *const f32, *const Moments),
    (dgamma, dbeta): (*mut f32, *mut f32),
    (j, some): (usize, usize),
    (parts, size): (usize, usize),
) {
    let some = if V == 1 { some } else { LANES };
    // SAFETY: the caller's promise.
    unsafe {
        let (mut gain, mut bias) = ([L::zero(); V], [L::zero(); V]);
        for part in 0..parts {
            let row = *moments.add(part);
            for v in 0..V {
                let at = part * size + j + v * LANES;
                let n = row.normed(load::<L>(x.add(at), some));
                let back = load::<L>(dy.add(at), some);
                gain[v] = back.fma(n, gain[v]);
                bias[v] = bias[v] + back;
            }
        }
        for v in 0..V {
            store(gain[v], dgamma.add(j + v * LANES), some);
            if !dbeta.is_null() {
                store(bias[v], dbeta.add(j + v * LANES), some);
            }
        }
    }
}
