//! Products of coded weights, and lookups in tables of them: see [`crate::lowp::coded`].

use glassformer_graph::ops::Lookup;
use glassformer_plan::EpilogueKind;
use glassformer_tensor::Coding;

use super::Call;
use super::linear::epilogue;
use super::split::each_row;
use crate::lowp::coded::CodedGemm;

/// `y = epilogue(x Wᵀ + b)`. Inputs: x quantized, W coded, perhaps b, perhaps what the epilogue reads; x had `k` columns.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn product(coding: Coding, k: usize, kind: EpilogueKind, call: Call<'_>) {
    let (x, w, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
    let product = CodedGemm {
        coding,
        rows: y.rows,
        k,
        columns: y.width,
        a: x.data,
        b: w.data,
        c: y.data,
        c_stride: y.width,
        epilogue: epilogue(kind, call),
    };
    call.worker.share(product.items(), |item| {
        // SAFETY: `dot` is this machine's; the planner gave all blocks their sizes and C a place of its own; one worker has
        // this item.
        unsafe { product.run_item(call.run.dot, item) };
    });
}

/// Rows of a table of `vocabulary` rows, which `decode` writes from the table, by their numbers. Input: the table.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn lookup(
    op: &Lookup,
    vocabulary: usize,
    call: Call<'_>,
    decode: impl Fn(*const f32, usize, &mut [f32]),
) {
    let (table, y) = (call.inputs[0], call.outputs[0]);
    each_row(call.worker, y.rows, y.width, |i| {
        // SAFETY: row `i` exists, and nobody else writes it.
        let out = unsafe { y.row_mut(i) };
        let Some(row) = op.ids.id(call.run.batch, call.first + i) else {
            out.fill(0.0);
            return;
        };
        assert!(row < vocabulary, "row {row} of {vocabulary}");
        decode(table.data, row, out);
    });
}
