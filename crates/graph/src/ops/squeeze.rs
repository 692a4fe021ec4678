//! The rows of a sequence squeezed into few (Linformer, Wang et al. 2020).

use super::{Gradient, Operation, Site, SqueezeGrad, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y[s, r] = Σₜ E[r, t] x[s, t]` over the rows t of sequence s. Inputs: x `[tokens, width]`, E `[rank, longest]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Squeeze {
    /// Whose rows.
    pub side: Side,
}

impl Operation for Squeeze {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        match (inputs[0].rows, inputs[1].rows) {
            (Rows::Tokens(side), Rows::Fixed(rank)) if side == self.side => {
                Ok(vec![Shape::new(Rows::Low(side, rank), inputs[0].width)])
            }
            _ => Err(format!("x {} and E {} are not tokens and a matrix", inputs[0], inputs[1])),
        }
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let inputs = [at.inputs[0], at.inputs[1], at.dy()];
        let grads = build.add_all("input", SqueezeGrad { side: self.side }, &inputs)?;
        Ok(Gradient::Inputs(grads.into_iter().map(Some).collect()))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (x, e) = (inputs[0], inputs[1]);
        let spans = &world.batch.side(self.side).spans;
        vec![Array::tabulate(spans.len() * e.rows, x.width, |row, j| {
            let (span, r) = (spans[row / e.rows], row % e.rows);
            (0..span.len).map(|t| e.at(r, t) * x.at(span.start + t, j)).sum()
        })]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        limits.longest(self.side, at.shape(1).width, at.name(1));
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        vec![Case::new(Self { side: Side::Source }, &[x, Shape::fixed(3, 8)])]
    }
}
