//! The gradient of attention: probabilities are computed again from the scores, tile by tile.
//!
//! One worker does all that flows back into a sequence of keys through one key head: it walks over the tiles of keys, and
//! for each over the queries that see it. So dk and dv of a tile stay in cache, dq is summed in place, and nobody else
//! writes there. Gradients of what all sequences share (a table, R, u, v) are sums over sequences; then one worker does
//! a key head for all of them. In either case the order of every sum is fixed, whoever does it.

use crate::tuning::attend::{GRAD_QUERIES, ZEROED_ROWS};
use std::ops::Range;

use glassformer_graph::ops::{Attend, KeySpan, Keys, Relative};
use glassformer_graph::{Capacity, Rows};

#[cfg(target_arch = "x86_64")]
use super::form::Form;
use super::mask::{SequenceMask, TILE, around};
use super::product::{Dots, F32, Mix, ROWS, Strided};
use super::relative::{farthest, slots};
use super::score::Scorer;
use super::softmax_grad::{SoftmaxGrad, dot_rows};
use super::tile::{Attention, Part, Tile, VECTORS, carve, carved, group};
use crate::context::Block;
use crate::dispatch;
use crate::lanes::{LANES, Lanes};
use crate::team::Worker;

#[cfg(target_arch = "x86_64")]
mod tiles;

/// The pieces of scratch of a worker.
struct GradScratch<'s> {
    scorer: Scorer<'s>,
    /// Values, transposed; keys, packed.
    values: &'s mut [f32],
    keys: &'s mut [f32],
    /// dk and dv of the tile, `[64, size]`.
    dk: &'s mut [f32],
    dv: &'s mut [f32],
    /// dy of the part, `[queries, size]`.
    dy: &'s mut [f32],
    /// Scores, then probabilities; gradients of probabilities, then of scores times the scale: `[queries, 64]`.
    p: &'s mut [f32],
    ds: &'s mut [f32],
    /// dy · y of each row, for each head of a group.
    means: &'s mut [f32],
    /// Buckets: Σ ds of each slot.
    slots: &'s mut [f32],
    /// Transformer-XL: ds by slot, `[queries, slots]`, and dq through keys or through R, `[queries, size]`.
    ds_by_slot: &'s mut [f32],
    dq: &'s mut [f32],
}

fn lengths(op: &Attend, rows: usize) -> [usize; 11] {
    let (tile, part, pairs) = (TILE * op.size, GRAD_QUERIES * op.size, GRAD_QUERIES * TILE);
    let (sums, ds_by_slot, dq) = match op.relative {
        Relative::None | Relative::Alibi => (0, 0, 0),
        Relative::Buckets { .. } => (slots(GRAD_QUERIES, TILE), 0, 0),
        Relative::TransformerXl => (0, GRAD_QUERIES * slots(GRAD_QUERIES, TILE), part),
    };
    let means = group(op) * rows;
    [tile, tile, tile, tile, part, pairs, pairs, means, sums, ds_by_slot, dq]
}

/// How much scratch a worker needs.
pub(super) fn scratch(op: &Attend, capacity: &Capacity) -> usize {
    let rows = capacity.side(op.side).rows;
    let wide = carved(&lengths(op, rows)) + Scorer::scratch(op, GRAD_QUERIES, capacity);
    #[cfg(target_arch = "x86_64")]
    let wide = wide.max(carved(&tiles::lengths(op)) + carved(&[group(op) * rows]));
    wide
}

/// Whether the gradient of `op` can be computed in `bf16`, on AMX.
pub(super) fn is_bf16(op: &Attend) -> bool {
    op.relative == Relative::None && op.size >= LANES && matches!(op.keys, Keys::Rows(_))
}

/// Which of the spans' sequences of keys span `s` looks at.
fn key_sequence(call: &Attention<'_>, s: usize) -> usize {
    let Keys::Rows(rows) = call.op.keys else { return s };
    let of = |side| if side == call.op.side { s } else { call.run.batch.side(call.op.side).spans[s].source };
    match rows {
        Rows::Fixed(_) | Rows::Picked(_) | Rows::Distances(_) | Rows::Pairs(_) => 0,
        Rows::Tokens(side)
        | Rows::Memory(side)
        | Rows::Recalled(side)
        | Rows::Remembered(side, _)
        | Rows::Low(side, _)
        | Rows::Sequences(side) => of(side),
    }
}

