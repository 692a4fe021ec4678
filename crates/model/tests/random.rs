//! Random formulas on both backends: plan = reference, batched = alone, one thread = many, cached = whole, tapped = untapped.

use std::sync::Arc;

use glassformer_conformance as common;
use glassformer_cpu::Cpu;
use glassformer_formula::{Head, Input, Lead};
use glassformer_graph::{Backend, Batch, Capacity, Graph, Reference, State, moments, tap};
use glassformer_model::{Model, Purpose};
use glassformer_tensor::{Random, Tolerance, compare};

const SEEDS: u64 = 150;

/// All outputs of `graph`, one after the other.
fn run(model: &Model, backend: &dyn Backend, graph: &Arc<Graph>, batch: &Batch<'_>) -> Vec<Vec<f32>> {
    let runner = backend.prepare(graph, model, &Capacity::of(batch)).expect("it prepares");
    common::run(&*runner, &mut State::default(), batch).expect("it runs")
}

/// Calls `check` with random models and batches.
fn for_random(seeds: u64, count: usize, check: impl Fn(u64, &Model, &mut Random, &Batch<'_>, &[Vec<f32>])) {
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let formula = common::formula(&mut random);
        let model = common::model(&formula, &mut random);
        let (batch, patches) = common::batch(&mut random, &formula, count);
        check(seed, &model, &mut random, &batch, &patches);
    }
}

#[test]
fn the_plan_equals_the_reference() {
    let cpu = Cpu::new(2).sharing_everything();
    for_random(SEEDS, 3, |seed, model, _, batch, patches| {
        let graph = model.graph(Purpose::Whole).expect("it lowers");
        let (mut batch, patches) = (batch.clone(), patches.concat());
        common::bind(&mut batch, &graph, &patches);
        let found = run(model, &cpu, &graph, &batch);
        let expected = run(model, &Reference, &graph, &batch);
        for (index, (name, _)) in graph.outputs().iter().enumerate() {
            // Without norms numbers grow, and so does what rounding leaves of their differences.
            let largest = expected[index].iter().fold(1.0_f32, |most, x| most.max(x.abs()));
            let bound = Tolerance { absolute: 2e-4 * largest, relative: 2e-4 };
            compare(&found[index], &expected[index], bound).unwrap_or_else(|difference| {
                panic!("seed {seed}, {name}: {difference}\n{:#?}", model.formula())
            });
        }
    });
}

#[test]
fn a_batch_of_any_size_on_any_number_of_threads_gives_the_same_bits() {
    // With few rows each thread takes them through everything between two attentions, or whole sequences through all layers, or
    // through one layer after the other.
    let team = |threads: usize, rows: usize| Cpu::new(threads).sharing_everything().taking_rows(rows);
    let teams =
        [team(1, 128), team(2, 3), team(5, 1), team(1, 7).going_by_layers(), team(3, 2).going_by_layers()];
    for count in [1, 3, 17] {
        for_random(SEEDS / 5, count, |seed, model, _, batch, patches| {
            let graph = model.graph(Purpose::Whole).expect("it lowers");
            let (mut whole, all) = (batch.clone(), patches.concat());
            common::bind(&mut whole, &graph, &all);
            let found = run(model, &teams[0], &graph, &whole);
            for team in &teams[1..] {
                assert_eq!(found, run(model, team, &graph, &whole), "seed {seed}, {count} sequences");
            }
            // Each sequence alone: its rows of every output are the same bits.
            let mut start = vec![0; found.len()];
            for (index, patches) in patches.iter().enumerate() {
                let mut one = common::alone(batch, index);
                common::bind(&mut one, &graph, patches);
                for (output, alone) in run(model, &teams[1], &graph, &one).into_iter().enumerate() {
                    let part = &found[output][start[output]..start[output] + alone.len()];
                    assert_eq!(part, alone, "seed {seed}, sequence {index} of {count}, output {output}");
                    start[output] += alone.len();
                }
            }
        });
    }
}

#[test]
fn tapping_everything_changes_no_bit() {
    let cpu = Cpu::new(2).sharing_everything().taking_rows(2);
    for_random(SEEDS / 3, 2, |seed, model, _, batch, patches| {
        let graph = model.graph(Purpose::Whole).expect("it lowers");
        let names = tap::all(&graph);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tapped = Arc::new(tap::tap(&graph, &names).expect("everything can be tapped"));
        let (mut batch, patches) = (batch.clone(), patches.concat());
        common::bind(&mut batch, &graph, &patches);
        let plain = run(model, &cpu, &graph, &batch);
        let with_taps = run(model, &cpu, &tapped, &batch);
        assert_eq!(plain, with_taps[..plain.len()], "seed {seed}");
        // And what the taps show is what the reference computes.
        let expected = run(model, &Reference, &tapped, &batch);
        for (index, (name, _)) in tapped.outputs().iter().enumerate() {
            compare(&with_taps[index], &expected[index], Tolerance::both(3e-4))
                .unwrap_or_else(|difference| panic!("seed {seed}, {name}: {difference}"));
        }
    });
}

