//! A model: a formula and weights that fit it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use glassformer_formula::Formula;
use glassformer_graph::ops::Which;
use glassformer_graph::{Constants, Graph, Op, PageLayout};
use glassformer_tensor::Tensor;
use glassformer_weights::Weights;

use crate::error::Misfit;
use crate::{Error, Lowering, Purpose, initialise, lower, parameters};

/// A formula and weights that fit it. Immutable and shared.
#[derive(Clone, Debug)]
pub struct Model {
    formula: Formula,
    weights: Arc<Weights>,
}

impl Model {
    /// `formula` with `weights`.
    ///
    /// # Errors
    /// If the formula cannot work, or weights are missing, extra, or of another shape: all of them, together.
    pub fn new(formula: Formula, weights: Weights) -> Result<Self, Error> {
        let wanted = parameters(&formula)?;
        let mut misfits = Vec::new();
        for parameter in &wanted {
            let (name, expected) = (parameter.name.clone(), parameter.shape.clone());
            match weights.shape(&name) {
                None => misfits.push(Misfit::Missing { name, shape: expected }),
                Some(found) if found != expected => {
                    misfits.push(Misfit::Shape { name, expected, found: found.to_vec() });
                }
                Some(_) => {}
            }
        }
        let extra = weights.names().filter(|name| !wanted.iter().any(|known| known.name == *name));
        misfits.extend(extra.map(|name| Misfit::Extra { name: name.to_owned() }));
        if !misfits.is_empty() {
            return Err(Error::Weights(misfits));
        }
        Ok(Self { formula, weights: Arc::new(weights) })
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
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("formula.toml");
        let file = |why: String| Error::File { path: path.display().to_string(), why };
        let text = std::fs::read_to_string(&path).map_err(|error| file(error.to_string()))?;
        let formula = Formula::from_toml(&text).map_err(|error| file(error.to_string()))?;
        Self::new(formula, Weights::open(folder)?)
    }

    /// Writes the model to `folder`, as [`Model::open`] reads it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join("formula.toml");
        let file =
            |error: std::io::Error| Error::File { path: path.display().to_string(), why: error.to_string() };
        std::fs::create_dir_all(folder).map_err(file)?;
        let tensors: BTreeMap<String, Tensor> = self
            .weights
            .names()
            .filter_map(|name| Some((name.to_owned(), self.weights.get(name)?.to_f32())))
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

    /// Its weights.
    pub fn weights(&self) -> &Arc<Weights> {
        &self.weights
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
        Some(self.weights.get(name)?.values())
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
