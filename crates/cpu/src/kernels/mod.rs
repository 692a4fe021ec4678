//! The kernels, and which one each operation runs on: a new operation does not compile until it says so ([`CpuOperation`]).
//!
//! A kernel is called by every worker of a team at once and shares its work out by itself. It may have barriers inside;
//! the plan puts them between steps.

use crate::tuning::kernels::{LOWP_ROWS, LOWP_SPEEDUP, MULTIPLICATIONS};
use glassformer_graph::ops::{Activation, Attend, Keys, Lookup, Norm, Rotate, Sinusoid, Which};
use glassformer_graph::{Capacity, Op, Shape, Side, each_op};
use glassformer_plan::EpilogueKind;
use glassformer_tensor::Coding;

use crate::context::{Block, Context};
use crate::gemm::Gemm;
use crate::lowp::{self, Dot, Format, Operand, RowFormat};
use crate::team::Worker;

mod activation;
mod adaptive;
mod attend;
mod coded;
mod gated;
mod gather;
mod halt;
mod linear;
mod losses;
mod map;
mod norm;
mod optimise;
pub(crate) mod position;
mod row;
mod softmax;
mod split;
mod top_k;

pub(crate) use attend::has_bf16_grad;
pub(crate) use linear::{OutputFormat, Packs};
pub(crate) use top_k::top_k;

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Kernel {
    /// An operation of the graph. The B of a product comes packed, angles come as a further input, and where there is a
    /// [workspace](Needs), that is a further output.
    Op(Op),
    /// Packs a value as the B of a product.
    Pack(Packs),
    /// Quantizes a value as the A of a product.
    Quantize(RowFormat),
    /// A norm, which quantizes what it writes: a further output.
    QuantizedNorm(Norm, RowFormat),
    /// Packs a value as an operand of a product in `bf16`, perhaps transposed. If the value is in `bf16`, this is its width.
    PackOperand(Operand, Option<usize>),
    /// Sums over the rows of a value in `bf16`.
    SumBf16Rows,
    /// A product with an epilogue: x, W packed, perhaps a bias, perhaps what the epilogue reads.
    Product(EpilogueKind),
    /// The same in low precision. x comes quantized and had `k` columns. If only such products read y, it writes y quantized.
    LowpProduct { format: Format, k: usize, epilogue: EpilogueKind, output: OutputFormat },
    /// The same with two weights, act(x Gᵀ) · x Wᵀ: x quantized, G, W, perhaps both biases. Outputs: y, scratch for the gate, and perhaps y
    /// quantized.
    LowpGated { format: Format, k: usize, act: Activation, output: OutputFormat },
    /// An attention whose queries, keys and values are in `bf16`. Queries are scaled already.
    Bf16Attend(Attend),
    /// The gradient of a weight in `bf16`: dyᵀ as A, x as B, and dy, of which only the number of rows is used.
    Bf16WeightGrad,
    /// A product of x quantized and a coded weight, perhaps a bias, perhaps what the epilogue reads. x had `k` columns.
    CodedProduct { coding: Coding, k: usize, epilogue: EpilogueKind },
    /// The same with two weights, as [`Kernel::LowpGated`] has them.
    CodedGated { coding: Coding, k: usize, act: Activation },
    /// A lookup in a table of so many rows, in `int8`, laid out as the B of a product.
    Int8Lookup { op: Lookup, vocabulary: usize },
    /// The same in a table that only lookups read.
    TableLookup { op: Lookup, vocabulary: usize },
    /// A lookup in a coded table of so many rows.
    CodedLookup { op: Lookup, coding: Coding, vocabulary: usize },
    /// Computes the angles of this run's rows.
    Angles(Rotate),
    /// Copies what came from outside.
    Copy,
}

impl Kernel {
    /// Whether each row that it writes depends on the same row of what it reads, and on what is the same for all.
    pub fn is_by_rows(&self) -> bool {
        match self {
            Self::Op(op) => each_op!(op, it => by_rows(it)),
            Self::Quantize(_)
            | Self::QuantizedNorm(..)
            | Self::Product(_)
            | Self::LowpProduct { .. }
            | Self::LowpGated { .. }
            | Self::CodedProduct { .. }
            | Self::CodedGated { .. }
            | Self::Int8Lookup { .. }
            | Self::TableLookup { .. }
            | Self::CodedLookup { .. }
            | Self::Copy => true,
            Self::Pack(_)
            | Self::PackOperand(..)
            | Self::SumBf16Rows
            | Self::Bf16Attend(_)
            | Self::Bf16WeightGrad
            | Self::Angles(_) => false,
        }
    }

