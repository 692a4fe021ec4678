//! A model: a formula and weights that fit it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use glassformer_formula::Formula;
use glassformer_graph::ops::Which;
use glassformer_graph::{Constants, Graph, Op, PageLayout};
use glassformer_tensor::{Coded, Halves, Tensor};
use glassformer_weights::Weights;

use crate::error::Misfit;
use crate::{Error, Lowering, Purpose, initialise, lower, parameters};

/// Where a model's weights come from: tensors under our names, with their shapes.
pub trait Source: Constants + std::fmt::Debug + Send + Sync {
    /// The shape of the tensor `name`.
    fn shape(&self, name: &str) -> Option<Vec<usize>>;

    /// The names of all tensors.
    fn names(&self) -> Vec<String>;
}

/// A file whose tensors have our names already.
#[derive(Debug)]
struct Plain(Weights);

impl Constants for Plain {
    fn get(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        Some(self.0.get(name)?.values())
    }

    fn halves(&self, name: &str) -> Option<Halves<'_>> {
        let view = self.0.get(name)?;
        view.halves(0..*view.shape().first()?)
    }

    fn coded(&self, name: &str) -> Option<Box<dyn Coded + '_>> {
        let view = self.0.get(name)?;
        let rows = *view.shape().first()?;
        Some(Box::new(view.coded(0..rows)?))
    }
}

impl Source for Plain {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.0.shape(name).map(<[usize]>::to_vec)
    }

    fn names(&self) -> Vec<String> {
        self.0.names().map(str::to_owned).collect()
    }
}

/// A formula and weights that fit it. Immutable and shared.
#[derive(Clone, Debug)]
pub struct Model {
    formula: Formula,
    weights: Arc<dyn Source>,
    /// Stands for the weights, which never change.
    identity: u64,
}

/// How many models there were.
static MODELS: AtomicU64 = AtomicU64::new(0);

impl Model {
    /// `formula` with `weights`.
    ///
    /// # Errors
    /// If the formula cannot work, or weights are missing, extra, or of another shape: all of them, together.
    pub fn new(formula: Formula, weights: Weights) -> Result<Self, Error> {
        Self::with(formula, Arc::new(Plain(weights)))
    }

    /// `formula` with weights from anywhere.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub fn with(formula: Formula, weights: Arc<dyn Source>) -> Result<Self, Error> {
        let wanted = parameters(&formula)?;
        let mut misfits = Vec::new();
        for parameter in &wanted {
            let (name, expected) = (parameter.name.clone(), parameter.shape.clone());
            match weights.shape(&name) {
                None => misfits.push(Misfit::Missing { name, shape: expected }),
                Some(found) if found != expected => misfits.push(Misfit::Shape { name, expected, found }),
                Some(_) => {}
            }
        }
        let known: HashSet<&str> = wanted.iter().map(|parameter| parameter.name.as_str()).collect();
        let extra = weights.names().into_iter().filter(|name| !known.contains(name.as_str()));
        misfits.extend(extra.map(|name| Misfit::Extra { name }));
        if !misfits.is_empty() {
            return Err(Error::Weights(misfits));
        }
        Ok(Self { formula, weights, identity: MODELS.fetch_add(1, Ordering::Relaxed) })
    }

    /// `formula` with weights drawn from `seed`.
    ///
    /// # Errors
    /// If the formula cannot work.
    pub fn random(formula: Formula, seed: u64) -> Result<Self, Error> {
        let weights = initialise(&formula, seed)?;
        Self::new(formula, Weights::from_tensors(weights))
    }

    /// The model in `folder`: `formula.toml` and `model.safetensors`.
    ///
    /// # Errors
    /// If a file cannot be read, or the two do not fit.
    pub fn open_formula(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = folder.as_ref();
        let path = folder.join("formula.toml");
        let file = |why: String| Error::File { path: path.display().to_string(), why };
        let text = std::fs::read_to_string(&path).map_err(|error| file(error.to_string()))?;
        let formula = Formula::from_toml(&text).map_err(|error| file(error.to_string()))?;
        Self::new(formula, Weights::open(folder)?)
    }

    /// Writes the model to `folder`, as [`Model::open_formula`] reads it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), Error> {
        let folder = folder.as_ref();
        let path = folder.join("formula.toml");
        let file =
            |error: std::io::Error| Error::File { path: path.display().to_string(), why: error.to_string() };
        std::fs::create_dir_all(folder).map_err(file)?;
        let tensors: BTreeMap<String, Tensor> = self
            .weights
            .names()
            .into_iter()
            .filter_map(|name| {
                let tensor = self.tensor(&name)?;
                Some((name, tensor))
            })
            .collect();
        let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
        glassformer_weights::save(folder.join("model.safetensors"), named, &BTreeMap::new())?;
        let text = self
            .formula
            .to_toml()
            .map_err(|error| Error::File { path: path.display().to_string(), why: error.to_string() })?;
        std::fs::write(&path, text).map_err(file)
    }

    /// Its formula.
    pub fn formula(&self) -> &Formula {
        &self.formula
    }

    /// Where its weights come from.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.weights
    }

    /// The names of its weights.
    pub fn names(&self) -> Vec<String> {
        self.weights.names()
    }

    /// Its weight `name`, widened.
    pub fn tensor(&self, name: &str) -> Option<Tensor> {
        Tensor::new(&self.weights.shape(name)?, self.weights.get(name)?.into_owned())
    }

    /// Its graph for `purpose`.
    ///
    /// # Errors
    /// If the formula has no stack for the purpose.
    pub fn graph(&self, purpose: Purpose) -> Result<Arc<Graph>, Error> {
        Ok(Arc::new(lower(&self.formula, Lowering::run(purpose))?))
    }
}

impl Constants for Model {
    fn get(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        self.weights.get(name)
    }

    fn halves(&self, name: &str) -> Option<Halves<'_>> {
        self.weights.halves(name)
    }

    fn coded(&self, name: &str) -> Option<Box<dyn Coded + '_>> {
        self.weights.coded(name)
    }

    fn identity(&self) -> Option<u64> {
        Some(self.identity)
    }
}

/// How the pages that `graph` stores into are laid out.
pub fn page_layout(graph: &Graph, which: Which) -> PageLayout {
    let mut slots: Vec<_> = graph
        .nodes()
        .iter()
        .filter_map(|node| if let Op::Store(store) = &node.op { Some(store) } else { None })
        .filter(|store| store.pages == which)
        .map(|store| (store.slot, store.heads))
        .collect();
    slots.sort_by_key(|&(slot, _)| slot);
    PageLayout::new(slots.into_iter().map(|(_, heads)| heads).collect())
}
