//! The gradient of a squeeze.

use super::{Gradient, NoGradient, Operation, Site, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dx[s, t] = Σᵣ E[r, t] dy[s, r]`, `dE[r, t] = Σₛ dy[s, r] · x[s, t]`. Inputs: x, E, dy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqueezeGrad {
    /// Whose rows.
    pub side: Side,
}

impl Operation for SqueezeGrad {
    const OUTPUTS: &'static [&'static str] = &["input", "projection"];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 3)?;
        let Rows::Fixed(rank) = inputs[1].rows else { return Err(format!("E is {}", inputs[1])) };
        super::same("dy", inputs[2], Shape::new(Rows::Low(self.side, rank), inputs[0].width))?;
        Ok(vec![inputs[0], inputs[1]])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (x, e, dy) = (inputs[0], inputs[1], inputs[2]);
        let (mut dx, mut de) = (Array::zeros(x.rows, x.width), Array::zeros(e.rows, e.width));
        for (s, span) in world.batch.side(self.side).spans.iter().enumerate() {
            for (t, r) in (0..span.len).flat_map(|t| (0..e.rows).map(move |r| (t, r))) {
                let (row, dy) = (span.start + t, dy.row(s * e.rows + r));
                for (j, d) in dy.iter().enumerate() {
                    dx.row_mut(row)[j] += e.at(r, t) * d;
                    de.row_mut(r)[t] += x.at(row, j) * d;
                }
            }
        }
        vec![dx, de]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        limits.longest(self.side, at.shape(1).width, at.name(1));
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        let dy = Shape::new(Rows::Low(Side::Source, 3), 19);
        vec![Case::new(Self { side: Side::Source }, &[x, Shape::fixed(3, 8), dy])]
    }
}
