//! Rows of a table, chosen by ids: embeddings ("gather").

use super::{Counting, Gradient, LookupGrad, Operation, Site, arity};
use crate::{Array, At, Batch, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// What chooses the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// The token.
    Tokens(Side),
    /// The token, counted from `from`; tokens outside `from..to` get a row of zeros (adaptive input).
    Cluster {
        /// Whose.
        side: Side,
        /// The first token of the cluster.
        from: usize,
        /// The token after the last.
        to: usize,
    },
    /// The token's type.
    Types(Side),
    /// The token's position, counted from `offset`; a token without one has the row before that.
    Positions {
        /// Whose.
        side: Side,
        /// The table's row of position 0.
        offset: usize,
        /// Which tokens are counted.
        counting: Counting,
    },
}

impl Ids {
    /// Whose rows are looked up.
    pub fn side(self) -> Side {
        match self {
            Self::Tokens(side)
            | Self::Cluster { side, .. }
            | Self::Types(side)
            | Self::Positions { side, .. } => side,
        }
    }

    /// The table's row for packed row `row`, if it has one there.
    pub fn id(self, batch: &Batch<'_>, row: usize) -> Option<usize> {
        match self {
            Self::Tokens(side) => Some(batch.side(side).tokens[row] as usize),
            Self::Cluster { side, from, to } => {
                let token = batch.side(side).tokens[row] as usize;
                (from..to).contains(&token).then(|| token - from)
            }
            Self::Types(side) => Some(batch.side(side).types.get(row).map_or(0, |&t| t as usize)),
            Self::Positions { side, offset, counting } => {
                let position = counting.position(batch, side, row);
                Some(position.map_or(offset.saturating_sub(1), |position| offset + position))
            }
        }
    }

    /// The first row whose id is not below `bound`, with its id.
    pub fn beyond(self, batch: &Batch<'_>, bound: usize) -> Option<(usize, usize)> {
        let packed = batch.side(self.side());
        let listed =
            |ids: &[u32]| ids.iter().position(|&id| id as usize >= bound).map(|row| (row, ids[row] as usize));
        match self {
            Self::Tokens(_) => listed(&packed.tokens),
            Self::Cluster { .. } => None,
            Self::Types(_) => listed(&packed.types),
            Self::Positions { offset, counting, .. } => {
                let beyond = counting.beyond(packed, bound.saturating_sub(offset));
                beyond.map(|(row, position)| (row, offset + position))
            }
        }
    }
}

/// `y[row] = table[id(row)]`. Input: the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// What chooses the row.
    pub ids: Ids,
}

impl Operation for Lookup {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        match inputs[0].rows {
            Rows::Fixed(_) => Ok(vec![Shape::new(Rows::Tokens(self.ids.side()), inputs[0].width)]),
            _ => Err(format!("a table has a fixed number of rows, not {}", inputs[0])),
        }
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let table = build.shape(at.inputs[0]);
        let grad = build.add("table", LookupGrad { ids: self.ids, table }, &[at.dy()])?;
        Ok(Gradient::Inputs(vec![Some(grad)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let table = inputs[0];
        let rows = world.batch.side(self.ids.side()).rows();
        vec![Array::tabulate(rows, table.width, |i, j| {
            self.ids.id(world.batch, i).map_or(0.0, |id| table.at(id, j))
        })]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        limits.table(self.ids, at.shape(0).rows, at.name(0));
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let table = Shape::fixed(9, 5);
        [
            Ids::Tokens(Side::Source),
            Ids::Tokens(Side::Target),
            Ids::Types(Side::Source),
            Ids::Cluster { side: Side::Target, from: 2, to: 4 },
            Ids::Positions { side: Side::Target, offset: 2, counting: Counting::Every },
            Ids::Positions { side: Side::Target, offset: 2, counting: Counting::But(1) },
        ]
        .map(|ids| Case::new(Self { ids }, &[table]))
        .into()
    }
}
