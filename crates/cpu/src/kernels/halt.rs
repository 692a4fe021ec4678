//! Adaptive halting: a handful of numbers, decided one by one, as the reference does.

use glassformer_graph::ops::{Going, Halt, HaltGrad};

use super::Call;
use super::split::over_numbers;

/// # Safety
/// As [`Call`] says; inputs p and h, outputs weight and sum.
pub(super) unsafe fn halt(op: &Halt, call: Call<'_>) {
    let ([p, h], [weight, sum]) = ([0, 1].map(|k| call.inputs[k].data), [0, 1].map(|k| call.outputs[k].data));
    over_numbers(call.worker, call.inputs[0].rows, |rows| {
        for i in rows {
            // SAFETY: all blocks have row `i`, and nobody else writes it.
            unsafe {
                let (p, h) = (*p.add(i), *h.add(i));
                (*weight.add(i), *sum.add(i)) = match op.going(p, h) {
                    Going::Halted => (0.0, h),
                    Going::On => (p, h + p),
                    Going::Halting => (1.0 - h, 1.0),
                };
            }
        }
    });
}

/// # Safety
/// As [`Call`] says; inputs p, h, dw and dh′, outputs dp and dh.
pub(super) unsafe fn halt_grad(op: &HaltGrad, call: Call<'_>) {
    let [p, h, dw, dh] = [0, 1, 2, 3].map(|k| call.inputs[k].data);
    let [dp, dsum] = [0, 1].map(|k| call.outputs[k].data);
    over_numbers(call.worker, call.inputs[0].rows, |rows| {
        for i in rows {
            // SAFETY: all blocks have row `i`, and nobody else writes it.
            unsafe {
                let (dw, dh) = (*dw.add(i), *dh.add(i));
                (*dp.add(i), *dsum.add(i)) = match op.halt.going(*p.add(i), *h.add(i)) {
                    Going::Halted => (0.0, dh),
                    Going::On => (dw + dh, dh),
                    Going::Halting => (0.0, -dw),
                };
            }
        }
    });
}
