//! The kernels, and which one each operation runs on. The match below has no `_` arm: a new operation does not compile
//! until it is here.
//!
//! A kernel is called by every worker of a team at once and shares its work out by itself. It may have barriers inside;
//! the plan puts them between steps.

use crate::tuning::kernels::{LOWP_ROWS, LOWP_SPEEDUP, MULTIPLICATIONS};
use glassformer_graph::ops::{Activation, Attend, Keys, Lookup, Norm, Rotate, Sinusoid, Which};
use glassformer_graph::{Capacity, Op, Rows, Shape, Side};
use glassformer_plan::EpilogueKind;
use glassformer_tensor::Coding;

use crate::context::{Block, Context};
use crate::gemm::Gemm;
use crate::lowp::{Dot, Format, Operand, RowFormat};
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
    Int8Lookup { op: Lookup, words: usize },
    /// The same in a table that only lookups read.
    TableLookup { op: Lookup, words: usize },
    /// A lookup in a coded table of so many rows.
    CodedLookup { op: Lookup, coding: Coding, words: usize },
    /// Computes the angles of this run's rows.
    Angles(Rotate),
    /// Copies what came from outside.
    Copy,
}

impl Kernel {
    /// Whether each row that it writes depends on the same row of what it reads, and on what is the same for all.
    pub fn is_by_rows(&self) -> bool {
        match self {
            Self::Op(op) => op_is_by_rows(op),
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
}

impl Kernel {
    /// The input that output number `output` may overwrite: each number depends on the same one of that alone.
    pub fn in_place_of(&self, output: usize) -> Option<usize> {
        match self {
            Self::Op(Op::Accumulate(_)) => Some(0),
            Self::Op(Op::AdamW(_)) => [0, 2, 3, 6].get(output).copied(),
            _ => None,
        }
    }

    /// The side whose sequences it goes by, if each row that it writes depends on the rows of the same sequence alone. Then it may be part of a
    /// row block that holds whole sequences. It is called with whole blocks, and told which sequences are
    /// meant.
    pub fn by_sequences(&self) -> Option<Side> {
        match self {
            Self::Op(Op::Attend(op)) | Self::Bf16Attend(op)
                if op.keys == Keys::Rows(Rows::Tokens(op.side)) =>
            {
                Some(op.side)
            }
            _ => None,
        }
    }
}

/// [`Kernel::is_by_rows`] of an operation.
fn op_is_by_rows(op: &Op) -> bool {
    match op {
        Op::Fill(_)
        | Op::Sinusoid(_)
        | Op::Lookup(_)
        | Op::Linear(_)
        | Op::LinearInputGrad(_)
        | Op::Add(_)
        | Op::Mul(_)
        | Op::Scale(_)
        | Op::AddRow(_)
        | Op::RepeatRow(_)
        | Op::MulColumn(_)
        | Op::DotColumns(_)
        | Op::Activate(_)
        | Op::ActivateGrad(_)
        | Op::Gate(_)
        | Op::GateGrad(_)
        | Op::Dropout(_)
        | Op::Norm(_)
        | Op::Softmax(_)
        | Op::SoftmaxGrad(_)
        | Op::Rotate(_) => true,
        Op::LookupGrad(_)
        | Op::LinearWeightGrad(_)
        | Op::SumRows(_)
        | Op::NormGrad(_)
        | Op::Adaptive(_)
        | Op::AdaptiveGrad(_)
        | Op::Attend(_)
        | Op::AttendGrad(_)
        | Op::AttendShow(_)
        | Op::Store(_)
        | Op::Squeeze(_)
        | Op::SqueezeGrad(_)
        | Op::Recall(_)
        | Op::RecallGrad(_)
        | Op::Lead(_)
        | Op::LeadGrad(_)
        | Op::Pool(_)
        | Op::PoolGrad(_)
        | Op::Pick(_)
        | Op::PickGrad(_)
        | Op::Halt(_)
        | Op::HaltGrad(_)
        | Op::CrossEntropy(_)
        | Op::CrossEntropyGrad(_)
        | Op::SpanLoss(_)
        | Op::SpanLossGrad(_)
        | Op::PairLoss(_)
        | Op::PairLossGrad(_)
        | Op::Correct(_)
        | Op::SumSquares(_)
        | Op::Accumulate(_)
        | Op::AdamW(_)
        | Op::Remember(_) => false,
    }
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
fn wide(data: *mut f32) -> *mut f64 {
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
    let rows = |k: usize| capacity.count(inputs[k].rows);
    match op {
        Op::Linear(_) => Needs::product(0, Reads::Packed(1, Packs::Transposed), Work::OverColumns),
        Op::LinearInputGrad(_) => Needs::product(0, Reads::Packed(1, Packs::Rows), Work::OverColumns),
        Op::LinearWeightGrad(_) => Needs::product(0, Reads::Packed(1, Packs::Rows), Work::OverRows),
        // Every row of E is multiplied by rows of x.
        Op::Squeeze(_) => {
            let workspace = linear::squeeze_workspace(rows(0), inputs[0].width);
            Needs::product(workspace, Reads::Inputs, Work::OverRows)
        }
        Op::SqueezeGrad(_) => {
            let workspace = linear::squeeze_grad_workspace(rows(0), rows(2), inputs[0].width);
            Needs::product(workspace, Reads::Inputs, Work::OverRows)
        }
        Op::NormGrad(op) => Needs { workspace: rows(0) * op.norm.parts * norm::MOMENTS, ..Needs::default() },
        Op::Sinusoid(op) => Needs { reads: Reads::Sinusoid(*op), work: Work::Rows, ..Needs::default() },
        Op::Lookup(_) => Needs { work: Work::Rows, ..Needs::default() },
        Op::Rotate(op) => {
            let reads = Reads::Angles(op.clone());
            Needs { scratch: op.turning, reads, work: Work::Rows, ..Needs::default() }
        }
        Op::Attend(op) => Needs::attend(op, attend::scratch(op, capacity)),
        Op::AttendGrad(op) => Needs::attend(&op.attend, attend::grad_scratch(op, capacity)),
        Op::AttendShow(op) => Needs::attend(&op.attend, attend::show_scratch(op, capacity)),
        Op::Store(op) => Needs { pages: Some((op.pages, op.slot, Access::Write)), ..Needs::default() },
        Op::SumSquares(_) => {
            let numbers = inputs.iter().map(|shape| capacity.count(shape.rows) * shape.width);
            Needs { workspace: optimise::squares_workspace(numbers), ..Needs::default() }
        }
        Op::PairLossGrad(_) => Needs {
            workspace: losses::pairs_workspace(rows(0)),
            scratch: losses::pairs_scratch(inputs[0].width),
            ..Needs::default()
        },
        Op::Fill(_)
        | Op::LookupGrad(_)
        | Op::Add(_)
        | Op::Mul(_)
        | Op::Scale(_)
        | Op::AddRow(_)
        | Op::SumRows(_)
        | Op::RepeatRow(_)
        | Op::MulColumn(_)
        | Op::DotColumns(_)
        | Op::Activate(_)
        | Op::ActivateGrad(_)
        | Op::Gate(_)
        | Op::GateGrad(_)
        | Op::Dropout(_)
        | Op::Norm(_)
        | Op::Softmax(_)
        | Op::SoftmaxGrad(_)
        | Op::Adaptive(_)
        | Op::AdaptiveGrad(_)
        | Op::Recall(_)
        | Op::RecallGrad(_)
        | Op::Lead(_)
        | Op::LeadGrad(_)
        | Op::Pool(_)
        | Op::PoolGrad(_)
        | Op::Pick(_)
        | Op::PickGrad(_)
        | Op::Halt(_)
        | Op::HaltGrad(_)
        | Op::CrossEntropy(_)
        | Op::CrossEntropyGrad(_)
        | Op::SpanLoss(_)
        | Op::SpanLossGrad(_)
        | Op::PairLoss(_)
        | Op::Correct(_)
        | Op::Accumulate(_)
        | Op::AdamW(_)
        | Op::Remember(_) => Needs::default(),
    }
}

/// Runs one step's part of this worker.
///
/// # Safety
/// As [`Call`] says; `scratch` is what [`needs`] says, and this worker's own.
pub(crate) unsafe fn run(kernel: &Kernel, call: Call<'_>, scratch: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe {
        match kernel {
            Kernel::Op(op) => run_op(op, call, scratch),
            Kernel::Pack(packs) => linear::pack(*packs, call),
            Kernel::Quantize(kind) => linear::quantize(*kind, call),
            Kernel::QuantizedNorm(op, kind) => norm::norm(op, Some(*kind), call),
            Kernel::PackOperand(operand, quantized) => linear::pack_operand(*operand, *quantized, call),
            Kernel::SumBf16Rows => gather::sum_bf16_rows(call),
            Kernel::Bf16Attend(op) => attend::attend((op, true), call, scratch),
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
            Kernel::Int8Lookup { op, words } => coded::int8_lookup(op, *words, call),
            Kernel::TableLookup { op, words } => coded::table_lookup(op, *words, call),
            Kernel::CodedLookup { op, coding, words } => coded::lookup(op, *coding, *words, call),
            Kernel::Angles(op) => position::angles(op, call),
            Kernel::Copy => map::copy(call),
        }
    }
}

/// # Safety
/// As for [`run`].
unsafe fn run_op(op: &Op, call: Call<'_>, scratch: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            Op::Fill(op) => map::fill(op, call),
            Op::Sinusoid(op) => position::sinusoid(op, call),
            Op::Lookup(op) => gather::lookup(op, call),
            Op::LookupGrad(op) => gather::lookup_grad(op, call),
            Op::Linear(_) | Op::LinearInputGrad(_) => linear::linear(EpilogueKind::Nothing, call, scratch),
            Op::LinearWeightGrad(_) => linear::linear_weight_grad(call, scratch),
            Op::Add(_) => map::map_two(call, map::Sum),
            Op::Mul(_) => map::map_two(call, map::Multiply),
            Op::Scale(op) => map::scale(op, call),
            Op::AddRow(_) => map::add_row(call),
            Op::SumRows(_) => gather::sum_rows(call),
            Op::RepeatRow(_) => map::repeat_row(call),
            Op::MulColumn(_) => map::mul_column(call),
            Op::DotColumns(_) => softmax::dot_columns(call),
            Op::Activate(op) => activation::activate(op.act, call),
            Op::ActivateGrad(op) => activation::activate_grad(op.act, call),
            Op::Gate(op) => activation::gate(op.act, call),
            Op::GateGrad(op) => activation::gate_grad(op.act, call),
            Op::Dropout(op) => map::dropout(op, call),
            Op::Norm(op) => norm::norm(op, None, call),
            Op::NormGrad(op) => norm::norm_grad(op, call),
            Op::Softmax(_) => softmax::softmax(call),
            Op::SoftmaxGrad(_) => softmax::softmax_grad(call),
            Op::Adaptive(_) => adaptive::adaptive(call),
            Op::AdaptiveGrad(_) => adaptive::adaptive_grad(call),
            Op::Rotate(op) => position::rotate(op, call, scratch),
            Op::Attend(op) => attend::attend((op, false), call, scratch),
            Op::AttendGrad(op) => attend::attend_grad(op, call, scratch),
            Op::AttendShow(op) => attend::attend_show(op, call, scratch),
            Op::Store(op) => attend::store(op, call),
            Op::Squeeze(op) => linear::squeeze(op.side, call, scratch),
            Op::SqueezeGrad(op) => linear::squeeze_grad(op.side, call, scratch),
            Op::Recall(op) => gather::recall(op.side, call),
            Op::RecallGrad(op) => gather::recall_grad(op.side, call),
            Op::Lead(op) => gather::lead(op.side, call),
            Op::LeadGrad(op) => gather::lead_grad(op.side, call),
            Op::Pool(op) => gather::pool(op, call),
            Op::PoolGrad(op) => gather::pool_grad(op, call),
            Op::Pick(op) => gather::pick(op.side, call),
            Op::PickGrad(op) => gather::pick_grad(op.side, call),
            Op::Halt(op) => halt::halt(op, call),
            Op::HaltGrad(op) => halt::halt_grad(op, call),
            Op::CrossEntropy(op) => softmax::cross_entropy(op, call),
            Op::CrossEntropyGrad(op) => softmax::cross_entropy_grad(op, call),
            Op::SpanLoss(op) => losses::span_loss(*op, call),
            Op::SpanLossGrad(op) => losses::span_loss_grad(*op, call),
            Op::PairLoss(op) => losses::pair_loss(*op, call),
            Op::PairLossGrad(op) => losses::pair_loss_grad(*op, call, scratch),
            Op::Correct(op) => losses::correct(*op, call),
            Op::SumSquares(_) => optimise::sum_squares(call),
            Op::Accumulate(_) => optimise::accumulate(call),
            Op::AdamW(op) => optimise::adamw(op, call),
            Op::Remember(op) => gather::remember(op, call),
        }
    }
}
