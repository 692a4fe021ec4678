//! A learned row in the first place of every sequence: ViT's class token.

use super::{Gradient, LeadGrad, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// The first row of each sequence is r, the others are x. Inputs: x `[tokens, width]`, r `[1, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// Whose rows.
    pub side: Side,
}

impl Operation for Lead {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("x", inputs[0], Shape::new(Rows::Tokens(self.side), inputs[0].width))?;
        same("r", inputs[1], Shape::fixed(1, inputs[0].width))?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let grads = build.add_all("input", LeadGrad { side: self.side }, &[at.dy()])?;
        Ok(Gradient::Inputs(grads.into_iter().map(Some).collect()))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let mut y = inputs[0].clone();
        for span in &world.batch.side(self.side).spans {
            y.row_mut(span.start).copy_from_slice(inputs[1].row(0));
        }
        vec![y]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 9);
        vec![Case::new(Self { side: Side::Source }, &[x, Shape::fixed(1, 9)])]
    }
}
