//! What is remembered from batch to batch: the rows that earlier segments of a text had in each layer (Transformer-XL, Dai et al.
//! 2019). They are numbers that come with a batch, so no gradient goes back through them.
//!
//! Sequence i of a batch goes on where sequence i of the batch before ended: the data comes in streams, see `Task::plan`.

use std::collections::BTreeMap;

use glassformer_formula::{Formula, Position};
use glassformer_graph::{Graph, Leaf, Packed, Rows, Runner, Side, State};
use glassformer_tensor::Tensor;

use crate::Error;

/// How the sequences of one batch and of the next belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Texts {
    /// Not at all.
    #[default]
    Apart,
    /// Each goes on where the one in the same place of the batch before ended.
    GoOn,
}

/// The rows that all layers of a target remember. Without Transformer-XL's positions there are none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    layers: Vec<Layer>,
    /// The most rows that are remembered of a sequence.
    most: usize,
    /// Rows of zeros before the first segment.
    zeros: usize,
    /// How many rows of each sequence are remembered now.
    rows: usize,
    /// How many sequences there are.
    streams: usize,
}

#[derive(Clone, Debug)]
struct Layer {
    /// What the graph reads it as.
    input: String,
    /// The output that has the rows of this segment.
    output: usize,
    width: usize,
    /// `[streams, rows, width]`.
    data: Vec<f32>,
}

/// How many rows of a text before a segment the target of `formula` remembers.
pub(crate) fn remembered(formula: &Formula) -> usize {
    let of = |part: &Position| match part {
        Position::TransformerXl { memory, .. } => *memory,
        Position::None
        | Position::Sinusoidal { .. }
        | Position::Learned { .. }
        | Position::Rotary(_)
        | Position::Alibi
        | Position::Buckets { .. }
        | Position::Together(_) => 0,
    };
    formula.target.as_ref().map_or(0, |side| side.stack.position.parts().iter().map(of).max().unwrap_or(0))
}

impl Memory {
    /// Nothing yet, for a `graph` of `formula`.
    pub fn new(formula: &Formula, graph: &Graph, texts: Texts) -> Self {
        let layer = |info: &glassformer_graph::ValueInfo| {
            let path = info.name.strip_suffix("memory")?;
            let output = graph.output(&format!("{path}remember"))?;
            let width = info.shape.width;
            Some(Layer { input: info.name.clone(), output, width, data: Vec::new() })
        };
        let inputs = graph.leaves(Leaf::Input).map(|(_, info)| info);
        let layers = inputs.filter(|info| info.shape.rows == Rows::Memory(Side::Target)).filter_map(layer);
        let zeros = formula.target.as_ref().map_or(0, |side| side.stack.position.zeros());
        let most = match texts {
            Texts::Apart => 0,
            Texts::GoOn => remembered(formula),
        };
        Self { layers: layers.collect(), most, zeros, rows: 0, streams: 0 }
    }

    /// What the input `name` of the graph is given.
    pub fn input(&self, name: &str) -> Option<&[f32]> {
        self.layers.iter().find(|layer| layer.input == name).map(|layer| &layer.data[..])
    }

    /// Forgets everything: a text begins anew.
    pub fn forget(&mut self) {
        (self.rows, self.streams) = (0, 0);
        self.layers.iter_mut().for_each(|layer| layer.data.clear());
    }

    /// Says in the spans of `packed` what is remembered of each sequence.
    pub fn announce(&mut self, packed: &mut Packed) {
        if self.layers.is_empty() {
            return;
        }
        if self.streams != packed.spans.len() {
            (self.rows, self.streams) = (self.zeros, packed.spans.len());
            for layer in &mut self.layers {
                layer.data.clear();
                layer.data.resize(self.streams * self.rows * layer.width, 0.0);
            }
        }
        for (at, span) in packed.spans.iter_mut().enumerate() {
            (span.memory, span.memory_start) = (self.rows, at * self.rows);
        }
    }

    /// Remembers the rows of the run that `runner` has just made of `packed`.
    pub fn remember(&mut self, packed: &Packed, runner: &dyn Runner, state: &State) -> Result<(), Error> {
        if self.most == 0 {
            self.forget();
            return Ok(());
        }
        let shortest = packed.spans.iter().map(|span| span.len).min().unwrap_or(0);
        let kept = self.most.min(self.rows + shortest);
        for layer in &mut self.layers {
            let (width, new) = (layer.width, runner.output(state, layer.output)?);
            let mut data = Vec::with_capacity(packed.spans.len() * kept * width);
            for (at, span) in packed.spans.iter().enumerate() {
                let fresh = kept.min(span.len);
                let old = &layer.data[at * self.rows * width..][..self.rows * width];
                data.extend_from_slice(&old[(self.rows + fresh - kept) * width..]);
                data.extend_from_slice(&new[(span.start + span.len - fresh) * width..][..fresh * width]);
            }
            layer.data = data;
        }
        if !self.layers.is_empty() {
            self.rows = kept;
        }
        Ok(())
    }

    /// All of it, by name, for a checkpoint.
    pub fn tensors(&self) -> BTreeMap<String, Tensor> {
        let tensor = |layer: &Layer| {
            let shape = [self.streams, self.rows, layer.width];
            Some((layer.input.clone(), Tensor::new(&shape, layer.data.clone())?))
        };
        if self.rows == 0 { BTreeMap::new() } else { self.layers.iter().filter_map(tensor).collect() }
    }

    /// Takes it back from a checkpoint; `get` gives the shape and the numbers of a layer where there are some. Gives whether they
    /// fit.
    pub fn restore(&mut self, get: impl Fn(&str) -> Option<(Vec<usize>, Vec<f32>)>) -> bool {
        self.forget();
        let mut sizes = None;
        for layer in &mut self.layers {
            // A text that has just begun has nothing to remember.
            let Some((shape, data)) = get(&layer.input) else { continue };
            let [streams, rows, width] = shape[..] else { return false };
            let known = *sizes.get_or_insert((streams, rows));
            if width != layer.width || known != (streams, rows) || rows > self.most {
                return false;
            }
            layer.data = data;
        }
        (self.streams, self.rows) = sizes.unwrap_or_default();
        self.layers.iter().all(|layer| layer.data.len() == self.streams * self.rows * layer.width)
    }
}
