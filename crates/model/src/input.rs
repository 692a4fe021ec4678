//! How rows come in: token ids or patches, then positions, then a norm.

use glassformer_formula::{Cluster, Clusters, Input, InputScale, Lead, Patches, Table, Tokens};
use glassformer_graph::ops::{Add, Ids, Lead as LeadOp, Linear, Lookup, Scale};
use glassformer_graph::{Rows, Shape, Side, Value};

use crate::Error;
use crate::lower::{At, Lower, Out};

impl<'f> Lower<'f> {
    /// The rows that enter the stack.
    pub fn input(&mut self, at: &At<'f>, input: &'f Input) -> Result<Value, Error> {
        let width = match input {
            Input::Tokens(tokens) => tokens.width,
            Input::Patches(_) => None,
        };
        let at = at.below("embed");
        self.scoped(&at.weights.clone(), |lower| {
            let (x, norm) = match input {
                Input::Tokens(tokens) => (lower.tokens(&at, tokens)?, &tokens.norm),
                Input::Patches(patches) => (lower.patches(&at, patches)?, &patches.norm),
            };
            let x = lower.add_position(&at, x)?;
            let x = lower.norm(&at, ("norm", 1), x, norm.as_ref())?;
            let x = lower.dropout(x)?;
            match width {
                Some(_) => lower.linear(&at, "project", x, Out { width: at.stack.width, bias: true }),
                None => Ok(x),
            }
        })
    }

    fn tokens(&mut self, at: &At<'f>, tokens: &'f Tokens) -> Result<Value, Error> {
        let width = tokens.width.unwrap_or(at.stack.width);
        let mut x = match &tokens.clusters {
            None => {
                let table = self.table(at.side, at.stack.width, tokens)?;
                self.build.add("words", Lookup { ids: Ids::Tokens(at.side) }, &[table])? // [tokens, width]
            }
            Some(clusters) => self.clustered(at, tokens, clusters)?,
        };
        if tokens.scale == InputScale::RootWidth {
            x = self.build.add("scaled", Scale::all((at.stack.width as f32).sqrt()), &[x])?;
        }
        if let Some(types) = tokens.types {
            let table = self.parameter(&format!("{}.types", at.weights), Shape::fixed(types, width))?;
            let types = self.build.add("typed", Lookup { ids: Ids::Types(at.side) }, &[table])?;
            x = self.build.add("sum", Add, &[x, types])?;
        }
        Ok(x)
    }

    /// The embedding table of `side`, which may be the source's.
    pub fn table(&mut self, side: Side, width: usize, tokens: &Tokens) -> Result<Value, Error> {
        let owner = match tokens.table {
            Table::Own => side,
            Table::Source => Side::Source,
        };
        let shape = Shape::fixed(tokens.vocabulary, tokens.width.unwrap_or(width));
        self.parameter(&format!("{owner}.embed.tokens"), shape)
    }

    /// The sum over clusters of `table[id − from] Pᵀ`; an id is in exactly one of them, and the others give zeros.
    fn clustered(&mut self, at: &At<'f>, tokens: &Tokens, clusters: &Clusters) -> Result<Value, Error> {
        let mut sum = None;
        for (index, cluster) in clusters.list(tokens.vocabulary, at.stack.width).into_iter().enumerate() {
            let Cluster { from, to, width } = cluster;
            let path = format!("{}.{index}", at.weights);
            let table = self.parameter(&format!("{path}.tokens"), Shape::fixed(to - from, width))?;
            let ids = Ids::Cluster { side: at.side, from, to };
            let x = self.build.add(&format!("words{index}"), Lookup { ids }, &[table])?; // [tokens, width]
            let x = if clusters.projects(at.stack.width) {
                let shape = Shape::fixed(at.stack.width, width);
                let weight = self.parameter(&format!("{path}.up.weight"), shape)?;
                self.build.add(&format!("up{index}"), Linear, &[x, weight])?
            } else {
                x
            };
            sum = Some(match sum {
                None => x,
                Some(sum) => self.build.add("clusters", Add, &[sum, x])?,
            });
        }
        sum.ok_or(Error::Purpose { purpose: "adaptive input", needs: "vocabulary" })
    }

    fn patches(&mut self, at: &At<'f>, patches: &Patches) -> Result<Value, Error> {
        let numbers = patches.size * patches.size * patches.channels;
        let given = Shape::new(Rows::Tokens(at.side), numbers);
        let x = self.build.input(&format!("{}.patches", at.side), given)?; // [tokens, size · size · channels]
        let x = self.linear(at, "project", x, Out { width: at.stack.width, bias: true })?;
        match patches.lead {
            Lead::None => Ok(x),
            Lead::Class => {
                let row =
                    self.parameter(&format!("{}.class", at.weights), Shape::fixed(1, at.stack.width))?;
                Ok(self.build.add("led", LeadOp { side: at.side }, &[x, row])?)
            }
        }
    }
}
