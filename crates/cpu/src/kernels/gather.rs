//! Whole rows brought from one place to another, and summed on the way back.

use std::ops::Range;

use glassformer_graph::Side;
use glassformer_graph::ops::{Lookup, LookupGrad, Pool, PoolGrad, Pooling};

use super::Call;
use super::map::{Sum, Times, one, set, two};
use super::split::{over_columns, over_rows};
use crate::context::Block;
use crate::dispatch;
use crate::isa::Isa;

/// Columns of `row` added to the same columns of one row of `into`.
///
/// # Safety
/// `isa` is this machine's; both rows exist, and nobody else reads or writes these columns of `into`.
unsafe fn add_columns(isa: Isa, into: (Block, usize), from: (Block, usize), columns: &Range<usize>) {
    // SAFETY: the caller's promise; the columns are below both widths.
    unsafe {
        let y = into.0.data.add(into.1 * into.0.width + columns.start);
        let x = from.0.data.add(from.1 * from.0.width + columns.start);
        dispatch!(isa, |L| two::<L>(Sum, y, x, y, columns.len()));
    }
}

/// Those columns of one row set to zero.
///
/// # Safety
/// The row exists, and nobody else reads or writes these columns of it.
unsafe fn clear_columns(block: Block, row: usize, columns: &Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { block.data.add(row * block.width + columns.start).write_bytes(0, columns.len()) };
}

/// `y[i] = x[from(i)]` for every row, or zeros where it comes from nowhere.
///
/// # Safety
/// As [`Call`] says; x and y are equally wide.
unsafe fn gather(call: Call<'_>, x: Block, from: impl Fn(usize) -> Option<usize>) {
    let y = call.outputs[0];
    over_rows(call.worker, y.rows, y.width, |rows| {
        for i in rows {
            // SAFETY: row `i` exists, and nobody else writes it.
            let out = unsafe { y.row_mut(i) };
            let Some(row) = from(i) else {
                out.fill(0.0);
                continue;
            };
            assert!(row < x.rows, "row {row} of {}", x.rows);
            // SAFETY: the row exists, and y does not overlap x.
            out.copy_from_slice(unsafe { x.row(row) });
        }
    });
}

/// # Safety
/// As [`Call`] says; input: the table.
pub(super) unsafe fn lookup(op: &Lookup, call: Call<'_>) {
    // SAFETY: the caller's promise.
    unsafe { gather(call, call.inputs[0], |i| op.ids.id(call.run.batch, i)) };
}

/// # Safety
/// As [`Call`] says; input dy.
pub(super) unsafe fn lookup_grad(op: &LookupGrad, call: Call<'_>) {
    let (dy, table) = (call.inputs[0], call.outputs[0]);
    // SAFETY: the caller's promise.
    unsafe { set(call, 0, 0.0) };
    call.worker.barrier();
    over_columns(call.worker, table.width, |columns| {
        for i in 0..dy.rows {
            let Some(id) = op.ids.id(call.run.batch, i) else { continue };
            assert!(id < table.rows, "row {id} of {}", table.rows);
            // SAFETY: both rows exist; nobody else touches these columns of the table since the barrier.
            unsafe { add_columns(call.run.isa, (table, id), (dy, i), &columns) };
        }
    });
}

/// # Safety
/// As [`Call`] says; input x.
pub(super) unsafe fn pick(side: Side, call: Call<'_>) {
    let picked = &call.run.batch.side(side).picked;
    // SAFETY: the caller's promise.
    unsafe { gather(call, call.inputs[0], |n| Some(picked[n] as usize)) };
}

/// # Safety
/// As [`Call`] says; input dy.
pub(super) unsafe fn pick_grad(side: Side, call: Call<'_>) {
    let (dy, dx) = (call.inputs[0], call.outputs[0]);
    let picked = &call.run.batch.side(side).picked;
    over_rows(call.worker, dx.rows, dx.width, |rows| {
        let mut n = picked.partition_point(|&row| (row as usize) < rows.start);
        for i in rows {
            // SAFETY: row `i` exists, and nobody else writes it.
            let out = unsafe { dx.row_mut(i) };
            if picked.get(n).is_some_and(|&row| row as usize == i) {
                // SAFETY: there is one row for each picked one, and dx does not overlap dy.
                out.copy_from_slice(unsafe { dy.row(n) });
                n += 1;
            } else {
                out.fill(0.0);
            }
        }
    });
}

