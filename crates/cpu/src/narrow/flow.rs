//! One work item on AMX: a patch is multiplied while the one before is finished.
//!
//! Tiles are multiplied beside everything else that a core does, but a core has few tile registers more than it shows: it waits
//! with whatever follows a multiplication until there is one free. So what else is to be done comes in small pieces, one behind
//! each multiplication: a row of the patch before, which gets its bias and what follows and goes to C, and a few lines of B that are
//! asked for, for the next block. Behind three steps, twelve multiplications, the same work is not hidden at all.

use super::amx::{Cursor, Tiles};
use super::finish::Place;
use super::patch::{Shape, Sums, Unpacked};
use super::strips::Strips;
use super::{Format, Item, LINE, LINES, Next, Product, SCALED, TILE, UNIT, WIDE, four};
use crate::dispatch;
use crate::isa::Isa;
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Computes one item.
///
/// # Safety
/// As for [`Product::run_item`]; the item lies inside the product, and the machine has AMX.
pub(super) unsafe fn run(product: &Product, item: &Item, next: &Next<'_>) {
    // SAFETY: the caller's promise; B in four bits has a place to be unpacked to.
    unsafe {
        match product.format {
            Format::Bf16 | Format::Int8 => run_at(product, item, next, std::ptr::null_mut()),
            Format::Int4 => {
                let mut place = MaybeUninit::<Unpacked<{ WIDE * UNIT / LINES * SCALED }>>::uninit();
                run_at(product, item, next, place.as_mut_ptr().cast());
            }
        }
    }
}

/// The same, with a place for the item's tiles of B, over a block of k, where they have to be unpacked.
///
/// # Safety
/// As for [`run`].
unsafe fn run_at(product: &Product, item: &Item, next: &Next<'_>, unpacked: *mut u8) {
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
            let ahead = Ahead::NOTHING;
            let mut flow = Flow { tiles, sums, waiting: None, unpacked, first: 0, ahead, next };
            match shape {
                Shape::Square => flow.block_by_block(product, &rows, &item.units),
                Shape::Wide => flow.panel_by_panel(product, &rows, &item.units),
            }
            flow.finish();
        }
    }
}

/// How many of so many rows go by thirty-two: a last block of sixteen or fewer stays alone.
fn in_squares(rows: usize) -> usize {
    match rows % (2 * LINES) {
        rest @ 1..=LINES => rows - rest,
        _ => rows,
    }
}

/// Bytes of the tiles of four panels.
const FOUR_TILES: usize = Shape::Wide.across() * TILE;
/// How many steps before they are multiplied tiles are unpacked: what was just written cannot be loaded at once.
const EARLIER: usize = 2;
/// Lines of each panel of a unit that are asked for before it is its turn: half a page, and then the machine has noticed.
const BEGINNING: usize = 32;
/// Steps whose tiles stay unpacked where one strip is all that needs them.
const RING: usize = 4;

/// Patches on their way.
struct Flow<'a> {
    tiles: Tiles,
    /// The sums of the patch at hand, and of the one before.
    sums: [*mut Sums; 2],
    /// The patch before, if it is not finished.
    waiting: Option<Place>,
    /// Where tiles of B are unpacked to, if they are in four bits.
    unpacked: *mut u8,
    /// The first panel that is there.
    first: usize,
    ahead: Ahead,
    next: &'a Next<'a>,
}

/// What is asked for of B while a block is multiplied, little by little: the next block of k of the same columns, and at last
/// the first block of the next item's.
struct Ahead {
    next: *const u8,
    /// Lines that are left of this panel.
    left: usize,
    /// Lines of each panel.
    lines: usize,
    /// Lines between two of them.
    gap: usize,
    /// Panels that are left, with this one.
    panels: usize,
    /// Lines at a time.
    each: usize,
}

impl Ahead {
    const NOTHING: Self = Self { next: std::ptr::null(), left: 0, lines: 0, gap: 0, panels: 0, each: 0 };

    /// A block of these units, in so many times.
    fn of(product: &Product, units: &Range<usize>, block: usize, times: usize) -> Self {
        let (panel, tiles, steps) =
            (product.format.panel(product.k) / LINE, product.tiles(), product.block(block));
        let start = panel * steps.start / tiles;
        let lines = panel * steps.end / tiles - start;
        let panels = units.len() * UNIT / LINES;
        let next = product.b_panel(units.start * UNIT / LINES).wrapping_add(start * LINE);
        let each = (panels * lines).div_ceil(times);
        // Whole panels follow one another.
        let (lines, panels) = if lines == panel { (lines * panels, 1) } else { (lines, panels) };
        Self { next, left: lines, lines, gap: panel - lines.min(panel), panels, each }
    }

    /// The first lines of a unit's panels, in so many times.
    fn beginning(product: &Product, unit: usize, times: usize) -> Self {
        let (panel, panels) = (product.format.panel(product.k) / LINE, UNIT / LINES);
        let lines = panel.min(BEGINNING);
        let each = (panels * lines).div_ceil(times);
        Self { next: product.b_panel(unit * panels), left: lines, lines, gap: panel - lines, panels, each }
    }

