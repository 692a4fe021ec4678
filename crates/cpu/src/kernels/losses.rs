//! Losses that look at several rows at once, and how many examples are right. A few numbers each: one after the other, in `f64`.

use glassformer_graph::ops::{Correct, PairLoss, PairLossGrad, SpanLoss, SpanLossGrad, What};
use glassformer_graph::{Capacity, Shape};

use super::split::each_row;
use super::{Call, CpuOperation, Needs, as_f64};
use crate::context::Block;

/// The least length that a row is divided by.
const SHORTEST: f64 = 1e-12;

/// `ln Σ exp x`, and the largest.
fn log_sum(scores: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = scores.clone().fold(f64::NEG_INFINITY, f64::max);
    most + scores.map(|x| (x - most).exp()).sum::<f64>().ln()
}

/// The place of the largest, the last of equal ones.
fn last_largest(numbers: impl Iterator<Item = f64>) -> usize {
    numbers.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(place, _)| place)
}

/// The batch has two places for each sequence, and a weight.
impl CpuOperation for SpanLoss {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        let packed = call.run.batch.side(self.side);
        call.worker.share(packed.spans.len(), |s| {
            let span = packed.spans[s];
            // SAFETY: the rows are those of x; nobody else writes y's row s.
            unsafe {
                let end = |e: usize| {
                    let at = |i: usize| f64::from(*x.data.add(2 * (span.start + i) + e));
                    log_sum((0..span.len).map(at)) - at(packed.labels[2 * s + e] as usize)
                };
                *y.data.add(s) = (f64::from(packed.weights[s]) / 2.0 * (end(0) + end(1))) as f32;
            }
        });
    }
}

/// Inputs: scores and dy; the batch has two places for each sequence, and a weight.
impl CpuOperation for SpanLossGrad {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, dy, dx) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        let packed = call.run.batch.side(self.of.side);
        call.worker.share(packed.spans.len(), |s| {
            let span = packed.spans[s];
            // SAFETY: the rows are those of x and dx, and nobody else writes this sequence's.
            unsafe {
                let share = f64::from(*dy.data.add(s)) * f64::from(packed.weights[s]) / 2.0;
                for e in 0..2 {
                    let place = |i: usize| 2 * (span.start + i) + e;
                    let at = |i: usize| f64::from(*x.data.add(place(i)));
                    let sum = log_sum((0..span.len).map(at));
                    for i in 0..span.len {
                        let right = f64::from(u8::from(i == packed.labels[2 * s + e] as usize));
                        *dx.data.add(place(i)) = (share * ((at(i) - sum).exp() - right)) as f32;
                    }
                }
            }
        });
    }
}

/// Rows of which every second one belongs to the one before it.
#[derive(Clone, Copy)]
struct Pairs {
    x: Block,
    scale: f64,
}

impl Pairs {
    fn count(self) -> usize {
        self.x.rows / 2
    }

    /// # Safety
    /// x has row i, and nobody writes it.
    unsafe fn length(self, i: usize) -> f64 {
        // SAFETY: the caller's promise.
        let row = unsafe { self.x.row(i) };
        row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt().max(SHORTEST)
    }

    /// The scaled cosine of the first of pair i and the second of pair j.
    ///
    /// # Safety
    /// x has these rows, and nobody writes them.
    unsafe fn score(self, i: usize, j: usize) -> f64 {
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b) = (self.x.row(2 * i), self.x.row(2 * j + 1));
            let dot: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            self.scale * dot / (self.length(2 * i) * self.length(2 * j + 1))
        }
    }
}

/// The batch has a weight for each pair.
impl CpuOperation for PairLoss {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        let pairs = Pairs { x, scale: f64::from(self.scale) };
        let packed = call.run.batch.side(self.side);
        call.worker.share(y.rows, |i| {
            // SAFETY: i is a row of y, which nobody else writes; pairs are rows of x.
            unsafe {
                *y.data.add(i) = if i < pairs.count() {
                    let sum = log_sum((0..pairs.count()).map(|j| pairs.score(i, j)));
                    (f64::from(packed.weights[i]) * (sum - pairs.score(i, i))) as f32
                } else {
                    0.0
                };
            }
        });
    }
}

