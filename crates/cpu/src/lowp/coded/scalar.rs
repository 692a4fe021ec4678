//! The loop in plain Rust, for any machine.

use glassformer_tensor::{Bits, half};

use super::strip::{Sums, rows};
use super::{Item, LINE, LINES, by_coding};
use crate::lanes::{Lanes, Scalar};

/// # Safety
/// As [`super::CodedGemm::run_item`] says.
pub(super) unsafe fn run(item: &Item<'_>) {
    // SAFETY: the caller's promise.
    unsafe { by_coding!(item.product.coding, all(item)) }
}

/// # Safety
/// As for [`run`].
unsafe fn all<const BITS: usize, const SIXTEENS: usize>(item: &Item<'_>) {
    // SAFETY: the caller's promise; plain Rust needs no instructions.
    unsafe { rows::<Plain, BITS, SIXTEENS, 1, 1>(item, item.rows.start) };
}

/// Sixteen sums in an array.
#[derive(Clone, Copy)]
struct Plain([i32; LINES]);

impl Sums for Plain {
    type Numbers = Scalar;
    type Codes = [u8; LINE];
    type Left = [i8; 4];

    #[inline(always)]
    unsafe fn begin<const BITS: usize>(with: i32) -> Self {
        Self([with; LINES])
    }

    #[inline(always)]
    unsafe fn codes<const BITS: usize>(from: *const u8) -> [[u8; LINE]; 4] {
        // SAFETY: the caller's promise; the last line is there with so many bits.
        unsafe {
            let line = |at: usize| *from.add(at * LINE).cast::<[u8; LINE]>();
            std::array::from_fn(|four| {
                let mut codes = if BITS == 8 { line(four) } else { line(four / 2) };
                if BITS < 8 {
                    for code in &mut codes {
                        *code = *code >> (four % 2 * 4) & 15;
                    }
                }
                if BITS == 6 {
                    let upper = line(2);
                    codes
                        .iter_mut()
                        .zip(upper)
                        .for_each(|(code, upper)| *code |= (upper >> (2 * four) & 3) << 4);
                }
                codes
            })
        }
    }

    #[inline(always)]
    unsafe fn left(from: *const u8) -> [i8; 4] {
        // SAFETY: the caller's promise.
        unsafe { *from.cast() }
    }

    #[inline(always)]
    unsafe fn add<const BITS: usize>(mut self, codes: [u8; LINE], left: [i8; 4]) -> Self {
        for (sum, codes) in self.0.iter_mut().zip(codes.as_chunks::<4>().0) {
            for i in 0..4 {
                *sum += i32::from(codes[i]) * i32::from(left[i]);
            }
        }
        self
    }

    #[inline(always)]
    unsafe fn f16(from: *const u8) -> Scalar {
        // SAFETY: the caller's promise.
        unsafe { Scalar::load((*from.cast::<[u16; LINES]>()).map(half::widen).as_ptr()) }
    }
}
