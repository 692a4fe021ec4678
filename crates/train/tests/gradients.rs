//! Gradients of whole random formulas: the plan's equal the reference's, and the reference's equal finite differences.

use std::collections::BTreeMap;
use std::sync::Arc;

use glassformer_conformance as common;
use glassformer_cpu::Cpu;
use glassformer_formula::{Formula, Head};
use glassformer_graph::{Array, Backend, Batch, Capacity, Graph, Leaf, Reference, State};
use glassformer_model::initialise;
use glassformer_tensor::{Random, Tensor, Tolerance, compare};
use glassformer_train::{Settings, training_graph};

/// A random formula with a head, its training graph, numbers for all inputs of that, and a labelled batch.
struct Sample {
    formula: Formula,
    graph: Arc<Graph>,
    inputs: Vec<Vec<f32>>,
    batch: Batch<'static>,
}

fn sample(seed: u64, dropout: f32) -> Sample {
    let mut random = Random::new(seed);
    let mut formula = common::formula(&mut random);
    if formula.head == Head::Rows {
        formula.head = Head::Tags { count: 3, dense: None };
    }
    let settings = Settings { dropout, smoothing: 0.1, ..Settings::default() };
    let graph = Arc::new(training_graph(&formula, &settings).expect("it can be trained"));
    let mut parameters: BTreeMap<String, Tensor> = initialise(&formula, seed).expect("the formula works");
    for tensor in parameters.values_mut() {
        tensor.data_mut().iter_mut().for_each(|x| *x += 0.1 * random.normal());
    }
    let (mut batch, patches) = common::batch(&mut random, &formula, 2);
    let last = if formula.target.is_some() { &mut batch.target } else { &mut batch.source };
    let (labelled, classes) = match formula.head {
        Head::Classes { count, .. } => (last.spans.len(), count),
        Head::Words { .. } | Head::Adaptive { .. } => (last.rows(), common::VOCABULARY),
        Head::Tags { count, .. } => (last.rows(), count),
        Head::Spans | Head::Rows => (last.rows(), 2),
    };
    last.labels = (0..labelled).map(|_| random.below(classes) as u32).collect();
    last.weights = (0..labelled).map(|_| random.uniform()).collect();
    let patches = patches.concat();
    let number = |name: &str| match parameters.get(name) {
        Some(tensor) => tensor.data().to_vec(),
        None if name.ends_with(".patches") => patches.clone(),
        None => Vec::new(),
    };
    let inputs = graph.leaves(Leaf::Input).map(|(_, info)| number(&info.name)).collect();
    Sample { formula, graph, inputs, batch }
}

impl Sample {
    fn bound<'a>(&self, inputs: &'a [Vec<f32>]) -> Batch<'a> {
        Batch { inputs: inputs.iter().map(Vec::as_slice).collect(), ..self.batch.clone() }
    }

    fn run(&self, backend: &dyn Backend) -> Vec<Vec<f32>> {
        let batch = self.bound(&self.inputs);
        let none: BTreeMap<String, Tensor> = BTreeMap::new();
        let runner = backend.prepare(&self.graph, &none, &Capacity::of(&batch)).expect("it prepares");
        let mut state = State::default();
        runner.run(&mut state, &batch).expect("it runs");
        (0..self.graph.outputs().len())
            .map(|index| runner.output(&state, index).expect("it ran").into_owned())
            .collect()
    }

    fn exact(&self, inputs: &[Vec<f32>]) -> Vec<Array> {
        let none: BTreeMap<String, Tensor> = BTreeMap::new();
        Reference::evaluate(&self.graph, &none, &self.bound(inputs)).expect("it runs")
    }
}

#[test]
fn the_plans_gradients_equal_the_references() {
    let (one, two) = (Cpu::new(1), Cpu::new(2).sharing_everything().taking_rows(2));
    for seed in 0..80 {
        let sample = sample(seed, if seed % 2 == 0 { 0.0 } else { 0.2 });
        let found = sample.run(&two);
        assert_eq!(found, sample.run(&one), "seed {seed}: one thread and two");
        let expected = sample.run(&Reference);
        for (index, (name, _)) in sample.graph.outputs().iter().enumerate() {
            compare(&found[index], &expected[index], Tolerance::both(1e-3))
                .unwrap_or_else(|d| panic!("seed {seed}, {name}: {d}\n{:#?}", sample.formula));
        }
    }
}

#[test]
fn gradients_equal_finite_differences() {
    for seed in 0..60 {
        let sample = sample(seed, 0.0);
        let mut random = Random::new(!seed);
        let loss = sample.graph.output("loss").expect("a loss");
        let exact = sample.exact(&sample.inputs);
        // Along one random direction through all parameters at once.
        let mut expected = 0.0;
        let (mut ahead, mut behind) = (sample.inputs.clone(), sample.inputs.clone());
        for (index, (_, info)) in sample.graph.leaves(Leaf::Input).enumerate() {
            let Some(output) = sample.graph.output(&format!("grad.{}", info.name)) else { continue };
            for element in 0..sample.inputs[index].len() {
                let x = sample.inputs[index][element];
                let step = 2e-6 * random.normal(); // so small that hardly a bend or a halt lies between
                (ahead[index][element], behind[index][element]) = (x + step, x - step);
                let moved = f64::from(ahead[index][element]) - f64::from(behind[index][element]);
                expected += moved * exact[output].data[element];
            }
        }
        let found = sample.exact(&ahead)[loss].data[0] - sample.exact(&behind)[loss].data[0];
        let bound = 1e-9 + 1e-2 * expected.abs();
        assert!(
            (found - expected).abs() < bound,
            "seed {seed}: {found} and {expected}\n{:#?}",
            sample.formula
        );
    }
}