    /// The input that output number `output` may overwrite: each number depends on the same one of that alone.
    pub fn in_place_of(&self, output: usize) -> Option<usize> {
        match self {
            Self::Op(op) => each_op!(op, it => it.in_place_of(output)),
            _ => None,
        }
    }

    /// The side whose sequences it goes by, if each row that it writes depends on the rows of the same sequence alone. Then it may be part of a
    /// row block that holds whole sequences. It is called with whole blocks, and told which sequences are
    /// meant.
    pub fn by_sequences(&self) -> Option<Side> {
        match self {
            Self::Op(op) => each_op!(op, it => it.by_sequences()),
            Self::Bf16Attend(op) => op.by_sequences(),
            _ => None,
        }
    }
}

/// How the CPU runs an operation. Implemented beside its kernel.
pub(crate) trait CpuOperation {
    /// Whether each row that it writes depends on the same row of what it reads, and on what is the same for all.
    const BY_ROWS: bool = false;

    /// What it needs besides its inputs and outputs, with inputs of these shapes.
    fn needs(&self, _inputs: &[Shape], _capacity: &Capacity) -> Needs {
        Needs::default()
    }

    /// As [`Kernel::in_place_of`].
    fn in_place_of(&self, _output: usize) -> Option<usize> {
        None
    }

    /// As [`Kernel::by_sequences`].
    fn by_sequences(&self) -> Option<Side> {
        None
    }

    /// Runs this worker's part.
    ///
    /// # Safety
    /// As [`Call`] says; `scratch` is what [`CpuOperation::needs`] says, and this worker's own.
    unsafe fn run(&self, call: Call<'_>, scratch: &mut [f32]);
}

/// [`CpuOperation::BY_ROWS`] of this operation.
fn by_rows<O: CpuOperation>(_: &O) -> bool {
    O::BY_ROWS
}

/// What a kernel is called with.
///
/// # Safety
/// Every kernel demands the same of its caller: `run.isa` is one of this machine's; inputs and outputs are what the
/// kernel expects, each with `rows · width` numbers; no output overlaps an input or another output; nobody else writes
/// any of them, or reads the outputs; and every worker of the team makes the same call.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// What is read.
    pub inputs: &'a [Block],
    /// What is written.
    pub outputs: &'a [Block],
    /// The row of the run that the blocks begin with: not 0 inside a row block.
    pub first: usize,
    /// The sequences of an attention inside a row block; else all.
    pub sequences: Option<(usize, usize)>,
    /// What all steps of the run share.
    pub run: &'a Context<'a>,
    /// Who calls.
    pub worker: &'a Worker<'a>,
}

/// A workspace or a scratch as numbers of 64 bits: both begin on cache lines.
fn as_f64(data: *mut f32) -> *mut f64 {
    data.cast()
}

/// What an operation needs besides its inputs and outputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// Floats that all workers share; they are a further output.
    pub workspace: usize,
    /// Floats for each worker alone.
    pub scratch: usize,
    /// What it reads besides its inputs, or of them in another form.
    pub reads: Reads,
    /// Which slot of which pages it uses.
    pub pages: Option<(Which, usize, Access)>,
    /// How its work grows.
    pub work: Work,
}

/// How the work of a step grows with its sizes. A rough guess will do: it only tells small steps from large ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Work {
    /// With the numbers that it reads and writes.
    #[default]
    Numbers,
    /// With the numbers of its first input.
    First,
    /// As a product of low-precision numbers over `k` columns.
    Lowp { k: usize },
    /// With the numbers that it writes: it reads as many rows of a table.
    Rows,
    /// As a product over the columns of its first input.
    OverColumns,
    /// As a product over the rows of its first input.
    OverRows,
    /// As a product of low-precision numbers over the rows of its third input.
    LowpOverRows,
    /// With queries times keys.
    Pairs(Attend),
}

/// How much work there is, in units of a quarter of a nanosecond: one number read, handled and written where one core has
/// it in its cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    /// In products: reading B, or multiplying by it where there are many rows.
    pub products: usize,
    /// In numbers that go from step to step, and from core to core where steps are shared out.
    pub numbers: usize,
}

impl std::ops::Add for Effort {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { products: self.products + other.products, numbers: self.numbers + other.numbers }
    }
}

