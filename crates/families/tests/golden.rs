//! Every family and head against the reference implementation. `fixtures/hf/make.py` made the checkpoints and the numbers.

use std::path::{Path, PathBuf};

use crate::common::{BOUND, difference, entries, sequences};
use glassformer_cpu::Cpu;
use glassformer_engine::Forward;
use glassformer_families::{Error, open, open_for_embedding};
use glassformer_graph::{Backend, Batch, Capacity, Leaf, Reference, Span, State};
use glassformer_model::{Model, Purpose};
use glassformer_tensor::compare;
use glassformer_weights::Weights;

fn fixtures() -> Vec<PathBuf> {
    let cases = entries(&crate::common::fixtures("hf")).into_iter();
    cases.filter(|path| path.join("golden.safetensors").exists()).collect()
}

/// What is not read yet, and must say so: Gemma 2 caps its scores.
const LATER: [&str; 1] = ["gemma2"];

/// What differs first in one fixture.
fn differences(case: &Path, backend: &dyn Backend) -> Result<(), String> {
    match open(case) {
        Err(Error::Unknown { name, .. } | Error::Key { key: name, .. }) if LATER.contains(&name.as_str()) => {
            Ok(())
        }
        Err(error) => Err(error.to_string()),
        Ok(checkpoint) => difference(&checkpoint, &case.join("golden.safetensors"), backend),
    }
}

#[test]
fn sentences_become_the_vectors_of_the_reference_implementation() {
    let mut seen = 0;
    for case in fixtures().into_iter().filter(|case| case.join("modules.json").exists()) {
        let golden = Weights::open(case.join("golden.safetensors")).expect("it opens");
        let checkpoint =
            open_for_embedding(&case).unwrap_or_else(|error| panic!("{}: {error}", case.display()));
        assert!(checkpoint.embedding.is_some() && checkpoint.longest == Some(40));
        let all = sequences(&golden, checkpoint.model.formula(), &[], 0);
        for backend in [&Reference as &dyn Backend, &Cpu::default()] {
            let run = Forward::whole(&checkpoint.model, backend, &all).expect("it runs");
            let found = run.output("pooled").unwrap().expect("a vector for each sentence");
            for (i, vector) in found.numbers.chunks(found.shape.width).enumerate() {
                let expected = golden.get(&format!("{i}.embedding")).expect("a vector in the file");
                if let Err(difference) = compare(vector, &expected.values(), BOUND) {
                    panic!("{}, {i}: {difference}", case.display());
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "only {seen} vectors were compared");
}

/// Runs a sequence segment by segment, each with the rows that those before it left as memory: what Transformer-XL is about.
fn segments_differ(model: &Model, golden: &Weights, backend: &dyn Backend, i: usize) -> Result<(), String> {
    let Some(target) = &model.formula().target else { return Ok(()) };
    let (held, width) = (target.stack.position.zeros(), target.stack.width);
    let graph = model.graph(Purpose::Whole).map_err(|error| error.to_string())?;
    let names: Vec<String> = graph.leaves(Leaf::Input).map(|(_, info)| info.name.clone()).collect();
    let mut memory = vec![vec![0.0; held * width]; names.len()];
    for n in 0.. {
        let at = if n == 0 { i.to_string() } else { format!("{i}.segment.{n}") };
        let Some(ids) = golden.integers(&format!("{at}.ids")) else { break };
        let ids: Vec<u32> = ids.into_iter().map(|id| id as u32).collect();
        let mut batch = Batch::default();
        batch.target.push(&ids, Span { memory: held, ..Span::default() });
        batch.target.pick_all();
        batch.inputs = memory.iter().map(|layer| &layer[layer.len() - held * width..]).collect();
        let runner =
            backend.prepare(&graph, model, &Capacity::of(&batch)).map_err(|error| error.to_string())?;
        let mut state = State::default();
        runner.run(&mut state, &batch).map_err(|error| error.to_string())?;
        for name in ["hidden", "logits"] {
            let expected = golden.get(&format!("{at}.{name}")).ok_or("a segment without numbers")?;
            let found = runner.output(&state, graph.output(name).ok_or("no such output")?).expect("it ran");
            compare(&found, &expected.values(), BOUND)
                .map_err(|difference| format!("{at}.{name}: {difference}"))?;
        }
        for (layer, name) in memory.iter_mut().zip(&names) {
            let left = graph.output(&name.replace(".memory", ".remember")).ok_or("nothing is remembered")?;
            layer.extend_from_slice(&runner.output(&state, left).expect("it ran"));
        }
    }
    Ok(())
}

#[test]
fn segments_see_what_the_ones_before_them_left() {
    let mut seen = 0;
    for case in fixtures() {
        let golden = Weights::open(case.join("golden.safetensors")).expect("it opens");
        for i in (0..10).filter(|i| golden.get(&format!("{i}.segment.1.hidden")).is_some()) {
            let checkpoint = open(&case).expect("it opens");
            for backend in [&Reference as &dyn Backend, &Cpu::default()] {
                if let Err(difference) = segments_differ(&checkpoint.model, &golden, backend, i) {
                    panic!("{}: {difference}", case.display());
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 6, "only {seen} sequences with segments were found");
}

fn all_equal(backend: &dyn Backend) {
    let cases = fixtures();
    let name = |case: &Path| case.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}", name(case), differences(case, backend).err()?)))
        .collect();
    println!("{} of {} equal", cases.len() - failed.len(), cases.len());
    assert!(failed.is_empty(), "{} of {} differ:\n{}", failed.len(), cases.len(), failed.join("\n"));
    assert!(cases.len() > 50, "only {} fixtures were found", cases.len());
}

#[test]
fn every_checkpoint_equals_the_reference_implementation_on_the_reference() {
    all_equal(&Reference);
}

#[test]
fn every_checkpoint_equals_the_reference_implementation_on_the_cpu() {
    all_equal(&Cpu::default());
}
