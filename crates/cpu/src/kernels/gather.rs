//! Whole rows brought from one place to another, and summed on the way back.

use std::ops::Range;

use glassformer_graph::ops::{
    Lead, LeadGrad, Lookup, LookupGrad, Pick, PickGrad, Pool, PoolGrad, Pooling, Recall, RecallGrad,
    Remember, SumRows,
};
use glassformer_graph::{Capacity, Packed, Shape, Span};

use super::map::set;
use super::row::{load, store};
use super::split::{each_row, over_columns, over_rows};
use super::{Call, CpuOperation, Needs, Work};
use crate::context::Block;
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::map::{Larger, PlusTimes, Sum, Times, one, two};
use crate::lanes::{LANES, Lanes};
use crate::lowp::RowSum;

/// One row of a block.
#[derive(Clone, Copy)]
struct BlockRow {
    block: Block,
    row: usize,
}

/// Columns of the row `from` added to the same columns of the row `into`.
///
/// # Safety
/// `isa` is this machine's; both rows exist, and nobody else reads or writes these columns of `into`.
unsafe fn add_columns(isa: Isa, into: BlockRow, from: BlockRow, columns: &Range<usize>) {
    // SAFETY: the caller's promise; the columns are below both widths.
    unsafe {
        let y = into.block.data.add(into.row * into.block.width + columns.start);
        let x = from.block.data.add(from.row * from.block.width + columns.start);
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
    each_row(call.worker, y.rows, y.width, |i| {
        // SAFETY: row `i` exists, and nobody else writes it.
        let out = unsafe { y.row_mut(i) };
        let Some(row) = from(i) else {
            out.fill(0.0);
            return;
        };
        assert!(row < x.rows, "row {row} of {}", x.rows);
        // SAFETY: the row exists, and y does not overlap x.
        out.copy_from_slice(unsafe { x.row(row) });
    });
}

/// Input: the table.
impl CpuOperation for Lookup {
    const BY_ROWS: bool = true;

    fn needs(&self, _: &[Shape], _: &Capacity) -> Needs {
        Needs { work: Work::Rows, ..Needs::default() }
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { gather(call, call.inputs[0], |i| self.ids.id(call.run.batch, call.first + i)) };
    }
}

/// Input dy.
impl CpuOperation for LookupGrad {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (dy, table) = (call.inputs[0], call.outputs[0]);
        // SAFETY: the caller's promise.
        unsafe { set(call, 0, 0.0) };
        call.worker.barrier();
        over_columns(call.worker, table.width, |columns| {
            for i in 0..dy.rows {
                let Some(id) = self.ids.id(call.run.batch, i) else { continue };
                assert!(id < table.rows, "row {id} of {}", table.rows);
                let (into, from) = (BlockRow { block: table, row: id }, BlockRow { block: dy, row: i });
                // SAFETY: both rows exist; nobody else touches these columns of the table since the barrier.
                unsafe { add_columns(call.run.isa, into, from, &columns) };
            }
        });
    }
}

/// Input x.
impl CpuOperation for Pick {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let picked = &call.run.batch.side(self.side).picked;
        // SAFETY: the caller's promise.
        unsafe { gather(call, call.inputs[0], |n| Some(picked[n] as usize)) };
    }
}

/// Input dy.
impl CpuOperation for PickGrad {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (dy, dx) = (call.inputs[0], call.outputs[0]);
        let picked = &call.run.batch.side(self.side).picked;
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
}

/// Inputs x and r.
impl CpuOperation for Lead {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, r, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        let spans = &call.run.batch.side(self.side).spans;
        each_row(call.worker, y.rows, y.width, |i| {
            let first = spans.binary_search_by_key(&i, |span| span.start).is_ok();
            // SAFETY: the rows exist, nobody else writes row `i`, and y overlaps neither input.
            unsafe { y.row_mut(i).copy_from_slice(if first { r.row(0) } else { x.row(i) }) };
        });
    }
}

/// Input dy, outputs dx and dr.
impl CpuOperation for LeadGrad {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (dy, dx, dr) = (call.inputs[0], call.outputs[0], call.outputs[1]);
        let spans = &call.run.batch.side(self.side).spans;
        each_row(call.worker, dx.rows, dx.width, |i| {
            // SAFETY: the rows exist, nobody else writes row `i`, and dx does not overlap dy.
            let (out, back) = unsafe { (dx.row_mut(i), dy.row(i)) };
            match spans.binary_search_by_key(&i, |span| span.start) {
                Ok(_) => out.fill(0.0),
                Err(_) => out.copy_from_slice(back),
            }
        });
        over_columns(call.worker, dr.width, |columns| {
            // SAFETY: the rows exist, and nobody else touches these columns of dr.
            unsafe {
                clear_columns(dr, 0, &columns);
                for span in spans {
                    let from = BlockRow { block: dy, row: span.start };
                    add_columns(call.run.isa, BlockRow { block: dr, row: 0 }, from, &columns);
                }
            }
        });
    }
}

