//! The activations between two projections, alone and as gates, with their derivatives: see [`crate::lanes::activation`] for the maths.

use std::marker::PhantomData;

use glassformer_graph::ops::{Activate, ActivateGrad, Gate, GateGrad};

use super::map::{map_one, map_two};
use super::row::{load, store};
use super::split::over_numbers;
use super::{Call, CpuOperation};
use crate::dispatch;
use crate::lanes::activation::{ActivationFn, with_activation};
use crate::lanes::map::{Back, Gated, Value};
use crate::lanes::{LANES, Lanes};

/// `y = f(x)`.
impl CpuOperation for Activate {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        with_activation!(call.run.activation(self.act), |B| unsafe {
            map_one(call, Value::<B>(PhantomData));
        });
    }
}

/// `dx = f′(x) ⊙ dy`.
impl CpuOperation for ActivateGrad {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        with_activation!(call.run.activation(self.act), |B| unsafe { map_two(call, Back::<B>(PhantomData)) });
    }
}

/// `y = f(g) ⊙ u`.
impl CpuOperation for Gate {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        with_activation!(call.run.activation(self.act), |B| unsafe {
            map_two(call, Gated::<B>(PhantomData));
        });
    }
}

/// `dg = f′(g) ⊙ u ⊙ dy`, `du = f(g) ⊙ dy`.
impl CpuOperation for GateGrad {
    const BY_ROWS: bool = true;

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let y = call.outputs[0];
        over_numbers(call.worker, y.rows * y.width, |part| {
            // SAFETY: `isa` is this machine's; the part lies within all blocks, and nobody else writes it.
            unsafe {
                let from = [0, 1, 2].map(|k: usize| call.inputs[k].data.add(part.start).cast_const());
                let to = [0, 1].map(|k: usize| call.outputs[k].data.add(part.start));
                with_activation!(call.run.activation(self.act), |B| dispatch!(
                    call.run.isa,
                    |L| gate_back::<L, B>(from, to, part.len())
                ));
            }
        });
    }
}

/// # Safety
/// The machine has `L`'s instructions; all pointers are valid for `n` numbers.
#[inline(always)]
unsafe fn gate_back<L: Lanes, B: ActivationFn>(
    [g, u, dy]: [*const f32; 3],
    [dg, du]: [*mut f32; 2],
    n: usize,
) {
    for i in (0..n).step_by(LANES) {
        let some = LANES.min(n - i);
        // SAFETY: `i + some ≤ n`.
        unsafe {
            let (gate, up) = (load::<L>(g.add(i), some), load::<L>(u.add(i), some));
            let back = load::<L>(dy.add(i), some);
            store(B::slope(gate) * up * back, dg.add(i), some);
            store(B::value(gate) * back, du.add(i), some);
        }
    }
}
