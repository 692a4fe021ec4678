//! Cases as data: an operation, the shapes of its inputs, and a small batch. Every backend runs them all.

use std::sync::Arc;

use glassformer_tensor::Random;

use crate::{Batch, Builder, Error, Graph, Leaf, Op, Rows, Shape, Span};

/// A small batch, described.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Lengths of the source sequences.
    pub source: &'static [usize],
    /// Lengths of the target sequences.
    pub target: &'static [usize],
    /// Remembered rows of each target sequence.
    pub memory: &'static [usize],
    /// First rows of each source sequence that are not pooled; none where nothing is said.
    pub unpooled: &'static [usize],
    /// Ids are below this.
    pub ids: usize,
}

impl Default for Sample {
    fn default() -> Self {
        Self { source: &[3, 1, 6], target: &[4, 2, 5], memory: &[2, 0, 3], unpooled: &[], ids: 4 }
    }
}

impl Sample {
    /// The batch, drawn from `random`, without the graph's inputs.
    pub fn batch(&self, random: &mut Random) -> Batch<'static> {
        let mut batch = Batch { seed: random.bits(), ..Batch::default() };
        let sides = [
            (self.source, [&[][..], self.unpooled], &mut batch.source),
            (self.target, [self.memory, &[]], &mut batch.target),
        ];
        for (lengths, given, packed) in sides {
            for (s, &len) in lengths.iter().enumerate() {
                let tokens: Vec<u32> = (0..len).map(|_| random.below(self.ids) as u32).collect();
                let [memory, unpooled] = given.map(|of| of.get(s).copied().unwrap_or(0));
                let source = s % self.source.len().max(1);
                packed.push(&tokens, Span { source, memory, unpooled, ..Span::default() });
            }
            let rows = packed.rows();
            packed.types = (0..rows).map(|_| random.below(2) as u32).collect();
            packed.global = (0..rows).map(|_| random.below(4) == 0).collect();
            packed.picked = (0..rows as u32).filter(|_| random.below(3) > 0).collect();
            packed.labels = (0..packed.picked.len()).map(|_| random.below(self.ids) as u32).collect();
            packed.weights = (0..packed.picked.len()).map(|_| random.uniform()).collect();
        }
        batch
    }
}

/// What the labels of a batch are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// A class for each row that the head is asked about.
    #[default]
    Rows,
    /// Two places within each sequence.
    Places,
    /// None: sequences belong together two by two.
    Pairs,
}

/// An operation with the shapes of its inputs.
#[derive(Clone, Debug)]
pub struct Case {
    /// The operation.
    pub op: Op,
    /// The shapes of its inputs.
    pub inputs: Vec<Shape>,
    /// The batch that it runs on.
    pub sample: Sample,
    /// Inputs are drawn uniformly from this range instead of normally.
    pub range: Option<(f32, f32)>,
    /// What the labels are.
    pub labels: Labels,
}

impl Case {
    /// `op` on inputs of these shapes.
    pub fn new(op: impl Into<Op>, inputs: &[Shape]) -> Self {
        Self {
            op: op.into(),
            inputs: inputs.to_vec(),
            sample: Sample::default(),
            range: None,
            labels: Labels::Rows,
        }
    }

    /// On another batch.
    #[must_use]
    pub fn on(self, sample: Sample) -> Self {
        Self { sample, ..self }
    }

    /// With such labels.
    #[must_use]
    pub fn labelled(self, labels: Labels) -> Self {
        Self { labels, ..self }
    }

    /// With inputs drawn uniformly.
    #[must_use]
    pub fn between(self, low: f32, high: f32) -> Self {
        Self { range: Some((low, high)), ..self }
    }

    /// The graph: inputs `in.0`, `in.1`, …, the operation, its outputs.
    ///
    /// # Errors
    /// If the case's shapes do not fit its operation.
    pub fn graph(&self) -> Result<Arc<Graph>, Error> {
        let mut build = Builder::new();
        let mut inputs = Vec::new();
        for (k, &shape) in self.inputs.iter().enumerate() {
            inputs.push(build.input(&format!("in.{k}"), shape)?);
        }
        for (k, value) in build.add_all("out", self.op.clone(), &inputs)?.into_iter().enumerate() {
            build.output(&format!("out.{k}"), value);
        }
        Ok(Arc::new(build.finish()))
    }

    /// Numbers for every input of `graph`, and the batch without them.
    pub fn draw(&self, graph: &Graph, random: &mut Random) -> (Batch<'static>, Vec<Vec<f32>>) {
        let mut batch = self.sample.batch(random);
        for packed in [&mut batch.source, &mut batch.target] {
            let (labels, weights): (Vec<u32>, usize) = match self.labels {
                Labels::Rows => continue,
                Labels::Places => {
                    let places = packed.spans.iter().flat_map(|span| [span.len; 2]);
                    (places.map(|len| random.below(len) as u32).collect(), packed.spans.len())
                }
                Labels::Pairs => (Vec::new(), packed.spans.len() / 2),
            };
            packed.labels = labels;
            packed.weights = (0..weights).map(|_| random.uniform()).collect();
        }
        let draw = |rows: Rows, width: usize, random: &mut Random| -> Vec<f32> {
            (0..batch.count(rows) * width)
                .map(|_| match self.range {
                    Some((low, high)) => low + (high - low) * random.uniform(),
                    None => random.normal(),
                })
                .collect()
        };
        let inputs =
            graph.leaves(Leaf::Input).map(|(_, info)| draw(info.shape.rows, info.shape.width, random));
        let inputs = inputs.collect();
        (batch, inputs)
    }
}
