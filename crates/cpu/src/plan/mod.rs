//! The planner: a graph becomes steps over one arena, once; a run binds the real sizes and walks them.
//!
//! Running allocates nothing. Every worker walks all steps and calls every kernel, which shares its work out; barriers
//! stand between phases (see [`draft`]).

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use glassformer_graph::{
    Ask, Backend, Batch, Capacity, Constants, Error, Graph, Leaders, Limits, Op, Pages, Rows, Runner, Side,
    State, View,
};

use crate::context::{Block, Context, PagesAt, pairs};
use crate::isa::Isa;
use crate::kernels::{self, Call, Effort};
use crate::narrow::Dot;
use crate::team::{Team, Worker};
use band::Stretch;
use constants::{Constant, Shelf, Wanted};
use draft::{Count, Deal, Draft, Drafted, Home, Slot, SlotId, Step};

mod band;
mod bytes;
mod constants;
mod draft;
mod fuse;
mod layout;
mod precision;

pub(crate) use fuse::After;
pub use precision::Precision;
use precision::{Choice, Rule};

/// The most inputs and outputs of a step, which are bound on the stack: the gradient of an adaptive softmax with fourteen
/// clusters has thirty.
const OPERANDS: usize = 32;

/// What is worth sharing out.
#[derive(Clone, Copy)]
enum Sharing {
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

/// The CPU backend. Plans that it prepares share its threads and take turns on them.
pub struct Cpu {
    team: Arc<Team>,
    isa: Isa,
    dot: Dot,
    sharing: Sharing,
    rule: Rule,
    /// Rows that a worker takes through a band at once, if somebody said so.
    band: Option<usize>,
    shelf: Shelf,
}

impl Cpu {
    /// On this many threads, with the best instructions of this machine.
    pub fn new(threads: usize) -> Self {
        Self::with_isa(threads, Isa::best())
    }

    /// On this many threads, with these instructions: for tests and measurements.
    ///
    /// # Panics
    /// If this machine does not have them.
    pub fn with_isa(threads: usize, isa: Isa) -> Self {
        assert!(isa.is_available(), "this machine does not have {isa}");
        let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
        Self {
            team: Arc::new(Team::new(threads)),
            isa,
            dot: Dot::best(isa),
            sharing: Sharing::Worthwhile,
            rule: Rule::default(),
            band: None,
            shelf: Shelf::default(),
        }
    }

    /// Shares out even what one thread would do faster: for tests and measurements.
    #[must_use]
    pub fn sharing_everything(self) -> Self {
        Self { sharing: Sharing::Always, ..self }
    }

    /// Holds and multiplies weights in this precision, except those of heads with few outputs, and small tables.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { rule: Rule { precision, ..self.rule }, ..self }
    }

    /// Says by name which weights stay in `f32` whatever the precision, instead of those of heads with few outputs.
    #[must_use]
    pub fn keeping_wide(self, wide: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { rule: Rule { wide: Some(Arc::new(wide)), ..self.rule }, ..self }
    }

    /// Multiplies narrow numbers by these instructions: for tests and measurements.
    ///
    /// # Panics
    /// If this machine does not have them.
    #[must_use]
    pub fn with_dot(self, dot: Dot) -> Self {
        assert!(dot.is_available(), "this machine does not have {dot}");
        Self { dot, ..self }
    }

    /// Lets each thread take so many rows at once from attention to attention: for tests and measurements.
    #[must_use]
    pub fn taking_rows(self, rows: usize) -> Self {
        Self { band: Some(rows.max(1)), ..self }
    }

    /// The vector instructions that it uses.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The instructions that it multiplies narrow numbers by.
    pub fn dot(&self) -> Dot {
        self.dot
    }

    /// What it holds and multiplies weights in.
    pub fn precision(&self) -> Precision {
        self.rule.precision
    }

    /// Whether a plan that wants these may be only near `f32` elsewhere, too.
    fn is_near(&self, wanted: &[Wanted]) -> bool {
        match self.rule.precision {
            Precision::F32 => false,
            Precision::Bf16 | Precision::Int8 | Precision::Int4 => true,
            Precision::Stored => wanted.iter().any(Wanted::is_narrow),
        }
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.team.size()
    }
}

impl Default for Cpu {
    /// On all cores.
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, NonZeroUsize::get))
    }
}

