//! What a worker works on: some queries, and sixty-four keys with their values.

use std::marker::PhantomData;

use glassformer_graph::PAGE;
use glassformer_graph::ops::{Attend, KeySpan, Keys};

use super::bf16;
use super::form::{Form, may_be_stored};
use super::mask::TILE;
use super::product::Paged;
use crate::context::{Block, Context};
use crate::dispatch;
use crate::lanes::{LANES, Lanes};
use crate::pages::KeysAndValues;

/// Vectors of keys in a tile.
pub(super) const VECTORS: usize = TILE / LANES;

// A page of keys is a vector of transposed keys, which is why tiles read keys where they were stored.
const _: () = assert!(PAGE == LANES);

/// One call of a kernel: what its workers share.
#[derive(Clone, Copy)]
pub(super) struct Attention<'a> {
    pub op: &'a Attend,
    pub inputs: &'a [Block],
    /// Whether queries, keys and values are `bf16`, and queries come times the scale.
    pub is_bf16: bool,
    pub run: &'a Context<'a>,
}

impl Attention<'_> {
    /// The keys of query sequence `s`.
    pub fn keys_of(&self, s: usize) -> KeySpan {
        self.op.keys_with(self.run.batch, |table| self.run.crossing.book.len(table), s)
    }

    /// Whether its keys and values are `bf16`: then the terms of its softmax need to be no more exact than these.
    pub fn is_approximate(&self) -> bool {
        Form::of(self.run, self.op) != Form::F32
    }

    /// Input `k` of those that the relative positions need.
    pub fn extra(&self, k: usize) -> Block {
        self.inputs[self.op.base_inputs() + k]
    }
}

/// How many query heads share a key head.
pub(super) fn group(op: &Attend) -> usize {
    op.heads / op.key_heads
}

/// Some query rows of one sequence, with some of the query heads that share a key head.
///
/// Heads share keys as rows do, so a kernel need not tell them apart: a part is `heads · rows` queries, head by head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    /// Which sequence.
    pub sequence: usize,
    /// Its first row of the sequence, and how many there are.
    pub first: usize,
    pub rows: usize,
    /// Its first query head, and how many there are.
    pub head: usize,
    pub heads: usize,
}

impl Part {
    /// How many queries it has.
    pub fn count(&self) -> usize {
        self.heads * self.rows
    }

    /// The head and the row of query `r`, counted from the first ones of the part.
    pub fn place(&self, r: usize) -> (usize, usize) {
        (r / self.rows, r % self.rows)
    }
}

/// Sixty-four keys and values of one key head.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// The first key.
    pub start: usize,
    /// How many of them exist.
    pub live: usize,
    /// Sixteen keys each, transposed: `[size, 16]`. Those beyond the last existing key point nowhere.
    pub keys: [*const f32; VECTORS],
    /// Their values.
    pub values: Paged,
    /// Whether both are pages of `bf16`.
    pub is_bf16: bool,
}

impl Tile {
    /// No tile.
    pub const NOWHERE: Self = Self {
        start: 0,
        live: 0,
        keys: [std::ptr::null(); VECTORS],
        values: Paged([std::ptr::null(); VECTORS], 0, PhantomData),
        is_bf16: false,
    };

    /// The tile from `start` of `keys`, where they are pages. Rows have no place yet.
    ///
    /// # Safety
    /// Keys and values are valid for reads.
    pub unsafe fn find(call: &Attention<'_>, keys: &KeySpan, head: usize, start: usize) -> Self {
        let Attention { op, run, .. } = *call;
        let live = keys.end.min(start + TILE) - start;
        let values = Paged([std::ptr::null(); VECTORS], op.size, PhantomData);
        let mut tile = Self { start, live, values, ..Self::NOWHERE };
        let Keys::Pages(which, slot) = op.keys else { return tile };
        let pages = run.pages(which);
        tile.is_bf16 = Form::of(run, op) == Form::Bf16;
        for v in 0..live.div_ceil(LANES) {
            let j = start + v * LANES;
            let page = pages.find(keys.place, j, slot, head);
            let values = if tile.is_bf16 { bf16::values_at(op.size, page) } else { page.values };
            (tile.keys[v], tile.values.0[v]) = (page.keys, values);
        }
        tile
    }

