//! The gradient of attention on AMX: what is multiplied is in `bf16`, sums are in `f32`.
//!
//! A *chunk* of keys meets a chunk of queries, keys for rows. So computed, probabilities and gradients of scores are what the
//! next products read as they come from the registers, and no matrix as large as keys times queries is ever transposed:
//!
//! - S = K Qᵀ and dP = V dYᵀ, square by square of 32 × 32; then P = exp(S − log), dS = P (dP − mean);
//! - dV += P dY and dK += dS Q, sums over the queries;
//! - dQᵀ = Kᵀ dS, a sum over the keys, which is transposed and added to dq.
//!
//! Queries come times the scale, as the attention itself has them, and dq is multiplied by it at last. A square that nobody
//! sees is left out, where it lies outside of all that are seen, or is zero.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use glassformer_graph::ops::{Attend, KeySpan};

use super::super::form::HeadRows;
use super::super::mask::{SequenceMask, TILE};
use super::super::tile::{Attention, Part, group};
use super::super::tiles::machine::{pack_keys, pack_values};
use super::super::tiles::{depth, pack_rows};
use crate::context::Block;
use crate::lanes::LANES;
use crate::lowp::Tiles;
use square::{Square, SquareSoftmax, add_transposed, softmax_grad, transpose};

mod square;

/// Keys, and queries, that meet at once.
const CHUNK: usize = 128;
/// Keys, and queries, of a square: two tiles.
const SQUARE: usize = 32;
/// Squares along a chunk.
const SQUARES: usize = CHUNK / SQUARE;
/// Pairs of a row of probabilities.
const PAIRS: usize = CHUNK / 2;

/// The pieces of scratch of a worker. All numbers of a head are filled up to whole tiles.
pub(super) struct AmxGradScratch<'s> {
    /// Keys and values, `[keys, depth / 2]` pairs.
    keys: &'s mut [f32],
    values: &'s mut [f32],
    /// Keys in pairs, `[depth / 16, keys / 2, 16]`; and transposed, a tile of sixteen numbers of 32 keys behind the other.
    key_pairs: &'s mut [f32],
    key_columns: &'s mut [f32],
    /// Sums over queries, `[keys, depth]`.
    dk: &'s mut [f32],
    dv: &'s mut [f32],
    /// Transposed queries and dy, `[queries / 16, depth / 2, 16]` pairs; and in pairs of queries, `[depth / 16, queries / 2, 16]`.
    queries: &'s mut [f32],
    dy: &'s mut [f32],
    query_pairs: &'s mut [f32],
    dy_pairs: &'s mut [f32],
    /// S and dP of a square.
    s: &'s mut [f32],
    dp: &'s mut [f32],
    /// P and dS, `[keys, queries / 2]` pairs; and dS in pairs of keys, `[queries / 16, keys / 2, 16]`.
    p: &'s mut [f32],
    ds: &'s mut [f32],
    ds_pairs: &'s mut [f32],
    /// dQᵀ, `[depth, queries]`.
    dq: &'s mut [f32],
}

/// The lengths of these pieces, in their order.
pub(super) fn lengths(op: &Attend) -> [usize; 16] {
    let (bf16, sums) = (CHUNK * depth(op.size) / 2, CHUNK * depth(op.size));
    let (square, terms) = (SQUARE * SQUARE, CHUNK * PAIRS);
    [bf16, bf16, bf16, bf16, sums, sums, bf16, bf16, bf16, bf16, square, square, terms, terms, terms, sums]
}

