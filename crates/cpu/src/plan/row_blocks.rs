//! Row blocks: runs of steps that work row by row, which is everything between two attentions, are cut into regions of their own.
//!
//! Where a run has many rows, a worker takes a block of them through all steps of such a region before it takes the next: what goes
//! from step to step stays in its cache, there is no barrier inside, and memory for it is as long as those rows and not as
//! the batch. Where there are few rows, the steps of a region are phases like all others: then it is the columns that workers
//! share.
//!
//! Where all sequences are short, an encoder's attention is part of the region as well, and blocks are whole
//! sequences: then a thread takes some sequences through all layers, and meets the others only at the end. Where all weights together
//! are too large to stay near, such a region has *parts*, one for each layer: all sequences go through one before any goes through the
//! next, so that what a layer weighs is fetched from memory once for all of them.
//!
//! A slot is *inside* its region where nobody else sees it. Where a run goes by blocks, each worker has the inside slots of its rows for
//! itself; in other runs they are shared, and have room for as many rows as all workers together take at once.

use std::ops::Range;

use glassformer_graph::{Rows, Side, Span};
use glassformer_plan::{Count, SlotId};

use super::Step;

/// Rows that a worker takes at once, where nothing else is said: with the inner width of a feed-forward layer
/// they fill about half of a cache of two megabytes.
pub(super) const ROWS: usize = 128;
/// The same where low-precision numbers are multiplied on tiles: so fast that fetching weights takes longer. The inner layer is quantized piece by
/// piece.
pub(super) const LOWP_ROWS: usize = 256;
/// The longest sequence that a thread takes as a whole.
pub(super) const LONGEST: usize = 256;
/// What blocks are made of: strips of the matrix products on tiles, where half a strip takes as long as a whole one.
pub(super) const STRIP: usize = 32;
/// The same on vectors.
pub(super) const LOW_STRIP: usize = 8;

/// Consecutive steps, and whose rows they go by if it is row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub steps: Range<usize>,
    pub rows: Option<Rows>,
    /// Whose sequences blocks are made of, where there is an attention.
    pub sequences: Option<Side>,
    /// What all rows go through before any goes on: all steps, or layer by layer.
    pub parts: Vec<Range<usize>>,
}

/// What is known of a slot when regions are looked for.
pub(super) struct Seen {
    pub rows: Count,
    /// Whether it holds rows one after the other. The rows of others cannot be told apart.
    pub plain: bool,
    /// Whether it may be inside a region: it is in the arena, and no output of the graph.
    pub hidden: bool,
}

/// The regions of `steps`, and for each slot whether it is inside one, or inside a part of one where they go `by_layers`. Rows for
/// which `many` is false stay out.
pub(super) fn regions(
    steps: &[Step],
    slots: &[Seen],
    by_layers: bool,
    short: impl Fn(Side) -> bool,
    many: impl Fn(Rows) -> bool,
) -> (Vec<Region>, Vec<bool>) {
    let mut going: Vec<Option<Rows>> =
        steps.iter().map(|step| goes_by(step, slots, &short).filter(|&rows| many(rows))).collect();
    loop {
        let mut regions = cut(steps, &going);
        for region in regions.iter_mut().filter(|region| by_layers && region.sequences.is_some()) {
            region.parts = layers(steps, slots, &region.steps);
        }
        let inside = inside(steps, slots, &regions);
        // What is not plain can only be used where it is inside.
        let outside = |slot: &SlotId| !slots[*slot].plain && slots[*slot].hidden && !inside[*slot];
        let mut changed = false;
        for (step, going) in steps.iter().zip(&mut going) {
            if going.is_some() && step.operands.iter().any(outside) {
                *going = None;
                changed = true;
            }
        }
        if !changed {
            return (regions, inside);
        }
    }
}

/// Whose rows a step goes by, where it works row by row, or sequence by sequence where those are short.
fn goes_by(step: &Step, slots: &[Seen], short: impl Fn(Side) -> bool) -> Option<Rows> {
    let counted = |slot: &SlotId| match slots[*slot].rows {
        Count::Rows(Rows::Fixed(_)) => None,
        Count::Rows(rows) => Some(Ok(rows)),
        Count::Pairs(_) => Some(Err(())),
    };
    let mut rows = step.operands.iter().filter_map(counted);
    let first = rows.next()?.ok()?;
    let goes = step.task.kernel.is_by_rows() || step.task.kernel.by_sequences().is_some_and(short);
    (goes && rows.all(|rows| rows == Ok(first))).then_some(first)
}

/// Neighbors that go by the same rows are one region. One step alone goes by phases.
fn cut(steps: &[Step], going: &[Option<Rows>]) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    let mut start = 0;
    for run in going.chunk_by(|a, b| a == b) {
        let range = start..start + run.len();
        start = range.end;
        let rows = run[0].filter(|_| run.len() > 1);
        let of_sequences = |step: &Step| step.task.kernel.by_sequences();
        let sequences = rows.and_then(|_| steps[range.clone()].iter().find_map(of_sequences));
        match regions.last_mut() {
            Some(last) if last.rows.is_none() && rows.is_none() => last.steps.end = range.end,
            _ => regions.push(Region { steps: range, rows, sequences, parts: Vec::new() }),
        }
    }
    for region in &mut regions {
        region.parts.push(region.steps.clone());
    }
    regions
}

