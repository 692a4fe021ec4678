//! A variant of the steps of a plan: what is where, and how workers walk it.

use std::ops::Range;
use std::sync::Arc;

use glassformer_graph::{Batch, Capacity, Pages, Rows, Side};
use glassformer_plan::{Count, Home, Slot, SlotId};

use super::constants::Constant;
use super::kept::Address;
use super::lower::Lowered;
use super::row_blocks::{self, Region};
use super::schedule::Schedule;
use super::{OPERANDS, Step};
use crate::context::{Block, Context, pairs};
use crate::kernels::{self, Call, Effort};
use crate::team::Worker;

/// What is worth sharing out.
#[derive(Clone, Copy)]
pub(super) enum Sharing {
    /// What `is_small` and `is_worth_it` leave.
    Worthwhile,
    /// Everything.
    Always,
}

impl Sharing {
    /// Whether a phase is so small that one worker does it: a microsecond, about what kernels cut their work into.
    fn is_small(self, phase: Effort) -> bool {
        match self {
            Self::Worthwhile => phase.products + phase.numbers < 4096,
            Self::Always => false,
        }
    }

    /// Whether a run is shared out among `workers`, or done by the caller alone.
    ///
    /// Shared, products take their part of the time, but what goes from step to step must often be fetched from another
    /// core, and each phase has its barrier. The factors are fitted to stacks of twelve layers, of width 16 to 256 and with
    /// 1 and 16 rows, on 1 to 8 of 16 cores (`examples/overhead`): width 64 and one row take 100 µs alone, and took 140 µs
    /// on two workers and 170 µs on eight; width 128 and one row 360 µs alone, and 280 µs on two. What is larger than any of
    /// them does not fit the cache of one core, so that nothing is lost by moving it to another.
    fn is_worth_it(self, run: Effort, phases: usize, workers: usize) -> bool {
        const LARGE: usize = 1 << 23; // two milliseconds
        match self {
            Self::Worthwhile if run.products + run.numbers > LARGE => true,
            Self::Worthwhile => {
                let barriers = phases * (2048 + 300 * workers);
                run.products * (workers - 1) > 5 * run.numbers / 2 + barriers * workers
            }
            Self::Always => true,
        }
    }
}

/// Steps over one arena, for batches of no more than a capacity.
pub(super) struct Variant {
    pub capacity: Capacity,
    pub slots: Vec<Slot>,
    steps: Vec<Step>,
    regions: Vec<Region>,
    /// Where each output of the graph is.
    pub outputs: Vec<SlotId>,
    pub schedule: Schedule,
    /// Where in the arena the workers' scratch begins: behind all values.
    scratch_at: usize,
    /// Floats of scratch that each worker has.
    scratch: usize,
    /// Where in the arena the workers' blocks of rows begin: behind the scratch.
    row_block_at: usize,
    /// Floats that each worker has of them.
    row_block: usize,
}

impl Variant {
    /// What was lowered for this capacity, without what it wants.
    pub fn new(lowered: Lowered, schedule: Schedule, capacity: Capacity) -> Self {
        let Lowered { slots, steps, regions, outputs, floats, row_block, scratch, .. } = lowered;
        let row_block_at = floats + schedule.workers * scratch;
        Self {
            capacity,
            slots,
            steps,
            regions,
            outputs,
            schedule,
            scratch_at: floats,
            scratch,
            row_block_at,
            row_block,
        }
    }

    /// Floats of the arena that it needs.
    pub fn floats(&self) -> usize {
        self.row_block_at + self.schedule.workers * self.row_block
    }

    /// How many rows a slot has in this run.
    pub fn rows(&self, slot: SlotId, batch: &Batch<'_>, crossing: &Pages) -> usize {
        match self.slots[slot].rows {
            Count::Rows(rows) => batch.count(rows),
            Count::Pairs(attend) => pairs(&attend, batch, crossing),
        }
    }
}

/// A variant with the memory and the batch of one run.
pub(super) struct Bound<'a> {
    pub variant: &'a Variant,
    pub constants: &'a [Arc<Constant>],
    pub sharing: Sharing,
    pub arena: Block,
    /// Where each kept leaf is.
    pub kept: &'a [Address],
    pub run: &'a Context<'a>,
}

