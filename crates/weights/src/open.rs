//! From a path to its tensors: which files, in which format, and whether an index told the truth about them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::error::clip;
use crate::map::Map;
use crate::safetensors::{LONGEST, Unique};
use crate::stored::Stored;
use crate::weights::Format;
use crate::{Error, Weights, ctranslate2, gguf, safetensors, torch};

/// What one file holds.
pub(crate) struct Contents {
    pub(crate) format: Format,
    pub(crate) tensors: Vec<(String, Stored)>,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// The files that hold a model's tensors, and what an index promised about them.
struct Files {
    shards: Vec<PathBuf>,
    index: Option<Index>,
}

/// An index: which tensor lies in which shard.
struct Index {
    path: PathBuf,
    /// Tensor and shard, the shard as the index spells it.
    places: Vec<(String, String)>,
}

/// The index as it is written. It has a `metadata` too, of which nothing is needed.
#[derive(Deserialize)]
struct IndexFile {
    weight_map: Unique<String>,
}

pub(crate) fn open(path: &Path) -> Result<Weights, Error> {
    let files = find(path)?;
    let (place, format) = (path.display().to_string(), Format::Memory);
    let mut weights = Weights { place, format, tensors: BTreeMap::new(), metadata: BTreeMap::new() };
    for (number, shard) in files.shards.iter().enumerate() {
        let contents = read(shard)?;
        if number == 0 {
            weights.format = contents.format;
        }
        for (key, value) in contents.metadata {
            weights.metadata.entry(key).or_insert(value);
        }
        for (name, stored) in contents.tensors {
            if weights.tensors.contains_key(&name) {
                return Err(Error::TwoShards { path: shard.clone(), name: clip(&name) });
            }
            weights.tensors.insert(name, stored);
        }
    }
    if let Some(index) = &files.index {
        check(&weights, index)?;
    }
    Ok(weights)
}

/// The tensors of a file that is in memory; `path` is for messages.
pub(crate) fn from_bytes(path: &Path, bytes: Cow<'static, [u8]>) -> Result<Weights, Error> {
    let Contents { format, tensors, metadata } = contents(path, &Arc::new(Map::of(bytes)))?;
    let tensors = tensors.into_iter().collect();
    Ok(Weights { place: path.display().to_string(), format, tensors, metadata })
}

/// The contents of one file, whatever its format.
fn read(path: &Path) -> Result<Contents, Error> {
    contents(path, &Arc::new(Map::open(path)?))
}

fn contents(path: &Path, map: &Arc<Map>) -> Result<Contents, Error> {
    let bytes = map.bytes();
    let safetensors = path.extension().is_some_and(|extension| extension == "safetensors");
    if safetensors::looks_like(bytes) {
        safetensors::read(path, map)
    } else if bytes.starts_with(gguf::MAGIC) {
        gguf::read(path, map)
    } else if bytes.starts_with(torch::ZIP) {
        torch::read_zip(path, map)
    } else if torch::looks_like_a_pickle(bytes) {
        torch::read_old(path, map)
    } else if ctranslate2::looks_like(bytes) {
        ctranslate2::read(path, map)
    } else if bytes.starts_with(b"version https://git-lfs") {
        let reason = "it is a Git LFS pointer, not the file itself".into();
        Err(Error::Unsupported {
            path: path.into(),
            reason,
            hint: "fetch the file, for instance with git lfs pull",
        })
    } else if safetensors {
        // It is none: say what is wrong with it as one.
        safetensors::read(path, map)
    } else {
        Err(Error::Unrecognised { path: path.into() })
    }
}

/// The files behind `path`. Where a folder has a single file and an index, the single file counts, as it does in the
/// reference implementation.
fn find(path: &Path) -> Result<Files, Error> {
    if !fs::metadata(path).map_err(Error::io("open", path))?.is_dir() {
        return Ok(Files { shards: gguf::parts(path), index: None });
    }
    for (single, index) in [
        ("model.safetensors", Some("model.safetensors.index.json")),
        ("pytorch_model.bin", Some("pytorch_model.bin.index.json")),
        ("model.bin", None),
    ] {
        let single = path.join(single);
        if exists(&single)? {
            return Ok(Files { shards: vec![single], index: None });
        }
        if let Some(index) = index.map(|index| path.join(index))
            && exists(&index)?
        {
            return read_index(path, index);
        }
    }
    Ok(Files { shards: find_gguf(path)?, index: None })
}

fn exists(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(Error::io("look for", path))
}

/// The only GGUF file of a folder, or all parts of the only one that is split.
fn find_gguf(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let path = entry.map_err(Error::io("list", folder))?.path();
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
            files.insert(path);
        }
    }
    let Some(first) = files.first() else { return Err(Error::NoWeights { folder: folder.into() }) };
    let parts = gguf::parts(first);
    if files.iter().all(|file| parts.contains(file)) {
        return Ok(parts);
    }
    let names = files.iter().filter_map(|file| file.file_name()).map(|name| name.display().to_string());
    let files = clip(&names.take(4).collect::<Vec<_>>().join(", "));
    Err(Error::Ambiguous { folder: folder.into(), files: format!("several .gguf files: {files}") })
}

fn read_index(folder: &Path, path: PathBuf) -> Result<Files, Error> {
    let file = Map::open(&path)?;
    let length = file.bytes().len() as u64;
    if length > LONGEST {
        return Err(Error::LongHeader { path, length, limit: LONGEST });
    }
    let places = match serde_json::from_slice::<IndexFile>(file.bytes()) {
        Ok(file) => file.weight_map.0,
        Err(error) => return Err(Error::Syntax { path, reason: clip(&format!("index: {error}")) }),
    };
    let names: BTreeSet<&String> = places.values().collect();
    if let Some(shard) = names.iter().find(|shard| !stays_inside(shard)) {
        return Err(Error::Escape { path, shard: clip(shard) });
    }
    let shards = names.into_iter().map(|shard| folder.join(shard)).collect();
    Ok(Files { shards, index: Some(Index { path, places: places.into_iter().collect() }) })
}

/// Whether a path from a file goes down only. Links are followed: they were put there by whoever owns the disk, and
/// the usual cache of downloaded models consists of them.
fn stays_inside(shard: &str) -> bool {
    let mut parts = Path::new(shard).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Checks that what an index promises is there. Tensors that it does not mention are kept, as the reference
/// implementation keeps them.
fn check(weights: &Weights, index: &Index) -> Result<(), Error> {
    match index.places.iter().find(|(name, _)| !weights.tensors.contains_key(name)) {
        None => Ok(()),
        Some((name, shard)) => {
            Err(Error::NotInShard { path: index.path.clone(), name: clip(name), shard: clip(shard) })
        }
    }
}
