//! The two products of attention on AMX: queries, keys, probabilities and values in `bf16`, sums in `f32`.
//!
//! Sixteen keys or values make a *page*, whether they lie in one or are packed from rows. Numbers are held in words of two: of
//! a key, two neighbours; of values, the same number of two neighbours.
//!
//! - A stored page of keys is `[16 keys, depth / 2]` words, the depth filled up with zeros to whole tiles: a key is written
//!   at one place. As it is, it is multiplied by a single query, keys · query. For several queries it is *turned* first, to
//!   `[depth / 2, 16 keys]`, and they are multiplied by it, queries · keysᵀ. Both add the same products in the same order.
//! - A page of values is `[panels, 8 pairs of values, 16 numbers]` words, stored behind its keys where both have room.
//!
//! A row of scores or mixtures depends on its own query alone, whatever is in the other rows of a tile; so the bits are the
//! same however queries are cut. The softmax between the products is that of `f32`.

use glassformer_graph::PAGE;
use glassformer_graph::ops::{Attend, KeySpan, Keys};

use super::machine::Machine;
use super::sight::{TILE, vectors};
use super::tile::{Call, Part, Tile, VECTORS, group};
use super::walk::Few;
use crate::context::Context;
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::LANES;
use crate::narrow::Dot;

#[cfg_attr(target_arch = "x86_64", path = "tiles/amx.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "tiles/none.rs")]
mod machine;

/// Numbers of a query or a key that one tile holds.
const DEPTH: usize = 32;
/// Rows that are multiplied at once.
const ROWS: usize = 16;
/// Words of a page of one panel of values.
const PANEL: usize = PAGE / 2 * LANES;

/// Whether heads of this size are multiplied on tiles. Both who stores pages and who reads them ask this.
pub(super) fn used(run: &Context<'_>, size: usize) -> bool {
    // Smaller heads would need more room in a page than they have.
    run.tiles && run.dot == Dot::Amx && size >= LANES
}

/// The numbers of a query or a key, in whole tiles.
fn depth(size: usize) -> usize {
    size.next_multiple_of(DEPTH)
}

/// Words of a page of keys.
fn key_words(size: usize) -> usize {
    depth(size) / 2 * PAGE
}

/// Words of a page of values.
fn value_words(size: usize) -> usize {
    size.div_ceil(LANES) * PANEL
}

/// Where a page of values is, if its keys are at `keys` and the page of wide values at `values`: together they are read
/// together.
pub(super) fn values_at(size: usize, keys: *mut f32, values: *mut f32) -> *mut f32 {
    if key_words(size) + value_words(size) <= size * PAGE {
        keys.wrapping_add(key_words(size))
    } else {
        values
    }
}

/// How many queries the registers are configured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queries {
    /// Blocks of sixteen.
    Blocks,
    /// One in each part: all sequences go on by one row, and no heads share a key.
    Single,
}

impl Queries {
    fn of(call: &Call<'_>) -> Self {
        let stored = matches!(call.op.keys, Keys::Pages(..));
        let single = call.run.batch.side(call.op.side).spans.iter().all(|span| span.len == 1);
        if stored && single && group(call.op) == 1 { Self::Single } else { Self::Blocks }
    }
}

/// What a worker needs for parts of `queries` queries, in words.
pub(super) fn length(op: &Attend, queries: usize) -> usize {
    let pages = VECTORS * (key_words(op.size) + value_words(op.size));
    queries.next_multiple_of(ROWS) * depth(op.size) / 2 + pages
}

/// Where a worker keeps what it multiplies.
pub(super) struct Desk<'s> {
    /// The queries of the part times the scale, `[queries, depth / 2]`.
    queries: &'s mut [f32],
    /// Which registers there are.
    pub shape: Queries,
    /// Pages turned, or packed from rows.
    keys: &'s mut [f32],
    values: &'s mut [f32],
    /// The registers, for as long as there is a desk.
    registers: machine::Registers,
}

impl<'s> Desk<'s> {
    /// On [`length`] words, where tiles are used.
    pub fn new(call: &Call<'_>, words: &'s mut [f32]) -> Option<Self> {
        if !used(call.run, call.op.size) {
            return None;
        }
        let (size, shape) = (call.op.size, Queries::of(call));
        let (keys, words) = words.split_at_mut(VECTORS * key_words(size));
        let (values, words) = words.split_at_mut(VECTORS * value_words(size));
        Some(Self {
            queries: words,
            shape,
            keys,
            values,
            // SAFETY: the planner saw that the machine has AMX.
            registers: unsafe { machine::Registers::take(shape) },
        })
    }

