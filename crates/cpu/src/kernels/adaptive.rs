//! The adaptive softmax and its gradient.

use glassformer_graph::ops::{Adaptive, AdaptiveGrad};

use super::row::{Total, sums};
use super::softmax::log_sum;
use super::split::each_row;
use super::{Call, CpuOperation};
use crate::dispatch;

/// The logarithm of `e^a + e^b`.
fn log_add(a: f32, b: f32) -> f32 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f32::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// Inputs: scores of the first cluster, of the other clusters, and of the vocabulary of each.
impl CpuOperation for Adaptive {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let y = call.outputs[0];
        let isa = call.run.isa;
        each_row(call.worker, y.rows, y.width, |i| {
            // SAFETY: `isa` is this machine's; row `i` lies within all blocks, and nobody else writes y's.
            unsafe {
                let row = |k: usize| call.inputs[k].row(i);
                let sum = |x: &[f32]| dispatch!(isa, |L| log_sum::<L>(x.as_ptr(), x.len()));
                let clusters: &[f32] = if call.inputs.len() > 1 { row(1) } else { &[] };
                let all = if clusters.is_empty() { sum(row(0)) } else { log_add(sum(row(0)), sum(clusters)) };
                let (first, mut rest) = y.row_mut(i).split_at_mut(call.inputs[0].width);
                first.iter_mut().zip(row(0)).for_each(|(y, x)| *y = x - all);
                for (k, cluster) in clusters.iter().enumerate() {
                    let vocabulary = row(k + 2);
                    let shift = cluster - all - sum(vocabulary);
                    let (part, after) = rest.split_at_mut(vocabulary.len());
                    part.iter_mut().zip(vocabulary).for_each(|(y, x)| *y = x + shift);
                    rest = after;
                }
            }
        });
    }
}

/// Inputs: those of [`adaptive`], its result y, and dy.
impl CpuOperation for AdaptiveGrad {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let count = call.outputs.len();
        let (y, dy) = (call.inputs[count], call.inputs[count + 1]);
        let isa = call.run.isa;
        each_row(call.worker, y.rows, y.width, |i| {
            // SAFETY: `isa` is this machine's; row `i` lies within all blocks, and nobody else writes the outputs'.
            unsafe {
                let (y, dy) = (y.row(i), dy.row(i));
                let sum = |x: &[f32]| dispatch!(isa, |L| sums::<L, 1>(&Total(x.as_ptr()), x.len()))[0];
                let total = sum(dy);
                let first = call.outputs[0].row_mut(i);
                let mut start = first.len();
                for (j, d) in first.iter_mut().enumerate() {
                    *d = dy[j] - y[j].exp() * total;
                }
                for k in 2..count {
                    let vocabulary = call.outputs[k].row_mut(i);
                    let (y, dy) = (&y[start..start + vocabulary.len()], &dy[start..start + vocabulary.len()]);
                    let part = sum(dy);
                    let share = dispatch!(isa, |L| log_sum::<L>(y.as_ptr(), y.len())); // ln p(cluster)
                    call.outputs[1].row_mut(i)[k - 2] = part - share.exp() * total;
                    for (j, d) in vocabulary.iter_mut().enumerate() {
                        *d = dy[j] - (y[j] - share).exp() * part;
                    }
                    start += vocabulary.len();
                }
            }
        });
    }
}
