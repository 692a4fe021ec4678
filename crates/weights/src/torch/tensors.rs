//! From what a pickle holds to named tensors.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::contents::Contents;
use crate::error::clip;
use crate::map::Map;
use crate::stored::Stored;
use crate::walk::Walk;
use crate::{Dtype, Error};

use super::pickle::Pickle;
use super::value::{Object, Storage, Tensor, Value};

/// Dictionaries in dictionaries: a checkpoint has three or four.
const DEEPEST: usize = 32;
/// Bytes that all names and texts may take, so that one dictionary under many names stays small.
const MOST_TEXT: usize = 1 << 25;
/// The name of a file's only tensor, where it has no other.
const ALONE: &str = "tensor";

/// Where the bytes of a storage lie in the file.
pub(super) type Find<'f> = &'f dyn Fn(&Storage) -> Result<Range<usize>, Error>;

struct Walker<'p, 'a> {
    path: &'p Path,
    pickle: &'p Pickle<'a>,
    tensors: BTreeMap<String, &'p Tensor>,
    metadata: BTreeMap<String, String>,
    text_left: usize,
}

/// All tensors of a pickle, each under its path.
pub(super) fn collect(path: &Path, map: &Arc<Map>, pickle: &Pickle, find: Find) -> Result<Contents, Error> {
    let (tensors, metadata) = (BTreeMap::new(), BTreeMap::new());
    let mut walker = Walker { path, pickle, tensors, metadata, text_left: MOST_TEXT };
    walker.visit(String::new(), pickle.root, DEEPEST)?;
    let mut tensors = Vec::new();
    for (name, tensor) in walker.tensors {
        let stored = place(path, map, pickle, find, (&clip(&name), tensor))?;
        tensors.push((name, stored));
    }
    Ok(Contents { tensors, metadata: walker.metadata })
}

impl<'p> Walker<'p, '_> {
    fn visit(&mut self, name: String, value: Value, depth: usize) -> Result<(), Error> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(self.unsupported(format!("values lie deeper than {DEEPEST} at {:?}", clip(&name))));
        };
        // A name has some cost even where it is short.
        let Some(left) = self.text_left.checked_sub(name.len() + 64) else {
            return Err(damaged(
                self.path,
                format!("the names of all values take more than {MOST_TEXT} bytes"),
            ));
        };
        self.text_left = left;
        let text = match value {
            Value::Object(index) => return self.visit_object(name, &self.pickle.objects[index], depth),
            Value::Bool(truth) => truth.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Text(text) => text.to_owned(),
            Value::None | Value::Long(_) | Value::Bytes(_) | Value::Global(_) => return Ok(()),
        };
        self.text_left = self.text_left.saturating_sub(text.len());
        self.metadata.insert(name, text);
        Ok(())
    }

    fn unsupported(&self, reason: String) -> Error {
        Error::Unsupported { path: self.path.into(), reason, hint: "save the tensors alone, as safetensors" }
    }

    fn visit_object(&mut self, name: String, object: &'p Object, depth: usize) -> Result<(), Error> {
        let inside = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        match object {
            Object::Tensor(tensor) => {
                let name = if name.is_empty() { ALONE.to_owned() } else { name };
                let clipped = clip(&name);
                if self.tensors.insert(name, tensor).is_some() {
                    return Err(damaged(self.path, format!("two tensors are called {clipped:?}")));
                }
            }
            Object::Dict(pairs) => {
                // Of two values for one key the later counts, as in Python.
                let pairs: BTreeMap<String, Value> =
                    pairs.iter().filter_map(|&(key, value)| Some((inside(&key_text(key)?), value))).collect();
                for (name, value) in pairs {
                    self.visit(name, value, depth)?;
                }
            }
            Object::List(items) | Object::Tuple(items) => {
                for (index, &item) in items.iter().enumerate() {
                    self.visit(inside(&index.to_string()), item, depth)?;
                }
            }
            Object::Storage(_) => {}
        }
        Ok(())
    }
}

/// A key as a part of a name; `None` for keys that are no names.
fn key_text(key: Value) -> Option<String> {
    match key {
        Value::Text(text) => Some(text.to_owned()),
        Value::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Checks a tensor against its storage, and the storage against the file.
fn place(
    path: &Path,
    map: &Arc<Map>,
    pickle: &Pickle,
    find: Find,
    (name, tensor): (&str, &Tensor),
) -> Result<Stored, Error> {
    let Object::Storage(storage) = &pickle.objects[tensor.storage] else {
        unreachable!("the machine makes tensors of storages only")
    };
    let Some(dtype) = storage.dtype.or(tensor.dtype) else {
        return Err(damaged(path, format!("tensor {name:?} has no type")));
    };
    if storage.dtype.is_some() && tensor.dtype.is_some() && storage.dtype != tensor.dtype {
        return Err(damaged(path, format!("tensor {name:?} has another type than its storage")));
    }
    let range = numbers(path, find(storage)?, storage, dtype, name)?;
    let count = tensor.shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
    let Some(count) = count else {
        return Err(Error::Shape { path: path.into(), name: name.into(), shape: tensor.shape.clone() });
    };
    let available = range.len() / dtype.bytes();
    let walk = Walk::strided(tensor.start, &tensor.shape, &tensor.strides);
    // A tensor that visits numbers again and again could be of any size, whatever the file's.
    if count > available {
        let reason =
            format!("tensor {name:?} of shape {:?} is larger than its storage of {available}", tensor.shape);
        return Err(damaged(path, reason));
    }
    if walk.reach().is_none_or(|reach| reach > available) {
        let reason = format!("tensor {name:?} reaches beyond its storage of {available} numbers");
        return Err(damaged(path, reason));
    }
    Ok(Stored::walked(map, range, dtype, walk))
}

/// The bytes of a storage, or of the part that is meant: whole numbers.
fn numbers(
    path: &Path,
    range: Range<usize>,
    storage: &Storage,
    dtype: Dtype,
    name: &str,
) -> Result<Range<usize>, Error> {
    let unit = storage.dtype.map_or(1, Dtype::bytes);
    let needed = storage.count.saturating_mul(unit);
    if needed > range.len() {
        return Err(Error::Length { path: path.into(), name: name.into(), needed, given: range.len() });
    }
    let (start, count) = storage.part.unwrap_or((0, storage.count));
    match start.checked_add(count) {
        Some(end) if end <= storage.count => {
            let length = count * unit / dtype.bytes() * dtype.bytes();
            Ok(range.start + start * unit..range.start + start * unit + length)
        }
        _ => Err(damaged(path, format!("tensor {name:?} has a part of a storage that lies outside it"))),
    }
}

fn damaged(path: &Path, reason: String) -> Error {
    Error::Damaged { path: path.into(), format: "PyTorch", reason }
}
