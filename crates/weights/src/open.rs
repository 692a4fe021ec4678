//! From a path to its tensors: which files, in which format, and whether an index told the truth about them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::contents::Contents;
use crate::error::clip;
use crate::json::{LONGEST, Unique};
use crate::map::Map;
use crate::scheme::SCALE;
use crate::stored::Stored;
use crate::weights::Format;
use crate::{Error, Weights, ctranslate2, gguf, safetensors, torch};

impl Weights {
    /// The tensors behind `path`, a file or a folder. What a file is, its first bytes decide, not its name:
    ///
    /// - safetensors;
    /// - PyTorch's `torch.save`, both the zip format and the older one. Only what holds tensors is understood: a file that
    ///   asks for anything else is refused, and nothing it says is ever run. Tensors in nested dictionaries and lists are
    ///   named by their path, joined with dots: `{"model": {"w": …}}` has `model.w`. Numbers and texts found on the way
    ///   are [`Weights::metadata`];
    /// - GGUF, whose sizes are turned around so that the last dimension lies together, as everywhere else. One part of a
    ///   model split into `…-00001-of-00003.gguf` stands for all;
    /// - CTranslate2's `model.bin`, aliases as names of their own, and 8- and 16-bit integers with their scales.
    ///
    /// A folder holds one of these, looked for in this order: `model.safetensors`, `model.safetensors.index.json` with its
    /// shards, `pytorch_model.bin`, `pytorch_model.bin.index.json` with its shards, `model.bin`, one `.gguf` file.
    ///
    /// The files are mapped, not read: opening costs the same whatever their size, and they must not be changed in
    /// place while the weights are in use (replacing them, as [`save`](crate::save) does, is safe). Every number in
    /// the headers is checked first.
    ///
    /// # Errors
    /// If a file cannot be opened, is not in a known format, or contradicts itself; see [`Error`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        open(path.as_ref())
    }

    /// The same of one file that is in memory, as one that `include_bytes!` made a part of the program. Nothing is copied;
    /// `place` is what messages call it.
    ///
    /// # Errors
    /// As for [`Weights::open`]. CTranslate2's vocabularies lie beside its file, and are looked for at `place`.
    pub fn from_bytes(place: impl AsRef<Path>, bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self, Error> {
        Self::from_shards([(place, bytes)])
    }

    /// The same of several files, which hold a model's tensors together.
    ///
    /// # Errors
    /// As for [`Weights::from_bytes`], and if two of them hold a tensor of the same name.
    pub fn from_shards<P: AsRef<Path>, B: Into<Cow<'static, [u8]>>>(
        shards: impl IntoIterator<Item = (P, B)>,
    ) -> Result<Self, Error> {
        let mut weights: Option<Self> = None;
        for (place, bytes) in shards {
            let path = place.as_ref();
            let weights = weights.get_or_insert_with(|| Self::none(path));
            weights.add(path, &Arc::new(Map::of(bytes.into())))?;
        }
        Ok(weights.unwrap_or_else(|| Self::none(Path::new(""))))
    }

    /// No tensors yet. `path` is what messages call them.
    fn none(path: &Path) -> Self {
        let (place, format) = (path.display().to_string(), Format::Memory);
        Self { place, format, tensors: BTreeMap::new(), metadata: BTreeMap::new() }
    }

    /// Adds the tensors of one file. What the first one says about itself counts.
    fn add(&mut self, path: &Path, file: &Arc<Map>) -> Result<(), Error> {
        let (format, Contents { tensors, metadata }) = contents(path, file)?;
        if self.tensors.is_empty() {
            self.format = format;
        }
        for (key, value) in metadata {
            self.metadata.entry(key).or_insert(value);
        }
        for (name, stored) in tensors {
            if self.tensors.contains_key(&name) {
                return Err(Error::TwoShards { path: path.into(), name: clip(&name) });
            }
            self.tensors.insert(name, stored);
        }
        Ok(())
    }
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

fn open(path: &Path) -> Result<Weights, Error> {
    let files = find(path)?;
    let mut weights = Weights::none(path);
    for shard in &files.shards {
        weights.add(shard, &Arc::new(Map::open(shard)?))?;
    }
    if let Some(index) = &files.index {
        check(&weights, index)?;
    }
    Ok(weights)
}

/// The contents of one file, whatever its format; `path` is for messages.
fn contents(path: &Path, map: &Arc<Map>) -> Result<(Format, Contents), Error> {
    let bytes = map.bytes();
    let safetensors = path.extension().is_some_and(|extension| extension == "safetensors");
    if safetensors::looks_like(bytes) {
        Ok((Format::Safetensors, safetensors::read(path, map)?))
    } else if bytes.starts_with(gguf::MAGIC) {
        let (gguf, contents) = gguf::read(path, map)?;
        Ok((Format::Gguf(Arc::new(gguf)), contents))
    } else if bytes.starts_with(torch::ZIP) {
        Ok((Format::Torch, torch::read_zip(path, map)?))
    } else if torch::looks_like_a_pickle(bytes) {
        Ok((Format::Torch, torch::read_old(path, map)?))
    } else if ctranslate2::looks_like(bytes) {
        let (model, contents) = ctranslate2::read(path, map)?;
        Ok((Format::Ctranslate2(Arc::new(model)), contents))
    } else if bytes.starts_with(b"version https://git-lfs") {
        let reason = "it is a Git LFS pointer, not the file itself".into();
        Err(Error::Unsupported {
            path: path.into(),
            reason,
            hint: "fetch the file, for instance with git lfs pull",
        })
    } else if safetensors {
        // It is none: say what is wrong with it as one.
        Ok((Format::Safetensors, safetensors::read(path, map)?))
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
    // Scales of weights in few bits are tensors of the file, and part of another one here.
    let is_scale = |name: &str| {
        let coded = name.strip_suffix(SCALE).and_then(|name| weights.tensors.get(name));
        coded.is_some_and(Stored::is_scaled)
    };
    let is_there = |name: &String| weights.tensors.contains_key(name) || is_scale(name);
    match index.places.iter().find(|(name, _)| !is_there(name)) {
        None => Ok(()),
        Some((name, shard)) => {
            Err(Error::NotInShard { path: index.path.clone(), name: clip(name), shard: clip(shard) })
        }
    }
}
