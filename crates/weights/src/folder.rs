//! Finding the files of a model: one file, or an index and its shards.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::Error;
use crate::error::clip;
use crate::header::{LONGEST, Unique};
use crate::map::Map;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The files that hold a model's tensors, and what an index promised about them.
pub(crate) struct Files {
    pub(crate) shards: Vec<PathBuf>,
    pub(crate) index: Option<Index>,
}

/// An index: which tensor lies in which shard.
pub(crate) struct Index {
    pub(crate) path: PathBuf,
    /// Tensor and shard, the shard as the index spells it.
    pub(crate) places: Vec<(String, String)>,
}

/// The index as it is written. It has a `metadata` too, of which nothing is needed.
#[derive(Deserialize)]
struct IndexFile {
    weight_map: Unique<String>,
}

/// The files behind `path`. Where a folder has a single file and an index, the single file counts, as it does in the
/// reference implementation.
pub(crate) fn find(path: &Path) -> Result<Files, Error> {
    if !fs::metadata(path).map_err(Error::io("open", path))?.is_dir() {
        return Ok(Files { shards: vec![path.into()], index: None });
    }
    let single = path.join(SINGLE);
    if exists(&single)? {
        return Ok(Files { shards: vec![single], index: None });
    }
    let index = path.join(INDEX);
    if exists(&index)? {
        return read_index(path, index);
    }
    Err(Error::NoWeights { folder: path.into() })
}

fn exists(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(Error::io("look for", path))
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
