//! The planner: what it may share it shares, and nothing that is still needed is written over.

mod common;
#[path = "common/layers.rs"]
mod layers;

use std::sync::Arc;

use glassformer_conformance::{Weights, bits, close, run};
use glassformer_cpu::Cpu;
use glassformer_graph::ops::{
    Activate, Activation, Add, AddRow, Attend, Counting, DotColumns, Gate, Keys, Linear, Mul, MulColumn,
    Norm, NormKind, Pairing, Pattern, Pick, PickGrad, Pool, PoolGrad, Pooling, Reach, Relative, RepeatRow,
    Rotate, Scale, Sinusoid, Softmax, Spread, SumRows, Turns, Wave, Who,
};
use glassformer_graph::{
    Backend, Batch, Builder, Capacity, Error, Graph, Leaf, Op, Origin, Reference, Rows, Shape, Side, Span,
    State, Value,
};
use glassformer_tensor::{Random, Tensor};
use layers::{Purpose, Stack};

const SIDE: Side = Side::Target;
const WAVE: Wave = Wave { base: 100.0, spread: Spread::Open, pairing: Pairing::Interleaved };
const TOKENS: Rows = Rows::Tokens(SIDE);

/// Grows a graph of values `[tokens, width]` at random. Every value stays within a few units, so that the reference can be
/// compared after many steps.
struct Grower<'a> {
    build: Builder,
    random: &'a mut Random,
    values: Vec<Value>,
}

impl Grower<'_> {
    fn any(&mut self) -> Value {
        *self.random.pick(&self.values)
    }

    /// Another value of the same shape.
    fn like(&mut self, value: Value) -> Value {
        let shape = self.build.shape(value);
        let same: Vec<Value> =
            self.values.iter().copied().filter(|&v| self.build.shape(v) == shape).collect();
        *self.random.pick(&same)
    }

    fn parameter(&mut self, rows: usize, width: usize) -> Result<Value, Error> {
        let name = format!("parameter.{}", self.random.below(40));
        let (name, shape) = (format!("{name}.{rows}.{width}"), Shape::fixed(rows, width));
        match self.build.find(&name) {
            Some(value) => Ok(value),
            None if self.random.below(2) == 0 => self.build.input(&name, shape),
            None => self.build.weight(&name, shape),
        }
    }

    fn add(&mut self, op: impl Into<Op>, inputs: &[Value]) -> Result<Value, Error> {
        self.build.add("node", op, inputs)
    }

    fn tanh(&mut self, x: Value) -> Result<Value, Error> {
        self.add(Activate { act: Activation::Tanh }, &[x])
    }

    fn grow(&mut self) -> Result<Value, Error> {
        let x = self.any();
        let (width, other) = (self.build.shape(x).width, self.like(x));
        match self.random.below(16) {
            0..3 => {
                let out = *self.random.pick(&[8, 16, 36]);
                let w = self.parameter(out, width)?;
                let mut inputs = vec![x, w];
                if self.random.below(2) == 0 {
                    inputs.push(self.parameter(1, out)?);
                }
                let product = self.add(Linear, &inputs)?;
                self.tanh(product)
            }
            3 => self.add(Scale { factor: -0.5, from: 2, to: 7 }, &[x]),
            4 => {
                let sum = self.add(Add, &[x, other])?;
                self.tanh(sum)
            }
            5 => self.add(Mul, &[x, other]),
            6 => self.add(Gate { act: Activation::Silu }, &[x, other]),
            7 => {
                let dots = self.add(DotColumns, &[x, other])?;
                let dots = self.tanh(dots)?;
                self.add(MulColumn, &[x, dots])
            }
            8 => self.add(Softmax, &[x]),
            9 => {
                let sum = self.add(SumRows, &[x])?;
                let row = self.tanh(sum)?;
                let many = self.add(RepeatRow { rows: TOKENS }, &[row])?;
                self.add(AddRow, &[many, row])
            }
            10 => {
                let picked = self.add(Pick { side: SIDE }, &[x])?;
                let picked = self.tanh(picked)?;
                self.add(PickGrad { side: SIDE }, &[picked])
            }
            11 => {
                let pool = Pool { side: SIDE, poolings: vec![Pooling::Max, Pooling::Mean] };
                let pooled = self.add(pool.clone(), &[x])?;
                self.add(PoolGrad { pool }, &[x, pooled])
            }
            12 => {
                let rotate = Rotate {
                    side: SIDE,
                    size: 4,
                    turning: 4,
                    pairing: Pairing::Halves,
                    turns: match self.random.below(2) {
                        0 => Turns::Fixed(vec![1.0, 0.1]),
                        _ => Turns::Dynamic { base: 100.0, factor: 2.0, original: 4 },
                    },
                    magnitude: 1.0,
                    direction: glassformer_graph::ops::Direction::Forward,
                };
                self.add(rotate, &[x])
            }
            13 => self.add(
                Sinusoid {
                    rows: TOKENS,
                    start: 1,
                    counting: Counting::Every,
                    width,
                    wave: WAVE,
                    clamp: None,
                },
                &[],
            ),
            14 => {
                let attend = Attend {
                    side: SIDE,
                    heads: width / 4,
                    key_heads: width / 4,
                    size: 4,
                    scale: 0.5,
                    reach: Reach::Past,
                    pattern: Pattern::Dense,
                    who: Who::Every,
                    relative: Relative::Alibi,
                    keys: Keys::Rows(TOKENS),
                };
                self.add(attend, &[x, other, x])
            }
            _ => {
                let gain = self.parameter(1, width)?;
                let norm = Norm { kind: NormKind::Rms, epsilon: 0.1, parts: 1 };
                let normed = self.add(norm, &[x, gain])?;
                self.tanh(normed)
            }
        }
    }
}