/// # Safety
/// As [`Call`] says; inputs x and r.
pub(super) unsafe fn lead(side: Side, call: Call<'_>) {
    let (x, r, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
    let spans = &call.run.batch.side(side).spans;
    over_rows(call.worker, y.rows, y.width, |rows| {
        for i in rows {
            let first = spans.binary_search_by_key(&i, |span| span.start).is_ok();
            // SAFETY: the rows exist, nobody else writes row `i`, and y overlaps neither input.
            unsafe { y.row_mut(i).copy_from_slice(if first { r.row(0) } else { x.row(i) }) };
        }
    });
}

/// # Safety
/// As [`Call`] says; input dy, outputs dx and dr.
pub(super) unsafe fn lead_grad(side: Side, call: Call<'_>) {
    let (dy, dx, dr) = (call.inputs[0], call.outputs[0], call.outputs[1]);
    let spans = &call.run.batch.side(side).spans;
    over_rows(call.worker, dx.rows, dx.width, |rows| {
        for i in rows {
            // SAFETY: the rows exist, nobody else writes row `i`, and dx does not overlap dy.
            let (out, back) = unsafe { (dx.row_mut(i), dy.row(i)) };
            match spans.binary_search_by_key(&i, |span| span.start) {
                Ok(_) => out.fill(0.0),
                Err(_) => out.copy_from_slice(back),
            }
        }
    });
    over_columns(call.worker, dr.width, |columns| {
        // SAFETY: the rows exist, and nobody else touches these columns of dr.
        unsafe {
            clear_columns(dr, 0, &columns);
            for span in spans {
                add_columns(call.run.isa, (dr, 0), (dy, span.start), &columns);
            }
        }
    });
}

/// # Safety
/// As [`Call`] says; input x.
pub(super) unsafe fn sum_rows(call: Call<'_>) {
    let (x, y) = (call.inputs[0], call.outputs[0]);
    over_columns(call.worker, y.width, |columns| {
        // SAFETY: the rows exist, and nobody else touches these columns of y.
        unsafe {
            clear_columns(y, 0, &columns);
            for i in 0..x.rows {
                add_columns(call.run.isa, (y, 0), (x, i), &columns);
            }
        }
    });
}

/// # Safety
/// As [`Call`] says; input x.
pub(super) unsafe fn pool(op: &Pool, call: Call<'_>) {
    let (x, y) = (call.inputs[0], call.outputs[0]);
    let spans = &call.run.batch.side(op.side).spans;
    let row = |s: usize| match op.pooling {
        Pooling::First => Some(spans[s].start),
        Pooling::Last => Some(spans[s].start + spans[s].len - 1),
        Pooling::Mean => None,
    };
    for (s, span) in spans.iter().enumerate() {
        over_columns(call.worker, y.width, |columns| {
            // SAFETY: `isa` is this machine's; the rows exist, and nobody else touches these columns of row `s`.
            unsafe {
                clear_columns(y, s, &columns);
                if let Some(row) = row(s) {
                    return add_columns(call.run.isa, (y, s), (x, row), &columns);
                }
                for i in span.start..span.start + span.len {
                    add_columns(call.run.isa, (y, s), (x, i), &columns);
                }
                let (mean, at) = (Times(1.0 / span.len as f32), y.data.add(s * y.width + columns.start));
                dispatch!(call.run.isa, |L| one::<L>(mean, at, at, columns.len()));
            }
        });
    }
}

/// # Safety
/// As [`Call`] says; input dy.
pub(super) unsafe fn pool_grad(op: &PoolGrad, call: Call<'_>) {
    let (dy, dx) = (call.inputs[0], call.outputs[0]);
    let spans = &call.run.batch.side(op.pool.side).spans;
    over_rows(call.worker, dx.rows, dx.width, |rows| {
        for i in rows {
            let s = spans.partition_point(|span| span.start + span.len <= i);
            let weight = Times(op.pool.pooling.weight(&spans[s], i - spans[s].start) as f32);
            // SAFETY: `isa` is this machine's; the rows exist, and nobody else writes row `i`.
            unsafe {
                let (from, to) = (dy.data.add(s * dx.width), dx.data.add(i * dx.width));
                dispatch!(call.run.isa, |L| one::<L>(weight, from, to, dx.width));
            }
        }
    });
}

/// # Safety
/// As [`Call`] says; inputs memory and x.
pub(super) unsafe fn recall(side: Side, call: Call<'_>) {
    let (memory, x, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
    let spans = &call.run.batch.side(side).spans;
    over_rows(call.worker, y.rows, y.width, |rows| {
        for i in rows {
            let end =
                |span: &glassformer_graph::Span| span.memory_start + span.memory + span.start + span.len;
            let span = &spans[spans.partition_point(|span| end(span) <= i)];
            let within = i - span.memory_start - span.start;
            // SAFETY: the rows exist, nobody else writes row `i`, and y overlaps neither input.
            unsafe {
                y.row_mut(i).copy_from_slice(match within.checked_sub(span.memory) {
                    None => memory.row(span.memory_start + within),
                    Some(later) => x.row(span.start + later),
                });
            }
        }
    });
}

/// # Safety
/// As [`Call`] says; input dy.
pub(super) unsafe fn recall_grad(side: Side, call: Call<'_>) {
    let spans = &call.run.batch.side(side).spans;
    let place = |i: usize| {
        let span = &spans[spans.partition_point(|span| span.start + span.len <= i)];
        Some(span.memory_start + span.memory + i)
    };
    // SAFETY: the caller's promise.
    unsafe { gather(call, call.inputs[0], place) };
}