    #[inline(always)]
    fn ask(&mut self) {
        let some = self.each.min(self.left);
        for line in 0..some {
            fetch(self.next.wrapping_add(line * LINE));
        }
        self.next = self.next.wrapping_add(some * LINE);
        self.left -= some;
        if self.left == 0 && self.panels > 1 {
            self.next = self.next.wrapping_add(self.gap * LINE);
            self.left = self.lines;
            self.panels -= 1;
        }
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
            self.look_ahead(&strips, units, index);
            // SAFETY: the caller's promise.
            unsafe { self.unpack(&strips, 4 * units.start..4 * units.end) };
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
                if index + 1 == product.blocks() {
                    let (then, unit) = self.next.behind(product, units, panel / Shape::Wide.across());
                    self.ahead = Ahead::beginning(then, unit, strips.steps.len());
                }
                for row in strips.starts() {
                    // SAFETY: the caller's promise.
                    unsafe { self.patch(&strips, row, panel) };
                }
            }
        }
    }

    /// Decides what is asked for while these strips are multiplied with these units.
    fn look_ahead(&mut self, strips: &Strips<'_>, units: &Range<usize>, index: usize) {
        let (product, shape) = (strips.product, strips.shape);
        let (then, units_then, block) = if index + 1 < product.blocks() {
            (product, units, index + 1)
        } else {
            (self.next.product, &self.next.units, 0)
        };
        let patches =
            strips.rows.len().div_ceil(shape.height()) * (units.len() * UNIT).div_ceil(shape.width());
        self.ahead = Ahead::of(then, units_then, block, (patches * strips.steps.len()).max(1));
    }

    /// Unpacks some panels, over the block of `strips`, if B is in four bits.
    ///
    /// # Safety
    /// As for [`run`]; there are no more panels than there is room for.
    unsafe fn unpack(&mut self, strips: &Strips<'_>, panels: Range<usize>) {
        if strips.product.format == Format::Int4 {
            self.first = panels.start;
            // SAFETY: the caller's promise; columns are filled up to whole units.
            unsafe { four::unpack(Isa::Avx512, strips.product, panels, &strips.steps, self.unpacked) };
        }
    }

    /// The tile of B at `panel` and the first step of `strips`, and how many bytes on the next panel begins.
    fn right(&self, strips: &Strips<'_>, panel: usize) -> (*const u8, usize) {
        let Strips { product, ref steps, .. } = *strips;
        match product.format {
            Format::Bf16 | Format::Int8 => (product.b_tile(panel, steps.start), product.tiles() * TILE),
            Format::Int4 if strips.shape == Shape::Wide => (self.unpacked, TILE),
            Format::Int4 => {
                let across = steps.len() * TILE;
                (self.unpacked.wrapping_add((panel - self.first) * across), across)
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
                (Shape::Square, Format::Bf16) => self.steps::<true, false, false>(strips, row, panel),
                (Shape::Square, Format::Int8 | Format::Int4) => {
                    self.steps::<true, true, false>(strips, row, panel);
                }
                (Shape::Wide, Format::Bf16) => self.steps::<false, false, false>(strips, row, panel),
                (Shape::Wide, Format::Int8) => self.steps::<false, true, false>(strips, row, panel),
                (Shape::Wide, Format::Int4) => self.steps::<false, true, true>(strips, row, panel),
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

    /// The steps along k of a patch, in squares or not, of integers or not, which are unpacked on the way or not.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(never)]
    unsafe fn steps<const SQUARE: bool, const INTEGERS: bool, const UNPACKS: bool>(
        &mut self,
        strips: &Strips<'_>,
        row: usize,
        panel: usize,
    ) {
        let shape = if SQUARE { Shape::Square } else { Shape::Wide };
        let format = if INTEGERS { Format::Int8 } else { Format::Bf16 };
        let Strips { product, ref steps, .. } = *strips;
        let (b, across) = self.right(strips, panel);
        let a = product.a_tile(row / LINES, steps.start);
        let mut cursor = Cursor { a, b, down: product.tiles() * TILE, across };
        let before = self.waiting.take();
        let rows = before.map_or(0, |before| before.part.rows);
        let (each, mut done) = (rows.div_ceil(steps.len()), 0);
        // SAFETY: the caller's promise.
        unsafe {
            // The first strip unpacks the panels; another finds them.
            let unpacks = UNPACKS && row == strips.rows.start;
            let ring = if strips.rows.len() <= LINES { RING } else { SCALED };
            let mut unpack = |step: usize| {
                if unpacks && step < steps.len() {
                    let to = self.unpacked.add(step % ring * FOUR_TILES);
                    four::unpack_unit(product, panel / Shape::Wide.across(), steps.start + step, to);
                }
            };
            (0..EARLIER).for_each(&mut unpack);
            for step in 0..steps.len() {
                if UNPACKS {
                    unpack(step + EARLIER);
                    cursor.b = self.unpacked.add(step % ring * FOUR_TILES);
                }
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
