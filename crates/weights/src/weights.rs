//! The map from names to tensors.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use glassformer_tensor::Tensor;

use crate::error::clip;
use crate::stored::Stored;
use crate::{Ctranslate2, Error, Gguf, View, open};

/// Named tensors, ordered by name, never changed: the numbers lie in files mapped into memory, or in memory.
#[derive(Clone)]
pub struct Weights {
    /// Where they came from, for messages.
    pub(crate) place: String,
    pub(crate) format: Format,
    pub(crate) tensors: BTreeMap<String, Stored>,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// Where weights came from, with what only that format says.
#[derive(Clone, Debug)]
pub enum Format {
    /// Made by this program.
    Memory,
    /// A safetensors file, or several.
    Safetensors,
    /// A PyTorch file, or several.
    Torch,
    /// A GGUF file, or several.
    Gguf(Arc<Gguf>),
    /// A CTranslate2 model.
    Ctranslate2(Arc<Ctranslate2>),
}

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
        open::open(path.as_ref())
    }

    /// The same of one file that is in memory, as one that `include_bytes!` made a part of the program. Nothing is copied;
    /// `place` is what messages call it.
    ///
    /// # Errors
    /// As for [`Weights::open`]. CTranslate2's vocabularies lie beside its file, and are looked for at `place`.
    pub fn from_bytes(place: impl AsRef<Path>, bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self, Error> {
        open::from_bytes(place.as_ref(), bytes.into())
    }

    /// Tensors made by this program. Of two with the same name the later one counts.
    pub fn from_tensors(tensors: impl IntoIterator<Item = (String, Tensor)>) -> Self {
        let stored = |(name, tensor): (String, Tensor)| {
            let shape = tensor.shape().to_vec();
            (name, Stored::memory(tensor.into_data(), &shape))
        };
        let tensors = tensors.into_iter().map(stored).collect();
        Self {
            place: "the model in memory".into(),
            format: Format::Memory,
            tensors,
            metadata: BTreeMap::new(),
        }
    }

    /// The tensor called `name`.
    pub fn get(&self, name: &str) -> Option<View<'_>> {
        self.tensors.get(name).map(|stored| View { stored })
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

    /// What the file says of itself, as text; lists are only in [`Weights::gguf`]. Where shards give one key different
    /// values, the first shard's counts.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The format that they came in.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// What a GGUF file says of the model, its vocabulary and its chat template.
    pub fn gguf(&self) -> Option<&Gguf> {
        match &self.format {
            Format::Gguf(gguf) => Some(gguf),
            Format::Memory | Format::Safetensors | Format::Torch | Format::Ctranslate2(_) => None,
        }
    }

    /// What a CTranslate2 folder says of the model, and its vocabularies.
    pub fn ctranslate2(&self) -> Option<&Ctranslate2> {
        match &self.format {
            Format::Ctranslate2(model) => Some(model),
            Format::Memory | Format::Safetensors | Format::Torch | Format::Gguf(_) => None,
        }
    }
}

impl std::fmt::Debug for Weights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Weights({} tensors of {})", self.len(), self.place)
    }
}
