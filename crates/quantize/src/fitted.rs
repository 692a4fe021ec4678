//! A model read with texts, and its weights rounded by what they read there.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use glassformer_engine::{Passes, Sequence};
use glassformer_graph::moments::{Readers, moments, readers};
use glassformer_graph::{Backend, Constants};
use glassformer_model::{Model, Purpose};

use crate::code::{Coded, check};
use crate::fit::{Fit, ROWS};
use crate::{Error, Quantize};

/// Weights whose rounding was fitted to texts.
#[derive(Clone, Debug, Default)]
pub struct Fitted {
    weights: BTreeMap<String, Coded>,
}

/// At most so many numbers are measured at once: half a gigabyte of them. For more, the texts are read again.
const MEASURED: usize = 1 << 27;

/// A run ends with the text that brings it to so many tokens.
const TOKENS: usize = 2048;

impl Fitted {
    /// The weight `name`, if it is one of them.
    pub(crate) fn get(&self, name: &str) -> Option<&Coded> {
        self.weights.get(name)
    }

    /// How many weights they are.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether they are none.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }
}

impl Quantize {
    /// Runs `model` over `sequences`, and rounds the weights of its layers so that their products change little on texts like these.
    /// `tell` hears which share is done. Any number of threads gives the same bits.
    ///
    /// # Errors
    /// If the model cannot run them, or a weight cannot be written in few bits.
    pub fn fit(
        &self,
        model: &Model,
        sequences: &[Sequence],
        (backend, threads): (Arc<dyn Backend>, usize),
        tell: &mut dyn FnMut(f64),
    ) -> Result<Fitted, Error> {
        let graph = model.graph(Purpose::Whole)?;
        let source = model.source();
        let wanted = |name: &str| source.shape(name).is_some_and(|shape| self.coding(name, &shape).is_some());
        let all = readers(&graph, wanted);
        let portions = portions(&all);
        let mut fitted = Fitted::default();
        for (index, portion) in portions.iter().enumerate() {
            let mut tell = |share: f64| tell((index as f64 + share) / portions.len() as f64);
            let measured = moments(&graph, portion)?;
            let mut passes = Passes::over(model, Arc::new(measured), backend.clone());
            let sums = measure(&mut passes, portion, sequences, &mut |share| tell(share / 2.0))?;
            drop(passes);
            for (done, (readers, sum)) in portion.iter().zip(sums).enumerate() {
                let fit = Fit::new(&sum, readers.width, threads);
                drop(sum);
                for name in &readers.weights {
                    fitted.weights.insert(name.clone(), self.round(model, name, &fit, threads)?);
                }
                tell(0.5 + (done + 1) as f64 / portion.len() as f64 / 2.0);
            }
        }
        Ok(fitted)
    }

    /// A weight in few bits.
    fn round(self, model: &Model, name: &str, fit: &Fit, threads: usize) -> Result<Coded, Error> {
        let wrong = |why: &str| Error::File { path: name.to_owned(), why: why.to_owned() };
        let shape = model.source().shape(name).unwrap_or_default();
        let (Some(values), Some(coding)) = (model.get(name), self.coding(name, &shape)) else {
            return Err(wrong("is not there"));
        };
        check(&values).map_err(wrong)?;
        let width = shape[1];
        let rows = shape[0].div_ceil(threads.max(1)).next_multiple_of(ROWS);
        let parts: Vec<Vec<_>> = thread::scope(|scope| {
            let part = |values| {
                move || -> Vec<_> {
                    let together = |values: &[f32]| fit.encode(coding, values);
                    <[f32]>::chunks(values, ROWS * width).flat_map(together).collect()
                }
            };
            let parts: Vec<_> = values.chunks(rows * width).map(|values| scope.spawn(part(values))).collect();
            parts.into_iter().map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        let mut coded = Coded::default();
        for row in parts.iter().flatten() {
            coded.push(coding, row).map_err(wrong)?;
        }
        Ok(coded)
    }
}

/// Weights that are measured together.
fn portions(readers: &[Readers]) -> Vec<Vec<Readers>> {
    let mut portions: Vec<Vec<Readers>> = Vec::new();
    let mut numbers = usize::MAX;
    for reader in readers {
        let more = reader.width * reader.width;
        if numbers.saturating_add(more) > MEASURED {
            portions.push(Vec::new());
            numbers = 0;
        }
        numbers += more;
        portions.last_mut().into_iter().for_each(|last| last.push(reader.clone()));
    }
    portions
}

/// What is read by `readers` over all sequences, each as `[width, width]`.
fn measure(
    passes: &mut Passes,
    readers: &[Readers],
    sequences: &[Sequence],
    tell: &mut dyn FnMut(f64),
) -> Result<Vec<Vec<f32>>, Error> {
    let mut sums: Vec<Vec<f32>> =
        readers.iter().map(|reader| vec![0.0; reader.width * reader.width]).collect();
    let mut from = 0;
    while from < sequences.len() {
        let mut tokens = 0;
        let fits = |sequence: &&Sequence| {
            let before = tokens;
            tokens += sequence.source.len() + sequence.target.len();
            before == 0 || tokens <= TOKENS
        };
        let to = from + sequences[from..].iter().take_while(fits).count();
        let forward = passes.run(&sequences[from..to])?;
        for (reader, sum) in readers.iter().zip(&mut sums) {
            if let Some(output) = forward.output(&reader.name())? {
                sum.iter_mut().zip(&*output.numbers).for_each(|(sum, x)| *sum += x);
            }
        }
        from = to;
        tell(from as f64 / sequences.len() as f64);
    }
    Ok(sums)
}
