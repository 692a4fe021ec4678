//! The map from names to tensors.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use glassformer_tensor::Tensor;

use crate::error::clip;
use crate::folder::{self, Index};
use crate::map::Map;
use crate::view::Numbers;
use crate::{Dtype, Error, View, header};

/// Named tensors, ordered by name, never changed: the numbers lie in files mapped into memory, or in memory.
pub struct Weights {
    /// Where they came from, for messages.
    place: String,
    tensors: BTreeMap<String, Stored>,
    metadata: BTreeMap<String, String>,
}

struct Stored {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Data,
}

enum Data {
    /// A part of a file; the range was checked against it.
    File { map: Arc<Map>, range: Range<usize> },
    /// Made by this program.
    Memory(Vec<f32>),
}

impl Weights {
    /// The tensors of a `.safetensors` file, or of a folder with `model.safetensors` or with
    /// `model.safetensors.index.json` and its shards.
    ///
    /// The files are mapped, not read: opening costs the same whatever their size, and they must not be changed in
    /// place while the weights are in use (replacing them, as [`save`](crate::save) does, is safe). Every number in
    /// the headers is checked first.
    ///
    /// # Errors
    /// If a file cannot be opened, is not in the format, or contradicts itself; see [`Error`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let files = folder::find(path)?;
        let place = path.display().to_string();
        let mut weights = Self { place, tensors: BTreeMap::new(), metadata: BTreeMap::new() };
        for shard in &files.shards {
            weights.add_file(shard)?;
        }
        if let Some(index) = &files.index {
            weights.check_index(index)?;
        }
        Ok(weights)
    }

    /// Tensors made by this program. Of two with the same name the later one counts.
    pub fn from_tensors(tensors: impl IntoIterator<Item = (String, Tensor)>) -> Self {
        let stored = |(name, tensor): (String, Tensor)| {
            let shape = tensor.shape().to_vec();
            (name, Stored { dtype: Dtype::F32, shape, data: Data::Memory(tensor.into_data()) })
        };
        let tensors = tensors.into_iter().map(stored).collect();
        Self { place: "the model in memory".into(), tensors, metadata: BTreeMap::new() }
    }

    /// The tensor called `name`.
    pub fn get(&self, name: &str) -> Option<View<'_>> {
        self.tensors.get(name).map(Stored::view)
    }

    /// The tensor called `name`, for a caller who cannot do without.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none.
    pub fn require(&self, name: &str) -> Result<View<'_>, Error> {
        let missing = || Error::Missing { place: self.place.clone(), name: clip(name) };
        self.get(name).ok_or_else(missing)
    }

    /// The shape of the tensor called `name`.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.get(name).map(|view| view.shape())
    }

    /// The numbers of the tensor called `name`, if it holds integers; see [`View::integers`].
    pub fn integers(&self, name: &str) -> Option<Vec<i64>> {
        self.get(name)?.integers()
    }

    /// All names, in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// What the file says of itself. Where shards give one key different values, the first shard's counts.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        let map = Arc::new(Map::open(path)?);
        let layout = header::read(path, map.bytes())?;
        for (key, value) in layout.metadata {
            self.metadata.entry(key).or_insert(value);
        }
        for tensor in layout.tensors {
            if self.tensors.contains_key(&tensor.name) {
                return Err(Error::TwoShards { path: path.into(), name: clip(&tensor.name) });
            }
            let data = Data::File { map: Arc::clone(&map), range: tensor.range };
            self.tensors.insert(tensor.name, Stored { dtype: tensor.dtype, shape: tensor.shape, data });
        }
        Ok(())
    }

    /// Checks that what an index promises is there. Tensors that it does not mention are kept, as the reference
    /// implementation keeps them.
    fn check_index(&self, index: &Index) -> Result<(), Error> {
        match index.places.iter().find(|(name, _)| !self.tensors.contains_key(name)) {
            None => Ok(()),
            Some((name, shard)) => {
                Err(Error::NotInShard { path: index.path.clone(), name: clip(name), shard: clip(shard) })
            }
        }
    }
}

impl Stored {
    fn view(&self) -> View<'_> {
        let numbers = match &self.data {
            Data::File { map, range } => Numbers::Bytes(&map.bytes()[range.clone()]),
            Data::Memory(values) => Numbers::Floats(values),
        };
        View { dtype: self.dtype, shape: &self.shape, numbers }
    }
}

impl std::fmt::Debug for Weights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Weights({} tensors of {})", self.len(), self.place)
    }
}
