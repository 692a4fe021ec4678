//! A run that begins in the middle gives what the whole run gives, and reads no more than it needs.

use std::collections::HashMap;
use std::sync::Arc;

use glassformer_graph::ops::{Add, Linear, Scale};
use glassformer_graph::{
    Backend, Batch, Builder, Capacity, Graph, Leaf, Reference, Rows, Shape, Side, Span, State, given,
};
use glassformer_tensor::Tensor;

const TOKENS: Shape = Shape::new(Rows::Tokens(Side::Source), 2);

/// `y = (x · A + 2x) · B`, and a product with C that nobody asks for.
fn graph() -> Graph {
    let mut build = Builder::new();
    let x = build.input("x", TOKENS).unwrap();
    let [a, b, c] = ["A", "B", "C"].map(|name| build.weight(name, Shape::fixed(2, 2)).unwrap());
    let first = build.add("first", Linear, &[x, a]).unwrap();
    let twice = build.add("twice", Scale::all(2.0), &[x]).unwrap();
    let sum = build.add("sum", Add, &[first, twice]).unwrap();
    let y = build.add("y", Linear, &[sum, b]).unwrap();
    build.add("unused", Linear, &[sum, c]).unwrap();
    for (name, value) in [("y", y), ("first", first), ("twice", twice)] {
        build.output(name, value);
    }
    build.finish()
}

fn run(graph: &Arc<Graph>, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    let weight = |numbers: [f32; 4]| Tensor::new(&[2, 2], numbers.into()).unwrap();
    let weights: HashMap<String, Tensor> = [
        ("A".to_owned(), weight([1.0, 2.0, 3.0, 4.0])),
        ("B".to_owned(), weight([0.5, -1.0, 2.0, 0.25])),
        ("C".to_owned(), weight([1.0; 4])),
    ]
    .into();
    let mut batch = Batch::default();
    batch.source.push_rows(3, Span::default());
    batch.inputs = inputs.to_vec();
    let runner = Reference.prepare(graph, &weights, &Capacity::of(&batch)).unwrap();
    let mut state = State::default();
    runner.run(&mut state, &batch).unwrap();
    (0..graph.outputs().len()).map(|k| runner.output(&state, k).unwrap().into_owned()).collect()
}

#[test]
fn begun_in_the_middle_it_ends_as_the_whole() {
    let whole = Arc::new(graph());
    let x = [1.0, -2.0, 0.5, 3.0, 4.0, 0.25];
    let [y, first, twice] = &run(&whole, &[&x])[..] else { panic!("three outputs") };
    let mut build = Builder::extend(graph());
    build.forget_outputs();
    let wanted = build.find("y").unwrap();
    build.output("y", wanted);
    let whole = build.finish();
    let names = given::beside(&whole, &["first"]).unwrap();
    assert_eq!(names, ["first", "twice"], "what is read beside it is given with it");
    let begun = given::given(&whole, &names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let leaves = |leaf| begun.leaves(leaf).map(|(_, info)| info.name.clone()).collect::<Vec<_>>();
    assert_eq!(leaves(Leaf::Input), ["first.given", "twice.given"], "x is not read any more");
    assert_eq!(leaves(Leaf::Weight), ["B"], "nor are A and C");
    assert_eq!(run(&Arc::new(begun), &[first, twice])[0], *y);
}

#[test]
fn what_is_not_made_cannot_be_given() {
    for (name, why) in
        [("x", "it comes from outside"), ("A", "it comes from outside"), ("frist", "the nearest")]
    {
        let said = given::given(&graph(), &[name]).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
}
