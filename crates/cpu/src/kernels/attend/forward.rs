//! Attention itself.

use std::ops::Range;

use glassformer_graph::Capacity;
use glassformer_graph::ops::Attend;

use super::product::Mix;
use super::score::Scorer;
use super::sight::TILE;
use super::soften::{Soften, divide, log, total};
use super::tile::{Call, Part, carve, carved};
use super::tiles::{self, Queries};
use super::walk::{Cut, Few, MOST, QUERIES, share};
use crate::context::Block;
use crate::lanes::LANES;
use crate::team::Worker;

/// The numbers of a row of mixtures, in whole vectors.
fn stride(op: &Attend) -> usize {
    op.size.next_multiple_of(LANES)
}

fn lengths(op: &Attend) -> [usize; 10] {
    let [a, b, c, d, e, f] = Scorer::lengths(op, QUERIES);
    [a, b, c, d, e, f, QUERIES * stride(op), QUERIES * LANES, MOST * TILE, tiles::terms(MOST)]
}

/// How much scratch a worker needs.
pub(super) fn scratch(op: &Attend, capacity: &Capacity) -> usize {
    carved(&lengths(op)) + Scorer::more(op, capacity)
}

/// The attention's y and logarithms of sums.
///
/// # Safety
/// As for [`super::attend`].
pub(super) unsafe fn attend(
    call: &Call<'_>,
    sequences: Range<usize>,
    outputs: &[Block],
    worker: &Worker<'_>,
    scratch: &mut [f32],
) {
    let ([a, b, c, d, e, f, mixed, sums, scores, terms], rest) = carve(scratch, lengths(call.op));
    let scorer = Scorer::new(call, [a, b, c, d, e, f], rest);
    let terms = scorer.narrow().map(|shape| (shape, terms));
    let gathered = Gathered { levels: [0.0; QUERIES], sums, mixed, terms };
    let mut desk = (scorer, gathered, scores);
    let spans = &call.run.batch.side(call.op.side).spans;
    let cut = Cut::new(call.op, &spans[sequences.clone()], worker.count);
    let parts = |s: usize| cut.parts(call.op, &spans[sequences.start + s]);
    share(worker, sequences.len(), parts, |s, index| {
        let s = sequences.start + s;
        let (scorer, gathered, scores) = &mut desk;
        let part = cut.part(call.op, (s, &spans[s]), index);
        gathered.clear(call, part.count());
        // SAFETY: the caller's promise; parts are disjoint.
        unsafe {
            scorer.walk(call, part, scores, |mut few| gathered.take_in(call, &mut few));
            gathered.write(call, &part, outputs);
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
    /// Where narrow numbers are multiplied: place for the terms of a tile.
    terms: Option<(Queries, &'s mut [f32])>,
}

impl Gathered<'_> {
    fn clear(&mut self, call: &Call<'_>, count: usize) {
        self.levels[..count].fill(f32::NEG_INFINITY);
        self.sums[..count * LANES].fill(0.0);
        self.mixed[..count * stride(call.op)].fill(0.0);
    }

    fn take_in(&mut self, call: &Call<'_>, few: &mut Few<'_>) {
        let (stride, rows) = (stride(call.op), few.rows.clone());
        let mixed = &mut self.mixed[rows.start * stride..rows.end * stride];
        let (levels, sums) =
            (&mut self.levels[rows.clone()], &mut self.sums[rows.start * LANES..rows.end * LANES]);
        let (scores, seen) = (&mut *few.scores, &mut *few.seen);
        let mut soften = Soften { scores, seen, levels, sums, mixed, stride };
        if let Some((shape, terms)) = &mut self.terms {
            // SAFETY: the planner picked an instruction set of this machine; the scorer has taken the registers; there is room
            // for whole blocks of rows, as QUERIES is one.
            unsafe {
                soften.lift(call.run.isa);
                tiles::soften(few, (levels, sums), terms);
                return tiles::mix(call, few, (*shape, terms), (mixed.as_mut_ptr(), stride));
            }
        }
        // SAFETY: as above.
        unsafe { soften.run(call.run.isa) };
        let out = mixed.as_mut_ptr();
        let mix = Mix {
            weights: few.scores.as_ptr(),
            steps: (TILE, 1),
            out,
            stride: stride as isize,
            count: rows.len(),
            size: call.op.size,
        };
        // SAFETY: as above; the values of keys that are seen are there.
        unsafe { mix.add_seen(call.run.isa, few.tile.values, few.seen) };
    }

    /// # Safety
    /// As for [`super::attend`]; nobody else works on this part.
    unsafe fn write(&mut self, call: &Call<'_>, part: &Part, outputs: &[Block]) {
        let Call { op, run, .. } = *call;
        let (y, logsum) = (outputs[0], outputs[1]);
        let start = run.batch.side(op.side).spans[part.sequence].start + part.first;
        let (levels, mut totals) = (&self.levels[..part.count()], [0.0; QUERIES]);
        let totals = &mut totals[..part.count()];
        // SAFETY: the planner picked an instruction set of this machine.
        unsafe { total(run.isa, &self.sums[..part.count() * LANES], totals) };
        for (r, &total) in totals.iter().enumerate() {
            let (h, i) = part.place(r);
            let at = (start + i) * y.width + (part.head + h) * op.size;
            // SAFETY: these columns of the row are this part's alone.
            let out = unsafe { std::slice::from_raw_parts_mut(y.data.add(at), op.size) };
            if total == 0.0 {
                out.fill(0.0);
            } else {
                // SAFETY: the planner picked an instruction set of this machine.
                unsafe { divide(run.isa, &self.mixed[r * stride(op)..][..stride(op)], total, out) };
            }
        }
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
