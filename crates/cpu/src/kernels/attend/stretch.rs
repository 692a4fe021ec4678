//! How many queries and keys are multiplied at once.

use std::ops::Range;

use super::mask::TILE;
use super::tile::Tile;

/// Tiles that a block of queries is multiplied by at once in `bf16`. The products take less time there than the softmax
/// between them, which is done once for all these keys.
pub(super) const TILES: usize = 4;
/// Keys of a stretch: of as many tiles, counted from key 0.
pub(super) const STRETCH: usize = TILES * TILE;
/// Queries that a stretch is multiplied by at once: their scores fit the first-level cache.
pub(super) const BLOCK: usize = 16;

/// A block of queries of a part, with a stretch.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // no machine reads all of it
pub(super) struct ScoredBlock<'a> {
    /// The tiles of the stretch that one of the part's queries sees.
    pub tiles: &'a [Tile],
    /// Which queries of the part.
    pub rows: Range<usize>,
    /// The vectors of keys, counted over these tiles, from the first to behind the last of which one of them sees something.
    pub seen: Range<usize>,
    /// Their scores there, `[tiles, BLOCK, 64]`, −∞ for what is not seen.
    pub scores: &'a [f32],
}
