//! Identities that catch a wrong variant: each says that two formulas, or two ways of running one, are the same function.

use glassformer_conformance as common;
use glassformer_cpu::Cpu;
use glassformer_formula::{
    Attention, Counting, Depth, Formula, Global, Head, Mix, Pairing, Pattern, Position, Rotary, Scaling,
    Sharing, Spread, When, named,
};
use glassformer_graph::ops::Which;
use glassformer_graph::{Backend, Batch, Capacity, Graph, Pages, Reference, Side, Span, State};
use glassformer_model::{Lowering, Model, Purpose, initialise, lower, page_layout};
use glassformer_tensor::{Random, Tensor, Tolerance, compare};
use glassformer_weights::Weights;
use std::collections::BTreeMap;

/// The smallest bases: an encoder and a decoder of two layers.
fn small(name: &str) -> Formula {
    let mut formula = named(name).expect("a known name");
    for side in [&mut formula.source, &mut formula.target].into_iter().flatten() {
        side.stack.width = 12;
        side.stack.depth = match side.stack.depth {
            Depth::Layers(_) => Depth::Layers(2),
            other => other,
        };
        if let glassformer_formula::Input::Tokens(tokens) = &mut side.input {
            tokens.vocabulary = common::VOCABULARY;
            tokens.clusters = None;
        }
        for sublayer in &mut side.stack.block {
            match &mut sublayer.mix {
                Mix::Attend(attention) => {
                    attention.heads = glassformer_formula::Heads { query: 2, key: 2, size: 6 };
                }
                Mix::Feed(
                    glassformer_formula::FeedForward::Plain { hidden, .. }
                    | glassformer_formula::FeedForward::Gated { hidden, .. },
                ) => *hidden = 16,
            }
        }
        if let Position::Learned { max, .. } = &mut side.stack.position {
            *max = 30;
        }
    }
    formula.head = Head::Rows;
    formula.pooler = None;
    formula
}

fn attentions(formula: &mut Formula) -> impl Iterator<Item = &mut Attention> {
    [&mut formula.source, &mut formula.target]
        .into_iter()
        .flatten()
        .flat_map(|side| &mut side.stack.block)
        .filter_map(|sublayer| match &mut sublayer.mix {
            Mix::Attend(attention) => Some(attention),
            Mix::Feed(_) => None,
        })
}

/// Parameters with everything away from its neutral start, so that a mistake shows.
fn stirred(formula: &Formula, seed: u64) -> BTreeMap<String, Tensor> {
    let mut random = Random::new(seed);
    let mut all = initialise(formula, seed).expect("the formula works");
    for tensor in all.values_mut() {
        tensor.data_mut().iter_mut().for_each(|x| *x += 0.2 * random.normal());
    }
    all
}

fn model(formula: &Formula, tensors: &BTreeMap<String, Tensor>) -> Model {
    Model::new(formula.clone(), Weights::from_tensors(tensors.clone())).expect("the weights fit")
}

fn backends() -> [Box<dyn Backend>; 2] {
    [Box::new(Reference), Box::new(Cpu::new(2))]
}

fn tokens(lengths: &[usize], side: Side) -> Batch<'static> {
    let mut random = Random::new(lengths.len() as u64);
    let mut batch = Batch::default();
    for &len in lengths {
        let ids: Vec<u32> = (0..len).map(|_| random.below(common::VOCABULARY) as u32).collect();
        batch.side_mut(side).push(&ids, Span::default());
    }
    batch.side_mut(side).pick_all();
    batch
}

fn hidden(model: &Model, backend: &dyn Backend, mut batch: Batch<'_>) -> Vec<f32> {
    let graph = model.graph(Purpose::Whole).expect("it lowers");
    common::bind(&mut batch, &graph, &[]);
    let runner = backend.prepare(&graph, model, &Capacity::of(&batch)).expect("it prepares");
    let mut state = State::default();
    runner.run(&mut state, &batch).expect("it runs");
    runner.output(&state, graph.output("hidden").expect("an output")).expect("it ran").into_owned()
}

fn same(what: &str, a: &[f32], b: &[f32]) {
    compare(a, b, Tolerance::both(1e-5)).unwrap_or_else(|difference| panic!("{what}: {difference}"));
}

const LENGTHS: [usize; 4] = [5, 1, 17, 8];

