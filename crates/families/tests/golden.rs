//! Every family and head against the reference implementation. `fixtures/hf/make.py` made the checkpoints and the numbers.

use std::path::{Path, PathBuf};

use glassformer_cpu::Cpu;
use glassformer_engine::{Forward, Sequence};
use glassformer_families::{Error, open};
use glassformer_formula::Formula;
use glassformer_graph::{Backend, Reference, Side};
use glassformer_tensor::{Tolerance, compare};
use glassformer_weights::Weights;

const BOUND: Tolerance = Tolerance { absolute: 1e-4, relative: 1e-4 };

fn fixtures() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hf");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the fixtures are in the repository")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("golden.safetensors").exists())
        .collect();
    cases.sort();
    cases
}

/// The sequences of a fixture, until there is no more.
fn sequences(golden: &Weights, formula: &Formula, global: &[usize]) -> Vec<Sequence> {
    let decoder_only = formula.source.is_none();
    let shifted = formula.target.is_some();
    let list = |i: usize, name: &str| golden.integers(&format!("{i}.{name}"));
    let ids =
        |i: usize, name: &str| list(i, name).unwrap_or_default().into_iter().map(|id| id as u32).collect();
    let one = |i: usize| {
        let (source, mut target) =
            if decoder_only { (Vec::new(), ids(i, "ids")) } else { (ids(i, "ids"), ids(i, "target_ids")) };
        if target.is_empty() && shifted {
            // A classifier's decoder reads the source behind the start token, 2.
            target = std::iter::once(2).chain(source.iter().copied().take(source.len() - 1)).collect();
        }
        let marked = list(i, "global").map(|list| list.into_iter().map(|p| p as usize).collect());
        Sequence {
            source,
            target,
            types: ids(i, "types"),
            global: marked.unwrap_or(global.to_vec()),
            ..Sequence::default()
        }
    };
    (0..100).take_while(|&i| list(i, "ids").is_some()).map(one).collect()
}

/// What is not read yet, and must say so: Gemma 2 caps its scores, Transformer-XL projects its embeddings in its own way.
const LATER: [&str; 2] = ["gemma2", "transfo-xl"];

/// Everything that differs in one fixture.
fn differences(case: &Path, backend: &dyn Backend) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let checkpoint = match open(case) {
        Err(Error::Unknown { name, .. } | Error::Key { key: name, .. }) if LATER.contains(&name.as_str()) => {
            return Ok(());
        }
        opened => opened.map_err(|error| text(&error))?,
    };
    let golden = Weights::open(case.join("golden.safetensors")).map_err(|error| text(&error))?;
    let formula = checkpoint.model.formula();
    let last = if formula.target.is_some() { Side::Target } else { Side::Source };
    for (i, sequence) in sequences(&golden, formula, &checkpoint.global).into_iter().enumerate() {
        let run = Forward::whole(&checkpoint.model, backend, &[sequence])
            .map_err(|error| format!("{i}: {error}"))?;
        for name in ["hidden", "source", "pooled", "logits"] {
            let Some(expected) = golden.get(&format!("{i}.{name}")) else { continue };
            let Some((_, _, found)) = run.output(name) else {
                return Err(format!("{i}.{name} is not an output (of {last})"));
            };
            compare(found, &expected.values(), BOUND)
                .map_err(|difference| format!("{i}.{name}: {difference}"))?;
        }
    }
    Ok(())
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