impl<'s> AmxGradScratch<'s> {
    pub fn new(pieces: [&'s mut [f32]; 16]) -> Self {
        let mut pieces = pieces.into_iter();
        let mut next = || pieces.next().unwrap_or_default();
        let scratch = Self {
            keys: next(),
            values: next(),
            key_pairs: next(),
            key_columns: next(),
            dk: next(),
            dv: next(),
            queries: next(),
            dy: next(),
            query_pairs: next(),
            dy_pairs: next(),
            s: next(),
            dp: next(),
            p: next(),
            ds: next(),
            ds_pairs: next(),
            dq: next(),
        };
        for piece in [&mut *scratch.key_pairs, &mut *scratch.query_pairs, &mut *scratch.dy_pairs] {
            // Numbers behind the last of a head are never written.
            piece.fill(0.0);
        }
        scratch
    }
}

/// What flows through one key head, from some sequences into the keys that they all look at.
pub(super) struct Job<'a, 'd, 's> {
    pub call: Attention<'a>,
    /// y, the logarithms of sums, and dy.
    pub given: &'a [Block],
    pub outputs: &'a [Block],
    /// dy · y of each row, for each head of a group.
    pub means: &'d [f32],
    pub scratch: &'d mut AmxGradScratch<'s>,
}

/// How much of a square is seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Some,
    All,
}

/// What each query of a chunk sees of a chunk of keys, as bits.
type Bits = [[u64; CHUNK / TILE]; CHUNK];

