//! The two products of attention on AMX: queries, keys, probabilities and values in `bf16`, sums in `f32`.
//!
//! Sixteen keys or values make a *page*, whether they lie in one or are packed from rows. 32 bits hold a pair of numbers: of
//! a key, two neighbors; of values, the same number of two neighbors.
//!
//! - A stored page of keys is `[16 keys, depth / 2]` pairs, the depth filled up with zeros to whole tiles: a key is written
//!   at one place. As it is, it is multiplied by a single query, keys · query. For several queries it is *transposed* first, to
//!   `[depth / 2, 16 keys]`, and they are multiplied by it, queries · keysᵀ. Both add the same products in the same order.
//! - A page of values is `[panels, 8 pairs of values, 16 numbers]` pairs, stored behind its keys where both have room. It fills
//!   half of a tile, and a product with half a tile takes as long as with a whole one. Where keys are never stored, as when an
//!   encoder looks at itself, two pages are packed as one, `[panels, 16 pairs, 16 numbers]`.
//!
//! A row of scores or mixtures depends on its own query alone, whatever is in the other rows of a tile; so the bits are the
//! same however queries are cut. The softmax between the products is that of `f32`, with terms within 8e-5.

use std::ops::Range;

use glassformer_graph::PAGE;
use glassformer_graph::ops::{Attend, KeySpan, Keys};

use super::form::{Form, HeadRows, may_be_stored};
use super::mask::TILE;
use super::stretch::{BLOCK, STRETCH, ScoredBlock, TILES};
use super::tile::{Attention, Part, Tile, VECTORS, group};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::{LANES, Lanes};
use crate::pages::KeysAndValues;

#[cfg_attr(target_arch = "x86_64", path = "tiles/amx.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "tiles/none.rs")]
pub(super) mod machine;

/// Numbers of a query or a key that one tile holds.
const DEPTH: usize = 32;
/// Pairs of a row of terms.
const TERMS: usize = STRETCH / 2;
/// Pairs of a page of one panel of values.
const PANEL: usize = PAGE / 2 * LANES;

/// The numbers of a query or a key, in whole tiles.
pub(super) fn depth(size: usize) -> usize {
    size.next_multiple_of(DEPTH)
}

/// Pairs of a page of keys.
fn key_pairs(size: usize) -> usize {
    depth(size) / 2 * PAGE
}

/// Pairs of a page of values.
fn value_pairs(size: usize) -> usize {
    size.div_ceil(LANES) * PANEL
}

/// Where the values of a page are: behind its keys where both have room, since they are read together.
pub(super) fn values_at(size: usize, page: KeysAndValues) -> *mut f32 {
    if key_pairs(size) + value_pairs(size) <= size * PAGE {
        page.keys.wrapping_add(key_pairs(size))
    } else {
        page.values
    }
}

/// How many queries the registers are configured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queries {
    /// Blocks of sixteen.
    Blocks,
    /// The same, and values come by two pages.
    Deep,
    /// One in each part: all sequences go on by one row, and no heads share a key.
    Single,
}

impl Queries {
    fn of(call: &Attention<'_>) -> Self {
        let single = || call.run.batch.side(call.op.side).spans.iter().all(|span| span.len == 1);
        match call.op.keys {
            Keys::Pages(..) if group(call.op) == 1 && single() => Self::Single,
            Keys::Rows(_) if !may_be_stored(call.op) => Self::Deep,
            Keys::Pages(..) | Keys::Rows(_) => Self::Blocks,
        }
    }

    /// Pages of values that are multiplied at once.
    fn pages(self) -> usize {
        match self {
            Self::Blocks | Self::Single => 1,
            Self::Deep => 2,
        }
    }
}

/// What a worker needs for parts of `queries` queries, in units of `f32`.
pub(super) fn length(op: &Attend, queries: usize) -> usize {
    let pages = TILES * VECTORS * (key_pairs(op.size) + value_pairs(op.size));
    queries.next_multiple_of(BLOCK) * depth(op.size) / 2 + pages
}

/// Where a worker keeps what it multiplies.
pub(super) struct AmxScratch<'s> {
    /// The queries of the part times the scale, `[queries, depth / 2]`.
    queries: &'s mut [f32],
    /// Where they are already, row by row: then a last block that is not whole is all that was copied.
    rows: Option<HeadRows>,
    /// Which registers there are.
    pub shape: Queries,
    /// Pages of a stretch, transposed, or packed from rows.
    keys: &'s mut [f32],
    values: &'s mut [f32],
    /// The registers, for as long as there is a scratch.
    registers: machine::Registers,
}

