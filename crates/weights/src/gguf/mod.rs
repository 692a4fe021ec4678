//! GGUF, versions 2 and 3: what a file says of the model, and its tensors in blocks.
//!
//! The format, all little-endian: the four letters, a version (32 bits), the numbers of tensors and of entries (64 bits
//! each); the entries, a key and a value; for each tensor its name, dimensions (the one that lies together first), type and
//! offset; then, from the next multiple of the alignment on, the data that offsets count from. A text is its length
//! (64 bits) and its bytes. <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>

mod entries;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use entries::Gguf;

use crate::contents::{Contents, Place};
use crate::error::clip;
use crate::map::Map;
use crate::reader::Reader;
use crate::{Dtype, Error, Quant};

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8] = b"GGUF";
/// What a tensor takes in the list at least: two lengths, a type and an offset.
const LEAST_TENSOR: usize = 24;
/// The most dimensions that the format allows.
const DIMENSIONS: u32 = 4;
/// The longest name of a tensor; the reference allows 63 bytes.
const LONGEST_NAME: u64 = 1024;
/// Where the data begins and offsets lie is a multiple of this, unless the file says otherwise.
const ALIGNMENT: u32 = 32;

/// Reads the entries and the list of tensors.
pub(crate) fn read(path: &Path, map: &Arc<Map>) -> Result<(Gguf, Contents), Error> {
    let mut reader = Reader::new(path, "GGUF", map.bytes());
    reader.take(MAGIC.len() as u64, "the magic number")?;
    let version = reader.u32("the version")?;
    match version {
        2 | 3 => {}
        1 => return Err(reader.unsupported("GGUF of version 1", "convert it again with a newer program")),
        _ if matches!(version.swap_bytes(), 1..=3) => {
            return Err(reader.unsupported("GGUF for big-endian machines", "fetch the little-endian file"));
        }
        _ => {
            let reason = format!("GGUF of version {version}, where 2 and 3 are known");
            return Err(reader.unsupported(reason, "convert it to version 3"));
        }
    }
    let tensors = reader.u64("the number of tensors")?;
    let entries = reader.u64("the number of entries")?;
    let gguf = Gguf::read(&mut reader, map, version, entries)?;
    if split(path).is_none() && gguf.u32("split.count").is_some_and(|count| count > 1) {
        let hint = "call its parts NAME-00001-of-00002.gguf and so on, side by side";
        return Err(reader.unsupported("it is one part of a model that was split", hint));
    }
    let alignment = alignment(&reader, &gguf)?;
    let claims = claims(&mut reader, tensors)?;
    let start = reader.at().next_multiple_of(alignment);
    let data = start.min(map.bytes().len())..map.bytes().len();
    let places = claims.into_iter().map(|claim| place(path, &data, alignment, claim));
    let mut places = places.collect::<Result<Vec<_>, _>>()?;
    apart(path, &mut places)?;
    let metadata = gguf.texts();
    let tensors = places.into_iter().map(|place| place.tensor(map)).collect();
    Ok((gguf, Contents { tensors, metadata }))
}

/// The file itself, or all parts of the model that it is a part of: `name-00001-of-00003.gguf`, counted from one.
pub(crate) fn parts(path: &Path) -> Vec<PathBuf> {
    split(path).unwrap_or_else(|| vec![path.into()])
}

fn split(path: &Path) -> Option<Vec<PathBuf>> {
    let number = |text: &str| (text.len() == 5).then(|| text.parse::<u32>().ok()).flatten();
    let (rest, count) = path.file_name()?.to_str()?.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (name, this) = rest.rsplit_once('-')?;
    let (this, count) = (number(this)?, number(count)?);
    let part = |part: u32| path.with_file_name(format!("{name}-{part:05}-of-{count:05}.gguf"));
    (1..=count).contains(&this).then(|| (1..=count).map(part).collect())
}

fn alignment(reader: &Reader, gguf: &Gguf) -> Result<usize, Error> {
    const KEY: &str = "general.alignment";
    let alignment = match gguf.u32(KEY) {
        Some(alignment) => alignment,
        None if gguf.contains(KEY) => return Err(reader.damaged(format!("{KEY} is not a 32-bit number"))),
        None => ALIGNMENT,
    };
    // The reference asks for a power of two; beyond a page nothing is gained by one.
    if !alignment.is_power_of_two() || alignment > 1 << 16 {
        return Err(reader.damaged(format!("{KEY} is {alignment}, not a power of two up to 65536")));
    }
    Ok(alignment as usize)
}

/// What the list says of one tensor.
struct Claim {
    name: String,
    shape: Vec<u64>,
    kind: u32,
    offset: u64,
}

