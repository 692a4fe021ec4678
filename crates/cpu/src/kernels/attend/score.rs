//! Scores of some queries and a tile of keys: the one place where they are computed, for the attention itself, for its
//! gradient and for people to see.

use crate::tuning::attend::COPYING_QUERIES;
use std::ops::Range;

use glassformer_graph::Capacity;
use glassformer_graph::ops::{Attend, KeySpan, Relative};

use super::mask::{TILE, bits_of, first_run, vectors};
use super::product::{Dots, F32, Pairs};
use super::relative::Bias;
use super::stretch::STRETCH;
use super::tile::{Attention, Part, Tile, carve, carved};
use super::tiles::{self, AmxScratch, Queries};
use crate::lanes::LANES;

/// Computes scores, a part and a tile at a time. The two may be set in any order.
pub(super) struct Scorer<'s> {
    /// The queries of the part, `[count, size]`; for Transformer-XL q + u.
    pub queries: &'s mut [f32],
    /// For Transformer-XL the queries + v.
    pub shifted: &'s mut [f32],
    /// Transposed keys, where they do not lie so already, and values, where rows that lie far apart are read often.
    transposed: &'s mut [f32],
    /// Where low-precision numbers are multiplied, if they are.
    amx: Option<AmxScratch<'s>>,
    pub bias: Bias<'s>,
    pub part: Part,
    /// The key at which the first row of the part's sequence stands.
    pub offset: usize,
    /// The first key of the tile or stretch.
    first_key: usize,
}

impl<'s> Scorer<'s> {
    /// The pieces of its scratch for parts of `queries` queries.
    fn lengths(op: &Attend, queries: usize) -> [usize; 6] {
        let shifted = match op.relative {
            Relative::None | Relative::Alibi | Relative::Buckets { .. } => 0,
            Relative::TransformerXl => queries * op.size,
        };
        let [lines, transposed] = Bias::lengths(op, queries);
        [queries * op.size, shifted, 2 * TILE * op.size, lines, transposed, tiles::length(op, queries)]
    }

    /// How much scratch it can use.
    pub fn scratch(op: &Attend, queries: usize, capacity: &Capacity) -> usize {
        carved(&Self::lengths(op, queries)) + Bias::more(op, capacity)
    }

    /// For parts of `queries` queries, on such a scratch.
    ///
    /// # Safety
    /// The inputs are valid for reads.
    pub unsafe fn new(call: &Attention<'_>, queries: usize, scratch: &'s mut [f32]) -> Self {
        let (pieces, rest) = carve(scratch, Self::lengths(call.op, queries));
        let [queries, shifted, transposed, lines, positions, amx] = pieces;
        let amx = AmxScratch::new(call, amx);
        let keys = if amx.is_some() { STRETCH } else { TILE };
        // SAFETY: the caller's promise.
        let bias = unsafe { Bias::new(call, keys, [lines, positions], rest) };
        Self { queries, shifted, transposed, amx, bias, part: Part::default(), offset: 0, first_key: 0 }
    }

    /// Takes the queries of `part`.
    ///
    /// # Safety
    /// The inputs are valid for reads.
    pub unsafe fn set_part(&mut self, call: &Attention<'_>, part: Part) {
        let Attention { op, inputs, run, .. } = *call;
        let size = op.size;
        let start = run.batch.side(op.side).spans[part.sequence].start + part.first;
        (self.part, self.offset) = (part, call.keys_of(part.sequence).offset);
        if let (Some(amx), false) = (&mut self.amx, op.relative == Relative::TransformerXl) {
            // SAFETY: the caller's promise.
            return unsafe { amx.take_queries(call, &part, start) };
        }
        for r in 0..part.count() {
            let (h, i) = part.place(r);
            let columns = (part.head + h) * size..(part.head + h + 1) * size;
            // SAFETY: the caller's promise.
            let q = &unsafe { inputs[0].row(start + i) }[columns.clone()];
            let query = &mut self.queries[r * size..(r + 1) * size];
            match op.relative {
                Relative::None | Relative::Alibi | Relative::Buckets { .. } => query.copy_from_slice(q),
                Relative::TransformerXl => {
                    // SAFETY: the caller's promise.
                    let (u, v) = unsafe { (call.extra(1).row(0), call.extra(2).row(0)) };
                    let shifted = &mut self.shifted[r * size..(r + 1) * size];
                    for (d, (&u, &v)) in u[columns.clone()].iter().zip(&v[columns]).enumerate() {
                        query[d] = q[d] + u;
                        shifted[d] = q[d] + v;
                    }
                }
            }
        }
        if let Some(amx) = &mut self.amx {
            amx.set_queries(call, &part, self.queries);
        }
    }