impl Backend for Cpu {
    fn prepare(
        &self,
        graph: &Arc<Graph>,
        weights: &dyn Constants,
        capacity: &Capacity,
    ) -> Result<Box<dyn Runner>, Error> {
        let deal = Deal::new(self.team.size(), self.band, self.rule.precision, capacity);
        let choice = Choice { rule: &self.rule, weights };
        let Drafted { slots, steps, stretches, outputs, wanted, floats, band, scratch } =
            Draft::of(graph, capacity, &choice, deal);
        if let Some(node) =
            graph.nodes().iter().find(|node| node.inputs.len() + node.outputs.len() + 2 > OPERANDS)
        {
            let why = format!("it has {} inputs and {} outputs", node.inputs.len(), node.outputs.len());
            return Err(Error::Shape {
                node: node.name.clone(),
                why: format!("{why}, more than {OPERANDS} in all"),
            });
        }
        Ok(Box::new(Plan {
            constants: constants::make(&wanted, (graph, weights), &self.shelf, &self.team)?,
            limits: Limits::of(graph),
            graph: graph.clone(),
            capacity: *capacity,
            team: self.team.clone(),
            isa: self.isa,
            dot: self.dot,
            near: self.is_near(&wanted),
            tiles: self.is_near(&wanted) && has_tiles(self.dot) && !has_wide_gradient(graph),
            sharing: self.sharing,
            slots,
            steps,
            stretches,
            outputs,
            deal,
            scratch_at: floats,
            scratch,
            band_at: floats + deal.workers * scratch,
            band,
        }))
    }
}

/// A prepared graph.
struct Plan {
    graph: Arc<Graph>,
    capacity: Capacity,
    limits: Limits,
    team: Arc<Team>,
    isa: Isa,
    dot: Dot,
    /// Whether all of it needs to be no more exact than what is narrow.
    near: bool,
    /// Whether attentions, and their gradients, are multiplied on tiles.
    tiles: bool,
    sharing: Sharing,
    slots: Vec<Slot>,
    steps: Vec<Step>,
    stretches: Vec<Stretch>,
    outputs: Vec<SlotId>,
    constants: Vec<Arc<Constant>>,
    /// Where in the arena the workers' scratch begins: behind all values.
    scratch_at: usize,
    /// Floats of scratch that each worker has.
    scratch: usize,
    deal: Deal,
    /// Where in the arena the insides of bands begin: behind the scratch.
    band_at: usize,
    /// Floats that each worker has of them.
    band: usize,
}

impl Plan {
    /// How many rows a slot has in this run.
    fn rows(&self, slot: SlotId, batch: &Batch<'_>, crossing: &Pages) -> usize {
        match self.slots[slot].rows {
            Count::Rows(rows) => batch.count(rows),
            Count::Pairs(attend) => pairs(&attend, batch, crossing),
        }
    }

    /// Refuses more pairs of queries and keys than there is room for, which a capacity alone cannot tell.
    fn admit_pairs(&self, batch: &Batch<'_>, crossing: &Pages) -> Result<(), Error> {
        for (slot, of) in self.slots.iter().enumerate() {
            if let Count::Pairs(attend) = of.rows {
                let have = self.capacity.count(Rows::Pairs(attend.side));
                let need = self.rows(slot, batch, crossing);
                if need > have {
                    return Err(Error::Capacity { what: "pairs of queries and keys", need, have });
                }
            }
        }
        Ok(())
    }
}

impl Runner for Plan {
    fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    fn run(&self, state: &mut State, batch: &Batch<'_>) -> Result<(), Error> {
        self.limits.admit(batch, state)?;
        self.capacity.admit(batch)?;
        self.admit_pairs(batch, &state.crossing)?;

        let floats = self.band_at + self.deal.workers * self.band;
        let (arena, cache, crossing) = state.parts(floats);
        let arena = Block { data: arena.as_mut_ptr(), rows: 1, width: floats };
        let run = Context {
            isa: self.isa,
            dot: self.dot,
            tiles: self.tiles,
            near: self.near,
            batch,
            cache: pages_at(cache),
            crossing: pages_at(crossing),
        };
        let bound = Bound { plan: self, arena, run: &run };
        // SAFETY: the arena has `floats` numbers and belongs to this run, as do the pages; the batch was admitted.
        let walk = |worker: &Worker<'_>| unsafe { bound.walk(worker) };
        let workers = self.team.size();
        if workers > 1 && bound.is_worth_sharing() {
            self.team.run(&walk);
        } else {
            self.team.run_alone(walk);
        }

        let mut views = std::mem::take(state.views_mut());
        views.clear();
        views.extend(self.outputs.iter().zip(self.graph.outputs()).map(|(&slot, &(_, value))| {
            let Home::Arena(offset) = self.slots[slot].home else { unreachable!("outputs are in the arena") };
            View { offset, rows: self.rows(slot, batch, &state.crossing), shape: self.graph.shape(value) }
        }));
        *state.views_mut() = views;
        Ok(())
    }