/// Gradients of an attention's inputs; `call` has the attention's inputs, `given` are y, the logarithms of sums, and dy.
///
/// # Safety
/// As for [`super::attend_grad`].
pub(super) unsafe fn attend_grad(
    call: &Attention<'_>,
    given: &[Block],
    outputs: &[Block],
    worker: &Worker<'_>,
    scratch: &mut [f32],
) {
    #[cfg(target_arch = "x86_64")]
    if Form::of(call.run, call.op) == Form::Tiles {
        // SAFETY: the caller's promise.
        return unsafe { bf16_grad(call, given, outputs, worker, scratch) };
    }
    // SAFETY: the caller's promise.
    outputs.iter().for_each(|&output| unsafe { clear(output, worker) });
    worker.barrier();
    let op = call.op;
    let spans = &call.run.batch.side(op.side).spans;
    let (pieces, rest) = carve(scratch, lengths(op, call.inputs[0].rows));
    let [values, keys, dk, dv, dy, p, ds, means, slots, ds_by_slot, dq] = pieces;
    // SAFETY: the caller's promise.
    let scorer = unsafe { Scorer::new(call, GRAD_QUERIES, rest) };
    let scratch = GradScratch { scorer, values, keys, dk, dv, dy, p, ds, means, slots, ds_by_slot, dq };
    let key_sharing = KeySharing::new(call);
    let mut job = Job { call: *call, given, outputs, scratch, key_sharing };
    match op.relative {
        Relative::None | Relative::Alibi => worker.share(spans.len() * op.key_heads, |item| {
            let (s, key_head) = (item / op.key_heads, item % op.key_heads);
            if key_sharing.leads(s) {
                // SAFETY: the caller's promise; no other item has these keys and this head.
                unsafe { job.run(s, key_head) };
            }
        }),
        Relative::Buckets { .. } | Relative::TransformerXl => worker.share(op.key_heads, |key_head| {
            for s in (0..spans.len()).filter(|&s| key_sharing.leads(s)) {
                // SAFETY: the caller's promise; no other item has this head.
                unsafe { job.run(s, key_head) };
            }
        }),
    }
}

/// Sets an output to zero.
///
/// # Safety
/// It is valid for writes; a barrier follows.
unsafe fn clear(output: Block, worker: &Worker<'_>) {
    worker.share(output.rows.div_ceil(ZEROED_ROWS), |chunk| {
        for row in chunk * ZEROED_ROWS..output.rows.min((chunk + 1) * ZEROED_ROWS) {
            // SAFETY: each row is in one chunk.
            unsafe { output.row_mut(row).fill(0.0) };
        }
    });
}

/// The same in `bf16`. What flows into queries is set to zero just before it is summed, while it is near; keys are
/// written once.
///
/// # Safety
/// As for [`super::attend_grad`]; the machine has AMX.
#[cfg(target_arch = "x86_64")]
unsafe fn bf16_grad(
    call: &Attention<'_>,
    given: &[Block],
    outputs: &[Block],
    worker: &Worker<'_>,
    scratch: &mut [f32],
) {
    let op = call.op;
    debug_assert!(is_bf16(op));
    let (pieces, rest) = carve(scratch, tiles::lengths(op));
    let ([means], _) = carve(rest, [group(op) * call.inputs[0].rows]);
    let mut scratch = tiles::AmxGradScratch::new(pieces);
    let key_sharing = KeySharing::new(call);
    let spans = &call.run.batch.side(op.side).spans;
    let led = (0..spans.len()).filter(|&s| key_sharing.leads(s)).map(|s| call.keys_of(s).end).sum::<usize>();
    if led < outputs[1].rows {
        // SAFETY: the caller's promise.
        outputs[1..3].iter().for_each(|&output| unsafe { clear(output, worker) });
        worker.barrier();
    }
    worker.share(spans.len() * op.key_heads, |item| {
        let (s, key_head) = (item / op.key_heads, item % op.key_heads);
        if !key_sharing.leads(s) {
            return;
        }
        // SAFETY: the caller's promise; no other item has these keys and this head.
        unsafe {
            key_sharing.sequences(s).for_each(|s| find_means(call, given, s, key_head, means));
            let mut job = tiles::Job { call: *call, given, outputs, means, scratch: &mut scratch };
            job.run(&key_sharing.sequences(s), &call.keys_of(s), key_head);
        }
    });
}

