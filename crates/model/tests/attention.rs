//! Multi-head attention alone against PyTorch's: output, probabilities and every gradient, plain, causal and across.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_graph::ops::{Attend, Keys, Linear, Mul, Pattern, Reach, Relative, SumRows, Who};
use glassformer_graph::{
    Backend, Batch, Builder, Capacity, Graph, Leaf, Reference, Rows, Shape, Side, Span, State, grad, tap,
};
use glassformer_tensor::{Tensor, Tolerance, compare};
use glassformer_weights::Weights;

const WIDTH: usize = 16;
const HEADS: usize = 4;

/// `sum(MultiHead(query, memory) ⊙ cotangent)` with everything as an input.
fn graph(queries: Side, keys: Side, reach: Reach) -> Graph {
    let mut build = Builder::new();
    let rows = |side| Shape::new(Rows::Tokens(side), WIDTH);
    let x = build.input("query", rows(queries)).expect("an input");
    let memory = if queries == keys { x } else { build.input("memory", rows(keys)).expect("an input") };
    let project = |build: &mut Builder, name: &str, x| {
        let w = build.input(&format!("{name}.weight"), Shape::fixed(WIDTH, WIDTH)).expect("an input");
        let b = build.input(&format!("{name}.bias"), Shape::fixed(1, WIDTH)).expect("an input");
        build.add(name, Linear, &[x, w, b]).expect("it fits")
    };
    let q = project(&mut build, "mha.q", x);
    let k = project(&mut build, "mha.k", memory);
    let v = project(&mut build, "mha.v", memory);
    let attend = Attend {
        side: queries,
        heads: HEADS,
        key_heads: HEADS,
        size: WIDTH / HEADS,
        scale: 1.0 / ((WIDTH / HEADS) as f32).sqrt(),
        reach,
        pattern: Pattern::Dense,
        who: Who::Every,
        relative: Relative::None,
        keys: Keys::Rows(Rows::Tokens(keys)),
    };
    let heads = build.add("mha.heads", attend, &[q, k, v]).expect("it fits");
    let y = project(&mut build, "mha.out", heads);
    build.output("output", y);
    let cotangent = build.input("cotangent", rows(queries)).expect("an input");
    let product = build.add("product", Mul, &[y, cotangent]).expect("it fits");
    let sums = build.add("sums", SumRows, &[product]).expect("it fits"); // [1, WIDTH]
    let ones = build.input("ones", Shape::fixed(1, WIDTH)).expect("an input");
    let loss = build.add("loss", Linear, &[sums, ones]).expect("it fits");
    build.output("loss", loss);
    build.finish()
}

/// The fixture's tensor for our input or gradient `name`; q, k and v are thirds of one matrix there.
fn theirs(fixture: &Weights, kind: &str, name: &str) -> Tensor {
    let get = |name: String| fixture.require(&name).unwrap_or_else(|error| panic!("{error}")).to_f32();
    let Some((part, end)) = name.strip_prefix("mha.").and_then(|rest| rest.split_once('.')) else {
        return get(if kind == "grad" { format!("grad.{name}") } else { name.to_owned() });
    };
    let Some(third) = ["q", "k", "v"].iter().position(|&p| p == part) else {
        return get(format!("{kind}.out_proj.{end}"));
    };
    let whole = get(format!("{kind}.in_proj_{end}"));
    let size = whole.data().len() / 3;
    let shape: Vec<usize> = if end == "bias" { vec![size] } else { vec![WIDTH, WIDTH] };
    Tensor::new(&shape, whole.data()[third * size..(third + 1) * size].to_vec()).expect("a third")
}

fn batch(fixture: &Weights, queries: Side, keys: Side) -> Batch<'static> {
    let mut batch = Batch::default();
    for (side, name) in [(queries, "query"), (keys, "memory")] {
        let list = if name == "query" && queries != keys { "target_lengths" } else { "source_lengths" };
        if batch.side(side).spans.is_empty() {
            let lengths = fixture.integers(list).expect("lengths");
            for (source, len) in lengths.into_iter().enumerate() {
                batch.side_mut(side).push_rows(len as usize, Span { source, ..Span::default() });
            }
        }
    }
    batch
}

fn agrees(backend: &dyn Backend, name: &str, (queries, keys, reach): (Side, Side, Reach)) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/torch").join(name);
    let fixture =
        Weights::open(path.with_extension("safetensors")).expect("the fixture is in the repository");
    let forward = graph(queries, keys, reach);
    let wanted: Vec<String> = forward
        .leaves(Leaf::Input)
        .map(|(_, info)| info.name.clone())
        .filter(|name| name != "cotangent" && name != "ones")
        .collect();
    let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let tapped = tap::tap(&forward, &["mha.probs"]).expect("an attention");
    let graph = Arc::new(grad::grad(&tapped, "loss", &names).expect("a gradient"));

    let given: Vec<Tensor> = graph
        .leaves(Leaf::Input)
        .map(|(_, info)| match info.name.as_str() {
            "ones" => Tensor::new(&[WIDTH], vec![1.0; WIDTH]).expect("ones"),
            name => theirs(&fixture, "param", name),
        })
        .collect();
    let mut batch = batch(&fixture, queries, keys);
    batch.inputs = given.iter().map(Tensor::data).collect();
    let none: BTreeMap<String, Tensor> = BTreeMap::new();
    let runner = backend.prepare(&graph, &none, &Capacity::of(&batch)).expect("it prepares");
    let mut state = State::default();
    runner.run(&mut state, &batch).expect("it runs");

    let close = |output: &str, expected: &Tensor, bound: f32| {
        let output_at = graph.output(output).unwrap_or_else(|| panic!("no {output}"));
        let found = runner.output(&state, output_at).expect("it ran");
        compare(&found, expected.data(), Tolerance::both(bound))
            .unwrap_or_else(|difference| panic!("{name}, {output}: {difference}"));
    };
    close("output", &theirs(&fixture, "param", "output"), 1e-5);
    close("mha.probs", &theirs(&fixture, "param", "weights"), 1e-5);
    for input in names {
        close(&grad::name(input), &theirs(&fixture, "grad", input), 1e-5);
    }
}

#[test]
fn multi_head_attention_equals_torch() {
    let backends: [Box<dyn Backend>; 2] = [Box::new(Reference), Box::new(Cpu::new(2))];
    for backend in backends {
        agrees(&*backend, "attention_plain", (Side::Source, Side::Source, Reach::Both));
        agrees(&*backend, "attention_causal", (Side::Source, Side::Source, Reach::Past));
        agrees(&*backend, "attention_cross", (Side::Target, Side::Source, Reach::Both));
    }
}
