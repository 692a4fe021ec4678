//! The kernels against the reference, and against themselves: what must have the same bits has the same bits.

mod bits;
mod cases;
mod long;

use std::num::NonZeroUsize;
use std::sync::Mutex;

use glassformer_graph::ops::{
    Attend, AttendGrad, AttendShow, Keys, Pattern, Reach, Relative, Store, Which, Who,
};
use glassformer_graph::{
    Array, Batch, Capacity, Dtype, Operation, PAGE, PageLayout, Pages, Parts, Rows, Side, Slot, Span, State,
    World,
};
use glassformer_tensor::{Random, Tolerance, compare};

use crate::context::{Block, Context};
use crate::isa::Isa;
use crate::kernels::{Call, CpuOperation};
use crate::lowp::Dot;
use crate::pages::PageMemory;
use crate::team::{Team, Worker};

/// Rows of numbers.
#[derive(Clone, Debug, PartialEq)]
struct Numbers {
    rows: usize,
    width: usize,
    data: Vec<f32>,
}

impl Numbers {
    fn normal(rows: usize, width: usize, random: &mut Random) -> Self {
        Self { rows, width, data: (0..rows * width).map(|_| random.normal()).collect() }
    }

    fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.width..(i + 1) * self.width]
    }

    /// Some of its rows.
    fn part(&self, rows: std::ops::Range<usize>) -> Self {
        let data = self.data[rows.start * self.width..rows.end * self.width].to_vec();
        Self { rows: rows.len(), width: self.width, data }
    }

    fn widen(&self) -> Array {
        Array::widen(self.rows, self.width, &self.data)
    }

    fn rounded(array: &Array) -> Self {
        Self { rows: array.rows, width: array.width, data: array.data.iter().map(|&x| x as f32).collect() }
    }

    fn bits(&self) -> Vec<u32> {
        self.data.iter().map(|x| x.to_bits()).collect()
    }
}

/// How a kernel is run.
#[derive(Clone, Copy, Debug)]
struct How {
    isa: Isa,
    workers: usize,
    /// Whether keys and values are in low precision: on tiles with AMX, on vectors with anything else.
    lowp: bool,
    dot: Dot,
}

impl How {
    fn best() -> Self {
        Self::f32(Isa::best(), 2)
    }

    fn f32(isa: Isa, workers: usize) -> Self {
        Self { isa, workers, lowp: false, dot: Dot::Scalar }
    }

    /// On tiles of low-precision numbers, where this machine has them.
    fn tiles() -> Option<Self> {
        (Dot::Amx.is_available() && Dot::Avx512Dot.is_available()).then(|| Self {
            lowp: true,
            dot: Dot::Amx,
            ..Self::best()
        })
    }

    /// Everywhere where keys and values are in low precision.
    fn lowp() -> Vec<Self> {
        let on_vectors = Isa::available().into_iter().map(|isa| Self { lowp: true, ..Self::f32(isa, 2) });
        on_vectors.chain(Self::tiles()).collect()
    }

    fn everywhere() -> Vec<Self> {
        Isa::available().into_iter().flat_map(|isa| [1, 3].map(|workers| Self::f32(isa, workers))).collect()
    }
}

/// NaN that no computation makes: what nobody may read, and what stays where nobody writes.
const POISON: f32 = f32::from_bits(0x7FC0_DEAD);
const MARGIN: usize = 32;
/// How near low-precision numbers come: some queries are long, and eight bits of a score of ten are its exponential's third digit.
const LOWP_TOLERANCE: f32 = 8e-2;
/// The same for gradients as a whole, in parts of their length.
const LOWP_GRAD_TOLERANCE: f32 = 3e-2;

/// The memory of a state.
#[derive(Default)]
struct Memory {
    cache: PageMemory,
    crossing: PageMemory,
}

/// The same keys and values, as kernels store them and as the reference does.
#[derive(Default)]
struct Stored {
    kernel: State,
    reference: State,
}

/// What is tested.
#[derive(Clone, Debug)]
enum Kernel {
    Attend(Attend),
    Grad(AttendGrad),
    Show(AttendShow),
    Store(Store),
}

impl From<Attend> for Kernel {
    fn from(op: Attend) -> Self {
        Self::Attend(op)
    }
}

/// The sizes of an operation's outputs, and its scratch.
fn sizes(
    kernel: &Kernel,
    inputs: &[Numbers],
    batch: &Batch<'_>,
    state: &State,
) -> (Vec<(usize, usize)>, usize) {
    let capacity = Capacity::of(batch);
    match kernel {
        Kernel::Attend(op) => {
            let rows = inputs[0].rows;
            (vec![(rows, op.heads * op.size), (rows, op.heads)], op.needs(&[], &capacity).scratch)
        }
        Kernel::Grad(op) => {
            let outputs = inputs[..inputs.len() - 3].iter().map(|x| (x.rows, x.width)).collect();
            (outputs, op.needs(&[], &capacity).scratch)
        }
        Kernel::Show(op) => (
            vec![(op.attend.pairs(batch, &state.crossing), op.attend.heads)],
            op.needs(&[], &capacity).scratch,
        ),
        Kernel::Store(_) => (Vec::new(), 0),
    }
}

