//! What is remembered from batch to batch: the rows that earlier segments of a text had in each layer (Transformer-XL, Dai et al.
//! 2019). They stay in the backend's memory, and no gradient goes back through them.
//!
//! Sequence i of a batch goes on where sequence i of the batch before ended: the data comes in streams, see `Task::plan`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use glassformer_formula::{Formula, Position};
use glassformer_graph::ops::Remember;
use glassformer_graph::{Builder, Error as GraphError, Graph, Leaf, Packed, Rows, Runner, Side, State};
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
    /// The kept leaf.
    name: String,
    /// The output that has the rows of this segment.
    new: String,
    width: usize,
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
    /// Nothing yet, for a forward pass of `formula`.
    pub fn new(formula: &Formula, forward: &Graph, texts: Texts) -> Self {
        let layer = |info: &glassformer_graph::ValueInfo| {
            let path = info.name.strip_suffix("memory")?;
            Some(Layer { name: info.name.clone(), new: format!("{path}remember"), width: info.shape.width })
        };
        let leaves = forward.leaves(Leaf::Kept).map(|(_, info)| info);
        let layers = leaves.filter(|info| info.shape.rows == Rows::Memory(Side::Target)).filter_map(layer);
        let zeros = formula.target.as_ref().map_or(0, |side| side.stack.position.zeros());
        let most = match texts {
            Texts::Apart => 0,
            Texts::GoOn => remembered(formula),
        };
        Self { layers: layers.collect(), most, zeros, rows: 0, streams: 0 }
    }

    /// Appends what is remembered for the next batch.
    pub fn append(&self, build: &mut Builder) -> Result<(), GraphError> {
        if self.most == 0 {
            return Ok(());
        }
        for Layer { name, new, .. } in &self.layers {
            let graph = build.graph();
            let (memory, Some(output)) = (graph.value(name)?, graph.output(new)) else { continue };
            let rows = graph.outputs()[output].1;
            let op = Remember { side: Side::Target, most: self.most };
            let next = build.add(&format!("{name}.next"), op, &[memory, rows])?;
            build.update(memory, next)?;
        }
        Ok(())
    }

    /// Whether this is the name of what a layer remembers.
    pub fn keeps(&self, name: &str) -> bool {
        self.layers.iter().any(|layer| layer.name == name)
    }

    /// Forgets everything: a text begins anew.
    pub fn forget(&mut self) {
        (self.rows, self.streams) = (0, 0);
    }

    /// Says in the spans of `packed` what is remembered of each sequence; where that is nothing, memories begin anew.
    pub fn announce(
        &mut self,
        packed: &mut Packed,
        runner: &dyn Runner,
        state: &mut State,
    ) -> Result<(), Error> {
        if self.layers.is_empty() {
            return Ok(());
        }
        if self.streams != packed.spans.len() {
            (self.rows, self.streams) = (self.zeros, packed.spans.len());
            for layer in &self.layers {
                runner.write(state, &layer.name, &vec![0.0; self.streams * self.rows * layer.width])?;
            }
        }
        for (at, span) in packed.spans.iter_mut().enumerate() {
            (span.memory, span.memory_start) = (self.rows, at * self.rows);
        }
        Ok(())
    }

    /// Notes what a run of `packed` has left.
    pub fn remember(&mut self, packed: &Packed) {
        if self.most > 0 && !self.layers.is_empty() {
            self.rows = packed.remembered(self.most);
        }
    }

    /// All of it, by name, for a checkpoint.
    pub fn tensors(&self, runner: &dyn Runner, state: &State) -> Result<BTreeMap<String, Tensor>, Error> {
        let mut all = BTreeMap::new();
        if self.rows == 0 || self.most == 0 {
            return Ok(all);
        }
        for layer in &self.layers {
            let shape = [self.streams, self.rows, layer.width];
            let tensor = Tensor::new(&shape, runner.kept(state, &layer.name)?.into_owned());
            all.extend(tensor.map(|tensor| (layer.name.clone(), tensor)));
        }
        Ok(all)
    }

    /// Takes it back from a checkpoint; `get` gives the shape and the numbers of a layer where there are some. Gives whether they
    /// fit.
    pub fn restore<'n>(
        &mut self,
        get: impl Fn(&str) -> Option<(Vec<usize>, Cow<'n, [f32]>)>,
        runner: &dyn Runner,
        state: &mut State,
    ) -> Result<bool, Error> {
        self.forget();
        let mut sizes = None;
        for layer in &self.layers {
            // A text that has just begun has nothing to remember.
            let Some((shape, data)) = get(&layer.name) else { continue };
            let [streams, rows, width] = shape[..] else { return Ok(false) };
            let known = *sizes.get_or_insert((streams, rows));
            if width != layer.width || known != (streams, rows) || rows > self.most {
                return Ok(false);
            }
            runner.write(state, &layer.name, &data)?;
        }
        (self.streams, self.rows) = sizes.unwrap_or_default();
        Ok(sizes.is_none() || self.layers.iter().all(|layer| get(&layer.name).is_some()))
    }
}
