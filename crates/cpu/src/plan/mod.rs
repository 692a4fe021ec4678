//! The planner: a graph becomes steps over one arena, once; a run binds the real sizes and walks them.
//!
//! Running allocates nothing. Every worker walks all steps and calls every kernel, which shares its work out; barriers
//! stand between phases (see [`draft`]). Where an encoder's sequences are short there are two ways through the graph: one for
//! many of them, each of which one worker takes through all layers, and one for few rows, which workers share.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use glassformer_graph::{
    Ask, Backend, Batch, Capacity, Constants, Dtype, Error, Graph, Leaders, Limits, Op, PageLayout, Pages,
    Parts, Rows, Runner, State,
};
use glassformer_tensor::Buffer;

use crate::context::{Block, Context};
use crate::isa::Isa;
use crate::kernels;
use crate::narrow::Dot;
use crate::pages::{PageMemory, page_bytes};
use crate::team::{Team, Worker};
use constants::{Constant, Shelf, Wanted};
use deal::{Asked, Deal};
use draft::Draft;
use kept::{Kept, KeptMemory};
use step::{Count, Home};
use way::{Bound, Sharing, Way};

mod band;
mod bytes;
mod constants;
mod deal;
mod draft;
mod fuse;
mod kept;
mod layout;
mod precision;
mod step;
mod way;

pub use precision::Precision;
use precision::{Choice, Rule};

/// The most inputs and outputs of a step, which are bound on the stack: the gradient of an adaptive softmax with fourteen
/// clusters has thirty.
const OPERANDS: usize = 32;

/// The CPU backend. Plans that it prepares share its threads and take turns on them.
pub struct Cpu {
    team: Arc<Team>,
    isa: Isa,
    dot: Dot,
    sharing: Sharing,
    rule: Rule,
    asked: Asked,
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
            asked: Asked::default(),
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
        Self { asked: Asked { rows: Some(rows.max(1)), ..self.asked }, ..self }
    }

    /// Lets all sequences that are taken as wholes go through one layer before any goes through the next, however few weights there
    /// are: for tests and measurements.
    #[must_use]
    pub fn going_by_layers(self) -> Self {
        Self { asked: Asked { by_layers: true, ..self.asked }, ..self }
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
        let narrow = !has_wide_gradient(graph, tiles);
        let tiles = tiles && narrow;
        let choice = Choice { rule: &self.rule, weights, tiles: tiles && self.is_near(&[]) };
        let numbers = (self.rule.precision, self.dot);
        let (deal, few) = Deal::of(graph, capacity, (self.team.size(), self.asked), numbers);
        let mut many = Draft::of(graph, capacity, &choice, deal);
        let few = few.filter(|_| !many.holds_pairs()).map(|(deal, capacity)| {
            let mut few = Draft::of(graph, &capacity, &choice, deal);
            few.want_with(&mut many);
            Way::new(few, deal, capacity)
        });
        let wanted = std::mem::take(&mut many.wanted);
        let near = self.is_near(&wanted);
        let many = Way::new(many, deal, *capacity);
        let floats = many.floats().max(few.as_ref().map_or(0, Way::floats));
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
            constants: constants::make(&wanted, (graph, weights), &self.shelf, &self.team)?,
            limits: Limits::of(graph).keeping(if narrow && near { Dtype::Bf16 } else { Dtype::F32 }),
            kept: Kept::of(graph, capacity),
            graph: graph.clone(),
            team: self.team.clone(),
            isa: self.isa,
            dot: self.dot,
            near,
            narrow: narrow && near,
            tiles: tiles && near,
            sharing: self.sharing,
            many,
            few,
        }))
    }

    fn threads(&self) -> usize {
        self.team.size()
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
    /// Whether all of it needs to be no more exact than what is narrow.
    near: bool,
    /// Whether attentions may round keys and values, and whether they and their gradients are multiplied on tiles then.
    narrow: bool,
    tiles: bool,
    sharing: Sharing,
    constants: Vec<Arc<Constant>>,
    kept: Vec<Kept>,
    /// For everything that may come.
    many: Way,
    /// For fewer rows, where that is another way.
    few: Option<Way>,
}

impl Plan {
    /// The way of this batch.
    fn way(&self, batch: &Batch<'_>) -> &Way {
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
        if self.narrow { Dtype::Bf16 } else { Dtype::F32 }
    }

    fn page_bytes(&self, layout: &PageLayout) -> usize {
        page_bytes(layout)
    }

    fn run(&self, state: &mut State, batch: &Batch<'_>) -> Result<(), Error> {
        self.limits.admit(batch, state)?;
        self.many.capacity.admit(batch)?;
        self.admit_pairs(batch, &state.crossing)?;

        let way = self.way(batch);
        let floats = way.floats();
        let Parts { cache, crossing, rows, memory } = state.parts::<Memory>();
        memory.cache.prepare(cache)?;
        memory.crossing.prepare(crossing)?;
        let arena = Block { data: memory.arena(floats).as_mut_ptr(), rows: 1, width: floats };
        let kept = memory.kept.bind(&self.kept, batch)?;
        let run = Context {
            isa: self.isa,
            dot: self.dot,
            narrow: self.narrow,
            tiles: self.tiles,
            near: self.near,
            batch,
            cache: memory.cache.at(cache),
            crossing: memory.crossing.at(crossing),
        };
        let bound = Bound { way, constants: &self.constants, sharing: self.sharing, arena, kept, run: &run };
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
        for &slot in &way.outputs {
            let Home::Arena(offset) = way.slots[slot].home else { unreachable!("outputs are in the arena") };
            rows.push(way.rows(slot, batch, crossing));
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
                **sum = unsafe { kernels::leaders(self.isa, ask, row, found) };
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
fn has_wide_gradient(graph: &Graph, tiles: bool) -> bool {
    graph
        .nodes()
        .iter()
        .any(|node| matches!(&node.op, Op::AttendGrad(grad) if !tiles || !kernels::has_narrow_grad(grad)))
}
