//! Fixtures: sequences with what the reference computes for them, and the comparison.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::{Path, PathBuf};

use glassformer_engine::{Forward, Sequence};
use glassformer_families::Checkpoint;
use glassformer_formula::Formula;
use glassformer_graph::Backend;
use glassformer_tensor::{Tolerance, compare};
use glassformer_weights::Weights;

/// How far a number may lie from the reference's.
pub const BOUND: Tolerance = Tolerance { absolute: 1e-4, relative: 1e-4 };

/// A folder of the fixtures.
pub fn fixtures(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// What is in a folder, in order.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the fixtures are in the repository");
    let mut entries: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    entries
}

/// The sequences of a golden file, until there is no more.
pub fn sequences(golden: &Weights, formula: &Formula, global: &[usize], start: u32) -> Vec<Sequence> {
    let decoder_only = formula.source.is_none();
    let shifted = formula.target.is_some();
    let list = |i: usize, name: &str| golden.integers(&format!("{i}.{name}"));
    let ids =
        |i: usize, name: &str| list(i, name).unwrap_or_default().into_iter().map(|id| id as u32).collect();
    let one = |i: usize| {
        let (source, mut target) =
            if decoder_only { (Vec::new(), ids(i, "ids")) } else { (ids(i, "ids"), ids(i, "target_ids")) };
        if target.is_empty() && shifted {
            // A classifier's decoder reads the source behind the start token.
            target = std::iter::once(start).chain(source.iter().copied().take(source.len() - 1)).collect();
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

/// What differs first between `checkpoint` and the golden file at `golden`.
pub fn difference(checkpoint: &Checkpoint, golden: &Path, backend: &dyn Backend) -> Result<(), String> {
    let golden = Weights::open(golden).map_err(|error| error.to_string())?;
    let formula = checkpoint.model.formula();
    let start = checkpoint.config.get("decoder_start_token_id").and_then(serde_json::Value::as_u64);
    let sequences = sequences(&golden, formula, &checkpoint.global, start.unwrap_or_default() as u32);
    if sequences.is_empty() {
        return Err("the golden file has no sequences".into());
    }
    for (i, sequence) in sequences.into_iter().enumerate() {
        let run = Forward::whole(&checkpoint.model, backend, &[sequence])
            .map_err(|error| format!("{i}: {error}"))?;
        for name in ["hidden", "source", "pooled", "logits"] {
            let Some(expected) = golden.get(&format!("{i}.{name}")) else { continue };
            let Some(found) = run.output(name).map_err(|error| error.to_string())? else {
                return Err(format!("{i}.{name} is not an output"));
            };
            compare(&found.numbers, &expected.values(), BOUND)
                .map_err(|difference| format!("{i}.{name}: {difference}"))?;
        }
    }
    Ok(())
}
