//! What a plan holds that never changes: weights, packed or as they are, and tables of sines and cosines.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use glassformer_graph::ops::{Rotate, Sinusoid};
use glassformer_graph::{Error, Graph, Value};
use glassformer_tensor::Buffer;

use crate::gemm::Packed;
use crate::kernels::{Packs, position};
use crate::narrow::{Format, Weight};

/// Something to hold, not yet made.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// A weight as it is.
    Plain(Value),
    /// A weight as the B of a product.
    Packed(Value, Packs),
    /// A weight `[out, in]` as the narrow B of a product.
    Narrow(Value, Format),
    /// The rows of this sinusoid for so many positions.
    Sinusoid(Sinusoid, usize),
    /// The angles of these turns, which do not depend on a sequence's length, for so many positions.
    Turns(Rotate, usize),
}

/// Something held.
pub(super) enum Constant {
    Plain(Buffer),
    Packed(Packed),
    Narrow(Weight),
}

impl Constant {
    /// Its first number.
    pub fn address(&self) -> *const f32 {
        match self {
            Self::Plain(buffer) => buffer.as_ptr(),
            Self::Packed(packed) => packed.as_ptr(),
            Self::Narrow(weight) => weight.as_ptr(),
        }
    }
}

/// What plans of the same weights share: an encoder's plan and its decoder's, or one with more room than the one before.
/// Only what some plan still holds is here.
#[derive(Default)]
pub(super) struct Shelf {
    held: Mutex<HashMap<Label, Weak<Constant>>>,
}

/// Which weights, which of them, in which form.
type Label = (u64, String, Form);

/// The forms of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Plain,
    Packed(Packs),
    Narrow(Format),
}

impl Shelf {
    fn find(&self, label: &Label) -> Option<Arc<Constant>> {
        self.held().get(label)?.upgrade()
    }

    fn put(&self, label: Label, constant: &Arc<Constant>) {
        let mut held = self.held();
        held.retain(|_, constant| constant.strong_count() > 0);
        held.insert(label, Arc::downgrade(constant));
    }

    /// Nothing is ever half done in here, so another thread's panic leaves it as good as it was.
    fn held(&self) -> MutexGuard<'_, HashMap<Label, Weak<Constant>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes all that is wanted and not yet on the `shelf`. Each weight is read once, checked, and kept only in the forms that are
/// used.
pub(super) fn make(
    wanted: &[Wanted],
    graph: &Graph,
    weights: &dyn glassformer_graph::Constants,
    shelf: &Shelf,
) -> Result<Vec<Arc<Constant>>, Error> {
    let label = |wanted: &Wanted| {
        let (value, form) = match wanted {
            Wanted::Plain(value) => (*value, Form::Plain),
            Wanted::Packed(value, packs) => (*value, Form::Packed(*packs)),
            Wanted::Narrow(value, format) => (*value, Form::Narrow(*format)),
            Wanted::Sinusoid(..) | Wanted::Turns(..) => return None,
        };
        Some((weights.identity()?, graph.info(value).name.clone(), form))
    };
    let found = |wanted: &Wanted| match label(wanted) {
        Some(label) => shelf.find(&label),
        None => table(wanted).map(Arc::new),
    };
    let mut made: Vec<Option<Arc<Constant>>> = wanted.iter().map(found).collect();
    // A weight in no form at all is read too: it is checked all the same.
    let done: HashSet<Value> = wanted
        .iter()
        .zip(&made)
        .filter(|(_, made)| made.is_some())
        .filter_map(|(wanted, _)| wanted.of())
        .collect();
    let open: HashSet<Value> = wanted
        .iter()
        .zip(&made)
        .filter(|(_, made)| made.is_none())
        .filter_map(|(wanted, _)| wanted.of())
        .collect();
    let unread = |value: Value| open.contains(&value) || !done.contains(&value);
    graph.read_wanted(weights, unread, |value, data| {
        for (wanted, made) in wanted.iter().zip(&mut made).filter(|(_, made)| made.is_none()) {
            if let Some(constant) = weight(wanted, graph, value, &data) {
                let constant = Arc::new(constant);
                if let Some(label) = label(wanted) {
                    shelf.put(label, &constant);
                }
                *made = Some(constant);
            }
        }
    })?;
    // Every weight of a graph is read, so nothing is missing here.
    Ok(made.into_iter().flatten().collect())
}

impl Wanted {
    /// The weight that it is made of.
    fn of(&self) -> Option<Value> {
        match self {
            Self::Plain(value) | Self::Packed(value, _) | Self::Narrow(value, _) => Some(*value),
            Self::Sinusoid(..) | Self::Turns(..) => None,
        }
    }
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
        Wanted::Narrow(of, format) if of == value => {
            let width = graph.shape(value).width;
            Some(Constant::Narrow(Weight::from_weight(format, data, data.len() / width.max(1), width)))
        }
        Wanted::Plain(_)
        | Wanted::Packed(..)
        | Wanted::Narrow(..)
        | Wanted::Sinusoid(..)
        | Wanted::Turns(..) => None,
    }
}

fn table(wanted: &Wanted) -> Option<Constant> {
    match wanted {
        Wanted::Plain(_) | Wanted::Packed(..) | Wanted::Narrow(..) => None,
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