#[test]
fn a_window_as_wide_as_the_sequence_is_dense() {
    let dense = small("bert");
    let mut window = dense.clone();
    attentions(&mut window).for_each(|a| a.pattern = Pattern::Sliding { window: 16, global: Global::None });
    let mut narrow = dense.clone();
    attentions(&mut narrow).for_each(|a| a.pattern = Pattern::Sliding { window: 2, global: Global::None });
    let weights = stirred(&dense, 1);
    for backend in backends() {
        let run = |formula| hidden(&model(formula, &weights), &*backend, tokens(&LENGTHS, Side::Source));
        same("window 16", &run(&window), &run(&dense));
        assert!(
            compare(&run(&narrow), &run(&dense), Tolerance::both(1e-3)).is_err(),
            "a narrow window differs"
        );
    }
}

#[test]
fn all_rows_global_is_dense_with_the_global_projections() {
    let dense = small("bert");
    let mut longformer = dense.clone();
    attentions(&mut longformer)
        .for_each(|a| a.pattern = Pattern::Sliding { window: 1, global: Global::Separate });
    let mut shared = dense.clone();
    attentions(&mut shared).for_each(|a| a.pattern = Pattern::Sliding { window: 1, global: Global::Shared });
    let weights = stirred(&longformer, 2);
    // With every row global, only the global projections count: give them to the dense formula.
    let global: BTreeMap<String, Tensor> = weights
        .iter()
        .filter(|(name, _)| {
            !name.contains(".attend.query")
                && !name.contains(".attend.key")
                && !name.contains(".attend.value")
        })
        .map(|(name, tensor)| (name.replace(".attend.global.", ".attend."), tensor.clone()))
        .collect();
    for backend in backends() {
        let mut batch = tokens(&LENGTHS, Side::Source);
        batch.source.global = vec![true; batch.source.rows()];
        let found = hidden(&model(&longformer, &weights), &*backend, batch.clone());
        let expected = hidden(&model(&dense, &global), &*backend, tokens(&LENGTHS, Side::Source));
        same("separate", &found, &expected);
        same("shared", &hidden(&model(&shared, &global), &*backend, batch), &expected);
    }
}

#[test]
fn full_rank_with_identity_projections_is_dense() {
    let dense = small("bert");
    for sharing in [Sharing::Heads, Sharing::KeyValue, Sharing::Layers] {
        let mut low = dense.clone();
        attentions(&mut low).for_each(|a| a.pattern = Pattern::LowRank { rank: 9, length: 9, sharing });
        let mut weights = stirred(&low, 3);
        for (name, tensor) in &mut weights {
            if name.contains("squeeze") {
                for (index, x) in tensor.data_mut().iter_mut().enumerate() {
                    *x = f32::from(u8::from(index / 9 == index % 9));
                }
            }
        }
        let plain = weights.iter().filter(|(name, _)| !name.contains("squeeze"));
        let plain = plain.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
        for backend in backends() {
            let run = |model: Model| hidden(&model, &*backend, tokens(&[9, 9], Side::Source));
            same("rank 9 of 9", &run(model(&low, &weights)), &run(model(&dense, &plain)));
        }
    }
}

#[test]
fn shared_depth_is_that_many_layers_with_equal_weights() {
    let mut shared = small("gpt2");
    let target = shared.target.as_mut().expect("a decoder");
    target.stack.depth = Depth::Shared { times: 3 };
    let mut layers = shared.clone();
    layers.target.as_mut().expect("a decoder").stack.depth = Depth::Layers(3);
    let weights = stirred(&shared, 4);
    let mut repeated = BTreeMap::new();
    for (name, tensor) in &weights {
        for layer in 0..3 {
            repeated.insert(name.replace(".shared.", &format!(".{layer}.")), tensor.clone());
        }
    }
    for backend in backends() {
        let run = |model: Model| hidden(&model, &*backend, tokens(&LENGTHS, Side::Target));
        assert_eq!(run(model(&shared, &weights)), run(model(&layers, &repeated)));
    }
}

#[test]
fn halting_at_the_first_step_is_one_step() {
    let mut adaptive = small("gpt2");
    let stack =
        |formula: &mut Formula, depth| formula.target.as_mut().expect("a decoder").stack.depth = depth;
    stack(&mut adaptive, Depth::Adaptive { max: 4, threshold: 0.99 });
    let mut once = adaptive.clone();
    stack(&mut once, Depth::Shared { times: 1 });
    let mut weights = stirred(&adaptive, 5);
    weights.get_mut("target.halt.bias").expect("a halting bias").data_mut()[0] = 60.0; // p = 1 > threshold
    let plain = weights.iter().filter(|(name, _)| !name.contains("halt"));
    let plain = plain.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
    for backend in backends() {
        let run = |model: Model| hidden(&model, &*backend, tokens(&LENGTHS, Side::Target));
        same("halted at once", &run(model(&adaptive, &weights)), &run(model(&once, &plain)));
        weights.get_mut("target.halt.bias").expect("a halting bias").data_mut()[0] = -1.0;
        let later = hidden(&model(&adaptive, &weights), &*backend, tokens(&LENGTHS, Side::Target));
        assert!(compare(&later, &run(model(&once, &plain)), Tolerance::both(1e-3)).is_err(), "later differs");
        weights.get_mut("target.halt.bias").expect("a halting bias").data_mut()[0] = 60.0;
    }
}