fn random_graph(random: &mut Random) -> Result<Graph, Error> {
    let mut grower = Grower { build: Builder::new(), random, values: Vec::new() };
    for width in [8, 16, 36] {
        let value = grower.build.input(&format!("x.{width}"), Shape::new(TOKENS, width))?;
        grower.values.push(value);
    }
    for _ in 0..10 + grower.random.below(60) {
        let value = grower.grow()?;
        grower.values.push(value);
    }
    for k in 0..=grower.random.below(4) {
        // Any value can be an output, also one that came from outside.
        let value = grower.any();
        grower.build.output(&format!("out.{k}"), value);
    }
    Ok(grower.build.finish())
}

/// `graph` with every value that a node makes as an output, so that no memory can be shared; and which of these outputs
/// are the graph's own, where they are made by a node.
fn with_all_outputs(graph: &Graph) -> (Graph, Vec<Option<usize>>) {
    let made: Vec<Value> = (0..graph.values().len())
        .map(Value)
        .filter(|&value| matches!(graph.info(value).origin, Origin::Node(..)))
        .collect();
    let own = graph.outputs().len();
    let places = graph.outputs().iter().map(|(_, v)| made.iter().position(|m| m == v).map(|at| own + at));
    let places = places.collect();
    let mut build = Builder::extend(graph.clone());
    for value in made {
        build.output("all", value);
    }
    (build.finish(), places)
}

fn numbers(
    graph: &Graph,
    leaf: Leaf,
    rows: impl Fn(Rows) -> usize,
    random: &mut Random,
) -> Vec<(String, Tensor)> {
    let leaves = graph.leaves(leaf).map(|(_, info)| {
        let shape = [rows(info.shape.rows), info.shape.width];
        let numbers = (0..shape[0] * shape[1]).map(|_| 0.5 * random.normal()).collect();
        (info.name.clone(), Tensor::new(&shape, numbers).expect("the sizes agree"))
    });
    leaves.collect()
}

fn small_batch(random: &mut Random) -> Batch<'static> {
    let mut batch = Batch { seed: random.bits(), ..Batch::default() };
    for _ in 0..=random.below(3) {
        let tokens: Vec<u32> = (0..=random.below(9)).map(|_| random.below(50) as u32).collect();
        batch.target.push(&tokens, Span::default());
    }
    batch.target.picked = (0..batch.target.rows() as u32).filter(|_| random.below(2) == 0).collect();
    batch.target.labels = batch.target.picked.iter().map(|_| random.below(50) as u32).collect();
    batch.target.weights = batch.target.picked.iter().map(|_| random.uniform()).collect();
    batch
}

/// Runs `graph` with memory shared and not shared, with just enough room and with more, over memory full of NaN, and on one
/// and two threads: the same bits everywhere, and those of the reference within `bound`.
fn check(graph: Graph, random: &mut Random, bound: f32) {
    let (all, places) = with_all_outputs(&graph);
    let (graph, all) = (Arc::new(graph), Arc::new(all));
    let mut batch = small_batch(random);
    let weights: Weights =
        numbers(&graph, Leaf::Weight, |rows| batch.count(rows), random).into_iter().collect();
    let inputs = numbers(&graph, Leaf::Input, |rows| batch.count(rows), random);
    batch.inputs = inputs.iter().map(|(_, tensor)| tensor.data()).collect();
    let tight = Capacity::of(&batch);
    let mut roomy = tight;
    for side in [&mut roomy.source, &mut roomy.target] {
        side.rows += 5;
        side.sequences += 2;
        side.picked += 7;
        side.keys += 30;
    }

    let once = |backend: &dyn Backend, graph: &Arc<Graph>, capacity: &Capacity| {
        let runner = backend.prepare(graph, &weights, capacity).expect("it prepares");
        let mut state = State::default();
        let first = run(&*runner, &mut state, &batch).expect("it runs");
        Cpu::fill_values(&mut state, f32::NAN);
        let again = run(&*runner, &mut state, &batch).expect("it runs again");
        assert!(bits(&first) == bits(&again), "something was read before it was written");
        first
    };
    let one = Cpu::new(1);
    let found = once(&one, &graph, &tight);
    let expected = once(&Reference, &graph, &tight);
    close(&found, &expected, bound).unwrap_or_else(|difference| panic!("{difference} in {graph:#?}"));
    assert!(bits(&found) == bits(&once(&one, &graph, &roomy)), "more room, other bits");
    for two in [Cpu::new(2), Cpu::new(2).sharing_everything()] {
        assert!(bits(&found) == bits(&once(&two, &graph, &tight)), "more threads, other bits");
    }
    let unshared = once(&one, &all, &tight);
    for (k, place) in places.into_iter().enumerate() {
        if let Some(place) = place {
            assert!(
                bits(&found[k..=k]) == bits(&unshared[place..=place]),
                "memory was shared that was needed"
            );
        }
    }
}

#[test]
fn random_graphs_compute_the_same_with_and_without_sharing_memory() {
    let mut random = Random::new(6);
    for _ in 0..80 {
        let graph = random_graph(&mut random).expect("it fits");
        check(graph, &mut random, 5e-4);
    }
}

#[test]
fn a_training_graph_computes_the_same_with_and_without_sharing_memory() {
    let mut random = Random::new(7);
    // In the second, some phases are worth sharing out and others are not.
    for (width, hidden) in [(16, 24), (16, 24), (64, 128), (64, 128)] {
        let (layers, heads, vocabulary, longest, purpose) = (2, 2, 50, 12, Purpose::Train);
        let stack = Stack { layers, width, heads, hidden, vocabulary, longest, purpose };
        check(stack.graph().expect("it fits"), &mut random, 5e-5);
    }
}
