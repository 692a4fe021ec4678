//! What a GGUF file says of the model: entries of a key and a value, seen where they lie.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::Error;
use crate::error::clip;
use crate::map::Map;
use crate::reader::Reader;

/// What an entry takes at least: a length, a type and a byte.
const LEAST_ENTRY: usize = 13;
/// The longest key that the format allows.
const LONGEST_KEY: u64 = 65_535;
/// Lists in lists in lists: more is no model's entry.
const DEEPEST: usize = 4;

/// The entries of a GGUF file: from them come the formula, the tokenizer and the chat template.
///
/// A getter gives `None` where there is no such key or where its value is of another kind. All integer types are one
/// kind, as long as the number fits what is asked for, and so are both floating-point types.
///
/// ```no_run
/// # fn main() -> Result<(), glassformer_weights::Error> {
/// let weights = glassformer_weights::Weights::open("model.gguf")?;
/// if let Some(gguf) = weights.gguf() {
///     let family = gguf.string("general.architecture").unwrap_or("unknown");
///     let layers = gguf.u32(&format!("{family}.block_count"));
///     let vocabulary = gguf.strings("tokenizer.ggml.tokens");
///     println!("{family}: {layers:?} layers, {:?} tokens", vocabulary.map(|tokens| tokens.len()));
/// }
/// # Ok(())
/// # }
/// ```
pub struct Gguf {
    map: Arc<Map>,
    version: u32,
    entries: BTreeMap<String, Entry>,
}

/// Where a value lies, checked to its end.
struct Entry {
    kind: Kind,
    /// How many values of the kind: one, except in lists.
    count: usize,
    list: bool,
    range: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    List,
    U64,
    I64,
    F64,
}

/// A single value.
#[derive(Clone, Copy)]
enum Value<'a> {
    Integer(i128),
    Single(f32),
    Double(f64),
    Bool(bool),
    Text(&'a [u8]),
}

impl Gguf {
    /// Reads `count` entries.
    pub(super) fn read(reader: &mut Reader, map: &Arc<Map>, version: u32, count: u64) -> Result<Self, Error> {
        let count = reader.count(count, LEAST_ENTRY, "entries")?;
        let mut entries = BTreeMap::new();
        for _ in 0..count {
            let length = reader.u64("the length of a key")?;
            if length > LONGEST_KEY {
                return Err(
                    reader.damaged(format!("a key has {length} bytes, and {LONGEST_KEY} are allowed"))
                );
            }
            let key = reader.text(length, "a key")?;
            let entry = Entry::read(reader, key)?;
            if entries.insert(key.to_owned(), entry).is_some() {
                return Err(reader.damaged(format!("key {:?} appears twice", clip(key))));
            }
        }
        Ok(Self { map: Arc::clone(map), version, entries })
    }

    /// The version of the format.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Whether there is an entry of this key, of whatever kind.
    pub fn contains(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// An integer that fits 32 bits and is not negative.
    pub fn u32(&self, key: &str) -> Option<u32> {
        self.integer(key)?.try_into().ok()
    }

    /// An integer that fits 64 bits and is not negative.
    pub fn u64(&self, key: &str) -> Option<u64> {
        self.integer(key)?.try_into().ok()
    }

    /// An integer that fits 64 bits.
    pub fn i64(&self, key: &str) -> Option<i64> {
        self.integer(key)?.try_into().ok()
    }

    /// A floating-point number, rounded to 32 bits.
    pub fn f32(&self, key: &str) -> Option<f32> {
        float(self.scalar(key)?)
    }

    /// True or false.
    pub fn bool(&self, key: &str) -> Option<bool> {
        truth(self.scalar(key)?)
    }

    /// A text; `None` also where it is not UTF-8.
    pub fn string(&self, key: &str) -> Option<&str> {
        text(self.scalar(key)?)
    }

    /// A list of texts; `None` also where one is not UTF-8, see [`Gguf::byte_strings`].
    pub fn strings(&self, key: &str) -> Option<Vec<&str>> {
        self.list(key, text)
    }

    /// A list of texts, as bytes.
    pub fn byte_strings(&self, key: &str) -> Option<Vec<&[u8]>> {
        self.list(key, bytes)
    }

    /// A list of floating-point numbers, rounded to 32 bits.
    pub fn f32s(&self, key: &str) -> Option<Vec<f32>> {
        self.list(key, float)
    }

    /// A list of integers that fit 32 bits.
    pub fn i32s(&self, key: &str) -> Option<Vec<i32>> {
        self.list(key, |value| integer(value)?.try_into().ok())
    }

    /// A list of truth values.
    pub fn bools(&self, key: &str) -> Option<Vec<bool>> {
        self.list(key, truth)
    }

    /// Everything but lists, as text.
    pub(super) fn texts(&self) -> BTreeMap<String, String> {
        let shown = |key: &String| {
            let text = match self.scalar(key)? {
                Value::Integer(number) => number.to_string(),
                Value::Single(number) => number.to_string(),
                Value::Double(number) => number.to_string(),
                Value::Bool(truth) => truth.to_string(),
                Value::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            };
            Some((key.clone(), text))
        };
        self.entries.keys().filter_map(shown).collect()
    }

    fn integer(&self, key: &str) -> Option<i128> {
        integer(self.scalar(key)?)
    }

    fn scalar(&self, key: &str) -> Option<Value<'_>> {
        let entry = self.entries.get(key).filter(|entry| !entry.list)?;
        entry.kind.next(&mut &self.map.bytes()[entry.range.clone()])
    }