#[test]
fn universal_steps_add_positions_and_time_before_every_application() {
    let mut every = small("universal");
    let side = every.source.as_mut().or(every.target.as_mut()).expect("a side");
    side.stack.position = Position::Sinusoidal {
        base: 1e4,
        layout: Pairing::Interleaved,
        spread: Spread::Open,
        offset: 0,
        when: When::EveryStep,
        counting: Counting::Every,
    };
    side.stack.depth = Depth::Shared { times: 1 };
    let half = if every.source.is_some() { Side::Source } else { Side::Target };
    if half == Side::Source {
        every.target = None;
    }
    let mut once = every.clone();
    let side = once.source.as_mut().or(once.target.as_mut()).expect("a side");
    side.stack.position = Position::Sinusoidal {
        base: 1e4,
        layout: Pairing::Interleaved,
        spread: Spread::Open,
        offset: 0,
        when: When::Once,
        counting: Counting::Every,
    };
    // Step 0 has the sinusoid of 0: 0 for sines, 1 for cosines. Taken off the embeddings, one step is the usual input.
    let weights = stirred(&once, 6);
    let mut shifted = weights.clone();
    let tokens_table = shifted.get_mut(&format!("{half}.embed.tokens")).expect("a table");
    let scaled = matches!(
        &every.source.as_ref().or(every.target.as_ref()).expect("a side").input,
        glassformer_formula::Input::Tokens(t) if t.scale == glassformer_formula::InputScale::RootWidth
    );
    let one = if scaled { 1.0 / 12.0_f32.sqrt() } else { 1.0 };
    tokens_table
        .data_mut()
        .iter_mut()
        .enumerate()
        .for_each(|(i, x)| *x -= if i % 2 == 1 { one } else { 0.0 });
    for backend in backends() {
        let a = hidden(&model(&every, &shifted), &*backend, tokens(&LENGTHS, half));
        let b = hidden(&model(&once, &weights), &*backend, tokens(&LENGTHS, half));
        same("one universal step", &a, &b);
    }
}

#[test]
fn rotary_scores_depend_on_distance_only() {
    let mut formula = small("llama");
    formula.target.as_mut().expect("a decoder").stack.position = Position::Rotary(Rotary {
        base: 100.0,
        size: Some(4),
        layout: Pairing::Halves,
        scaling: Scaling::None,
    });
    let model = model(&formula, &stirred(&formula, 7));
    for backend in backends() {
        // The same tokens at positions 0… and, by an empty past of other rows that are not looked at, at positions 9….
        let near = stepped(&model, &*backend, &tokens(&[6], Side::Target), 0);
        let far = stepped(&model, &*backend, &tokens(&[6], Side::Target), 9);
        same("moved by nine", &far, &near);
    }
}

/// The hidden rows of a step graph whose first row stands at position `offset` and sees nothing before it.
fn stepped(model: &Model, backend: &dyn Backend, batch: &Batch<'_>, offset: usize) -> Vec<f32> {
    let graph = model.graph(Purpose::Step).expect("it lowers");
    let mut state = state(&graph, 64);
    let mut batch = batch.clone();
    let table = state.cache.open();
    let span = &mut batch.target.spans[0];
    (span.table, span.past, span.first) = (table, offset, offset);
    state.cache.reserve(table, offset + span.len).expect("room");
    let runner = backend.prepare(&graph, model, &Capacity::of(&batch)).expect("it prepares");
    runner.run(&mut state, &batch).expect("it runs");
    runner.output(&state, graph.output("hidden").expect("an output")).expect("it ran").into_owned()
}

fn state(graph: &Graph, pages: usize) -> State {
    State::new(Pages::new(page_layout(graph, Which::Cache), pages), Pages::default())
}

