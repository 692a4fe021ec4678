//! Products: every projection and its two gradients, and Linformer's squeeze.
//!
//! B always comes packed: from the plan where it is a weight, else from a step before ([`pack`]) or, for a squeeze,
//! from a workspace of its own.

use std::ops::Range;

use glassformer_graph::ops::{Activation, Linear, LinearInputGrad, LinearWeightGrad, Squeeze, SqueezeGrad};
use glassformer_graph::{Capacity, Shape};
use glassformer_plan::EpilogueKind;

use super::split::each_row;
use super::{Call, CpuOperation, Needs, Reads, Work};
use crate::context::Block;
use crate::epilogue::{Combine, Epilogue, Other, Store};
use crate::gemm::{Begin, Gemm, Matrix, Packed, Packing};
use crate::lowp::{
    self, Format, Operand, OperandPacker, OperandSource, RowFormat, RowQuantizer, RowSource, RowsToQuantize,
};

/// How a value becomes the B of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Packs {
    /// `[out, in]` becomes B's columns: the W of a projection.
    Transposed,
    /// Its rows are B's rows.
    Rows,
}

impl Packs {
    /// The rows and columns of the B that a value of `rows` × `width` becomes.
    pub fn sizes(self, rows: usize, width: usize) -> (usize, usize) {
        match self {
            Self::Transposed => (width, rows),
            Self::Rows => (rows, width),
        }
    }

    fn packing(self, from: Block, to: *mut f32) -> Packing {
        let (k, columns) = self.sizes(from.rows, from.width);
        let b = match self {
            Self::Transposed => Matrix::transposed(from.data, from.width),
            Self::Rows => Matrix::rows(from.data, from.width),
        };
        Packing { k, columns, b, to }
    }
}

/// # Safety
/// As [`Call`] says; `to` has room for the packed block, and nobody else uses it.
unsafe fn pack_block(call: Call<'_>, packs: Packs, from: Block, to: *mut f32) {
    let packing = packs.packing(from, to);
    call.worker.share(packing.parts(), |part| {
        // SAFETY: `isa` is this machine's; the planner gave both blocks their sizes; one worker has this part.
        unsafe { packing.run_part(call.run.isa, part) };
    });
}

/// # Safety
/// As [`Call`] says; the output has room for the packed input.
pub(super) unsafe fn pack(packs: Packs, call: Call<'_>) {
    // SAFETY: the caller's promise.
    unsafe { pack_block(call, packs, call.inputs[0], call.outputs[0].data) };
}

/// # Safety
/// As [`Call`] says; the addresses and sizes of `product` lie within its blocks.
unsafe fn multiply(call: Call<'_>, product: &Gemm, scratch: &mut [f32]) {
    // SAFETY: `isa` is this machine's; the planner gave all blocks their sizes and C a place of its own.
    unsafe { product.run(call.run.isa, call.worker, scratch) };
}

/// How a product writes y.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum OutputFormat {
    /// As it is.
    #[default]
    F32,
    /// Quantized for products in this format. Only they read it.
    Quantized(Format),
    /// Scaled and rounded to `bf16`. Only attention reads it.
    ScaledBf16(f32),
}

/// The epilogue of a product of this kind. The inputs behind x and W are the bias, if there is one, and what the epilogue reads.
pub(super) fn epilogue(kind: EpilogueKind, call: Call<'_>) -> Epilogue {
    let mut rest = &call.inputs[2..];
    let mut other = || match rest {
        [before @ .., last] => {
            rest = before;
            Other { start: last.data, stride: last.width }
        }
        [] => unreachable!("the planner gives what the epilogue reads"),
    };
    let kind_of = |act: Activation| call.run.activation(act);
    let (activation, combine) = match kind {
        EpilogueKind::Nothing => (None, Combine::Nothing),
        EpilogueKind::Activate(act) | EpilogueKind::ActivateAndKeep(act) => {
            (Some(kind_of(act)), Combine::Nothing)
        }
        EpilogueKind::Add => (None, Combine::Add(other())),
        EpilogueKind::Gate(act) => (None, Combine::Gate(kind_of(act), other())),
        EpilogueKind::Derivative(act) => (None, Combine::Derivative(kind_of(act), other())),
        EpilogueKind::DerivativeBf16(act) => (None, Combine::DerivativeBf16(kind_of(act), other().start)),
    };
    let keep = match kind {
        EpilogueKind::ActivateAndKeep(_) => call.outputs.last().map(|block| block.data),
        _ => None,
    };
    let bias = rest.first().map(|bias| bias.data.cast_const());
    Epilogue { bias, activation, combine, store: Store::F32, keep }
}

