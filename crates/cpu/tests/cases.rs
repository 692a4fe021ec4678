//! Every case of every operation, and its gradient, against the reference: on each instruction set of this machine, with
//! 1, 2 and 5 threads, of which all give the same bits.

mod common;

use common::backends;
use glassformer_conformance::{Sampled, bits, close, gradients, sampled, with_weights};
use glassformer_graph::{Case, Op, Reference};
use glassformer_tensor::Random;

/// What `f32` and vectorised exponentials may differ from `f64` by.
const BOUND: f32 = 2e-5;

fn check(samples: &[Sampled]) {
    let expected: Vec<_> = samples.iter().map(|sample| sample.run(&Reference)).collect();
    let mut first: Vec<Option<Vec<Vec<u32>>>> = vec![None; samples.len()];
    for (with, cpu) in backends() {
        for ((sample, expected), first) in samples.iter().zip(&expected).zip(&mut first) {
            let found = sample.run(&cpu);
            if let Err(difference) = close(&found, expected, BOUND) {
                panic!("{} ({with}): {difference}", sample.name);
            }
            // Threads never change a bit; instruction sets may.
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

fn each(make: impl Fn(&Case, &mut Random) -> Option<Sampled>) -> Vec<Sampled> {
    let seeds = 1..=3;
    seeds
        .flat_map(|seed| {
            let mut random = Random::new(seed);
            Op::cases().iter().filter_map(|case| make(case, &mut random)).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_case_agrees_with_the_reference() {
    check(&each(|case, random| Some(sampled(case, random))));
}

#[test]
fn every_gradient_agrees_with_the_reference() {
    check(&each(gradients));
}

#[test]
fn weights_packed_once_give_the_same_bits_as_inputs_packed_in_the_run() {
    for (with, cpu) in backends() {
        let mut random = Random::new(9);
        for case in Op::cases() {
            let given = sampled(&case, &mut random);
            let held = with_weights(&given, &case.op);
            assert!(bits(&given.run(&cpu)) == bits(&held.run(&cpu)), "{} ({with})", given.name);
        }
    }
}
