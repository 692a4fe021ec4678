//! How queries are cut into parts for the workers, and how a part walks over the keys that it sees.

use std::ops::Range;

use glassformer_graph::Span;
use glassformer_graph::ops::{Attend, Reach};

use super::score::Scorer;
use super::sight::{Scene, Sight, TILE, for_each_tile};
use super::tile::{Call, Part, Tile, group};
use crate::team::Worker;

/// The most queries of a part. A tile's keys, where they are rows, are turned or packed once for each part that sees them:
/// at 128 queries that is some five percent of the work; more would save little, and leave fewer parts to share.
pub(super) const QUERIES: usize = 128;

/// The most queries that meet a tile at once: their scores fit the first-level cache beside the tile, and calling the
/// kernels costs little beside so many.
const FEW: usize = 24;
/// The same for narrow numbers: two blocks of rows.
const FEW_NARROW: usize = 32;
/// Rows of scores that there must be room for.
pub(super) const MOST: usize = FEW_NARROW;

/// How a batch is cut into parts. How it is cut changes no bit of the result.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Rows and query heads of a part, at most.
    rows: usize,
    heads: usize,
    /// Into how many parts the query heads of a key head are cut.
    pieces: usize,
}

impl Cut {
    /// Parts of up to [`QUERIES`] queries, or smaller where some of `workers` would have none.
    pub fn new(op: &Attend, spans: &[Span], workers: usize) -> Self {
        let mut queries = QUERIES;
        loop {
            let pieces = group(op).div_ceil(queries);
            let heads = group(op).div_ceil(pieces);
            let cut = Self { rows: queries / heads, heads, pieces };
            let parts: usize = spans.iter().map(|span| cut.parts(op, span)).sum();
            if parts >= workers || queries == 1 {
                return cut;
            }
            queries /= 2;
        }
    }

    /// How many parts `span` has.
    pub fn parts(&self, op: &Attend, span: &Span) -> usize {
        span.len.div_ceil(self.rows) * op.key_heads * self.pieces
    }

    /// Part `index` of sequence `sequence`, which is `span`. Where rows look back, the last ones come first, since they
    /// have the most to do.
    pub fn part(&self, op: &Attend, (sequence, span): (usize, &Span), index: usize) -> Part {
        let (rest, piece) = (index / self.pieces, index % self.pieces);
        let (block, key_head) = (rest / op.key_heads, rest % op.key_heads);
        let block = match op.reach {
            Reach::Both => block,
            Reach::Past => span.len.div_ceil(self.rows) - 1 - block,
        };
        let (first, head) = (block * self.rows, piece * self.heads);
        Part {
            sequence,
            first,
            rows: self.rows.min(span.len - first),
            head: key_head * group(op) + head,
            heads: self.heads.min(group(op).saturating_sub(head)),
        }
    }
}

/// Shares out the items of some sequences, `count` of each: item by item, or, where there are enough sequences for all
/// workers, sequence by sequence.
pub(super) fn share(
    worker: &Worker<'_>,
    sequences: usize,
    count: impl Fn(usize) -> usize,
    mut each: impl FnMut(usize, usize),
) {
    /// Sequences for each worker that even out what they differ by.
    const ENOUGH: usize = 4;
    if sequences >= ENOUGH * worker.count {
        worker.share(sequences, |s| (0..count(s)).for_each(|item| each(s, item)));
    } else {
        (0..sequences).for_each(|s| worker.share(count(s), |item| each(s, item)));
    }
}

/// A few queries of a part, with a tile.
pub(super) struct Few<'a> {
    pub tile: &'a Tile,
    /// Which queries of the part.
    pub rows: Range<usize>,
    /// What each of them sees of the tile, as bits.
    pub seen: &'a mut [u64],
    /// Their scores, `[rows, 64]`, −∞ for what is not seen.
    pub scores: &'a mut [f32],
}

impl Scorer<'_> {
    /// Calls `each` with a few queries of `part` at a time and every tile, ascending, of which one of them sees something.
    ///
    /// # Safety
    /// The inputs are valid for reads; `scores` has room for [`MOST`] queries.
    pub unsafe fn walk(
        &mut self,
        call: &Call<'_>,
        part: Part,
        scores: &mut [f32],
        mut each: impl FnMut(Few<'_>),
    ) {
        let keys = call.keys_of(part.sequence);
        let scene = Scene::new(call.op, call.run.batch, part.sequence, keys);
        let mut sights = [Sight::default(); QUERIES];
        for (i, sight) in sights[..part.rows].iter_mut().enumerate() {
            *sight = scene.sight(part.first + i);
        }
        // SAFETY: the caller's promise.
        unsafe { self.set_part(call, part) };
        let few = if self.narrow().is_some() { FEW_NARROW } else { FEW };
        for_each_tile(&scene, &sights[..part.rows], |start, globals| {
            // SAFETY: the caller's promise.
            let tile = unsafe { self.load(call, &keys, part.head / group(call.op), start) };
            // SAFETY: the caller's promise.
            unsafe { self.meet(call, start) };
            for from in (0..part.count()).step_by(few) {
                let rows = from..part.count().min(from + few);
                let mut seen = [0; MOST];
                for (seen, r) in seen.iter_mut().zip(rows.clone()) {
                    *seen = sights[part.place(r).1].bits(start, globals);
                }
                let seen = &mut seen[..rows.len()];
                if seen.iter().any(|&bits| bits != 0) {
                    // SAFETY: the scorer has met the tile.
                    unsafe { self.score(call, &tile, rows.clone(), (seen, scores)) };
                    let scores = &mut scores[..rows.len() * TILE];
                    each(Few { tile: &tile, rows, seen, scores });
                }
            }
        });
    }
}