impl<'s> AmxScratch<'s> {
    /// On [`length`] floats, where tiles are used.
    pub fn new(call: &Attention<'_>, floats: &'s mut [f32]) -> Option<Self> {
        if Form::of(call.run, call.op) != Form::Tiles {
            return None;
        }
        let (size, shape) = (call.op.size, Queries::of(call));
        let (keys, floats) = floats.split_at_mut(TILES * VECTORS * key_pairs(size));
        let (values, floats) = floats.split_at_mut(TILES * VECTORS * value_pairs(size));
        Some(Self {
            queries: floats,
            rows: None,
            shape,
            keys,
            values,
            // SAFETY: the planner saw that the machine has AMX.
            registers: unsafe { machine::Registers::take(shape) },
        })
    }

    /// Takes the queries of a part, `[count, size]`.
    pub fn set_queries(&mut self, call: &Attention<'_>, part: &Part, queries: &[f32]) {
        let (start, size) = (queries.as_ptr(), call.op.size);
        let rows = HeadRows { start, stride: size, count: part.count(), size };
        // SAFETY: there are as many queries, of so many numbers.
        unsafe { self.round_queries(rows, call, 0) };
    }

    /// Takes the queries of a part from where they are, the part's first row being this row of the input.
    ///
    /// # Safety
    /// The input is valid for reads.
    pub unsafe fn take_queries(&mut self, call: &Attention<'_>, part: &Part, first: usize) {
        let Attention { op, inputs, .. } = *call;
        self.rows = None;
        for head in 0..part.heads {
            let at = first * inputs[0].width + place_of(call, part.head + head);
            let start = inputs[0].data.wrapping_add(at);
            let rows = HeadRows { start, stride: inputs[0].width, count: part.rows, size: op.size };
            if call.is_bf16 {
                let pairs = depth(op.size) / 2;
                let mut there = 0;
                if part.heads == 1 {
                    self.rows = Some(rows);
                    there = part.rows / BLOCK * BLOCK;
                }
                let to = &mut self.queries[head * part.rows * pairs..];
                for (row, to) in to.chunks_exact_mut(pairs).take(part.rows).enumerate().skip(there) {
                    // SAFETY: the caller's promise; a query has so many pairs.
                    unsafe {
                        to.as_mut_ptr().copy_from_nonoverlapping(start.add(row * rows.stride), pairs);
                    };
                }
                continue;
            }
            // SAFETY: the caller's promise.
            unsafe { self.round_queries(rows, call, head * part.rows) };
        }
    }

    /// Quantizes some queries, which become those of the part from `first` on.
    ///
    /// # Safety
    /// They are valid for reads.
    unsafe fn round_queries(&mut self, rows: HeadRows, call: &Attention<'_>, first: usize) {
        let pairs = depth(rows.size) / 2;
        let to = &mut self.queries[first * pairs..(first + rows.count) * pairs];
        // SAFETY: the caller's promise.
        unsafe { pack_rows(rows, call.op.scale, to) };
    }

