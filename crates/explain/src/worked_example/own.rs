//! What follows from the document's own numbers: the same operations, fed with what it prints instead of what is true.
//!
//! A score that is wrong may still be the right product of two wrong vectors. To tell such a number from a second slip, the
//! three stages after Q, K and V run once more, each on the numbers that the document prints for the stage before.

use std::collections::HashMap;
use std::sync::Arc;

use glassformer_graph::ops::{Linear, Scale, Softmax};
use glassformer_graph::{Backend, Batch, Builder, Capacity, Graph, Shape, State};
use glassformer_tensor::Tensor;

use crate::{Claim, Error};

/// `d_model = d_k` of the document, and its number of words.
const WIDTH: usize = 4;
const WORDS: usize = 3;

/// `scores`, `weights` and `output` of "cat", each from the document's numbers of the stage before.
pub(super) fn run(backend: &dyn Backend, claims: &[Claim]) -> Result<HashMap<String, Tensor>, Error> {
    let graph = Arc::new(graph()?);
    let batch = Batch::default();
    let mut state = State::default();
    let runner = backend.prepare(&graph, &constants(claims)?, &Capacity::of(&batch))?;
    runner.run(&mut state, &batch)?;
    let mut tensors = HashMap::new();
    for (index, (name, value)) in graph.outputs().iter().enumerate() {
        let shape = [state.rows(index), graph.shape(*value).width];
        let tensor = Tensor::new(&shape, runner.output(&state, index)?.into_owned());
        tensors.extend(tensor.map(|tensor| (name.clone(), tensor)));
    }
    Ok(tensors)
}

fn graph() -> Result<Graph, Error> {
    let mut build = Builder::new();
    let q = build.weight("q", Shape::fixed(1, WIDTH))?;
    let k = build.weight("k", Shape::fixed(WORDS, WIDTH))?;
    let products = build.add("products", Linear, &[q, k])?; // [1, words]
    let scores = build.add("scores", Scale::all(0.5), &[products])?; // the document's "/ 2"
    build.output("scores", scores);
    let s = build.weight("s", Shape::fixed(1, WORDS))?;
    let weights = build.add("weights", Softmax, &[s])?; // [1, words]
    build.output("weights", weights);
    let p = build.weight("p", Shape::fixed(1, WORDS))?;
    let v = build.weight("v", Shape::fixed(WIDTH, WORDS))?; // transposed: a linear layer is y = x Wᵀ
    let output = build.add("output", Linear, &[p, v])?; // [1, width]
    build.output("output", output);
    Ok(build.finish())
}

/// What the document prints for each stage.
fn constants(claims: &[Claim]) -> Result<HashMap<String, Tensor>, Error> {
    let printed = |section: &str, what: &str| -> Vec<f32> {
        let about = claims.iter().filter(|claim| claim.section == section && claim.what == what);
        about.filter_map(|claim| claim.printed.parse().ok()).collect()
    };
    let rows = |section: &str, whats: [&str; WORDS]| whats.map(|what| printed(section, what));
    let values = rows("2.d", ["V_The", "V_cat", "V_sat"]);
    let across = |j: usize| values.iter().filter_map(move |value| value.get(j).copied());
    let all = [
        ("q", [1, WIDTH], printed("2.b", "Q_cat")),
        ("k", [WORDS, WIDTH], rows("2.b", ["K_The", "K_cat", "K_sat"]).concat()),
        ("s", [1, WORDS], printed("2.c", "softmax([…])")),
        ("p", [1, WORDS], printed("2.d", "…·V_The + …·V_cat + …·V_sat")),
        ("v", [WIDTH, WORDS], (0..WIDTH).flat_map(across).collect()),
    ];
    all.into_iter()
        .map(|(name, shape, numbers)| {
            let incomplete =
                || Error::Data { file: "claims.toml", why: format!("numbers of {name} are missing") };
            Ok((name.to_owned(), Tensor::new(&shape, numbers).ok_or_else(incomplete)?))
        })
        .collect()
}