    /// Copies into `scratch` what is not multiplied as it lies. Keys that are rows are transposed, and their values put behind them if
    /// `many` queries mix them: rows of a wide matrix each lie in a page of their own. For as many, `bf16` are widened once.
    ///
    /// # Safety
    /// Keys and values are valid for reads; `scratch` holds twice `64 · size` numbers and outlives the tile.
    pub unsafe fn prepare(
        &mut self,
        call: &Attention<'_>,
        keys: &KeySpan,
        head: usize,
        scratch: &mut [f32],
        many: bool,
    ) {
        let Attention { op, inputs, run, .. } = *call;
        let (transposed, values) = scratch.split_at_mut(TILE * op.size);
        let Keys::Rows(_) = op.keys else {
            if self.is_bf16 && many {
                // SAFETY: the caller's promise.
                unsafe { self.widen(call, transposed, values) };
            }
            return;
        };
        let rounds = Form::of(run, op) == Form::Bf16 && may_be_stored(op);
        let many = many || rounds;
        let width = inputs[1].width;
        for v in 0..self.live.div_ceil(LANES) {
            let j = self.start + v * LANES;
            let lanes = 0..(keys.end - j).min(LANES);
            let at = (keys.place + j) * width + head * op.size;
            let into = transposed[v * LANES * op.size..].as_mut_ptr();
            // SAFETY: keys up to the sequence's end are rows of both inputs.
            unsafe {
                let from = inputs[1].data.add(at);
                let count = lanes.len();
                dispatch!(run.isa, |L| L::transpose(from, width as isize, lanes, op.size, into));
                self.keys[v] = into;
                self.values.0[v] = inputs[2].data.add(at);
                if many {
                    let copied = values[v * LANES * op.size..].as_mut_ptr();
                    for row in 0..count {
                        let from = inputs[2].data.add(at + row * width);
                        std::ptr::copy_nonoverlapping(from, copied.add(row * op.size), op.size);
                    }
                    self.values.0[v] = copied;
                    if rounds {
                        bf16::round(run.isa, into, LANES * op.size);
                        bf16::round(run.isa, copied, count * op.size);
                    }
                }
            }
        }
        self.values.1 = if many { op.size } else { width };
    }

    /// Widens pages of `bf16`.
    ///
    /// # Safety
    /// The pages are valid for reads; both places hold `64 · size` numbers and outlive the tile.
    unsafe fn widen(&mut self, call: &Attention<'_>, keys: &mut [f32], values: &mut [f32]) {
        let size = call.op.size;
        let places = keys.chunks_exact_mut(LANES * size).zip(values.chunks_exact_mut(LANES * size));
        for (v, (keys, values)) in places.take(self.live.div_ceil(LANES)).enumerate() {
            let to = KeysAndValues { keys: keys.as_mut_ptr(), values: values.as_mut_ptr() };
            // SAFETY: the caller's promise.
            unsafe { bf16::widen(call.run.isa, size, self.keys[v], self.values.0[v], to) };
            (self.keys[v], self.values.0[v]) = (to.keys, to.values);
        }
        self.is_bf16 = false;
    }
}

/// Cuts a worker's scratch into pieces of at least these lengths, each on a cache line, and the rest.
pub(super) fn carve<const N: usize>(
    scratch: &mut [f32],
    lengths: [usize; N],
) -> ([&mut [f32]; N], &mut [f32]) {
    let skip = scratch.as_ptr().align_offset(LANES * size_of::<f32>());
    let mut rest = &mut scratch[skip..];
    let pieces = lengths.map(|length| {
        let (piece, after) = std::mem::take(&mut rest).split_at_mut(length.next_multiple_of(LANES));
        rest = after;
        piece
    });
    (pieces, rest)
}

/// How much scratch [`carve`] needs for these.
pub(super) fn carved(lengths: &[usize]) -> usize {
    LANES + lengths.iter().map(|length| length.next_multiple_of(LANES)).sum::<usize>()
}
