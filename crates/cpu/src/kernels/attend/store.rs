//! Keys and values written into pages.

use glassformer_graph::ops::Store;
use glassformer_graph::{PAGE, Slot};

use super::machine::Machine;
use super::tiles;
use crate::context::{Block, Context};
use crate::dispatch;
use crate::team::Worker;

/// See [`super::store`].
///
/// # Safety
/// As there.
pub(super) unsafe fn store(op: &Store, inputs: &[Block], run: &Context<'_>, worker: &Worker<'_>) {
    let (k, v) = (inputs[0], inputs[1]);
    let Slot { heads, size } = op.heads;
    let pages = run.pages(op.pages);
    for span in &run.batch.side(op.side).spans {
        let end = span.past + span.len;
        let first = span.past / PAGE;
        // A page is one worker's, so no two of them write to one cache line.
        worker.share(end.div_ceil(PAGE) - first, |page| {
            let begin = (first + page) * PAGE;
            let rows = begin.max(span.past)..end.min(begin + PAGE);
            let at = (span.start + rows.start - span.past) * k.width;
            for head in 0..heads {
                // SAFETY: the pages were reserved for rows up to the span's end; the inputs have these rows.
                unsafe {
                    let keys = pages.data.add(pages.tables.keys_at(span.table, rows.start, op.slot, head));
                    let values =
                        pages.data.add(pages.tables.values_at(span.table, rows.start, op.slot, head));
                    let (k, v) = (k.data.add(at + head * size), v.data.add(at + head * size));
                    if tiles::used(run, size) {
                        let place = (rows.start % PAGE, rows.len());
                        tiles::store(run.isa, size, place, (k, v, heads * size), (keys, values));
                        continue;
                    }
                    if rows.len() == PAGE {
                        let stride = heads * size;
                        dispatch!(run.isa, |L| L::turn(k, stride as isize, 0..PAGE, size, keys));
                    } else {
                        for (i, row) in rows.clone().enumerate() {
                            for d in 0..size {
                                *keys.add(d * PAGE + row % PAGE) = *k.add(i * heads * size + d);
                            }
                        }
                    }
                    for (i, row) in rows.clone().enumerate() {
                        let from = v.add(i * heads * size);
                        values.add(row % PAGE * size).copy_from_nonoverlapping(from, size);
                    }
                }
            }
        });
    }
}
