//! One tile: slivers of B from left to right, and under each of them the strips of A.

use super::micro::{Micro, Prefetched, Registers, RowAccess, multiply};
use super::strips::{Strips, pack};
use super::{Begin, Gemm, Matrix, PANEL, SLIVER, TileScratch, part};
use crate::epilogue::Region;
use crate::lanes::LANES;
use crate::tuning::gemm::{MAX_BLOCK, MAX_DEPTH, STRIP_PADDING};
use std::ops::Range;

/// The part of C that [`run`] computes: a row block of A, or less, under some slivers of B.
pub(super) struct Tile {
    pub rows: Range<usize>,
    pub slivers: Range<usize>,
}

/// Computes one tile.
///
/// # Safety
/// As for [`Gemm::run_tile`]; the tile lies inside the product, and has no more rows than a row block.
#[inline(always)]
pub(super) unsafe fn run<L: Registers>(product: &Gemm, tile: &Tile, scratch: &mut TileScratch<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        if tile.rows.len() <= L::ROWS {
            run_few::<L>(product, tile);
        } else {
            run_many::<L>(product, tile, scratch);
        }
    }
}

/// A few rows: B is read once from end to end, and A is where it is.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn run_few<L: Registers>(product: &Gemm, tile: &Tile) {
    let Matrix { start, row, column } = product.a;
    let height = tile.rows.len();
    let a = RowAccess::Place(Matrix { start: start.wrapping_add(tile.rows.start * row), row, column });
    let whole = tile.slivers.end.min(product.panels() / SLIVER);
    let mut sliver = tile.slivers.start;
    while sliver < tile.slivers.end {
        let slivers = if sliver < whole { L::slivers(height, whole - sliver) } else { 1 };
        let end = product.panels().min((sliver + slivers) * SLIVER);
        let mut panel = sliver * SLIVER;
        while panel < end {
            let width = if slivers > 1 { slivers * SLIVER } else { L::width(height, end - panel) };
            // SAFETY: the caller's promise; every address lies inside A, B, C or the bias.
            unsafe {
                let micro =
                    product.micro(a, tile.rows.start, panel..panel + width, 0..product.k, product.begin);
                multiply::<L>(height, width, &micro);
            }
            panel += width;
        }
        // SAFETY: the caller's promise.
        unsafe { product.epilogue.apply(L::ISA, &product.part(tile.rows.clone(), sliver * SLIVER..end)) };
        sliver += slivers;
    }
}

/// Many rows: A goes to strips, of so many steps that they stay in L2, and comes from there for every sliver of B.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn run_many<L: Registers>(product: &Gemm, tile: &Tile, scratch: &mut TileScratch<'_>) {
    let count = tile.rows.len().div_ceil(L::ROWS);
    // As even as possible: 4 rows and 3, not 6 and 1.
    let height = tile.rows.len().div_ceil(count);
    // With k = 0 there is still C to write.
    let depths = product.k.div_ceil(MAX_DEPTH).max(1);
    let is_packed = depths == 1 && scratch.packed.as_ref() == Some(&tile.rows);
    scratch.packed = (depths == 1).then(|| tile.rows.clone());
    let numbers = scratch.numbers.as_mut_ptr();
    for index in 0..depths {
        let depth = stretch(0..product.k, depths, index);
        let blocks = depth.len().div_ceil(MAX_BLOCK).max(1);
        let block = |index: usize| stretch(depth.clone(), blocks, index);
        let strips = |index: usize| {
            let before = (block(index).start - depth.start) * L::STRIDE + index * STRIP_PADDING;
            Strips { count, height, steps: block(index).len(), start: numbers.wrapping_add(count * before) }
        };
        if !is_packed {
            for index in 0..blocks {
                let Matrix { start, row, column } = product.a;
                let start = start.wrapping_add(tile.rows.start * row + block(index).start * column);
                // SAFETY: the caller's promise; the scratch has room for the strips of all blocks.
                unsafe { pack::<L>(Matrix { start, row, column }, tile.rows.len(), &strips(index)) };
            }
        }
        for sliver in tile.slivers.clone() {
            for index in 0..blocks {
                let next = if index + 1 < blocks {
                    Some((sliver, block(index + 1).start))
                } else if sliver + 1 < tile.slivers.end {
                    Some((sliver + 1, depth.start))
                } else {
                    None
                };
                // SAFETY: the caller's promise.
                unsafe { run_sliver::<L>(product, tile, &strips(index), sliver, block(index), next) };
            }
            if depth.end == product.k {
                let panels = sliver * SLIVER..product.panels().min((sliver + 1) * SLIVER);
                // SAFETY: the caller's promise.
                unsafe { product.epilogue.apply(L::ISA, &product.part(tile.rows.clone(), panels)) };
            }
        }
    }
}

