//! What the distance between query and key adds to their score.
//!
//! For the queries of a part and the keys of a tile, or of a stretch of tiles, distances run from that of the last query to
//! the first key down to that of the first query to the last key. *Slot* x stands for the x-th of them. Query i meets the keys
//! of the first tile in slots `shift(i)` to `shift(i) + 63`, those of the next in the sixty-four slots behind, so whatever
//! depends on the distance alone is computed once per slot.

use std::ops::Range;

use glassformer_graph::Capacity;
use glassformer_graph::ops::{Attend, Keys, Reach, Relative};

use super::mask::TILE;
use super::product::{Dots, F32, ROWS};
use super::stretch::STRETCH;
use super::tile::{Attention, Part, group};
use crate::dispatch;
use crate::lanes::{LANES, Lanes};

/// Slots of a part of so many rows and as many keys, filled up to whole vectors.
pub(super) fn slots(rows: usize, keys: usize) -> usize {
    (rows + keys - 1).next_multiple_of(LANES)
}

/// The distance of slot 0: from the part's last query to the tile's first key.
pub(super) fn farthest(part: &Part, offset: usize, start: usize) -> isize {
    (offset + part.first + part.rows - 1) as isize - start as isize
}

/// Slots of [`ROWS`] queries one after the other.
const ROW_SLOTS: usize = (LANES - 1 + ROWS - 1 + TILE).next_multiple_of(LANES);

/// The numbers to add, for one part and one tile or stretch at a time.
pub(super) struct Bias<'s> {
    /// Keys that it is prepared for at a time: those of a tile, or of a stretch.
    keys: usize,
    /// What each slot adds, for each head; for Transformer-XL, for each query of a few.
    lines: &'s mut [f32],
    /// Transformer-XL: R of every slot, transposed.
    transposed: &'s mut [f32],
    /// The bucket of each distance back, then that of each distance ahead.
    buckets: &'s [f32],
    /// For each head what these distances add, in the order of slots: those back, the farthest first, and those ahead.
    by_distance: &'s [f32],
}

impl<'s> Bias<'s> {
    /// The lengths of `lines` and `transposed` for parts of `queries` queries.
    pub fn lengths(op: &Attend, queries: usize) -> [usize; 2] {
        match op.relative {
            Relative::None => [0, 0],
            Relative::Alibi | Relative::Buckets { .. } => {
                [queries + group(op).min(queries) * (STRETCH + LANES), 0]
            }
            Relative::TransformerXl => [ROWS * ROW_SLOTS, slots(queries, STRETCH) * op.size],
        }
    }

    /// How much it can use beyond them, for what it knows of distances.
    pub fn more(op: &Attend, capacity: &Capacity) -> usize {
        let Relative::Buckets { max_distance } = op.relative else { return 0 };
        let longest = match op.keys {
            Keys::Rows(rows) => capacity.count(rows).max(capacity.side(op.side).rows),
            Keys::Pages(..) => capacity.side(op.side).keys,
        };
        (2 * longest).min(max_distance.saturating_add(1)).saturating_mul(Self::of_a_distance(op))
    }

    /// What it keeps for each distance: a bucket, and what that adds for each head, back and ahead.
    fn of_a_distance(op: &Attend) -> usize {
        2 * (1 + op.heads)
    }

