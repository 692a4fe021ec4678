//! One work item on vector registers: each patch is multiplied, then its epilogue runs.

use super::patch::{Beyond, Patch, Shape, Sums, Unpacked};
use super::prefetch::{Prefetcher, Units};
use super::strips::Strips;
use super::vector::Prepared;
use super::{Dot, Format, Item, LINES, LowpGemm, TILE, UNIT, int4, vector};
use crate::dispatch;
use crate::tuning::lowp::{
    AMX_ITEM_UNITS, MAX_INTEGER_BLOCK, MAX_ITEM_UNITS, PREFETCHED_UNITS, PREFETCHING_PASSES,
    PREFETCHING_ROWS, PREFETCHING_TILES, UNPACKED_STEPS,
};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Computes one item. This thread probably multiplies by the units `next` after it.
///
/// # Safety
/// As for [`LowpGemm::run_item`]; the item lies inside the product, and `dot` is not AMX.
pub(super) unsafe fn run(product: &LowpGemm, dot: Dot, item: &Item, next: Units) {
    if product.format == Format::Int4 {
        #[cfg(target_arch = "x86_64")]
        if reads_codes(dot, item.rows.len()) {
            // SAFETY: the caller's promise.
            return unsafe { by_coded_lines(product, dot, item, next) };
        }
        // SAFETY: the caller's promise.
        return unsafe { by_unpacked_lines(product, dot, item) };
    }
    let (mut sums, mut prepared) = (Sums::ZERO, Prepared::PLACE);
    let strips = |index: usize| Strips::new(product, dot.isa(), Shape::Wide, item.rows.clone(), index);
    let prefetches = PREFETCHING_ROWS.contains(&item.rows.len())
        && product.tiles() >= PREFETCHING_TILES
        && vector::prefetches(dot, product.format);
    for units in some_units(
        item,
        if prefetches { PREFETCHED_UNITS } else { most_units(product, item, MAX_ITEM_UNITS) },
    ) {
        for index in 0..product.blocks() {
            let strips = strips(index);
            let mut prefetcher = if prefetches {
                prefetcher_for(&strips, item, &units, index, next)
            } else {
                Prefetcher::NOTHING
            };
            let panels = strips.panels(&units);
            for row in strips.starts() {
                let place = strips.place(row, &panels);
                let first = strips.patch(row, panels.start, &raw mut sums);
                // SAFETY: the caller's promise.
                let a = unsafe { vector::left(dot, product.format, &first, &mut prepared) };
                for panel in panels.clone().step_by(Shape::Wide.across()) {
                    let column = (panel - panels.start) * LINES;
                    let beyond = (!prefetches && row == item.rows.start).then(|| {
                        let jump = jump(product, item, panel, next);
                        Beyond { left: product.tiles() - strips.steps.start, jump }
                    });
                    // SAFETY: the caller's promise.
                    unsafe {
                        if strips.accumulates() {
                            dispatch!(dot.isa(), |L| place.load::<L>(column, &raw mut sums));
                        }
                        let patch = Patch { a, beyond, ..first.at(panel - panels.start) };
                        vector::multiply(dot, product.format, &patch, &mut prefetcher);
                        place.store(column, &raw mut sums);
                    }
                }
            }
        }
    }
}

/// What is prefetched while these units are multiplied over a block of k: the next block of k, the next units, or the next item.
fn prefetcher_for(
    strips: &Strips<'_>,
    item: &Item,
    units: &Range<usize>,
    index: usize,
    next: Units,
) -> Prefetcher {
    let product = strips.product;
    let (next, tiles) = if index + 1 < product.blocks() {
        (Units::of(product, units), product.block(index + 1))
    } else if units.end < item.units.end {
        let next = Units::of(product, &(units.end..item.units.end)).first(PREFETCHED_UNITS);
        (next, next.first_block())
    } else {
        let next = next.first(PREFETCHED_UNITS);
        (next, next.first_block())
    };
    let times = strips.starts().count() * units.len() * PREFETCHING_PASSES * strips.steps.len();
    Prefetcher::of(&next, &tiles, times)
}

/// Units at a time: for many rows as many as stay in the cache; for few rows one, so that B is read from front to back.
fn most_units(product: &LowpGemm, item: &Item, most: usize) -> usize {
    if item.rows.len() <= LINES && product.blocks() > 1 { 1 } else { most }
}

/// The units of an item, some at a time.
fn some_units(item: &Item, most: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = item.units;
    (start..end).step_by(most).map(move |first| first..end.min(first + most))
}

