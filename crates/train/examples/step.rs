//! How long a training step takes: `cargo run --release -p glassformer-train --example step [steps] [threads] [precision] [shape]`,
//! where a precision and a shape are numbers, and all are measured that are not chosen.
//!
//! Two shapes, each in `f32` and in `bf16`, step by step in turns: the original Transformer of base size with 2,048 tokens, and
//! a small GPT (6 layers, 384 wide) with 12 sequences of 256.

use std::collections::BTreeMap;
use std::time::Instant;

use glassformer_cpu::Cpu;
use glassformer_formula::named::{Original, Size, gpt2, original};
use glassformer_formula::{Formula, Head};
use glassformer_graph::Precision;
use glassformer_graph::{Batch, Capacity, Span};
use glassformer_model::Model;
use glassformer_tensor::Random;
use glassformer_train::{Settings, Trainer};

/// A formula and a batch for it.
struct Shape {
    name: &'static str,
    formula: Formula,
    batch: Batch<'static>,
    smoothing: f32,
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().ok());
    let steps = arguments.next().flatten().unwrap_or(5);
    let threads = arguments.next().flatten().unwrap_or(2);
    let only: Option<usize> = arguments.next().flatten();
    println!("{threads} threads, medians of {steps} steps, milliseconds");
    println!("{:>24}  {:>9}  {:>8}  {:>8}  {:>8}  loss", "", "precision", "run", "update", "step");
    let shapes = [translator, small_gpt];
    let chosen: Option<usize> = arguments.next().flatten();
    for (_, shape) in
        shapes.iter().enumerate().filter(|(index, _)| chosen.is_none_or(|chosen| chosen == *index))
    {
        measure(&shape(), steps, threads, only);
    }
}

/// The original Transformer, whose words are also its head.
fn translator() -> Shape {
    let (vocabulary, sequences, len) = (16_000, 64, 32);
    let mut formula = original(Original {
        width: 512,
        heads: 8,
        hidden: 2048,
        source_layers: 6,
        target_layers: 6,
        source_vocabulary: vocabulary,
        target_vocabulary: vocabulary,
    });
    formula.head = Head::Words { tied: true, bias: false, dense: None, scale: None };
    let mut random = Random::new(1);
    let mut batch = Batch::default();
    for source in 0..sequences {
        batch.source.push(&tokens(&mut random, len, vocabulary), Span::default());
        batch.target.push(&tokens(&mut random, len, vocabulary), Span { source, ..Span::default() });
    }
    batch.target.labels = tokens(&mut random, sequences * len, vocabulary);
    batch.target.weights = vec![1.0 / (sequences * len) as f32; sequences * len];
    batch.target.pick_all();
    Shape { name: "translator, 2048 tokens", formula, batch, smoothing: 0.1 }
}

fn small_gpt() -> Shape {
    let (vocabulary, sequences, len) = (65, 12, 256);
    let size = Size { width: 384, heads: 6, hidden: 1536, layers: 6, vocabulary, length: len };
    let formula = gpt2(size);
    let mut random = Random::new(1);
    let mut batch = Batch::default();
    let side = if formula.target.is_some() { &mut batch.target } else { &mut batch.source };
    for _ in 0..sequences {
        side.push(&tokens(&mut random, len, vocabulary), Span::default());
    }
    side.labels = tokens(&mut random, sequences * len, vocabulary);
    side.weights = vec![1.0 / (sequences * len) as f32; sequences * len];
    side.pick_all();
    Shape { name: "small GPT, 12 × 256", formula, batch, smoothing: 0.0 }
}

fn tokens(random: &mut Random, count: usize, vocabulary: usize) -> Vec<u32> {
    (0..count).map(|_| random.below(vocabulary) as u32).collect()
}

/// One line for each precision.
fn measure(shape: &Shape, steps: usize, threads: usize, only: Option<usize>) {
    let settings = Settings { dropout: 0.0, smoothing: shape.smoothing, clip: None, ..Settings::default() };
    let model = Model::random(shape.formula.clone(), 7).expect("the formula works");
    let trainer = |precision| {
        let cpu = Cpu::new(threads).with_precision(precision);
        let capacity = Capacity::of(&shape.batch);
        (precision, Trainer::new(&model, &cpu, &capacity, &settings).expect("it prepares"), Vec::new(), 0.0)
    };
    let both = [Precision::F32, Precision::Bf16];
    let chosen = both.iter().enumerate().filter(|(index, _)| only.is_none_or(|only| only == *index));
    let mut trainers: Vec<_> = chosen.map(|(_, precision)| trainer(*precision)).collect();
    for step in 0..=steps {
        for (_, trainer, times, last) in &mut trainers {
            let began = Instant::now();
            trainer.backward(shape.batch.clone(), &BTreeMap::new()).expect("it runs");
            let ran = began.elapsed().as_secs_f64() * 1e3;
            let began = Instant::now();
            *last = trainer.step(shape.batch.clone(), 1e-4).expect("it runs");
            // The first step is for the caches, and for memory.
            if step > 0 {
                times.push((ran, began.elapsed().as_secs_f64() * 1e3));
            }
        }
    }
    for (precision, _, times, loss) in &mut trainers {
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (run, all) = times[times.len() / 2];
        let name = format!("{precision:?}");
        println!("{:>24}  {name:>9}  {run:>8.1}  {:>8.1}  {all:>8.1}  {loss:.4}", shape.name, all - run);
    }
}
