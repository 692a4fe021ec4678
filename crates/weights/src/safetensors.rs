//! Safetensors: the header of a file, and every check on it.
//!
//! The format: eight bytes, little-endian, with the length of the header; the header, a JSON object that may end in
//! spaces; then the data. The object has an entry `"name": {"dtype", "shape", "data_offsets": [start, end]}` per
//! tensor, with offsets into the data, and may have one `"__metadata__"` that maps strings to strings. The tensors
//! cover the data exactly, without overlap. <https://github.com/huggingface/safetensors#format>
//!
//! We read it ourselves: the format's own library silently takes the last of two entries with the same name (0.8.0), and
//! we want every message to name the file, the tensor and the bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::contents::{Contents, DIMENSIONS, Place};
use crate::error::clip;
use crate::json::{LONGEST, Unique, insert};
use crate::map::Map;
use crate::scheme::Scheme;
use crate::{Dtype, Error};

/// The entry that is not a tensor.
pub(crate) const METADATA: &str = "__metadata__";
/// Bytes before the header: its length.
pub(crate) const PREFIX: usize = 8;
/// A header as it is written.
#[derive(Default)]
pub(crate) struct Header {
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) tensors: BTreeMap<String, Claim>,
}

/// What a header says of one tensor.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    pub(crate) dtype: String,
    #[serde(deserialize_with = "shape")]
    pub(crate) shape: Vec<usize>,
    pub(crate) data_offsets: (usize, usize),
}

/// Whether a file begins with a length that the format allows and an object.
pub(crate) fn looks_like(file: &[u8]) -> bool {
    match file.split_first_chunk::<PREFIX>() {
        Some((prefix, rest)) => u64::from_le_bytes(*prefix) <= LONGEST && rest.first() == Some(&b'{'),
        None => false,
    }
}

/// Reads and checks the header of the file `map`. The `path` is for messages.
pub(crate) fn read(path: &Path, map: &Arc<Map>) -> Result<Contents, Error> {
    let file = map.bytes();
    let truncated =
        |announced: u64| Error::Truncated { path: path.into(), announced, found: file.len() as u64 };
    let syntax = |reason: String| Error::Syntax { path: path.into(), reason: clip(&reason) };
    let (prefix, rest) = file.split_first_chunk::<PREFIX>().ok_or_else(|| truncated(PREFIX as u64))?;
    let length = u64::from_le_bytes(*prefix);
    if length > LONGEST {
        return Err(Error::LongHeader { path: path.into(), length, limit: LONGEST });
    }
    let text = rest.get(..length as usize).ok_or_else(|| truncated(PREFIX as u64 + length))?;
    if text.first() != Some(&b'{') {
        return Err(syntax("the header does not begin with {".into()));
    }
    let header: Header = serde_json::from_slice(text).map_err(|error| syntax(format!("header: {error}")))?;
    let data = PREFIX + text.len()..file.len();
    let places = header.tensors.into_iter().map(|(name, claim)| place(path, &data, name, claim));
    let mut places = places.collect::<Result<Vec<_>, _>>()?;
    cover(path, &data, &mut places)?;
    let scheme = Scheme::read(path, &header.metadata)?;
    scheme.apply(&mut places)?;
    let mut tensors = places.into_iter().map(|place| place.tensor(map)).collect();
    scheme.scale(&mut tensors)?;
    Ok(Contents { tensors, metadata: header.metadata })
}

/// Checks one tensor by itself: its type, its shape, its place in `data`.
fn place(path: &Path, data: &Range<usize>, name: String, claim: Claim) -> Result<Place, Error> {
    let Claim { dtype, shape, data_offsets: (start, end) } = claim;
    let Some(dtype) = Dtype::named(&dtype) else {
        return Err(Error::UnknownType { path: path.into(), name: clip(&name), dtype: clip(&dtype) });
    };
    if start > end || end > data.len() {
        let available = data.len();
        return Err(Error::Range { path: path.into(), name: clip(&name), start, end, available });
    }
    let Some(needed) = dtype.bytes_of(&shape) else {
        return Err(Error::Shape { path: path.into(), name: clip(&name), shape });
    };
    let given = end - start;
    if needed != given {
        return Err(Error::Length { path: path.into(), name: clip(&name), needed, given });
    }
    Ok(Place { name, dtype, shape, range: data.start + start..data.start + end })
}

/// Checks that the tensors cover `data` without overlap or hole, and sorts them by place.
fn cover(path: &Path, data: &Range<usize>, tensors: &mut [Place]) -> Result<(), Error> {
    tensors.sort_unstable_by_key(|tensor| (tensor.range.start, tensor.range.end));
    let hole = |start: usize, end: usize| {
        Err(Error::Hole { path: path.into(), start: start - data.start, end: end - data.start })
    };
    let mut covered = data.start;
    for (index, tensor) in tensors.iter().enumerate() {
        if tensor.range.start > covered {
            return hole(covered, tensor.range.start);
        }
        if tensor.range.start < covered {
            // The data begins at `data.start`, so some tensor came before this one.
            let first = clip(&tensors[index - 1].name);
            return Err(Error::Overlap { path: path.into(), first, second: clip(&tensor.name) });
        }
        covered = tensor.range.end;
    }
    if covered < data.end { hole(covered, data.end) } else { Ok(()) }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an entry per tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Header, A::Error> {
        let mut tensors = BTreeMap::new();
        let mut metadata = None;
        while let Some(name) = entries.next_key::<String>()? {
            if name != METADATA {
                let wrong = |error| A::Error::custom(format_args!("tensor {:?}: {error}", clip(&name)));
                let claim = entries.next_value().map_err(wrong)?;
                insert(&mut tensors, name, claim)?;
            } else if metadata.replace(entries.next_value::<Unique<String>>()?.0).is_some() {
                return Err(A::Error::duplicate_field(METADATA));
            }
        }
        Ok(Header { metadata: metadata.unwrap_or_default(), tensors })
    }
}

fn shape<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    struct ShapeVisitor;
    impl<'de> Visitor<'de> for ShapeVisitor {
        type Value = Vec<usize>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {DIMENSIONS} sizes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sizes: A) -> Result<Vec<usize>, A::Error> {
            let mut shape = Vec::new();
            while let Some(size) = sizes.next_element()? {
                if shape.len() == DIMENSIONS {
                    return Err(A::Error::invalid_length(DIMENSIONS + 1, &self));
                }
                shape.push(size);
            }
            Ok(shape)
        }
    }
    deserializer.deserialize_seq(ShapeVisitor)
}

impl Serialize for Header {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entries = serializer.serialize_map(None)?;
        if !self.metadata.is_empty() {
            entries.serialize_entry(METADATA, &self.metadata)?;
        }
        for (name, claim) in &self.tensors {
            entries.serialize_entry(name, claim)?;
        }
        entries.end()
    }
}
