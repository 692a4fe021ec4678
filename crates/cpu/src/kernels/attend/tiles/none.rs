//! Elsewhere than on x86-64 there are no tiles: none of this is ever called.

use super::{Gathered, HeadRows, Mixtures, Queries, ScoredBlock, VECTORS};
use std::convert::Infallible;

const NONE: &str = "this machine has no AMX";

/// There are none.
pub(super) struct Registers(Infallible);

impl Registers {
    pub unsafe fn take(_: Queries) -> Self {
        unreachable!("{NONE}")
    }

    pub unsafe fn dots(&self, _: *const f32, _: usize, _: [*const f32; VECTORS], _: usize, _: *mut f32) {
        match self.0 {}
    }

    pub unsafe fn dots_of_one(&self, _: *const f32, _: &[*const f32], _: usize, _: *mut f32) {
        match self.0 {}
    }
}

/// As they would be.
#[allow(dead_code)]
pub(super) struct Terms<'a> {
    pub first: *const f32,
    pub values: &'a [*const f32],
    pub pages: usize,
}

pub(super) unsafe fn mix_of_one(_: &Terms<'_>, _: Mixtures, _: usize) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn mix(_: &Terms<'_>, _: Mixtures, _: usize) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn quantize_row(_: *const f32, _: usize, _: f32, _: *mut f32, _: usize) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn quantize_rows(_: HeadRows, _: f32, _: *mut f32, _: usize) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn pack_keys(_: HeadRows, _: f32, _: *mut f32) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn online_softmax(_: &ScoredBlock<'_>, _: &mut Gathered<'_>, _: *mut f32) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn pair_values(_: HeadRows, _: usize, _: *mut f32) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn pack_values(_: HeadRows, _: usize, _: f32, _: *mut f32) {
    unreachable!("{NONE}")
}

pub(super) unsafe fn merge(_: *const f32, _: usize, _: usize, _: *mut f32) {
    unreachable!("{NONE}")
}
