//! Attention: tiles of sixty-four keys and a online softmax, so that memory grows with length and not with its square
//! (Dao et al. 2022, on a CPU).
//!
//! # The numbers
//!
//! The result of a query has the same bits whatever else is in the batch, however many workers there are, whether its
//! row came alone or with others, and whether keys lie in rows or in pages. For this the arithmetic is fixed:
//!
//! 1. Keys come in tiles of [`TILE`](mask::TILE), counted from key 0 of their sequence, in order.
//! 2. A score is one chain of multiply-adds over the head's numbers, times the scale, plus what the distance adds.
//! 3. Exponentials are relative to a level, which a row's own scores raise (see `online_softmax`). They are added in sixteen
//!    lanes, key j in lane j mod 16, and in the end by [`Lanes::sum`](crate::lanes::Lanes::sum).
//! 4. Each number of a mixture of values is one chain over the keys that the query sees; what it does not see is skipped,
//!    and a tile of which it sees nothing changes nothing.
//!
//! What remains free is how many queries share a tile while it is in cache, and that decides the speed.
//!
//! In `bf16` products are so fast that the rest counts. There the level is raised for a *stretch* of four tiles, and a block of sixteen queries
//! meets it as a whole. All else holds, with products as `tiles` says.
//!
//! # The files
//!
//! `mask` tells what a query sees; `tile` brings keys and values; `product` multiplies; `relative` adds what distance
//! adds; `score` puts these together, for all of `forward`, `grad` and `show`; `walk` cuts the work into parts and leads
//! a part over its tiles; `online_softmax` and `softmax_grad` are the softmax and its gradient; `store` writes pages, in a `form` of three;
//! where the plan allows `bf16`, `tiles` multiplies it on AMX, and `bf16` keeps pages of it on other machines.

mod bf16;
mod form;
mod forward;
mod grad;
mod mask;
mod online_softmax;
mod product;
mod relative;
mod score;
mod show;
mod softmax_grad;
mod store;
mod stretch;
mod tile;
mod tiles;
mod walk;

#[cfg(test)]
mod tests;

use glassformer_graph::ops::{Attend, AttendGrad, AttendShow, Keys, Store};
use glassformer_graph::{Capacity, Rows, Shape, Side};

use super::{Access, CpuOperation, Needs};

use tile::Attention;

/// Whether the gradient of `op` can be computed in `bf16`, on AMX.
pub(crate) fn has_bf16_grad(op: &AttendGrad) -> bool {
    grad::is_bf16(&op.attend)
}

/// [`Attend`]: inputs and outputs as it says; queries, keys and values may be `bf16`, and queries come times the scale then.
///
/// # Safety
/// Every worker of the team calls this with the same arguments and a scratch of its own; a barrier follows, or nobody else
/// has these sequences. Inputs and
/// outputs have the shapes that the operation says, overlap nowhere, and nobody else touches them meanwhile. The batch is
/// one that fits the graph; `run.isa` is available.
pub(crate) unsafe fn attend(op: &Attend, is_bf16: bool, call: super::Call<'_>, scratch: &mut [f32]) {
    let super::Call { inputs, outputs, run, worker, .. } = call;
    let all = (0, run.batch.side(op.side).spans.len());
    let (first, end) = call.sequences.unwrap_or(all);
    // SAFETY: the caller's promise.
    unsafe { forward::attend(&Attention { op, inputs, is_bf16, run }, first..end, outputs, worker, scratch) }
}

impl CpuOperation for Attend {
    fn needs(&self, _: &[Shape], capacity: &Capacity) -> Needs {
        Needs::attend(self, forward::scratch(self, capacity))
    }

    fn by_sequences(&self) -> Option<Side> {
        (self.keys == Keys::Rows(Rows::Tokens(self.side))).then_some(self.side)
    }

    unsafe fn run(&self, call: super::Call<'_>, scratch: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { attend(self, false, call, scratch) };
    }
}

/// [`AttendGrad`]: inputs and outputs as it says.
impl CpuOperation for AttendGrad {
    fn needs(&self, _: &[Shape], capacity: &Capacity) -> Needs {
        Needs::attend(&self.attend, grad::scratch(&self.attend, capacity))
    }

    unsafe fn run(&self, call: super::Call<'_>, scratch: &mut [f32]) {
        let super::Call { inputs, outputs, run, worker, .. } = call;
        let (inputs, given) = inputs.split_at(inputs.len() - 3);
        let call = Attention { op: &self.attend, inputs, is_bf16: false, run };
        // SAFETY: the caller's promise.
        unsafe { grad::attend_grad(&call, given, outputs, worker, scratch) }
    }
}

/// [`AttendShow`]: inputs as those of the attention, one output.
impl CpuOperation for AttendShow {
    fn needs(&self, _: &[Shape], capacity: &Capacity) -> Needs {
        Needs::attend(&self.attend, show::scratch(&self.attend, capacity))
    }

    unsafe fn run(&self, call: super::Call<'_>, scratch: &mut [f32]) {
        let super::Call { inputs, outputs, run, worker, .. } = call;
        let call = Attention { op: &self.attend, inputs, is_bf16: false, run };
        // SAFETY: the caller's promise.
        unsafe { show::attend_show(&call, self, outputs[0], worker, scratch) }
    }
}

/// [`Store`]: inputs keys and values, no output but the pages.
impl CpuOperation for Store {
    fn needs(&self, _: &[Shape], _: &Capacity) -> Needs {
        Needs { pages: Some((self.pages, self.slot, Access::Write)), ..Needs::default() }
    }

    unsafe fn run(&self, call: super::Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { store::store(self, call.inputs, call.run, call.worker) }
    }
}