/// Inputs: rows and dy; a further output is the workspace; the batch has a weight for each pair.
impl CpuOperation for PairLossGrad {
    fn needs(&self, inputs: &[Shape], capacity: &Capacity) -> Needs {
        // The lengths of rows, and what flows between each first and each second one; what flows into a row. All in 64 bits.
        let rows = capacity.count(inputs[0].rows);
        let workspace = 2 * (rows + (rows / 2) * (rows / 2));
        Needs { workspace, scratch: 2 * inputs[0].width, ..Needs::default() }
    }

    unsafe fn run(&self, call: Call<'_>, scratch: &mut [f32]) {
        let (x, dy, dx) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        let lengths = as_f64(call.outputs[1].data);
        let flows = lengths.wrapping_add(x.rows);
        let pairs = Pairs { x, scale: f64::from(self.of.scale) };
        let (count, width) = (pairs.count(), x.width);
        let packed = call.run.batch.side(self.of.side);
        // SAFETY: each length is one worker's; the workspace is aligned as a cache line is.
        call.worker.share(x.rows, |row| unsafe { lengths.add(row).write(pairs.length(row)) });
        call.worker.barrier();
        call.worker.share(count, |i| {
            // SAFETY: row i of the flows is this worker's; the lengths lie before the barrier.
            unsafe {
                let score = |j: usize| {
                    let (a, b) = (x.row(2 * i), x.row(2 * j + 1));
                    let dot: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                    pairs.scale * dot / (*lengths.add(2 * i) * *lengths.add(2 * j + 1))
                };
                let sum = log_sum((0..count).map(score));
                let share = f64::from(*dy.data.add(i)) * f64::from(packed.weights[i]) * pairs.scale;
                for j in 0..count {
                    let p = (score(j) - sum).exp() - f64::from(u8::from(i == j));
                    flows.add(i * count + j).write(share * p);
                }
            }
        });
        call.worker.barrier();
        let scratch = as_f64(scratch.as_mut_ptr());
        call.worker.share(x.rows, |row| {
            let pair = row / 2;
            // SAFETY: nobody else writes dx's row; flows and lengths lie before the barrier; the scratch has `width` numbers.
            unsafe {
                let to = dx.row_mut(row);
                if pair >= count {
                    return to.fill(0.0);
                }
                let flow = std::slice::from_raw_parts_mut(scratch, width);
                flow.fill(0.0);
                for other in 0..count {
                    let (p, from) = if row % 2 == 0 {
                        (*flows.add(pair * count + other), 2 * other + 1)
                    } else {
                        (*flows.add(other * count + pair), 2 * other)
                    };
                    let p = p / *lengths.add(from);
                    flow.iter_mut().zip(x.row(from)).for_each(|(flow, &x)| *flow += p * f64::from(x));
                }
                let length = *lengths.add(row);
                let unit = x.row(row).iter().map(|&x| f64::from(x) / length);
                let along: f64 = unit.clone().zip(&*flow).map(|(u, g)| u * g).sum();
                for ((to, u), g) in to.iter_mut().zip(unit).zip(&*flow) {
                    *to = ((g - u * along) / length) as f32;
                }
            }
        });
    }
}

/// The batch has the labels of such examples.
impl CpuOperation for Correct {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        let packed = call.run.batch.side(self.side);
        let right = |i: usize| {
            // SAFETY: i is a row of y, and so is what is read one of x.
            unsafe {
                match self.what {
                    What::Rows => {
                        let row = x.row(i);
                        let score = row[packed.labels[i] as usize];
                        row.iter().all(|&other| other <= score)
                    }
                    What::Spans => {
                        let span = packed.spans[i];
                        let score = |k: usize, e: usize| f64::from(*x.data.add(2 * (span.start + k) + e));
                        let best = |e: usize| last_largest((0..span.len).map(|k| score(k, e)));
                        (0..2).all(|e| best(e) == packed.labels[2 * i + e] as usize)
                    }
                    What::Pairs => {
                        let pairs = Pairs { x, scale: 1.0 };
                        let count = pairs.count();
                        i < count && last_largest((0..count).map(|j| pairs.score(i, j))) == i
                    }
                }
            }
        };
        each_row(call.worker, y.rows, x.width, |i| {
            // SAFETY: nobody else writes this number.
            unsafe { *y.data.add(i) = f32::from(u8::from(right(i))) };
        });
    }
}
