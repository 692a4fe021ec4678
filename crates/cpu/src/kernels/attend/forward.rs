//! Attention itself.

use crate::tuning::attend::QUERIES;
use std::marker::PhantomData;
use std::ops::Range;

use glassformer_graph::Capacity;
use glassformer_graph::ops::Attend;

use super::mask::TILE;
use super::online_softmax::{OnlineSoftmax, Quotients, log, total};
use super::product::{Mix, OF_TILE, Paged, Pairs};
use super::score::Scorer;
use super::stretch::{BLOCK, STRETCH, ScoredBlock};
use super::tile::{Attention, Part, Tile, carve, carved};
use super::tiles::{self, Queries};
use super::walk::{Cut, Few, MOST, look_together, rows_together, share};
use crate::context::Block;
use crate::lanes::LANES;
use crate::team::Worker;

/// The numbers of a row of mixtures, in whole vectors.
fn stride(op: &Attend) -> usize {
    op.size.next_multiple_of(LANES)
}

fn lengths(op: &Attend) -> [usize; 4] {
    let scores = (MOST * TILE).max(BLOCK * STRETCH);
    [QUERIES * stride(op), QUERIES * LANES, scores, tiles::terms()]
}

/// How much scratch a worker needs.
pub(super) fn scratch(op: &Attend, capacity: &Capacity) -> usize {
    carved(&lengths(op)) + Scorer::scratch(op, QUERIES, capacity)
}

/// The attention's y and logarithms of sums.
///
/// # Safety
/// As for [`super::attend`].
pub(super) unsafe fn attend(
    call: &Attention<'_>,
    sequences: Range<usize>,
    outputs: &[Block],
    worker: &Worker<'_>,
    scratch: &mut [f32],
) {
    let ([mixed, sums, scores, terms], rest) = carve(scratch, lengths(call.op));
    // SAFETY: the caller's promise.
    let scorer = unsafe { Scorer::new(call, QUERIES, rest) };
    let amx = scorer.amx();
    let gathered = Gathered { levels: [0.0; QUERIES], sums, mixed, is_empty: [true; QUERIES / BLOCK] };
    let mut state = (scorer, gathered, scores);
    let spans = &call.run.batch.side(call.op.side).spans[sequences.clone()];
    let together = look_together(call);
    let rows = |s: usize| if together { rows_together(spans, s) } else { spans[s].len };
    let cut = Cut::new(call.op, &(0..spans.len()).map(rows), worker.count);
    let parts = |s: usize| cut.parts(call.op, rows(s));
    share(worker, spans.len(), parts, |s, index| {
        let (scorer, gathered, scores) = &mut state;
        let part = cut.part(call.op, sequences.start + s, rows(s), index);
        gathered.clear(call, part.count(), amx.is_none());
        // SAFETY: the caller's promise; parts are disjoint.
        unsafe {
            match amx {
                Some(shape) => scorer.walk_far(call, part, scores, |block| {
                    gathered.take_in_bf16(call, &block, shape, terms);
                }),
                None => scorer.walk(call, part, scores, |few| gathered.take_in(call, few)),
            }
            gathered.write(call, &part, outputs, amx.is_some());
        }
    });
}

/// What the queries of a part have gathered from the tiles so far.
struct Gathered<'s> {
    /// The level of each.
    levels: [f32; QUERIES],
    /// Σ exp(score − level) of each, `[queries, 16]`.
    sums: &'s mut [f32],
    /// Σ exp(score − level) · value of each, `[queries, stride]`.
    mixed: &'s mut [f32],
    /// Whether a block of queries has gathered nothing.
    is_empty: [bool; QUERIES / BLOCK],
}

