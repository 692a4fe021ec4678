//! Patches: four tiles of C, whose sums rest in four kilobytes of the stack.

use super::{LINES, TILE, TILE_FLOATS};

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
    pub accumulates: bool,
    pub steps: usize,
    /// Where B goes on, if it is read for the first time: then it may come from far.
    pub beyond: Option<Beyond>,
    pub sums: *mut Sums,
}

impl Patch {
    /// The patch so many panels further on in the same rows.
    #[inline(always)]
    pub fn at(&self, panels: usize) -> Self {
        let (b, shift) = (self.b.wrapping_add(panels * self.stride), self.shift.wrapping_add(panels * LINES));
        Self { b, shift, ..*self }
    }
}

/// Where B goes on: behind the last tile of its panels, with those of another unit.
#[derive(Clone, Copy)]
pub(super) struct Beyond {
    /// Tiles up to there, from the first of a patch.
    pub left: usize,
    /// Bytes from there to where the same panel of that unit begins.
    pub jump: usize,
}

/// Room for so many tiles of B that are unpacked.
#[repr(align(64))]
#[allow(dead_code)] // reached by addresses alone
pub(super) struct Unpacked<const COUNT: usize>([[u8; TILE]; COUNT]);