impl Job<'_, '_, '_> {
    /// All of it; `sequences` look at `keys`.
    ///
    /// # Safety
    /// As for [`super::attend_grad`]; nobody else works on these keys and this head; the machine has AMX.
    pub unsafe fn run(
        &mut self,
        sequences: &(impl Iterator<Item = usize> + Clone),
        keys: &KeySpan,
        key_head: usize,
    ) {
        // SAFETY: the caller's promise. The registers are this thread's until `_tiles` is dropped.
        let _tiles = unsafe { Tiles::shaped([LANES as u8; 8], [64; 8]) };
        let spans = &self.call.run.batch.side(self.call.op.side).spans;
        let heads = key_head * group(self.call.op)..(key_head + 1) * group(self.call.op);
        for s in sequences.clone() {
            let (dq, size) = (self.outputs[0], self.call.op.size);
            for row in spans[s].start..spans[s].start + spans[s].len {
                // SAFETY: these columns of the row are this item's alone.
                unsafe {
                    dq.data.add(row * dq.width + heads.start * size).write_bytes(0, heads.len() * size);
                };
            }
        }
        for start in (0..keys.end).step_by(CHUNK) {
            let count = CHUNK.min(keys.end - start);
            // SAFETY: the caller's promise.
            unsafe { self.load(keys.place + start, count, key_head) };
            for s in sequences.clone() {
                for first in (0..spans[s].len).step_by(CHUNK) {
                    let rows = CHUNK.min(spans[s].len - first);
                    for head in heads.clone() {
                        // SAFETY: as above.
                        unsafe {
                            let part = Part { sequence: s, first, rows, head, heads: 1 };
                            self.visit(start..start + count, &part);
                        }
                    }
                }
            }
            // SAFETY: as above.
            unsafe { self.unload(keys.place + start, count, key_head) };
        }
    }

    /// Takes a chunk of keys, the first being this row: their sums are zero.
    unsafe fn load(&mut self, row: usize, count: usize, key_head: usize) {
        let Attention { op, inputs, .. } = self.call;
        let (scratch, size, pairs) = (&mut *self.scratch, op.size, depth(op.size) / 2);
        let at = row * inputs[1].width + key_head * size;
        let whole = count.next_multiple_of(SQUARE);
        // SAFETY: the caller's promise; there is room for a chunk.
        unsafe {
            let rows =
                |input: Block| HeadRows { start: input.data.add(at), stride: input.width, count, size };
            for (input, to) in [(1, &mut *scratch.keys), (2, &mut *scratch.values)] {
                pack_rows(rows(inputs[input]), 1.0, &mut to[..count * pairs]);
                to[count * pairs..whole * pairs].fill(0.0);
            }
            pack_values(rows(inputs[1]), CHUNK / LANES, 1.0, scratch.key_pairs.as_mut_ptr());
            for (tile, to) in scratch
                .key_pairs
                .chunks_exact(LANES * LANES)
                .zip(scratch.key_columns.chunks_exact_mut(LANES * LANES))
            {
                transpose(tile.as_ptr(), LANES, to.as_mut_ptr());
            }
        }
        scratch.dk[..whole * 2 * pairs].fill(0.0);
        scratch.dv[..whole * 2 * pairs].fill(0.0);
    }

    /// Writes the chunk's dk and dv.
    unsafe fn unload(&mut self, row: usize, count: usize, key_head: usize) {
        let size = self.call.op.size;
        for (output, sums) in [(self.outputs[1], &*self.scratch.dk), (self.outputs[2], &*self.scratch.dv)] {
            for (j, sums) in sums.chunks_exact(depth(size)).take(count).enumerate() {
                let at = (row + j) * output.width + key_head * size;
                // SAFETY: these columns of the row are this item's alone.
                unsafe { output.data.add(at).copy_from_nonoverlapping(sums.as_ptr(), size) };
            }
        }
    }

    /// What the queries of `part` and a chunk of keys do to each other.
    unsafe fn visit(&mut self, keys: Range<usize>, part: &Part) {
        let mut bits: Bits = [[0; CHUNK / TILE]; CHUNK];
        let Some(seen) = self.look(&keys, part, &mut bits) else { return };
        // SAFETY: the caller's promise.
        unsafe {
            self.take_queries(part);
            for (k, q) in (0..SQUARES).flat_map(|k| (0..SQUARES).map(move |q| (k, q))) {
                match seen[k][q] {
                    Seen::Nothing => self.clear(k, q),
                    Seen::Some => self.softmax_grad(part, k, q, Some(&bits)),
                    Seen::All => self.softmax_grad(part, k, q, None),
                }
            }
            self.sum_over_queries(&seen);
            self.sum_over_keys(part, &seen);
        }
    }

    /// What is seen of each square, keys before queries, if anything is.
    fn look(&self, keys: &Range<usize>, part: &Part, bits: &mut Bits) -> Option<[[Seen; SQUARES]; SQUARES]> {
        let Attention { op, run, .. } = self.call;
        let sequence_mask = SequenceMask::new(op, run.batch, part.sequence, self.call.keys_of(part.sequence));
        let tiles = keys.len().div_ceil(TILE);
        for tile in 0..tiles {
            let start = keys.start + tile * TILE;
            if sequence_mask.may_see(part.first..part.first + part.rows, start) {
                let globals = sequence_mask.globals(start);
                for (i, bits) in bits[..part.rows].iter_mut().enumerate() {
                    bits[tile] = sequence_mask.mask(part.first + i).bits(start, globals);
                }
            }
        }
        let mut seen = [[Seen::Nothing; SQUARES]; SQUARES];
        let mut any_seen = false;
        for (k, seen) in seen.iter_mut().enumerate() {
            for (q, seen) in seen.iter_mut().enumerate() {
                let of = |bits: &[u64; CHUNK / TILE]| (bits[k * SQUARE / TILE] >> (k * SQUARE % TILE)) as u32;
                let queries = &bits[q * SQUARE..][..SQUARE];
                let any = queries.iter().fold(0, |any, bits| any | of(bits));
                let all = queries.iter().fold(u32::MAX, |all, bits| all & of(bits));
                *seen = match (any, all) {
                    (0, _) => Seen::Nothing,
                    (_, u32::MAX) => Seen::All,
                    _ => Seen::Some,
                };
                any_seen |= any != 0;
            }
        }
        any_seen.then_some(seen)
    }

    /// Packs the queries and dy of a part.
    unsafe fn take_queries(&mut self, part: &Part) {
        let Attention { op, run, inputs, .. } = self.call;
        let (scratch, size) = (&mut *self.scratch, op.size);
        let start = run.batch.side(op.side).spans[part.sequence].start + part.first;
        let column = part.head * size;
        let pieces = [
            (inputs[0], op.scale, &mut *scratch.queries, &mut *scratch.query_pairs),
            (self.given[2], 1.0, &mut *scratch.dy, &mut *scratch.dy_pairs),
        ];
        for (rows, scale, transposed, pairs) in pieces {
            let first = rows.data.wrapping_add(start * rows.width + column);
            let all = HeadRows { start: first, stride: rows.width, count: part.rows, size };
            // SAFETY: the caller's promise; there is room for a chunk.
            unsafe {
                pack_values(all, CHUNK / LANES, scale, pairs.as_mut_ptr());
                for (page, to) in transposed.chunks_exact_mut(depth(size) / 2 * LANES).enumerate() {
                    let count = part.rows.saturating_sub(page * LANES).min(LANES);
                    if count == 0 {
                        to.fill(0.0);
                    } else {
                        let start = all.start.wrapping_add(page * LANES * all.stride);
                        pack_keys(HeadRows { start, count, ..all }, scale, to.as_mut_ptr());
                    }
                }
            }
        }
    }

    /// A square that nobody sees.
    fn clear(&mut self, k: usize, q: usize) {
        for row in k * SQUARE..(k + 1) * SQUARE {
            let range = row * PAIRS + q * SQUARE / 2..row * PAIRS + (q + 1) * SQUARE / 2;
            self.scratch.p[range.clone()].fill(0.0);
            self.scratch.ds[range].fill(0.0);
        }
        for panel in 2 * q..2 * q + 2 {
            self.scratch.ds_pairs[(panel * PAIRS + k * LANES) * LANES..][..LANES * LANES].fill(0.0);
        }
    }

    /// Probabilities and gradients of the scores of a square.
    unsafe fn softmax_grad(&mut self, part: &Part, k: usize, q: usize, bits: Option<&Bits>) {
        let Attention { op, run, .. } = self.call;
        let (scratch, pairs) = (&mut *self.scratch, depth(op.size) / 2);
        let start = run.batch.side(op.side).spans[part.sequence].start + part.first;
        // What is not there has no probability, as its logarithm is infinite.
        let (mut logs, mut means) = ([f32::INFINITY; SQUARE], [0.0; SQUARE]);
        let mean = part.head % group(op) * self.given[0].rows + start;
        for (i, r) in (q * SQUARE..part.rows.min((q + 1) * SQUARE)).enumerate() {
            // SAFETY: the caller's promise.
            logs[i] = unsafe { self.given[1].row(start + r) }[part.head] * LOG2_E;
            means[i] = self.means[mean + r];
        }
        let mut masks = [[u16::MAX; 2]; SQUARE];
        if let Some(bits) = bits {
            for (j, masks) in masks.iter_mut().enumerate() {
                let key = k * SQUARE + j;
                for (half, mask) in masks.iter_mut().enumerate() {
                    let queries = &bits[q * SQUARE + half * LANES..][..LANES];
                    let bit = |bits: &[u64; CHUNK / TILE]| (bits[key / TILE] >> (key % TILE) & 1) as u16;
                    *mask = queries.iter().rev().fold(0, |mask, bits| mask << 1 | bit(bits));
                }
            }
        }
        let row = k * SQUARE;
        // SAFETY: the caller's promise; all pieces have room for a chunk.
        unsafe {
            for (a, b, c) in [
                (&*scratch.keys, &*scratch.queries, &mut *scratch.s),
                (&*scratch.values, &*scratch.dy, &mut *scratch.dp),
            ] {
                Square {
                    a: a.as_ptr().add(row * pairs),
                    a_line: pairs,
                    a_step: LANES,
                    b: b.as_ptr().add(2 * q * pairs * LANES),
                    b_panel: pairs * LANES,
                    steps: pairs / LANES,
                    c: c.as_mut_ptr(),
                    c_line: SQUARE,
                    overwrite: true,
                }
                .multiply();
            }
            let at = row * PAIRS + q * LANES;
            softmax_grad(SquareSoftmax {
                s: scratch.s.as_ptr(),
                dp: scratch.dp.as_ptr(),
                logs: &logs,
                means: &means,
                masks: &masks,
                p: scratch.p.as_mut_ptr().add(at),
                ds: scratch.ds.as_mut_ptr().add(at),
                ds_pairs: scratch.ds_pairs.as_mut_ptr().add((2 * q * PAIRS + k * LANES) * LANES),
            });
        }
    }

    /// dv and dk of the chunk: for each key a sum over the queries.
    unsafe fn sum_over_queries(&mut self, seen: &[[Seen; SQUARES]; SQUARES]) {
        let (scratch, depth) = (&mut *self.scratch, depth(self.call.op.size));
        for (k, seen) in seen.iter().enumerate() {
            let squares = around(|q| seen[q] != Seen::Nothing);
            if squares.is_empty() {
                continue;
            }
            for (a, b, c) in [
                (&*scratch.p, &*scratch.dy_pairs, &mut *scratch.dv),
                (&*scratch.ds, &*scratch.query_pairs, &mut *scratch.dk),
            ] {
                for panel in (0..depth / LANES).step_by(2) {
                    // SAFETY: the caller's promise; all pieces have room for a chunk.
                    unsafe {
                        Square {
                            a: a.as_ptr().add(k * SQUARE * PAIRS + squares.start * LANES),
                            a_line: PAIRS,
                            a_step: LANES,
                            b: b.as_ptr().add((panel * PAIRS + squares.start * LANES) * LANES),
                            b_panel: PAIRS * LANES,
                            steps: squares.len(),
                            c: c.as_mut_ptr().add(k * SQUARE * depth + panel * LANES),
                            c_line: depth,
                            overwrite: false,
                        }
                        .multiply();
                    }
                }
            }
        }
    }

    /// dq of the part: for each query a sum over the keys.
    unsafe fn sum_over_keys(&mut self, part: &Part, seen: &[[Seen; SQUARES]; SQUARES]) {
        let Attention { op, run, .. } = self.call;
        let (scratch, depth) = (&mut *self.scratch, depth(op.size));
        let start = run.batch.side(op.side).spans[part.sequence].start + part.first;
        let dq = self.outputs[0];
        let of_queries = |q: usize| around(|k| seen[k][q] != Seen::Nothing);
        for (q, squares) in (0..SQUARES).map(|q| (q, of_queries(q))) {
            if squares.is_empty() {
                continue;
            }
            // SAFETY: the caller's promise; these columns of dq are this item's alone.
            unsafe {
                for panel in (0..depth / LANES).step_by(2) {
                    let tile = LANES * LANES;
                    Square {
                        a: scratch.key_columns.as_ptr().add((panel * SQUARES + squares.start) * tile),
                        a_line: LANES,
                        a_step: tile,
                        b: scratch.ds_pairs.as_ptr().add((2 * q * PAIRS + squares.start * LANES) * LANES),
                        b_panel: PAIRS * LANES,
                        steps: squares.len(),
                        c: scratch.dq.as_mut_ptr().add(panel * LANES * CHUNK + q * SQUARE),
                        c_line: CHUNK,
                        overwrite: true,
                    }
                    .multiply_apart(SQUARES * tile);
                }
                for first in (q * SQUARE..(q + 1) * SQUARE).step_by(LANES) {
                    let rows = part.rows.saturating_sub(first).min(LANES);
                    let out = dq.data.wrapping_add((start + first) * dq.width + part.head * op.size);
                    for d in (0..op.size).step_by(LANES) {
                        let from = scratch.dq.as_ptr().add(d * CHUNK + first);
                        let some = LANES.min(op.size - d);
                        add_transposed(from, op.scale, out.wrapping_add(d), dq.width, rows, some);
                    }
                }
            }
        }
    }
}

/// From the first to behind the last square for which this is so.
fn around(is_so: impl Fn(usize) -> bool) -> Range<usize> {
    let first = (0..SQUARES).find(|&square| is_so(square));
    let last = (0..SQUARES).rfind(|&square| is_so(square));
    first.unwrap_or(0)..last.map_or(0, |last| last + 1)
}
