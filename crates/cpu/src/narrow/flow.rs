//! One work item on AMX: a patch is multiplied while the one before is finished.
//!
//! Tiles are multiplied beside everything else that a core does, but a core has few tile registers more than it shows: it waits
//! with whatever follows a multiplication until there is one free. So what else is to be done comes in small pieces, one behind
//! each multiplication: a row of the patch before, which gets its bias and what follows and goes to C, and a few lines of B that are
//! asked for, for the next item. Behind three steps, twelve multiplications, the same work is not hidden at all.

use super::amx::{Cursor, Tiles};
use super::finish::Place;
use super::patch::{Shape, Strips, Sums};
use super::{Format, Item, LINE, LINES, Product, TILE, UNIT};
use crate::dispatch;
use crate::isa::Isa;
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Computes one item.
///
/// # Safety
/// As for [`Product::run_item`]; the item lies inside the product, and the machine has AMX.
pub(super) unsafe fn run(product: &Product, item: &Item, next: Option<Range<usize>>) {
    let mut ahead = Ahead::of(product, item, next);
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
            let mut flow = Flow { tiles, sums, waiting: None, ahead: &mut ahead };
            match shape {
                Shape::Square => flow.block_by_block(product, &rows, &item.units),
                Shape::Wide => flow.panel_by_panel(product, &rows, &item.units),
            }
            flow.finish();
        }
    }
}

/// How many of so many rows go by thirty-two: a last block of sixteen or fewer stays alone. Where there are no more than
/// thirty-two, memory has to give B, and gives it faster at four places at once: then blocks go by sixteen, one after the
/// other over the same panels.
fn in_squares(rows: usize) -> usize {
    match rows % (2 * LINES) {
        _ if rows <= 2 * LINES => 0,
        rest @ 1..=LINES => rows - rest,
        _ => rows,
    }
}

/// Patches on their way.
struct Flow<'a> {
    tiles: Tiles,
    /// The sums of the patch at hand, and of the one before.
    sums: [*mut Sums; 2],
    /// The patch before, if it is not finished.
    waiting: Option<Place>,
    ahead: &'a mut Ahead,
}

/// What is asked for of the next item's B, little by little while this item is multiplied.
struct Ahead {
    next: *const u8,
    /// Lines that are left.
    left: usize,
    /// Lines at a time.
    each: usize,
}

impl Ahead {
    fn of(product: &Product, item: &Item, next: Option<Range<usize>>) -> Self {
        let units = next.unwrap_or(0..0);
        let lines = units.len() * UNIT * product.tiles();
        let times = item.rows.len().div_ceil(2 * LINES)
            * (item.units.len() * UNIT).div_ceil(2 * LINES)
            * product.tiles();
        let next = product.b_tile(units.start * UNIT / LINES, 0);
        Self { next, left: lines, each: lines.div_ceil(times.max(1)) }
    }

    #[inline(always)]
    fn ask(&mut self) {
        let some = self.each.min(self.left);
        for line in 0..some {
            fetch(self.next.wrapping_add(line * LINE));
        }
        self.next = self.next.wrapping_add(some * LINE);
        self.left -= some;
    }
}

