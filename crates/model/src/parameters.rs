//! The parameters of a formula: their names, shapes, and how they start.

use std::collections::BTreeMap;

use glassformer_formula::Formula;
use glassformer_graph::{Leaf, Rows};
use glassformer_tensor::{Random, Tensor};

use crate::{Error, Lowering, Purpose, lower};

/// A parameter: a name and a shape. Vectors have one dimension, matrices two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its shape, as files hold it.
    pub shape: Vec<usize>,
}

/// All parameters of `formula`, in the order in which the forward pass meets them.
///
/// # Errors
/// If the formula cannot work.
pub fn parameters(formula: &Formula) -> Result<Vec<Parameter>, Error> {
    let graph = lower(formula, Lowering::run(Purpose::Whole))?;
    let parameter = |info: &glassformer_graph::ValueInfo| {
        let shape = match (info.shape.rows, is_vector(&info.name)) {
            (Rows::Fixed(rows), false) => vec![rows, info.shape.width],
            _ => vec![info.shape.width],
        };
        Parameter { name: info.name.clone(), shape }
    };
    Ok(graph.leaves(Leaf::Weight).map(|(_, info)| parameter(info)).collect())
}

/// Whether a parameter of one row is a vector. The halting projection is a matrix of one row, so shapes cannot tell.
fn is_vector(name: &str) -> bool {
    matches!(last(name), "gain" | "bias" | "u" | "v" | "class")
}

/// The last part of a path-like name.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// How each parameter starts: gains at 1; biases, u and v at 0; tables normal with deviation 1/√width; matrices uniform
/// within √(6/(in + out)) (Glorot and Bengio 2010).
///
/// # Errors
/// If the formula cannot work.
pub fn initialise(formula: &Formula, seed: u64) -> Result<BTreeMap<String, Tensor>, Error> {
    let mut random = Random::new(seed);
    let mut all = BTreeMap::new();
    for Parameter { name, shape } in parameters(formula)? {
        let mut tensor = Tensor::zeros(&shape);
        let (rows, width) = tensor.matrix();
        if last(&name) == "gain" {
            tensor.data_mut().fill(1.0);
        } else if name.contains(".embed.") && !matches!(last(&name), "weight" | "bias") {
            let deviation = 1.0 / (width as f32).sqrt();
            tensor.data_mut().iter_mut().for_each(|x| *x = deviation * random.normal());
        } else if !is_vector(&name) {
            let bound = (6.0 / (rows + width) as f32).sqrt();
            tensor.data_mut().iter_mut().for_each(|x| *x = bound * (2.0 * random.uniform() - 1.0));
        }
        all.insert(name, tensor);
    }
    Ok(all)
}
