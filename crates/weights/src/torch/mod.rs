//! PyTorch's `torch.save`: a pickle that describes, and storages that hold.
//!
//! Two formats. The zip archive has `NAME/data.pkl` and an entry `NAME/data/KEY` for each storage. The older one is five
//! pickles one after another (a magic number, a protocol, facts about the machine, the object, the keys of the storages)
//! and then, in the order of the keys, for each storage its length (64 bits) and its bytes.

mod pickle;
mod tensors;
mod value;
mod zip;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::contents::Contents;
use crate::error::clip;
use crate::map::Map;
use crate::reader::Reader;
use crate::{Dtype, Error};

use pickle::Pickle;
use value::{Object, Storage, Value};

/// The first bytes of an archive.
pub(crate) const ZIP: &[u8] = b"PK\x03\x04";
/// The magic number of the older format: an integer of ten bytes.
const MAGIC: &[u8] = &[0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
/// The only protocol that the older format ever had.
const PROTOCOL: i64 = 1001;

/// Whether a file begins as a pickle does since protocol 2.
pub(crate) fn looks_like_a_pickle(file: &[u8]) -> bool {
    matches!(file, [0x80, 2..=5, ..])
}

/// Reads a zip archive.
pub(crate) fn read_zip(path: &Path, map: &Arc<Map>) -> Result<Contents, Error> {
    let file = map.bytes();
    let archive = zip::read(path, file)?;
    let root =
        archive.keys().find_map(|name| name.strip_suffix("/data.pkl").filter(|root| !root.contains('/')));
    let Some(root) = root else {
        return Err(damaged(path, "the zip archive has no data.pkl".into()));
    };
    if let Some(order) = archive.get(format!("{root}/byteorder").as_str())
        && &file[order.clone()] != b"little"
    {
        return Err(big_endian(path));
    }
    let bytes = &file[archive[format!("{root}/data.pkl").as_str()].clone()];
    let pickle = pickle::run(&mut Reader::new(path, "PyTorch", bytes))?;
    let find = |storage: &Storage| match archive.get(format!("{root}/data/{}", storage.key).as_str()) {
        Some(range) => Ok(range.clone()),
        None => Err(damaged(path, format!("the zip archive has no storage {:?}", clip(storage.key)))),
    };
    tensors::collect(path, map, &pickle, &find)
}

/// Reads the older format.
pub(crate) fn read_old(path: &Path, map: &Arc<Map>) -> Result<Contents, Error> {
    let mut reader = Reader::new(path, "PyTorch", map.bytes());
    if pickle::run(&mut reader)?.root != Value::Long(MAGIC) {
        let reason = "a pickle without PyTorch's magic number";
        return Err(reader.unsupported(reason, "save it again with torch.save, or as safetensors"));
    }
    if pickle::run(&mut reader)?.root != Value::Integer(PROTOCOL) {
        return Err(
            reader.unsupported(format!("not PyTorch's protocol {PROTOCOL}"), "save it again as safetensors")
        );
    }
    if is_big_endian(&pickle::run(&mut reader)?) {
        return Err(big_endian(path));
    }
    let pickle = pickle::run(&mut reader)?;
    let keys = pickle::run(&mut reader)?;
    let storages = storages(&mut reader, &pickle, &keys)?;
    let find = |storage: &Storage| match storages.get(storage.key) {
        Some(range) => Ok(range.clone()),
        None => Err(damaged(path, format!("the file has no storage {:?}", clip(storage.key)))),
    };
    tensors::collect(path, map, &pickle, &find)
}

/// Where the storages of the older format lie. Only the pickle knows how large their numbers are.
fn storages<'a>(
    reader: &mut Reader,
    pickle: &Pickle<'a>,
    keys: &Pickle<'a>,
) -> Result<BTreeMap<&'a str, Range<usize>>, Error> {
    let mut known: BTreeMap<&str, &Storage> = BTreeMap::new();
    for object in &pickle.objects {
        if let Object::Storage(storage) = object
            && let Some(other) = known.insert(storage.key, storage)
            && (other.dtype, other.count) != (storage.dtype, storage.count)
        {
            return Err(reader.damaged(format!("storage {:?} is of two kinds", clip(storage.key))));
        }
    }
    let Value::Object(list) = keys.root else {
        return Err(reader.damaged("the storages have no list of keys"));
    };
    let Object::List(keys) = &keys.objects[list] else {
        return Err(reader.damaged("the storages have no list of keys"));
    };
    let mut storages = BTreeMap::new();
    for key in keys {
        let &Value::Text(key) = key else {
            return Err(reader.damaged("a storage has a key that is no text"));
        };
        let Some(storage) = known.get(key) else {
            return Err(reader.damaged(format!("storage {:?} belongs to no tensor", clip(key))));
        };
        let count = reader.u64("the length of a storage")?;
        if count != storage.count as u64 {
            let (key, wanted) = (clip(key), storage.count);
            return Err(
                reader.damaged(format!("storage {key:?} has {count} numbers, where {wanted} are announced"))
            );
        }
        let unit = storage.dtype.map_or(1, Dtype::bytes) as u64;
        if storages.insert(key, reader.range(count.saturating_mul(unit), "a storage")?).is_some() {
            return Err(reader.damaged(format!("storage {:?} appears twice", clip(key))));
        }
    }
    Ok(storages)
}

/// Whether the facts about the machine say that it wrote numbers the other way round.
fn is_big_endian(facts: &Pickle) -> bool {
    let Value::Object(facts_at) = facts.root else { return false };
    match &facts.objects[facts_at] {
        Object::Dict(pairs) => pairs.contains(&(Value::Text("little_endian"), Value::Bool(false))),
        Object::Tuple(_) | Object::List(_) | Object::Storage(_) | Object::Tensor(_) => false,
    }
}

fn big_endian(path: &Path) -> Error {
    let reason = "numbers of a big-endian machine".into();
    Error::Unsupported { path: path.into(), reason, hint: "save it again on a little-endian machine" }
}

fn damaged(path: &Path, reason: String) -> Error {
    Error::Damaged { path: path.into(), format: "PyTorch", reason }
}
