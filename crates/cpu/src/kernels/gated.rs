//! A gate and what it gates in one step: `y = act(x Gᵀ + c) · (x Wᵀ + b)`.
//!
//! Inputs: x quantized, G, W, perhaps c and b. Outputs: y, scratch for the gate, and perhaps y quantized; then y itself is scratch.

use crate::tuning::kernels::GATED_COLUMNS;
use std::ops::Range;

use glassformer_graph::ops::Activation;
use glassformer_tensor::Coding;

use super::Call;
use super::linear::{OutputFormat, PADDING, lowp_multiply, piece, quantize_rows};
use crate::epilogue::{Combine, Epilogue, Other, Store};
use crate::lanes::activation::ActivationKind;
use crate::lowp::{self, Format, RowQuantizer, coded};

/// In low precision. x had `k` columns.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn lowp(format: Format, k: usize, act: Activation, output: OutputFormat, call: Call<'_>) {
    let to = call.outputs.get(2).map(|block| block.data);
    let (store, behind) = match (output, to) {
        (OutputFormat::Quantized(Format::Bf16), Some(to)) if format == Format::Bf16 => {
            (Store::Bf16Tiles(to), None)
        }
        (OutputFormat::Quantized(other), Some(to)) => (Store::F32, Some((other, to))),
        (OutputFormat::Quantized(_) | OutputFormat::F32 | OutputFormat::ScaledBf16(_), _) => {
            (Store::F32, None)
        }
    };
    let pair = Pair { format, k, act: call.run.activation(act), store, behind, call };
    // SAFETY: the caller's promise.
    unsafe { if call.worker.count > 1 { pair.together() } else { pair.alone() } }
}

/// Both products.
struct Pair<'a> {
    format: Format,
    k: usize,
    act: ActivationKind,
    /// What the second one writes.
    store: Store,
    /// What y is quantized to afterwards, and where.
    behind: Option<(Format, *mut f32)>,
    call: Call<'a>,
}

impl Pair<'_> {
    /// The two products of some columns, and how y is quantized afterwards, if it is. `gate` is where the gate goes, and its stride.
    fn of(
        &self,
        columns: &Range<usize>,
        gate: (*mut f32, usize),
    ) -> ([lowp::LowpGemm; 2], Option<RowQuantizer>) {
        let Call { inputs, outputs, .. } = self.call;
        let y = outputs[0];
        let product = |which: usize, (c, c_stride): (*mut f32, usize), epilogue: Epilogue| lowp::LowpGemm {
            format: self.format,
            rows: y.rows,
            k: self.k,
            columns: y.width,
            some: [columns.start, columns.end],
            a: inputs[0].data,
            b: inputs[1 + which].data,
            c,
            c_stride,
            epilogue: Epilogue { bias: inputs.get(3 + which).map(|bias| bias.data.cast_const()), ..epilogue },
        };
        let combine = Combine::Gate(self.act, Other { start: gate.0, stride: gate.1 });
        let first = product(0, gate, Epilogue::default());
        let gated = Epilogue { combine, store: self.store, ..Epilogue::default() };
        let second = product(1, (y.data, y.width), gated);
        match self.behind.map(|(format, to)| piece(&second, columns, format, to)) {
            Some((second, quantizer)) => ([first, second], Some(quantizer)),
            None => ([first, second], None),
        }
    }

    /// Workers share the columns: each item of both products is one worker's, the gate first. Then they share the rows.
    ///
    /// # Safety
    /// As [`Call`] says.
    unsafe fn together(&self) {
        let Call { outputs, worker, .. } = self.call;
        let (y, gate) = (outputs[0], outputs[1]);
        let (products, quantizer) = self.of(&(0..y.width), (gate.data, y.width));
        // SAFETY: the caller's promise.
        unsafe { lowp_multiply(self.call, &products) };
        if let Some(quantizer) = quantizer {
            worker.barrier();
            // SAFETY: the caller's promise; what is quantized lies before a barrier.
            unsafe { quantize_rows(self.call, &quantizer) };
        }
    }

    /// A worker alone computes some columns of the gate, always in the same place, and the same columns of y before the gate leaves the cache.
    ///
    /// # Safety
    /// As [`Call`] says.
    unsafe fn alone(&self) {
        let (y, gate) = (self.call.outputs[0], self.call.outputs[1]);
        let (rows, columns) = (y.rows, y.width);
        let blocks =
            self.behind.map_or(columns.div_ceil(GATED_COLUMNS), |(format, _)| format.blocks(columns));
        let columns_of = |block: usize| match self.behind {
            Some((format, _)) => format.block(columns, block),
            None => block * GATED_COLUMNS..columns.min((block + 1) * GATED_COLUMNS),
        };
        for block in 0..blocks {
            let some = columns_of(block);
            let stride = (some.len() + PADDING).min(columns);
            let (products, quantizer) = self.of(&some, (gate.data.wrapping_sub(some.start), stride));
            // SAFETY: the caller's promise; both places have room for a part of the columns, which begin at their first number.
            unsafe {
                lowp_multiply(self.call, &products);
                if let Some(quantizer) = quantizer {
                    (0..rows).for_each(|row| quantizer.run_block(self.call.run.isa, row, block));
                }
            }
        }
    }
}

/// With coded weights. x had `k` columns.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn coded(coding: Coding, k: usize, act: Activation, call: Call<'_>) {
    let (x, y, gate) = (call.inputs[0], call.outputs[0], call.outputs[1]);
    let product = |which: usize, c: *mut f32, combine: Combine| coded::CodedGemm {
        coding,
        rows: y.rows,
        k,
        columns: y.width,
        a: x.data,
        b: call.inputs[1 + which].data,
        c,
        c_stride: y.width,
        epilogue: Epilogue {
            bias: call.inputs.get(3 + which).map(|bias| bias.data.cast_const()),
            combine,
            ..Epilogue::default()
        },
    };
    let other = Other { start: gate.data, stride: y.width };
    let products = [
        product(0, gate.data, Combine::Nothing),
        product(1, y.data, Combine::Gate(call.run.activation(act), other)),
    ];
    call.worker.share(products[0].items(), |item| {
        for product in &products {
            // SAFETY: `dot` is this machine's; the planner gave all blocks their sizes and C a place of its own; one worker has
            // this item of both products, the gate first.
            unsafe { product.run_item(call.run.dot, item) };
        }
    });
}
