//! One band of a tile: blocks of k, strips of rows, register tiles from left to right; and what to fetch meanwhile.

use super::micro::{Ahead, Micro, Registers, multiply};
use super::{BAND, BLOCK, Begin, FEW_ROWS, Matrix, PANEL, Product, STREAM_AHEAD, part};
use crate::lanes::LANES;
use crate::then::Part;
use std::ops::Range;

/// The part of C that [`run`] computes: a band of a tile.
pub(super) struct Tile {
    pub row: usize,
    pub row_end: usize,
    pub panel: usize,
    pub panel_end: usize,
    /// [`Product::SCRATCH`] numbers.
    pub scratch: *mut f32,
}

/// A tile's work over one block of k.
struct Block<'a> {
    product: &'a Product,
    tile: &'a Tile,
    k: usize,
    k_end: usize,
    /// How many strips of rows, each a register tile high.
    strips: usize,
    /// The rows of a strip; the last one may have less.
    height: usize,
    /// Whether A is copied to scratch.
    copied: bool,
}

/// Computes one band of a tile.
///
/// # Safety
/// As for [`Product::run_tile`]; the tile lies inside the product.
#[inline(always)]
pub(super) unsafe fn run<L: Registers>(product: &Product, tile: &Tile) {
    let copied = product.a.column != 1;
    let rows = tile.row_end - tile.row;
    let strips = rows.div_ceil(if rows <= FEW_ROWS { L::MOST_ROWS } else { L::ROWS });
    // As even as possible: 4 rows and 3, not 6 and 1.
    let height = rows.div_ceil(strips);
    // With k = 0 there is still C to write.
    let blocks = product.k.div_ceil(BLOCK).max(1);
    for index in 0..blocks {
        let Range { start: k, end: k_end } = part(product.k, blocks, index);
        let block = Block { product, tile, k, k_end, strips, height, copied };
        // SAFETY: the caller's promise.
        unsafe {
            if copied {
                block.copy::<L>();
            }
            for strip in 0..strips {
                block.strip::<L>(strip);
            }
        }
    }
}