    fn leaders(&self, state: &State, output: usize, ask: Ask, into: &mut Leaders) {
        let width = self.graph.shape(self.graph.outputs()[output].1).width.max(1);
        let rows = state.output(output).chunks_exact(width);
        into.clear(ask, rows.len(), width);
        if into.each == 0 {
            return into.find(ask, state.output(output), width);
        }
        let (numbers, count, each) = (state.output(output), rows.len(), into.each);
        let answers = into.found.chunks_exact_mut(each).zip(&mut into.sums);
        let answers: Vec<_> = answers.map(Mutex::new).collect();
        let walk = |worker: &Worker<'_>| {
            worker.share(count, |index| {
                let (found, sum) = &mut *answers[index].lock().unwrap_or_else(PoisonError::into_inner);
                let row = &numbers[index * width..(index + 1) * width];
                // SAFETY: the instruction set is one of this machine.
                **sum = unsafe { kernels::leaders(self.isa, ask, row, found) };
            });
        };
        if count > 1 && count * width > WORTH_SHARING {
            self.team.run(&walk);
        } else {
            self.team.run_alone(walk);
        }
    }
}

/// Numbers from which on several threads look for the largest.
const WORTH_SHARING: usize = 1 << 15;

/// Whether tiles of `bf16` are multiplied, and there is an instruction that rounds to it.
fn has_tiles(dot: Dot) -> bool {
    dot == Dot::Amx && Dot::Avx512Dot.is_available()
}

/// Whether an attention is differentiated in `f32`: it must see the numbers that the attention saw.
fn has_wide_gradient(graph: &Graph) -> bool {
    graph
        .nodes()
        .iter()
        .any(|node| matches!(&node.op, Op::AttendGrad(grad) if !kernels::has_narrow_grad(grad)))
}

fn pages_at(pages: &mut Pages) -> PagesAt<'_> {
    let data = pages.data_mut().as_mut_ptr();
    PagesAt { tables: pages, data }
}

/// A plan with the memory and the batch of one run.
struct Bound<'a> {
    plan: &'a Plan,
    arena: Block,
    run: &'a Context<'a>,
}

