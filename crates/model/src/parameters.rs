//! The parameters of a formula: their names, shapes, and how they start.

use std::collections::BTreeMap;

use glassformer_formula::Formula;
use glassformer_graph::{Leaf, Rows};
use glassformer_tensor::{Buffer, Random, Tensor};

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

/// Refuses more weights than the system gives memory for: asked for one by one, the last of them would end the process.
fn fits(parameters: &[Parameter]) -> Result<(), Error> {
    let size = |shape: &[usize]| shape.iter().copied().fold(1, usize::saturating_mul);
    let floats = parameters.iter().map(|parameter| size(&parameter.shape)).fold(0, usize::saturating_add);
    if Buffer::fits(floats) {
        return Ok(());
    }
    Err(Error::Memory { bytes: floats.saturating_mul(size_of::<f32>()) })
}

/// How each parameter starts: gains at 1; biases, u and v at 0; tables normal with deviation 1/√width; matrices uniform
/// within √(6/(in + out)) (Glorot and Bengio 2010).
///
/// # Errors
/// If the formula cannot work, or the system does not give as much memory as its weights take.
pub fn initialise(formula: &Formula, seed: u64) -> Result<BTreeMap<String, Tensor>, Error> {
    let mut random = Random::new(seed);
    let mut all = BTreeMap::new();
    let wanted = parameters(formula)?;
    fits(&wanted)?;
    for Parameter { name, shape } in wanted {
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

#[cfg(test)]
mod tests {
    use super::*;
    use glassformer_formula::named::{self, Size};

    /// The process was ended by the system instead.
    #[test]
    fn weights_that_no_memory_holds_are_refused() {
        let vocabulary = 1 << 28;
        let size = Size { layers: 1, width: 1 << 15, heads: 8, hidden: 16, vocabulary, length: 4 };
        let error = initialise(&named::gpt2(size), 1).expect_err("there is no such machine").to_string();
        assert!(error.contains("GB, more than the system gives"), "{error}");
    }
}
