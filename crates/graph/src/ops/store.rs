//! Keys and values written into pages, for this run and later ones ("KV cache").

use super::{Gradient, NoGradient, Operation, Site, arity};
use crate::reference::{Part, Place};
use crate::{
    Array, At, Builder, Case, Error, Limits, PAGE, Pages, Rows, Shape, Side, Slot, State, Tally, World,
};

/// Which pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The target's own keys and values.
    Cache,
    /// The source's, for cross-attention.
    Crossing,
}

impl Which {
    /// Those pages of `state`.
    pub fn pages(self, state: &State) -> &Pages {
        match self {
            Self::Cache => &state.cache,
            Self::Crossing => &state.crossing,
        }
    }
}

/// Writes row i of each sequence at its place `past + i`. Inputs: keys and values `[tokens, heads · size]`. No output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Whose rows.
    pub side: Side,
    /// Into which pages.
    pub pages: Which,
    /// Into which slot of a page.
    pub slot: usize,
    /// The slot's heads and their size.
    pub heads: Slot,
}

impl Operation for Store {
    const OUTPUTS: &'static [&'static str] = &[];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        let expected = Shape::new(Rows::Tokens(self.side), self.heads.heads * self.heads.size);
        super::same("keys", inputs[0], expected)?;
        super::same("values", inputs[1], expected)?;
        Ok(Vec::new())
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::Stores))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (k, v) = (inputs[0], inputs[1]);
        let Slot { heads, size } = self.heads;
        let spans = &world.batch.side(self.side).spans;
        let stored = match self.pages {
            Which::Cache => &mut world.cache,
            Which::Crossing => &mut world.crossing,
        };
        let place = |page, row, head, part| Place { page, row, slot: self.slot, head, part };
        let both = |head| [(head, Part::Key), (head, Part::Value)];
        // What a fork takes over comes before the first new row, which may go to a page that is taken over from.
        for span in spans {
            let Some(before) = stored.pages.page_before(span.table) else { continue };
            let page = stored.pages.page(span.table, span.past);
            for (row, (head, part)) in
                (0..PAGE).flat_map(|row| (0..heads).flat_map(both).map(move |of| (row, of)))
            {
                let numbers = stored.at(place(before, row, head, part)).to_vec();
                stored.at_mut(place(page, row, head, part)).copy_from_slice(&numbers);
            }
        }
        for span in spans {
            for (i, (head, part)) in
                (0..span.len).flat_map(|i| (0..heads).flat_map(both).map(move |of| (i, of)))
            {
                let row = span.past + i;
                let given = if part == Part::Key { k } else { v };
                let page = stored.pages.page(span.table, row);
                let numbers = stored.at_mut(place(page, row % PAGE, head, part));
                for (d, number) in numbers.iter_mut().enumerate() {
                    *number = given.at(span.start + i, head * size + d) as f32;
                }
            }
        }
        Vec::new()
    }

    /// None by itself: what is stored shows in the attention that reads it, which the model's tests compare.
    fn limits(&self, _: &At<'_>, limits: &mut Limits) {
        limits.slot(self.pages, self.slot, self.heads);
        limits.room(self.side, self.pages);
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        Vec::new()
    }
}
