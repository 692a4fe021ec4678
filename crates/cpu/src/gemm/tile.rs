//! One tile of a product: blocks of k, strips of rows, register tiles from left to right; and what to fetch meanwhile.

use std::ops::Range;

use super::micro::{Ahead, Micro, Registers, multiply};
use super::{
    BLOCK, BLOCK_COPIED, BLOCK_FEW, Begin, FEW_ROWS, Matrix, PANEL, Product, STREAM_AHEAD, TILE_ROWS, part,
};

/// The part of C that [`run`] computes.
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
    /// How many strips of rows, each the height of a register tile.
    strips: usize,
    /// Whether A is copied to scratch.
    copied: bool,
}

/// Computes one tile.
///
/// # Safety
/// As for [`Product::run_tile`]; the tile lies inside the product.
#[inline(always)]
pub(super) unsafe fn run<L: Registers>(product: &Product, tile: &Tile) {
    let copied = product.a.column != 1;
    let few = product.rows <= FEW_ROWS;
    let longest = match (copied, few) {
        (true, _) => BLOCK_COPIED,
        (false, true) => BLOCK_FEW,
        (false, false) => BLOCK,
    };
    let strips = (tile.row_end - tile.row).div_ceil(if few { L::MOST_ROWS } else { L::ROWS });
    // With k = 0 there is still C to write.
    let blocks = product.k.div_ceil(longest).max(1);
    for index in 0..blocks {
        let (k, k_end) = part(product.k, blocks, index);
        let block = Block { product, tile, k, k_end, strips, copied };
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

    /// Copies the tile's rows of A to scratch: strip by strip, in the order in which they are read.
    ///
    /// # Safety
    /// As for [`run`].
    #[inline(always)]
    unsafe fn copy<L: Registers>(&self) {
        let Matrix { start, row: row_stride, column } = self.product.a;
        let steps = self.steps();
        assert!(self.rows() <= TILE_ROWS && steps <= BLOCK_COPIED);
        // Where the strips begin: a division each, too slow for the loop below.
        let mut bounds = [0; TILE_ROWS + 1];
        for strip in 0..self.strips {
            bounds[strip + 1] = part(self.rows(), self.strips, strip).1;
        }
        for step in 0..steps {
            for strip in 0..self.strips {
                let (row, height) = (bounds[strip], bounds[strip + 1] - bounds[strip]);
                // SAFETY: the rows and the step lie inside A; the scratch has a place for each of them.
                unsafe {
                    let from = start.add((self.tile.row + row) * row_stride + (self.k + step) * column);
                    let to = self.tile.scratch.add(row * steps + step * height);
                    if row_stride == 1 {
                        L::load_first(from, height).store_first(to, height);
                    } else {
                        for i in 0..height {
                            *to.add(i) = *from.add(i * row_stride);
                        }
                    }
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
        let (row, row_end) = part(self.rows(), self.strips, strip);
        let height = row_end - row;
        let begin = if k == 0 { product.begin } else { Begin::Existing };
        let bias = product.bias.filter(|_| self.k_end == product.k);
        // SAFETY: every address lies inside A, B, C, the bias or the scratch; what lies ahead is only prefetched.
        unsafe {
            let a = if self.copied {
                Matrix { start: tile.scratch.add(row * self.steps()), row: 1, column: height }
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
        }
    }

    /// What the register tile over `panels` fetches of A: its share of the next strip or, where A is copied, of the next
    /// block.
    #[inline(always)]
    fn a_ahead(&self, strip: usize, row_end: usize, panels: Range<usize>) -> Ahead {
        let Self { product, tile, k, k_end, .. } = *self;
        let Matrix { start, row, column } = product.a;
        let across = tile.panel_end - tile.panel;
        let (first, end) = (panels.start - tile.panel, panels.end - tile.panel);
        let next_steps = self.steps().min(product.k - k_end);
        if self.copied {
            let steps = if row == 1 { next_steps } else { 0 };
            let share = |panel: usize| steps * (strip * across + panel) / (self.strips * across);
            let start = start.wrapping_add(tile.row * row + (k_end + share(first)) * column);
            Ahead { start, stride: column, count: share(end) - share(first), len: self.rows() }
        } else {
            // After the last strip comes the first one of the next block.
            let (next_row, next_k, steps) = match self.strips - strip {
                1 => (0, k_end, next_steps),
                _ => (row_end, k, self.steps()),
            };
            let share = |panel: usize| steps * panel / across;
            let start = start.wrapping_add((tile.row + next_row) * row + next_k + share(first));
            Ahead { start, stride: row, count: self.rows() - next_row, len: share(end) - share(first) }
        }
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
