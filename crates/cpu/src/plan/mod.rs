//! The planner: a graph becomes steps over one arena, once; a run binds the real sizes and walks them.
//!
//! Running allocates nothing. Every worker walks all steps and calls every kernel, which shares its work out; barriers
//! stand between phases (see [`lower`]). Where an encoder's sequences are short there are two variants of the steps: one for
//! many of them, each of which one worker takes through all layers, and one for few rows, which workers share.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use glassformer_graph::{
    Ask, Backend, Batch, Capacity, Constants, Dtype, Error, Graph, Leaders, Limits, Op, PageLayout, Pages,
    Parts, Precision, Rows, Runner, State,
};
use glassformer_plan::{Count, Home, Kept, Rule};
use glassformer_tensor::Buffer;

use crate::context::{Block, Context};
use crate::isa::Isa;
use crate::kernels::{self, Kernel, Work};
use crate::lowp::{Dot, coded};
use crate::pages::{PageMemory, page_bytes};
use crate::team::{Team, Worker};
use constants::{Constant, ConstantCache, Wanted};
use kept::KeptMemory;
use lower::{Holding, Lowering};
use schedule::{Asked, Schedule};
use variant::{Bound, Sharing, Variant};

mod bytes;
mod constants;
mod kept;
mod lower;
mod row_blocks;
mod schedule;
mod variant;

/// The most inputs and outputs of a step, which are bound on the stack: the gradient of an adaptive softmax with fourteen
/// clusters has thirty.
const OPERANDS: usize = 32;

/// What a step does.
#[derive(Clone, Debug)]
struct Task {
    /// What is called.
    kernel: Kernel,
    /// How its work grows.
    work: Work,
}

impl Task {
    fn new(kernel: Kernel, work: Work) -> Self {
        Self { kernel, work }
    }
}

/// A step of a plan on the CPU.
type Step = glassformer_plan::Step<Task>;

/// The CPU backend. Plans that it prepares share its threads and take turns on them.
pub struct Cpu {
    team: Arc<Team>,
    isa: Isa,
    dot: Dot,
    sharing: Sharing,
    rule: Rule,
    asked: Asked,
    cache: ConstantCache,
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
            rule: Rule { precision: Precision::F32, exempt: None, supports: coded::is_supported },
            asked: Asked::default(),
            cache: ConstantCache::default(),
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
    pub fn keeping_f32(self, exempt: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { rule: Rule { exempt: Some(Arc::new(exempt)), ..self.rule }, ..self }
    }

    /// Multiplies low-precision numbers by these instructions: for tests and measurements.
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
        Self { asked: Asked { rows: Some(rows.max(1)), ..self.asked }, ..self }
    }

    /// Lets all sequences that are taken as wholes go through one layer before any goes through the next, however few weights there
    /// are: for tests and measurements.
    #[must_use]
    pub fn going_by_layers(self) -> Self {
        Self { asked: Asked { by_layers: true, ..self.asked }, ..self }
    }

    /// How many threads it computes on.
    pub fn threads(&self) -> usize {
        self.team.size()
    }

    /// The vector instructions that it uses.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The instructions that it multiplies low-precision numbers by.
    pub fn dot(&self) -> Dot {
        self.dot
    }

    /// What it holds and multiplies weights in.
    pub fn precision(&self) -> Precision {
        self.rule.precision
    }

    /// Whether a plan that wants these may approximate `f32` elsewhere, too.
    fn approximates(&self, wanted: &[Wanted]) -> bool {
        match self.rule.precision {
            Precision::F32 => false,
            Precision::Bf16 | Precision::Int8 | Precision::Int4 => true,
            Precision::Stored => wanted.iter().any(Wanted::is_lowp),
        }
    }
}

/// For tests and measurements: what was left in memory must not matter.
#[doc(hidden)]
impl Cpu {
    /// Fills what a run has left in `state`, except pages, with `number`.
    pub fn fill_values(state: &mut State, number: f32) {
        state.parts::<Memory>().memory.arena(0).fill(number);
    }