/// `y = epilogue(x Wᵀ + b)`. Inputs: x, W packed, perhaps b, perhaps what the epilogue reads.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn linear(kind: EpilogueKind, call: Call<'_>, scratch: &mut [f32]) {
    let (x, w, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
    let product = Gemm {
        rows: y.rows,
        k: x.width,
        columns: y.width,
        a: Matrix::rows(x.data, x.width),
        b: w.data,
        c: y.data,
        c_stride: y.width,
        begin: Begin::Zero,
        epilogue: epilogue(kind, call),
    };
    // SAFETY: the caller's promise.
    unsafe { multiply(call, &product, scratch) };
}

/// Rows quantized for products. Input: x. Output: as [`RowFormat`] writes it.
///
/// # Safety
/// As [`Call`] says; the output has room for all rows.
pub(super) unsafe fn quantize(format: RowFormat, call: Call<'_>) {
    let x = call.inputs[0];
    let rows_to_quantize =
        RowsToQuantize { rows: x.rows, k: x.width, from: x.data, to: call.outputs[0].data };
    each_row(call.worker, x.rows, x.width, |row| {
        // SAFETY: `isa` is this machine's; the planner gave both blocks their sizes; one worker has this row.
        unsafe { format.run_row(call.run.isa, &rows_to_quantize, row) };
    });
}

/// # Safety
/// As [`Call`] says; the addresses and sizes of `quantizer` lie within its blocks.
pub(super) unsafe fn quantize_rows(call: Call<'_>, quantizer: &RowQuantizer) {
    each_row(call.worker, quantizer.rows, quantizer.k, |row| {
        // SAFETY: `isa` is this machine's; the planner gave both blocks their sizes; one worker has this row.
        unsafe { quantizer.run_row(call.run.isa, row) };
    });
}

