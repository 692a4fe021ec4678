//! One work item on AMX: a patch is multiplied while the one before is finished.
//!
//! Tiles are multiplied beside everything else that a core does, but a core looks only a few hundred instructions ahead, less
//! than a patch is long. So the steps of a patch come in groups, and between two groups a few rows of the patch before
//! get their bias and go to C, and a few lines of C are asked for that this patch will write.

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
    for index in 0..product.blocks() {
        for (shape, rows) in [(Shape::Square, item.rows.start..edge), (Shape::Wide, edge..item.rows.end)] {
            if rows.is_empty() {
                continue;
            }
            // SAFETY: the caller's promise. Tiles are configured for this shape, with fewer lines where there is not even one
            // whole block of rows.
            unsafe {
                let tiles = Tiles::configure(shape, rows.len().min(LINES));
                let strips = Strips::new(product, shape, rows, index);
                let sums = [first, first.add(1)];
                Flow { strips: &strips, tiles, sums, waiting: None, ahead: &mut ahead }.run::<L>(&item.units);
            }
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

/// Strips on their way.
struct Flow<'a> {
    strips: &'a Strips<'a>,
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
    /// All patches.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self, units: &Range<usize>) {
        let strips = self.strips;
        let panels = || strips.panels(units).step_by(strips.shape.across());
        // SAFETY: the caller's promise.
        unsafe {
            match strips.shape {
                Shape::Square => {
                    for (row, panel) in
                        strips.starts().flat_map(|row| panels().map(move |panel| (row, panel)))
                    {
                        self.patch::<L>(row, panel);
                    }
                }
                Shape::Wide => {
                    for (row, panel) in
                        panels().flat_map(|panel| strips.starts().map(move |row| (row, panel)))
                    {
                        self.patch::<L>(row, panel);
                    }
                }
            }
        }
        if let Some(before) = self.waiting {
            // SAFETY: the caller's promise; the sums of the patch before are in the second place.
            unsafe { before.store::<L>(self.sums[1], 0..before.part.rows) };
        }
    }

    /// One patch, while the one before is finished.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn patch<L: Lanes>(&mut self, row: usize, panel: usize) {
        let Strips { product, shape, ref steps, .. } = *self.strips;
        let place = self.strips.place(row, panel);
        let mut cursor = Cursor {
            a: product.a_tile(row / LINES, steps.start),
            b: product.b_tile(panel, steps.start),
            stride: product.tiles() * TILE,
        };
        let groups = steps.len().div_ceil(GROUP);
        let waiting = self.waiting.take();
        let rows = waiting.map_or(0, |before| before.part.rows);
        let each = rows.div_ceil(groups);
        let fetched = if steps.start == 0 && place.narrow.is_none() { place.part.rows } else { 0 };
        let each_fetched = fetched.div_ceil(groups);
        // SAFETY: the caller's promise; the two places of sums change roles from patch to patch.
        unsafe {
            self.begin::<L>(&place);
            for group in 0..groups {
                let count = GROUP.min(steps.len() - group * GROUP);
                self.tiles.steps(product.format, shape, &mut cursor, count);
                if let Some(before) = &waiting {
                    let done = rows.min(group * each);
                    before.store::<L>(self.sums[1], done..rows.min(done + each));
                }
                let done = fetched.min(group * each_fetched);
                fetch_rows(&place, done..fetched.min(done + each_fetched));
                self.ahead.ask();
            }
            if self.is_whole(&place) && matches!(place.finish, Finish::Keep) {
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
    unsafe fn begin<L: Lanes>(&mut self, place: &Place) {
        let shape = self.strips.shape;
        // SAFETY: the caller's promise; what lies beyond the last row and column of the sums does not matter.
        unsafe {
            if !self.strips.goes_on() {
                self.tiles.zero();
            } else if self.is_whole(place) {
                self.tiles.load(shape, place.part.c, 4 * place.part.stride);
            } else {
                place.load::<L>(self.sums[0]);
                self.tiles.load(shape, self.sums[0].cast(), 4 * shape.width());
            }
        }
    }

    /// Whether all rows and columns of a patch lie in C.
    #[inline(always)]
    fn is_whole(&self, place: &Place) -> bool {
        let shape = self.strips.shape;
        place.part.rows == shape.height() && place.part.columns == shape.width()
    }
}

/// Asks for rows of C.
#[inline(always)]
fn fetch_rows(place: &Place, rows: Range<usize>) {
    for row in rows {
        let line = place.part.c.wrapping_add(row * place.part.stride);
        let mut at = 0;
        while at < place.part.columns {
            fetch(line.wrapping_add(at).cast());
            at += LINE / 4;
        }
    }
}

/// Asks for a line in the second cache: rows of C are often so far apart that the first could not hold them together.
#[inline(always)]
fn fetch(address: *const u8) {
    // SAFETY: prefetching reads nothing, and every x86-64 machine has the instruction.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
}