impl Bound<'_> {
    /// Whether the run is shared out among the team.
    fn is_worth_sharing(&self) -> bool {
        let Plan { steps, sharing, deal, .. } = self.plan;
        let phases = steps.chunk_by(|a, b| a.phase == b.phase).count();
        sharing.is_worth_it(self.effort(steps), phases, deal.workers)
    }

    /// One worker's way through all stretches.
    ///
    /// # Safety
    /// The arena has room for the plan's values and every worker's scratch and belongs to this run; the batch was
    /// admitted; every worker of the team that runs it does this at the same time.
    unsafe fn walk(&self, worker: &Worker<'_>) {
        let Plan { steps, stretches, scratch_at, scratch, .. } = self.plan;
        // SAFETY: each worker has its own part behind all values.
        let own = unsafe {
            let first = self.arena.data.add(scratch_at + worker.index * scratch);
            std::slice::from_raw_parts_mut(first, *scratch)
        };
        let mut before = None;
        for stretch in stretches {
            let steps = &steps[stretch.steps.clone()];
            let rows = stretch.rows.map(|rows| (rows, self.run.batch.count(rows)));
            // SAFETY: the caller's promise.
            unsafe {
                if let Some((rows, count)) = rows.filter(|(_, count)| self.plan.deal.bands(*count)) {
                    if before.replace(Done::Shared(usize::MAX)).is_some() {
                        worker.barrier();
                    }
                    match stretch.sequences {
                        Some(side) => self.band_of_sequences(steps, (rows, side), worker, own),
                        None => self.band(steps, (rows, count), worker, own),
                    }
                } else {
                    self.phases(steps, &mut before, worker, own);
                }
            }
        }
    }

    /// One worker's part of the phases of a stretch.
    ///
    /// Small phases are done by the first worker, while the others wait for the next large one: then there is no barrier
    /// between two small ones, and a model of toy size runs as fast on many threads as on one.
    ///
    /// # Safety
    /// As for [`Bound::walk`]; `scratch` is this worker's own.
    unsafe fn phases(
        &self,
        steps: &[Step],
        before: &mut Option<Done>,
        worker: &Worker<'_>,
        scratch: &mut [f32],
    ) {
        for phase in steps.chunk_by(|a, b| a.phase == b.phase) {
            let small = worker.count > 1 && self.plan.sharing.is_small(self.effort(phase));
            let done = if small { Done::Alone } else { Done::Shared(phase[0].phase) };
            // Two parts of one phase need no barrier between them, nor do two phases that the same worker does.
            if before.replace(done).is_some_and(|before| before != done) {
                worker.barrier();
            }
            // SAFETY: the caller's promise; what earlier phases wrote lies before a barrier, or was written by the worker
            // that does this one.
            unsafe {
                match (small, worker.index) {
                    (false, _) => self.steps(phase, Part::WHOLE, worker, scratch),
                    (true, 0) => self.steps(phase, Part::WHOLE, &worker.alone(), scratch),
                    (true, _) => {}
                }
            }
        }
    }

    /// One worker's part of a band.
    ///
    /// # Safety
    /// As for [`Bound::walk`]; `scratch` is this worker's own.
    unsafe fn band(
        &self,
        steps: &[Step],
        (rows, count): (Rows, usize),
        worker: &Worker<'_>,
        scratch: &mut [f32],
    ) {
        let (each, turns) = band::deal(count, worker.count, self.plan.deal.rows);
        worker.share(turns, |turn| {
            let first = turn * each;
            let taken =
                Taken { rows, worker: worker.index, first, count: each.min(count - first), sequences: None };
            // SAFETY: the caller's promise; the steps go by rows, these rows are this worker's, and so is its own part of
            // what is inside the band.
            unsafe { self.steps(steps, Part(Some(taken)), &worker.alone(), scratch) };
        });
    }

    /// One worker's part of a band with attentions: whole sequences.
    ///
    /// # Safety
    /// As for [`Bound::walk`]; `scratch` is this worker's own.
    unsafe fn band_of_sequences(
        &self,
        steps: &[Step],
        (rows, side): (Rows, Side),
        worker: &Worker<'_>,
        scratch: &mut [f32],
    ) {
        let spans = &self.run.batch.side(side).spans[..];
        let (each, _) = band::deal(self.run.batch.count(rows), worker.count, self.plan.deal.rows);
        let mut turns = band::turns(spans, each).enumerate();
        worker.share(band::turns(spans, each).count(), |turn| {
            // Turns come in order, so this worker's next one lies behind its last.
            let Some((_, sequences)) = turns.by_ref().find(|&(index, _)| index == turn) else { return };
            let (first, last) = (spans[sequences.start], spans[sequences.end - 1]);
            let count = last.start + last.len - first.start;
            let sequences = Some((sequences.start, sequences.end));
            let taken = Taken { rows, worker: worker.index, first: first.start, count, sequences };
            // SAFETY: the caller's promise; the steps go by rows or by sequences, these are this worker's, and so is its own
            // part of what is inside the band, which has room for the longest sequence.
            unsafe { self.steps(steps, Part(Some(taken)), &worker.alone(), scratch) };
        });
    }

    /// Runs one worker's share of some steps, in order.
    ///
    /// # Safety
    /// As for [`Bound::walk`]; `scratch` is this worker's own; no step reads what another worker writes meanwhile.
    unsafe fn steps(&self, steps: &[Step], part: Part, worker: &Worker<'_>, scratch: &mut [f32]) {
        let (first, sequences) = part.0.map_or((0, None), |taken| (taken.first, taken.sequences));
        for step in steps {
            let mut blocks = self.blocks(step, part);
            if step.kernel.by_sequences().is_some() {
                self.count_from_the_first_row(step, part, &mut blocks);
            }
            let (inputs, outputs) = blocks[..step.operands.len()].split_at(step.inputs);
            let call = Call { inputs, outputs, first, sequences, run: self.run, worker };
            // SAFETY: the planner gave all values that live at the same time different places, and the kernel what its
            // operation and `needs` say; every worker that has a part in these blocks makes this call.
            unsafe { kernels::run(&step.kernel, call, scratch) };
        }
    }

    /// Lets the blocks of a part begin where the whole block would: an attention counts rows from the batch's first.
    fn count_from_the_first_row(&self, step: &Step, part: Part, blocks: &mut [Block]) {
        let Some(taken) = part.0 else { return };
        let count = self.run.batch.count(taken.rows);
        for (block, &slot) in blocks.iter_mut().zip(&step.operands) {
            if self.plan.slots[slot].rows.are(taken.rows) {
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
            step.work.of(inputs, outputs, self.run)
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
        let Plan { slots, constants, band_at, band, deal, .. } = self.plan;
        let Slot { width, home, rows } = slots[slot];
        let data = match home {
            Home::Arena(offset) => self.arena.data.wrapping_add(offset),
            Home::Band(offset) => self.arena.data.wrapping_add(band_at + offset * deal.workers),
            Home::Constant(index) => constants[index].address().cast_mut(),
            Home::Input(index) => self.run.batch.inputs[index].as_ptr().cast_mut(),
        };
        match (part.0, home) {
            (Some(taken), Home::Band(offset)) => {
                let data = self.arena.data.wrapping_add(band_at + taken.worker * band + offset);
                Block { data, rows: taken.count, width }
            }
            (Some(taken), _) if rows.are(taken.rows) => {
                Block { data: data.wrapping_add(taken.first * width), rows: taken.count, width }
            }
            _ => Block { data, rows: self.plan.rows(slot, self.run.batch, self.run.crossing.tables), width },
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

/// Rows that a worker takes through a band.
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
