//! What an optimiser does: the length of gradients, their sums over several batches, and a step of AdamW.
//!
//! What happens to a number depends on that number alone, and squares are summed piece by piece in a fixed order, so the number of
//! threads changes no bit.

use glassformer_graph::ops::{Accumulate, AdamW, Step, SumSquares};
use glassformer_graph::{Capacity, Shape};

use super::split::over_numbers;
use super::{Call, CpuOperation, Needs, as_f64};
use crate::context::Block;

/// Numbers whose squares are summed by one worker.
const PIECE: usize = 1 << 16;

/// A further output is the workspace of [`squares_workspace`].
impl CpuOperation for SumSquares {
    fn needs(&self, inputs: &[Shape], capacity: &Capacity) -> Needs {
        // Each sum is a number of 64 bits.
        let pieces = inputs.iter().map(|shape| (capacity.count(shape.rows) * shape.width).div_ceil(PIECE));
        Needs { workspace: 2 * pieces.sum::<usize>(), ..Needs::default() }
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (y, sums) = (call.outputs[0], as_f64(call.outputs[1].data));
        let pieces = |x: &Block| (x.rows * x.width).div_ceil(PIECE);
        let count = call.inputs.iter().map(pieces).sum();
        call.worker.share(count, |piece| {
            let mut at = piece;
            for x in call.inputs {
                if at < pieces(x) {
                    let (start, all) = (at * PIECE, x.rows * x.width);
                    // SAFETY: the piece lies within x; each sum is one worker's, and the workspace is aligned as a cache line is.
                    unsafe {
                        let numbers = std::slice::from_raw_parts(
                            x.data.add(start).cast_const(),
                            PIECE.min(all - start),
                        );
                        sums.add(piece).write(squares(numbers));
                    }
                    return;
                }
                at -= pieces(x);
            }
        });
        call.worker.barrier();
        if call.worker.index == 0 {
            // SAFETY: all sums were written before the barrier; y is one number.
            unsafe { *y.data = (0..count).map(|piece| *sums.add(piece)).sum::<f64>() as f32 };
        }
    }
}

/// The sum of squares, in eight lanes that are added at the end.
fn squares(numbers: &[f32]) -> f64 {
    let mut lanes = [0.0_f64; 8];
    let whole = numbers.chunks_exact(8);
    let rest: f64 = whole.remainder().iter().map(|&x| f64::from(x).powi(2)).sum();
    for chunk in whole {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(x) * f64::from(x);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// y may be where the sum is.
impl CpuOperation for Accumulate {
    fn in_place_of(&self, _: usize) -> Option<usize> {
        Some(0)
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let [sum, x, begins] = [call.inputs[0], call.inputs[1], call.inputs[2]];
        let y = call.outputs[0];
        // SAFETY: it is one number, which nobody writes.
        let begins = unsafe { *begins.data } > 0.5;
        over_numbers(call.worker, y.rows * y.width, |part| {
            // SAFETY: the part lies within all blocks, and nobody else writes it.
            unsafe {
                let x = std::slice::from_raw_parts(x.data.add(part.start).cast_const(), part.len());
                let y = taken_over(sum, y, &part);
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = if begins { x } else { *y + x };
                }
            }
        });
    }
}

/// That part of `to`, holding what `from` holds there: nothing is copied where both are the same.
///
/// # Safety
/// The part lies within both; nobody else writes it while the slice lives.
unsafe fn taken_over<'a>(from: Block, to: Block, part: &std::ops::Range<usize>) -> &'a mut [f32] {
    // SAFETY: the caller's promise.
    unsafe {
        let place = to.data.add(part.start);
        if from.data != to.data {
            place.copy_from_nonoverlapping(from.data.add(part.start), part.len());
        }
        std::slice::from_raw_parts_mut(place, part.len())
    }
}

/// Each output may be where its input is.
impl CpuOperation for AdamW {
    fn in_place_of(&self, output: usize) -> Option<usize> {
        [0, 2, 3, 6].get(output).copied()
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let Call { inputs, outputs, .. } = call;
        // SAFETY: the step is four numbers and the square one, which nobody writes.
        let (step, square) = unsafe { (Step::of(inputs[4].row(0)), *inputs[5].data) };
        let factor = self.factor(square);
        let gradient = inputs[1];
        over_numbers(call.worker, outputs[0].rows * outputs[0].width, |part| {
            // SAFETY: the part lies within all blocks, and nobody else writes it; outputs are each at another place.
            unsafe {
                let own = |input: usize, output: usize| taken_over(inputs[input], outputs[output], &part);
                let (w, m, v) = (own(0, 0), own(2, 1), own(3, 2));
                let average = (outputs.len() > 3).then(|| own(6, 3));
                let Some(factor) = factor else { return };
                let g = std::slice::from_raw_parts(gradient.data.add(part.start).cast_const(), part.len());
                update(self, step, factor, Moving { w, g, m, v });
                if let Some(average) = average {
                    for (a, w) in average.iter_mut().zip(&*w) {
                        *a = step.kept * *a + (1.0 - step.kept) * *w;
                    }
                }
            }
        });
    }
}

/// Some weights w, with their gradients g and moments m and v.
struct Moving<'a> {
    w: &'a mut [f32],
    g: &'a [f32],
    m: &'a mut [f32],
    v: &'a mut [f32],
}

/// Moves weights against their gradients.
fn update(op: &AdamW, step: Step, factor: f32, moving: Moving<'_>) {
    let Moving { w, g, m, v } = moving;
    let AdamW { beta1, beta2, epsilon, .. } = *op;
    let rate = step.rate * op.rate;
    let (size, shrink) = (rate / step.first, 1.0 - rate * op.decay);
    for (((w, &g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
        let g = g * factor;
        *m = beta1 * *m + (1.0 - beta1) * g;
        *v = beta2 * *v + (1.0 - beta2) * g * g;
        *w = *w * shrink - size * *m / (v.sqrt() / step.second + epsilon);
    }
}
