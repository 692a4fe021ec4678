//! A run compared with saved tensors, in the order of computation: which node is the first to differ?

use std::collections::{BTreeMap, BTreeSet};

use glassformer_engine::Sequence;
use glassformer_formula::Formula;
use glassformer_graph::Backend;
use glassformer_model::Model;
use glassformer_tensor::{Difference, Tensor, Tolerance, compare};
use glassformer_weights::Weights;

use crate::{Error, Trace};

/// What a saved sequence is made of, besides what was computed from it.
const INPUTS: [&str; 4] = ["ids", "target_ids", "types", "global"];

/// A sequence and the tensors that it gave somewhere else.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Its number in the file.
    pub index: usize,
    /// The sequence. Its `global` is empty where the file names none.
    pub sequence: Sequence,
    /// What it gave, by name: outputs (`hidden`, `source`, `pooled`, `logits`) and nodes of the graph.
    pub tensors: BTreeMap<String, Tensor>,
}

impl Expected {
    /// All sequences of a file: `i.ids`, `i.target_ids`, `i.types` and `i.global` are inputs (whole numbers, or text in the
    /// file's metadata), everything else `i.NAME` is a result.
    ///
    /// # Errors
    /// If a sequence has results and no ids, or ids that cannot be.
    pub fn read(file: &Weights, formula: &Formula) -> Result<Vec<Self>, Error> {
        let numbered = |name: &str| {
            let (index, rest) = name.split_once('.')?;
            Some((index.parse::<usize>().ok()?, rest.to_owned()))
        };
        let indices: BTreeSet<usize> =
            file.names().filter_map(|name| numbered(name).map(|(i, _)| i)).collect();
        let read = |index: usize| {
            let list = |what: &str| numbers(file, &format!("{index}.{what}"));
            let ids = list("ids")?.ok_or_else(|| Error::Saved {
                name: format!("{index}.ids"),
                why: "is not there: a comparison needs the ids that were run".to_owned(),
            })?;
            let target = list("target_ids")?.unwrap_or_default();
            let types = list("types")?.unwrap_or_default();
            let global =
                list("global")?.unwrap_or_default().into_iter().map(|place| place as usize).collect();
            let (source, target) = if formula.source.is_some() { (ids, target) } else { (Vec::new(), ids) };
            let sequence = Sequence { source, target, types, global, ..Sequence::default() };
            let results = file.names().filter_map(|name| {
                let (own, rest) = numbered(name)?;
                let result = own == index && !INPUTS.contains(&rest.as_str());
                result.then(|| Some((rest, file.get(name)?.to_f32())))?
            });
            Ok(Self { index, sequence, tensors: results.collect() })
        };
        indices.into_iter().map(read).collect()
    }

    /// Runs the sequence and compares every tensor that both have.
    ///
    /// # Errors
    /// If the model cannot run the sequence.
    pub fn verify(
        &self,
        model: &Model,
        backend: &dyn Backend,
        tolerance: Tolerance,
    ) -> Result<Verification, Error> {
        let trace = Trace::run(model, backend, &self.sequence)?;
        let mut verification = Verification::default();
        for traced in trace.values() {
            let names = trace.outputs().iter().filter(|(_, node)| *node == traced.name).map(|(name, _)| name);
            let mut names: Vec<&String> = names.chain([&traced.name]).collect();
            names.dedup();
            for name in names {
                let Some(expected) = self.tensors.get(name) else { continue };
                verification.compared.push(name.clone());
                if verification.first.is_none() {
                    let how = differs(&traced.tensor, expected, tolerance);
                    verification.first = how.map(|how| (name.clone(), how));
                }
            }
        }
        let known: BTreeSet<&String> = verification.compared.iter().collect();
        verification.unknown = self.tensors.keys().filter(|name| !known.contains(name)).cloned().collect();
        Ok(verification)
    }
}

/// What a comparison found.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    /// What was compared, in the order of computation.
    pub compared: Vec<String>,
    /// The first that differs, and how.
    pub first: Option<(String, Mismatch)>,
    /// Tensors of the file that this model does not have.
    pub unknown: Vec<String>,
}

/// How two tensors differ.
#[derive(Clone, Debug, PartialEq)]
pub enum Mismatch {
    /// In shape.
    Shape {
        /// Of this run.
        found: Vec<usize>,
        /// In the file.
        expected: Vec<usize>,
    },
    /// In numbers.
    Numbers(Difference),
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shape { found, expected } => {
                write!(f, "its shape is {found:?} where {expected:?} was expected")
            }
            Self::Numbers(difference) => difference.fmt(f),
        }
    }
}

fn differs(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Option<Mismatch> {
    if found.shape() != expected.shape() {
        return Some(Mismatch::Shape { found: found.shape().to_vec(), expected: expected.shape().to_vec() });
    }
    compare(found.data(), expected.data(), tolerance).err().map(Mismatch::Numbers)
}

/// The whole numbers called `name`: a tensor, or text in the metadata.
fn numbers(file: &Weights, name: &str) -> Result<Option<Vec<u32>>, Error> {
    let bad = |why: &str| Error::Saved { name: name.to_owned(), why: why.to_owned() };
    if let Some(numbers) = file.integers(name) {
        let one = |number: i64| u32::try_from(number).map_err(|_| bad("holds a number that is no id"));
        return numbers.into_iter().map(one).collect::<Result<_, _>>().map(Some);
    }
    let Some(text) = file.metadata().get(name) else { return Ok(None) };
    let one = |word: &str| word.parse().map_err(|_| bad("holds something that is no id"));
    text.split_whitespace().map(one).collect::<Result<_, _>>().map(Some)
}
