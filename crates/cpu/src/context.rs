//! What a kernel sees of a run.

use glassformer_graph::ops::{Activation, Attend, Which};
use glassformer_graph::{Batch, Pages, Span};

use crate::isa::Isa;
use crate::lanes::activation::ActivationKind;
use crate::lowp::Dot;
use crate::pages::PagesAt;

/// Rows of `f32` somewhere in memory: an input or an output of a step.
///
/// Workers of one step share it and write disjoint parts of it, which no Rust reference can say; hence the pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// The first number.
    pub data: *mut f32,
    /// How many rows there are in this run.
    pub rows: usize,
    /// Numbers per row.
    pub width: usize,
}

// SAFETY: a Block is an address with sizes; who may read or write there is decided by the planner (a step's outputs
// overlap none of its inputs) and by each kernel (workers write disjoint parts).
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Row `i`.
    ///
    /// # Safety
    /// Nobody writes to that row while the slice lives.
    pub unsafe fn row<'a>(self, i: usize) -> &'a [f32] {
        debug_assert!(i < self.rows);
        // SAFETY: the planner gives every block rows × width floats.
        unsafe { std::slice::from_raw_parts(self.data.add(i * self.width), self.width) }
    }

    /// Row `i`, to write.
    ///
    /// # Safety
    /// Nobody else reads or writes that row while the slice lives.
    pub unsafe fn row_mut<'a>(self, i: usize) -> &'a mut [f32] {
        debug_assert!(i < self.rows);
        // SAFETY: the planner gives every block rows × width floats.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(i * self.width), self.width) }
    }
}

/// What all steps of a run share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    /// The instruction set that kernels use.
    pub isa: Isa,
    /// The instructions for products of low-precision numbers.
    pub dot: Dot,
    /// Whether attention may round keys and values to `bf16`.
    pub bf16: bool,
    /// Whether it multiplies them on tiles then.
    pub tiles: bool,
    /// Whether activations need to be no more exact than numbers of eight bits.
    pub approximate: bool,
    /// The batch.
    pub batch: &'a Batch<'a>,
    /// The target's stored keys and values.
    pub cache: PagesAt<'a>,
    /// The source's.
    pub crossing: PagesAt<'a>,
}

impl<'a> Context<'a> {
    /// The pages of that kind.
    pub fn pages(&self, which: Which) -> PagesAt<'a> {
        match which {
            Which::Cache => self.cache,
            Which::Crossing => self.crossing,
        }
    }

    /// The activation, as exact as it has to be.
    pub fn activation(&self, act: Activation) -> ActivationKind {
        if self.approximate { ActivationKind::approximate(act) } else { ActivationKind::exact(act) }
    }

    /// How many pairs of a query and a key `attend` has, whether they see each other or not.
    pub fn pairs(&self, attend: &Attend) -> usize {
        pairs(attend, self.batch, self.crossing.book)
    }
}

/// How many pairs of a query and a key `attend` has in this batch: the rows of a tap on it.
pub(crate) fn pairs(attend: &Attend, batch: &Batch<'_>, crossing: &Pages) -> usize {
    let spans = batch.side(attend.side).spans.iter().enumerate();
    let of_span = |(s, span): (usize, &Span)| {
        let keys = attend.keys_with(batch, |table| crossing.len(table), s);
        span.len * (keys.end - keys.first)
    };
    spans.map(of_span).sum()
}
