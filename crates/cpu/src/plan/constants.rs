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
    /// A weight in this form.
    Weight(Value, Form),
    /// The rows of this sinusoid for so many positions.
    Sinusoid(Sinusoid, usize),
    /// The angles of these rotations, which do not depend on a sequence's length, for so many positions.
    Angles(Rotate, usize),
}

/// The forms of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// As it is.
    Plain,
    /// The B of a product.
    Packed(Packs),
    /// `[out, in]` as the low-precision B of a product.
    Lowp(Format),
    /// `[out, in]` in few bits.
    Coded(Coding),
    /// A table in 8-bit integers, whose rows are looked up.
    Table,
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
    let label = |wanted: &Wanted| match *wanted {
        Wanted::Weight(value, form) => Some((weights.identity()?, graph.info(value).name.clone(), form)),
        Wanted::Sinusoid(..) | Wanted::Angles(..) => None,
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
        let forms = || {
            wanted.iter().enumerate().filter_map(|(at, wanted)| match *wanted {
                Wanted::Weight(of, form) if of == value => Some((at, form)),
                Wanted::Weight(..) | Wanted::Sinusoid(..) | Wanted::Angles(..) => None,
            })
        };
        let open = || forms().filter(|&(at, _)| made[at].get().is_none());
        for (at, form) in open() {
            if let Some(constant) = as_stored(value, form, graph, weights)? {
                keep(at, constant);
            }
        }
        // A weight in no form at all is read too: it is checked all the same.
        if open().next().is_some() || forms().next().is_none() {
            let data = graph.read_weight(weights, value)?;
            let width = graph.shape(value).width;
            open().for_each(|(at, form)| keep(at, weight(form, &data, width)));
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
        matches!(self, Self::Weight(_, Form::Lowp(_) | Form::Coded(_) | Form::Table))
    }
}

/// That a weight has another size than the graph says.
fn another_size(info: &ValueInfo, expected: usize, found: usize) -> Error {
    Error::WeightSize { name: info.name.clone(), shape: info.shape.to_string(), expected, found }
}

/// How many rows a weight has, and how wide they are.
fn sizes(info: &ValueInfo) -> (usize, usize) {
    (if let Rows::Fixed(rows) = info.shape.rows { rows } else { 0 }, info.shape.width)
}

/// A weight in the very bits that it is stored in, without being converted on the way.
///
/// # Errors
/// If a row has another length than the graph says, or stands for what is no number.
fn as_stored(
    value: Value,
    form: Form,
    graph: &Graph,
    weights: &dyn Constants,
) -> Result<Option<Constant>, Error> {
    let info = graph.info(value);
    let coding = match form {
        Form::Lowp(Format::Bf16) => return from_bits16(info, weights),
        Form::Coded(coding) => coding,
        Form::Lowp(Format::Int8) | Form::Table => Coding::INT8,
        Form::Lowp(Format::Int4) => Coding::INT4,
        Form::Plain | Form::Packed(_) => return Ok(None),
    };
    let (rows, width) = sizes(info);
    let Some(stored) = weights.coded(&info.name).filter(|stored| stored.coding() == coding) else {
        return Ok(None);
    };
    let not_finite =
        |row: usize, value| Error::NotFinite { name: info.name.clone(), index: row * width, value };
    if coding == Coding::INT8 {
        let Some(Integers { bytes, scales }) = stored.integers() else { return Ok(None) };
        if (bytes.len(), scales.len()) != (rows * width, rows) {
            return Err(another_size(info, rows * width, bytes.len()));
        }
        if let Some(index) = scales.iter().position(|x| !x.is_finite()) {
            return Err(not_finite(index, scales[index]));
        }
        if form == Form::Table {
            return Ok(Some(Constant::Table(Table::from_integers(bytes, scales, width))));
        }
        return Ok(Weight::from_integers(bytes, scales, width).map(Constant::Lowp));
    }
    let mut row = CodedRow::default();
    let read = |index: usize, row: &mut CodedRow| {
        stored.row(index, row);
        if row.codes.len() != width {
            return Err(another_size(info, rows * width, index * width + row.codes.len()));
        }
        match row.scales.iter().chain(&row.minima).find(|x| !x.is_finite()) {
            Some(&value) => Err(not_finite(index, value)),
            None => Ok(()),
        }
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
fn from_bits16(info: &ValueInfo, weights: &dyn Constants) -> Result<Option<Constant>, Error> {
    let Some(stored) = weights.halves(&info.name) else { return Ok(None) };
    let (rows, width) = sizes(info);
    if stored.count() != rows * width {
        return Err(another_size(info, rows * width, stored.count()));
    }
    let read = |index: usize, row: &mut [f32]| {
        stored.widen(index * width, row);
        match row.iter().position(|x| !x.is_finite()) {
            Some(at) => {
                Err(Error::NotFinite { name: info.name.clone(), index: index * width + at, value: row[at] })
            }
            None => Ok(()),
        }
    };
    Weight::by_rows(Format::Bf16, rows, width, read).map(|weight| Some(Constant::Lowp(weight)))
}

/// A weight from its numbers, whose rows are so wide.
fn weight(form: Form, data: &[f32], width: usize) -> Constant {
    let rows = data.len() / width.max(1);
    match form {
        Form::Plain => Constant::Plain(Buffer::from(data)),
        Form::Packed(Packs::Transposed) => Constant::Packed(Packed::from_weight(data, rows, width)),
        Form::Packed(Packs::Rows) => Constant::Packed(Packed::from_rows(data, rows, width)),
        Form::Lowp(format) => Constant::Lowp(Weight::from_weight(format, data, rows, width)),
        Form::Coded(coding) => Constant::Coded(coded::Weight::from_weight(coding, data, rows, width)),
        Form::Table => Constant::Table(Table::from_weight(data, width)),
    }
}

fn table(wanted: &Wanted) -> Option<Constant> {
    match wanted {
        Wanted::Weight(..) => None,
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
