//! How queries are cut into parts for the workers, and how a part walks over the keys that it sees.

use crate::tuning::attend::{QUERIES, TILE_QUERIES, TILE_QUERIES_BF16};
use std::mem::MaybeUninit;
use std::ops::Range;

use glassformer_graph::Span;
use glassformer_graph::ops::{Attend, Keys, Reach, Relative, Which};

use super::form::Form;
use super::mask::{Mask, SeenTile, SequenceMask, TILE, is_uniform, seen_tiles, vectors};
use super::score::Scorer;
use super::stretch::{BLOCK, STRETCH, ScoredBlock, TILES};
use super::tile::{Attention, Part, Tile, VECTORS, group};
use crate::team::Worker;

/// Rows of scores that there must be room for.
pub(super) const MOST: usize = TILE_QUERIES_BF16;

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
    /// Parts of up to [`QUERIES`] queries, or smaller where some of `workers` would have none. Sequences have so many rows.
    pub fn new(op: &Attend, rows: &(impl Iterator<Item = usize> + Clone), workers: usize) -> Self {
        let mut queries = QUERIES;
        loop {
            let pieces = group(op).div_ceil(queries);
            let heads = group(op).div_ceil(pieces);
            let cut = Self { rows: queries / heads, heads, pieces };
            let parts: usize = rows.clone().map(|rows| cut.parts(op, rows)).sum();
            if parts >= workers || queries == 1 {
                return cut;
            }
            queries /= 2;
        }
    }

    /// How many parts a sequence of so many rows has.
    pub fn parts(&self, op: &Attend, rows: usize) -> usize {
        rows.div_ceil(self.rows) * op.key_heads * self.pieces
    }

    /// Part `index` of sequence `sequence`, which has `rows` rows. Where rows look back, the last ones come first, since they
    /// have the most to do.
    pub fn part(&self, op: &Attend, sequence: usize, rows: usize, index: usize) -> Part {
        let (rest, piece) = (index / self.pieces, index % self.pieces);
        let (block, key_head) = (rest / op.key_heads, rest % op.key_heads);
        let block = match op.reach {
            Reach::Both => block,
            Reach::Past => rows.div_ceil(self.rows) - 1 - block,
        };
        let (first, head) = (block * self.rows, piece * self.heads);
        Part {
            sequence,
            first,
            rows: self.rows.min(rows - first),
            head: key_head * group(op) + head,
            heads: self.heads.min(group(op).saturating_sub(head)),
        }
    }
}

/// Whether sequences that look at the same source see the same: beams of one sentence, which are one sequence then.
pub(super) fn look_together(call: &Attention<'_>) -> bool {
    let Attend { keys, relative, .. } = *call.op;
    matches!(keys, Keys::Pages(Which::Crossing, _))
        && relative == Relative::None
        && is_uniform(call.op)
        // There are registers of tiles for a single query, faster than a block of few were; four together were never measured.
        && Form::of(call.run, call.op) != Form::Tiles
}

/// How many rows sequence `s` of `spans` has together with those behind it that look at the same source; none if one before it has its own.
pub(super) fn rows_together(spans: &[Span], s: usize) -> usize {
    let joined = |a: &Span, b: &Span| (a.source, a.start + a.len) == (b.source, b.start);
    if s > 0 && joined(&spans[s - 1], &spans[s]) {
        return 0;
    }
    let behind = spans[s..].windows(2).take_while(|two| joined(&two[0], &two[1]));
    spans[s].len + behind.map(|two| two[1].len).sum::<usize>()
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

/// What the rows of a part see.
struct Masks<'s> {
    /// Those that differ.
    of_rows: &'s [Mask],
    /// Whether the first one's is that of all.
    same: bool,
}

impl<'s> Masks<'s> {
    /// Room for those of a part: a caller's own, since moving it, or filling it, costs as much as a row that sees little.
    const ROOM: [MaybeUninit<Mask>; QUERIES] = [const { MaybeUninit::uninit() }; QUERIES];

    fn new(
        sequence_mask: &SequenceMask<'_>,
        part: &Part,
        room: &'s mut [MaybeUninit<Mask>; QUERIES],
    ) -> Self {
        let same = is_uniform(sequence_mask.op);
        let of_rows = &mut room[..if same { 1 } else { part.rows }];
        for (i, mask) in of_rows.iter_mut().enumerate() {
            mask.write(sequence_mask.mask(part.first + i));
        }
        // SAFETY: all of them were written.
        let of_rows = unsafe { std::slice::from_raw_parts(of_rows.as_ptr().cast(), of_rows.len()) };
        Self { of_rows, same }
    }