impl Block<'_> {
    #[inline(always)]
    fn steps(&self) -> usize {
        self.k_end - self.k
    }

    #[inline(always)]
    fn rows(&self) -> usize {
        self.tile.row_end - self.tile.row
    }

    /// The rows of a strip, from the tile's first row on.
    #[inline(always)]
    fn rows_of(&self, strip: usize) -> (usize, usize) {
        (strip * self.height, self.rows().min((strip + 1) * self.height))
    }

    /// Copies the tile's rows of A to scratch, k by k: next to each other, they take fewer pages and cache lines.
    ///
    /// Copied strip by strip, in the order in which they are read, the whole product was 4 % slower.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn copy<L: Registers>(&self) {
        let Matrix { start, row, column } = self.product.a;
        let rows = self.rows();
        assert!(rows <= BAND && self.steps() <= BLOCK);
        for step in 0..self.steps() {
            // SAFETY: the rows and the step lie inside A; the scratch has a place for each of them.
            unsafe {
                let from = start.add(self.tile.row * row + (self.k + step) * column);
                let to = self.tile.scratch.add(step * rows);
                let mut i = 0;
                while row == 1 && i + LANES <= rows {
                    L::load(from.add(i)).store(to.add(i));
                    i += LANES;
                }
                while i < rows {
                    *to.add(i) = *from.add(i * row);
                    i += 1;
                }
            }
        }
    }

    /// One strip of rows: register tiles from left to right.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn strip<L: Registers>(&self, strip: usize) {
        let Self { product, tile, k, .. } = *self;
        let (row, row_end) = self.rows_of(strip);
        let height = row_end - row;
        let begin = if k == 0 { product.begin } else { Begin::Existing };
        let bias = product.bias.filter(|_| self.k_end == product.k);
        // SAFETY: every address lies inside A, B, C, the bias or the scratch; what lies ahead is only prefetched.
        unsafe {
            let a = if self.copied {
                Matrix { start: tile.scratch.add(row), row: 1, column: self.rows() }
            } else {
                Matrix { start: product.a.start.add((tile.row + row) * product.a.row + k), ..product.a }
            };
            let mut panel = tile.panel;
            while panel < tile.panel_end {
                let width = L::width(height, tile.panel_end - panel);
                let b = product.b.add((panel * product.k + k) * PANEL);
                let micro = Micro {
                    steps: self.steps(),
                    a,
                    b,
                    b_panel: product.k * PANEL,
                    c: product.c.add((tile.row + row) * product.c_stride + panel * PANEL),
                    c_stride: product.c_stride,
                    columns: (width * PANEL).min(product.columns - panel * PANEL),
                    begin,
                    bias: bias.map(|bias| bias.add(panel * PANEL)),
                    a_ahead: self.a_ahead(strip, row_end, panel..panel + width),
                    b_ahead: self.b_ahead(strip, width, b),
                };
                multiply::<L>(height, width, &micro);
                panel += width;
            }
            if self.k_end == product.k {
                self.then::<L>(row, height);
            }
        }
    }

    /// What follows the product, for a strip that is done and still in L1.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn then<L: Registers>(&self, row: usize, height: usize) {
        let Self { product, tile, .. } = *self;
        let corner = [tile.row + row, tile.panel * PANEL];
        let part = Part {
            corner,
            rows: height,
            columns: product.columns.min(tile.panel_end * PANEL) - corner[1],
            c: product.c.wrapping_add(corner[0] * product.c_stride + corner[1]),
            stride: product.c_stride,
        };
        // SAFETY: the caller's promise.
        unsafe { product.then.run::<L>(&part) };
    }

    /// What the register tile over `panels` fetches of A: its share of the next strip, or, where A is copied, of the next block.
    #[inline(always)]
    fn a_ahead(&self, strip: usize, row_end: usize, panels: Range<usize>) -> Ahead {
        let Self { product, tile, k, k_end, .. } = *self;
        let Matrix { start, row: stride, column } = product.a;
        let across = tile.panel_end - tile.panel;
        let next = self.steps().min(product.k - k_end);
        if self.copied {
            let share = |panel: usize| next * (strip * across + panel - tile.panel) / (self.strips * across);
            let [from, to] = [share(panels.start), share(panels.end)];
            let start = start.wrapping_add(tile.row * stride + (k_end + from) * column);
            return Ahead { start, stride: column, count: to - from, len: self.rows() };
        }
        // After the last strip comes the first one of the next block.
        let (row, k, steps) =
            if strip + 1 < self.strips { (row_end, k, self.steps()) } else { (0, k_end, next) };
        let share = |panel: usize| steps * (panel - tile.panel) / across;
        let start = start.wrapping_add((tile.row + row) * stride + k + share(panels.start));
        Ahead { start, stride, count: self.rows() - row, len: share(panels.end) - share(panels.start) }
    }

    /// What a register tile of `width` panels at `b` fetches of B.
    ///
    /// A single strip reads all of B from memory, and looks ahead a little. Of several strips the first one does that,
    /// and finds in L2 what the last ones of the block before have fetched, each some of the panels.
    #[inline(always)]
    fn b_ahead(&self, strip: usize, width: usize, b: *const f32) -> Ahead {
        let stride = self.product.k * PANEL;
        if self.strips == 1 {
            return Ahead { start: b.wrapping_add(STREAM_AHEAD), stride, count: width, len: PANEL };
        }
        let each = width.div_ceil(self.strips - 1);
        let panel = (self.strips - 1 - strip) * each;
        let count = if self.k_end < self.product.k { each.min(width.saturating_sub(panel)) } else { 0 };
        let start = b.wrapping_add(self.steps() * PANEL + panel * stride);
        Ahead { start, stride, count, len: PANEL }
    }
}
