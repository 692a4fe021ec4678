//! The name by which a few files still call [`Lanes::transpose`].

use std::ops::Range;

use crate::lanes::Lanes;

pub(super) trait Machine: Lanes {
    /// # Safety
    /// As for [`Lanes::transpose`].
    unsafe fn turn(from: *const f32, stride: isize, lanes: Range<usize>, size: usize, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { Self::transpose(from, stride, lanes, size, to) };
    }
}

impl<L: Lanes> Machine for L {}