/// Runs a kernel on poisoned outputs and scratch, between poisoned margins.
fn run(kernel: &Kernel, inputs: &[Numbers], batch: &Batch<'_>, state: &mut State, how: How) -> Vec<Numbers> {
    let (sizes, scratch) = sizes(kernel, inputs, batch, state);
    let padded = |data: &[f32]| [data, &[POISON; MARGIN]].concat();
    let mut given: Vec<Vec<f32>> = inputs.iter().map(|x| padded(&x.data)).collect();
    let mut made: Vec<Vec<f32>> = sizes.iter().map(|(r, w)| vec![POISON; r * w + MARGIN]).collect();
    let block = |data: &mut Vec<f32>, rows, width| Block { data: data.as_mut_ptr(), rows, width };
    let inputs: Vec<Block> = given.iter_mut().zip(inputs).map(|(d, x)| block(d, x.rows, x.width)).collect();
    let outputs: Vec<Block> = made.iter_mut().zip(&sizes).map(|(d, &(r, w))| block(d, r, w)).collect();
    let Parts { cache, crossing, memory, .. } = state.parts::<Memory>();
    memory.cache.prepare(cache).expect("it is small");
    memory.crossing.prepare(crossing).expect("it is small");
    let run = Context {
        bf16: how.lowp,
        tiles: how.dot == Dot::Amx,
        approximate: false,
        dot: how.dot,
        isa: how.isa,
        batch,
        cache: memory.cache.at(cache),
        crossing: memory.crossing.at(crossing),
    };
    let team = Team::new(NonZeroUsize::new(how.workers).expect("a team has workers"));
    let scratches: Vec<_> = (0..how.workers).map(|_| Mutex::new(vec![POISON; scratch])).collect();
    team.run(&|worker: &Worker<'_>| {
        let mut scratch = scratches[worker.index].lock().expect("nobody panicked with it");
        // SAFETY: inputs, outputs and pages are those of the operation, and nobody else has them.
        unsafe {
            let (inputs, outputs) = (&inputs[..], &outputs[..]);
            let call = Call { inputs, outputs, first: 0, sequences: None, run: &run, worker };
            match kernel {
                Kernel::Attend(op) => super::attend(op, false, call, &mut scratch),
                Kernel::Grad(op) => op.run(call, &mut scratch),
                Kernel::Show(op) => op.run(call, &mut scratch),
                Kernel::Store(op) => op.run(call, &mut scratch),
            }
        }
    });
    let margin =
        |data: &Vec<f32>| data[data.len() - MARGIN..].iter().all(|x| x.to_bits() == POISON.to_bits());
    assert!(made.iter().all(margin), "something was written behind an output");
    let cut = |(mut data, (rows, width)): (Vec<f32>, (usize, usize))| {
        data.truncate(rows * width);
        Numbers { rows, width, data }
    };
    made.into_iter().zip(sizes).map(cut).collect()
}

/// What the reference says.
fn expected(kernel: &Kernel, inputs: &[Numbers], batch: &Batch<'_>, state: &mut State) -> Vec<Numbers> {
    let wide: Vec<Array> = inputs.iter().map(Numbers::widen).collect();
    let wide: Vec<&Array> = wide.iter().collect();
    let mut world = World::of(batch, state);
    let made = match kernel {
        Kernel::Attend(op) => op.reference(&wide, &mut world),
        Kernel::Grad(op) => op.reference(&wide, &mut world),
        Kernel::Show(op) => op.reference(&wide, &mut world),
        Kernel::Store(op) => op.reference(&wide, &mut world),
    };
    made.iter().map(Numbers::rounded).collect()
}

/// Compares what a kernel makes with what the reference says, where nothing is stored; where they differ, says how it was run.
fn check(kernel: &Kernel, inputs: &[Numbers], batch: &Batch<'_>, bound: f32, hows: &[How]) {
    check_stored(kernel, inputs, batch, &mut Stored::default(), bound, hows);
}

/// The same where keys and values are stored.
fn check_stored(
    kernel: &Kernel,
    inputs: &[Numbers],
    batch: &Batch<'_>,
    stored: &mut Stored,
    bound: f32,
    hows: &[How],
) {
    let expected = expected(kernel, inputs, batch, &mut stored.reference);
    for &how in hows {
        let found = run(kernel, inputs, batch, &mut stored.kernel, how);
        for (k, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if let Err(difference) = compare(&found.data, &expected.data, Tolerance::both(bound)) {
                panic!("output {k} of {kernel:?}, {how:?}: {difference}");
            }
        }
    }
}

