//! How rows come in: token ids or patches, then positions, then a norm.

use glassformer_formula::{Input, InputScale, Lead, Patches, Table, Tokens};
use glassformer_graph::ops::{Add, Ids, Lead as LeadOp, Lookup, Scale};
use glassformer_graph::{Rows, Shape, Side, Value};

use crate::Error;
use crate::lower::{At, Lower, Out};

impl<'f> Lower<'f> {
    /// The rows that enter the stack.
    pub fn input(&mut self, at: &At<'f>, input: &'f Input) -> Result<Value, Error> {
        let at = at.below("embed");
        self.scoped(&at.weights.clone(), |lower| {
            let (x, norm) = match input {
                Input::Tokens(tokens) => (lower.tokens(&at, tokens)?, &tokens.norm),
                Input::Patches(patches) => (lower.patches(&at, patches)?, &patches.norm),
            };
            let x = lower.add_position(&at, x)?;
            let x = lower.norm(&at, ("norm", 1), x, norm.as_ref())?;
            lower.dropout(x)
        })
    }

    fn tokens(&mut self, at: &At<'f>, tokens: &Tokens) -> Result<Value, Error> {
        let table = self.table(at.side, at.stack.width, tokens)?;
        let mut x = self.build.add("words", Lookup { ids: Ids::Tokens(at.side) }, &[table])?; // [tokens, table width]
        if tokens.width.is_some() {
            x = self.linear(at, "project", x, Out { width: at.stack.width, bias: true })?;
        }
        if tokens.scale == InputScale::RootWidth {
            x = self.build.add("scaled", Scale::all((at.stack.width as f32).sqrt()), &[x])?;
        }
        if let Some(types) = tokens.types {
            let table =
                self.parameter(&format!("{}.types", at.weights), Shape::fixed(types, at.stack.width))?;
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
