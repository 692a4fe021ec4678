//! Tile registers: eight of sixteen lines of 64 bytes, for each thread, and what is done with them alone.

use std::cell::RefCell;

use crate::numbers::{flushed, pair};

/// Lines of a tile, at most.
const LINES: usize = 16;
/// Bytes of a line, at most.
const LINE: usize = 64;
/// Bytes of a word: a sum, and what is multiplied at once to add to one.
const WORD: usize = 4;

/// One register, and its shape.
#[derive(Clone, Copy)]
pub struct Tile {
    bytes: [[u8; LINE]; LINES],
    lines: usize,
    width: usize,
}

/// All of a thread.
pub struct Tiles([Tile; 8]);

thread_local! {
    static TILES: RefCell<Tiles> = const { RefCell::new(Tiles::NONE) };
}

/// What `ldtilecfg` reads.
#[repr(C)]
pub struct Shapes {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    widths: [u16; 16],
    lines: [u8; 16],
}

impl Tiles {
    const NONE: Self = Self([Tile { bytes: [[0; LINE]; LINES], lines: 0, width: 0 }; 8]);

    /// Those of this thread.
    pub fn with<R>(run: impl FnOnce(&mut Self) -> R) -> R {
        TILES.with_borrow_mut(run)
    }

    /// Gives all registers a shape, and zeros; None where a processor would refuse it.
    #[must_use]
    pub fn shape(&mut self, shapes: &Shapes) -> Option<()> {
        *self = Self::NONE;
        let rest = (&shapes.widths[8..], &shapes.lines[8..]);
        let none_left = rest.0.iter().all(|&x| x == 0) && rest.1.iter().all(|&x| x == 0);
        if shapes.palette != 1 || shapes.start != 0 || shapes.reserved != [0; 14] || !none_left {
            return None;
        }
        for (at, tile) in self.0.iter_mut().enumerate() {
            (tile.lines, tile.width) = (shapes.lines[at].into(), shapes.widths[at].into());
            if tile.lines > LINES || tile.width > LINE || (tile.lines == 0) != (tile.width == 0) {
                return None;
            }
        }
        Some(())
    }

    /// No shapes any more.
    pub fn release(&mut self) {
        *self = Self::NONE;
    }

    /// A register that has a shape.
    pub fn get(&mut self, number: u8) -> Option<&mut Tile> {
        self.0.get_mut(usize::from(number)).filter(|tile| tile.lines > 0)
    }

    /// What a product is made of, if the shapes fit: each line of A has a word for each line of B, and C has the lines of A and the words of B.
    fn product(&mut self, [c, a, b]: [u8; 3]) -> Option<(&mut Tile, Tile, Tile)> {
        let (a, b) = (*self.get(a)?, *self.get(b)?);
        let c = self.get(c)?;
        let fits =
            c.lines == a.lines && a.width == WORD * b.lines && c.width == b.width && c.width % WORD == 0;
        fits.then_some((c, a, b))
    }

    /// C += A · B, four integers with signs in a word.
    #[must_use]
    pub fn multiply_integers(&mut self, registers: [u8; 3]) -> Option<()> {
        let (c, a, b) = self.product(registers)?;
        for i in 0..c.lines {
            for n in 0..c.width / WORD {
                let mut sum = i32::from_le_bytes(c.word(i, n));
                for k in 0..b.lines {
                    for (x, y) in a.word(i, k).into_iter().zip(b.word(k, n)) {
                        sum = sum.wrapping_add(i32::from(x.cast_signed()) * i32::from(y.cast_signed()));
                    }
                }
                c.set_word(i, n, sum.to_le_bytes());
            }
        }
        c.clear_beyond();
        Some(())
    }

    /// C += A · B, two `bf16` in a word: a sum over the first ones and one over the second ones, in `f32`, and then both together.
    ///
    /// # Safety
    /// The machine has fused multiply-adds, or this would be a call for each of them.
    #[must_use]
    #[target_feature(enable = "fma")]
    pub unsafe fn multiply_halves(&mut self, registers: [u8; 3]) -> Option<()> {
        let (c, a, b) = self.product(registers)?;
        for i in 0..c.lines {
            for n in 0..c.width / WORD {
                let mut sums = [0.0; 2];
                for k in 0..b.lines {
                    let (left, right) = (pair(a.word(i, k)), pair(b.word(k, n)));
                    for (half, sum) in sums.iter_mut().enumerate() {
                        *sum = flushed(left[half].mul_add(right[half], *sum));
                    }
                }
                let before = flushed(f32::from_le_bytes(c.word(i, n)));
                let sum = flushed(before + flushed(sums[0] + sums[1]));
                c.set_word(i, n, sum.to_le_bytes());
            }
        }
        c.clear_beyond();
        Some(())
    }
}

impl Tile {
    /// Zeros, in the shape that it has.
    pub fn zero(&mut self) {
        self.bytes = [[0; LINE]; LINES];
    }

    /// # Safety
    /// Lines of this tile's shape, `stride` bytes apart, can be read there.
    pub unsafe fn load(&mut self, from: *const u8, stride: isize) {
        self.zero();
        for (at, line) in self.bytes.iter_mut().enumerate().take(self.lines) {
            // SAFETY: the caller's promise.
            unsafe { from.offset(at.cast_signed() * stride).copy_to(line.as_mut_ptr(), self.width) };
        }
    }

    /// # Safety
    /// Lines of this tile's shape, `stride` bytes apart, can be written there.
    pub unsafe fn store(&self, to: *mut u8, stride: isize) {
        for (at, line) in self.bytes.iter().enumerate().take(self.lines) {
            // SAFETY: the caller's promise.
            unsafe { to.offset(at.cast_signed() * stride).copy_from(line.as_ptr(), self.width) };
        }
    }

    fn word(&self, line: usize, at: usize) -> [u8; WORD] {
        self.bytes[line].as_chunks().0[at]
    }

    fn set_word(&mut self, line: usize, at: usize, word: [u8; WORD]) {
        self.bytes[line][WORD * at..WORD * (at + 1)].copy_from_slice(&word);
    }

    /// What lies outside of the shape is zero behind every instruction that writes a register.
    fn clear_beyond(&mut self) {
        for line in &mut self.bytes[..self.lines] {
            line[self.width..].fill(0);
        }
        self.bytes[self.lines..].fill([0; LINE]);
    }
}