/// Input x.
impl CpuOperation for SumRows {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        over_columns(call.worker, y.width, |columns| {
            // SAFETY: `isa` is this machine's; the rows exist, and nobody else touches these columns of y.
            unsafe { dispatch!(call.run.isa, |L| sum_columns::<L>(x, y.data, &columns)) };
        });
    }
}

/// The same of an x that is rounded to `bf16`.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn sum_bf16_rows(call: Call<'_>) {
    let (x, y) = (call.inputs[0], call.outputs[0]);
    let summing = RowSum { rows: x.rows, width: y.width, from: x.data, to: y.data };
    call.worker.share(summing.parts(), |part| {
        // SAFETY: `isa` is this machine's; the planner gave both blocks their sizes; one worker has this part.
        unsafe { summing.run_part(call.run.isa, part) };
    });
}

/// The sums of these columns of x, in registers, row after row.
///
/// # Safety
/// The machine has `L`'s instructions; x and the row at `to` have those columns.
#[inline(always)]
unsafe fn sum_columns<L: Lanes>(x: Block, to: *mut f32, columns: &Range<usize>) {
    const ABREAST: usize = 4;
    let mut j = columns.start;
    // SAFETY: the caller's promise.
    unsafe {
        while j + ABREAST * LANES <= columns.end {
            let mut sums = [L::zero(); ABREAST];
            for i in 0..x.rows {
                let from = x.data.add(i * x.width + j);
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = *sum + L::load(from.add(v * LANES));
                }
            }
            for (v, sum) in sums.into_iter().enumerate() {
                sum.store(to.add(j + v * LANES));
            }
            j += ABREAST * LANES;
        }
        while j < columns.end {
            let some = LANES.min(columns.end - j);
            let mut sum = L::zero();
            for i in 0..x.rows {
                sum = sum + load::<L>(x.data.add(i * x.width + j), some);
            }
            store(sum, to.add(j), some);
            j += LANES;
        }
    }
}

/// Input x.
impl CpuOperation for Pool {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        let packed = call.run.batch.side(self.side);
        for (k, pooling) in self.poolings.iter().enumerate() {
            for (s, span) in packed.spans.iter().enumerate() {
                over_columns(call.worker, x.width, |columns| {
                    // SAFETY: `isa` is this machine's; the rows exist, and nobody else touches these columns of row `s`.
                    unsafe {
                        let to = y.data.add(s * y.width + k * x.width + columns.start);
                        let (isa, pooling, columns) = (call.run.isa, *pooling, columns);
                        PoolOne { isa, pooling, packed, span, columns }.run(x, to);
                    }
                });
            }
        }
    }
}

/// One pooling of some columns of one sequence.
struct PoolOne<'a> {
    isa: Isa,
    pooling: Pooling,
    packed: &'a Packed,
    span: &'a Span,
    columns: Range<usize>,
}

