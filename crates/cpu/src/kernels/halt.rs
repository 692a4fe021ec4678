//! Adaptive halting: a handful of numbers, decided one by one, as the reference does.

use glassformer_graph::ops::{Going, Halt, HaltGrad};

use super::split::over_numbers;
use super::{Call, CpuOperation};

/// Inputs p and h, outputs weight and sum.
impl CpuOperation for Halt {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let ([p, h], [weight, sum]) =
            ([0, 1].map(|k| call.inputs[k].data), [0, 1].map(|k| call.outputs[k].data));
        over_numbers(call.worker, call.inputs[0].rows, |rows| {
            for i in rows {
                // SAFETY: all blocks have row `i`, and nobody else writes it.
                unsafe {
                    let (p, h) = (*p.add(i), *h.add(i));
                    (*weight.add(i), *sum.add(i)) = match self.going(p, h) {
                        Going::Halted => (0.0, h),
                        Going::On => (p, h + p),
                        Going::Halting => (1.0 - h, 1.0),
                    };
                }
            }
        });
    }
}

/// Inputs p, h, dw and dh′, outputs dp and dh.
impl CpuOperation for HaltGrad {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let [p, h, dw, dh] = [0, 1, 2, 3].map(|k| call.inputs[k].data);
        let [dp, dsum] = [0, 1].map(|k| call.outputs[k].data);
        over_numbers(call.worker, call.inputs[0].rows, |rows| {
            for i in rows {
                // SAFETY: all blocks have row `i`, and nobody else writes it.
                unsafe {
                    let (dw, dh) = (*dw.add(i), *dh.add(i));
                    (*dp.add(i), *dsum.add(i)) = match self.halt.going(*p.add(i), *h.add(i)) {
                        Going::Halted => (0.0, dh),
                        Going::On => (dw + dh, dh),
                        Going::Halting => (0.0, -dw),
                    };
                }
            }
        });
    }
}
