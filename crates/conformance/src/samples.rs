//! Cases of operations with numbers, and what backends make of them.

use std::collections::HashMap;
use std::sync::Arc;

use glassformer_graph::ops::{Add, DotColumns, SumRows};
use glassformer_graph::{
    Backend, Batch, Builder, Capacity, Case, Error, Graph, Leaf, Op, Rows, Runner, State, Value, grad,
};
use glassformer_tensor::{Random, Tensor, Tolerance, compare};

/// Weights by name.
pub type Weights = HashMap<String, Tensor>;

/// A graph with the numbers of one run.
#[derive(Debug)]
pub struct Sampled {
    /// What it is, for messages.
    pub name: String,
    /// The graph.
    pub graph: Arc<Graph>,
    /// The batch without its inputs.
    pub batch: Batch<'static>,
    /// The numbers of each input.
    pub inputs: Vec<Vec<f32>>,
    /// The weights.
    pub weights: Weights,
}

impl Sampled {
    /// All outputs of one run with just enough room.
    ///
    /// # Errors
    /// If the backend cannot run it.
    pub fn try_run(&self, backend: &dyn Backend) -> Result<Vec<Vec<f32>>, Error> {
        let batch = self.batch();
        let runner = backend.prepare(&self.graph, &self.weights, &Capacity::of(&batch))?;
        run(&*runner, &mut State::default(), &batch)
    }

    /// All outputs of one run with just enough room.
    ///
    /// # Panics
    /// If the backend cannot run it.
    pub fn run(&self, backend: &dyn Backend) -> Vec<Vec<f32>> {
        self.try_run(backend).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// The batch with its inputs.
    pub fn batch(&self) -> Batch<'_> {
        Batch { inputs: self.inputs.iter().map(Vec::as_slice).collect(), ..self.batch.clone() }
    }
}

/// Runs once and copies the outputs.
///
/// # Errors
/// If the backend cannot run it.
pub fn run(runner: &dyn Runner, state: &mut State, batch: &Batch<'_>) -> Result<Vec<Vec<f32>>, Error> {
    runner.run(state, batch)?;
    (0..runner.graph().outputs().len()).map(|k| Ok(runner.output(state, k)?.into_owned())).collect()
}

/// The case with its numbers, every input given anew with each run.
///
/// # Panics
/// If the case does not fit its operation.
pub fn sampled(case: &Case, random: &mut Random) -> Sampled {
    let graph = case.graph().expect("the case fits its operation");
    let (batch, inputs) = case.draw(&graph, random);
    Sampled { name: format!("{:?}", case.op), graph, batch, inputs, weights: Weights::new() }
}

/// The same with inputs of a fixed size as weights, which a plan packs once.
///
/// # Panics
/// If the case does not fit its operation.
pub fn with_weights(sampled: &Sampled, op: &Op) -> Sampled {
    let mut build = Builder::new();
    let (mut values, mut inputs, mut weights) = (Vec::new(), Vec::new(), Weights::new());
    for ((_, info), numbers) in sampled.graph.leaves(Leaf::Input).zip(&sampled.inputs) {
        values.push(if let Rows::Fixed(rows) = info.shape.rows {
            let tensor = Tensor::new(&[rows, info.shape.width], numbers.clone()).expect("the sizes agree");
            weights.insert(info.name.clone(), tensor);
            build.weight(&info.name, info.shape).expect("names differ")
        } else {
            inputs.push(numbers.clone());
            build.input(&info.name, info.shape).expect("names differ")
        });
    }
    let outputs = build.add_all("out", op.clone(), &values).expect("the case fits its operation");
    outputs.into_iter().enumerate().for_each(|(k, value)| build.output(&format!("out.{k}"), value));
    let (name, batch) = (format!("{op:?} with weights"), sampled.batch.clone());
    Sampled { name, graph: Arc::new(build.finish()), batch, inputs, weights }
}

/// The gradients of Σ out ⊙ probe with respect to every input; nothing where the operation has none.
///
/// # Panics
/// If the case does not fit its operation.
pub fn gradients(case: &Case, random: &mut Random) -> Option<Sampled> {
    let mut build = Builder::new();
    let names: Vec<String> = (0..case.inputs.len()).map(|k| format!("in.{k}")).collect();
    let inputs: Vec<Value> = names
        .iter()
        .zip(&case.inputs)
        .map(|(name, &shape)| build.input(name, shape).expect("names differ"))
        .collect();
    let mut outputs = build.add_all("out", case.op.clone(), &inputs).expect("the case fits its operation");
    if let Op::Attend(_) = case.op {
        outputs.truncate(1); // the logarithm is for the gradient alone
    }
    let mut loss = None;
    for (k, &out) in outputs.iter().enumerate() {
        let add = |build: &mut Builder| {
            let probe = build.input(&format!("probe.{k}"), build.shape(out))?;
            let rows = build.add("rows", DotColumns, &[out, probe])?;
            let sum = build.add("sum", SumRows, &[rows])?;
            match loss {
                None => Ok(sum),
                Some(loss) => build.add("both", Add, &[loss, sum]),
            }
        };
        loss = Some(add(&mut build).expect("a loss fits every output"));
    }
    let loss = build.graph().info(loss?).name.clone();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let graph = match grad::grad(&build.finish(), &loss, &names) {
        Ok(graph) if !names.is_empty() => Arc::new(graph),
        Ok(_) | Err(Error::NoGradient { .. }) => return None,
        Err(error) => panic!("{:?}: {error}", case.op),
    };
    let (batch, inputs) = case.draw(&graph, random);
    Some(Sampled {
        name: format!("gradient of {:?}", case.op),
        graph,
        batch,
        inputs,
        weights: Weights::new(),
    })
}

/// Compares output by output: `bound` of the number, and of the largest one, since sums cancel.
///
/// # Errors
/// The first difference.
pub fn close(found: &[Vec<f32>], expected: &[Vec<f32>], bound: f32) -> Result<(), String> {
    for (k, (found, expected)) in found.iter().zip(expected).enumerate() {
        let finite = expected.iter().filter(|x| x.is_finite());
        let most = finite.fold(1.0_f32, |most, x| most.max(x.abs()));
        let tolerance = Tolerance { absolute: bound * most, relative: bound };
        compare(found, expected, tolerance).map_err(|difference| format!("output {k}: {difference}"))?;
    }
    Ok(())
}

/// The numbers as bits, so that NaN and −0 count.
pub fn bits(outputs: &[Vec<f32>]) -> Vec<Vec<u32>> {
    outputs.iter().map(|output| output.iter().map(|x| x.to_bits()).collect()).collect()
}
