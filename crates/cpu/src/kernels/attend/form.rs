//! How keys and values are held.

use glassformer_graph::ops::{Attend, Keys, Reach, Which};
use glassformer_graph::{Dtype, Rows};

use crate::context::Context;
use crate::lanes::LANES;

/// Some rows of one head: queries, keys or values.
#[derive(Clone, Copy)]
pub(super) struct HeadRows {
    /// The first.
    pub start: *const f32,
    /// From a row to the next.
    pub stride: usize,
    /// How many there are.
    pub count: usize,
    /// The numbers of each.
    pub size: usize,
}

/// How keys and values lie in pages. Both who stores them and who reads them ask this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Keys transposed, `[size, 16]`, and values as rows, in `f32`.
    F32,
    /// In `bf16`, in pairs, as `bf16` says: half as much to read.
    Bf16,
    /// In `bf16`, as `tiles` says: multiplied as they are.
    Tiles,
}

impl Form {
    /// That in which `op` reads its keys.
    pub fn of(run: &Context<'_>, op: &Attend) -> Self {
        match op.keys {
            Keys::Rows(_) => Self::new(run, true, op.size),
            Keys::Pages(which, _) => Self::stored(run, which, op.size),
        }
    }

    /// That of pages for heads of this size. Only where they are laid out for `bf16` does everybody keep `bf16` in them.
    pub fn stored(run: &Context<'_>, which: Which, size: usize) -> Self {
        Self::new(run, run.pages(which).dtype() == Dtype::Bf16, size)
    }

    fn new(run: &Context<'_>, is_bf16: bool, size: usize) -> Self {
        if !run.bf16 || !is_bf16 {
            Self::F32
        } else if run.tiles && size >= LANES {
            // Smaller heads would need more room in a page than they have.
            Self::Tiles
        } else {
            Self::Bf16
        }
    }
}

/// Whether others may look at the keys and values of `op` when these are stored, and must find the same numbers then. Only where a side
/// looks at all of itself nobody stores them.
pub(super) fn may_be_stored(op: &Attend) -> bool {
    op.keys != Keys::Rows(Rows::Tokens(op.side)) || op.reach != Reach::Both
}