/// Part `index` of some steps cut into `count` parts, of which all but the last are whole numbers of sixteen: so they are packed.
#[inline(always)]
fn stretch(steps: Range<usize>, count: usize, index: usize) -> Range<usize> {
    let part = part(steps.len().div_ceil(LANES), count, index);
    steps.start + part.start * LANES..steps.end.min(steps.start + part.end * LANES)
}

/// All strips under some steps of a sliver, while the `next` ones are prefetched.
///
/// # Safety
/// As for [`run`]; the strips hold A.
#[inline(always)]
unsafe fn run_sliver<L: Registers>(
    product: &Gemm,
    tile: &Tile,
    strips: &Strips,
    sliver: usize,
    block: Range<usize>,
    next: Option<(usize, usize)>,
) {
    let end = product.panels().min((sliver + 1) * SLIVER);
    let begin = if block.start == 0 { product.begin } else { Begin::Existing };
    let mut panel = sliver * SLIVER;
    while panel < end {
        let width = L::width(strips.height, end - panel);
        for strip in 0..strips.count {
            let rows = strips.rows(strip, tile.rows.len());
            let prefetched = next.map_or(Prefetched::NOTHING, |(sliver, step)| {
                let (b, width) = product.b_at(sliver * SLIVER, step);
                Prefetched::part(b, width / PANEL, block.len(), strip, strips.count)
            });
            let a = RowAccess::Strip(strips.at(strip, L::STRIDE), prefetched);
            // SAFETY: the caller's promise; every address lies inside the scratch, B, C or the bias; what is prefetched is only
            // prefetched.
            unsafe {
                let rows = tile.rows.start + rows.start..tile.rows.start + rows.end;
                if block.end == product.k {
                    product.epilogue.prefetch(&product.part(rows.clone(), panel..panel + width));
                }
                let micro = product.micro(a, rows.start, panel..panel + width, block.clone(), begin);
                multiply::<L>(rows.len(), width, &micro);
            }
        }
        panel += width;
    }
}

impl Gemm {
    /// The number of panels.
    #[inline(always)]
    fn panels(&self) -> usize {
        self.columns.div_ceil(PANEL)
    }

    /// Some panels of some rows of C.
    #[inline(always)]
    fn part(&self, rows: Range<usize>, panels: Range<usize>) -> Region {
        let corner = [rows.start, panels.start * PANEL];
        Region {
            corner,
            rows: rows.len(),
            columns: self.columns.min(panels.end * PANEL) - corner[1],
            c: self.c.wrapping_add(corner[0] * self.c_stride + corner[1]),
            stride: self.c_stride,
        }
    }

    /// Where a panel of B is at a step of k, and how far apart its steps are.
    #[inline(always)]
    fn b_at(&self, panel: usize, step: usize) -> (*const f32, usize) {
        let first = panel / SLIVER * SLIVER;
        let width = (self.panels() - first).min(SLIVER) * PANEL;
        (self.b.wrapping_add(first * PANEL * self.k + step * width + (panel - first) * PANEL), width)
    }

    /// A register tile's work: `panels` of the rows from `row` on, which are at `a`, over some steps of k.
    ///
    /// # Safety
    /// They lie inside the product.
    #[inline(always)]
    unsafe fn micro(
        &self,
        a: RowAccess,
        row: usize,
        panels: Range<usize>,
        steps: Range<usize>,
        begin: Begin,
    ) -> Micro {
        let column = panels.start * PANEL;
        let (b, b_step) = self.b_at(panels.start, steps.start);
        let bias = self.epilogue.bias.filter(|_| steps.end == self.k);
        // SAFETY: the caller's promise.
        unsafe {
            Micro {
                steps: steps.len(),
                a,
                b,
                b_step,
                b_sliver: self.k * SLIVER * PANEL,
                c: self.c.add(row * self.c_stride + column),
                c_stride: self.c_stride,
                columns: (panels.len() * PANEL).min(self.columns - column),
                begin,
                bias: bias.map(|bias| bias.add(column)),
            }
        }
    }
}