/// Bytes from the end of a unit's first panel to the panels that are read after the unit.
fn jump(product: &LowpGemm, item: &Item, panel: usize, next: Units) -> usize {
    let from = product.b_panel(panel + 1);
    next.behind(product, &item.units, panel / Shape::Wide.across()).start().addr().wrapping_sub(from.addr())
}

/// The same for an `int4` B: the tiles of four panels are unpacked, then multiplied. With a single strip of rows, a few steps are unpacked at
/// a time, so that they stay in L1.
///
/// # Safety
/// As for [`run`].
unsafe fn by_unpacked_lines(product: &LowpGemm, dot: Dot, item: &Item) {
    let (no_shift, mut nothing) = (Sums::ZERO, Prefetcher::NOTHING);
    let mut unpacked =
        MaybeUninit::<Unpacked<{ AMX_ITEM_UNITS * UNIT / LINES * MAX_INTEGER_BLOCK }>>::uninit();
    let (mut sums, mut prepared, to) = (Sums::ZERO, Prepared::PLACE, unpacked.as_mut_ptr().cast::<u8>());
    let strips = |index: usize| Strips::new(product, dot.isa(), Shape::Wide, item.rows.clone(), index);
    let one_strip = item.rows.len() <= LINES;
    let most = if one_strip { UNPACKED_STEPS } else { MAX_INTEGER_BLOCK };
    for units in some_units(item, if one_strip { 1 } else { AMX_ITEM_UNITS }) {
        for index in 0..product.blocks() {
            let strips = strips(index);
            for first in strips.steps.clone().step_by(most) {
                let steps = first..strips.steps.end.min(first + most);
                let (begins, ends) = (first == strips.steps.start, steps.end == strips.steps.end);
                let of_panel = steps.len() * TILE;
                // SAFETY: the caller's promise; columns are filled up to four panels, and there is room for so many units and steps.
                unsafe {
                    int4::unpack(dot.isa(), product, 4 * units.start..4 * units.end, &steps, to);
                    for row in strips.starts() {
                        let panels = strips.panels(&units);
                        let patch = Patch {
                            a: product.a_tile(row / LINES, first),
                            stride: of_panel,
                            accumulates: !begins,
                            steps: steps.len(),
                            ..strips.patch(row, panels.start, &raw mut sums)
                        };
                        let a = vector::left(dot, Format::Int8, &patch, &mut prepared);
                        for panel in panels.step_by(Shape::Wide.across()) {
                            let shift = strips.patch(row, panel, &raw mut sums).shift;
                            let shift = if ends { shift } else { (&raw const no_shift).cast() };
                            let b = to.add((panel - 4 * units.start) * of_panel);
                            let patch = Patch { a, b, shift, ..patch };
                            vector::multiply(dot, Format::Int8, &patch, &mut nothing);
                            if ends {
                                strips.place_of_one(row, panel).store(0, &raw mut sums);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether so many rows are multiplied by `int4` codes as they are. With VNNI, a few rows are. Without VNNI all are: sums in sixteen bits are
/// faster there than `int8`.
#[cfg(target_arch = "x86_64")]
fn reads_codes(dot: Dot, rows: usize) -> bool {
    match dot {
        Dot::Avx2 | Dot::Avx512 => true,
        Dot::AvxVnni => rows <= crate::tuning::lowp::FEW_CODED_ROWS,
        Dot::Avx512Vnni | Dot::Avx512Dot => rows <= LINES,
        _ => false,
    }
}

/// The same, with nothing unpacked to memory.
///
/// # Safety
/// As for [`run`]; [`reads_codes`] is true of `dot` and the item's rows.
#[cfg(target_arch = "x86_64")]
unsafe fn by_coded_lines(product: &LowpGemm, dot: Dot, item: &Item, next: Units) {
    let mut sums = Sums::ZERO;
    let strips = |index: usize| Strips::new(product, dot.isa(), Shape::Wide, item.rows.clone(), index);
    for units in some_units(item, most_units(product, item, AMX_ITEM_UNITS)) {
        for index in 0..product.blocks() {
            let strips = strips(index);
            let panels = strips.panels(&units);
            for row in strips.starts() {
                let place = strips.place(row, &panels);
                let first = strips.patch(row, panels.start, &raw mut sums);
                for panel in panels.clone().step_by(Shape::Wide.across()) {
                    let (number, jump) = (panel / Shape::Wide.across(), jump(product, item, panel, next));
                    let (patch, column) = (first.at(panel - panels.start), (panel - panels.start) * LINES);
                    // SAFETY: the caller's promise.
                    unsafe {
                        let unit = int4::Unit { product, patch, number, k: &strips.steps, jump };
                        int4::multiply_unit(dot, &unit);
                        place.store(column, &raw mut sums);
                    }
                }
            }
        }
    }
}