/// Some steps with an attention in each part: cut where the least goes on to the next part, and only rows.
fn layers(steps: &[Step], slots: &[Seen], all: &Range<usize>) -> Vec<Range<usize>> {
    let mut used: Vec<Option<(usize, usize)>> = vec![None; slots.len()];
    for index in all.clone() {
        for &slot in steps[index].operands.iter().filter(|&&slot| slots[slot].hidden) {
            let first = used[slot].map_or(index, |(first, _)| first);
            used[slot] = Some((first, index));
        }
    }
    // How many slots are used on both sides, if all of them hold rows.
    let across = |at: usize| {
        let both = |slot: &SlotId| used[*slot].is_some_and(|(first, last)| first < at && at <= last);
        let count = |count: usize, slot: SlotId| slots[slot].plain.then_some(count + 1);
        (0..slots.len()).filter(both).try_fold(0, count)
    };
    let attentions: Vec<usize> =
        all.clone().filter(|&index| steps[index].task.kernel.by_sequences().is_some()).collect();
    let best = |pair: &[usize]| {
        let places = pair[0] + 1..=pair[1];
        places.filter_map(|at| Some((across(at)?, at))).min().map(|(_, at)| at)
    };
    let mut ends: Vec<usize> = attentions.windows(2).filter_map(best).collect();
    ends.push(all.end);
    let starts = std::iter::once(all.start).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, &end)| start..end).collect()
}

fn inside(steps: &[Step], slots: &[Seen], regions: &[Region]) -> Vec<bool> {
    let mut home: Vec<Option<usize>> = vec![None; slots.len()];
    let mut inside: Vec<bool> = slots.iter().map(|slot| slot.hidden).collect();
    let parts = regions.iter().flat_map(|region| region.parts.iter().map(move |part| (region, part)));
    for (index, (region, part)) in parts.enumerate() {
        for &slot in steps[part.clone()].iter().flat_map(|step| &step.operands) {
            let alone = *home[slot].get_or_insert(index) == index;
            inside[slot] &= alone && region.rows.is_some();
        }
    }
    // What no step touches is in no region.
    inside.iter().zip(&home).map(|(&inside, home)| inside && home.is_some()).collect()
}

/// The sequences of each block, one after the other: as many as have no more than `each` rows together, or one that has more.
pub(super) fn of_sequences(spans: &[Span], each: usize) -> impl Iterator<Item = Range<usize>> + Clone + '_ {
    let mut next = 0;
    std::iter::from_fn(move || {
        let start = spans.get(next)?.start;
        let first = next;
        next += 1;
        while spans.get(next).is_some_and(|span| span.start + span.len - start <= each) {
            next += 1;
        }
        Some(first..next)
    })
}

/// The blocks of `rows` rows for `workers`, of at most `most` rows: how many rows each has, and how many there are. They come in strips, or in
/// halves of strips where the last would have little to do otherwise.
pub(super) fn divide(rows: usize, workers: usize, most: usize, strip: usize) -> (usize, usize) {
    let blocks = workers * rows.div_ceil(workers * most).max(1);
    let by = |strip: usize| {
        let each = rows.div_ceil(blocks).next_multiple_of(strip).min(most);
        (each, rows.div_ceil(each.max(1)))
    };
    let (each, blocks) = by(strip);
    let last = (rows + each).saturating_sub(blocks * each);
    if 2 * last < each { by(strip / 2) } else { (each, blocks) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_all_rows_and_none_is_too_long() {
        for rows in 1..700 {
            for workers in 1..4 {
                for most in [1, 3, 32, 128] {
                    for strip in [STRIP, LOW_STRIP] {
                        let (each, blocks) = divide(rows, workers, most, strip);
                        assert!(each <= most && (blocks - 1) * each < rows && rows <= blocks * each);
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_hold_every_sequence_once_and_no_more_rows_than_they_may() {
        let mut spans: Vec<Span> = Vec::new();
        for len in [5, 60, 60, 100, 7, 1, 1, 64, 128, 3] {
            let start = spans.last().map_or(0, |span| span.start + span.len);
            spans.push(Span { start, len, ..Span::default() });
        }
        let found: Vec<Range<usize>> = of_sequences(&spans, 128).collect();
        assert_eq!(found, [0..3, 3..7, 7..8, 8..9, 9..10]);
        assert_eq!(
            of_sequences(&spans, 1).count(),
            spans.len(),
            "a sequence that is too long has a block of its own"
        );
        assert_eq!(of_sequences(&[], 9).count(), 0);
    }

    #[test]
    fn blocks_are_a_multiple_of_the_workers_where_there_are_enough_rows() {
        assert_eq!(divide(1024, 2, 128, STRIP), (128, 8));
        assert_eq!(divide(300, 2, 128, STRIP), (80, 4));
        assert_eq!(divide(129, 1, 128, STRIP), (80, 2));
        assert_eq!(divide(96, 2, 128, STRIP), (64, 2));
        assert_eq!(divide(80, 2, 128, STRIP), (48, 2));
        assert_eq!(divide(96, 2, 128, LOW_STRIP), (48, 2));
        assert_eq!(divide(33, 2, 128, LOW_STRIP), (20, 2));
    }
}