impl PoolOne<'_> {
    /// Pools x into `to`.
    ///
    /// # Safety
    /// `isa` is this machine's; the span's rows of x exist, `to` has room for the columns, and nobody else touches it.
    unsafe fn run(&self, x: Block, to: *mut f32) {
        let (from, count) =
            (|i: usize| (self.span.start + i) * x.width + self.columns.start, self.columns.len());
        // SAFETY: the caller's promise.
        unsafe {
            let copy = |i: usize| to.copy_from_nonoverlapping(x.data.add(from(i)), count);
            match self.pooling {
                Pooling::First | Pooling::Last | Pooling::LastBut(_) => {
                    copy(self.pooling.one(self.packed, self.span).unwrap_or(0));
                }
                Pooling::Max => {
                    copy(self.span.unpooled);
                    for i in self.span.unpooled + 1..self.span.len {
                        dispatch!(self.isa, |L| two::<L>(Larger, to, x.data.add(from(i)), to, count));
                    }
                }
                Pooling::WeightedMean => {
                    to.write_bytes(0, count);
                    for i in self.span.unpooled..self.span.len {
                        let weight =
                            PlusTimes(self.pooling.weight(self.packed, self.span, i).unwrap_or(0.0) as f32);
                        dispatch!(self.isa, |L| two::<L>(weight, to, x.data.add(from(i)), to, count));
                    }
                }
                Pooling::Mean | Pooling::MeanRoot => {
                    to.write_bytes(0, count);
                    for i in self.span.unpooled..self.span.len {
                        dispatch!(self.isa, |L| two::<L>(Sum, to, x.data.add(from(i)), to, count));
                    }
                    let mean =
                        Times(self.pooling.weight(self.packed, self.span, self.span.unpooled).unwrap_or(0.0)
                            as f32);
                    dispatch!(self.isa, |L| one::<L>(mean, to, to, count));
                }
            }
        }
    }

    /// What it adds to dx; `dy` is where the columns begin.
    ///
    /// # Safety
    /// `isa` is this machine's; the span's rows of x and dx exist, `dy` holds the columns, and nobody else touches those of dx.
    unsafe fn grad(&self, x: Block, dy: *const f32, dx: Block) {
        let at = |i: usize, column: usize| (self.span.start + i) * dx.width + column;
        // SAFETY: the caller's promise.
        unsafe {
            if self.pooling == Pooling::Max {
                for (offset, column) in self.columns.clone().enumerate() {
                    let number = |i: usize| *x.data.add(at(i, column));
                    let largest = (self.span.unpooled..self.span.len)
                        .fold(self.span.unpooled, |best, i| if number(i) > number(best) { i } else { best });
                    *dx.data.add(at(largest, column)) += *dy.add(offset);
                }
                return;
            }
            for i in self.span.unpooled..self.span.len {
                let weight = PlusTimes(self.pooling.weight(self.packed, self.span, i).unwrap_or(0.0) as f32);
                let to = dx.data.add(at(i, self.columns.start));
                dispatch!(self.isa, |L| two::<L>(weight, to, dy, to, self.columns.len()));
            }
        }
    }
}

/// Inputs x and dy.
impl CpuOperation for PoolGrad {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (x, dy, dx) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        let packed = call.run.batch.side(self.pool.side);
        over_columns(call.worker, dx.width, |columns| {
            for (s, span) in packed.spans.iter().enumerate() {
                for i in span.start..span.start + span.len {
                    // SAFETY: the row exists, and nobody else touches these columns.
                    unsafe { clear_columns(dx, i, &columns) };
                }
                for (k, pooling) in self.pool.poolings.iter().enumerate() {
                    // SAFETY: `isa` is this machine's; the rows exist, and nobody else touches these columns of dx.
                    unsafe {
                        let from = dy.data.add(s * dy.width + k * dx.width + columns.start);
                        let (isa, pooling, columns) = (call.run.isa, *pooling, columns.clone());
                        PoolOne { isa, pooling, packed, span, columns }.grad(x, from, dx);
                    }
                }
            }
        });
    }
}

/// Inputs memory and x.
impl CpuOperation for Recall {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (memory, x, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        let spans = &call.run.batch.side(self.side).spans;
        each_row(call.worker, y.rows, y.width, |i| {
            let end = |span: &Span| span.memory_start + span.memory + span.start + span.len;
            let span = &spans[spans.partition_point(|span| end(span) <= i)];
            let within = i - span.memory_start - span.start;
            // SAFETY: the rows exist, nobody else writes row `i`, and y overlaps neither input.
            unsafe {
                y.row_mut(i).copy_from_slice(match within.checked_sub(span.memory) {
                    None => memory.row(span.memory_start + within),
                    Some(later) => x.row(span.start + later),
                });
            }
        });
    }
}

/// Inputs memory and x.
impl CpuOperation for Remember {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (memory, x, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        let packed = call.run.batch.side(self.side);
        let each = packed.remembered(self.most);
        each_row(call.worker, y.rows, y.width, |i| {
            let span = &packed.spans[i / each];
            let within = span.memory + span.len - each + i % each;
            // SAFETY: the rows exist, nobody else writes row `i`, and y overlaps neither input.
            unsafe {
                y.row_mut(i).copy_from_slice(match within.checked_sub(span.memory) {
                    None => memory.row(span.memory_start + within),
                    Some(later) => x.row(span.start + later),
                });
            }
        });
    }
}

/// Input dy.
impl CpuOperation for RecallGrad {
    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let spans = &call.run.batch.side(self.side).spans;
        let place = |i: usize| {
            let span = &spans[spans.partition_point(|span| span.start + span.len <= i)];
            Some(span.memory_start + span.memory + i)
        };
        // SAFETY: the caller's promise.
        unsafe { gather(call, call.inputs[0], place) };
    }
}
