//! One work item on AMX. The epilogue of one patch overlaps the next patch's multiply.
//!
//! A core multiplies tiles in the background, but it can rename only a few tile registers. After a few multiplications it stalls until one is
//! done. So other work comes in small pieces, one behind each step: some rows of the previous patch's epilogue, and some lines of the next B,
//! which are prefetched. If the same work comes after three steps, nothing hides it.

use super::amx::{Cursor, Tiles};
use super::epilogue::Place;
use super::patch::{Shape, Sums, Unpacked};
use super::prefetch::{PANELS, Prefetch, Prefetcher, Units};
use super::strips::Strips;
use super::{Format, Item, LINES, LowpGemm, TILE, UNIT, int4};
use crate::dispatch;
use crate::epilogue::Store;
use crate::isa::Isa;
use crate::tuning::lowp::{AMX_ITEM_UNITS, MAX_INTEGER_BLOCK, UNPACKED_RING, UNPACKING_DISTANCE};
use std::arch::x86_64::_mm_sfence;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Computes one item.
///
/// # Safety
/// As for [`LowpGemm::run_item`]; the item lies inside the product, and the machine has AMX.
pub(super) unsafe fn run(product: &LowpGemm, item: &Item, next: Units) {
    // SAFETY: the caller's promise; B in four bits has a place to be unpacked to.
    unsafe {
        match product.format {
            Format::Bf16 | Format::Int8 => run_at(product, item, next, std::ptr::null_mut()),
            Format::Int4 => {
                let mut place =
                    MaybeUninit::<Unpacked<{ AMX_ITEM_UNITS * UNIT / LINES * MAX_INTEGER_BLOCK }>>::uninit();
                run_at(product, item, next, place.as_mut_ptr().cast());
            }
        }
    }
}

/// The same, with room for the item's tiles of B over a block of k, where they have to be unpacked.
///
/// # Safety
/// As for [`run`].
unsafe fn run_at(product: &LowpGemm, item: &Item, next: Units, unpacked: *mut u8) {
    // Written before they are read.
    let mut sums = MaybeUninit::<[Sums; 2]>::uninit();
    let first = sums.as_mut_ptr().cast::<Sums>();
    let edge = item.rows.start + in_squares(item.rows.len());
    for (shape, rows) in [(Shape::Square, item.rows.start..edge), (Shape::Wide, edge..item.rows.end)] {
        if rows.is_empty() {
            continue;
        }
        // SAFETY: the caller's promise. Tiles are configured for this shape, with fewer lines where there is not even one whole
        // block of rows.
        unsafe {
            let tiles = Tiles::configure(shape, rows.len().min(LINES));
            let sums = [first, first.add(1)];
            let prefetcher = Prefetcher::NOTHING;
            let mut pipeline = Pipeline { tiles, sums, waiting: None, unpacked, first: 0, prefetcher, next };
            match shape {
                Shape::Square => pipeline.block_by_block(product, &rows, &item.units),
                Shape::Wide => pipeline.panel_by_panel(product, &rows, &item.units),
            }
        }
    }
    if product.epilogue.store == Store::Streaming {
        // Streaming stores are visible before this thread signals that it is done.
        // SAFETY: every x86-64 machine has the instruction.
        unsafe { _mm_sfence() };
    }
}

/// How many of these rows are multiplied by thirty-two. A last block of sixteen or fewer is multiplied alone.
fn in_squares(rows: usize) -> usize {
    match rows % (2 * LINES) {
        rest @ 1..=LINES => rows - rest,
        _ => rows,
    }
}

/// Bytes of the tiles of four panels.
const FOUR_TILES: usize = Shape::Wide.across() * TILE;

/// The patch that is multiplied, and the one before, whose epilogue runs meanwhile.
struct Pipeline {
    tiles: Tiles,
    /// The sums of this patch, and of the previous one.
    sums: [*mut Sums; 2],
    /// The previous patch, if its epilogue has not run.
    waiting: Option<Waiting>,
    /// Where tiles of an `int4` B are unpacked to.
    unpacked: *mut u8,
    /// The first panel that is there.
    first: usize,
    prefetcher: Prefetcher,
    /// What this worker multiplies by after the item.
    next: Units,
}

/// A patch whose epilogue has not run.
#[derive(Clone, Copy)]
struct Waiting {
    /// Which of two places it is in, and at which column.
    place: usize,
    column: usize,
    rows: usize,
}