#[test]
fn transformer_xl_without_memory_is_relative_attention_and_memory_is_a_longer_segment() {
    let formula = small("transformer_xl");
    let model = model(&formula, &stirred(&formula, 8));
    for backend in backends() {
        let whole = hidden(&model, &*backend, tokens(&[14], Side::Target));
        let first_alone = hidden(&model, &*backend, head_of(&tokens(&[14], Side::Target), 6));
        same("the first segment sees no later one", &first_alone, &whole[..first_alone.len()]);
        // Segments of 6, 5 and 3 with all of the past remembered are the whole sequence.
        let by_rows = segments(&model, &*backend, &[6, 5, 3], usize::MAX);
        same("by remembered rows", &by_rows, &whole);
        let by_pages = paged(&model, &*backend, &[6, 5, 3], usize::MAX);
        same("by pages", &by_pages, &whole);
        // With a short memory, rows and pages forget alike.
        same(
            "four remembered",
            &paged(&model, &*backend, &[6, 5, 3], 4),
            &segments(&model, &*backend, &[6, 5, 3], 4),
        );
    }
}

fn head_of(batch: &Batch<'_>, len: usize) -> Batch<'static> {
    let mut head = Batch::default();
    head.target.push(&batch.target.tokens[..len], Span::default());
    head.target.pick_all();
    head
}

/// Runs segments one after the other with the rows of earlier ones given as memory, as the paper does.
fn segments(model: &Model, backend: &dyn Backend, lengths: &[usize], remembered: usize) -> Vec<f32> {
    let graph = model.graph(Purpose::Whole).expect("it lowers");
    let all = tokens(&[lengths.iter().sum()], Side::Target).target.tokens;
    let inputs: Vec<String> =
        graph.leaves(glassformer_graph::Leaf::Input).map(|(_, info)| info.name.clone()).collect();
    let mut memory: Vec<Vec<f32>> = vec![Vec::new(); inputs.len()];
    let (mut start, mut rows) = (0, Vec::new());
    for &len in lengths {
        let held = start.min(remembered);
        let mut batch = Batch::default();
        batch.target.push(&all[start..start + len], Span { memory: held, ..Span::default() });
        batch.target.pick_all();
        batch.inputs = memory.iter().map(|layer| &layer[layer.len() - held * 12..]).collect();
        let runner = backend.prepare(&graph, model, &Capacity::of(&batch)).expect("it prepares");
        let mut state = State::default();
        runner.run(&mut state, &batch).expect("it runs");
        rows.extend_from_slice(
            &runner.output(&state, graph.output("hidden").expect("an output")).expect("it ran"),
        );
        for (layer, name) in memory.iter_mut().zip(&inputs) {
            let output = graph.output(&name.replace(".memory", ".remember")).expect("remembered rows");
            layer.extend_from_slice(&runner.output(&state, output).expect("it ran"));
        }
        start += len;
    }
    rows
}

/// The same with keys and values in pages, of which a segment sees the last `remembered` and itself.
fn paged(model: &Model, backend: &dyn Backend, lengths: &[usize], remembered: usize) -> Vec<f32> {
    let graph = model.graph(Purpose::Step).expect("it lowers");
    let all = tokens(&[lengths.iter().sum()], Side::Target).target.tokens;
    let mut state = state(&graph, 8);
    let table = state.cache.open();
    state.cache.reserve(table, all.len()).expect("room");
    let (mut past, mut rows) = (0, Vec::new());
    for &len in lengths {
        let mut batch = Batch::default();
        let first = past.max(remembered) - remembered;
        batch.target.push(&all[past..past + len], Span { table, past, first, ..Span::default() });
        batch.target.pick_all();
        let runner = backend.prepare(&graph, model, &Capacity::of(&batch)).expect("it prepares");
        runner.run(&mut state, &batch).expect("it runs");
        rows.extend_from_slice(
            &runner.output(&state, graph.output("hidden").expect("an output")).expect("it ran"),
        );
        past += len;
    }
    rows
}

#[test]
fn every_variant_lowers_for_every_purpose_that_it_has() {
    for name in glassformer_formula::NAMES {
        let formula = named(name).expect("a known name");
        assert!(lower(&formula, Lowering::run(Purpose::Whole)).is_ok(), "{name}");
        let step = lower(&formula, Lowering::run(Purpose::Step));
        assert_eq!(step.is_ok(), formula.target.is_some(), "{name}");
        let encode = lower(&formula, Lowering::run(Purpose::Encode));
        assert_eq!(encode.is_ok(), formula.source.is_some() && formula.target.is_some(), "{name}");
    }
}
