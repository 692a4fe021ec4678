//! Remembered rows of earlier segments put before the present ones (Transformer-XL).

use super::{Gradient, Operation, RecallGrad, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// For each sequence its memory, then its rows. Inputs: memory `[memory, width]`, x `[tokens, width]`.
///
/// No gradient flows into the memory: that is the paper's stop-gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Whose rows.
    pub side: Side,
}

impl Operation for Recall {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("memory", inputs[0], Shape::new(Rows::Memory(self.side), inputs[1].width))?;
        same("x", inputs[1], Shape::new(Rows::Tokens(self.side), inputs[1].width))?;
        Ok(vec![Shape::new(Rows::Recalled(self.side), inputs[1].width)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let dx = build.add("input", RecallGrad { side: self.side }, &[at.dy()])?;
        Ok(Gradient::Inputs(vec![None, Some(dx)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (memory, x) = (inputs[0], inputs[1]);
        let mut y = Array { rows: memory.rows + x.rows, width: x.width, data: Vec::new() };
        for span in &world.batch.side(self.side).spans {
            let range = |start, len| start * x.width..(start + len) * x.width;
            y.data.extend(&memory.data[range(span.memory_start, span.memory)]);
            y.data.extend(&x.data[range(span.start, span.len)]);
        }
        vec![y]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let of = |rows| Shape::new(rows, 9);
        vec![Case::new(
            Self { side: Side::Target },
            &[of(Rows::Memory(Side::Target)), of(Rows::Tokens(Side::Target))],
        )]
    }
}