/// Who looks at whose keys.
#[derive(Clone, Copy)]
struct KeySharing<'a> {
    call: Attention<'a>,
    /// Whether no two sequences look at the same keys, as is the rule; then nobody needs to look for others that do.
    disjoint: bool,
}

impl<'a> KeySharing<'a> {
    fn new(call: &Attention<'a>) -> Self {
        let spans = &call.run.batch.side(call.op.side).spans;
        let disjoint = (1..spans.len()).all(|s| key_sequence(call, s - 1) < key_sequence(call, s));
        Self { call: *call, disjoint }
    }

    /// Whether no sequence before `s` looks at the same keys.
    fn leads(self, s: usize) -> bool {
        let of = |s| key_sequence(&self.call, s);
        self.disjoint || (0..s).all(|before| of(before) != of(s))
    }

    /// All sequences that look at the keys of `owner`.
    fn sequences(self, owner: usize) -> impl Iterator<Item = usize> + Clone + use<'a> {
        let last =
            if self.disjoint { owner + 1 } else { self.call.run.batch.side(self.call.op.side).spans.len() };
        let sequence = key_sequence(&self.call, owner);
        (owner..last).filter(move |&s| key_sequence(&self.call, s) == sequence)
    }
}

/// dy · y of every row of sequence `s`, for the heads of the group.
///
/// # Safety
/// As for [`super::attend_grad`].
unsafe fn find_means(call: &Attention<'_>, given: &[Block], s: usize, key_head: usize, means: &mut [f32]) {
    let Attention { op, run, .. } = *call;
    let (y, dy) = (given[0], given[2]);
    let span = run.batch.side(op.side).spans[s];
    for g in 0..group(op) {
        let column = (key_head * group(op) + g) * op.size;
        let means = &mut means[g * y.rows + span.start..][..span.len];
        let at = span.start * y.width + column;
        // SAFETY: the caller's promise.
        unsafe { dot_rows(run.isa, y.data.add(at), dy.data.add(at), y.width, op.size, means) };
    }
}

struct Job<'a, 's> {
    call: Attention<'a>,
    given: &'a [Block],
    outputs: &'a [Block],
    scratch: GradScratch<'s>,
    key_sharing: KeySharing<'a>,
}

impl Job<'_, '_> {
    /// All that flows through `key_head` into the keys that sequence `owner` looks at, from all sequences that do.
    ///
    /// # Safety
    /// As for [`super::attend_grad`]; nobody else works on these keys and this head.
    unsafe fn run(&mut self, owner: usize, key_head: usize) {
        let call = self.call;
        let spans = &call.run.batch.side(call.op.side).spans;
        let together = self.key_sharing.sequences(owner);
        for s in together.clone() {
            // SAFETY: the caller's promise.
            unsafe { find_means(&call, self.given, s, key_head, self.scratch.means) };
        }
        let keys = call.keys_of(owner);
        for start in (0..keys.end).step_by(TILE) {
            // SAFETY: the caller's promise.
            let tile = unsafe { self.load(&keys, key_head, start) };
            for s in together.clone() {
                let heads = key_head * group(call.op)..(key_head + 1) * group(call.op);
                for first in (0..spans[s].len).step_by(GRAD_QUERIES) {
                    let rows = GRAD_QUERIES.min(spans[s].len - first);
                    for head in heads.clone() {
                        // SAFETY: as above.
                        unsafe { self.visit(&tile, Part { sequence: s, first, rows, head, heads: 1 }) };
                    }
                }
            }
            // SAFETY: as above.
            unsafe { self.unload(&keys, key_head, &tile) };
        }
    }

