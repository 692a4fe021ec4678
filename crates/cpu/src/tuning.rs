//! Numbers that were found by measuring, in one place. `bench/notebook` has the measurements.
//!
//! None of them changes a result but [`lowp::MAX_INTEGER_BLOCK`] and [`lowp::BF16_BEFORE_INT8`], which say how rows are quantized.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // some are about AMX

/// Products in `f32`.
pub(crate) mod gemm {
    /// The most rows that go through k together.
    pub(crate) const ROW_BLOCK: usize = 128;
    /// The most steps of k for which a row block of A is packed: 0.4 MB, which stay in L2.
    pub(crate) const MAX_DEPTH: usize = 768;
    /// The most steps of k between two visits to C: a sliver of so many is 74 KB.
    pub(crate) const MAX_BLOCK: usize = 384;
    /// Up to so many rows a product reads B once, as fast as memory gives it.
    pub(crate) const FEW_ROWS: usize = 8;
    /// The fewest rows of a tile, where there are more.
    pub(crate) const MIN_TILE_ROWS: usize = 32;
    /// The fewest slivers of a tile, where there are more: if A stays packed for the next one; if every tile packs it; and if its rows are columns
    /// in memory, which takes longest.
    pub(crate) const MIN_TILE_SLIVERS: [usize; 3] = [2, 4, 8];
    /// So many tiles for each worker keep all of them busy to the end.
    pub(crate) const TILES_PER_WORKER: usize = 8;
    /// Steps of k that a part of a B in rows has: so many rows are read at a time, each from end to end.
    pub(crate) const PACKED_STEPS: usize = 8;
    /// Numbers between strips: a line. Without them the same step of all strips wants the same place of the nearest cache.
    pub(crate) const STRIP_PADDING: usize = 16;
    /// Steps of k in one iteration of the loop. With one step a fifth of the instructions would count.
    pub(crate) const UNROLLED_STEPS: usize = 4;
    /// By how many steps B is prefetched before it is read, where it is read once: half a page of a sliver.
    pub(crate) const STREAM_PREFETCH_DISTANCE: usize = 10;
}

/// Products in low precision.
pub(crate) mod lowp {
    use std::ops::RangeInclusive;

    /// The most tiles of `bf16` along k between two visits to C, which cost as much as some tiles.
    pub(crate) const MAX_BF16_BLOCK: usize = 32;
    /// The most tiles of integers along k that have one scale in a row of A. Two strips of A that are so long stay in a cache of 48 KB.
    pub(crate) const MAX_INTEGER_BLOCK: usize = 16;
    /// The most rows of an item, in pairs of tiles.
    pub(crate) const MAX_ITEM_PAIRS: usize = 8;
    /// The most columns of an item, in units.
    pub(crate) const MAX_ITEM_UNITS: usize = 8;
    /// The same for one worker with AMX: B of a block and of the next one leave L2 room for A.
    pub(crate) const AMX_ITEM_UNITS: usize = 2;
    /// Up to so many rows of `int8`, vectors are a little faster than AMX.
    pub(crate) const FEW_INT8_ROWS: usize = 4;
    /// The same for `int4`.
    pub(crate) const FEW_INT4_ROWS: usize = 2;
    /// Below this many items, smaller ones keep more threads busy.
    pub(crate) const ENOUGH_ITEMS: usize = 32;
    /// But no item has fewer multiplications than these, two microseconds on AMX: each has tiles to configure, and a last patch whose epilogue
    /// nothing hides.
    pub(crate) const MIN_ITEM_WORK: usize = 2 << 20;
    /// A C of more numbers, 32 MB, is written past the caches. It would not stay in them until it is read.
    pub(crate) const STREAMING_ABOVE: usize = 8 << 20;
    /// So many rows take about as long to multiply by some units as the next units take to come from memory: these are prefetched meanwhile. Fewer
    /// rows read B from front to back and prefetch tiles shortly before they read them. With more rows the first do, and the others find B near.
    pub(crate) const PREFETCHING_ROWS: RangeInclusive<usize> = 9..=64;
    /// Tiles along k from which on that pays: shorter products finish their sums too often.
    pub(crate) const PREFETCHING_TILES: usize = 8;
    /// Units at a time then. They are near beside as many that come next.
    pub(crate) const PREFETCHED_UNITS: usize = 4;
    /// How often at least the sums of a patch pass along its tiles. Each time something is prefetched.
    pub(crate) const PREFETCHING_PASSES: usize = 4;
    /// Steps along k that are unpacked from `int4` at once for one strip: sixteen tiles.
    pub(crate) const UNPACKED_STEPS: usize = 4;
    /// Up to so many rows, AVX-VNNI multiplies codes of `int4` as they are. That takes less than unpacking them to memory.
    pub(crate) const FEW_CODED_ROWS: usize = 4;
    /// How many steps before they are multiplied AMX unpacks tiles of `int4`: what was just written cannot be loaded at once.
    pub(crate) const UNPACKING_DISTANCE: usize = 2;
    /// Steps whose tiles stay unpacked where one strip is all that needs them.
    pub(crate) const UNPACKED_RING: usize = 4;
    /// By how many tiles AMX prefetches B before it reads it, for few rows. The processor's own prefetching begins anew with
    /// each page.
    pub(crate) const AMX_PREFETCH_DISTANCE: usize = 12;
    /// The same for vectors, and lines of B that are read for the first time.
    pub(crate) const VECTOR_PREFETCH_DISTANCE: usize = 2;
    /// Lines in one iteration of the loop. With one line a fifth of the instructions would count.
    pub(crate) const UNROLLED_LINES: usize = 4;
    /// By how many pairs of tiles codes of `int4` are prefetched before they are read.
    pub(crate) const INT4_PREFETCH_DISTANCE: usize = 2;
    /// Rows so long are rounded to `bf16` before they become integers. The product that writes them then writes half the bytes. Shorter rows stay in
    /// the cache as they are. Longer ones mostly come from products with more than one block of k, which write `f32` anyway.
    pub(crate) const BF16_BEFORE_INT8: RangeInclusive<usize> = 2049..=4096;
}

