//! How keys and values lie in pages.

use super::tiles;
use crate::context::Context;

/// How keys and values lie in pages. Both who stores them and who reads them ask this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Keys turned, `[size, 16]`, and values as rows, in `f32`.
    Wide,
    /// In `bf16`, two in a word, as `words` says: half as much to read.
    Words,
    /// In `bf16`, as `tiles` says: multiplied as they are.
    Tiles,
}

impl Form {
    /// That of heads of this size.
    pub fn of(run: &Context<'_>, size: usize) -> Self {
        if run.tiles && tiles::fit(size) {
            Self::Tiles
        } else if run.narrow {
            Self::Words
        } else {
            Self::Wide
        }
    }
}
