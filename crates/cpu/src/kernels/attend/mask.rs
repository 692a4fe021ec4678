//! Which keys a query sees: sixty-four of them at a time, a bit for each.

use std::ops::Range;

use glassformer_graph::Batch;
use glassformer_graph::ops::{Attend, KeySpan, Pattern, Reach, Who};

use crate::lanes::LANES;

/// Keys in a tile. Tiles are counted from key 0 of a sequence, whoever looks at them.
pub(super) const TILE: usize = 64;

/// The keys that one query sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask {
    /// All keys from here …
    first: usize,
    /// … to before here,
    end: usize,
    /// and the global ones before here.
    globals: usize,
}

/// The bits of those keys from `first` to before `end` that are in the tile from `start`.
#[inline(always)]
fn bits(first: usize, end: usize, start: usize) -> u64 {
    let (from, to) = (first.saturating_sub(start).min(TILE), end.saturating_sub(start).min(TILE));
    if from < to { (u64::MAX >> (TILE - (to - from))) << from } else { 0 }
}

/// Whether all queries of a sequence see the same, as in most encoders.
pub(super) fn is_uniform(op: &Attend) -> bool {
    let Attend { reach, pattern, who, .. } = *op;
    reach == Reach::Both && pattern == Pattern::Dense && who == Who::Every
}

/// What all queries of one sequence have in common.
#[derive(Clone, Copy)]
pub(super) struct SequenceMask<'a> {
    pub op: &'a Attend,
    batch: &'a Batch<'a>,
    /// The first packed row of the queries.
    row: usize,
    keys: KeySpan,
}

impl<'a> SequenceMask<'a> {
    /// That of query sequence `s`, which looks at `keys`.
    pub fn new(op: &'a Attend, batch: &'a Batch<'a>, s: usize, keys: KeySpan) -> Self {
        Self { op, batch, row: batch.side(op.side).spans[s].start, keys }
    }

    /// What query `i` of the sequence sees.
    pub fn mask(&self, i: usize) -> Mask {
        if self.op.looks(self.batch, self.row + i) { self.reached(i) } else { Mask::NOTHING }
    }

    /// Whether one of these queries may see something of the tile from `start`. What they reach grows and moves with
    /// them, so the first and the last tell.
    pub fn may_see(&self, queries: Range<usize>, start: usize) -> bool {
        let all = self.reached(queries.start).join(self.reached(queries.end - 1));
        all.bits(start, u64::MAX) != 0
    }

    /// What query `i` sees if it looks at all.
    fn reached(&self, i: usize) -> Mask {
        let KeySpan { first, end, offset, .. } = self.keys;
        let at = offset + i;
        let end = match self.op.reach {
            Reach::Both => end,
            Reach::Past => end.min(at + 1),
        };
        let local = |window: usize| {
            let reached = at.saturating_add(window).saturating_add(1);
            Mask { first: first.max(at.saturating_sub(window)), end: end.min(reached), globals: 0 }
        };
        match self.op.pattern {
            Pattern::Dense => Mask { first, end, globals: 0 },
            Pattern::Window(window) => local(window),
            Pattern::WindowAndGlobal(window) => {
                if self.batch.side(self.op.side).is_global(self.row + i) {
                    Mask { first, end, globals: 0 }
                } else {
                    Mask { globals: end, ..local(window) }
                }
            }
        }
    }

    /// The global keys of the tile from `start`.
    pub fn globals(&self, start: usize) -> u64 {
        let Pattern::WindowAndGlobal(_) = self.op.pattern else { return 0 };
        let global = |j: &usize| self.op.key_is_global(self.batch, &self.keys, *j);
        let keys = start.max(self.keys.first)..self.keys.end.min(start + TILE);
        keys.filter(global).fold(0, |bits, j| bits | 1 << (j - start))
    }
}

impl Mask {
    /// No key at all.
    pub const NOTHING: Self = Self { first: 0, end: 0, globals: 0 };

    /// The keys seen of the tile from `start`, of which `globals` are the global ones.
    pub fn bits(&self, start: usize, globals: u64) -> u64 {
        bits(self.first, self.end, start) | (globals & bits(0, self.globals, start))
    }

    /// The smallest mask that holds both, for the range of tiles.
    fn join(self, other: Self) -> Self {
        let empty = |mask: Self| mask.first >= mask.end;
        let (first, end) = match (empty(self), empty(other)) {
            (true, _) => (other.first, other.end),
            (false, true) => (self.first, self.end),
            (false, false) => (self.first.min(other.first), self.end.max(other.end)),
        };
        Self { first, end, globals: self.globals.max(other.globals) }
    }
}

/// A tile of which something is seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeenTile {
    /// Its first key.
    pub start: usize,
    /// Its global keys, as bits.
    pub globals: u64,
}

/// Every tile, ascending, that one of `masks` sees something of.
pub(super) fn seen_tiles<'a>(
    sequence_mask: &'a SequenceMask<'_>,
    masks: &[Mask],
) -> impl Iterator<Item = SeenTile> + use<'a> {
    let all = masks.iter().fold(Mask::NOTHING, |all, &mask| all.join(mask));
    // Without global keys to look for, only the tiles between the first and the last key are visited at all.
    let (start, end) = if all.globals > 0 { (0, all.end.max(all.globals)) } else { (all.first, all.end) };
    (start - start % TILE..end).step_by(TILE).filter_map(move |start| {
        let globals = if all.globals > 0 { sequence_mask.globals(start) } else { 0 };
        (all.bits(start, globals) != 0).then_some(SeenTile { start, globals })
    })
}

/// A bit for each place of a range.
#[inline(always)]
pub(super) fn bits_of(places: &Range<usize>) -> u64 {
    bits(places.start, places.end, 0)
}

/// The first run of bits. There is one.
#[inline(always)]
pub(super) fn first_run(bits: u64) -> Range<usize> {
    let first = bits.trailing_zeros() as usize;
    first..first + (bits >> first).trailing_ones() as usize
}

/// The only run of bits, where there is one.
#[inline(always)]
pub(super) fn only_run(bits: u64) -> Option<Range<usize>> {
    let run = around(bits);
    (bits != 0 && run.len() == bits.count_ones() as usize).then_some(run)
}

/// The vectors of a tile that hold a bit, from the first to behind the last.
#[inline(always)]
pub(super) fn vectors(seen: &[u64]) -> Range<usize> {
    let keys = around(seen.iter().fold(0, |any, bits| any | bits));
    keys.start / LANES..keys.end.div_ceil(LANES)
}

/// From the first bit to behind the last one.
#[inline(always)]
pub(super) fn around(bits: u64) -> Range<usize> {
    if bits == 0 { 0..0 } else { bits.trailing_zeros() as usize..TILE - bits.leading_zeros() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_keys_between() {
        for (first, end, start) in [(0, 64, 0), (3, 9, 0), (3, 900, 64), (70, 71, 64), (5, 5, 0), (0, 10, 64)]
        {
            let expected =
                (0..64).filter(|b| (first..end).contains(&(start + b))).fold(0, |x, b| x | 1_u64 << b);
            assert_eq!(bits(first, end, start), expected, "{first}..{end} of the tile from {start}");
        }
    }
}
