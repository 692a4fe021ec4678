//! Scores and probabilities for people to see: the same scores, by the same code, written out.

use crate::tuning::attend::QUERIES;
use glassformer_graph::Capacity;
use glassformer_graph::ops::{Attend, AttendShow, Shown};

use super::mask::TILE;
use super::online_softmax::{OnlineSoftmax, probabilities, total};
use super::score::Scorer;
use super::tile::{Attention, Part, carve, carved};
use super::walk::{Cut, MOST};
use crate::context::Block;
use crate::lanes::LANES;
use crate::team::Worker;

/// Sums of a part, and scores of a few queries and a tile.
const LENGTHS: [usize; 2] = [QUERIES * LANES, MOST * TILE];

/// How much scratch a worker needs.
pub(super) fn scratch(op: &Attend, capacity: &Capacity) -> usize {
    carved(&LENGTHS) + Scorer::scratch(op, QUERIES, capacity)
}

/// One row for each query and key, one column for each head.
///
/// # Safety
/// As for [`super::attend_show`].
pub(super) unsafe fn attend_show(
    call: &Attention<'_>,
    op: &AttendShow,
    out: Block,
    worker: &Worker<'_>,
    scratch: &mut [f32],
) {
    let ([sums, scores], rest) = carve(scratch, LENGTHS);
    // SAFETY: the caller's promise.
    let scorer = unsafe { Scorer::new(call, QUERIES, rest) };
    let mut scratch = ShowScratch { scorer, scores, sums };
    let spans = &call.run.batch.side(call.op.side).spans;
    let cut = Cut::new(call.op, &spans.iter().map(|span| span.len), worker.count);
    let mut start = 0;
    for (s, span) in spans.iter().enumerate() {
        let keys = call.keys_of(s);
        let many = keys.end - keys.first;
        worker.share(cut.parts(call.op, span.len), |index| {
            let part = cut.part(call.op, s, span.len, index);
            // Where the number of query r of the part and key j stands.
            let place = |r: usize, j: usize| {
                let (h, i) = part.place(r);
                let pair = start + (part.first + i) * many + j - keys.first;
                out.data.wrapping_add(pair * out.width + part.head + h)
            };
            let unseen = match op.shown {
                Shown::Scores => f32::NEG_INFINITY,
                Shown::Probabilities => 0.0,
            };
            for r in 0..part.count() {
                // SAFETY: these pairs and heads are this part's alone.
                (keys.first..keys.end).for_each(|j| unsafe { place(r, j).write(unseen) });
            }
            // SAFETY: the caller's promise; parts are disjoint.
            unsafe { show(call, op.shown, &mut scratch, part, place) };
        });
        start += span.len * many;
    }
}

/// What a worker computes with.
struct ShowScratch<'s> {
    scorer: Scorer<'s>,
    /// Of a few queries and a tile.
    scores: &'s mut [f32],
    /// Of the terms of each query of a part, `[queries, 16]`.
    sums: &'s mut [f32],
}

/// Writes what the queries of `part` see.
///
/// # Safety
/// The inputs are valid for reads, and `place` for writes of this part's pairs.
unsafe fn show(
    call: &Attention<'_>,
    shown: Shown,
    scratch: &mut ShowScratch<'_>,
    part: Part,
    place: impl Fn(usize, usize) -> *mut f32,
) {
    let ShowScratch { scorer, scores, sums } = scratch;
    let (isa, is_approximate) = (call.run.isa, call.is_approximate());
    let (mut levels, mut totals) = ([f32::NEG_INFINITY; QUERIES], [0.0; QUERIES]);
    // SAFETY: the caller's promise, and the planner picked an instruction set of this machine.
    unsafe {
        if shown == Shown::Probabilities {
            sums.fill(0.0);
            scorer.walk(call, part, scores, |few| {
                let sums = &mut sums[few.rows.start * LANES..few.rows.end * LANES];
                let (scores, seen, levels) = (few.scores, few.seen, &mut levels[few.rows]);
                OnlineSoftmax { scores, seen, levels, sums, mixed: &mut [], stride: 0, is_approximate }
                    .run(isa);
            });
            total(isa, sums, &mut totals);
        }
        scorer.walk(call, part, scores, |few| {
            for ((r, seen), numbers) in few.rows.zip(few.seen).zip(few.scores.chunks_exact_mut(TILE)) {
                match shown {
                    Shown::Scores => {}
                    Shown::Probabilities => probabilities(isa, numbers, levels[r], totals[r], is_approximate),
                }
                for (bit, &number) in numbers.iter().enumerate().filter(|(bit, _)| *seen >> bit & 1 == 1) {
                    place(r, few.tile.start + bit).write(number);
                }
            }
        });
    }
}