    /// Takes a tile: transposed and packed keys, transposed values, its sums zero.
    unsafe fn load(&mut self, keys: &KeySpan, key_head: usize, start: usize) -> Tile {
        let Attention { op, inputs, run, .. } = self.call;
        let (scratch, size) = (&mut self.scratch, op.size);
        // SAFETY: the caller's promise.
        let tile = unsafe { scratch.scorer.load(&self.call, keys, key_head, start) };
        let stride = tile.values.1 as isize;
        for v in 0..tile.live.div_ceil(LANES) {
            let from = tile.values.0[v];
            let into = scratch.values[v * LANES * size..].as_mut_ptr();
            let lanes = 0..(tile.live - v * LANES).min(LANES);
            // SAFETY: the values of live keys are there, and room for them.
            unsafe { dispatch!(run.isa, |L| L::transpose(from, stride, lanes, size, into)) };
        }
        for (j, key) in scratch.keys.chunks_exact_mut(size).take(tile.live).enumerate() {
            // SAFETY: the caller's promise.
            let row = unsafe { inputs[1].row(keys.place + start + j) };
            key.copy_from_slice(&row[key_head * size..(key_head + 1) * size]);
        }
        scratch.dk[..tile.live * size].fill(0.0);
        scratch.dv[..tile.live * size].fill(0.0);
        tile
    }

    /// Writes the tile's dk and dv.
    unsafe fn unload(&mut self, keys: &KeySpan, key_head: usize, tile: &Tile) {
        let size = self.call.op.size;
        for (output, sums) in [(self.outputs[1], &self.scratch.dk), (self.outputs[2], &self.scratch.dv)] {
            for (j, sums) in sums.chunks_exact(size).take(tile.live).enumerate() {
                let at = (keys.place + tile.start + j) * output.width + key_head * size;
                // SAFETY: these columns of the row are this item's alone.
                unsafe { output.data.add(at).copy_from_nonoverlapping(sums.as_ptr(), size) };
            }
        }
    }

    /// What the queries of `part` and the keys of `tile` do to each other.
    unsafe fn visit(&mut self, tile: &Tile, part: Part) {
        let call = self.call;
        let Attention { op, run, .. } = call;
        let keys = call.keys_of(part.sequence);
        let sequence_mask = SequenceMask::new(op, run.batch, part.sequence, keys);
        if !sequence_mask.may_see(part.first..part.first + part.rows, tile.start) {
            return;
        }
        let globals = sequence_mask.globals(tile.start);
        let mut seen = [0; GRAD_QUERIES];
        for (i, seen) in seen[..part.rows].iter_mut().enumerate() {
            *seen = sequence_mask.mask(part.first + i).bits(tile.start, globals);
        }
        // Rows before the first and behind the last that see something are left out.
        let Some(first) = seen.iter().position(|&bits| bits != 0) else { return };
        let end = seen.iter().rposition(|&bits| bits != 0).map_or(first, |last| last + 1);
        // SAFETY: the caller's promise.
        unsafe {
            self.scratch.scorer.set_part(&call, part);
            self.scratch.scorer.set_keys(&call, tile.start);
            self.softmax_grad(tile, &part, first..end, &seen[first..end]);
            self.sum_over_queries(tile, first, &seen[first..end]);
            self.sum_over_keys(tile, &part, first..end, &seen[first..end]);
        }
    }

