//! Products of coded weights, and lookups in tables of them: see [`crate::lowp::coded`].

use glassformer_graph::ops::Lookup;
use glassformer_plan::EpilogueKind;
use glassformer_tensor::Coding;

use super::Call;
use super::linear::epilogue;
use super::split::over_rows;
use crate::lowp;
use crate::lowp::coded::{CodedGemm, Weight};

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

/// Rows of a table of `vocabulary` rows. Input: the table, coded.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn lookup(op: &Lookup, coding: Coding, vocabulary: usize, call: Call<'_>) {
    let table = call.inputs[0].data;
    // SAFETY: the caller's promise; the row exists, and is as wide as y.
    unsafe { rows(op, vocabulary, call, |row, out| Weight::decode(coding, table, row, out)) };
}

/// The same of a table in 8-bit integers.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn int8_lookup(op: &Lookup, vocabulary: usize, call: Call<'_>) {
    let table = call.inputs[0].data;
    // SAFETY: the caller's promise; the row exists, and is as wide as y.
    unsafe { rows(op, vocabulary, call, |row, out| lowp::Weight::decode(table, vocabulary, row, out)) };
}

/// The same of a table that is held for lookups.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn table_lookup(op: &Lookup, vocabulary: usize, call: Call<'_>) {
    let table = call.inputs[0].data;
    // SAFETY: the caller's promise; the row exists, and is as wide as y.
    unsafe { rows(op, vocabulary, call, |row, out| lowp::Table::decode(call.run.isa, table, row, out)) };
}

/// Gives every row that is looked up to `decode`, with where it goes.
///
/// # Safety
/// As [`Call`] says.
unsafe fn rows(op: &Lookup, vocabulary: usize, call: Call<'_>, decode: impl Fn(usize, &mut [f32])) {
    let y = call.outputs[0];
    over_rows(call.worker, y.rows, y.width, |rows| {
        for i in rows {
            // SAFETY: row `i` exists, and nobody else writes it.
            let out = unsafe { y.row_mut(i) };
            let Some(row) = op.ids.id(call.run.batch, call.first + i) else {
                out.fill(0.0);
                continue;
            };
            assert!(row < vocabulary, "row {row} of {vocabulary}");
            decode(row, out);
        }
    });
}
