//! Safetensors in few bits: how a file that we wrote says what its tensors are.
//!
//! The format has no type for blocks, so they are bytes, and `__metadata__` has an entry that maps names to types:
//! `"glassformer.coding": "{\"head.weight\": \"int8\", …}"`. A type is `int8`, a tensor of `I8` beside one of `F32` called
//! `….scale`, whose numbers the rows are multiplied by; or `int4`, the same with blocks that fill the rows of a tensor of `U8`: 16 bytes of
//! 32 numbers of four bits around 8, those of the first sixteen in the low halves, and a byte with the step that each sixteen are multiplied
//! by, the first in the low half; or one of GGUF's, whose blocks fill the rows and have their scales inside.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::contents::Place;
use crate::error::clip;
use crate::json::Unique;
use crate::stored::{Scaling, Stored};
use crate::{Dtype, Error, Quant};

/// The entry of the metadata.
pub const CODING: &str = "glassformer.coding";
/// The entry that says whose names the tensors have.
pub const NAMES: &str = "glassformer.names";
/// What [`NAMES`] says where they are our own, whatever the configuration beside the file.
pub const OURS: &str = "ours";
/// What stands behind a tensor's name in that of its scales.
pub(crate) const SCALE: &str = ".scale";
/// The type of weights in eight bits, which is no block.
pub const INT8: &str = "int8";
/// The type of weights in four bits.
pub const INT4: &str = "int4";

/// What the tensors of a file are.
pub(crate) struct Scheme<'a> {
    path: &'a Path,
    types: BTreeMap<String, String>,
}

impl<'a> Scheme<'a> {
    /// As the metadata say; nothing where they say nothing.
    pub(crate) fn read(path: &'a Path, metadata: &BTreeMap<String, String>) -> Result<Self, Error> {
        let types = match metadata.get(CODING) {
            None => BTreeMap::new(),
            Some(text) => match serde_json::from_str::<Unique<String>>(text) {
                Ok(types) => types.0,
                Err(error) => {
                    let reason = clip(&format!("{CODING} is no list of types: {error}"));
                    return Err(Error::Syntax { path: path.into(), reason });
                }
            },
        };
        Ok(Self { path, types })
    }

    fn wrong(&self, name: &str, why: impl std::fmt::Display) -> Error {
        Error::Syntax { path: self.path.into(), reason: clip(&format!("{CODING}: {name:?} {why}")) }
    }

    /// Gives the tensors in blocks their type and shape.
    pub(crate) fn apply(&self, places: &mut [Place]) -> Result<(), Error> {
        if self.types.is_empty() {
            return Ok(());
        }
        let mut known: HashMap<&str, (&mut Dtype, &mut Vec<usize>)> = places
            .iter_mut()
            .map(|Place { name, dtype, shape, .. }| (name.as_str(), (dtype, shape)))
            .collect();
        for (name, word) in self.types.iter().filter(|(_, word)| *word != INT8) {
            let Some(quant) = Quant::named(word) else {
                return Err(self.wrong(name, format_args!("has the unknown type {word:?}")));
            };
            let Some((dtype, shape)) = known.get_mut(name.as_str()) else {
                return Err(self.wrong(name, "is not there"));
            };
            let unpacked = match (&**dtype, shape.as_slice()) {
                (Dtype::U8, &[rows, bytes]) if bytes.is_multiple_of(quant.bytes()) => {
                    (bytes / quant.bytes()).checked_mul(quant.numbers()).map(|width| vec![rows, width])
                }
                _ => None,
            };
            let Some(unpacked) = unpacked else {
                let bytes = quant.bytes();
                let (found, word) = (dtype.name(), quant.name());
                let why = format_args!("is {found} {shape:?}, and no rows of {word} of {bytes} bytes each");
                return Err(self.wrong(name, why));
            };
            (**dtype, **shape) = (Dtype::Blocks(quant), unpacked);
        }
        Ok(())
    }

    /// Gives integers and steps their scales, which are then no tensors of their own.
    pub(crate) fn scale(&self, tensors: &mut Vec<(String, Stored)>) -> Result<(), Error> {
        if self.types.is_empty() {
            return Ok(());
        }
        let mut all: BTreeMap<String, Stored> = std::mem::take(tensors).into_iter().collect();
        let scaled = |word: &str| match word {
            INT8 => Some(Dtype::I8),
            INT4 => Some(Dtype::Blocks(Quant::Int4)),
            _ => None,
        };
        for (name, word) in &self.types {
            let Some(dtype) = scaled(word) else { continue };
            let Some(scales) = all.remove(&scale_of(name)) else {
                return Err(self.wrong(name, "has no scales"));
            };
            let Some(stored) = all.get(name).filter(|stored| stored.dtype == dtype) else {
                return Err(self.wrong(name, format_args!("is not there as {}", dtype.name())));
            };
            let rows = stored.shape.first() == scales.shape.first() && scales.shape.len() == 1;
            let scaled =
                stored.scaled(&scales, Scaling::Multiply).filter(|_| rows && stored.shape.len() == 2);
            let Some(scaled) = scaled else { return Err(self.wrong(name, "has not a scale for each row")) };
            all.insert(name.clone(), scaled);
        }
        tensors.extend(all);
        Ok(())
    }
}

/// The name of the scales of the tensor `name`.
pub fn scale_of(name: &str) -> String {
    format!("{name}{SCALE}")
}