#[test]
fn what_products_read_is_measured_as_it_is() {
    let cpu = Cpu::new(2);
    for_random(SEEDS / 3, 2, |seed, model, _, batch, patches| {
        let graph = model.graph(Purpose::Whole).expect("it lowers");
        let readers = moments::readers(&graph, |_| true);
        let mut weights: Vec<&String> = readers.iter().flat_map(|readers| &readers.weights).collect();
        let count = weights.len();
        weights.sort();
        weights.dedup();
        assert!(!readers.is_empty() && weights.len() == count, "seed {seed}: {readers:?}");
        let measured = Arc::new(moments::moments(&graph, &readers).expect("they can be measured"));
        let values = readers.iter().flat_map(|readers| &readers.rows);
        let mut names: Vec<&str> = values.map(|&value| graph.info(value).name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let tapped = Arc::new(tap::tap(&graph, &names).expect("they can be tapped"));
        let (mut batch, patches) = (batch.clone(), patches.concat());
        common::bind(&mut batch, &graph, &patches);
        let found = run(model, &cpu, &measured, &batch);
        let rows = run(model, &cpu, &tapped, &batch);
        assert_eq!(found.len(), readers.len());
        for (readers, found) in readers.iter().zip(&found) {
            let mut expected = vec![0.0_f64; readers.width * readers.width];
            for value in &readers.rows {
                let name = &graph.info(*value).name;
                // The graph's own outputs stay in front, under the same name or another.
                let index =
                    tapped.outputs().iter().rposition(|(known, _)| known == name).expect("it is tapped");
                for row in rows[index].chunks_exact(readers.width) {
                    let square: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
                    let part = if square > 0.0 { readers.width as f64 / square } else { 0.0 };
                    for (at, sum) in expected.iter_mut().enumerate() {
                        *sum +=
                            part * f64::from(row[at / readers.width]) * f64::from(row[at % readers.width]);
                    }
                }
            }
            let expected: Vec<f32> = expected.iter().map(|&x| x as f32).collect();
            compare(found, &expected, Tolerance::both(1e-4))
                .unwrap_or_else(|difference| panic!("seed {seed}, {}: {difference}", readers.name()));
        }
    });
}

#[test]
fn cached_steps_equal_the_whole_run_bit_by_bit() {
    let cpu = Cpu::new(2).sharing_everything();
    for_random(SEEDS, 1, |seed, model, random, batch, patches| {
        if model.formula().target.is_none() {
            return;
        }
        let graph = model.graph(Purpose::Whole).expect("it lowers");
        let (mut whole, patches) = (batch.clone(), patches.concat());
        common::bind(&mut whole, &graph, &patches);
        let hidden = graph.output("hidden").expect("an output");
        let rows = batch.target.rows();
        let prompt = 1 + random.below(rows);
        let steps: Vec<usize> =
            std::iter::once(prompt).chain(std::iter::repeat_n(1, rows - prompt)).collect();
        let found = common::stepped(model, &cpu, batch, &patches, &steps).expect("it runs");
        assert_eq!(found, run(model, &cpu, &graph, &whole)[hidden], "seed {seed}: {:#?}", model.formula());
        let slow = common::stepped(model, &Reference, batch, &patches, &steps).expect("it runs");
        compare(&slow, &found, Tolerance::both(2e-4)).unwrap_or_else(|d| panic!("seed {seed}: {d}"));
    });
}

#[test]
fn the_generator_meets_every_variant() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..SEEDS {
        let formula = common::formula(&mut Random::new(seed));
        for side in [&formula.source, &formula.target].into_iter().flatten() {
            let text = format!("{:?}", side.stack);
            let words = [
                "Shared",
                "Adaptive",
                "Layers",
                "Sinusoidal",
                "EveryStep",
                "Learned",
                "Rotary",
                "Alibi",
                "Buckets",
                "TransformerXl",
                "Yarn",
                "Llama3",
                "Linear",
                "Sliding",
                "Separate",
                "LowRank",
                "Rms",
                "Gated",
                "Memory",
                "Groups",
                "Together",
                "Other",
                "Block",
                "Closed",
            ];
            seen.extend(words.into_iter().filter(|word| text.contains(word)));
            match &side.input {
                Input::Patches(patches) if patches.lead == Lead::Class => _ = seen.insert("Class"),
                Input::Patches(_) => _ = seen.insert("Patches"),
                Input::Tokens(tokens) if tokens.clusters.is_some() => _ = seen.insert("Clusters"),
                Input::Tokens(tokens) if tokens.types.is_some() => _ = seen.insert("Types"),
                Input::Tokens(_) => {}
            }
        }
        match formula.head {
            Head::Rows => seen.insert("Rows"),
            Head::Words { .. } => seen.insert("Words"),
            Head::Adaptive { .. } => seen.insert("AdaptiveSoftmax"),
            Head::Classes { .. } => seen.insert("Classes"),
            Head::Tags { .. } => seen.insert("Tags"),
            Head::Spans => seen.insert("Spans"),
        };
    }
    assert_eq!(seen.len(), 24 + 4 + 6, "only {seen:?}");
}
