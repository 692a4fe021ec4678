//! One work item on AMX: a patch is multiplied while the one before is finished.
//!
//! Tiles are multiplied beside everything else that a core does, but a core looks only a few hundred instructions ahead, less
//! than a patch is long. So the steps of a patch come in groups, and between two groups a few rows of the patch before
//! get their bias and go to C, and a few lines of B are asked for, for the next item.

use super::amx::{Cursor, Tiles};
use super::finish::{Finish, Place};
use super::patch::{Shape, Strips, Sums};
use super::{Item, LINE, LINES, Product, TILE, UNIT};
use crate::lanes::dispatch::on_avx512;
use crate::lanes::{Avx512, Lanes};
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Steps along k between two looks at something else.
const GROUP: usize = 3;

/// Computes one item.
///
/// # Safety
/// As for [`Product::run_item`]; the item lies inside the product, and the machine has AMX.
pub(super) unsafe fn run(product: &Product, item: &Item, next: Option<Range<usize>>) {
    // SAFETY: a machine with AMX has AVX-512; the rest is the caller's promise.
    unsafe {
        on_avx512(
            #[inline(always)]
            || blocks::<Avx512>(product, item, next),
        );
    }
}

/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn blocks<L: Lanes>(product: &Product, item: &Item, next: Option<Range<usize>>) {
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
                Shape::Square => flow.block_by_block::<L>(product, &rows, &item.units),
                Shape::Wide => flow.panel_by_panel::<L>(product, &rows, &item.units),
            }
            flow.finish::<L>();
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
            * product.tiles().div_ceil(GROUP);
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
    #[inline(always)]
    unsafe fn block_by_block<L: Lanes>(
        &mut self,
        product: &Product,
        rows: &Range<usize>,
        units: &Range<usize>,
    ) {
        for index in 0..product.blocks() {
            let strips = Strips::new(product, Shape::Square, rows.clone(), index);
            for row in strips.starts() {
                for panel in strips.panels(units).step_by(Shape::Square.across()) {
                    // SAFETY: the caller's promise.
                    unsafe { self.patch::<L>(&strips, row, panel) };
                }
            }
            // The next block goes on with what this one leaves in C.
            // SAFETY: the caller's promise.
            unsafe { self.finish::<L>() };
        }
    }

    /// All patches of one by four tiles: for few rows, and B comes from memory, which gives it fastest from beginning to end.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn panel_by_panel<L: Lanes>(
        &mut self,
        product: &Product,
        rows: &Range<usize>,
        units: &Range<usize>,
    ) {
        let strips = |index: usize| Strips::new(product, Shape::Wide, rows.clone(), index);
        for panel in strips(0).panels(units).step_by(Shape::Wide.across()) {
            for index in 0..product.blocks() {
                let strips = strips(index);
                if strips.goes_on() {
                    // SAFETY: the caller's promise.
                    unsafe { self.finish::<L>() };
                }
                for row in strips.starts() {
                    // SAFETY: the caller's promise.
                    unsafe { self.patch::<L>(&strips, row, panel) };
                }
            }
        }
    }

    /// Finishes the last patch.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn finish<L: Lanes>(&mut self) {
        if let Some(before) = self.waiting.take() {
            // SAFETY: the caller's promise; the sums of the patch before are in the second place.
            unsafe { before.store::<L>(self.sums[1], 0..before.part.rows) };
        }
    }

    /// One patch, while the one before is finished.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn patch<L: Lanes>(&mut self, strips: &Strips<'_>, row: usize, panel: usize) {
        let Strips { product, shape, ref steps, .. } = *strips;
        let place = strips.place(row, panel);
        let mut cursor = Cursor {
            a: product.a_tile(row / LINES, steps.start),
            b: product.b_tile(panel, steps.start),
            stride: product.tiles() * TILE,
        };
        let groups = steps.len().div_ceil(GROUP);
        let waiting = self.waiting.take();
        let rows = waiting.map_or(0, |before| before.part.rows);
        let each = rows.div_ceil(groups);
        // SAFETY: the caller's promise; the two places of sums change roles from patch to patch.
        unsafe {
            self.begin::<L>(strips, &place);
            for group in 0..groups {
                let count = GROUP.min(steps.len() - group * GROUP);
                self.tiles.steps(product.format, shape, &mut cursor, count);
                if let Some(before) = &waiting {
                    let done = rows.min(group * each);
                    before.store::<L>(self.sums[1], done..rows.min(done + each));
                }
                self.ahead.ask();
            }
            if is_whole(shape, &place) && matches!(place.finish, Finish::Keep) {
                self.tiles.store(shape, place.part.c, 4 * place.part.stride);
            } else {
                self.tiles.store(shape, self.sums[0].cast(), 4 * shape.width());
                self.sums.swap(0, 1);
                self.waiting = Some(place);
            }
        }
    }

    /// Begins a patch with zeros, or with what C holds.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn begin<L: Lanes>(&mut self, strips: &Strips<'_>, place: &Place) {
        let shape = strips.shape;
        // SAFETY: the caller's promise; what lies beyond the last row and column of the sums does not matter.
        unsafe {
            if !strips.goes_on() {
                self.tiles.zero();
            } else if is_whole(shape, place) {
                self.tiles.load(shape, place.part.c, 4 * place.part.stride);
            } else {
                place.load::<L>(self.sums[0]);
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