    /// Probabilities, and gradients of scores.
    unsafe fn softmax_grad(&mut self, tile: &Tile, part: &Part, rows: Range<usize>, seen: &[u64]) {
        let call = self.call;
        let Attention { op, run, .. } = call;
        let (scratch, size) = (&mut self.scratch, op.size);
        let start = run.batch.side(op.side).spans[part.sequence].start + part.first;
        let (logsum, dy) = (self.given[1], self.given[2]);
        for (r, into) in scratch.dy.chunks_exact_mut(size).enumerate().take(rows.end).skip(rows.start) {
            // SAFETY: the caller's promise.
            let row = unsafe { dy.row(start + r) };
            into.copy_from_slice(&row[part.head * size..(part.head + 1) * size]);
        }
        let pairs = rows.start * TILE..rows.end * TILE;
        let dots = Dots {
            rows: scratch.dy[rows.start * size..].as_ptr(),
            stride: size,
            count: rows.len(),
            size,
            scale: 1.0,
            out: scratch.ds[pairs.start..].as_mut_ptr(),
            out_stride: TILE,
        };
        let values: [*const f32; VECTORS] =
            std::array::from_fn(|v| scratch.values.as_ptr().wrapping_add(v * LANES * size));
        let mut logs = [0.0; GRAD_QUERIES];
        for (log, r) in logs.iter_mut().zip(rows.clone()) {
            // SAFETY: the caller's promise.
            *log = unsafe { logsum.row(start + r) }[part.head];
        }
        let mean = part.head % group(op) * self.given[0].rows + start + rows.start;
        let softmax_grad = SoftmaxGrad {
            p: &mut scratch.p[pairs.clone()],
            ds: &mut scratch.ds[pairs.clone()],
            seen,
            logs: &logs[..rows.len()],
            means: &scratch.means[mean..][..rows.len()],
            scale: op.scale,
        };
        // SAFETY: the caller's promise; vectors of values with a live key are transposed.
        unsafe {
            dots.with::<F32>(run.isa, &values[..tile.live.div_ceil(LANES)]);
            scratch.scorer.score(&call, tile, rows.clone(), seen, softmax_grad.p);
            match op.relative {
                Relative::None | Relative::Alibi | Relative::TransformerXl => softmax_grad.run(run.isa, None),
                Relative::Buckets { max_distance } => {
                    scratch.slots.fill(0.0);
                    // The last row of the part meets slot 0 first.
                    let last = part.rows - 1 - rows.start;
                    softmax_grad.run(run.isa, Some((scratch.slots, last)));
                    let far = farthest(part, scratch.scorer.offset, tile.start);
                    let table = self.outputs[3];
                    for (x, &sum) in scratch.slots.iter().enumerate().take(part.rows + TILE - 1) {
                        if sum != 0.0 {
                            let bucket = scratch.scorer.bias.bucket(&call, max_distance, far - x as isize);
                            *table.data.add(bucket * table.width + part.head) += sum;
                        }
                    }
                }
            }
        }
    }

    /// dv and dk of the tile: for each key a sum over the queries that see it.
    unsafe fn sum_over_queries(&mut self, tile: &Tile, first: usize, seen: &[u64]) {
        let (scratch, size, isa) = (&mut self.scratch, self.call.op.size, self.call.run.isa);
        for v in 0..tile.live.div_ceil(LANES) {
            let some = |bits: &u64| bits >> (v * LANES) & 0xFFFF != 0;
            let Some(from) = seen.iter().position(some) else { continue };
            let rows = first + from..first + seen.iter().rposition(some).unwrap_or(from) + 1;
            let count = (tile.live - v * LANES).min(LANES);
            for (weights, queries, out) in [
                (&*scratch.p, &*scratch.dy, &mut *scratch.dv),
                (&*scratch.ds, &*scratch.scorer.queries, &mut *scratch.dk),
            ] {
                let mix = Mix {
                    weights: weights[v * LANES..].as_ptr(),
                    steps: (1, TILE),
                    out: out[v * LANES * size..].as_mut_ptr(),
                    stride: size as isize,
                    count,
                    size,
                };
                // SAFETY: the pieces of scratch are as long as described.
                unsafe { mix.add(isa, Strided(queries.as_ptr(), size as isize), rows.clone()) };
            }
        }
    }

