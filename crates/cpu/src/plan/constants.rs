//! What a plan holds that never changes: weights, packed or as they are, and tables of sines and cosines.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use glassformer_graph::ops::{Rotate, Sinusoid};
use glassformer_graph::{Constants, Error, Graph, Rows, Value, ValueInfo};
use glassformer_tensor::{Buffer, CodedRow, Coding, Integers};

use crate::gemm::Packed;
use crate::kernels::{Packs, position};
use crate::lowp::{Format, Table, Weight, coded};
use crate::team::Team;

/// Something to hold, not yet made.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// A weight as it is.
    Plain(Value),
    /// A weight as the B of a product.
    Packed(Value, Packs),
    /// A weight `[out, in]` as the low-precision B of a product.
    Lowp(Value, Format),
    /// A weight `[out, in]` in few bits.
    Coded(Value, Coding),
    /// A table in 8-bit integers, whose rows are looked up.
    Table(Value),
    /// The rows of this sinusoid for so many positions.
    Sinusoid(Sinusoid, usize),
    /// The angles of these rotations, which do not depend on a sequence's length, for so many positions.
    Angles(Rotate, usize),
}

/// Something held.
pub(super) enum Constant {
    Plain(Buffer),
    Packed(Packed),
    Lowp(Weight),
    Coded(coded::Weight),
    Table(Table),
}

impl Constant {
    /// Its first number.
    pub fn address(&self) -> *const f32 {
        match self {
            Self::Plain(buffer) => buffer.as_ptr(),
            Self::Packed(packed) => packed.as_ptr(),
            Self::Lowp(weight) => weight.as_ptr(),
            Self::Coded(weight) => weight.as_ptr(),
            Self::Table(table) => table.as_ptr(),
        }
    }
}

/// What plans of the same weights share: an encoder's plan and its decoder's, or one with more room than the one before.
/// Only what some plan still holds is here.
#[derive(Default)]
pub(super) struct ConstantCache {
    constants: Mutex<HashMap<Label, Weak<Constant>>>,
}

/// Which weights, which of them, in which form.
type Label = (u64, String, Form);

/// The forms of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Plain,
    Packed(Packs),
    Lowp(Format),
    Coded(Coding),
    Table,
}

impl ConstantCache {
    fn find(&self, label: &Label) -> Option<Arc<Constant>> {
        self.lock().get(label)?.upgrade()
    }

    fn put(&self, label: Label, constant: &Arc<Constant>) {
        let mut constants = self.lock();
        constants.retain(|_, constant| constant.strong_count() > 0);
        constants.insert(label, Arc::downgrade(constant));
    }

