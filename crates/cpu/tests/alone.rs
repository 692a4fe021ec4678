//! Batched = alone, bit by bit: every case and every gradient, once with all sequences and once with each by itself.
//!
//! Sums over the rows of a batch (gradients of weights) depend on the batch by their nature and are not compared, nor is
//! dropout, whose draws count the rows of the batch.

mod common;

use common::backends;
use glassformer_conformance::{Sampled, gradients, sampled};
use glassformer_graph::{Batch, Leaf, Op, Packed, Rows, Side, Span};
use glassformer_tensor::Random;

/// The rows of sequence `s` among `rows`, or all where they belong to no sequence.
fn rows_of(batch: &Batch<'_>, rows: Rows, s: usize) -> Option<Vec<usize>> {
    let within = |side: Side, row: usize| {
        let span = batch.side(side).spans[s];
        (span.start..span.start + span.len).contains(&row)
    };
    let all = 0..batch.count(rows);
    match rows {
        Rows::Fixed(_) => Some(all.collect()),
        Rows::Tokens(_) | Rows::Memory(_) | Rows::Recalled(_) | Rows::Low(..) | Rows::Sequences(_) => {
            let (start, len) = batch.segment(rows, s);
            Some((start..start + len).collect())
        }
        Rows::Picked(side) => {
            let picked = &batch.side(side).picked;
            Some(all.filter(|&n| within(side, picked[n] as usize)).collect())
        }
        Rows::Distances(side) => Some((0..batch.side(side).spans[s].keys()).collect()),
        // How many there are depends on the attention, or on the shortest of all sequences.
        Rows::Pairs(_) | Rows::Remembered(..) => None,
    }
}

fn alone(packed: &Packed, s: usize) -> Packed {
    let span = packed.spans[s];
    let rows = span.start..span.start + span.len;
    let mut one = Packed::default();
    one.push(&packed.tokens[rows.clone()], Span { source: 0, ..span });
    one.types = packed.types[rows.clone()].to_vec();
    one.global = packed.global[rows.clone()].to_vec();
    for (n, &row) in packed.picked.iter().enumerate().filter(|(_, row)| rows.contains(&(**row as usize))) {
        one.picked.push(row - span.start as u32);
        one.labels.push(packed.labels[n]);
        one.weights.push(packed.weights[n]);
    }
    one.spans[0].memory_start = 0;
    one
}

fn cut(numbers: &[f32], width: usize, rows: &[usize]) -> Vec<f32> {
    rows.iter().flat_map(|&row| numbers[row * width..(row + 1) * width].iter().copied()).collect()
}

/// The sample with sequence `s` of both sides alone; nothing where a size depends on more than the sequences.
fn only(sample: &Sampled, s: usize) -> Option<Sampled> {
    // Labels that are no rows', and weights of pairs, say something of the batch as a whole.
    let of_rows = |packed: &Packed| packed.weights.len() == packed.picked.len();
    if !of_rows(&sample.batch.source) || !of_rows(&sample.batch.target) {
        return None;
    }
    let batch = Batch {
        source: alone(&sample.batch.source, s),
        target: alone(&sample.batch.target, s),
        ..sample.batch.clone()
    };
    let leaves = sample.graph.leaves(Leaf::Input).zip(&sample.inputs);
    let inputs = leaves.map(|((_, info), numbers)| {
        Some(cut(numbers, info.shape.width, &rows_of(&sample.batch, info.shape.rows, s)?))
    });
    let (name, graph) = (sample.name.clone(), sample.graph.clone());
    Some(Sampled {
        name,
        graph,
        batch,
        inputs: inputs.collect::<Option<_>>()?,
        weights: sample.weights.clone(),
    })
}

fn check(samples: &[Sampled]) {
    for (with, cpu) in backends() {
        for sample in samples {
            let all = sample.run(&cpu);
            for s in 0..sample.batch.target.spans.len() {
                let Some(one) = only(sample, s) else { continue };
                let found = one.run(&cpu);
                for (k, (_, value)) in sample.graph.outputs().iter().enumerate() {
                    let shape = sample.graph.shape(*value);
                    if let Rows::Fixed(_) | Rows::Distances(_) = shape.rows {
                        continue;
                    }
                    let Some(rows) = rows_of(&sample.batch, shape.rows, s) else { continue };
                    let expected = cut(&all[k], shape.width, &rows);
                    assert!(
                        found[k].len() == expected.len()
                            && found[k].iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()),
                        "{} ({with}), output {k}, sequence {s}: {:?} alone, {expected:?} in the batch",
                        sample.name,
                        found[k]
                    );
                }
            }
        }
    }
}

#[test]
fn every_sequence_has_the_same_bits_alone_and_in_a_batch() {
    let mut random = Random::new(4);
    let cases = Op::cases();
    let steady = cases.iter().filter(|case| !matches!(case.op, Op::Dropout(_)));
    check(&steady.map(|case| sampled(case, &mut random)).collect::<Vec<_>>());
}

#[test]
fn gradients_of_rows_have_the_same_bits_alone_and_in_a_batch() {
    let mut random = Random::new(5);
    let cases = Op::cases();
    let steady = cases.iter().filter(|case| !matches!(case.op, Op::Dropout(_)));
    check(&steady.filter_map(|case| gradients(case, &mut random)).collect::<Vec<_>>());
}