    /// For `keys` keys at a time, knowing as many distances as `rest` has room for and the batch needs.
    ///
    /// # Safety
    /// The inputs are valid for reads.
    pub unsafe fn new(
        call: &Attention<'_>,
        keys: usize,
        [lines, transposed]: [&'s mut [f32]; 2],
        rest: &'s mut [f32],
    ) -> Self {
        let Relative::Buckets { max_distance } = call.op.relative else {
            return Self { keys, lines, transposed, buckets: &[], by_distance: &[] };
        };
        let spans = &call.run.batch.side(call.op.side).spans;
        let longest = |(s, span): (usize, &glassformer_graph::Span)| {
            let keys = call.keys_of(s);
            (keys.offset + span.len - keys.first).max(keys.end)
        };
        let most = spans.iter().enumerate().map(longest).max().unwrap_or(0);
        let table = call.extra(0);
        // Where the logarithm is one, all distances from `max_distance` on have the last bucket.
        let differing = if max_distance > table.rows { max_distance + 1 } else { usize::MAX };
        let count = most.min(differing).min(rest.len() / Self::of_a_distance(call.op));
        let (buckets, rest) = rest.split_at_mut(2 * count);
        let (by_distance, _) = rest.split_at_mut(2 * count * call.op.heads);
        let (back, ahead) = buckets.split_at_mut(count);
        for d in 0..count {
            back[d] = call.op.bucket(d, 0, table.rows, max_distance) as f32;
            ahead[d] = match call.op.reach {
                Reach::Both => call.op.bucket(0, d, table.rows, max_distance) as f32,
                Reach::Past => 0.0,
            };
        }
        for (h, of_head) in by_distance.chunks_exact_mut((2 * count).max(1)).enumerate() {
            let ahead = if call.op.reach == Reach::Past { &[][..] } else { &ahead[..] };
            for (to, &bucket) in of_head.iter_mut().zip(back.iter().rev().chain(ahead.iter().skip(1))) {
                // SAFETY: the caller's promise; there is no bucket beyond the table's rows.
                *to = unsafe { table.row(bucket as usize) }[h];
            }
        }
        Self { keys, lines, transposed, buckets, by_distance }
    }

    /// Which of `some` slots are known, the first having distance `far`, and what they add for a head.
    fn known(&self, call: &Attention<'_>, head: usize, far: isize, some: usize) -> (Range<usize>, &'s [f32]) {
        let count = self.buckets.len() / 2;
        let all: &'s [f32] = &self.by_distance[head * 2 * count..(head + 1) * 2 * count];
        let end = if call.op.reach == Reach::Past { count } else { (2 * count).saturating_sub(1) };
        // Where slot 0 would be, and that of distance 0 is the last one back.
        let place = count as isize - 1 - far;
        let slot = |at: usize| (at as isize - place).clamp(0, some as isize) as usize;
        let (first, behind) = (slot(0), slot(end));
        if first >= behind {
            return (0..0, &[]);
        }
        let at = (place + first as isize).cast_unsigned();
        (first..behind, &all[at..at + behind - first])
    }

    /// The bucket of a key that is `distance` before the query.
    pub fn bucket(&self, call: &Attention<'_>, max_distance: usize, distance: isize) -> usize {
        let buckets = call.extra(0).rows;
        let (count, d) = (self.buckets.len() / 2, distance.unsigned_abs());
        let known = if max_distance > buckets { d.min(max_distance) } else { d };
        if known < count {
            return self.buckets[if distance < 0 { count + known } else { known }] as usize;
        }
        let (i, j) = if distance < 0 { (0, d) } else { (d, 0) };
        call.op.bucket(i, j, buckets, max_distance)
    }

    /// Prepares for the queries of `part`, the first row of whose sequence stands at key `offset`, and the tile or stretch
    /// from `start`.
    ///
    /// # Safety
    /// The inputs are valid for reads.
    pub unsafe fn prepare(&mut self, call: &Attention<'_>, part: &Part, offset: usize, start: usize) {
        let (far, stride) = (farthest(part, offset, start), slots(part.rows, self.keys));
        // Slots of keys that are there: what the others add, nobody sees.
        let keys = self.keys.min(call.keys_of(part.sequence).end.saturating_sub(start));
        let some = (part.rows + keys).saturating_sub(1);
        match call.op.relative {
            Relative::None => {}
            Relative::Alibi => {
                for h in 0..part.heads {
                    let slope = call.op.slope(part.head + h);
                    for (x, number) in self.lines[h * stride..][..some].iter_mut().enumerate() {
                        *number = -(slope * (far - x as isize).unsigned_abs() as f32);
                    }
                }
            }
            Relative::Buckets { max_distance } => {
                let table = call.extra(0);
                for h in 0..part.heads {
                    let (known, numbers) = self.known(call, part.head + h, far, some);
                    let line = h * stride;
                    self.lines[line + known.start..line + known.end].copy_from_slice(numbers);
                    for x in (0..known.start).chain(known.end..some) {
                        // SAFETY: the caller's promise; there is no bucket beyond the table's rows.
                        let row = unsafe { table.row(self.bucket(call, max_distance, far - x as isize)) };
                        self.lines[line + x] = row[part.head + h];
                    }
                }
            }
            // SAFETY: the caller's promise.
            Relative::TransformerXl => unsafe { self.transpose(call, part.head, far, stride) },
        }
    }

    /// Transposes R, the row of distance `far` first, going back from there; zeros where there is no such distance.
    unsafe fn transpose(&mut self, call: &Attention<'_>, head: usize, far: isize, slots: usize) {
        let (r, size) = (call.extra(0), call.op.size);
        for x in (0..slots).step_by(LANES) {
            let nearest = far - x as isize;
            let lane = |x: isize| x.clamp(0, LANES as isize) as usize;
            let lanes = lane(nearest + 1 - r.rows as isize)..lane(nearest + 1);
            let from = r.data.wrapping_offset(nearest * r.width as isize).wrapping_add(head * size);
            let into = self.transposed[x * size..].as_mut_ptr();
            // SAFETY: the lanes given are those whose distance is a row of R; there is room for every slot.
            unsafe {
                dispatch!(call.run.isa, |L| L::transpose(from, -(r.width as isize), lanes, size, into));
            }
        }
    }

    /// Adds to `scores`, `[rows, 64]`, what the distances of these queries of the part add to a tile that begins `offset` keys
    /// behind the first. `shifted` are all queries of the part with Transformer-XL's v added.
    ///
    /// # Safety
    /// Prepared for the part and the tile of these scores; `shifted` is valid for reads.
    pub unsafe fn add(
        &mut self,
        call: &Attention<'_>,
        part: &Part,
        offset: usize,
        rows: Range<usize>,
        shifted: *const f32,
        scores: &mut [f32],
    ) {
        let add = |scores: &mut [f32], line: &[f32]| {
            scores.iter_mut().zip(line).for_each(|(score, x)| *score += x);
        };
        match call.op.relative {
            Relative::None => {}
            Relative::Alibi | Relative::Buckets { .. } => {
                for (r, scores) in rows.zip(scores.chunks_exact_mut(TILE)) {
                    let (h, i) = part.place(r);
                    let shift = part.rows - 1 - i + offset;
                    add(scores, &self.lines[h * slots(part.rows, self.keys) + shift..][..TILE]);
                }
            }
            Relative::TransformerXl => {
                for (from, scores) in rows.clone().step_by(ROWS).zip(scores.chunks_mut(ROWS * TILE)) {
                    let few = from..rows.end.min(from + ROWS);
                    // The vectors of slots that these queries meet, of which the last meets the first slots.
                    let begin = (part.rows - few.end + offset) / LANES;
                    let end = (part.rows - 1 - from + offset + TILE).div_ceil(LANES);
                    let size = call.op.size;
                    let keys: [*const f32; ROW_SLOTS / LANES] = std::array::from_fn(|v| {
                        self.transposed.as_ptr().wrapping_add((begin + v) * LANES * size)
                    });
                    let dots = Dots {
                        rows: shifted.wrapping_add(from * size),
                        stride: size,
                        count: few.len(),
                        size,
                        scale: call.op.scale,
                        out: self.lines.as_mut_ptr(),
                        out_stride: ROW_SLOTS,
                    };
                    // SAFETY: the caller's promise; `begin..end` are among the slots transposed, at most ROW_SLOTS of them.
                    unsafe { dots.with::<F32>(call.run.isa, &keys[..end - begin]) };
                    for (k, scores) in scores.chunks_exact_mut(TILE).enumerate() {
                        let shift = part.rows - 1 - (from + k) + offset - begin * LANES;
                        add(scores, &self.lines[k * ROW_SLOTS + shift..][..TILE]);
                    }
                }
            }
        }
    }
}
