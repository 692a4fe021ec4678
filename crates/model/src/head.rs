//! What is read off the last stack.

use glassformer_formula::{
    Cluster, Clusters, Dense, Head, Input, Pool as PoolBy, Side as Given, Then, Tokens,
};
use glassformer_graph::ops::{
    Activate, Adaptive, Fill, Linear, Norm as NormOp, NormKind, Pick, Pool, Pooling, Scale,
};
use glassformer_graph::{Shape, Side, Value};

use crate::Error;
use crate::lower::{At, Lower, Out};
use crate::sublayer::activation;

impl<'f> Lower<'f> {
    fn last(&self, side: Side) -> Option<&'f Given> {
        match side {
            Side::Source => self.formula.source.as_ref(),
            Side::Target => self.formula.target.as_ref(),
        }
    }

    /// One row for each sequence, where there is a pooler.
    pub fn pooler(&mut self, side: Side, rows: Value) -> Result<Option<Value>, Error> {
        let (Some(pooler), Some(given)) = (&self.formula.pooler, self.last(side)) else { return Ok(None) };
        let pooling = |part: &PoolBy| match part {
            PoolBy::First => Some(Pooling::First),
            PoolBy::Last => Some(Pooling::Last),
            PoolBy::LastBut(padding) => Some(Pooling::LastBut(*padding)),
            PoolBy::Mean => Some(Pooling::Mean),
            PoolBy::MeanRoot => Some(Pooling::MeanRoot),
            PoolBy::WeightedMean => Some(Pooling::WeightedMean),
            PoolBy::Max => Some(Pooling::Max),
            PoolBy::Together(_) => None, // refused within a list
        };
        let poolings = pooler.pool.parts().iter().filter_map(pooling).collect();
        let at = At { side, stack: &given.stack, weights: "pooler".to_owned() };
        self.scoped("pooler", |lower| {
            let pooled = lower.build.add("rows", Pool { side, poolings }, &[rows])?; // [sequences, width · poolings]
            let pooled = lower.dense(&at, pooler.dense.as_ref(), pooled, given.stack.width)?;
            let steps = pooler.then.iter().enumerate();
            steps.into_iter().try_fold(pooled, |x, (index, step)| lower.then(&at, index, step, x)).map(Some)
        })
    }

    /// Step number `index` of what is done to a pooled row; its weights are below `pooler.index`.
    fn then(&mut self, at: &At<'f>, index: usize, step: &Then, x: Value) -> Result<Value, Error> {
        let name = index.to_string();
        let width = self.build.shape(x).width;
        match step {
            Then::Dense { width, act, bias } => {
                let x = self.linear(at, &name, x, Out { width: *width, bias: *bias })?;
                match act {
                    None => Ok(x),
                    Some(act) => {
                        let act = Activate { act: activation(*act) };
                        Ok(self.build.add(&format!("{name}.activated"), act, &[x])?)
                    }
                }
            }
            Then::Norm(norm) => self.norm(at, (&name, 1), x, Some(norm)),
            // x/‖x‖ is an RMS norm whose gain is 1/√width; ε keeps a row of zeros what it is.
            Then::Unit => {
                let shape = Shape::fixed(1, width);
                let value = 1.0 / (width as f32).sqrt();
                let gain = self.build.add(&format!("{name}.gain"), Fill { shape, value }, &[])?;
                let norm = NormOp { kind: NormKind::Rms, epsilon: 1e-24 / width as f32, parts: 1 };
                Ok(self.build.add(&format!("{name}.unit"), norm, &[x, gain])?)
            }
        }
    }

    /// Scores of the rows that are asked about, or nothing where the rows are the result.
    pub fn head(&mut self, side: Side, rows: Value, pooled: Option<Value>) -> Result<Option<Value>, Error> {
        let Some(given) = self.last(side) else { return Ok(None) };
        let formula = self.formula;
        let at = At { side, stack: &given.stack, weights: "head".to_owned() };
        let width = given.stack.width;
        self.scoped("head", |lower| {
            Ok(Some(match &formula.head {
                Head::Rows => return Ok(None),
                Head::Words { .. } | Head::Adaptive { .. } => {
                    let Input::Tokens(tokens) = &given.input else { return Ok(None) };
                    let picked = lower.build.add("picked", Pick { side }, &[rows])?;
                    lower.words(&at, picked, tokens)?
                }
                Head::Classes { count, bias } => {
                    let Some(pooled) = pooled else { return Ok(None) };
                    lower.scores(pooled, None, (*count, *bias))?
                }
                Head::Tags { count, dense } => {
                    let picked = lower.build.add("picked", Pick { side }, &[rows])?;
                    let x = lower.dense(&at, dense.as_ref(), picked, width)?;
                    lower.scores(x, None, (*count, true))?
                }
                Head::Spans => {
                    let picked = lower.build.add("picked", Pick { side }, &[rows])?;
                    lower.scores(picked, None, (2, true))?
                }
            }))
        })
    }

    /// A score for every word. The table that a tied head uses may be narrower than the stack.
    fn words(&mut self, at: &At<'f>, x: Value, tokens: &'f Tokens) -> Result<Value, Error> {
        let stack_width = at.stack.width;
        match &self.formula.head {
            Head::Words { tied, bias, dense, scale } => {
                let mut x = self.dense(at, dense.as_ref(), x, tokens.width.unwrap_or(stack_width))?;
                if let Some(scale) = scale {
                    x = self.build.add("scaled", Scale::all(*scale), &[x])?;
                }
                let table = if *tied { Some(self.table(at.side, stack_width, tokens)?) } else { None };
                self.scores(x, table, (tokens.vocabulary, *bias))
            }
            Head::Adaptive { clusters, tied } => self.adaptive_scores(at, x, tokens, (clusters, *tied)),
            Head::Rows | Head::Classes { .. } | Head::Tags { .. } | Head::Spans => Ok(x),
        }
    }

    /// `norm(act(x W + b))` to `width` numbers, or `x` where there is none.
    fn dense(&mut self, at: &At<'f>, dense: Option<&Dense>, x: Value, width: usize) -> Result<Value, Error> {
        let Some(dense) = dense else { return Ok(x) };
        let mut x = self.linear(at, "dense", x, Out { width, bias: dense.bias })?;
        if let Some(act) = dense.act {
            x = self.build.add("activated", Activate { act: activation(act) }, &[x])?;
        }
        self.norm(at, ("norm", 1), x, dense.norm.as_ref())
    }

    /// `x Wᵀ (+ b)`, with `head.weight` or another table as W.
    fn scores(
        &mut self,
        x: Value,
        table: Option<Value>,
        (count, bias): (usize, bool),
    ) -> Result<Value, Error> {
        let weight = match table {
            Some(table) => table,
            None => self.parameter("head.weight", Shape::fixed(count, self.build.shape(x).width))?,
        };
        let mut inputs = vec![x, weight];
        if bias {
            inputs.push(self.parameter("head.bias", Shape::fixed(1, count))?);
        }
        Ok(self.build.add_at("logits", Linear, &inputs)?)
    }

    /// The logarithms of all words' probabilities. Cluster i's scores are `x P Wᵀ + b`, and the first one's projection also serves
    /// the scores of the other clusters.
    fn adaptive_scores(
        &mut self,
        at: &At<'f>,
        x: Value,
        tokens: &Tokens,
        (clusters, tied): (&Clusters, bool),
    ) -> Result<Value, Error> {
        let list = clusters.list(tokens.vocabulary, at.stack.width);
        let mut inputs = Vec::new();
        for (index, Cluster { from, to, width }) in list.iter().enumerate() {
            let name = index.to_string();
            let path = format!("head.{name}");
            let lowered = if clusters.projects(at.stack.width) {
                let shape = Shape::fixed(*width, at.stack.width);
                let down = self.parameter(&format!("{path}.down.weight"), shape)?;
                self.build.add(&format!("{name}.down"), Linear, &[x, down])? // [picked, width]
            } else {
                x
            };
            let owner =
                if tied { format!("{}.embed.{name}.tokens", at.side) } else { format!("{path}.weight") };
            let weight = self.parameter(&owner, Shape::fixed(to - from, *width))?;
            let bias = self.parameter(&format!("{path}.bias"), Shape::fixed(1, to - from))?;
            inputs.push(self.build.add(&name, Linear, &[lowered, weight, bias])?); // [picked, words of the cluster]
            if index == 0 && list.len() > 1 {
                let weight = self.parameter("head.clusters.weight", Shape::fixed(list.len() - 1, *width))?;
                let bias = self.parameter("head.clusters.bias", Shape::fixed(1, list.len() - 1))?;
                inputs.push(self.build.add("clusters", Linear, &[lowered, weight, bias])?);
            }
        }
        Ok(self.build.add_at("logits", Adaptive, &inputs)?) // [picked, vocabulary]
    }
}