/// Patches side by side: where they are multiplied, and where their sums go.
struct Row<'a> {
    strips: &'a Strips<'a>,
    /// The first row and the first panel.
    first: usize,
    panel: usize,
    /// The first tiles of A and, in the first panel, of B.
    start: Cursor,
    /// The place of these patches, and of those before.
    places: &'a [Place; 2],
    /// Which of them is that of these.
    place: usize,
    /// How many rows of the previous patch's epilogue run after each step.
    each: usize,
}

impl Pipeline {
    /// Patches of two by two tiles, for many rows: a block of B stays in the cache while all rows use it.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn block_by_block(&mut self, product: &LowpGemm, rows: &Range<usize>, units: &Range<usize>) {
        for index in 0..product.blocks() {
            let strips = Strips::new(product, Isa::Avx512, Shape::Square, rows.clone(), index);
            self.set_prefetcher(&strips, units, index);
            // SAFETY: the caller's promise.
            unsafe { self.unpack(&strips, 4 * units.start..4 * units.end) };
            let panels = strips.panels(units);
            let mut places = [strips.place(rows.start, &panels); 2];
            for (number, first) in strips.starts().enumerate() {
                places[number % 2] = strips.place(first, &panels);
                let row = self.row(&strips, [first, panels.start], &places, number % 2);
                for panel in (0..panels.len()).step_by(Shape::Square.across()) {
                    // SAFETY: the caller's promise.
                    unsafe { self.patch(&row, panel) };
                }
            }
            // The next block goes on with what this one leaves in C.
            // SAFETY: the caller's promise.
            unsafe { self.finish(&places) };
        }
    }

    /// Patches of one by four tiles, for few rows: B is read once from memory, from front to back.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn panel_by_panel(&mut self, product: &LowpGemm, rows: &Range<usize>, units: &Range<usize>) {
        let strips = |index: usize| Strips::new(product, Isa::Avx512, Shape::Wide, rows.clone(), index);
        let panels = strips(0).panels(units);
        let mut places = [strips(0).place(rows.start, &panels); 2];
        let mut number = 0;
        for panel in panels.step_by(Shape::Wide.across()) {
            let unit = panel / PANELS;
            let behind = self.next.behind(product, units, unit);
            let unit = Units::of(product, &(unit..unit + 1));
            for index in 0..product.blocks() {
                let strips = strips(index);
                if strips.accumulates() {
                    // SAFETY: the caller's promise.
                    unsafe { self.finish(&places) };
                }
                self.prefetcher = Prefetcher::along(&unit, &behind, strips.steps.start);
                for first in strips.starts() {
                    places[number % 2] = strips.place_of_one(first, panel);
                    let row = self.row(&strips, [first, panel], &places, number % 2);
                    number += 1;
                    // SAFETY: the caller's promise.
                    unsafe { self.patch(&row, 0) };
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.finish(&places) };
    }

    /// Decides what is prefetched while these strips are multiplied by these units.
    fn set_prefetcher(&mut self, strips: &Strips<'_>, units: &Range<usize>, index: usize) {
        let (product, shape) = (strips.product, strips.shape);
        let patches =
            strips.rows.len().div_ceil(shape.height()) * (units.len() * UNIT).div_ceil(shape.width());
        let (next, tiles) = if index + 1 < product.blocks() {
            (Units::of(product, units), product.block(index + 1))
        } else {
            (self.next, self.next.first_block())
        };
        self.prefetcher = Prefetcher::of(&next, &tiles, patches * strips.steps.len());
    }

    /// Unpacks some panels over the block of `strips`, if B is `int4`.
    ///
    /// # Safety
    /// As for [`run`]; there are no more panels than there is room for.
    unsafe fn unpack(&mut self, strips: &Strips<'_>, panels: Range<usize>) {
        if strips.product.format == Format::Int4 {
            self.first = panels.start;
            // SAFETY: the caller's promise; columns are filled up to whole units.
            unsafe { int4::unpack(Isa::Avx512, strips.product, panels, &strips.steps, self.unpacked) };
        }
    }

    /// The patches from this row and panel on, side by side, which go to one of two places.
    fn row<'a>(
        &self,
        strips: &'a Strips<'a>,
        [first, panel]: [usize; 2],
        places: &'a [Place; 2],
        place: usize,
    ) -> Row<'a> {
        let Strips { product, shape, ref steps, .. } = *strips;
        let (b, across) = match product.format {
            Format::Bf16 | Format::Int8 => (product.b_tile(panel, steps.start), product.tiles() * TILE),
            Format::Int4 if shape == Shape::Wide => (self.unpacked.cast_const(), TILE),
            Format::Int4 => {
                let across = steps.len() * TILE;
                (self.unpacked.wrapping_add((panel - self.first) * across).cast_const(), across)
            }
        };
        let a = product.a_tile(first / LINES, steps.start);
        let start = Cursor { a, b, down: product.tiles() * TILE, across };
        Row { strips, first, panel, start, places, place, each: shape.height().div_ceil(steps.len()) }
    }

    /// Runs the epilogue of the last patch.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn finish(&mut self, places: &[Place; 2]) {
        if let Some(Waiting { place, column, rows }) = self.waiting.take() {
            // SAFETY: the caller's promise; the second sums are those of the previous patch.
            unsafe { places[place].finish(column, self.sums[1], 0, rows) };
        }
    }

    /// Multiplies the patch at a panel of a row, counted from the row's first, and runs the epilogue of the previous one.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn patch(&mut self, row: &Row<'_>, panel: usize) {
        let Row { strips, places, place, .. } = *row;
        let (shape, at, column) = (strips.shape, &places[place], panel * LINES);
        let whole = at.region.rows == shape.height() && column + shape.width() <= at.region.columns;
        let c = at.region.c.wrapping_add(column);
        // SAFETY: the caller's promise; the two sums change roles from patch to patch.
        unsafe {
            if !strips.accumulates() {
                self.tiles.zero();
            } else if whole {
                self.tiles.load(shape, c, 4 * at.region.stride);
            } else {
                // What lies beyond the last row and column of the sums does not matter. A machine with AMX has AVX-512.
                dispatch!(Isa::Avx512, |L| at.load::<L>(column, self.sums[0]));
                self.tiles.load(shape, self.sums[0].cast(), 4 * shape.width());
            }
            match (shape, strips.product.format) {
                (Shape::Square, Format::Bf16) => self.steps::<true, false, false>(row, panel),
                (Shape::Square, Format::Int8 | Format::Int4) => self.steps::<true, true, false>(row, panel),
                (Shape::Wide, Format::Bf16) => self.steps::<false, false, false>(row, panel),
                (Shape::Wide, Format::Int8) => self.steps::<false, true, false>(row, panel),
                (Shape::Wide, Format::Int4) => self.steps::<false, true, true>(row, panel),
            }
            if whole && strips.keeps() {
                self.waiting = None;
                self.tiles.store(shape, c, 4 * at.region.stride);
            } else {
                self.tiles.store(shape, self.sums[0].cast(), 4 * shape.width());
                self.sums.swap(0, 1);
                self.waiting = Some(Waiting { place, column, rows: at.region.rows });
            }
        }
    }

    /// The steps along k of a patch: by squares or not, of integers or not, with B unpacked on the way or not.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(never)]
    unsafe fn steps<const SQUARE: bool, const INTEGERS: bool, const UNPACKS: bool>(
        &mut self,
        row: &Row<'_>,
        panel: usize,
    ) {
        let shape = if SQUARE { Shape::Square } else { Shape::Wide };
        let format = if INTEGERS { Format::Int8 } else { Format::Bf16 };
        let Strips { product, ref steps, .. } = *row.strips;
        let mut cursor = Cursor { b: row.start.b.wrapping_add(panel * row.start.across), ..row.start };
        let (count, mut done) = (self.waiting.map_or(0, |waiting| waiting.rows), 0);
        // SAFETY: the caller's promise.
        unsafe {
            // The first strip unpacks the panels; another finds them.
            let unpacks = UNPACKS && row.first == row.strips.rows.start;
            let ring = if row.strips.rows.len() <= LINES { UNPACKED_RING } else { MAX_INTEGER_BLOCK };
            let mut unpack = |step: usize| {
                if unpacks && step < steps.len() {
                    let to = self.unpacked.add(step % ring * FOUR_TILES);
                    int4::unpack_unit(product, row.panel / Shape::Wide.across(), steps.start + step, to);
                }
            };
            (0..UNPACKING_DISTANCE).for_each(&mut unpack);
            self.tiles.first(shape, &cursor);
            for step in 0..steps.len() {
                if UNPACKS {
                    unpack(step + UNPACKING_DISTANCE);
                    cursor.b = self.unpacked.add(step % ring * FOUR_TILES);
                }
                self.tiles.step(format, shape, &mut cursor, step + 1 == steps.len());
                if let Some(Waiting { place, column, .. }) = self.waiting
                    && done < count
                {
                    let to = count.min(done + row.each);
                    row.places[place].finish(column, self.sums[1], done, to);
                    done = to;
                }
                self.prefetcher.some();
            }
        }
    }
}