    /// Makes room for the pages of `state`, and fills them with `number`.
    ///
    /// # Errors
    /// If the system has not the memory.
    pub fn fill_pages(state: &mut State, number: f32) -> Result<(), Error> {
        let Parts { cache, crossing, memory, .. } = state.parts::<Memory>();
        for (book, pages) in [(cache, &mut memory.cache), (crossing, &mut memory.crossing)] {
            pages.prepare(book)?;
            pages.data_mut().fill(number);
        }
        Ok(())
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
        let tiles = self.dot == Dot::Amx;
        let bf16 = !has_f32_gradient(graph, tiles);
        let tiles = tiles && bf16;
        let holding = Holding { rule: &self.rule, weights, tiles: tiles && self.approximates(&[]) };
        let asked = Asked { workers: self.team.size(), ..self.asked };
        let (schedule, few) = Schedule::of(graph, capacity, asked, self.rule.precision, self.dot);
        let mut many = Lowering::of(graph, capacity, holding, schedule);
        let few = few.filter(|_| !many.holds_pairs()).map(|(schedule, capacity)| {
            let mut few = Lowering::of(graph, &capacity, holding, schedule);
            few.want_with(&mut many);
            Variant::new(few, schedule, capacity)
        });
        let wanted = std::mem::take(&mut many.wanted);
        let approximate = self.approximates(&wanted);
        let many = Variant::new(many, schedule, *capacity);
        let floats = many.floats().max(few.as_ref().map_or(0, Variant::floats));
        if !Buffer::fits(floats) {
            let bytes = floats.saturating_mul(size_of::<f32>());
            return Err(Error::Memory { what: "the values of a run", bytes });
        }
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
            constants: constants::make(&wanted, graph, weights, &self.cache, &self.team)?,
            limits: Limits::of(graph).keeping(if bf16 && approximate { Dtype::Bf16 } else { Dtype::F32 }),
            kept: Kept::of(graph, capacity),
            graph: graph.clone(),
            team: self.team.clone(),
            isa: self.isa,
            dot: self.dot,
            approximate,
            bf16: bf16 && approximate,
            tiles: tiles && approximate,
            sharing: self.sharing,
            many,
            few,
        }))
    }
}

/// The memory of a session: the values of a run, and stored keys and values.
#[derive(Debug, Default)]
struct Memory {
    arena: Option<Buffer>,
    /// Where in the arena each output of the last run begins.
    outputs: Vec<usize>,
    cache: PageMemory,
    crossing: PageMemory,
    kept: KeptMemory,
}

impl Memory {
    /// The arena, at least `floats` long: only the first run allocates it.
    fn arena(&mut self, floats: usize) -> &mut [f32] {
        if self.arena.as_ref().is_none_or(|arena| arena.len() < floats) {
            self.arena = Some(Buffer::zeros(floats));
        }
        self.arena.as_deref_mut().unwrap_or(&mut [])
    }
}

/// A prepared graph.
struct Plan {
    graph: Arc<Graph>,
    limits: Limits,
    team: Arc<Team>,
    isa: Isa,
    dot: Dot,
    /// Whether all of it needs to be no more exact than what is in low precision.
    approximate: bool,
    /// Whether attentions may round keys and values, and whether they and their gradients are multiplied on tiles then.
    bf16: bool,
    tiles: bool,
    sharing: Sharing,
    constants: Vec<Arc<Constant>>,
    kept: Vec<Kept>,
    /// For everything that may come.
    many: Variant,
    /// For fewer rows, where those go another way.
    few: Option<Variant>,
}

impl Plan {
    /// The variant for this batch.
    fn variant(&self, batch: &Batch<'_>) -> &Variant {
        let need = Capacity::of(batch);
        self.few.as_ref().filter(|few| few.capacity.covers(&need)).unwrap_or(&self.many)
    }

