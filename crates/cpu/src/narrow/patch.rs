//! One work item: blocks of k, strips of rows, and patches of four tiles of C from left to right.
//!
//! A patch's sums rest in four kilobytes of the stack. Between two blocks of k sums of `bf16` are kept in C; those of integers
//! begin anew, since another block has other scales, and are added to what C holds.

use super::finish::{self, Finish, NO_BIAS, Place};
use super::vector;
use super::{BLOCK, Dot, Format, Item, LINES, Product, SCALED, TILE, TILE_FLOATS, Target, four, part};
use crate::dispatch;
use crate::isa::Isa;
use crate::then::{Part, Then};
use std::mem::MaybeUninit;
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
    /// What is added to integer sums where A is taken as 128 more than it is: for each column.
    pub shift: *const i32,
    /// Whether it goes on with what the sums hold.
    pub goes_on: bool,
    pub steps: usize,
    pub sums: *mut Sums,
}

/// Computes one item.
///
/// # Safety
/// As for [`Product::run_item`]; the item lies inside the product.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))] // only AMX looks ahead
pub(super) unsafe fn run(product: &Product, dot: Dot, item: &Item, next: Option<Range<usize>>) {
    // SAFETY: the caller's promise.
    unsafe {
        match dot {
            #[cfg(target_arch = "x86_64")]
            Dot::Amx => super::flow::run(product, item, next),
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
    if product.format == Format::Int4 {
        #[cfg(target_arch = "x86_64")]
        if dot == Dot::Avx512Dot && product.rows <= four::FEW {
            // SAFETY: the caller's promise.
            return unsafe { by_coded_lines(product, item) };
        }
        // SAFETY: the caller's promise.
        return unsafe { by_unpacked_lines(product, dot, item) };
    }
    let mut sums = Sums::ZERO;
    let strips = |index: usize| Strips::new(product, dot.isa(), Shape::Wide, item.rows.clone(), index);
    for panel in strips(0).panels(&item.units).step_by(Shape::Wide.across()) {
        for index in 0..product.blocks() {
            let strips = strips(index);
            for row in strips.starts() {
                let place = strips.place(row, panel);
                // SAFETY: the caller's promise.
                unsafe {
                    if strips.goes_on() {
                        dispatch!(dot.isa(), |L| place.load::<L>(&raw mut sums));
                    }
                    vector::multiply(dot, product.format, &strips.patch(row, panel, &raw mut sums));
                    place.store(&raw mut sums, 0, place.part.rows);
                }
            }
        }
    }
}

/// The same where B is in four bits: the tiles of four panels are unpacked, then multiplied. Where one strip is all there is, a few steps
/// at a time, so that they stay in the nearest cache.
///
/// # Safety
/// As for [`run`].
unsafe fn by_unpacked_lines(product: &Product, dot: Dot, item: &Item) {
    let no_shift = Sums::ZERO;
    let (mut sums, mut place) =
        (Sums::ZERO, MaybeUninit::<Tiles<{ Shape::Wide.across() * SCALED }>>::uninit());
    let to = place.as_mut_ptr().cast::<u8>();
    let strips = |index: usize| Strips::new(product, dot.isa(), Shape::Wide, item.rows.clone(), index);
    let most = if item.rows.len() <= LINES { FEW_STEPS } else { SCALED };
    for panel in strips(0).panels(&item.units).step_by(Shape::Wide.across()) {
        for index in 0..product.blocks() {
            let strips = strips(index);
            for first in strips.steps.clone().step_by(most) {
                let steps = first..strips.steps.end.min(first + most);
                let (begins, ends) = (first == strips.steps.start, steps.end == strips.steps.end);
                // SAFETY: the caller's promise; columns are filled up to four panels, and there is room for so many steps.
                unsafe {
                    four::unpack(dot.isa(), product, panel..panel + Shape::Wide.across(), &steps, to);
                    for row in strips.starts() {
                        let place = strips.place(row, panel);
                        let patch = strips.patch(row, panel, &raw mut sums);
                        let shift = if ends { patch.shift } else { (&raw const no_shift).cast() };
                        let a = product.a_tile(row / LINES, first);
                        let (stride, goes_on) = (steps.len() * TILE, !begins);
                        let patch = Patch { a, b: to, stride, shift, goes_on, steps: steps.len(), ..patch };
                        vector::multiply(dot, Format::Int8, &patch);
                        if ends {
                            place.store(&raw mut sums, 0, place.part.rows);
                        }
                    }
                }
            }
        }
    }
}

/// The same for few rows, without unpacking anything.
///
/// # Safety
/// As for [`run`]; the machine has AVX-512 VNNI, and there are no more rows than [`four::FEW`].
#[cfg(target_arch = "x86_64")]
unsafe fn by_coded_lines(product: &Product, item: &Item) {
    let mut sums = Sums::ZERO;
    let strips = |index: usize| Strips::new(product, Isa::Avx512, Shape::Wide, item.rows.clone(), index);
    for panel in strips(0).panels(&item.units).step_by(Shape::Wide.across()) {
        for index in 0..product.blocks() {
            let strips = strips(index);
            let place = strips.place(item.rows.start, panel);
            // SAFETY: the caller's promise.
            unsafe {
                let unit = panel / Shape::Wide.across();
                four::few_rows(product, item.rows.len(), unit, &strips.steps, &raw mut sums);
                place.store(&raw mut sums, 0, place.part.rows);
            }
        }
    }
}

/// Steps along k that are unpacked at once for one strip: sixteen tiles.
const FEW_STEPS: usize = 4;

/// A place for so many tiles.
#[repr(align(64))]
#[allow(dead_code)] // reached by addresses alone
pub(super) struct Tiles<const COUNT: usize>([[u8; TILE]; COUNT]);

impl Product {
    /// How many blocks of k there are. Between two of them C must hold the sums, so there is one where C is narrow.
    pub(super) fn blocks(&self) -> usize {
        match self.format {
            Format::Bf16 if !matches!(self.target, Target::Wide) => 1,
            Format::Bf16 => self.tiles().div_ceil(BLOCK),
            Format::Int8 | Format::Int4 => self.format.blocks(self.k),
        }
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
    /// The block's number.
    block: usize,
    /// What is done to the rows of its patches.
    finish: finish::Rows,
    /// The same for patches that are whole.
    finish_whole: finish::Rows,
}

impl<'a> Strips<'a> {
    /// These rows in block number `block`.
    pub fn new(product: &'a Product, isa: Isa, shape: Shape, rows: Range<usize>, block: usize) -> Self {
        let steps = product.block(block);
        let finish = match product.format {
            Format::Bf16 if steps.end < product.tiles() => Finish::Keep,
            Format::Bf16 => Finish::Add,
            Format::Int8 | Format::Int4 if block == 0 => Finish::Scale,
            Format::Int8 | Format::Int4 => Finish::ScaleOnto,
        };
        let then = if steps.end < product.tiles() { Then::Nothing } else { product.then };
        let general = finish::rows(isa, finish, then);
        let whole = match shape {
            #[cfg(target_arch = "x86_64")]
            Shape::Square => finish::square_rows(finish, then, product.target),
            Shape::Wide => general,
        };
        Self { product, shape, rows, steps, block, finish: general, finish_whole: whole }
    }
}

impl Strips<'_> {
    /// Whether sums go on with what the block before left in C.
    #[inline(always)]
    pub fn goes_on(&self) -> bool {
        self.block > 0 && self.product.format == Format::Bf16
    }

    /// Whether sums are kept in C for the next block.
    #[cfg(target_arch = "x86_64")] // AMX alone
    #[inline(always)]
    pub fn keeps(&self) -> bool {
        self.steps.end < self.product.tiles() && self.product.format == Format::Bf16
    }

    /// The first row of each strip.
    pub fn starts(&self) -> impl Iterator<Item = usize> + use<> {
        self.rows.clone().step_by(self.shape.height())
    }

    /// The panels of some units.
    pub fn panels(&self, units: &Range<usize>) -> Range<usize> {
        units.start * 4..(units.end * 4).min(self.product.some[1].div_ceil(LINES))
    }

    /// The part of C that the patch at `row` and `panel` is, and what happens to its sums.
    #[inline(always)]
    pub fn place(&self, row: usize, panel: usize) -> Place {
        let (product, column) = (self.product, panel * LINES);
        let Product { c, c_stride, columns, some, bias, then, target, .. } = *product;
        let at = row * c_stride + column;
        let part = Part {
            corner: [row, column],
            rows: (self.rows.end - row).min(self.shape.height()),
            columns: (some[1] - column).min(self.shape.width()),
            c: match target {
                Target::Wide | Target::Tiles(_) => c.wrapping_add(at),
                Target::Halves(_) => c.cast::<u16>().wrapping_add(at).cast(),
            },
            stride: c_stride,
        };
        let other = match then {
            Then::Nothing | Then::Activate(_) => (std::ptr::null(), 0),
            Then::Add(other) | Then::Gate(_, other) => {
                (other.start.wrapping_add(row * other.stride + column), other.stride)
            }
        };
        Place {
            part,
            width: self.shape.width(),
            rows: if part.columns == self.shape.width() { self.finish_whole } else { self.finish },
            bias: bias.map_or(NO_BIAS.as_ptr(), |bias| bias.wrapping_add(column)),
            scales: [
                product.row_scales(self.block).wrapping_add(row),
                product.column_scales().wrapping_add(column),
            ],
            other,
            target,
            across: Format::Bf16.tiles(columns),
        }
    }

    fn patch(&self, row: usize, panel: usize, sums: *mut Sums) -> Patch {
        let (product, step) = (self.product, self.steps.start);
        Patch {
            rows: (self.rows.end - row).min(LINES),
            a: product.a_tile(row / LINES, step),
            b: product.b_tile(panel, step),
            stride: product.tiles() * TILE,
            shift: product.column_shifts(self.block).wrapping_add(panel * LINES),
            goes_on: self.goes_on(),
            steps: self.steps.len(),
            sums,
        }
    }
}
