//! Steps, and the slots that they read and write.

use glassformer_graph::Rows;
use glassformer_graph::ops::Attend;

use crate::kernels::{Kernel, Work};

/// The number of a slot.
pub(super) type SlotId = usize;

/// Something in memory that steps read or write.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// How many rows it has in a run.
    pub rows: Count,
    /// Numbers per row.
    pub width: usize,
    /// Where it is.
    pub home: Home,
}

/// How rows are counted when a batch is bound.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    /// By the batch.
    Rows(Rows),
    /// One for each query and key of this attention.
    Pairs(Attend),
}

impl Count {
    /// Whether it counts these rows.
    pub fn are(self, others: Rows) -> bool {
        matches!(self, Self::Rows(rows) if rows == others)
    }
}

/// Where a slot is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Home {
    /// In the arena, at this float.
    Arena(usize),
    /// Inside a band, at this float for the first worker's first row.
    Band(usize),
    /// Among the plan's constants.
    Constant(usize),
    /// Among the batch's inputs.
    Input(usize),
    /// Among what the state keeps from run to run.
    Kept(usize),
}

/// One call of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub kernel: Kernel,
    /// What it reads, then what it writes.
    pub operands: Vec<SlotId>,
    /// How many of them it reads.
    pub inputs: usize,
    /// Steps of one phase follow each other without a barrier.
    pub phase: usize,
    /// How its work grows.
    pub work: Work,
}

impl Step {
    pub fn new(kernel: Kernel, work: Work) -> Self {
        Self { kernel, operands: Vec::new(), inputs: 0, phase: 0, work }
    }
}
