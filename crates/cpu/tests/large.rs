//! Sizes at which work is cut into several items: long batches of every case, and wide rows of what sums over them.

mod common;

use common::backends;
use glassformer_conformance::{Sampled, bits, close, gradients, sampled};
use glassformer_graph::ops::{
    Activate, Activation, Add, CrossEntropy, CrossEntropyGrad, DotColumns, Dropout, Gate, Ids, LeadGrad,
    Linear, LinearInputGrad, LinearWeightGrad, Lookup, LookupGrad, Norm, NormGrad, NormKind, Pairing, Pool,
    Pooling, Rotate, Softmax, SoftmaxGrad, Squeeze, SqueezeGrad, SumRows, Turns,
};
use glassformer_graph::{Case, Labels, Op, Reference, Rows, Sample, Shape, Side};
use glassformer_tensor::{Random, Tolerance, compare};

const LONG: Sample =
    Sample { source: &[130, 1, 70], target: &[40, 200, 3], memory: &[11, 0, 30], unpooled: &[], ids: 4 };

const LONG_PAIRS: Sample = Sample { source: &[130, 1, 70, 5], ..LONG };

/// Sums over hundreds of rows in `f32`.
const BOUND: f32 = 5e-5;

fn check(samples: &[Sampled], bound: f32) {
    let expected: Vec<_> = samples.iter().map(|sample| sample.run(&Reference)).collect();
    let mut first: Vec<Option<Vec<Vec<u32>>>> = vec![None; samples.len()];
    for (with, cpu) in backends() {
        for ((sample, expected), first) in samples.iter().zip(&expected).zip(&mut first) {
            let found = sample.run(&cpu);
            if let Err(difference) = close(&found, expected, bound) {
                panic!("{} ({with}): {difference}", sample.name);
            }
            if cpu.threads() == 1 {
                *first = Some(bits(&found));
            }
            assert!(
                *first == Some(bits(&found)),
                "{} ({with}): other bits than with one thread",
                sample.name
            );
        }
    }
}

#[test]
fn every_case_with_long_sequences_agrees_with_the_reference() {
    let mut random = Random::new(11);
    let sample = |case: &Case| if case.labels == Labels::Pairs { LONG_PAIRS } else { LONG };
    let cases = Op::cases().into_iter().map(|case| {
        let sample = sample(&case);
        case.on(sample)
    });
    // These have tables for short sequences only.
    let cases: Vec<Case> = cases
        .filter(|case| match &case.op {
            Op::Squeeze(_) | Op::SqueezeGrad(_) => false,
            Op::Lookup(op) => !matches!(op.ids, Ids::Positions { .. }),
            _ => true,
        })
        .collect();
    let mut samples: Vec<Sampled> = cases.iter().map(|case| sampled(case, &mut random)).collect();
    samples.extend(cases.iter().filter_map(|case| gradients(case, &mut random)));
    check(&samples, BOUND);
}

fn wide_cases() -> Vec<Case> {
    let side = Side::Target;
    let rows = |width| Shape::new(Rows::Tokens(side), width);
    let picked = |width| Shape::new(Rows::Picked(side), width);
    let wide = rows(150);
    let norm = |kind, parts| Norm { kind, epsilon: 1e-5, parts };
    let gain = |width| Shape::fixed(1, width);
    let of = CrossEntropy { side, smoothing: 0.1 };
    let turns = |pairs: u16| Turns::Fixed((0..pairs).map(|i| 1.0 / f32::from(1 + i)).collect());
    let rotate = |pairing| Rotate {
        side,
        size: 75,
        turning: 70,
        pairing,
        turns: turns(35),
        magnitude: 1.0,
        direction: glassformer_graph::ops::Direction::Forward,
    };
    vec![
        Case::new(Linear, &[wide, Shape::fixed(700, 150), gain(700)]),
        Case::new(LinearInputGrad, &[rows(400), Shape::fixed(400, 90)]),
        Case::new(LinearWeightGrad, &[wide, rows(99)]),
        Case::new(Add, &[wide, wide]),
        Case::new(Activate { act: Activation::Gelu }, &[wide]),
        Case::new(Gate { act: Activation::Silu }, &[wide, wide]),
        Case::new(Dropout { rate: 0.3, site: 5 }, &[wide]),
        Case::new(SumRows, &[rows(200)]),
        Case::new(DotColumns, &[rows(1000), rows(1000)]),
        Case::new(norm(NormKind::Layer, 1), &[wide, gain(150), gain(150)]),
        Case::new(norm(NormKind::Rms, 3), &[wide, gain(50)]),
        Case::new(NormGrad { norm: norm(NormKind::Layer, 1) }, &[wide, gain(150), wide]),
        Case::new(NormGrad { norm: norm(NormKind::Rms, 2) }, &[wide, gain(75), wide]),
        Case::new(Softmax, &[rows(5000)]),
        Case::new(SoftmaxGrad, &[rows(900), rows(900)]).between(0.0, 0.01),
        Case::new(of, &[picked(5000)]),
        Case::new(CrossEntropyGrad { of }, &[picked(5000), picked(1)]),
        Case::new(Lookup { ids: Ids::Tokens(side) }, &[Shape::fixed(9, 150)]),
        Case::new(LookupGrad { ids: Ids::Tokens(side), table: Shape::fixed(60, 150) }, &[wide]),
        Case::new(LeadGrad { side }, &[wide]),
        Case::new(Pool { side, poolings: vec![Pooling::Max, Pooling::Mean] }, &[wide]),
        Case::new(Squeeze { side }, &[wide, Shape::fixed(40, 210)]),
        Case::new(SqueezeGrad { side }, &[wide, Shape::fixed(40, 210), Shape::new(Rows::Low(side, 40), 150)]),
        Case::new(rotate(Pairing::Halves), &[wide]),
        Case::new(rotate(Pairing::Interleaved), &[wide]),
    ]
}

#[test]
fn wide_rows_agree_with_the_reference() {
    let mut random = Random::new(12);
    let samples: Vec<_> = wide_cases().into_iter().map(|case| sampled(&case.on(LONG), &mut random)).collect();
    check(&samples, BOUND);
}

/// Ordinary data: a few deviations from zero, widths of real models.
#[test]
fn a_norm_is_within_a_millionth_of_the_reference() {
    let mut random = Random::new(13);
    for kind in [NormKind::Layer, NormKind::LayerWithoutBias, NormKind::Rms] {
        for width in [64, 768, 1000, 4096] {
            let weight = Shape::fixed(1, width);
            let mut inputs = vec![Shape::new(Rows::Tokens(Side::Source), width), weight, weight];
            inputs.truncate(if kind == NormKind::Layer { 3 } else { 2 });
            let case = Case::new(Norm { kind, epsilon: 1e-6, parts: 1 }, &inputs).between(-1.0, 5.0);
            let sample = sampled(&case, &mut random);
            let expected = sample.run(&Reference);
            for (with, cpu) in backends() {
                let found = sample.run(&cpu);
                let tolerance = Tolerance { absolute: 2e-6, relative: 1e-6 };
                compare(&found[0], &expected[0], tolerance)
                    .unwrap_or_else(|difference| panic!("{kind:?} of {width} ({with}): {difference}"));
            }
        }
    }
}
