//! The map from names to tensors.

use std::collections::BTreeMap;
use std::sync::Arc;

use glassformer_tensor::Tensor;

use crate::error::clip;
use crate::stored::Stored;
use crate::{Ctranslate2, Error, Gguf, View};

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