    /// Refuses more pairs of queries and keys than there is room for, which a capacity alone cannot tell.
    fn admit_pairs(&self, batch: &Batch<'_>, crossing: &Pages) -> Result<(), Error> {
        for (slot, of) in self.many.slots.iter().enumerate() {
            if let Count::Pairs(attend) = of.rows {
                let have = self.many.capacity.count(Rows::Pairs(attend.side));
                let need = self.many.rows(slot, batch, crossing);
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

    fn keeps(&self) -> Dtype {
        if self.bf16 { Dtype::Bf16 } else { Dtype::F32 }
    }

    fn page_bytes(&self, layout: &PageLayout) -> usize {
        page_bytes(layout)
    }

    fn run(&self, state: &mut State, batch: &Batch<'_>) -> Result<(), Error> {
        self.limits.admit(batch, state)?;
        self.many.capacity.admit(batch)?;
        self.admit_pairs(batch, &state.crossing)?;

        let variant = self.variant(batch);
        let floats = variant.floats();
        let Parts { cache, crossing, rows, memory } = state.parts::<Memory>();
        memory.cache.prepare(cache)?;
        memory.crossing.prepare(crossing)?;
        let arena = Block { data: memory.arena(floats).as_mut_ptr(), rows: 1, width: floats };
        let kept = memory.kept.bind(&self.kept, batch)?;
        let run = Context {
            isa: self.isa,
            dot: self.dot,
            bf16: self.bf16,
            tiles: self.tiles,
            approximate: self.approximate,
            batch,
            cache: memory.cache.at(cache),
            crossing: memory.crossing.at(crossing),
        };
        let bound =
            Bound { variant, constants: &self.constants, sharing: self.sharing, arena, kept, run: &run };
        // SAFETY: the arena has `floats` numbers and belongs to this run, as do the pages; the batch was admitted.
        let walk = |worker: &Worker<'_>| unsafe { bound.walk(worker) };
        let workers = self.team.size();
        if workers > 1 && bound.is_worth_sharing() {
            self.team.run(&walk);
        } else {
            self.team.run_alone(walk);
        }

        rows.clear();
        memory.outputs.clear();
        for &slot in &variant.outputs {
            let Home::Arena(offset) = variant.slots[slot].home else {
                unreachable!("outputs are in the arena")
            };
            rows.push(variant.rows(slot, batch, crossing));
            memory.outputs.push(offset);
        }
        memory.kept.note(&self.kept, batch);
        Ok(())
    }

    fn write(&self, state: &mut State, name: &str, numbers: &[f32]) -> Result<(), Error> {
        state.parts::<Memory>().memory.kept.write(name, numbers);
        Ok(())
    }

    fn kept<'s>(&self, state: &'s State, name: &str) -> Result<Cow<'s, [f32]>, Error> {
        let memory = state.memory::<Memory>().ok_or(Error::NoRun)?;
        memory.kept.read(name).map(Cow::Borrowed).ok_or(Error::NoRun)
    }

    fn read<'s>(&self, state: &'s State, output: usize, rows: Range<usize>) -> Result<Cow<'s, [f32]>, Error> {
        let memory = state.memory::<Memory>().ok_or(Error::NoRun)?;
        let offset = *memory.outputs.get(output).ok_or(Error::NoRun)?;
        let width = self.graph.shape(self.graph.outputs()[output].1).width;
        let numbers = memory.arena.as_deref().unwrap_or(&[]);
        Ok(Cow::Borrowed(&numbers[offset + rows.start * width..offset + rows.end * width]))
    }

    fn leaders(&self, state: &State, output: usize, ask: Ask, into: &mut Leaders) -> Result<(), Error> {
        let width = self.graph.shape(self.graph.outputs()[output].1).width.max(1);
        let numbers = &*self.output(state, output)?;
        let count = numbers.len() / width;
        into.clear(ask, count, width);
        if into.each == 0 {
            into.find(ask, numbers, width);
            return Ok(());
        }
        let each = into.each;
        let answers = into.found.chunks_exact_mut(each).zip(&mut into.sums);
        let answers: Vec<_> = answers.map(Mutex::new).collect();
        let walk = |worker: &Worker<'_>| {
            worker.share(count, |index| {
                let (found, sum) = &mut *answers[index].lock().unwrap_or_else(PoisonError::into_inner);
                let row = &numbers[index * width..(index + 1) * width];
                // SAFETY: the instruction set is one of this machine.
                **sum = unsafe { kernels::top_k(self.isa, ask, row, found) };
            });
        };
        if count > 1 && count * width > WORTH_SHARING {
            self.team.run(&walk);
        } else {
            self.team.run_alone(walk);
        }
        Ok(())
    }
}

/// Numbers from which on several threads look for the largest.
const WORTH_SHARING: usize = 1 << 15;

/// Whether an attention is differentiated in `f32`: it must see the numbers that the attention saw.
fn has_f32_gradient(graph: &Graph, tiles: bool) -> bool {
    graph
        .nodes()
        .iter()
        .any(|node| matches!(&node.op, Op::AttendGrad(grad) if !tiles || !kernels::has_bf16_grad(grad)))
}