    /// Takes the queries of a part, `[count, size]`.
    pub fn set_queries(&mut self, call: &Call<'_>, part: &Part, queries: &[f32]) {
        let (size, words) = (call.op.size, depth(call.op.size) / 2);
        for (query, to) in
            queries.chunks_exact(size).take(part.count()).zip(self.queries.chunks_exact_mut(words))
        {
            // SAFETY: a query has `size` numbers, and there are as many words as its depth needs.
            unsafe { machine::narrow_row((query.as_ptr(), size), call.op.scale, (to.as_mut_ptr(), words)) };
        }
    }

    /// Brings the keys and values of `tile` into the form in which they are multiplied.
    ///
    /// # Safety
    /// Keys and values are valid for reads.
    pub unsafe fn load(&mut self, call: &Call<'_>, tile: &mut Tile, keys: &KeySpan, head: usize) {
        let Call { op, inputs, run } = *call;
        for v in 0..tile.live.div_ceil(LANES) {
            let (k, v_) =
                (&mut self.keys[v * key_words(op.size)..], &mut self.values[v * value_words(op.size)..]);
            let Keys::Rows(_) = op.keys else {
                let stored = (tile.keys[v].cast_mut(), tile.values.0[v].cast_mut());
                tile.values.0[v] = values_at(op.size, stored.0, stored.1);
                if self.shape == Queries::Blocks {
                    // SAFETY: a page that holds one of the sequence's keys is there as a whole.
                    unsafe { turn_keys(run.isa, tile.keys[v], op.size, k) };
                    tile.keys[v] = k.as_ptr();
                }
                continue;
            };
            let (j, width) = (tile.start + v * LANES, inputs[1].width);
            let count = (keys.end - j).min(PAGE);
            let at = (keys.place + j) * width + head * op.size;
            // SAFETY: keys up to the sequence's end are rows of both inputs.
            unsafe {
                let (keys, values) = (inputs[1].data.add(at), inputs[2].data.add(at));
                pack_keys(run.isa, (keys, width, count), op.size, k);
                pack_values((values, width, count), op.size, v_);
            }
            (tile.keys[v], tile.values.0[v]) = (k.as_ptr(), v_.as_ptr());
        }
    }

    /// The scores of the queries from `first` on, in whole blocks of sixteen, `[rows, 64]`.
    ///
    /// # Safety
    /// The tile is loaded; `scores` has room for whole blocks.
    pub unsafe fn dots(
        &self,
        call: &Call<'_>,
        tile: &Tile,
        (first, count): (usize, usize),
        scores: &mut [f32],
    ) {
        let (words, steps) = (depth(call.op.size) / 2, depth(call.op.size) / DEPTH);
        if self.shape == Queries::Single {
            let pages = &tile.keys[..tile.live.div_ceil(PAGE)];
            // SAFETY: the caller's promise; the desk has the registers for one query.
            unsafe { self.registers.dots_of_one(self.queries.as_ptr(), pages, steps, scores.as_mut_ptr()) };
            return;
        }
        // A page that is not there gives scores that nobody sees.
        let keys = tile.keys.map(|keys| if keys.is_null() { tile.keys[0] } else { keys });
        for block in (0..count).step_by(ROWS) {
            let queries = self.queries[(first + block) * words..].as_ptr();
            let out = scores[block * TILE..][..ROWS * TILE].as_mut_ptr();
            // SAFETY: the caller's promise; the desk has the registers.
            unsafe { self.registers.dots((queries, words), keys, steps, out) };
        }
    }
}

/// Adds to the mixtures of a few queries what they see of the tile, whose terms [`soften`] has made.
///
/// # Safety
/// The registers are taken; `mixed` are rows of `stride` numbers, in whole blocks of sixteen.
pub(super) unsafe fn mix(
    call: &Call<'_>,
    few: &Few<'_>,
    (shape, terms): (Queries, &[f32]),
    (mixed, stride): (*mut f32, usize),
) {
    let (pages, panels) = (few.tile.live.div_ceil(PAGE), call.op.size.div_ceil(LANES));
    // SAFETY: the caller's promise.
    unsafe {
        if shape == Queries::Single {
            return machine::mix_of_one(terms.as_ptr(), &few.tile.values.0[..pages], mixed, panels);
        }
        for block in (0..few.rows.len()).step_by(ROWS) {
            let terms = terms[block * TILE / 2..].as_ptr();
            let mixed = mixed.add(block * stride);
            machine::mix(terms, &few.tile.values.0[..pages], (mixed, stride), panels);
        }
    }
}

/// Words of the terms of `rows` rows.
pub(super) const fn terms(rows: usize) -> usize {
    rows * TILE / 2
}

