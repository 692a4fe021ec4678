//! Keys and values written into pages.

use glassformer_graph::ops::Store;
use glassformer_graph::{PAGE, Slot};

use super::machine::Machine;
use super::tiles;
use super::walk::share;
use crate::context::{Block, Context};
use crate::dispatch;
use crate::isa::Isa;
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
                let keys = pages.data.add(pages.tables.keys_at(span.table, begin, op.slot, head));
                let values = pages.data.add(pages.tables.values_at(span.table, begin, op.slot, head));
                let [k, v] = [k, v].map(|x| x.data.add(at + head * size).cast_const());
                let from = (k, v, heads * size);
                let place = (rows.start - begin, rows.len());
                if tiles::used(run, size) {
                    tiles::store(size, place, from, (keys, values));
                } else {
                    store_wide(run.isa, size, place, from, (keys, values));
                }
            }
        }
    });
}

/// Writes rows `first..first + count` of a page, whose keys and values are `stride` apart.
///
/// # Safety
/// Keys and values are valid for reads, the page for writes; nobody else uses it.
unsafe fn store_wide(
    isa: Isa,
    size: usize,
    (first, count): (usize, usize),
    (k, v, stride): (*const f32, *const f32, usize),
    (keys, values): (*mut f32, *mut f32),
) {
    // SAFETY: the caller's promise.
    unsafe {
        if count == PAGE {
            dispatch!(isa, |L| L::turn(k, stride as isize, 0..PAGE, size, keys));
        } else {
            for i in 0..count {
                for d in 0..size {
                    *keys.add(d * PAGE + first + i) = *k.add(i * stride + d);
                }
            }
        }
        for i in 0..count {
            values.add((first + i) * size).copy_from_nonoverlapping(v.add(i * stride), size);
        }
    }
}