fn claims(reader: &mut Reader, count: u64) -> Result<Vec<Claim>, Error> {
    let count = reader.count(count, LEAST_TENSOR, "tensors")?;
    let mut claims = Vec::new();
    let mut names = BTreeSet::new();
    for _ in 0..count {
        let length = reader.u64("the length of a tensor's name")?;
        if length > LONGEST_NAME {
            return Err(
                reader.damaged(format!("a tensor's name has {length} bytes, and {LONGEST_NAME} are allowed"))
            );
        }
        let name = reader.text(length, "a tensor's name")?;
        if !names.insert(name) {
            return Err(reader.damaged(format!("tensor {:?} appears twice", clip(name))));
        }
        let dimensions = reader.u32("the number of dimensions")?;
        if dimensions > DIMENSIONS {
            let name = clip(name);
            return Err(
                reader.damaged(format!("tensor {name:?} has {dimensions} dimensions, and 4 are allowed"))
            );
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(reader.u64("a dimension")?);
        }
        shape.reverse();
        let (kind, offset) = (reader.u32("a type")?, reader.u64("an offset")?);
        claims.push(Claim { name: name.into(), shape, kind, offset });
    }
    Ok(claims)
}

/// Checks one tensor by itself: its type, its shape, its place in `data`.
fn place(path: &Path, data: &Range<usize>, alignment: usize, claim: Claim) -> Result<Place, Error> {
    let Claim { name, shape, kind, offset } = claim;
    let damaged = |reason: String| Error::Damaged { path: path.into(), format: "GGUF", reason };
    let dtype = match dtype(kind) {
        Ok(dtype) => dtype,
        Err(known) => return Err(unread(path, &name, kind, known)),
    };
    let clipped = clip(&name);
    let Ok(shape) = shape.iter().map(|&size| usize::try_from(size)).collect::<Result<Vec<_>, _>>() else {
        return Err(damaged(format!("tensor {clipped:?} of shape {shape:?} is larger than any memory")));
    };
    if !shape.last().unwrap_or(&1).is_multiple_of(dtype.numbers()) {
        let (numbers, kind) = (dtype.numbers(), dtype.name());
        return Err(damaged(format!(
            "rows of tensor {clipped:?} of shape {shape:?} are not whole {kind} blocks of {numbers}"
        )));
    }
    let Some(length) = dtype.bytes_of(&shape) else {
        return Err(Error::Shape { path: path.into(), name: clipped, shape });
    };
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let (end, available) = (start.saturating_add(length), data.len());
    if !start.is_multiple_of(alignment) {
        return Err(damaged(format!(
            "tensor {clipped:?} lies at {start}, which is no multiple of {alignment}"
        )));
    }
    if end > available {
        return Err(Error::Range { path: path.into(), name: clipped, start, end, available });
    }
    Ok(Place { name, dtype, shape, range: data.start + start..data.start + end })
}

/// Checks that no two tensors overlap; between them there may be padding.
fn apart(path: &Path, places: &mut [Place]) -> Result<(), Error> {
    places.sort_unstable_by_key(|place| (place.range.start, place.range.end));
    match places
        .iter()
        .zip(places.iter().skip(1))
        .find(|(first, second)| first.range.end > second.range.start)
    {
        None => Ok(()),
        Some((first, second)) => {
            Err(Error::Overlap { path: path.into(), first: clip(&first.name), second: clip(&second.name) })
        }
    }
}

/// The type behind a number. Those that are not read here are known by name, where they have one.
fn dtype(kind: u32) -> Result<Dtype, Option<&'static str>> {
    Ok(match kind {
        0 => Dtype::F32,
        1 => Dtype::F16,
        2 => Dtype::Blocks(Quant::Q4_0),
        3 => Dtype::Blocks(Quant::Q4_1),
        6 => Dtype::Blocks(Quant::Q5_0),
        7 => Dtype::Blocks(Quant::Q5_1),
        8 => Dtype::Blocks(Quant::Q8_0),
        10 => Dtype::Blocks(Quant::Q2K),
        11 => Dtype::Blocks(Quant::Q3K),
        12 => Dtype::Blocks(Quant::Q4K),
        13 => Dtype::Blocks(Quant::Q5K),
        14 => Dtype::Blocks(Quant::Q6K),
        16 => Dtype::Blocks(Quant::Iq2Xxs),
        24 => Dtype::I8,
        25 => Dtype::I16,
        26 => Dtype::I32,
        27 => Dtype::I64,
        28 => Dtype::F64,
        30 => Dtype::Bf16,
        9 => return Err(Some("Q8_1")),
        15 => return Err(Some("Q8_K")),
        17 => return Err(Some("IQ2_XS")),
        18 => return Err(Some("IQ3_XXS")),
        19 => return Err(Some("IQ1_S")),
        20 => return Err(Some("IQ4_NL")),
        21 => return Err(Some("IQ3_S")),
        22 => return Err(Some("IQ2_S")),
        23 => return Err(Some("IQ4_XS")),
        29 => return Err(Some("IQ1_M")),
        34 => return Err(Some("TQ1_0")),
        35 => return Err(Some("TQ2_0")),
        39 => return Err(Some("MXFP4")),
        40 => return Err(Some("NVFP4")),
        41 => return Err(Some("Q1_0")),
        _ => return Err(None),
    })
}

fn unread(path: &Path, name: &str, kind: u32, known: Option<&str>) -> Error {
    let kind = known.map_or_else(|| format!("of unknown number {kind}"), str::to_owned);
    let reason = format!("tensor {:?} has the type {kind}, which is not read here", clip(name));
    let hint = "take the file in Q8_0, Q6_K, Q5_K or Q4_K";
    Error::Unsupported { path: path.into(), reason, hint }
}