/// From scores to terms of the softmax, exp(score − level), in words; zero where a row sees nothing. They are added to the sums
/// of their rows, `[rows, 16]`.
///
/// `terms` has room for the rows of [`Few`], in whole blocks.
///
/// # Safety
/// The machine has AMX.
pub(super) unsafe fn soften(few: &Few<'_>, (levels, sums): (&[f32], &mut [f32]), terms: &mut [f32]) {
    // What no row sees was not computed.
    let touched = vectors(few.seen);
    let rows = few.scores.chunks_exact(TILE).zip(terms.chunks_exact_mut(TILE / 2));
    let gathered = levels.iter().zip(sums.chunks_exact_mut(LANES)).zip(&*few.seen);
    for ((scores, to), ((&level, sums), &seen)) in rows.zip(gathered) {
        let touched = if seen == 0 { 0..0 } else { touched.clone() };
        // SAFETY: the caller's promise; there are sixty-four scores, as many halves of words, and sixteen sums.
        unsafe { machine::soften(scores.as_ptr(), (touched, level), sums.as_mut_ptr(), to.as_mut_ptr()) };
    }
}

/// Up to sixteen keys of `size` numbers, `stride` apart, as a page.
///
/// # Safety
/// The machine has AMX; the keys are valid for reads.
unsafe fn pack_keys(
    isa: Isa,
    (from, stride, count): (*const f32, usize, usize),
    size: usize,
    to: &mut [f32],
) {
    let mut narrowed = [0.0; PAGE * LANES];
    for (d, lines) in (0..size).step_by(DEPTH).zip(to.chunks_exact_mut(PAGE * LANES)) {
        let some = (size - d).min(DEPTH);
        // SAFETY: the caller's promise; a tile of keys is sixteen lines of sixteen words.
        unsafe {
            for (key, words) in narrowed.chunks_exact_mut(LANES).take(count).enumerate() {
                machine::narrow_row((from.add(key * stride + d), some), 1.0, (words.as_mut_ptr(), LANES));
            }
            let (from, to) = (narrowed.as_ptr(), lines.as_mut_ptr());
            dispatch!(isa, |L| L::turn(from, LANES as isize, 0..count, LANES, to));
        }
    }
}

/// A stored page of keys, turned.
///
/// # Safety
/// The page is valid for reads.
unsafe fn turn_keys(isa: Isa, from: *const f32, size: usize, to: &mut [f32]) {
    let words = depth(size) / 2;
    debug_assert!(to.len() >= key_words(size));
    // SAFETY: the caller's promise; a page has sixteen keys of `words` words.
    unsafe { dispatch!(isa, |L| L::turn(from, words as isize, 0..PAGE, words, to.as_mut_ptr())) };
}

/// Up to sixteen values of `size` numbers, `stride` apart, as a page.
///
/// # Safety
/// The machine has AMX; the values are valid for reads.
unsafe fn pack_values((from, stride, count): (*const f32, usize, usize), size: usize, to: &mut [f32]) {
    debug_assert!(to.len() >= value_words(size));
    for pair in 0..PAGE / 2 {
        let row = |row: usize| if row < count { from.wrapping_add(row * stride) } else { std::ptr::null() };
        for (panel, d) in (0..size).step_by(LANES).enumerate() {
            let some = (size - d).min(LANES);
            // SAFETY: the caller's promise; what is null is not read.
            unsafe {
                let to = to.as_mut_ptr().add(panel * PANEL + pair * LANES);
                machine::narrow_pair([row(2 * pair), row(2 * pair + 1)], (d, some), to);
            }
        }
    }
}

/// Writes rows `first..first + count` of a page, whose keys and values begin at `from` and are `stride` apart.
///
/// What is beyond them in a page that begins here becomes zero: a product meets it, and zero times what another sequence left
/// there might not be zero.
///
/// # Safety
/// Keys and values are valid for reads, the page for writes; nobody else uses it.
pub(super) unsafe fn store(
    size: usize,
    (first, count): (usize, usize),
    (keys, values, stride): (*const f32, *const f32, usize),
    (key_page, value_page): (*mut f32, *mut f32),
) {
    let (words, value_page) = (depth(size) / 2, values_at(size, key_page, value_page));
    // SAFETY: the caller's promise; `used` says that pages are large enough, and that the machine has AMX.
    unsafe {
        for i in 0..count {
            let key = (keys.add(i * stride), size);
            machine::narrow_row(key, 1.0, (key_page.add((first + i) * words), words));
        }
        if first == 0 {
            let page = std::slice::from_raw_parts_mut(value_page, value_words(size));
            return pack_values((values, stride, count), size, page);
        }
        for i in 0..count {
            let (value, row) = (values.add(i * stride), first + i);
            for (panel, d) in (0..size).step_by(LANES).enumerate() {
                let line = value_page.add(panel * PANEL + row / 2 * LANES);
                machine::merge(value.add(d), (size - d).min(LANES), row % 2, line);
            }
        }
    }
}
