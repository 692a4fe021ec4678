//! Whole models fitted to what they read.

use std::path::PathBuf;
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_engine::{Forward, Sequence};
use glassformer_formula::Formula;
use glassformer_formula::named::{self, Size};
use glassformer_model::Model;
use glassformer_quantize::{Fitted, Quantize};
use glassformer_tensor::Random;
use glassformer_weights::Weights;

const SIZE: Size = Size { width: 64, heads: 2, hidden: 160, layers: 2, vocabulary: 300, length: 40 };

/// Random texts of few words.
fn sequences(count: usize, seed: u64, formula: &Formula) -> Vec<Sequence> {
    let mut random = Random::new(seed);
    let mut text = || (0..24).map(|_| (random.bits() % 40) as u32 + 3).collect::<Vec<u32>>();
    let one = |_| {
        let mut sequence = Sequence::default();
        if formula.source.is_some() {
            sequence.source = text();
        }
        if formula.target.is_some() {
            sequence.target = text();
        }
        sequence
    };
    (0..count).map(one).collect()
}

/// What is written of a model, as a file's bytes and as a model.
fn written(test: &str, how: Quantize, model: &Model, fitted: &Fitted) -> (Vec<u8>, Model) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.safetensors"));
    how.write(model, fitted, &path).unwrap();
    let weights = Weights::open(&path).unwrap();
    (std::fs::read(&path).unwrap(), Model::new(model.formula().clone(), weights).unwrap())
}

fn rows(model: &Model, sequences: &[Sequence]) -> Vec<f32> {
    let forward = Forward::whole(model, &Cpu::new(2), sequences).unwrap();
    let name = forward.names().last().unwrap().to_owned();
    forward.output(&name).unwrap().unwrap().numbers.into_owned()
}

#[test]
fn fitted_models_are_nearer_on_texts_that_they_were_not_fitted_to() {
    let shared = {
        let mut formula = named::bert(SIZE);
        formula.source.as_mut().unwrap().stack.depth = glassformer_formula::Depth::Shared { times: 3 };
        formula
    };
    let formulas = [("decoder", named::gpt2(SIZE)), ("both", named::marian(SIZE)), ("shared", shared)];
    for (kind, formula) in formulas {
        let model = Model::random(formula.clone(), 5).unwrap();
        let [read, others] = [sequences(40, 1, &formula), sequences(10, 2, &formula)];
        let exact = rows(&model, &others);
        let error = |model: &Model| -> f32 {
            rows(model, &others).iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum::<f32>()
        };
        for how in [Quantize::Int4, Quantize::Int8] {
            let mut shares = Vec::new();
            let backend = || Arc::new(Cpu::new(2));
            let fitted = how.fit(&model, &read, (backend(), 2), &mut |share| shares.push(share)).unwrap();
            assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{shares:?}");
            let (bytes, near) = written(&format!("{kind}_fitted"), how, &model, &fitted);
            let (plain_bytes, plain) = written(&format!("{kind}_plain"), how, &model, &Fitted::default());
            assert_eq!(bytes.len(), plain_bytes.len());
            let [fitted_error, plain_error] = [error(&near), error(&plain)];
            println!("{kind} {how:?}: {}", fitted_error / plain_error);
            assert!(fitted_error < 0.8 * plain_error, "{kind}, {how:?}: {fitted_error} and {plain_error}");
            let alone = how.fit(&model, &read, (Arc::new(Cpu::new(1)), 3), &mut |_| ()).unwrap();
            assert!(written(&format!("{kind}_alone"), how, &model, &alone).0 == bytes, "{kind}, {how:?}");
        }
    }
}
