//! Batches that a graph cannot run are refused with a reason, before anything is computed.

use std::collections::HashMap;
use std::sync::Arc;

use glassformer_graph::ops::{Attend, Ids, Keys, LookupGrad, Pattern, Reach, Relative, Which, Who};
use glassformer_graph::{
    Backend, Batch, Builder, Capacity, Dtype, Graph, PageLayout, Pages, Reference, Rows, Shape, Side, Slot,
    Span, State,
};
use glassformer_tensor::Tensor;

const WIDTH: usize = 6;

fn attend(keys: Keys) -> Attend {
    Attend {
        side: Side::Target,
        heads: 2,
        key_heads: 2,
        size: 3,
        scale: 1.0,
        reach: Reach::Both,
        pattern: Pattern::Dense,
        who: Who::Every,
        relative: Relative::None,
        keys,
    }
}

/// One attention of target rows, whose inputs all are the graph's.
fn attention(keys: Keys) -> Arc<Graph> {
    let mut build = Builder::new();
    let mut inputs =
        vec![build.input("q", Shape::new(Rows::Tokens(Side::Target), WIDTH)).expect("a new name")];
    if let Keys::Rows(rows) = keys {
        inputs.push(build.input("k", Shape::new(rows, WIDTH)).expect("a new name"));
        inputs.push(build.input("v", Shape::new(rows, WIDTH)).expect("a new name"));
    }
    let y = build.add("y", attend(keys), &inputs).expect("it fits");
    build.output("y", y);
    Arc::new(build.finish())
}

fn refusal(graph: &Arc<Graph>, state: &mut State, batch: &Batch<'_>) -> String {
    let weights: HashMap<String, Tensor> = HashMap::new();
    let runner = Reference.prepare(graph, &weights, &Capacity::of(batch)).expect("it prepares");
    runner.run(state, batch).expect_err("the batch is refused").to_string()
}

/// One target sequence of two rows, as `span` says.
fn two_rows(numbers: &[f32], span: Span) -> Batch<'_> {
    let mut batch = Batch { inputs: vec![&numbers[..2 * WIDTH]], ..Batch::default() };
    batch.target.push_rows(2, span);
    batch
}

#[test]
fn a_source_that_is_not_in_the_batch() {
    let numbers = [0.0; 4 * WIDTH];
    let mut batch = two_rows(&numbers, Span { source: 1, ..Span::default() });
    batch.source.push_rows(4, Span::default());
    batch.inputs.extend([&numbers[..], &numbers[..]]);
    let why = refusal(&attention(Keys::Rows(Rows::Tokens(Side::Source))), &mut State::default(), &batch);
    assert!(why.contains("source sequence 1, of 1"), "{why}");
}

#[test]
fn pages_that_are_missing_too_few_or_of_another_layout() {
    let numbers = [0.0; 2 * WIDTH];
    let batch = two_rows(&numbers, Span { past: 15, ..Span::default() });
    let pages = |heads: usize, tables: usize| {
        let mut pages = Pages::new(PageLayout::new(vec![Slot { heads, size: 3 }]), 4);
        (0..tables).for_each(|_| _ = pages.open());
        pages
    };
    for which in [Which::Cache, Which::Crossing] {
        let graph = attention(Keys::Pages(which, 0));
        let why = refusal(&graph, &mut State::default(), &batch);
        assert!(why.contains("slot 0 of the pages is None"), "{why}");
        let mut state = State::new(pages(1, 1), pages(1, 1));
        assert!(refusal(&graph, &mut state, &batch).contains("layout"));
        let mut state = State::new(pages(2, 0), pages(2, 0));
        assert!(refusal(&graph, &mut state, &batch).contains("rows in pages"));
        let layout = PageLayout::new(vec![Slot { heads: 2, size: 3 }]).with_dtype(Dtype::Bf16);
        let mut state = State::new(Pages::new(layout.clone(), 4), Pages::new(layout, 4));
        assert!(refusal(&graph, &mut state, &batch).contains("keys and values in bf16"));
    }
    let mut state = State::new(pages(2, 1), pages(2, 1));
    state.cache.reserve(0, 16).expect("there are four pages");
    let why = refusal(&attention(Keys::Pages(Which::Cache, 0)), &mut state, &batch);
    assert!(why.contains("needs 17 rows in pages"), "{why}");
}

#[test]
fn an_id_beyond_the_table_of_a_gradient() {
    let op = LookupGrad { ids: Ids::Tokens(Side::Target), table: Shape::fixed(3, WIDTH) };
    let mut build = Builder::new();
    let dy = build.input("dy", Shape::new(Rows::Tokens(Side::Target), WIDTH)).expect("a new name");
    let table = build.add("table", op, &[dy]).expect("it fits");
    build.output("table", table);
    let numbers = [0.0; 2 * WIDTH];
    let mut batch = two_rows(&numbers, Span::default());
    batch.target.tokens = vec![2, 3];
    let why = refusal(&Arc::new(build.finish()), &mut State::default(), &batch);
    assert!(why.contains("id 3 of target row 1"), "{why}");
}

#[test]
fn picked_rows_that_do_not_ascend() {
    for picked in [vec![1, 0], vec![1, 1]] {
        let numbers = [0.0; 2 * WIDTH];
        let mut batch = two_rows(&numbers, Span::default());
        batch.target.picked = picked;
        assert!(batch.check().is_err());
    }
}