impl Flow<'_> {
    /// All patches of two by two tiles: for many rows, which a block of B serves while it is near.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn block_by_block(&mut self, product: &Product, rows: &Range<usize>, units: &Range<usize>) {
        for index in 0..product.blocks() {
            let strips = Strips::new(product, Isa::Avx512, Shape::Square, rows.clone(), index);
            for row in strips.starts() {
                for panel in strips.panels(units).step_by(Shape::Square.across()) {
                    // SAFETY: the caller's promise.
                    unsafe { self.patch(&strips, row, panel) };
                }
            }
            // The next block goes on with what this one leaves in C.
            // SAFETY: the caller's promise.
            unsafe { self.finish() };
        }
    }

    /// All patches of one by four tiles: for few rows, and B comes from memory, which gives it fastest from beginning to end.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn panel_by_panel(&mut self, product: &Product, rows: &Range<usize>, units: &Range<usize>) {
        let strips = |index: usize| Strips::new(product, Isa::Avx512, Shape::Wide, rows.clone(), index);
        for panel in strips(0).panels(units).step_by(Shape::Wide.across()) {
            for index in 0..product.blocks() {
                let strips = strips(index);
                if strips.goes_on() {
                    // SAFETY: the caller's promise.
                    unsafe { self.finish() };
                }
                for row in strips.starts() {
                    // SAFETY: the caller's promise.
                    unsafe { self.patch(&strips, row, panel) };
                }
            }
        }
    }

    /// Finishes the last patch.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn finish(&mut self) {
        if let Some(before) = self.waiting.take() {
            // SAFETY: the caller's promise; the sums of the patch before are in the second place.
            unsafe { before.store(self.sums[1], 0, before.part.rows) };
        }
    }

    /// One patch, while the one before is finished.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn patch(&mut self, strips: &Strips<'_>, row: usize, panel: usize) {
        let (shape, place) = (strips.shape, strips.place(row, panel));
        // SAFETY: the caller's promise; the two places of sums change roles from patch to patch.
        unsafe {
            self.begin(strips, &place);
            match (shape, strips.product.format) {
                (Shape::Square, Format::Bf16) => self.steps::<true, false>(strips, row, panel),
                (Shape::Square, Format::Int8) => self.steps::<true, true>(strips, row, panel),
                (Shape::Wide, Format::Bf16) => self.steps::<false, false>(strips, row, panel),
                (Shape::Wide, Format::Int8) => self.steps::<false, true>(strips, row, panel),
            }
            if is_whole(shape, &place) && strips.keeps() {
                self.tiles.store(shape, place.part.c, 4 * place.part.stride);
            } else {
                self.tiles.store(shape, self.sums[0].cast(), 4 * shape.width());
                self.sums.swap(0, 1);
                self.waiting = Some(place);
            }
        }
    }

    /// The steps along k of a patch, in squares or not, of integers or not.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(never)]
    unsafe fn steps<const SQUARE: bool, const INTEGERS: bool>(
        &mut self,
        strips: &Strips<'_>,
        row: usize,
        panel: usize,
    ) {
        let shape = if SQUARE { Shape::Square } else { Shape::Wide };
        let format = if INTEGERS { Format::Int8 } else { Format::Bf16 };
        let Strips { product, ref steps, .. } = *strips;
        let mut cursor = Cursor {
            a: product.a_tile(row / LINES, steps.start),
            b: product.b_tile(panel, steps.start),
            stride: product.tiles() * TILE,
        };
        let before = self.waiting.take();
        let rows = before.map_or(0, |before| before.part.rows);
        let (each, mut done) = (rows.div_ceil(steps.len()), 0);
        // SAFETY: the caller's promise.
        unsafe {
            for _ in 0..steps.len() {
                self.tiles.step(format, shape, &mut cursor);
                if let Some(before) = &before
                    && done < rows
                {
                    let some = each.min(rows - done);
                    before.store(self.sums[1], done, done + some);
                    done += some;
                }
                self.ahead.ask();
            }
        }
    }

    /// Begins a patch with zeros, or with what C holds.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn begin(&mut self, strips: &Strips<'_>, place: &Place) {
        let shape = strips.shape;
        // SAFETY: the caller's promise; what lies beyond the last row and column of the sums does not matter. A machine with AMX
        // has AVX-512.
        unsafe {
            if !strips.goes_on() {
                self.tiles.zero();
            } else if is_whole(shape, place) {
                self.tiles.load(shape, place.part.c, 4 * place.part.stride);
            } else {
                dispatch!(Isa::Avx512, |L| place.load::<L>(self.sums[0]));
                self.tiles.load(shape, self.sums[0].cast(), 4 * shape.width());
            }
        }
    }
}

/// Whether all rows and columns of a patch lie in C.
#[inline(always)]
fn is_whole(shape: Shape, place: &Place) -> bool {
    place.part.rows == shape.height() && place.part.columns == shape.width()
}

/// Asks for a line in the second cache.
#[inline(always)]
fn fetch(address: *const u8) {
    // SAFETY: prefetching reads nothing, and every x86-64 machine has the instruction.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
}