    /// dq of the part, and what flows into R, u and v: for each query a sum over the keys that it sees.
    unsafe fn sum_over_keys(&mut self, tile: &Tile, part: &Part, rows: Range<usize>, seen: &[u64]) {
        let Attention { op, run, .. } = self.call;
        let size = op.size;
        let start = run.batch.side(op.side).spans[part.sequence].start + part.first;
        let dq = self.outputs[0];
        let dq_at = |r: usize| dq.data.wrapping_add((start + r) * dq.width + part.head * size);
        let (out, stride) = match op.relative {
            Relative::None | Relative::Alibi | Relative::Buckets { .. } => {
                (dq_at(rows.start), dq.width as isize)
            }
            Relative::TransformerXl => {
                self.scratch.dq.fill(0.0);
                (self.scratch.dq[rows.start * size..].as_mut_ptr(), size as isize)
            }
        };
        for (few, seen) in rows.clone().step_by(ROWS).zip(seen.chunks(ROWS)) {
            let mix = Mix {
                weights: self.scratch.ds[few * TILE..].as_ptr(),
                steps: (TILE, 1),
                out: out.wrapping_offset((few - rows.start) as isize * stride),
                stride,
                count: seen.len(),
                size,
            };
            let keys = around(seen.iter().fold(0, |any, bits| any | bits));
            // SAFETY: these columns of dq are this item's alone; the keys that are seen are packed.
            unsafe { mix.add(run.isa, Strided(self.scratch.keys.as_ptr(), size as isize), keys) };
        }
        if op.relative == Relative::TransformerXl {
            // SAFETY: the caller's promise.
            unsafe {
                self.pass_on(part, rows.clone(), 4);
                self.relative_grad(tile, part, rows);
            }
        }
    }

    /// Adds what came through keys or through R to dq, and its sum to du or dv, which is output `shared`.
    unsafe fn pass_on(&mut self, part: &Part, rows: Range<usize>, shared: usize) {
        let Attention { op, run, .. } = self.call;
        let columns = part.head * op.size..(part.head + 1) * op.size;
        let start = run.batch.side(op.side).spans[part.sequence].start + part.first;
        // SAFETY: these columns of both outputs are this item's alone. Other items write other columns at the same
        // time, hence no slices of whole rows.
        unsafe {
            let sums = self.outputs[shared].data.add(columns.start);
            for r in rows {
                let dq = self.outputs[0];
                let into = dq.data.add((start + r) * dq.width + columns.start);
                for (d, x) in self.scratch.dq[r * op.size..(r + 1) * op.size].iter().enumerate() {
                    *into.add(d) += x;
                    *sums.add(d) += x;
                }
            }
        }
    }

    /// Transformer-XL: what flows through R. Seen by slots, distances are rows of R as keys are rows of k.
    unsafe fn relative_grad(&mut self, tile: &Tile, part: &Part, rows: Range<usize>) {
        let Attention { op, run, .. } = self.call;
        let (size, stride) = (op.size, slots(part.rows, TILE));
        let (r, dr) = (self.call.extra(0), self.outputs[3]);
        let scratch = &mut self.scratch;
        let far = farthest(part, scratch.scorer.offset, tile.start);
        if far < 0 {
            return;
        }
        let used = part.rows - rows.end..(part.rows - 1 - rows.start + TILE).min(far as usize + 1);
        scratch.ds_by_slot.fill(0.0);
        scratch.dq.fill(0.0);
        for row in rows.clone() {
            let at = row * stride + part.rows - 1 - row;
            scratch.ds_by_slot[at..at + TILE].copy_from_slice(&scratch.ds[row * TILE..(row + 1) * TILE]);
        }
        let at = far * r.width as isize + (part.head * size) as isize;
        let into_queries = Mix {
            weights: scratch.ds_by_slot[rows.start * stride..].as_ptr(),
            steps: (stride, 1),
            out: scratch.dq[rows.start * size..].as_mut_ptr(),
            stride: size as isize,
            count: rows.len(),
            size,
        };
        let into_r = Mix {
            weights: scratch.ds_by_slot[used.start..].as_ptr(),
            steps: (1, stride),
            out: dr.data.wrapping_offset(at - (used.start * dr.width) as isize),
            stride: -(dr.width as isize),
            count: used.len(),
            size,
        };
        // SAFETY: the slots used stand for distances from 0 to the farthest, which are rows of R.
        unsafe {
            let distances = Strided(r.data.wrapping_offset(at), -(r.width as isize));
            into_queries.add(run.isa, distances, used);
            into_r.add(run.isa, Strided(scratch.scorer.shifted.as_ptr(), size as isize), rows.clone());
            self.pass_on(part, rows, 5);
        }
    }
}