    /// What these queries of the part see of a tile.
    fn bits(&self, part: &Part, rows: Range<usize>, tile: SeenTile, seen: &mut [u64]) {
        let SeenTile { start, globals } = tile;
        if self.same {
            return seen.fill(self.of_rows[0].bits(start, globals));
        }
        for (seen, r) in seen.iter_mut().zip(rows) {
            *seen = self.of_rows[part.place(r).1].bits(start, globals);
        }
    }
}

impl Scorer<'_> {
    /// Calls `each` with a few queries of `part` at a time and every tile, ascending, of which one of them sees something.
    ///
    /// # Safety
    /// The inputs are valid for reads; `scores` has room for [`MOST`] queries.
    pub unsafe fn walk(
        &mut self,
        call: &Attention<'_>,
        part: Part,
        scores: &mut [f32],
        mut each: impl FnMut(Few<'_>),
    ) {
        let keys = call.keys_of(part.sequence);
        let sequence_mask = SequenceMask::new(call.op, call.run.batch, part.sequence, keys);
        let mut room = Masks::ROOM;
        let masks = Masks::new(&sequence_mask, &part, &mut room);
        // SAFETY: the caller's promise.
        unsafe { self.set_part(call, part) };
        let few = if self.amx().is_some() { TILE_QUERIES_BF16 } else { TILE_QUERIES };
        for seen_tile in seen_tiles(&sequence_mask, masks.of_rows) {
            let start = seen_tile.start;
            // SAFETY: the caller's promise.
            let tile = unsafe { self.load(call, &keys, part.head / group(call.op), start) };
            // SAFETY: the caller's promise.
            unsafe { self.set_keys(call, start) };
            for from in (0..part.count()).step_by(few) {
                let rows = from..part.count().min(from + few);
                let mut seen = [0; MOST];
                let seen = &mut seen[..rows.len()];
                masks.bits(&part, rows.clone(), seen_tile, seen);
                if seen.iter().any(|&bits| bits != 0) {
                    // SAFETY: the scorer is prepared for the tile.
                    unsafe { self.score(call, &tile, rows.clone(), seen, scores) };
                    let scores = &mut scores[..rows.len() * TILE];
                    each(Few { tile: &tile, rows, seen, scores });
                }
            }
        }
    }

    /// Where low-precision numbers are multiplied: calls `each` with a block of queries of `part` at a time and every stretch,
    /// ascending, of which one of them sees something.
    ///
    /// # Safety
    /// The inputs are valid for reads; `scores` has room for [`BLOCK`] queries and a stretch.
    pub unsafe fn walk_far(
        &mut self,
        call: &Attention<'_>,
        part: Part,
        scores: &mut [f32],
        mut each: impl FnMut(ScoredBlock<'_>),
    ) {
        let keys = call.keys_of(part.sequence);
        let sequence_mask = SequenceMask::new(call.op, call.run.batch, part.sequence, keys);
        let mut room = Masks::ROOM;
        let masks = Masks::new(&sequence_mask, &part, &mut room);
        // SAFETY: the caller's promise.
        unsafe { self.set_part(call, part) };
        let mut left = seen_tiles(&sequence_mask, masks.of_rows).peekable();
        while let Some(&SeenTile { start, .. }) = left.peek() {
            let first = start - start % STRETCH;
            let (mut found, mut tiles, mut count) = ([SeenTile::default(); TILES], [Tile::NOWHERE; TILES], 0);
            while let Some(next) = left.next_if(|tile| tile.start < first + STRETCH) {
                found[count] = next;
                count += 1;
            }
            // SAFETY: the caller's promise.
            unsafe { self.set_keys(call, first) };
            for from in (0..part.count()).step_by(BLOCK) {
                let rows = from..part.count().min(from + BLOCK);
                let mut bits = [[0; BLOCK]; TILES];
                let mut seen = 0..0;
                for (n, (&tile, bits)) in found[..count].iter().zip(&mut bits).enumerate() {
                    let bits = &mut bits[..rows.len()];
                    masks.bits(&part, rows.clone(), tile, bits);
                    let of_tile = vectors(bits);
                    if !of_tile.is_empty() {
                        let start = if seen.is_empty() { n * VECTORS + of_tile.start } else { seen.start };
                        seen = start..n * VECTORS + of_tile.end;
                    }
                }
                if seen.is_empty() {
                    continue;
                }
                for n in seen.start / VECTORS..seen.end.div_ceil(VECTORS) {
                    let scores = &mut scores[n * BLOCK * TILE..][..BLOCK * TILE];
                    // SAFETY: the caller's promise; the scorer is prepared for the stretch.
                    unsafe {
                        if tiles[n].live == 0 {
                            tiles[n] = self.load(call, &keys, part.head / group(call.op), found[n].start);
                        }
                        self.score(call, &tiles[n], rows.clone(), &bits[n][..rows.len()], scores);
                    }
                }
                each(ScoredBlock { tiles: &tiles[..count], rows, seen, scores });
            }
        }
    }
}