/// Products of coded weights.
pub(crate) mod coded {
    /// The most rows of an item.
    pub(crate) const MAX_ITEM_ROWS: usize = 128;
    /// By how many bytes codes are prefetched before they are read: half a page.
    pub(crate) const PREFETCH_DISTANCE: usize = 2048;
    /// Steps of k whose codes are unpacked at once for AMX: 16 KB of them.
    pub(crate) const UNPACKED_STEPS: usize = 1024;
}

/// Other kernels.
pub(crate) mod kernels {
    /// The most columns of a gate and of what it gates at a time, where they do not have to end with a block. Both stay in the cache.
    pub(crate) const GATED_COLUMNS: usize = 1024;
    /// Numbers in an item: sixteen kilobytes, a microsecond or two of work. Drawing an item costs tens of nanoseconds.
    pub(crate) const ITEM_NUMBERS: usize = 4096;
    /// Columns in an item of a sum over rows: a few cache lines of every row.
    pub(crate) const ITEM_COLUMNS: usize = 64;
    /// By how many numbers a search for the largest prefetches before it reads: two pages. The processor by itself looks no
    /// farther than the end of one.
    pub(crate) const SEARCH_PREFETCH_DISTANCE: usize = 2048;
    /// Multiplications in a unit of effort.
    pub(crate) const MULTIPLICATIONS: usize = 10;
    /// How many low-precision weights are read in the time of one in `f32`.
    pub(crate) const LOWP_SPEEDUP: usize = 3;
    /// Rows in low precision that are multiplied while their weights are read: on AMX, and on vectors.
    pub(crate) const LOWP_ROWS: [usize; 2] = [32, 16];
}

/// Attention.
pub(crate) mod attend {
    /// The most queries of a part. The keys of a tile are transposed or packed once for each part that sees them: at 128 queries that is some five
    /// percent of the work. More would save little, and leave fewer parts to share.
    pub(crate) const QUERIES: usize = 128;
    /// The most queries that meet a tile at once: their scores fit L1 beside the tile.
    pub(crate) const TILE_QUERIES: usize = 24;
    /// The same in `bf16`: two blocks of rows.
    pub(crate) const TILE_QUERIES_BF16: usize = 32;
    /// So many queries are worth a copy of the keys and values that they meet.
    pub(crate) const COPYING_QUERIES: usize = 16;
    /// The most queries of a part of the gradient: their scores, gradients and rows fit L1 two at a time.
    pub(crate) const GRAD_QUERIES: usize = 48;
    /// Rows of gradients that are set to zero at once.
    pub(crate) const ZEROED_ROWS: usize = 256;
}