    /// Brings the keys and values of `tile` into the form in which they are multiplied, at its place of the stretch.
    ///
    /// # Safety
    /// Keys and values are valid for reads.
    pub unsafe fn load(&mut self, call: &Attention<'_>, tile: &mut Tile, keys: &KeySpan, head: usize) {
        let Attention { op, inputs, run, .. } = *call;
        let nth = tile.start / TILE % TILES * VECTORS;
        for v in 0..tile.live.div_ceil(LANES) {
            let k = &mut self.keys[(nth + v) * key_pairs(op.size)..];
            let v_ = &mut self.values[(nth + v) * value_pairs(op.size)..];
            let Keys::Rows(_) = op.keys else {
                let (keys, values) = (tile.keys[v].cast_mut(), tile.values.0[v].cast_mut());
                tile.values.0[v] = values_at(op.size, KeysAndValues { keys, values });
                if self.shape != Queries::Single {
                    let stride = depth(op.size) / 2;
                    let keys = HeadRows { start: keys, stride, count: PAGE, size: op.size };
                    // SAFETY: a page that holds one of the sequence's keys is there as a whole.
                    unsafe { transpose_keys(run.isa, keys, k) };
                    tile.keys[v] = k.as_ptr();
                }
                continue;
            };
            let (j, stride, pages) = (tile.start + v * LANES, inputs[1].width, self.shape.pages());
            let (count, size) = (keys.end - j, op.size);
            let at = (keys.place + j) * stride + place_of(call, head);
            debug_assert!(
                k.len() >= key_pairs(op.size) && v_.len() >= (pages - v % pages) * value_pairs(op.size)
            );
            // SAFETY: keys up to the sequence's end are rows of both inputs.
            unsafe {
                let keys = HeadRows { start: inputs[1].data.add(at), stride, count: count.min(PAGE), size };
                let count = count.min(pages * PAGE);
                let values = HeadRows { start: inputs[2].data.add(at), stride, count, size };
                if call.is_bf16 {
                    transpose_keys(run.isa, keys, k);
                    if v % pages == 0 {
                        machine::pair_values(values, pages, v_.as_mut_ptr());
                    }
                    (tile.keys[v], tile.values.0[v]) = (k.as_ptr(), v_.as_ptr());
                    continue;
                }
                machine::pack_keys(keys, 1.0, k.as_mut_ptr());
                if v % pages == 0 {
                    machine::pack_values(values, pages, 1.0, v_.as_mut_ptr());
                }
            }
            (tile.keys[v], tile.values.0[v]) = (k.as_ptr(), v_.as_ptr());
        }
    }

    /// The scores of these queries of the part, in whole blocks of sixteen, `[rows, 64]`.
    ///
    /// # Safety
    /// The tile is loaded; `scores` has room for whole blocks.
    pub unsafe fn dots(&self, call: &Attention<'_>, tile: &Tile, rows: Range<usize>, scores: &mut [f32]) {
        let (first, count) = (rows.start, rows.len());
        let (pairs, steps) = (depth(call.op.size) / 2, depth(call.op.size) / DEPTH);
        if self.shape == Queries::Single {
            let pages = &tile.keys[..tile.live.div_ceil(PAGE)];
            // SAFETY: the caller's promise; the scratch has the registers for one query.
            unsafe { self.registers.dots_of_one(self.queries.as_ptr(), pages, steps, scores.as_mut_ptr()) };
            return;
        }
        // A page that is not there gives scores that nobody sees.
        let keys = tile.keys.map(|keys| if keys.is_null() { tile.keys[0] } else { keys });
        for block in (0..count).step_by(BLOCK) {
            let (queries, stride) = match self.rows {
                Some(HeadRows { start, stride, .. }) if block + BLOCK <= count => {
                    (start.wrapping_add((first + block) * stride), stride)
                }
                _ => (self.queries[(first + block) * pairs..].as_ptr(), pairs),
            };
            let out = scores[block * TILE..][..BLOCK * TILE].as_mut_ptr();
            // SAFETY: the caller's promise; the scratch has the registers.
            unsafe { self.registers.dots(queries, stride, keys, steps, out) };
        }
    }
}

/// Mixtures that terms times values are added to.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // no machine reads it
#[derive(Clone, Copy)]
struct Mixtures {
    /// The first.
    start: *mut f32,
    /// From one to the next.
    stride: usize,
    /// Whether they are overwritten: then they are anything.
    overwrite: bool,
}

/// What a block of queries has gathered so far.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // no machine reads all of it
pub(super) struct Gathered<'a> {
    /// The level of each.
    pub levels: &'a mut [f32],
    /// The sums of terms, `[rows, 16]`.
    pub sums: &'a mut [f32],
    /// The mixtures, `[BLOCK, stride]`.
    pub mixed: &'a mut [f32],
    pub stride: usize,
    /// Whether nothing was gathered: then mixtures are anything.
    pub is_empty: bool,
}

impl Gathered<'_> {
    /// Adds what a block of queries sees of a stretch. `terms` is a place for [`terms`] pairs.
    ///
    /// # Safety
    /// The scorer has taken the registers, for `shape`.
    pub unsafe fn add(
        &mut self,
        call: &Attention<'_>,
        block: &ScoredBlock<'_>,
        shape: Queries,
        terms: &mut [f32],
    ) {
        let panels = call.op.size.div_ceil(LANES);
        debug_assert!(terms.len() >= self::terms() && self.mixed.len() >= block.rows.len() * self.stride);
        let mut pages = [std::ptr::null(); TILES * VECTORS];
        for (tile, pages) in block.tiles.iter().zip(pages.chunks_exact_mut(VECTORS)) {
            pages.copy_from_slice(&tile.values.0);
        }
        let first = block.seen.start / shape.pages() * shape.pages();
        // SAFETY: the caller's promise.
        unsafe {
            machine::online_softmax(block, self, terms.as_mut_ptr());
            let from = machine::Terms {
                first: terms.as_ptr().add(first * LANES / 2),
                values: &pages[first..block.seen.end],
                pages: shape.pages(),
            };
            let mixed =
                Mixtures { start: self.mixed.as_mut_ptr(), stride: self.stride, overwrite: self.is_empty };
            match shape {
                Queries::Single => machine::mix_of_one(&from, mixed, panels),
                Queries::Blocks | Queries::Deep => machine::mix(&from, mixed, panels),
            }
        }
    }
}