impl Work {
    /// The effort of a step.
    pub fn of(self, inputs: &[Block], outputs: &[Block], run: &Context<'_>) -> Effort {
        let count = |blocks: &[Block]| blocks.iter().map(|block| block.rows * block.width).sum::<usize>();
        let product = |rows: usize, b: usize| Effort {
            products: b * rows.div_ceil(MULTIPLICATIONS),
            numbers: count(&inputs[..1]) + count(outputs),
        };
        let lowp = |rows: usize, b: usize| {
            let [on_tiles, on_vectors] = LOWP_ROWS;
            b / LOWP_SPEEDUP * rows.div_ceil(if run.dot == Dot::Amx { on_tiles } else { on_vectors })
        };
        match self {
            Self::Numbers => Effort { products: 0, numbers: count(inputs) + count(outputs) },
            Self::First => Effort { products: 0, numbers: count(&inputs[..1]) },
            Self::Lowp { k } => Effort {
                products: lowp(outputs[0].rows, k * outputs[0].width),
                numbers: outputs[0].rows * k + count(&outputs[..1]),
            },
            Self::Rows => Effort { products: 0, numbers: 2 * count(outputs) },
            Self::OverColumns => product(outputs[0].rows, inputs[0].width * outputs[0].width),
            Self::OverRows => product(outputs[0].rows, inputs[0].rows * outputs[0].width),
            Self::LowpOverRows => Effort {
                products: lowp(outputs[0].rows, inputs[2].rows * outputs[0].width),
                numbers: count(&inputs[2..]) + count(outputs),
            },
            Self::Pairs(op) => Effort {
                products: 2 * run.pairs(&op) * op.heads * op.size / MULTIPLICATIONS,
                numbers: count(inputs) + count(outputs),
            },
        }
    }
}

/// What a kernel reads.
#[derive(Clone, Debug, Default)]
pub(crate) enum Reads {
    /// The operation's inputs.
    #[default]
    Inputs,
    /// Its inputs, of which this one is packed.
    Packed(usize, Packs),
    /// Its inputs, and then the rows of a sinusoid.
    Sinusoid(Sinusoid),
    /// Its inputs, and then the angles to rotate by.
    Angles(Rotate),
}

/// What is done to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only looked at.
    Read,
    /// Written.
    Write,
}

impl Needs {
    fn product(workspace: usize, reads: Reads, work: Work) -> Self {
        Self { workspace, scratch: Gemm::SCRATCH, reads, pages: None, work }
    }

    fn attend(op: &Attend, scratch: usize) -> Self {
        let pages = match op.keys {
            Keys::Pages(which, slot) => Some((which, slot, Access::Read)),
            Keys::Rows(_) => None,
        };
        Self { scratch, pages, work: Work::Pairs(*op), ..Self::default() }
    }
}

/// What `op` needs with inputs of these shapes.
pub(crate) fn needs(op: &Op, inputs: &[Shape], capacity: &Capacity) -> Needs {
    each_op!(op, it => it.needs(inputs, capacity))
}

/// Runs one step's part of this worker.
///
/// # Safety
/// As [`Call`] says; `scratch` is what [`needs`] says, and this worker's own.
pub(crate) unsafe fn run(kernel: &Kernel, call: Call<'_>, scratch: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe {
        match kernel {
            Kernel::Op(op) => each_op!(op, it => it.run(call, scratch)),
            Kernel::Pack(packs) => linear::pack(*packs, call),
            Kernel::Quantize(kind) => linear::quantize(*kind, call),
            Kernel::QuantizedNorm(op, kind) => norm::norm(op, Some(*kind), call),
            Kernel::PackOperand(operand, quantized) => linear::pack_operand(*operand, *quantized, call),
            Kernel::SumBf16Rows => gather::sum_bf16_rows(call),
            Kernel::Bf16Attend(op) => attend::attend(op, true, call, scratch),
            Kernel::Bf16WeightGrad => linear::bf16_weight_grad(call),
            Kernel::Product(epilogue) => linear::linear(*epilogue, call, scratch),
            Kernel::LowpProduct { format, k, epilogue, output } => {
                linear::lowp_product(*format, *k, *epilogue, *output, call);
            }
            Kernel::LowpGated { format, k, act, output } => {
                gated::lowp(*format, *k, *act, *output, call);
            }
            Kernel::CodedProduct { coding, k, epilogue } => coded::product(*coding, *k, *epilogue, call),
            Kernel::CodedGated { coding, k, act } => gated::coded(*coding, *k, *act, call),
            // Rows that are looked up exist, and are as wide as y.
            Kernel::Int8Lookup { op, vocabulary } => {
                coded::lookup(op, *vocabulary, call, |table, row, out| {
                    lowp::Weight::decode(table, *vocabulary, row, out);
                });
            }
            Kernel::TableLookup { op, vocabulary } => {
                coded::lookup(op, *vocabulary, call, |table, row, out| {
                    lowp::Table::decode(call.run.isa, table, row, out);
                });
            }
            Kernel::CodedLookup { op, coding, vocabulary } => {
                coded::lookup(op, *vocabulary, call, |table, row, out| {
                    lowp::coded::Weight::decode(*coding, table, row, out);
                });
            }
            Kernel::Angles(op) => position::angles(op, call),
            Kernel::Copy => map::copy(call),
        }
    }
}