    fn list<'a, T>(&'a self, key: &str, item: impl Fn(Value<'a>) -> Option<T>) -> Option<Vec<T>> {
        let entry = self.entries.get(key).filter(|entry| entry.list)?;
        let mut bytes = &self.map.bytes()[entry.range.clone()];
        (0..entry.count).map(|_| item(entry.kind.next(&mut bytes)?)).collect()
    }
}

impl Entry {
    fn read(reader: &mut Reader, key: &str) -> Result<Self, Error> {
        let kind = Kind::read(reader, key)?;
        let list = kind == Kind::List;
        let (kind, count) = if list { items(reader, key)? } else { (kind, 1) };
        let start = reader.at();
        kind.skip(reader, count, key, DEEPEST)?;
        Ok(Self { kind, count, list, range: start..reader.at() })
    }
}

/// What a list holds, and how many.
fn items(reader: &mut Reader, key: &str) -> Result<(Kind, usize), Error> {
    let kind = Kind::read(reader, key)?;
    let count = reader.u64("the length of a list")?;
    Ok((kind, reader.count(count, kind.least(), &format!("values of {:?}", clip(key)))?))
}

impl Kind {
    fn read(reader: &mut Reader, key: &str) -> Result<Self, Error> {
        let kind = reader.u32("a type of value")?;
        Ok(match kind {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            8 => Self::Text,
            9 => Self::List,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => {
                return Err(
                    reader.damaged(format!("key {:?} has a value of the unknown type {kind}", clip(key)))
                );
            }
        })
    }

    /// The bytes of a value; of a text or list, those of its beginning.
    fn least(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::Text => 8,
            Self::List => 12,
        }
    }

    /// Goes past `count` values.
    fn skip(self, reader: &mut Reader, count: usize, key: &str, depth: usize) -> Result<(), Error> {
        match self {
            Self::Text => {
                for _ in 0..count {
                    let length = reader.u64("the length of a text")?;
                    reader.take(length, "a text")?;
                }
            }
            Self::List => {
                let Some(depth) = depth.checked_sub(1) else {
                    return Err(
                        reader.damaged(format!("key {:?} has lists inside lists, too deep", clip(key)))
                    );
                };
                for _ in 0..count {
                    let (kind, count) = items(reader, key)?;
                    kind.skip(reader, count, key, depth)?;
                }
            }
            plain => {
                // No overflow: `count` was checked against what is left.
                reader.take((count * plain.least()) as u64, "a list")?;
            }
        }
        Ok(())
    }

    /// The first value of `bytes`, which then begin after it; `None` for lists.
    fn next<'a>(self, bytes: &mut &'a [u8]) -> Option<Value<'a>> {
        fn array<const SIZE: usize>(bytes: &mut &[u8]) -> Option<[u8; SIZE]> {
            let (first, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            Some(*first)
        }
        Some(match self {
            Self::U8 => Value::Integer(u8::from_le_bytes(array(bytes)?).into()),
            Self::I8 => Value::Integer(i8::from_le_bytes(array(bytes)?).into()),
            Self::U16 => Value::Integer(u16::from_le_bytes(array(bytes)?).into()),
            Self::I16 => Value::Integer(i16::from_le_bytes(array(bytes)?).into()),
            Self::U32 => Value::Integer(u32::from_le_bytes(array(bytes)?).into()),
            Self::I32 => Value::Integer(i32::from_le_bytes(array(bytes)?).into()),
            Self::U64 => Value::Integer(u64::from_le_bytes(array(bytes)?).into()),
            Self::I64 => Value::Integer(i64::from_le_bytes(array(bytes)?).into()),
            Self::F32 => Value::Single(f32::from_le_bytes(array(bytes)?)),
            Self::F64 => Value::Double(f64::from_le_bytes(array(bytes)?)),
            Self::Bool => Value::Bool(array::<1>(bytes)? != [0]),
            Self::Text => {
                let length = u64::from_le_bytes(array(bytes)?);
                let (text, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
                *bytes = rest;
                Value::Text(text)
            }
            Self::List => return None,
        })
    }
}

fn integer(value: Value) -> Option<i128> {
    match value {
        Value::Integer(number) => Some(number),
        Value::Single(_) | Value::Double(_) | Value::Bool(_) | Value::Text(_) => None,
    }
}

fn float(value: Value) -> Option<f32> {
    match value {
        Value::Single(number) => Some(number),
        Value::Double(number) => Some(number as f32),
        Value::Integer(_) | Value::Bool(_) | Value::Text(_) => None,
    }
}

fn truth(value: Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(truth),
        Value::Integer(_) | Value::Single(_) | Value::Double(_) | Value::Text(_) => None,
    }
}

fn bytes(value: Value<'_>) -> Option<&[u8]> {
    match value {
        Value::Text(bytes) => Some(bytes),
        Value::Integer(_) | Value::Single(_) | Value::Double(_) | Value::Bool(_) => None,
    }
}

fn text(value: Value<'_>) -> Option<&str> {
    str::from_utf8(bytes(value)?).ok()
}

impl std::fmt::Debug for Gguf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gguf({} entries, version {})", self.entries.len(), self.version)
    }
}
