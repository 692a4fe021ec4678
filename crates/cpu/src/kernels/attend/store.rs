//! Keys and values written into pages.

use glassformer_graph::ops::Store;
use glassformer_graph::{PAGE, Slot, Span};

use super::form::{Form, HeadRows};
use super::walk::share;
use super::{bf16, tiles};
use crate::context::{Block, Context};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::Lanes;
use crate::pages::{KeysAndValues, PagesAt};
use crate::team::Worker;

/// See [`super::store`].
///
/// # Safety
/// As there.
pub(super) unsafe fn store(op: &Store, inputs: &[Block], run: &Context<'_>, worker: &Worker<'_>) {
    let (k, v) = (inputs[0], inputs[1]);
    let Slot { heads, size } = op.heads;
    let pages = run.pages(op.pages);
    let spans = &run.batch.side(op.side).spans;
    let form = Form::stored(run, op.pages, size);
    if spans.iter().any(|span| pages.book.page_before(span.table).is_some()) {
        worker.share(spans.len(), |s| {
            for head in 0..heads {
                // SAFETY: the caller's promise; a page is one worker's.
                unsafe { take_over(op, &spans[s], head, pages, form) };
            }
        });
        // Where rows come from, others may be written next.
        worker.barrier();
    }
    // A page is one worker's, so no two of them write to one cache line.
    let count = |s: usize| (spans[s].past + spans[s].len).div_ceil(PAGE) - spans[s].past / PAGE;
    share(worker, spans.len(), count, |s, page| {
        let span = &spans[s];
        let begin = (span.past / PAGE + page) * PAGE;
        let rows = begin.max(span.past)..(span.past + span.len).min(begin + PAGE);
        let at = (span.start + rows.start - span.past) * k.width;
        for head in 0..heads {
            // SAFETY: the pages were reserved for rows up to the span's end; the inputs have these rows.
            unsafe {
                let page = pages.find(span.table, begin, op.slot, head);
                let [keys, values] = [k, v].map(|x| HeadRows {
                    start: x.data.add(at + head * size),
                    stride: heads * size,
                    count: rows.len(),
                    size,
                });
                let first = rows.start - begin;
                match form {
                    Form::F32 => store_f32(run.isa, keys, values, first, page),
                    Form::Bf16 => bf16::store(run.isa, keys, values, first, page),
                    Form::Tiles => tiles::store(keys, values, first, page),
                }
            }
        }
    });
}

/// Copies the rows of a head that lie before the first new one, if they are in another page still.
///
/// # Safety
/// The pages are valid, the one that the span goes on in for writes; nobody else uses that, or writes the other.
unsafe fn take_over(op: &Store, span: &Span, head: usize, pages: PagesAt<'_>, form: Form) {
    let Some(from) = pages.before(span.table, op.slot, head) else { return };
    let (size, count) = (op.heads.size, span.past % PAGE);
    let to = pages.find(span.table, span.past, op.slot, head);
    // SAFETY: the caller's promise; a page has room for sixteen rows.
    unsafe {
        match form {
            Form::F32 => {
                // Each number of sixteen keys, and with it what is none of these: one long copy, where there would be many short ones.
                to.keys.copy_from_nonoverlapping(from.keys, size * PAGE);
                to.values.copy_from_nonoverlapping(from.values, count * size);
            }
            Form::Bf16 => bf16::copy(size, count, from, to),
            Form::Tiles => tiles::copy(size, count, from, to),
        }
    }
}

/// Writes keys and values to a page, as many of each, from row `first` on.
///
/// # Safety
/// Keys and values are valid for reads, the page for writes; nobody else uses it.
unsafe fn store_f32(isa: Isa, keys: HeadRows, values: HeadRows, first: usize, page: KeysAndValues) {
    let HeadRows { count, size, .. } = keys;
    // SAFETY: the caller's promise.
    unsafe {
        if count == PAGE {
            dispatch!(isa, |L| L::transpose(keys.start, keys.stride as isize, 0..PAGE, size, page.keys));
        } else {
            for i in 0..count {
                for d in 0..size {
                    *page.keys.add(d * PAGE + first + i) = *keys.start.add(i * keys.stride + d);
                }
            }
        }
        for i in 0..count {
            let row = values.start.add(i * values.stride);
            page.values.add((first + i) * size).copy_from_nonoverlapping(row, size);
        }
    }
}