impl Bound<'_> {
    /// Whether the run is shared out among the team.
    pub fn is_worth_sharing(&self) -> bool {
        let Variant { steps, schedule, .. } = self.variant;
        let phases = steps.chunk_by(|a, b| a.phase == b.phase).count();
        self.sharing.is_worth_it(self.effort(steps), phases, schedule.workers)
    }

    /// One worker's part of all regions.
    ///
    /// # Safety
    /// The arena has room for the variant's values and every worker's scratch and belongs to this run; the batch was
    /// admitted; every worker of the team that runs it does this at the same time.
    pub unsafe fn walk(&self, worker: &Worker<'_>) {
        let Variant { regions, scratch_at, scratch, .. } = self.variant;
        // SAFETY: each worker has its own part behind all values.
        let own = unsafe {
            let first = self.arena.data.add(scratch_at + worker.index * scratch);
            std::slice::from_raw_parts_mut(first, *scratch)
        };
        let mut before = None;
        for region in regions {
            let rows = region.rows.map(|rows| (rows, self.run.batch.count(rows)));
            // SAFETY: the caller's promise.
            unsafe {
                if let Some((rows, count)) =
                    rows.filter(|(_, count)| self.variant.schedule.has_blocks(*count))
                {
                    if before.replace(Done::Shared(usize::MAX)).is_some() {
                        worker.barrier();
                    }
                    match region.sequences {
                        Some(side) => self.blocks_of_sequences(&region.parts, rows, side, worker, own),
                        None => self.blocks_of_rows(&region.steps, rows, count, worker, own),
                    }
                } else {
                    self.phases(&region.steps, &mut before, worker, own);
                }
            }
        }
    }

    /// One worker's part of the phases of a region.
    ///
    /// Small phases are done by the first worker, while the others wait for the next large one: then there is no barrier
    /// between two small ones, and a model of toy size runs as fast on many threads as on one.
    ///
    /// # Safety
    /// As for [`Bound::walk`]; `scratch` is this worker's own.
    unsafe fn phases(
        &self,
        steps: &Range<usize>,
        before: &mut Option<Done>,
        worker: &Worker<'_>,
        scratch: &mut [f32],
    ) {
        let mut end = steps.start;
        for phase in self.variant.steps[steps.clone()].chunk_by(|a, b| a.phase == b.phase) {
            let range = end..end + phase.len();
            end = range.end;
            let small = worker.count > 1 && self.sharing.is_small(self.effort(phase));
            let done = if small { Done::Alone } else { Done::Shared(phase[0].phase) };
            // Two parts of one phase need no barrier between them, nor do two phases that the same worker does.
            if before.replace(done).is_some_and(|before| before != done) {
                worker.barrier();
            }
            // SAFETY: the caller's promise; what earlier phases wrote lies before a barrier, or was written by the worker
            // that does this one.
            unsafe {
                match (small, worker.index) {
                    (false, _) => self.steps(&range, Part::WHOLE, worker, scratch),
                    (true, 0) => self.steps(&range, Part::WHOLE, &worker.alone(), scratch),
                    (true, _) => {}
                }
            }
        }
    }

    /// One worker's blocks of rows of a region.
    ///
    /// # Safety
    /// As for [`Bound::walk`]; `scratch` is this worker's own.
    unsafe fn blocks_of_rows(
        &self,
        steps: &Range<usize>,
        rows: Rows,
        count: usize,
        worker: &Worker<'_>,
        scratch: &mut [f32],
    ) {
        let (each, blocks) = self.variant.schedule.blocks(count, worker.count);
        worker.share(blocks, |block| {
            let first = block * each;
            let taken =
                Taken { rows, worker: worker.index, first, count: each.min(count - first), sequences: None };
            // SAFETY: the caller's promise; the steps go by rows, these rows are this worker's, and so is its own part of
            // what is inside the region.
            unsafe { self.steps(steps, Part(Some(taken)), &worker.alone(), scratch) };
        });
    }

    /// The same where there are attentions: blocks of whole sequences, part by part.
    ///
    /// # Safety
    /// As for [`Bound::walk`]; `scratch` is this worker's own.
    unsafe fn blocks_of_sequences(
        &self,
        parts: &[Range<usize>],
        rows: Rows,
        side: Side,
        worker: &Worker<'_>,
        scratch: &mut [f32],
    ) {
        let spans = &self.run.batch.side(side).spans[..];
        let each = self.variant.schedule.rows_of_sequences(self.run.batch.count(rows), worker.count);
        let all = || row_blocks::of_sequences(spans, each).enumerate();
        let count = all().count();
        let (mut at, mut blocks) = (0, all());
        worker.share_behind(count * parts.len(), count, |item| {
            let (part, block) = (item / count, item % count);
            if part != at {
                (at, blocks) = (part, all());
            }
            // Blocks of a part come in order, so this worker's next one lies behind its last.
            let Some((_, sequences)) = blocks.by_ref().find(|&(index, _)| index == block) else { return };
            let (first, last) = (spans[sequences.start], spans[sequences.end - 1]);
            let count = last.start + last.len - first.start;
            let sequences = Some((sequences.start, sequences.end));
            let taken = Taken { rows, worker: worker.index, first: first.start, count, sequences };
            // SAFETY: the caller's promise; the steps go by rows or by sequences, these are this worker's, and so is its own
            // part of what is inside the region, which has room for the longest sequence. What the part before wrote of these
            // sequences lies behind.
            unsafe { self.steps(&parts[part], Part(Some(taken)), &worker.alone(), scratch) };
        });
    }

    /// Runs one worker's share of some steps, in order.
    ///
    /// # Safety
    /// As for [`Bound::walk`]; `scratch` is this worker's own; no step reads what another worker writes meanwhile.
    unsafe fn steps(&self, steps: &Range<usize>, part: Part, worker: &Worker<'_>, scratch: &mut [f32]) {
        let (first, sequences) = part.0.map_or((0, None), |taken| (taken.first, taken.sequences));
        for step in &self.variant.steps[steps.clone()] {
            let mut blocks = self.blocks(step, part);
            if step.task.kernel.by_sequences().is_some() {
                self.count_from_the_first_row(step, part, &mut blocks);
            }
            let (inputs, outputs) = blocks[..step.operands.len()].split_at(step.inputs);
            let call = Call { inputs, outputs, first, sequences, run: self.run, worker };
            // SAFETY: the planner gave all values that live at the same time different places, and the kernel what its
            // operation and `needs` say; every worker that has a part in these blocks makes this call.
            unsafe { kernels::run(&step.task.kernel, call, scratch) };
        }
    }

    /// Lets the blocks of a part begin where the whole block would: an attention counts rows from the batch's first.
    fn count_from_the_first_row(&self, step: &Step, part: Part, blocks: &mut [Block]) {
        let Some(taken) = part.0 else { return };
        let count = self.run.batch.count(taken.rows);
        for (block, &slot) in blocks.iter_mut().zip(&step.operands) {
            if self.variant.slots[slot].rows.are(taken.rows) {
                block.data = block.data.wrapping_sub(taken.first * block.width);
                block.rows = count;
            }
        }
    }

    /// The effort of some steps.
    fn effort(&self, steps: &[Step]) -> Effort {
        let of_step = |step: &Step| {
            let blocks = self.blocks(step, Part::WHOLE);
            let (inputs, outputs) = blocks[..step.operands.len()].split_at(step.inputs);
            step.task.work.of(inputs, outputs, self.run)
        };
        steps.iter().map(of_step).fold(Effort::default(), |sum, step| sum + step)
    }

    /// What a step reads and writes.
    #[inline]
    fn blocks(&self, step: &Step, part: Part) -> [Block; OPERANDS] {
        let mut blocks = [Block { data: std::ptr::null_mut(), rows: 0, width: 0 }; OPERANDS];
        for (block, &slot) in blocks.iter_mut().zip(&step.operands) {
            *block = self.block(slot, part);
        }
        blocks
    }

    /// Where a slot is, or that part of it.
    #[inline]
    fn block(&self, slot: SlotId, part: Part) -> Block {
        let Variant { slots, row_block_at, row_block, schedule, .. } = self.variant;
        let Slot { width, home, rows } = slots[slot];
        let data = match home {
            Home::Arena(offset) => self.arena.data.wrapping_add(offset),
            Home::Worker(offset) => self.arena.data.wrapping_add(row_block_at + offset * schedule.workers),
            Home::Constant(index) => self.constants[index].address().cast_mut(),
            Home::Input(index) => self.run.batch.inputs[index].as_ptr().cast_mut(),
            Home::Kept(index) => self.kept[index].data,
        };
        match (part.0, home) {
            (Some(taken), Home::Worker(offset)) => {
                let data = self.arena.data.wrapping_add(row_block_at + taken.worker * row_block + offset);
                Block { data, rows: taken.count, width }
            }
            (Some(taken), _) if rows.are(taken.rows) => {
                Block { data: data.wrapping_add(taken.first * width), rows: taken.count, width }
            }
            _ => Block { data, rows: self.variant.rows(slot, self.run.batch, self.run.crossing.book), width },
        }
    }
}

/// What was done last: by the first worker alone, or by all, in this phase.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Alone,
    Shared(usize),
}

/// The rows of a run that a call is about: all, or those that a worker has taken.
#[derive(Clone, Copy)]
struct Part(Option<Taken>);

impl Part {
    const WHOLE: Self = Self(None);
}

/// Rows that a worker takes through a region.
#[derive(Clone, Copy)]
struct Taken {
    /// Of which kind.
    rows: Rows,
    worker: usize,
    first: usize,
    count: usize,
    /// From which sequence to before which, where they are whole ones.
    sequences: Option<(usize, usize)>,
}