impl Gathered<'_> {
    fn clear(&mut self, call: &Attention<'_>, count: usize, wide: bool) {
        self.levels[..count].fill(f32::NEG_INFINITY);
        self.is_empty.fill(true);
        if wide {
            self.sums[..count * LANES].fill(0.0);
            self.mixed[..count * stride(call.op)].fill(0.0);
        }
    }

    fn take_in(&mut self, call: &Attention<'_>, few: Few<'_>) {
        let (stride, rows) = (stride(call.op), few.rows);
        let mixed = &mut self.mixed[rows.start * stride..rows.end * stride];
        let (levels, sums) =
            (&mut self.levels[rows.clone()], &mut self.sums[rows.start * LANES..rows.end * LANES]);
        let (scores, seen) = (&mut *few.scores, &mut *few.seen);
        let mut online_softmax = OnlineSoftmax {
            scores,
            seen,
            levels,
            sums,
            mixed,
            stride,
            is_approximate: call.is_approximate(),
        };
        // SAFETY: the planner picked an instruction set of this machine.
        unsafe { online_softmax.run(call.run.isa) };
        let out = mixed.as_mut_ptr();
        let mix = Mix {
            weights: few.scores.as_ptr(),
            steps: OF_TILE,
            out,
            stride: stride as isize,
            count: rows.len(),
            size: call.op.size,
        };
        let Tile { values, is_bf16, .. } = *few.tile;
        // SAFETY: as above; the values of keys that are seen are there.
        unsafe {
            if is_bf16 {
                mix.add_seen(call.run.isa, Paged::<Pairs>(values.0, values.1, PhantomData), few.seen);
            } else {
                mix.add_seen(call.run.isa, values, few.seen);
            }
        }
    }

    /// # Safety
    /// The scorer has taken the registers.
    unsafe fn take_in_bf16(
        &mut self,
        call: &Attention<'_>,
        block: &ScoredBlock<'_>,
        shape: Queries,
        terms: &mut [f32],
    ) {
        let (stride, rows) = (stride(call.op), &block.rows);
        let mut gathered = tiles::Gathered {
            levels: &mut self.levels[rows.clone()],
            sums: &mut self.sums[rows.start * LANES..rows.end * LANES],
            // Blocks are mixed as a whole, whatever rows there are.
            mixed: &mut self.mixed[rows.start * stride..(rows.start + BLOCK) * stride],
            stride,
            is_empty: std::mem::replace(&mut self.is_empty[rows.start / BLOCK], false),
        };
        // SAFETY: the caller's promise.
        unsafe { gathered.add(call, block, shape, terms) };
    }

    /// # Safety
    /// As for [`super::attend`]; nobody else works on this part.
    unsafe fn write(&mut self, call: &Attention<'_>, part: &Part, outputs: &[Block], on_tiles: bool) {
        let Attention { op, run, .. } = *call;
        let (y, logsum) = (outputs[0], outputs[1]);
        let start = run.batch.side(op.side).spans[part.sequence].start + part.first;
        let (levels, mut totals) = (&self.levels[..part.count()], [0.0; QUERIES]);
        let totals = &mut totals[..part.count()];
        for (sums, _) in self
            .sums
            .chunks_exact_mut(BLOCK * LANES)
            .zip(self.is_empty)
            .filter(|(_, is_empty)| on_tiles && *is_empty)
        {
            sums.fill(0.0);
        }
        // SAFETY: the planner picked an instruction set of this machine.
        unsafe { total(run.isa, &self.sums[..part.count() * LANES], totals) };
        let at = start * y.width + part.head * op.size;
        let (stride, is_approximate) = (stride(op), call.is_approximate());
        let quotients =
            Quotients { mixed: self.mixed, stride, totals: &*totals, size: op.size, is_approximate };
        // SAFETY: as above; these columns of these rows are this part's alone.
        unsafe { quotients.write(run.isa, part.rows, y.data.add(at), y.width) };
        // SAFETY: as above.
        unsafe { log(run.isa, levels, totals) };
        for (r, &sum) in totals.iter().enumerate() {
            let (h, i) = part.place(r);
            let sum = if op.looks(run.batch, start + i) { sum } else { 0.0 };
            // SAFETY: this column of the row is this part's alone.
            unsafe { logsum.data.add((start + i) * logsum.width + part.head + h).write(sum) };
        }
    }
}
