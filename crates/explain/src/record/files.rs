//! Writing a recording, and reading one back that is not trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use glassformer_weights::{Weights, encode, save};
use serde_json::Value;

use super::{Record, Recording, SCHEMA};
use crate::Error;

/// The manifest's file.
pub const JSON: &str = "trace.json";
/// The numbers' file.
pub const TENSORS: &str = "trace.safetensors";
/// The largest manifest that is read: one of 256 tokens and a hundred layers has a tenth of it.
const LARGEST: u64 = 256 << 20;

impl Recording {
    /// Writes `trace.json` and `trace.safetensors` into `folder`, which exists.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), Error> {
        let folder = folder.as_ref();
        let metadata = BTreeMap::from([("format".to_owned(), "glassformer-trace".to_owned())]);
        let named = self.numbers.iter().map(|(name, tensor)| (name.as_str(), tensor));
        save(folder.join(TENSORS), named, &metadata)?;
        let path = folder.join(JSON);
        let text = self.json()?;
        fs::write(&path, text).map_err(|error| Error::Trace { path, why: error.to_string() })
    }

    /// The manifest as JSON.
    ///
    /// # Errors
    /// Never in practice: every part of a manifest has a JSON form.
    pub fn json(&self) -> Result<String, Error> {
        let bad = |error: serde_json::Error| Error::Trace { path: JSON.into(), why: error.to_string() };
        serde_json::to_string(&self.record).map(|text| text + "\n").map_err(bad)
    }

    /// What [`Recording::save`] writes to `trace.safetensors`; nothing where no numbers are stored.
    ///
    /// # Errors
    /// If two tensors have one name.
    pub fn tensors(&self) -> Result<Vec<u8>, Error> {
        if self.numbers.is_empty() {
            return Ok(Vec::new());
        }
        let metadata = BTreeMap::from([("format".to_owned(), "glassformer-trace".to_owned())]);
        let named = self.numbers.iter().map(|(name, tensor)| (name.as_str(), tensor));
        Ok(encode(named, &metadata)?)
    }

    /// Reads what [`Recording::save`] wrote. Neither file is trusted: shapes, names and references must agree.
    ///
    /// # Errors
    /// If a file is missing, cut short, of another version, or says what cannot be.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = folder.as_ref();
        let path = folder.join(JSON);
        let bad = |why: String| Error::Trace { path: path.clone(), why };
        let file = File::open(&path).map_err(|error| bad(error.to_string()))?;
        let mut text = String::new();
        let read =
            file.take(LARGEST + 1).read_to_string(&mut text).map_err(|error| bad(error.to_string()))?;
        if read as u64 > LARGEST {
            return Err(bad(format!("is larger than {} MB", LARGEST >> 20)));
        }
        let value: Value = serde_json::from_str(&text).map_err(|error| bad(said(&error)))?;
        match value.get("schema").and_then(Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) => {}
            Some(schema) => {
                return Err(bad(format!("is of version {schema}, and this program reads version {SCHEMA}")));
            }
            None => return Err(bad("says no version: it is no trace".to_owned())),
        }
        let record: Record = serde_json::from_value(value).map_err(|error| bad(said(&error)))?;
        record.consistent().map_err(bad)?;
        let weights = Weights::open(folder.join(TENSORS))?;
        let mut numbers = BTreeMap::new();
        for named in record.tensors.iter().filter(|named| named.stored) {
            let view = weights.get(&named.name).ok_or_else(|| {
                bad(format!("says that {} is stored, and {TENSORS} does not have it", named.name))
            })?;
            if view.shape() != named.shape {
                let (said, found) = (&named.shape, view.shape());
                return Err(bad(format!(
                    "says that {} is {said:?}, and {TENSORS} has it as {found:?}",
                    named.name
                )));
            }
            numbers.insert(named.name.clone(), view.to_f32());
        }
        Ok(Self { record, numbers, goes_on: None })
    }
}

/// What is wrong with a file's JSON.
fn said(error: &serde_json::Error) -> String {
    if error.is_eof() { "ends before it is complete".to_owned() } else { format!("cannot be read: {error}") }
}

impl Record {
    /// What cannot be, in what refers to something else.
    fn consistent(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for named in &self.tensors {
            if !names.insert(named.name.as_str()) {
                return Err(format!("has two tensors named {:?}", clip(&named.name)));
            }
            if named.shape.len() > 4 || named.axes.len() != named.shape.len() {
                return Err(format!("says that {:?} has shape {:?}", clip(&named.name), named.shape));
            }
        }
        for step in &self.steps {
            let operands = step.equation.iter().flat_map(|equation| &equation.operands);
            let all = step.inputs.iter().chain(&step.outputs).chain(operands.map(|operand| &operand.tensor));
            for name in all {
                if !names.contains(name.as_str()) {
                    return Err(format!(
                        "has a step {:?} over {:?}, which is no tensor of it",
                        clip(&step.id),
                        clip(name)
                    ));
                }
            }
        }
        let Some(beams) = self.decode.as_ref().and_then(|decode| decode.beams.as_ref()) else {
            return Ok(());
        };
        for (place, node) in beams.nodes.iter().enumerate() {
            if node.id != place || node.parent.is_some_and(|parent| parent >= place) {
                return Err(format!("has a beam {} out of order", node.id));
            }
        }
        let known = beams.finished.iter().all(|one| one.node < beams.nodes.len());
        if !known || beams.winner >= beams.finished.len().max(1) {
            return Err("names a beam that it does not have".to_owned());
        }
        Ok(())
    }
}

/// As much of a name as a message should have.
fn clip(name: &str) -> String {
    name.chars().take(80).collect()
}