/// `y = epilogue(x Wᵀ + b)` in low precision. Inputs: x quantized, W, perhaps b, perhaps what the epilogue reads. x had `k` columns. Outputs: y;
/// perhaps y quantized, and then y itself is scratch; perhaps y before the activation.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn lowp_product(
    format: Format,
    k: usize,
    kind: EpilogueKind,
    output: OutputFormat,
    call: Call<'_>,
) {
    let (x, w, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
    let (columns, store) = match output {
        OutputFormat::ScaledBf16(scale) => (2 * y.width, Store::ScaledBf16(scale)),
        OutputFormat::F32 => (y.width, Store::of(y.rows * y.width)),
        OutputFormat::Quantized(_) => (y.width, Store::F32),
    };
    let product = lowp::LowpGemm {
        format,
        rows: y.rows,
        k,
        columns,
        some: [0, columns],
        a: x.data,
        b: w.data,
        c: y.data,
        c_stride: columns,
        epilogue: Epilogue { store, ..epilogue(kind, call) },
    };
    let to = call.outputs.get(1).map(|block| block.data);
    // SAFETY: the caller's promise.
    unsafe {
        match (output, to) {
            (OutputFormat::Quantized(Format::Bf16), Some(to)) if format == Format::Bf16 => {
                let epilogue = Epilogue { store: Store::Bf16Tiles(to), ..product.epilogue };
                lowp_multiply(call, &[lowp::LowpGemm { epilogue, ..product }]);
            }
            (OutputFormat::Quantized(format), Some(to)) => product_by_blocks(call, &product, format, to),
            (OutputFormat::Quantized(_) | OutputFormat::F32 | OutputFormat::ScaledBf16(_), _) => {
                lowp_multiply(call, &[product]);
            }
        }
    }
}

/// Numbers between the rows of a block: a line.
pub(super) const PADDING: usize = 16;

/// Some columns of a product, written to the beginning of its C, and how they are quantized from there to `to`. Where they are rounded to
/// `bf16` anyway, they are written in `bf16`, which takes half the cache.
pub(super) fn piece(
    product: &lowp::LowpGemm,
    some: &Range<usize>,
    format: Format,
    to: *mut f32,
) -> (lowp::LowpGemm, RowQuantizer) {
    let lowp::LowpGemm { rows, columns: k, c, .. } = *product;
    let (c, from, store, line) = if RowQuantizer::rounds(format, k) && product.fits_bf16() {
        let c = c.cast::<u16>().wrapping_sub(some.start);
        (c.cast(), RowSource::Bf16(c), Store::ScaledBf16(1.0), 2 * PADDING)
    } else {
        let c = c.wrapping_sub(some.start);
        (c, RowSource::F32(c), Store::F32, PADDING)
    };
    // Rows that begin a page apart would share few sets of L1.
    let stride = (some.len() + line).min(k);
    let epilogue = Epilogue { store, ..product.epilogue };
    let product = lowp::LowpGemm { some: [some.start, some.end], c, c_stride: stride, epilogue, ..*product };
    (product, RowQuantizer { format, rows, k, from, stride, to })
}

/// A product whose C is quantized for other products, to `to`.
///
/// A worker alone computes C block by block, in the same place, and quantizes each block before it leaves the cache. Several workers share the
/// columns, and then the rows.
///
/// # Safety
/// As [`Call`] says; there is room at `to`.
unsafe fn product_by_blocks(call: Call<'_>, product: &lowp::LowpGemm, format: Format, to: *mut f32) {
    let lowp::LowpGemm { rows, columns: k, .. } = *product;
    if call.worker.count > 1 {
        let (product, quantizer) = piece(product, &(0..k), format, to);
        // SAFETY: the caller's promise; rows are quantized behind a barrier.
        unsafe {
            lowp_multiply(call, &[product]);
            call.worker.barrier();
            quantize_rows(call, &quantizer);
        }
        return;
    }
    for block in 0..format.blocks(k) {
        let some = format.block(k, block);
        let (product, quantizer) = piece(product, &some, format, to);
        // SAFETY: the caller's promise; C has room for a part of its columns, which begin at its first number.
        unsafe {
            lowp_multiply(call, &[product]);
            (0..rows).for_each(|row| quantizer.run_block(call.run.isa, row, block));
        }
    }
}

/// A product, or several that differ in addresses and in what follows them, one after the other in the same columns.
///
/// # Safety
/// As [`Call`] says; the addresses and sizes of the products lie within its blocks. One may read what those before it wrote to the same columns.
pub(super) unsafe fn lowp_multiply<const N: usize>(call: Call<'_>, products: &[lowp::LowpGemm; N]) {
    let (dot, workers) = (call.run.dot, call.worker.count);
    if products[0].has_owners(dot, workers) {
        let part = |owner: usize| products.map(|product| product.part_of(owner, workers));
        let items = |part: &[lowp::LowpGemm; N]| part[0].items(dot, 1);
        let each = (0..workers).map(|owner| items(&part(owner))).max().unwrap_or(0);
        call.worker.share_by_owner(each, |owner, item| {
            let part = part(owner);
            if item < items(&part) {
                // SAFETY: `dot` is this machine's; the planner gave all blocks their sizes and C a place of its own; one worker
                // has this item.
                unsafe {
                    lowp::LowpGemm::run_item(&part, dot, item, 1);
                }
            }
        });
        return;
    }
    call.worker.share(products[0].items(dot, workers), |item| {
        // SAFETY: as above; one worker has this item.
        unsafe { lowp::LowpGemm::run_item(products, dot, item, workers) };
    });
}

/// Packs an operand of a product in `bf16`. Input: a matrix, or a matrix of this width in `bf16`. Output: as [`OperandPacker`] writes it.
///
/// # Safety
/// As [`Call`] says; the output has room for the operand.
pub(super) unsafe fn pack_operand(operand: Operand, quantized: Option<usize>, call: Call<'_>) {
    let (x, to) = (call.inputs[0], call.outputs[0].data);
    let (width, from) = match quantized {
        Some(width) => (width, OperandSource::Bf16Tiles(x.data)),
        None => (x.width, OperandSource::F32(x.data)),
    };
    let packer = OperandPacker { operand, rows: x.rows, width, from, to };
    call.worker.share(packer.parts(), |part| {
        // SAFETY: `isa` is this machine's; the planner gave both blocks their sizes; one worker has this part.
        unsafe { packer.run_part(call.run.isa, part) };
    });
}

/// `dW = dyᵀ x` in `bf16`. Inputs: dyᵀ as A, x as B, and dy, of which only the number of rows is used.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn bf16_weight_grad(call: Call<'_>) {
    let (left, right, dy, dw) = (call.inputs[0], call.inputs[1], call.inputs[2], call.outputs[0]);
    let product = lowp::LowpGemm {
        format: Format::Bf16,
        rows: dw.rows,
        k: dy.rows,
        columns: dw.width,
        some: [0, dw.width],
        a: left.data,
        b: right.data,
        c: dw.data,
        c_stride: dw.width,
        epilogue: Epilogue { store: Store::of(dw.rows * dw.width), ..Epilogue::default() },
    };
    // SAFETY: the caller's promise.
    unsafe { lowp_multiply(call, &[product]) };
}

