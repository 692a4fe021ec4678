//! What a plan holds that never changes: weights, packed or as they are, and tables of sines and cosines.

use glassformer_graph::ops::{Rotate, Sinusoid};
use glassformer_graph::{Error, Graph, Value};
use glassformer_tensor::Buffer;

use crate::gemm::Packed;
use crate::kernels::{Packs, position};

/// Something to hold, not yet made.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// A weight as it is.
    Plain(Value),
    /// A weight as the B of a product.
    Packed(Value, Packs),
    /// The rows of this sinusoid for so many positions.
    Sinusoid(Sinusoid, usize),
    /// The angles of these turns, which do not depend on a sequence's length, for so many positions.
    Turns(Rotate, usize),
}

/// Something held.
pub(super) enum Constant {
    Plain(Buffer),
    Packed(Packed),
}

impl Constant {
    /// Its first number.
    pub fn address(&self) -> *const f32 {
        match self {
            Self::Plain(buffer) => buffer.as_ptr(),
            Self::Packed(packed) => packed.as_ptr(),
        }
    }
}

/// Makes all that is wanted. Each weight is read once, checked, and kept only in the forms that are used.
pub(super) fn make(
    wanted: &[Wanted],
    graph: &Graph,
    weights: &dyn glassformer_graph::Constants,
) -> Result<Vec<Constant>, Error> {
    let mut made: Vec<Option<Constant>> = wanted.iter().map(table).collect();
    graph.read_weights(weights, |value, data| {
        for (wanted, made) in wanted.iter().zip(&mut made) {
            if let Some(constant) = weight(wanted, graph, value, &data) {
                *made = Some(constant);
            }
        }
    })?;
    // Every weight of a graph is read, so nothing is missing here.
    Ok(made.into_iter().flatten().collect())
}

fn weight(wanted: &Wanted, graph: &Graph, value: Value, data: &[f32]) -> Option<Constant> {
    match *wanted {
        Wanted::Plain(of) if of == value => Some(Constant::Plain(Buffer::from(data))),
        Wanted::Packed(of, packs) if of == value => {
            let width = graph.shape(value).width;
            let rows = data.len() / width.max(1);
            Some(Constant::Packed(match packs {
                Packs::Transposed => Packed::from_weight(data, rows, width),
                Packs::Rows => Packed::from_rows(data, rows, width),
            }))
        }
        Wanted::Plain(_) | Wanted::Packed(..) | Wanted::Sinusoid(..) | Wanted::Turns(..) => None,
    }
}

fn table(wanted: &Wanted) -> Option<Constant> {
    match wanted {
        Wanted::Plain(_) | Wanted::Packed(..) => None,
        Wanted::Sinusoid(op, positions) => {
            let mut table = Buffer::zeros(positions * op.width);
            for (p, row) in table.chunks_exact_mut(op.width.max(1)).enumerate() {
                position::sinusoid_row(op, op.start + p, row);
            }
            Some(Constant::Plain(table))
        }
        Wanted::Turns(op, positions) => {
            let mut table = Buffer::zeros(positions * op.turning);
            for (p, row) in table.chunks_exact_mut(op.turning.max(1)).enumerate() {
                position::turns_row(op, p, 0, row);
            }
            Some(Constant::Plain(table))
        }
    }
}
