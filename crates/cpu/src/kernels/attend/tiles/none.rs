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

macro_rules! none {
    ($($name:ident($($argument:ty),+);)+) => {$(
        pub(super) unsafe fn $name($(_: $argument),+) {
            unreachable!("{NONE}")
        }
    )+};
}

none! {
    mix_of_one(&Terms<'_>, Mixtures, usize);
    mix(&Terms<'_>, Mixtures, usize);
    quantize_row(*const f32, usize, f32, *mut f32, usize);
    quantize_rows(HeadRows, f32, *mut f32, usize);
    pack_keys(HeadRows, f32, *mut f32);
    online_softmax(&ScoredBlock<'_>, &mut Gathered<'_>, *mut f32);
    pair_values(HeadRows, usize, *mut f32);
    pack_values(HeadRows, usize, f32, *mut f32);
    merge(*const f32, usize, usize, *mut f32);
}