/// Pairs of the terms of a block of queries and a stretch.
pub(super) const fn terms() -> usize {
    BLOCK * TERMS
}

/// Some rows times `scale`: `[rows, depth / 2]` pairs.
///
/// # Safety
/// The machine has AMX; the rows are valid for reads.
pub(super) unsafe fn pack_rows(rows: HeadRows, scale: f32, to: &mut [f32]) {
    let pairs = depth(rows.size) / 2;
    debug_assert!(to.len() >= rows.count * pairs);
    // SAFETY: the caller's promise; there are as many pairs as the rows need.
    unsafe { machine::quantize_rows(rows, scale, to.as_mut_ptr(), pairs) };
}

/// Where head number `head` begins in a row, in units of `f32`.
fn place_of(call: &Attention<'_>, head: usize) -> usize {
    let at = head * call.op.size;
    if call.is_bf16 { at / 2 } else { at }
}

/// Up to sixteen low-precision keys, whose stride is in pairs, as a page, transposed.
///
/// # Safety
/// They are valid for reads.
unsafe fn transpose_keys(isa: Isa, keys: HeadRows, to: &mut [f32]) {
    let HeadRows { start, stride, count, size } = keys;
    let pairs = depth(size) / 2;
    debug_assert!(to.len() >= key_pairs(size));
    // SAFETY: the caller's promise; a page has room for sixteen keys in `bf16`.
    unsafe { dispatch!(isa, |L| L::transpose(start, stride as isize, 0..count, pairs, to.as_mut_ptr())) };
}

/// Writes keys and values to a page, as many of each, from row `first` on.
///
/// What is beyond them in a page that begins here becomes zero: a product reads it, and zero times what another sequence left
/// there might not be zero.
///
/// # Safety
/// Keys and values are valid for reads, the page for writes; nobody else uses it.
pub(super) unsafe fn store(keys: HeadRows, values: HeadRows, first: usize, page: KeysAndValues) {
    let HeadRows { count, size, .. } = keys;
    let (pairs, value_page) = (depth(size) / 2, values_at(size, page));
    // SAFETY: the caller's promise; [`Form`] says that pages are large enough, and that the machine has AMX.
    unsafe {
        for i in 0..count {
            let (key, to) = (keys.start.add(i * keys.stride), page.keys.add((first + i) * pairs));
            machine::quantize_row(key, size, 1.0, to, pairs);
        }
        if first == 0 {
            return machine::pack_values(values, 1, 1.0, value_page);
        }
        for i in 0..count {
            let (value, row) = (values.start.add(i * values.stride), first + i);
            for (panel, d) in (0..size).step_by(LANES).enumerate() {
                let line = value_page.add(panel * PANEL + row / 2 * LANES);
                machine::merge(value.add(d), (size - d).min(LANES), row % 2, line);
            }
        }
    }
}

/// Copies the first `count` rows of a page's keys and values, and zeros behind them.
///
/// # Safety
/// `from` is a page that [`store`] wrote, `to` one that nobody else uses.
pub(super) unsafe fn copy(size: usize, count: usize, from: KeysAndValues, to: KeysAndValues) {
    let [from_values, to_values] = [from, to].map(|page| values_at(size, page));
    // Two rows share a line; where the second is none of these, the next row to be written takes its place.
    let whole = count.div_ceil(2) * LANES;
    // SAFETY: the caller's promise.
    unsafe {
        to.keys.copy_from_nonoverlapping(from.keys, count * depth(size) / 2);
        for panel in (0..value_pairs(size)).step_by(PANEL) {
            to_values.add(panel).copy_from_nonoverlapping(from_values.add(panel), whole);
            to_values.add(panel + whole).write_bytes(0, PANEL - whole);
        }
    }
}
