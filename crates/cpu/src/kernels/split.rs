//! How the work of a step is cut into items. Whoever does an item, and however many there are, the bits are the same:
//! an item is some rows, some columns or some numbers, never a part of a sum.

use std::ops::Range;

use crate::team::Worker;

/// Numbers in an item: sixteen kilobytes, a microsecond or two of work, against the tens of nanoseconds that drawing
/// an item costs.
const NUMBERS: usize = 4096;
/// Columns in an item of a sum over rows: a few cache lines of every row.
const COLUMNS: usize = 64;

/// Numbers `0..count`, in items that begin at multiples of a cache line.
#[inline]
pub(super) fn over_numbers(worker: &Worker<'_>, count: usize, mut work: impl FnMut(Range<usize>)) {
    worker.share(count.div_ceil(NUMBERS), |item| {
        work(item * NUMBERS..count.min((item + 1) * NUMBERS));
    });
}

/// Rows `0..rows`, as many to an item as make it worth drawing.
#[inline]
pub(super) fn over_rows(worker: &Worker<'_>, rows: usize, width: usize, mut work: impl FnMut(Range<usize>)) {
    let each = (NUMBERS / width.max(1)).max(1);
    worker.share(rows.div_ceil(each), |item| work(item * each..rows.min((item + 1) * each)));
}

/// Columns `0..width`, for sums over rows.
#[inline]
pub(super) fn over_columns(worker: &Worker<'_>, width: usize, mut work: impl FnMut(Range<usize>)) {
    worker.share(width.div_ceil(COLUMNS), |item| {
        work(item * COLUMNS..width.min((item + 1) * COLUMNS));
    });
}
