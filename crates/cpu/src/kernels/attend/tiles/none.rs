//! Elsewhere than on x86-64 there are no tiles: none of this is ever called.

use std::convert::Infallible;
use std::ops::Range;

use super::{Queries, VECTORS};

const NONE: &str = "this machine has no AMX";

/// There are none.
pub(super) struct Registers(Infallible);

impl Registers {
    pub unsafe fn take(_: Queries) -> Self {
        unreachable!("{NONE}")
    }

    pub unsafe fn dots(&self, _: (*const f32, usize), _: [*const f32; VECTORS], _: usize, _: *mut f32) {
        match self.0 {}
    }

    pub unsafe fn dots_of_one(&self, _: *const f32, _: &[*const f32], _: usize, _: *mut f32) {
        match self.0 {}
    }
}

pub(super) unsafe fn mix_of_one(_: *const f32, _: &[*const f32], _: *mut f32, _: usize) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn mix(_: *const f32, _: &[*const f32], _: (*mut f32, usize), _: usize) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn narrow_row(_: (*const f32, usize), _: f32, _: (*mut f32, usize)) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn soften(_: *const f32, _: (Range<usize>, f32), _: *mut f32, _: *mut f32) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn narrow_pair(_: [*const f32; 2], _: (usize, usize), _: *mut f32) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn merge(_: *const f32, _: usize, _: usize, _: *mut f32) {
    unreachable!("{NONE}")
}
