//! How fast each kernel but the products and attention is: `cargo run --release -p glassformer-cpu --example kernels`.
//!
//! 512 rows of 768 numbers, or 64 rows over a vocabulary of 32 000, on one thread; the fastest tenth of the runs. What is
//! bound by memory reads and writes some 10 to 20 GB/s.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassformer_cpu::Cpu;
use glassformer_graph::ops::{
    Activate, ActivateGrad, Activation, Add, Counting, CrossEntropy, CrossEntropyGrad, Direction, DotColumns,
    Dropout, Gate, GateGrad, Ids, Lookup, LookupGrad, MulColumn, Norm, NormGrad, NormKind, Pairing, Pool,
    Pooling, Rotate, Scale, Sinusoid, Softmax, SoftmaxGrad, Spread, SumRows, Turns, Wave,
};
use glassformer_graph::{Backend, Batch, Builder, Capacity, Error, Op, Rows, Shape, Side, Span, State};
use glassformer_tensor::{Random, Tensor};

const ROWS: usize = 512;
const WIDTH: usize = 768;
const PICKED: usize = 64;
const CLASSES: usize = 32_000;
const SIDE: Side = Side::Target;
const PATIENCE: Duration = Duration::from_millis(300);

fn main() -> Result<(), Error> {
    let rows = Shape::new(Rows::Tokens(SIDE), WIDTH);
    let logits = Shape::new(Rows::Picked(SIDE), CLASSES);
    let (one, table) = (Shape::fixed(1, WIDTH), Shape::fixed(CLASSES, WIDTH));
    let norm = Norm { kind: NormKind::Layer, epsilon: 1e-5, parts: 1 };
    let rms = Norm { kind: NormKind::Rms, epsilon: 1e-5, parts: 12 };
    let of = CrossEntropy { side: SIDE, smoothing: 0.1 };
    let rotate = |pairing| Rotate {
        side: SIDE,
        size: 64,
        turning: 64,
        pairing,
        turns: Turns::Fixed(vec![0.1; 32]),
        magnitude: 1.0,
        direction: Direction::Forward,
    };
    println!("operation                       µs   numbers per ns");
    measure("add", Add, &[rows, rows])?;
    measure("scale", Scale::all(0.5), &[rows])?;
    measure("mul_column", MulColumn, &[rows, rows.with_width(1)])?;
    measure("dot_columns", DotColumns, &[rows, rows])?;
    measure("sum_rows", SumRows, &[rows])?;
    for act in Activation::ALL {
        measure(&format!("activate {act:?}"), Activate { act }, &[rows])?;
        measure(&format!("activate_grad {act:?}"), ActivateGrad { act }, &[rows, rows])?;
    }
    measure("gate Silu", Gate { act: Activation::Silu }, &[rows, rows])?;
    measure("gate_grad Silu", GateGrad { act: Activation::Silu }, &[rows, rows, rows])?;
    measure("dropout", Dropout { rate: 0.1, site: 1 }, &[rows])?;
    measure("norm", norm, &[rows, one, one])?;
    measure("norm of heads, rms", rms, &[rows, Shape::fixed(1, 64)])?;
    measure("norm_grad", NormGrad { norm }, &[rows, one, rows])?;
    measure("softmax", Softmax, &[logits])?;
    measure("softmax_grad", SoftmaxGrad, &[logits, logits])?;
    measure("cross_entropy", of, &[logits])?;
    measure("cross_entropy_grad", CrossEntropyGrad { of }, &[logits, logits.with_width(1)])?;
    measure("rotate halves", rotate(Pairing::Halves), &[rows])?;
    measure("rotate interleaved", rotate(Pairing::Interleaved), &[rows])?;
    let wave = Wave { base: 1e4, spread: Spread::Open, pairing: Pairing::Halves };
    measure(
        "sinusoid",
        Sinusoid { rows: rows.rows, start: 0, counting: Counting::Every, width: WIDTH, wave, clamp: None },
        &[],
    )?;
    measure("lookup", Lookup { ids: Ids::Tokens(SIDE) }, &[table])?;
    measure("lookup_grad", LookupGrad { ids: Ids::Tokens(SIDE), table }, &[rows])?;
    measure("pool mean", Pool { side: SIDE, poolings: vec![Pooling::Mean] }, &[rows])
}

fn measure(name: &str, op: impl Into<Op>, shapes: &[Shape]) -> Result<(), Error> {
    let mut random = Random::new(1);
    let mut batch = Batch::default();
    let tokens: Vec<u32> = (0..ROWS).map(|_| random.below(CLASSES) as u32).collect();
    batch.target.push(&tokens, Span::default());
    batch.target.picked = (0..PICKED as u32).collect();
    batch.target.labels = tokens[..PICKED].to_vec();
    batch.target.weights = vec![1.0; PICKED];

    let mut build = Builder::new();
    let (mut inputs, mut numbers) = (Vec::new(), Vec::new());
    for (k, &shape) in shapes.iter().enumerate() {
        inputs.push(build.input(&format!("in.{k}"), shape)?);
        let count = batch.count(shape.rows) * shape.width;
        numbers.push((0..count).map(|_| random.uniform() - 0.5).collect::<Vec<f32>>());
    }
    let outputs = build.add_all("out", op, &inputs)?;
    let written: usize =
        outputs.iter().map(|&v| batch.count(build.shape(v).rows) * build.shape(v).width).sum();
    for value in outputs {
        build.output("out", value);
    }
    batch.inputs = numbers.iter().map(Vec::as_slice).collect();

    let weights: HashMap<String, Tensor> = HashMap::new();
    let runner = Cpu::new(1).prepare(&Arc::new(build.finish()), &weights, &Capacity::of(&batch))?;
    let (mut state, mut times) = (State::default(), Vec::new());
    let start = Instant::now();
    while times.len() < 5 || start.elapsed() < PATIENCE {
        let began = Instant::now();
        runner.run(&mut state, &batch)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let nanos = times[times.len() / 10].as_secs_f64() * 1e9;
    let handled = numbers.iter().map(Vec::len).sum::<usize>() + written;
    println!("{name:26} {:8.1} {:16.2}", nanos / 1e3, handled as f64 / nanos);
    Ok(())
}