impl CpuOperation for Linear {
    const BY_ROWS: bool = true;

    fn needs(&self, _: &[Shape], _: &Capacity) -> Needs {
        Needs::product(0, Reads::Packed(1, Packs::Transposed), Work::OverColumns)
    }

    unsafe fn run(&self, call: Call<'_>, scratch: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { linear(EpilogueKind::Nothing, call, scratch) };
    }
}

impl CpuOperation for LinearInputGrad {
    const BY_ROWS: bool = true;

    fn needs(&self, _: &[Shape], _: &Capacity) -> Needs {
        Needs::product(0, Reads::Packed(1, Packs::Rows), Work::OverColumns)
    }

    unsafe fn run(&self, call: Call<'_>, scratch: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { linear(EpilogueKind::Nothing, call, scratch) };
    }
}

/// `dW = dyᵀ x`. Inputs: dy, x packed.
impl CpuOperation for LinearWeightGrad {
    fn needs(&self, _: &[Shape], _: &Capacity) -> Needs {
        Needs::product(0, Reads::Packed(1, Packs::Rows), Work::OverRows)
    }

    unsafe fn run(&self, call: Call<'_>, scratch: &mut [f32]) {
        let (dy, x, dw) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        let product = Gemm {
            rows: dw.rows,
            k: dy.rows,
            columns: dw.width,
            a: Matrix::transposed(dy.data, dy.width),
            b: x.data,
            c: dw.data,
            c_stride: dw.width,
            begin: Begin::Zero,
            epilogue: Epilogue::default(),
        };
        // SAFETY: the caller's promise.
        unsafe { multiply(call, &product, scratch) };
    }
}

/// `len` rows of `block` from `start` on.
fn rows_of(block: Block, start: usize, len: usize) -> Block {
    Block { data: block.data.wrapping_add(start * block.width), rows: len, width: block.width }
}

/// `y[s] = E x[s]`. Inputs: x, E. Outputs: y, and the workspace.
impl CpuOperation for Squeeze {
    fn needs(&self, inputs: &[Shape], capacity: &Capacity) -> Needs {
        // Every row of E is multiplied by rows of x.
        let workspace = Packed::len(capacity.count(inputs[0].rows), inputs[0].width);
        Needs::product(workspace, Reads::Inputs, Work::OverRows)
    }