    /// Nothing is ever half done in here, so another thread's panic leaves it as good as it was.
    fn lock(&self) -> MutexGuard<'_, HashMap<Label, Weak<Constant>>> {
        self.constants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes all that is wanted and not yet in the `cache`. Each weight is read once, checked, and kept only in the forms that are
/// used; the team shares the weights.
pub(super) fn make(
    wanted: &[Wanted],
    graph: &Graph,
    weights: &dyn Constants,
    cache: &ConstantCache,
    team: &Team,
) -> Result<Vec<Arc<Constant>>, Error> {
    let label = |wanted: &Wanted| {
        let (value, form) = match wanted {
            Wanted::Plain(value) => (*value, Form::Plain),
            Wanted::Packed(value, packs) => (*value, Form::Packed(*packs)),
            Wanted::Lowp(value, format) => (*value, Form::Lowp(*format)),
            Wanted::Coded(value, coding) => (*value, Form::Coded(*coding)),
            Wanted::Table(value) => (*value, Form::Table),
            Wanted::Sinusoid(..) | Wanted::Angles(..) => return None,
        };
        Some((weights.identity()?, graph.info(value).name.clone(), form))
    };
    let found = |wanted: &Wanted| match label(wanted) {
        Some(label) => cache.find(&label),
        None => table(wanted).map(Arc::new),
    };
    let made: Vec<OnceLock<Arc<Constant>>> = wanted.iter().map(|_| OnceLock::new()).collect();
    for (wanted, made) in wanted.iter().zip(&made) {
        if let Some(constant) = found(wanted) {
            let _ = made.set(constant);
        }
    }
    let keep = |at: usize, constant: Constant| {
        let constant = Arc::new(constant);
        if let Some(label) = label(&wanted[at]) {
            cache.put(label, &constant);
        }
        let _ = made[at].set(constant);
    };
    let prepare = |value: Value| -> Result<(), Error> {
        let forms = || (0..wanted.len()).filter(|&at| wanted[at].of() == Some(value));
        let open = || forms().filter(|&at| made[at].get().is_none());
        for at in open() {
            if let Some(constant) = as_stored(&wanted[at], graph, weights)? {
                keep(at, constant);
            }
        }
        // A weight in no form at all is read too: it is checked all the same.
        if open().next().is_some() || forms().next().is_none() {
            let data = graph.read_weight(weights, value)?;
            for at in open() {
                if let Some(constant) = weight(&wanted[at], graph, &data) {
                    keep(at, constant);
                }
            }
        }
        Ok(())
    };
    let values = graph.weights();
    let errors: Vec<OnceLock<Error>> = values.iter().map(|_| OnceLock::new()).collect();
    team.run(&|worker| {
        worker.share(values.len(), |at| {
            if let Err(error) = prepare(values[at]) {
                let _ = errors[at].set(error);
            }
        });
    });
    match errors.into_iter().find_map(OnceLock::into_inner) {
        Some(error) => Err(error),
        // Every weight of a graph is read, so nothing is missing here.
        None => Ok(made.into_iter().filter_map(OnceLock::into_inner).collect()),
    }
}

impl Wanted {
    /// Whether it is a weight in less than `f32`.
    pub fn is_lowp(&self) -> bool {
        match self {
            Self::Lowp(..) | Self::Coded(..) | Self::Table(_) => true,
            Self::Plain(_) | Self::Packed(..) | Self::Sinusoid(..) | Self::Angles(..) => false,
        }
    }

