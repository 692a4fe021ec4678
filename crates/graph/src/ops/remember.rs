//! Rows that are kept for the next segment of a text (Transformer-XL, Dai et al. 2019).

use super::{Gradient, NoGradient, Operation, Site, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// For each sequence the last of its remembered rows and its new ones. Inputs: `[memory, width]` and `[tokens, width]`. Output:
/// [`Rows::Remembered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remember {
    /// Whose rows.
    pub side: Side,
    /// The most that is remembered of a sequence.
    pub most: usize,
}

impl Operation for Remember {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        super::same("the memory", inputs[0], Shape::new(Rows::Memory(self.side), inputs[1].width))?;
        super::same("the rows", inputs[1], Shape::new(Rows::Tokens(self.side), inputs[1].width))?;
        Ok(vec![Shape::new(Rows::Remembered(self.side, self.most), inputs[1].width)])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::Remembers))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (memory, new) = (inputs[0], inputs[1]);
        let packed = world.batch.side(self.side);
        let each = packed.remembered(self.most);
        let mut data = Vec::new();
        for span in &packed.spans {
            let rows = (0..span.memory).map(|i| memory.row(span.memory_start + i));
            let rows: Vec<&[f64]> = rows.chain((0..span.len).map(|i| new.row(span.start + i))).collect();
            data.extend(rows[rows.len() - each..].iter().copied().flatten());
        }
        vec![Array { rows: packed.spans.len() * each, width: new.width, data }]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let side = Side::Target;
        let inputs = [Shape::new(Rows::Memory(side), 5), Shape::new(Rows::Tokens(side), 5)];
        [1, 2, 100].map(|most| Case::new(Self { side, most }, &inputs)).to_vec()
    }
}