    /// How low-precision numbers are multiplied, if they are.
    pub fn amx(&self) -> Option<Queries> {
        self.amx.as_ref().map(|amx| amx.shape)
    }

    /// The tile from `start` of `keys`, which lives until the next one is loaded; in low-precision numbers, until one of another
    /// stretch is.
    ///
    /// # Safety
    /// Keys and values are valid for reads.
    pub unsafe fn load(&mut self, call: &Attention<'_>, keys: &KeySpan, head: usize, start: usize) -> Tile {
        // SAFETY: the caller's promise.
        unsafe {
            let mut tile = Tile::find(call, keys, head, start);
            match &mut self.amx {
                Some(amx) => amx.load(call, &mut tile, keys, head),
                None => tile.prepare(call, keys, head, self.transposed, self.part.count() >= COPYING_QUERIES),
            }
            tile
        }
    }

    /// Prepares for the present part and the tile from `start`, or the stretch.
    ///
    /// # Safety
    /// The inputs are valid for reads.
    pub unsafe fn set_keys(&mut self, call: &Attention<'_>, start: usize) {
        self.first_key = start;
        // SAFETY: the caller's promise.
        unsafe { self.bias.prepare(call, &self.part, self.offset, start) };
    }

    /// The scores of some queries of the part with the keys of `tile`, `[rows, 64]`; −∞ where `seen` has no bit. There is
    /// room for whole blocks of sixteen rows.
    ///
    /// # Safety
    /// The scorer is prepared for the tile, which is still loaded.
    pub unsafe fn score(
        &mut self,
        call: &Attention<'_>,
        tile: &Tile,
        rows: Range<usize>,
        seen: &[u64],
        scores: &mut [f32],
    ) {
        if let Some(amx) = &self.amx {
            // SAFETY: the caller's promise.
            unsafe { amx.dots(call, tile, rows.clone(), scores) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.dots(call, tile, &rows, vectors(seen), scores) };
        }
        let scores = &mut scores[..rows.len() * TILE];
        // SAFETY: the caller's promise.
        unsafe {
            let offset = tile.start - self.first_key;
            self.bias.add(call, &self.part, offset, rows, self.shifted.as_ptr(), scores);
        }
        for (scores, &seen) in scores.chunks_exact_mut(TILE).zip(seen) {
            hide(scores, seen);
        }
    }

    /// The products of [`Scorer::score`], with those vectors of keys.
    ///
    /// # Safety
    /// As there.
    unsafe fn dots(
        &self,
        call: &Attention<'_>,
        tile: &Tile,
        rows: &Range<usize>,
        vectors: Range<usize>,
        scores: &mut [f32],
    ) {
        let size = call.op.size;
        let dots = Dots {
            rows: self.queries[rows.start * size..].as_ptr(),
            stride: size,
            count: rows.len(),
            size,
            scale: call.op.scale,
            out: scores[vectors.start * LANES..].as_mut_ptr(),
            out_stride: TILE,
        };
        let (isa, keys) = (call.run.isa, &tile.keys[vectors]);
        // SAFETY: the caller's promise; a vector with a key that is seen is there.
        unsafe { if tile.is_bf16 { dots.with::<Pairs>(isa, keys) } else { dots.with::<F32>(isa, keys) } }
    }
}

/// −∞ where `seen` has no bit.
fn hide(scores: &mut [f32], seen: u64) {
    let mut unseen = !seen;
    while unseen != 0 {
        let run = first_run(unseen);
        unseen &= !bits_of(&run);
        scores[run].fill(f32::NEG_INFINITY);
    }
}
