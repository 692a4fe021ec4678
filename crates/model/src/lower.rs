//! Lowering: a formula written out as a graph.

use glassformer_formula::{Formula, Norm, Stack};
use glassformer_graph::ops::{Dropout, Linear, Norm as NormOp, NormKind};
use glassformer_graph::{Builder, Graph, Leaf, Shape, Side, Value};

use crate::Error;

/// What a graph is for. All three are the same functions with keys and values in different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// All rows of both sides in one run: encoders, scoring, training.
    Whole,
    /// The source alone, whose keys and values are stored for the target's cross-attention.
    Encode,
    /// The next rows of the target: a whole prompt or a single token, after what is stored.
    Step,
}

/// How a formula is lowered.
#[derive(Clone, Copy, Debug)]
pub struct Lowering {
    /// What for.
    pub purpose: Purpose,
    /// Whether parameters are constants of the graph, come with each batch, or are kept by a state, as in training.
    pub parameters: Leaf,
    /// How much is left out after each branch and after the input while training; 0 for none.
    pub dropout: f32,
}

impl Lowering {
    /// For running, with constant weights.
    pub fn run(purpose: Purpose) -> Self {
        Self { purpose, parameters: Leaf::Weight, dropout: 0.0 }
    }

    /// For training: everything in one run, with parameters as leaves of that kind.
    pub fn train(parameters: Leaf, dropout: f32) -> Self {
        Self { purpose: Purpose::Whole, parameters, dropout }
    }
}

/// Writes `formula` out as a graph.
///
/// Outputs: `hidden`, the last stack's rows; `source`, the encoder's rows where there are two stacks; `pooled` where there is
/// a pooler; `logits` where there is a head.
///
/// # Errors
/// If the formula cannot work, or has no stack for the purpose.
pub fn lower(formula: &Formula, how: Lowering) -> Result<Graph, Error> {
    formula.check()?;
    let mut lower = Lower { formula, how, build: Builder::new(), sites: 0, slots: 0 };
    match how.purpose {
        Purpose::Whole => lower.whole()?,
        Purpose::Encode => lower.encode()?,
        Purpose::Step => lower.step()?,
    }
    Ok(lower.build.finish())
}

/// A graph in the making.
pub(crate) struct Lower<'f> {
    pub formula: &'f Formula,
    pub how: Lowering,
    pub build: Builder,
    sites: u64,
    slots: usize,
}

/// A place in the formula: whose stack it is, and where its weights' names begin.
#[derive(Clone, Debug)]
pub(crate) struct At<'f> {
    pub side: Side,
    pub stack: &'f Stack,
    pub weights: String,
}

impl At<'_> {
    /// The place `name` below this one.
    pub fn below(&self, name: &str) -> Self {
        Self { weights: format!("{}.{name}", self.weights), ..self.clone() }
    }
}

impl<'f> Lower<'f> {
    fn whole(&mut self) -> Result<(), Error> {
        let source = match &self.formula.source {
            Some(source) => Some(self.side(Side::Source, source, None)?),
            None => None,
        };
        let last = match &self.formula.target {
            Some(target) => {
                if let Some(source) = source {
                    self.build.output("source", source);
                }
                (Side::Target, self.side(Side::Target, target, source)?)
            }
            None => (Side::Source, source.ok_or(Error::Purpose { purpose: "running", needs: "stack" })?),
        };
        self.finish(last)
    }

    fn encode(&mut self) -> Result<(), Error> {
        let none = |needs| Error::Purpose { purpose: "encoding", needs };
        let source = self.formula.source.as_ref().ok_or(none("source"))?;
        self.formula.target.as_ref().ok_or(none("target"))?;
        let memory = self.side(Side::Source, source, None)?;
        self.build.output("source", memory);
        self.store_crossings(memory)
    }

    fn step(&mut self) -> Result<(), Error> {
        let none = Error::Purpose { purpose: "generating", needs: "target" };
        let target = self.formula.target.as_ref().ok_or(none)?;
        let rows = self.side(Side::Target, target, None)?;
        self.finish((Side::Target, rows))
    }

    fn side(
        &mut self,
        side: Side,
        given: &'f glassformer_formula::Side,
        memory: Option<Value>,
    ) -> Result<Value, Error> {
        let at = At { side, stack: &given.stack, weights: side.to_string() };
        let x = self.input(&at, &given.input)?;
        self.stack(&at, x, memory)
    }

    fn finish(&mut self, (side, rows): (Side, Value)) -> Result<(), Error> {
        self.build.output("hidden", rows);
        let pooled = self.pooler(side, rows)?;
        if let Some(pooled) = pooled {
            self.build.output("pooled", pooled);
        }
        if let Some(logits) = self.head(side, rows, pooled)? {
            self.build.output("logits", logits);
        }
        Ok(())
    }

    /// Runs `lower` with the names of values below `name`.
    pub fn scoped<T>(
        &mut self,
        name: &str,
        lower: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.build.enter(name);
        let result = lower(self);
        self.build.leave();
        result
    }

    /// The next slot of the target's own pages.
    pub fn next_slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    /// The parameter of exactly this name.
    pub fn parameter(&mut self, name: &str, shape: Shape) -> Result<Value, Error> {
        Ok(match self.how.parameters {
            Leaf::Weight => self.build.weight(name, shape)?,
            Leaf::Input => self.build.input(name, shape)?,
            Leaf::Kept => self.build.kept(name, shape)?,
        })
    }

    /// `x Wᵀ (+ b)` to `out` numbers a row; the value, W and b are called `name`, `name.weight` and `name.bias`.
    pub fn linear(&mut self, at: &At<'f>, name: &str, x: Value, to: Out) -> Result<Value, Error> {
        let width = self.build.shape(x).width;
        let path = format!("{}.{name}", at.weights);
        let mut inputs = vec![x, self.parameter(&format!("{path}.weight"), Shape::fixed(to.width, width))?];
        if to.bias {
            inputs.push(self.parameter(&format!("{path}.bias"), Shape::fixed(1, to.width))?);
        }
        Ok(self.build.add(name, Linear, &inputs)?)
    }

    /// The norm `name` of each of `parts` parts of a row, or `x` itself where there is none.
    pub fn norm(
        &mut self,
        at: &At<'f>,
        (name, parts): (&str, usize),
        x: Value,
        norm: Option<&Norm>,
    ) -> Result<Value, Error> {
        let Some(norm) = norm else { return Ok(x) };
        let (kind, epsilon) = match *norm {
            Norm::Layer { epsilon, bias: true } => (NormKind::Layer, epsilon),
            Norm::Layer { epsilon, bias: false } => (NormKind::LayerWithoutBias, epsilon),
            Norm::Rms { epsilon } => (NormKind::Rms, epsilon),
        };
        let shape = Shape::fixed(1, self.build.shape(x).width / parts);
        let path = format!("{}.{name}", at.weights);
        let mut inputs = vec![x, self.parameter(&format!("{path}.gain"), shape)?];
        if kind == NormKind::Layer {
            inputs.push(self.parameter(&format!("{path}.bias"), shape)?);
        }
        Ok(self.build.add(name, NormOp { kind, epsilon, parts }, &inputs)?)
    }

    /// Leaves some numbers out while training.
    pub fn dropout(&mut self, x: Value) -> Result<Value, Error> {
        if self.how.dropout == 0.0 {
            return Ok(x);
        }
        self.sites += 1;
        Ok(self.build.add("dropout", Dropout { rate: self.how.dropout, site: self.sites }, &[x])?)
    }
}

/// Where a projection leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub width: usize,
    pub bias: bool,
}
