//! One work item: blocks of k, strips of rows, and patches of four tiles of C from left to right.
//!
//! A patch's sums rest in four kilobytes of the stack. Between two blocks of k they are kept in C, as they are: the bits of
//! an `f32`, or of an integer.

use super::finish::{Finish, Place};
use super::vector;
use super::{BLOCK, Dot, Format, Item, LINES, Product, TILE, TILE_FLOATS, part};
use crate::dispatch;
use crate::then::Part;
use std::ops::Range;

/// The four tiles of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Two blocks of sixteen rows by two panels of sixteen columns.
    #[cfg(target_arch = "x86_64")] // AMX alone
    Square,
    /// One block of rows by four panels.
    Wide,
}

impl Shape {
    /// Blocks of rows.
    pub const fn down(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Square => 2,
            Self::Wide => 1,
        }
    }

    /// Panels of columns.
    pub const fn across(self) -> usize {
        4 / self.down()
    }

    /// Rows.
    pub const fn height(self) -> usize {
        self.down() * LINES
    }

    /// Columns.
    pub const fn width(self) -> usize {
        self.across() * LINES
    }
}

/// The sums of a patch, row by row: `f32`, or the bits of an `i32`.
#[repr(align(64))]
#[allow(dead_code)] // reached by addresses alone
pub(super) struct Sums(pub [f32; 4 * TILE_FLOATS]);

impl Sums {
    pub const ZERO: Self = Self([0.0; 4 * TILE_FLOATS]);
}

/// Adds A's tiles times B's tiles to the sums of a patch.
///
/// # Safety
/// Who makes one promises: there are `steps` tiles, at least one, from `a` on and from `b` on, in each of the four panels;
/// `sums` is a [`Sums`], which nobody else uses.
pub(super) struct Patch {
    /// Rows that count.
    pub rows: usize,
    /// The first tile of A.
    pub a: *const u8,
    /// The first tile of B.
    pub b: *const u8,
    /// How many bytes on the next panel of B begins.
    pub stride: usize,
    /// What integer sums begin with where A is taken as 128 more than it is: for each column.
    pub shift: *const i32,
    /// Where along k it begins: at 0 with zeros, else with what the sums hold.
    pub step: usize,
    pub steps: usize,
    pub sums: *mut Sums,
}

/// Computes one item.
///
/// # Safety
/// As for [`Product::run_item`]; the item lies inside the product.
pub(super) unsafe fn run(product: &Product, dot: Dot, item: &Item) {
    // SAFETY: the caller's promise.
    unsafe {
        match dot {
            #[cfg(target_arch = "x86_64")]
            Dot::Amx => super::flow::run(product, item),
            #[cfg(not(target_arch = "x86_64"))]
            Dot::Amx => unreachable!("this machine has no AMX"),
            Dot::Scalar
            | Dot::Neon
            | Dot::NeonDot
            | Dot::Avx2
            | Dot::AvxVnni
            | Dot::Avx512
            | Dot::Avx512Dot => {
                by_lines(product, dot, item);
            }
        }
    }
}

/// Computes one item by vector registers: each patch is multiplied, then finished.
///
/// # Safety
/// As for [`run`].
unsafe fn by_lines(product: &Product, dot: Dot, item: &Item) {
    let mut sums = Sums::ZERO;
    for index in 0..product.blocks() {
        let (rows, steps) = (item.rows.clone(), product.block(index));
        let strips = Strips { product, shape: Shape::Wide, rows, steps };
        for row in strips.starts() {
            for panel in strips.panels(&item.units).step_by(Shape::Wide.across()) {
                let place = strips.place(row, panel);
                // SAFETY: the caller's promise.
                unsafe {
                    if strips.steps.start > 0 {
                        dispatch!(dot.isa(), |L| place.load::<L>(&raw mut sums));
                    }
                    vector::multiply(dot, product.format, &strips.patch(row, panel, &raw mut sums));
                    dispatch!(dot.isa(), |L| place.store::<L>(&raw mut sums, 0..place.part.rows));
                }
            }
        }
    }
}

impl Product {
    /// How many blocks of k there are. Between two of them C must hold the sums, so there is one where C is narrow.
    pub(super) fn blocks(&self) -> usize {
        if self.narrowed.is_some() { 1 } else { self.tiles().div_ceil(BLOCK) }
    }

    /// Block number `index`, in tiles.
    #[inline(always)]
    pub(super) fn block(&self, index: usize) -> Range<usize> {
        part(self.tiles(), self.blocks(), index)
    }
}

/// Rows of an item that are worked on in one shape, over one block of k.
pub(super) struct Strips<'a> {
    pub product: &'a Product,
    pub shape: Shape,
    pub rows: Range<usize>,
    pub steps: Range<usize>,
}

impl Strips<'_> {
    /// The first row of each strip.
    pub fn starts(&self) -> impl Iterator<Item = usize> + use<> {
        self.rows.clone().step_by(self.shape.height())
    }

    /// The panels of some units.
    pub fn panels(&self, units: &Range<usize>) -> Range<usize> {
        units.start * 4..(units.end * 4).min(self.product.columns.div_ceil(LINES))
    }

    /// The part of C that the patch at `row` and `panel` is, and what happens to its sums.
    #[inline(always)]
    pub fn place(&self, row: usize, panel: usize) -> Place {
        let Product { c, c_stride, columns, then, narrowed, .. } = *self.product;
        let part = Part {
            corner: [row, panel * LINES],
            rows: (self.rows.end - row).min(self.shape.height()),
            columns: (columns - panel * LINES).min(self.shape.width()),
            c: c.wrapping_add(row * c_stride + panel * LINES),
            stride: c_stride,
        };
        let finish = self.finish(row, panel);
        let narrow = narrowed.map(|tiles| (tiles, Format::Bf16.tiles(columns)));
        Place { part, width: self.shape.width(), finish, then, narrow }
    }

    fn patch(&self, row: usize, panel: usize, sums: *mut Sums) -> Patch {
        let (product, step) = (self.product, self.steps.start);
        Patch {
            rows: (self.rows.end - row).min(LINES),
            a: product.a_tile(row / LINES, step),
            b: product.b_tile(panel, step),
            stride: product.tiles() * TILE,
            shift: product.column_shifts().wrapping_add(panel * LINES),
            step,
            steps: self.steps.len(),
            sums,
        }
    }

    /// What happens to the sums of the patch at `row` and `panel`.
    #[inline(always)]
    fn finish(&self, row: usize, panel: usize) -> Finish {
        let product = self.product;
        if self.steps.end < product.tiles() {
            return Finish::Keep;
        }
        let bias = product.bias.map(|bias| bias.wrapping_add(panel * LINES));
        match product.format {
            Format::Bf16 => Finish::Add { bias },
            Format::Int8 => Finish::Scale {
                rows: product.row_scales().wrapping_add(row),
                columns: product.column_scales().wrapping_add(panel * LINES),
                bias,
            },
        }
    }
}
