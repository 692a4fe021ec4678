//! Training as a pass: appends the nodes that compute gradients, from the last node to the first.

use std::collections::HashMap;

use super::prune;
use crate::ops::{Add, Fill, Gradient, Site};
use crate::{Builder, Error, Graph, Shape, Value};

/// What a gradient's output is called: `grad.` and the value's name.
pub fn name(value: &str) -> String {
    format!("grad.{value}")
}

/// `graph` with an output `grad.X` for each value X of `of`: the derivative of `loss`, which must be `[1, 1]`.
///
/// Outputs of `graph` stay. A value that the loss does not depend on gets zeros.
///
/// # Errors
/// If a value does not exist, the loss is not one number, or the way back leads through an operation without gradient.
pub fn grad(graph: &Graph, loss: &str, of: &[&str]) -> Result<Graph, Error> {
    let loss = graph.value(loss)?;
    let of = of.iter().map(|name| graph.value(name)).collect::<Result<Vec<_>, _>>()?;
    let one = Shape::fixed(1, 1);
    if graph.shape(loss) != one {
        let node = graph.info(loss).name.clone();
        return Err(Error::Shape { node, why: format!("a loss is one number, not {}", graph.shape(loss)) });
    }

    let wanted = depends_on(graph, &of);
    let mut build = Builder::extend(graph.clone());
    let mut back = Back { grads: HashMap::new() };
    let seed = build.add("grad.seed", Fill { shape: one, value: 1.0 }, &[])?;
    back.flow(loss, seed);

    for node in graph.nodes().iter().rev() {
        if !node.inputs.iter().any(|v| wanted[v.0]) {
            continue;
        }
        let upstream = node
            .outputs
            .iter()
            .map(|&v| back.total(v, &mut build, &graph.info(v).name))
            .collect::<Result<Vec<_>, _>>()?;
        if upstream.iter().all(Option::is_none) {
            continue;
        }
        let site = Site { inputs: &node.inputs, outputs: &node.outputs, upstream: &upstream };
        build.enter(&name(&node.name));
        let gradient = node.op.gradient(&site, &mut build)?;
        build.leave();
        match gradient {
            Gradient::Inputs(grads) => {
                for (&input, grad) in node.inputs.iter().zip(grads) {
                    if let Some(grad) = grad.filter(|_| wanted[input.0]) {
                        back.flow(input, grad);
                    }
                }
            }
            Gradient::None(why) => {
                return Err(Error::NoGradient { node: node.name.clone(), why: why.why() });
            }
        }
    }

    for value in of {
        let info = graph.info(value);
        let total = match back.total(value, &mut build, &info.name)? {
            Some(total) => total,
            None => build.add(&name(&info.name), Fill { shape: info.shape, value: 0.0 }, &[])?,
        };
        build.output(&name(&info.name), total);
    }
    prune(&build.finish())
}

/// Which values depend on one of `of`, themselves included.
fn depends_on(graph: &Graph, of: &[Value]) -> Vec<bool> {
    let mut depends = vec![false; graph.values().len()];
    for value in of {
        depends[value.0] = true;
    }
    for node in graph.nodes() {
        if node.inputs.iter().any(|v| depends[v.0]) {
            node.outputs.iter().for_each(|v| depends[v.0] = true);
        }
    }
    depends
}

/// What has flowed back into each value so far.
struct Back {
    grads: HashMap<Value, Vec<Value>>,
}

impl Back {
    fn flow(&mut self, into: Value, grad: Value) {
        self.grads.entry(into).or_default().push(grad);
    }

    /// The sum of what flowed into `value`, in the order in which it came.
    fn total(&mut self, value: Value, build: &mut Builder, of: &str) -> Result<Option<Value>, Error> {
        let Some(parts) = self.grads.remove(&value) else { return Ok(None) };
        let mut sum = None;
        for part in parts {
            sum = Some(match sum {
                None => part,
                Some(sum) => build.add(&format!("grad.{of}.sum"), Add, &[sum, part])?,
            });
        }
        self.grads.insert(value, sum.into_iter().collect());
        Ok(sum)
    }
}
