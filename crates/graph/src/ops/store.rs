//! Keys and values written into pages, for this run and later ones ("KV cache").

use super::{Gradient, NoGradient, Operation, Site, arity};
use crate::{Array, Builder, Case, Error, PAGE, Pages, Rows, Shape, Side, Slot, State, World};

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

    /// Those pages of `state`, to change.
    pub fn pages_mut(self, state: &mut State) -> &mut Pages {
        match self {
            Self::Cache => &mut state.cache,
            Self::Crossing => &mut state.crossing,
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
        let pages = self.pages.pages_mut(world.state);
        let spans = &world.batch.side(self.side).spans;
        // All of them before the first new row, which may go to the page that one of them is in.
        for (span, head) in spans.iter().flat_map(|span| (0..heads).map(move |head| (span, head))) {
            let Some(keys) = pages.keys_before(span.table, self.slot, head) else { continue };
            let to = pages.keys_at(span.table, span.past, self.slot, head);
            for at in [0, pages.keys_to_values(self.slot)] {
                pages.data_mut().copy_within(keys + at..keys + at + size * PAGE, to + at);
            }
        }
        for span in spans {
            for (i, head) in (0..span.len).flat_map(|i| (0..heads).map(move |head| (i, head))) {
                let row = span.past + i;
                let keys = pages.keys_at(span.table, row, self.slot, head);
                let values = pages.values_at(span.table, row, self.slot, head);
                let data = pages.data_mut();
                for d in 0..size {
                    data[keys + d * PAGE + row % PAGE] = k.at(span.start + i, head * size + d) as f32;
                    data[values + (row % PAGE) * size + d] = v.at(span.start + i, head * size + d) as f32;
                }
            }
        }
        Vec::new()
    }

    /// None by itself: what is stored shows in the attention that reads it, which the model's tests compare.
    fn cases() -> Vec<Case> {
        Vec::new()
    }
}
