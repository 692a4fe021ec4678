//! The file: which weights get how many bits, and how they are written.
//!
//! The weights get our names, since some families store theirs transposed or several in one, which no scale for each output
//! would survive. The file says so, and what each tensor is written in: see [`scheme`].

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use glassformer_graph::{is_sensitive, is_table};
use glassformer_model::{Model, Source};
use glassformer_tensor::{CodedRow, Coding};
use glassformer_weights::{Dtype, Quant, save_streamed, scheme};

use crate::code::{Coded, check};
use crate::{Error, Fitted};

/// How many bits weights get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantize {
    /// Eight, with a scale for each output.
    Int8,
    /// Four, with a scale for each output and a step for each 16 numbers. Vocabularies, and weights whose rows are not whole blocks, get
    /// eight.
    Int4,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Tensors in few bits.
    pub quantized: usize,
    /// Tensors that stayed in `f32`.
    pub wide: usize,
    /// Bytes of all of them.
    pub bytes: usize,
    /// What they would be in `f32`.
    pub before: usize,
}

impl Quantize {
    /// What the tensor `name` is written in, where that is not `f32`: weights of layers, heads over vocabularies and tables of
    /// words. Biases, norms, positions and small heads stay as they are.
    pub fn coding(&self, name: &str, shape: &[usize]) -> Option<Coding> {
        let &[rows, width] = shape else { return None };
        let stack = name.starts_with("source.") || name.starts_with("target.");
        let layer = stack && name.ends_with(".weight");
        let words = (name.starts_with("head.") || is_table(name)) && !is_sensitive(name, rows);
        if width == 0 || !layer && !words {
            return None;
        }
        let four = layer && width.is_multiple_of(Coding::INT4_BLOCK);
        Some(if *self == Self::Int4 && four { Coding::INT4 } else { Coding::INT8 })
    }

    /// Writes the weights of `model` to `path`, one by one: only one of them is in memory at a time. Those that were `fitted` are written
    /// as such, all others as the nearest codes.
    ///
    /// # Errors
    /// If the file cannot be written, or a weight cannot be written in few bits.
    pub fn write(&self, model: &Model, fitted: &Fitted, path: impl AsRef<Path>) -> Result<Written, Error> {
        let path = path.as_ref();
        let source = model.source();
        let plans: BTreeMap<String, Planned> = source
            .names()
            .into_iter()
            .filter_map(|name| {
                let shape = source.shape(&name)?;
                let planned = Planned { coding: self.coding(&name, &shape), shape };
                Some((name, planned))
            })
            .collect();
        let mut tensors: BTreeMap<String, (Dtype, Vec<usize>)> = BTreeMap::new();
        let mut types = BTreeMap::new();
        for (name, planned) in &plans {
            tensors.insert(name.clone(), planned.stored());
            if let Some(coding) = planned.coding {
                tensors.insert(scheme::scale_of(name), (Dtype::F32, vec![planned.shape[0]]));
                let word = if coding == Coding::INT4 { scheme::INT4 } else { scheme::INT8 };
                types.insert(name.as_str(), word);
            }
        }
        let text = |error: serde_json::Error| Error::File {
            path: path.display().to_string(),
            why: error.to_string(),
        };
        let metadata = BTreeMap::from([
            (scheme::NAMES.to_owned(), scheme::OURS.to_owned()),
            (scheme::CODING.to_owned(), serde_json::to_string(&types).map_err(text)?),
        ]);
        let claims: BTreeMap<&str, (Dtype, &[usize])> = tensors
            .iter()
            .map(|(name, (dtype, shape))| (name.as_str(), (*dtype, shape.as_slice())))
            .collect();
        // The scales of a tensor come after it, as their name is longer.
        let mut scales = BTreeMap::new();
        save_streamed(path, &claims, &metadata, |name, file| match plans.get(name) {
            Some(planned) => {
                let row_scales = planned.fill(source.as_ref(), (name, fitted.get(name)), file)?;
                scales.insert(scheme::scale_of(name), row_scales);
                Ok(())
            }
            None => floats(file, &scales.remove(name).unwrap_or_default()),
        })?;
        let count = |shape: &[usize]| shape.iter().product::<usize>();
        Ok(Written {
            quantized: types.len(),
            wide: plans.len() - types.len(),
            bytes: fs::metadata(path).map_or(0, |facts| facts.len() as usize),
            before: plans.values().map(|planned| 4 * count(&planned.shape)).sum(),
        })
    }
}

/// A tensor, and what it becomes.
struct Planned {
    coding: Option<Coding>,
    shape: Vec<usize>,
}

impl Planned {
    /// Its type and shape in the file.
    fn stored(&self) -> (Dtype, Vec<usize>) {
        match (self.coding, self.shape.as_slice()) {
            (Some(Coding::INT4), &[rows, width]) => {
                (Dtype::U8, vec![rows, width / Quant::Int4.numbers() * Quant::Int4.bytes()])
            }
            (Some(_), _) => (Dtype::I8, self.shape.clone()),
            (None, _) => (Dtype::F32, self.shape.clone()),
        }
    }

    /// Writes its numbers, fitted or not, and gives the scales of its rows, if they have some.
    fn fill(
        &self,
        source: &dyn Source,
        (name, fitted): (&str, Option<&Coded>),
        file: &mut dyn Write,
    ) -> io::Result<Vec<f32>> {
        if let Some(fitted) = fitted {
            file.write_all(&fitted.bytes)?;
            return Ok(fitted.scales.clone());
        }
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{name} {why}"));
        let values = source.get(name).ok_or_else(|| wrong("is not there"))?;
        let Some(coding) = self.coding else {
            floats(file, &values)?;
            return Ok(Vec::new());
        };
        check(&values).map_err(wrong)?;
        let width = self.shape.last().copied().unwrap_or(1).max(1);
        let (mut row, mut coded) = (CodedRow::default(), Coded::default());
        for numbers in values.chunks_exact(width) {
            coding.encode(numbers, &mut row);
            coded.push(coding, &row).map_err(wrong)?;
            file.write_all(&coded.bytes)?;
            coded.bytes.clear();
        }
        Ok(coded.scales)
    }
}

/// Numbers as a file holds them.
fn floats(file: &mut dyn Write, values: &[f32]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(4 << 12);
    for values in values.chunks(1 << 12) {
        bytes.clear();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        file.write_all(&bytes)?;
    }
    Ok(())
}
