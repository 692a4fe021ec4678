//! What is read off the last stack.

use glassformer_formula::{Head, Input, Pool as PoolBy};
use glassformer_graph::ops::{Linear, Pick, Pool, Pooling};
use glassformer_graph::{Shape, Side, Value};

use crate::Error;
use crate::lower::{At, Lower};

impl<'f> Lower<'f> {
    /// Scores of the rows that are asked about, or nothing where the rows are the result.
    pub fn head(&mut self, side: Side, rows: Value) -> Result<Option<Value>, Error> {
        let given = match side {
            Side::Source => self.formula.source.as_ref(),
            Side::Target => self.formula.target.as_ref(),
        };
        let Some(given) = given else { return Ok(None) };
        let at = At { side, stack: &given.stack, weights: "head".to_owned() };
        let logits = match self.formula.head {
            Head::Rows => return Ok(None),
            Head::Words { tied, bias } => {
                let picked = self.pick(side, rows)?;
                let Input::Tokens(tokens) = &given.input else { return Ok(None) };
                let vocabulary = tokens.vocabulary;
                let weight = if tied {
                    self.table(side, given.stack.width, tokens)?
                } else {
                    self.parameter("head.weight", Shape::fixed(vocabulary, given.stack.width))?
                };
                let mut inputs = vec![picked, weight];
                if bias {
                    inputs.push(self.parameter("head.bias", Shape::fixed(1, vocabulary))?);
                }
                self.build.add("logits", Linear, &inputs)? // [picked, vocabulary]
            }
            Head::Classes { count, pool } => {
                let pooling = match pool {
                    PoolBy::First => Pooling::First,
                    PoolBy::Last => Pooling::Last,
                    PoolBy::Mean => Pooling::Mean,
                };
                let pooled = self.build.add("pooled", Pool { side, pooling }, &[rows])?; // [sequences, width]
                self.scores(&at, pooled, count)?
            }
            Head::Tags { count } => {
                let picked = self.pick(side, rows)?;
                self.scores(&at, picked, count)?
            }
            Head::Spans => {
                let picked = self.pick(side, rows)?;
                self.scores(&at, picked, 2)?
            }
        };
        Ok(Some(logits))
    }

    fn pick(&mut self, side: Side, rows: Value) -> Result<Value, Error> {
        Ok(self.build.add("picked", Pick { side }, &[rows])?)
    }

    fn scores(&mut self, at: &At<'f>, x: Value, count: usize) -> Result<Value, Error> {
        let width = self.build.shape(x).width;
        let weight = self.parameter(&format!("{}.weight", at.weights), Shape::fixed(count, width))?;
        let bias = self.parameter(&format!("{}.bias", at.weights), Shape::fixed(1, count))?;
        Ok(self.build.add("logits", Linear, &[x, weight, bias])?)
    }
}
