//! One work item: blocks of k, strips of rows, and patches of four tiles of C from left to right.
//!
//! A patch's sums rest in four kilobytes of the stack. Between two blocks of k they are kept in C, as they are: the bits of
//! an `f32`, or of an integer.

use super::finish::{Finish, Place, load, store};
use super::vector;
use super::{BLOCK, Dot, Format, Item, LINES, Product, TILE, part};
use crate::dispatch;
use crate::then::Part;
use std::ops::Range;

/// The four tiles of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Two blocks of sixteen rows by two panels of sixteen columns.
    Square,
    /// One block of rows by four panels.
    Wide,
}

impl Shape {
    /// Blocks of rows.
    pub const fn down(self) -> usize {
        match self {
            Self::Square => 2,
            Self::Wide => 1,
        }
    }

    /// Panels of columns.
    pub const fn across(self) -> usize {
        4 / self.down()
    }
}

/// Four tiles of sixteen rows of sixteen numbers, row by row of tiles: `f32`, or the bits of an `i32`.
#[repr(align(64))]
pub(super) struct Sums(pub [[[f32; LINES]; LINES]; 4]);

/// Adds A's tiles times B's tiles to the sums of a patch.
///
/// # Safety
/// Who makes one promises: there are `steps` tiles, at least one, from `a` on and from `b` on, in each of the shape's
/// blocks and panels; `sums` is a [`Sums`], which nobody else uses.
pub(super) struct Patch {
    pub shape: Shape,
    /// Rows of the first block that count.
    pub rows: usize,
    /// The first tile of A.
    pub a: *const u8,
    /// The first tile of B.
    pub b: *const u8,
    /// How many bytes on the next block of rows of A begins, and the next panel of B.
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
    let blocks = product.tiles().div_ceil(BLOCK);
    let mut sums = Sums([[[0.0; LINES]; LINES]; 4]);
    let edge = item.rows.start + in_squares(dot, item.rows.len());
    for index in 0..blocks {
        let steps = part(product.tiles(), blocks, index);
        for (shape, rows) in [(Shape::Square, item.rows.start..edge), (Shape::Wide, edge..item.rows.end)] {
            if !rows.is_empty() {
                let strips = Strips { product, dot, shape, rows, steps: steps.clone() };
                // SAFETY: the caller's promise.
                unsafe { strips.run(item.units.clone(), &mut sums) };
            }
        }
    }
}

/// How many of so many rows go by thirty-two. Only AMX gains by that; a last block of sixteen or fewer stays alone.
fn in_squares(dot: Dot, rows: usize) -> usize {
    match (dot, rows % (2 * LINES)) {
        (Dot::Amx, rest @ 1..=LINES) => rows - rest,
        (Dot::Amx, _) => rows,
        (Dot::Scalar | Dot::Avx2 | Dot::AvxVnni | Dot::Avx512 | Dot::Avx512Dot, _) => 0,
    }
}

/// Rows of an item that are worked on in one shape, over one block of k.
struct Strips<'a> {
    product: &'a Product,
    dot: Dot,
    shape: Shape,
    rows: Range<usize>,
    steps: Range<usize>,
}

impl Strips<'_> {
    /// # Safety
    /// As for [`run`].
    unsafe fn run(&self, units: Range<usize>, sums: &mut Sums) {
        let height = self.shape.down() * LINES;
        let panels = units.start * 4..(units.end * 4).min(self.product.columns.div_ceil(LINES));
        // SAFETY: the caller's promise. Tiles are configured for this shape, with fewer lines where there is not even one
        // whole block of rows.
        unsafe {
            let engine = Engine::start(self.dot, self.shape, self.rows.len().min(LINES));
            for row in self.rows.clone().step_by(height) {
                for panel in panels.clone().step_by(self.shape.across()) {
                    let place = self.place(row, panel);
                    if self.steps.start > 0 {
                        dispatch!(self.dot.isa(), load(&place, sums));
                    }
                    engine.multiply(self.product.format, &self.patch(row, panel, sums));
                    let finish = self.finish(row, panel);
                    dispatch!(self.dot.isa(), store(&place, &finish, self.product.then, sums));
                }
            }
        }
    }

    /// The part of C that the patch at `row` and `panel` is.
    fn place(&self, row: usize, panel: usize) -> Place {
        let Product { c, c_stride, columns, .. } = *self.product;
        let part = Part {
            corner: [row, panel * LINES],
            rows: (self.rows.end - row).min(self.shape.down() * LINES),
            columns: (columns - panel * LINES).min(self.shape.across() * LINES),
            c: c.wrapping_add(row * c_stride + panel * LINES),
            stride: c_stride,
        };
        Place { shape: self.shape, part }
    }

    fn patch(&self, row: usize, panel: usize, sums: &mut Sums) -> Patch {
        let (product, step) = (self.product, self.steps.start);
        Patch {
            shape: self.shape,
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

/// What multiplies, ready to do so.
enum Engine {
    Vector(Dot),
    #[cfg(target_arch = "x86_64")]
    Tiles(super::amx::Tiles),
}

impl Engine {
    /// # Safety
    /// The machine has `dot`.
    unsafe fn start(dot: Dot, shape: Shape, rows: usize) -> Self {
        match dot {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promise.
            Dot::Amx => Self::Tiles(unsafe { super::amx::Tiles::configure(shape, rows) }),
            #[cfg(not(target_arch = "x86_64"))]
            Dot::Amx => unreachable!("this machine has no AMX"),
            Dot::Scalar | Dot::Avx2 | Dot::AvxVnni | Dot::Avx512 | Dot::Avx512Dot => {
                debug_assert!(shape == Shape::Wide && rows > 0);
                Self::Vector(dot)
            }
        }
    }

    /// # Safety
    /// As [`Patch`] says; it has the shape that this was started for.
    unsafe fn multiply(&self, format: Format, patch: &Patch) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Vector(dot) => vector::multiply(*dot, format, patch),
                #[cfg(target_arch = "x86_64")]
                Self::Tiles(tiles) => tiles.multiply(format, patch),
            }
        }
    }
}
