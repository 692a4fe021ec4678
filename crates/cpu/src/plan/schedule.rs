//! Who takes which blocks of rows, and from how many rows on.

use glassformer_graph::{Capacity, Graph, Node, Op, Precision, Rows, Side};

use super::row_blocks::{self, LONGEST, LOW_STRIP, LOWP_ROWS, ROWS, STRIP};
use crate::kernels::Kernel;
use crate::lowp::Dot;

/// What somebody asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    /// Workers that there are.
    pub workers: usize,
    /// Rows that a worker takes at once.
    pub rows: Option<usize>,
    /// To go by layers, whatever the weights.
    pub by_layers: bool,
}

/// Who takes which blocks of rows.
#[derive(Clone, Copy)]
pub(super) struct Schedule {
    pub workers: usize,
    /// How many rows each takes at once.
    pub rows: usize,
    /// So many rows for each are worth it.
    least: usize,
    /// Rows that products take together.
    strip: usize,
    /// Whether an encoder's attention is part of a region, and blocks hold whole sequences.
    sequences: bool,
    /// Whether all sequences then go through one layer before any goes through the next.
    pub by_layers: bool,
    /// Whether blocks are whole tiles of rows, so that rows rounded to `bf16` can be read outside of a region.
    pub by_tiles: bool,
}

impl Schedule {
    /// For this graph, and for fewer rows where that is another schedule, with the capacity of those.
    pub fn of(
        graph: &Graph,
        capacity: &Capacity,
        asked: Asked,
        precision: Precision,
        dot: Dot,
    ) -> (Self, Option<(Self, Capacity)>) {
        let Asked { workers, rows, by_layers } = asked;
        let fast = precision != Precision::F32 && dot == Dot::Amx;
        let usual = if fast { LOWP_ROWS } else { ROWS };
        let worth = if precision == Precision::F32 { ROWS } else { worth(graph) };
        let by_layers = by_layers || bytes(graph, precision) > NEAR;
        // What is kept for the way back is kept quantized, and tiles do not end where sequences do.
        let by_tiles = precision == Precision::Bf16 && has_gradients(graph);
        let tiles = |rows: usize| if by_tiles { rows.next_multiple_of(STRIP) } else { rows };
        let apart = Self {
            workers,
            rows: tiles(rows.unwrap_or(usual)),
            least: rows.unwrap_or(worth),
            strip: if fast || by_tiles { STRIP } else { LOW_STRIP },
            sequences: false,
            by_layers,
            by_tiles,
        };
        let short =
            |side: &Side| !by_tiles && capacity.side(*side).keys <= LONGEST && looks_at_itself(graph, *side);
        let sides = [Side::Source, Side::Target].into_iter().filter(short);
        let Some(longest) = sides.map(|side| capacity.side(side).keys).max() else { return (apart, None) };
        // Near weights in eight bits come as fast as fewer rows want them, whose numbers stay nearer. Twice as many bytes do not, and four
        // bits would have to be unpacked twice as often.
        let usual = if precision == Precision::Int8 && !by_layers { ROWS } else { usual };
        let whole = Self {
            rows: rows.unwrap_or(usual).max(longest),
            least: rows.unwrap_or(ROWS).max(longest),
            sequences: true,
            ..apart
        };
        // What whole sequences are not worth it for.
        let mut few = *capacity;
        for side in [&mut few.source, &mut few.target] {
            side.rows = side.rows.min(workers * whole.least);
            side.picked = side.picked.min(side.rows);
            side.sequences = side.sequences.min(side.rows);
        }
        let apart = Self { rows: apart.rows.min(whole.least), ..apart };
        (whole, (apart.least < whole.least).then_some((apart, few)))
    }

    /// Whether a run of so many rows goes by blocks.
    pub fn has_blocks(self, rows: usize) -> bool {
        rows > self.workers * self.least
    }

    /// The blocks of so many rows: how many rows each has, and how many there are.
    pub fn blocks(self, rows: usize, workers: usize) -> (usize, usize) {
        row_blocks::divide(rows, workers, self.rows, self.strip)
    }

    /// How many rows of whole sequences each of them takes at once: as many sequences as fit, which low strips would cut too close.
    pub fn rows_of_sequences(self, rows: usize, workers: usize) -> usize {
        row_blocks::divide(rows, workers, self.rows, STRIP).0
    }

    /// Whether workers take whole sequences of this side through its attentions: they are so short that there is room.
    pub fn takes_sequences(self, capacity: &Capacity, side: Side) -> bool {
        self.sequences && capacity.side(side).keys <= LONGEST
    }
}

/// Whether the sequences of this side look at themselves in a step that goes by sequences.
fn looks_at_itself(graph: &Graph, side: Side) -> bool {
    let of_side = |op: &Op| Kernel::Op(op.clone()).by_sequences() == Some(side);
    graph.nodes().iter().any(|node| of_side(&node.op))
}

/// Whether weights are differentiated.
fn has_gradients(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| matches!(node.op, Op::LinearWeightGrad(_)))
}

/// How many rows are worth it for a worker.
///
/// Workers that share the columns of a product move its rows between their caches; workers that share the rows all read all of its
/// weights. So it depends on how many weights there are for each number of a row. A model of width 384 won from 48 rows on, by 1.4
/// times with 128; one of width 768 from about 64 rows on, by 1.2 times.
fn worth(graph: &Graph) -> usize {
    const SHARE: usize = 17;
    let outputs = graph.nodes().iter().flat_map(|node| &node.outputs).map(|&output| graph.shape(output));
    let numbers: usize = outputs.filter(|shape| by_row(shape.rows)).map(|shape| shape.width).sum();
    (weights(graph) / (1 + numbers) / SHARE).clamp(LEAST, ROWS)
}

/// Weights of all products that every row goes through.
fn weights(graph: &Graph) -> usize {
    let of_node = |node: &Node| {
        let (x, y) = (graph.shape(node.inputs[0]), graph.shape(node.outputs[0]));
        if by_row(y.rows) { x.width * y.width } else { 0 }
    };
    graph.nodes().iter().filter(|node| matches!(node.op, Op::Linear(_))).map(of_node).sum()
}

/// Bytes that they take, about.
fn bytes(graph: &Graph, precision: Precision) -> usize {
    match precision {
        Precision::F32 => 4 * weights(graph),
        Precision::Bf16 => 2 * weights(graph),
        Precision::Int8 | Precision::Stored => weights(graph),
        Precision::Int4 => weights(graph) / 2,
    }
}

fn by_row(rows: Rows) -> bool {
    matches!(rows, Rows::Tokens(_))
}

/// Bytes of weights that stay in the last cache from one block to the next. 85 MB won by 1.1 times by going layer by layer, 170 MB by
/// 1.2 times; 11 MB lost 3 % by what goes from layer to layer.
const NEAR: usize = 32 << 20;

/// Fewer rows than these are less than the tiles of a product take at once.
const LEAST: usize = 16;