    /// The weight that it is made of.
    fn of(&self) -> Option<Value> {
        match self {
            Self::Plain(value)
            | Self::Packed(value, _)
            | Self::Lowp(value, _)
            | Self::Coded(value, _)
            | Self::Table(value) => Some(*value),
            Self::Sinusoid(..) | Self::Angles(..) => None,
        }
    }
}

/// What is wanted in the very bits that it is stored in, without being converted on the way.
///
/// # Errors
/// If a row has another length than the graph says, or stands for what is no number.
fn as_stored(wanted: &Wanted, graph: &Graph, weights: &dyn Constants) -> Result<Option<Constant>, Error> {
    let (value, coding) = match wanted {
        Wanted::Lowp(value, Format::Bf16) => return from_bits16(*value, graph, weights),
        Wanted::Coded(value, coding) => (*value, *coding),
        Wanted::Lowp(value, Format::Int8) | Wanted::Table(value) => (*value, Coding::INT8),
        Wanted::Lowp(value, Format::Int4) => (*value, Coding::INT4),
        Wanted::Plain(_) | Wanted::Packed(..) | Wanted::Sinusoid(..) | Wanted::Angles(..) => return Ok(None),
    };
    let ValueInfo { name, shape, .. } = graph.info(value);
    let Some(stored) = weights.coded(name).filter(|stored| stored.coding() == coding) else {
        return Ok(None);
    };
    let (rows, width) = (if let Rows::Fixed(rows) = shape.rows { rows } else { 0 }, shape.width);
    if coding == Coding::INT8 {
        let Some(Integers { bytes, scales }) = stored.integers() else { return Ok(None) };
        if (bytes.len(), scales.len()) != (rows * width, rows) {
            let (expected, found) = (rows * width, bytes.len());
            return Err(Error::WeightSize { name: name.clone(), shape: shape.to_string(), expected, found });
        }
        if let Some(index) = scales.iter().position(|x| !x.is_finite()) {
            let value = scales[index];
            return Err(Error::NotFinite { name: name.clone(), index: index * width, value });
        }
        if let Wanted::Table(_) = wanted {
            return Ok(Some(Constant::Table(Table::from_integers(bytes, scales, width))));
        }
        return Ok(Weight::from_integers(bytes, scales, width).map(Constant::Lowp));
    }
    let mut row = CodedRow::default();
    let read = |index: usize, row: &mut CodedRow| {
        stored.row(index, row);
        if row.codes.len() != width {
            let found = index * width + row.codes.len();
            let expected = rows * width;
            return Err(Error::WeightSize { name: name.clone(), shape: shape.to_string(), expected, found });
        }
        if let Some(&value) = row.scales.iter().chain(&row.minima).find(|x| !x.is_finite()) {
            return Err(Error::NotFinite { name: name.clone(), index: index * width, value });
        }
        Ok(())
    };
    if coding == Coding::INT4 {
        let mut weight = Weight::zeros(Format::Int4, width, rows);
        for index in 0..rows {
            read(index, &mut row)?;
            weight.set_column(index, &row);
        }
        return Ok(Some(Constant::Lowp(weight)));
    }
    let mut weight = coded::Weight::zeros(coding, width, rows);
    for index in 0..rows {
        read(index, &mut row)?;
        weight.set_column(index, &row);
    }
    Ok(Some(Constant::Coded(weight)))
}

/// The B of a product in `bf16` from a weight that is stored in 16 bits, row by row.
///
/// # Errors
/// If it has another size than the graph says, or a number that is none.
fn from_bits16(value: Value, graph: &Graph, weights: &dyn Constants) -> Result<Option<Constant>, Error> {
    let ValueInfo { name, shape, .. } = graph.info(value);
    let Some(stored) = weights.halves(name) else { return Ok(None) };
    let (rows, width) = (if let Rows::Fixed(rows) = shape.rows { rows } else { 0 }, shape.width);
    if stored.count() != rows * width {
        let (expected, found) = (rows * width, stored.count());
        return Err(Error::WeightSize { name: name.clone(), shape: shape.to_string(), expected, found });
    }
    let read = |index: usize, row: &mut [f32]| {
        stored.widen(index * width, row);
        match row.iter().position(|x| !x.is_finite()) {
            Some(at) => {
                Err(Error::NotFinite { name: name.clone(), index: index * width + at, value: row[at] })
            }
            None => Ok(()),
        }
    };
    Weight::by_rows(Format::Bf16, rows, width, read).map(|weight| Some(Constant::Lowp(weight)))
}

/// What is wanted of a weight, from its numbers.
fn weight(wanted: &Wanted, graph: &Graph, data: &[f32]) -> Option<Constant> {
    match *wanted {
        Wanted::Plain(_) => Some(Constant::Plain(Buffer::from(data))),
        Wanted::Packed(value, packs) => {
            let width = graph.shape(value).width;
            let rows = data.len() / width.max(1);
            Some(Constant::Packed(match packs {
                Packs::Transposed => Packed::from_weight(data, rows, width),
                Packs::Rows => Packed::from_rows(data, rows, width),
            }))
        }
        Wanted::Lowp(value, format) => {
            let width = graph.shape(value).width;
            Some(Constant::Lowp(Weight::from_weight(format, data, data.len() / width.max(1), width)))
        }
        Wanted::Coded(value, coding) => {
            let width = graph.shape(value).width;
            Some(Constant::Coded(coded::Weight::from_weight(coding, data, data.len() / width.max(1), width)))
        }
        Wanted::Table(value) => Some(Constant::Table(Table::from_weight(data, graph.shape(value).width))),
        Wanted::Sinusoid(..) | Wanted::Angles(..) => None,
    }
}

fn table(wanted: &Wanted) -> Option<Constant> {
    match wanted {
        Wanted::Plain(_) | Wanted::Packed(..) | Wanted::Lowp(..) | Wanted::Coded(..) | Wanted::Table(_) => {
            None
        }
        Wanted::Sinusoid(op, positions) => {
            let mut table = Buffer::zeros(positions * op.width);
            for (p, row) in table.chunks_exact_mut(op.width.max(1)).enumerate() {
                position::sinusoid_row(op, op.start + p, row);
            }
            Some(Constant::Plain(table))
        }
        Wanted::Angles(op, positions) => {
            let mut table = Buffer::zeros(positions * op.turning);
            for (p, row) in table.chunks_exact_mut(op.turning.max(1)).enumerate() {
                position::angles_row(op, p, 0, row);
            }
            Some(Constant::Plain(table))
        }
    }
}
