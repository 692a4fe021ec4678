//! How the work of a step is cut into items. Whoever does an item, and however many there are, the bits are the same:
//! an item is some rows, some columns or some numbers, never a part of a sum.

use crate::tuning::kernels::{ITEM_COLUMNS, ITEM_NUMBERS};
use std::ops::Range;

use crate::team::Worker;

/// Numbers `0..count`, in items that begin at multiples of a cache line.
#[inline]
pub(super) fn over_numbers(worker: &Worker<'_>, count: usize, mut work: impl FnMut(Range<usize>)) {
    worker.share(count.div_ceil(ITEM_NUMBERS), |item| {
        work(item * ITEM_NUMBERS..count.min((item + 1) * ITEM_NUMBERS));
    });
}

/// Rows `0..rows`, as many to an item as make it worth drawing.
#[inline]
pub(super) fn over_rows(worker: &Worker<'_>, rows: usize, width: usize, mut work: impl FnMut(Range<usize>)) {
    let each = (ITEM_NUMBERS / width.max(1)).max(1);
    worker.share(rows.div_ceil(each), |item| work(item * each..rows.min((item + 1) * each)));
}

/// The same, row by row.
#[inline]
pub(super) fn each_row(worker: &Worker<'_>, rows: usize, width: usize, mut work: impl FnMut(usize)) {
    over_rows(worker, rows, width, |rows| rows.for_each(&mut work));
}

/// Columns `0..width`, for sums over rows.
#[inline]
pub(super) fn over_columns(worker: &Worker<'_>, width: usize, mut work: impl FnMut(Range<usize>)) {
    worker.share(width.div_ceil(ITEM_COLUMNS), |item| {
        work(item * ITEM_COLUMNS..width.min((item + 1) * ITEM_COLUMNS));
    });
}