    unsafe fn run(&self, call: Call<'_>, scratch: &mut [f32]) {
        let (x, e, y, packed) = (call.inputs[0], call.inputs[1], call.outputs[0], call.outputs[1]);
        let spans = &call.run.batch.side(self.side).spans;
        for span in spans {
            let to = packed.data.wrapping_add(Packed::len(span.start, x.width));
            // SAFETY: the caller's promise; sequences follow one another, in x and in the workspace.
            unsafe { pack_block(call, Packs::Rows, rows_of(x, span.start, span.len), to) };
        }
        call.worker.barrier();
        for (s, span) in spans.iter().enumerate() {
            let product = Gemm {
                rows: e.rows,
                k: span.len,
                columns: x.width,
                a: Matrix::rows(e.data, e.width),
                b: packed.data.wrapping_add(Packed::len(span.start, x.width)),
                c: rows_of(y, s * e.rows, e.rows).data,
                c_stride: y.width,
                begin: Begin::Zero,
                epilogue: Epilogue::default(),
            };
            // SAFETY: the caller's promise; a sequence is no longer than E is wide.
            unsafe { multiply(call, &product, scratch) };
        }
    }
}

/// `dx[s] = Eᵀ dy[s]`, `dE = Σ dy[s] x[s]ᵀ`, in the order of the sequences. Inputs: x, E, dy. Outputs: dx, dE, and the
/// workspace.
impl CpuOperation for SqueezeGrad {
    fn needs(&self, inputs: &[Shape], capacity: &Capacity) -> Needs {
        // For dy, or for one sequence of x on its side.
        let (width, [rows, low_rows]) =
            (inputs[0].width, [0, 2].map(|k: usize| capacity.count(inputs[k].rows)));
        let workspace = Packed::len(low_rows, width).max(Packed::len(width, rows));
        Needs::product(workspace, Reads::Inputs, Work::OverRows)
    }

    unsafe fn run(&self, call: Call<'_>, scratch: &mut [f32]) {
        let (x, e, dy) = (call.inputs[0], call.inputs[1], call.inputs[2]);
        let (dx, de, packed) = (call.outputs[0], call.outputs[1], call.outputs[2]);
        let (rank, width) = (e.rows, x.width);
        let spans = &call.run.batch.side(self.side).spans;
        let base = Gemm {
            rows: 0,
            k: 0,
            columns: 0,
            a: Matrix::rows(e.data, e.width),
            b: packed.data,
            c: dx.data,
            c_stride: dx.width,
            begin: Begin::Existing,
            epilogue: Epilogue::default(),
        };
        // SAFETY: the caller's promise; every product stays within the rows of its sequence, and barriers part what writes
        // the workspace and dE from what uses them.
        unsafe {
            super::map::set(call, 1, 0.0);
            for s in 0..spans.len() {
                let to = packed.data.wrapping_add(Packed::len(s * rank, width));
                pack_block(call, Packs::Rows, rows_of(dy, s * rank, rank), to);
            }
            call.worker.barrier();
            for (s, span) in spans.iter().enumerate() {
                let a = Matrix::transposed(e.data, e.width);
                let b = packed.data.wrapping_add(Packed::len(s * rank, width)).cast_const();
                let c = rows_of(dx, span.start, span.len).data;
                let of_rows = Gemm { rows: span.len, k: rank, columns: width, a, b, c, ..base };
                multiply(call, &Gemm { begin: Begin::Zero, ..of_rows }, scratch);
            }
            for (s, span) in spans.iter().enumerate() {
                call.worker.barrier();
                pack_block(call, Packs::Transposed, rows_of(x, span.start, span.len), packed.data);
                call.worker.barrier();
                let a = Matrix::rows(rows_of(dy, s * rank, rank).data, width);
                let (c, c_stride) = (de.data, de.width);
                let of_e = Gemm { rows: rank, k: width, columns: span.len, a, c, c_stride, ..base };
                multiply(call, &of_e, scratch);
            }
        }
    }
}