/// The inputs of the gradient of `op`: its own, what the reference makes of them, and a random dy.
fn grad_inputs(op: &Attend, inputs: &[Numbers], batch: &Batch<'_>, random: &mut Random) -> Vec<Numbers> {
    let mut all = inputs.to_vec();
    all.extend(expected(&Kernel::Attend(*op), inputs, batch, &mut State::default()));
    all.push(Numbers::normal(inputs[0].rows, inputs[0].width, random));
    all
}

/// Checks the gradient of `op`.
fn check_grad(op: &Attend, inputs: &[Numbers], batch: &Batch<'_>, bound: f32, hows: &[How]) {
    let inputs = grad_inputs(op, inputs, batch, &mut Random::new(5));
    let grad = Kernel::Grad(AttendGrad { attend: *op });
    check(&grad, &inputs, batch, bound, hows);
}

/// A dense attention of the target's rows to the past, to vary.
fn plain(heads: usize, key_heads: usize, size: usize) -> Attend {
    Attend {
        side: Side::Target,
        heads,
        key_heads,
        size,
        scale: 1.0 / (size as f32).sqrt(),
        reach: Reach::Past,
        pattern: Pattern::Dense,
        who: Who::Every,
        relative: Relative::None,
        keys: Keys::Rows(Rows::Tokens(Side::Target)),
    }
}

/// A batch of target sequences of these lengths.
fn sequences(lengths: &[usize]) -> Batch<'static> {
    let mut batch = Batch::default();
    for &len in lengths {
        batch.target.push_rows(len, Span::default());
    }
    batch
}

/// Random inputs for `op`. Some queries are long, so that a softmax has scores far apart.
fn draw(op: &Attend, batch: &Batch<'_>, random: &mut Random) -> Vec<Numbers> {
    let mut inputs = vec![Numbers::normal(batch.target.rows(), op.heads * op.size, random)];
    for row in inputs[0].data.chunks_mut(op.heads * op.size) {
        let factor = *random.pick(&[1.0, 1.0, 1.0, 6.0]);
        for x in row {
            *x *= factor;
        }
    }
    if let Keys::Rows(rows) = op.keys {
        for _ in 0..2 {
            inputs.push(Numbers::normal(batch.count(rows), op.key_heads * op.size, random));
        }
    }
    inputs.extend(draw_relative(op, batch.count(Rows::Distances(op.side)), random));
    inputs
}

/// What the relative positions need, for so many distances.
fn draw_relative(op: &Attend, distances: usize, random: &mut Random) -> Vec<Numbers> {
    let width = op.heads * op.size;
    match op.relative {
        Relative::None | Relative::Alibi => Vec::new(),
        Relative::Buckets { .. } => vec![Numbers::normal(12, op.heads, random)],
        Relative::TransformerXl => {
            [distances, 1, 1].map(|rows| Numbers::normal(rows, width, random)).to_vec()
        }
    }
}

/// A state with room for so many rows of one attention in the cache, and a table of so many rows for each length. Its
/// pages are poisoned.
fn pages(slot: Slot, lengths: &[usize], lowp: bool) -> State {
    let mut state = poisoned(slot, lengths.iter().map(|len| len.div_ceil(PAGE)).sum(), lowp);
    for &len in lengths {
        let table = state.cache.open();
        state.cache.reserve(table, len).expect("there are enough pages");
        state.cache.set_len(table, len);
    }
    state
}

/// So many pages, with two slots, of which the second is used, so that offsets count; for keys and values in low precision or in `f32`.
fn poisoned(slot: Slot, count: usize, lowp: bool) -> State {
    let layout = PageLayout::new(vec![Slot { heads: 1, size: 3 }, slot]);
    let dtype = if lowp { Dtype::Bf16 } else { Dtype::F32 };
    let mut state = State::new(Pages::new(layout.with_dtype(dtype), count), Pages::default());
    let Parts { cache, memory, .. } = state.parts::<Memory>();
    memory.cache.prepare(cache).expect("it is small");
    memory.cache.data_mut().fill(POISON);
    state
}

/// The same rows as those of a source.
fn as_source(mut state: State) -> State {
    let memory = std::mem::take(state.parts::<Memory>().memory);
    let mut other = State::new(Pages::default(), state.cache);
    other.parts::<Memory>().memory.crossing = memory.cache;
    other
}

/// The attention on pages, and the store that fills them.
fn paged(op: &Attend) -> (Kernel, Kernel) {
    let heads = Slot { heads: op.key_heads, size: op.size };
    let store = Store { side: op.side, pages: Which::Cache, slot: 1, heads };
    (Kernel::Attend(Attend { keys: Keys::Pages(Which::Cache, 1), ..*op }), Kernel::Store(store))
}
