//! A whole stack on low-precision numbers: near `f32`, and the same bits alone, in a batch and on any number of threads.

mod common;
#[path = "common/layers.rs"]
mod layers;

use std::sync::Arc;

use glassformer_conformance::{bits, run};
use glassformer_cpu::Cpu;
use glassformer_cpu::isa::Isa;
use glassformer_cpu::lowp::Dot;
use glassformer_graph::Precision;
use glassformer_graph::ops::{
    Activation, Attend, Gate, Ids, Keys, Linear, Lookup, Pattern, Reach, Relative, Who,
};
use glassformer_graph::{
    Backend, Batch, Builder, Capacity, Error, Graph, Leaf, Rows, Shape, Side, Span, State, Value,
};
use glassformer_tensor::Random;
use layers::{Purpose, Stack, parameters};

const LOWP: [Precision; 3] = [Precision::Bf16, Precision::Int8, Precision::Int4];

fn stack() -> Graph {
    let purpose = Purpose::Encode;
    let stack = Stack { layers: 2, width: 96, heads: 4, hidden: 200, vocabulary: 77, longest: 60, purpose };
    stack.graph().expect("it fits")
}

/// Sequences of these lengths, each with tokens of its own, and all rows picked.
fn batch(lengths: &[(u64, usize)]) -> Batch<'static> {
    let mut batch = Batch::default();
    for &(seed, len) in lengths {
        let mut random = Random::new(seed);
        let tokens: Vec<u32> = (0..len).map(|_| random.below(77) as u32).collect();
        batch.target.push(&tokens, Span::default());
    }
    batch.target.pick_all();
    batch
}

fn outputs(cpu: &Cpu, batch: &Batch<'_>) -> Vec<Vec<f32>> {
    let graph = Arc::new(stack());
    let weights = parameters(&graph, Leaf::Weight);
    let runner = cpu.prepare(&graph, &weights, &Capacity::of(batch)).expect("it fits");
    run(&*runner, &mut State::default(), batch).expect("it was admitted")
}

/// The largest difference, in parts of the largest number.
fn difference(found: &[f32], expected: &[f32]) -> f32 {
    let most = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    found.iter().zip(expected).fold(0.0_f32, |worst, (a, b)| worst.max((a - b).abs())) / most
}

#[test]
fn a_low_precision_stack_is_near_one_in_f32() {
    let batch = batch(&[(1, 5), (2, 40), (3, 1)]);
    let expected = outputs(&Cpu::new(1), &batch);
    for (precision, bound) in LOWP.into_iter().zip([0.02, 0.05, 0.3]) {
        for dot in Dot::available() {
            let cpu = Cpu::with_isa(1, dot.isa()).with_dot(dot).with_precision(precision);
            for (found, expected) in outputs(&cpu, &batch).iter().zip(&expected) {
                let difference = difference(found, expected);
                assert!(difference < bound, "{precision:?} on {dot}: {difference}");
                assert!(difference > 1e-6, "{precision:?} on {dot} is not in low precision");
            }
        }
    }
}

#[test]
fn neither_the_batch_nor_the_threads_change_a_bit() {
    let together = batch(&[(1, 5), (2, 40), (3, 1)]);
    for precision in LOWP {
        for dot in Dot::available() {
            let cpu = |threads: usize| {
                Cpu::with_isa(threads, dot.isa()).with_dot(dot).with_precision(precision).sharing_everything()
            };
            let expected = outputs(&cpu(1), &together);
            for (threads, rows) in [(2, 128), (5, 128), (1, 17), (2, 16), (5, 3)] {
                let cpu = || cpu(threads).taking_rows(rows);
                for (cpu, how) in [(cpu(), "turn by turn"), (cpu().going_by_layers(), "by layers")] {
                    let found = bits(&outputs(&cpu, &together));
                    let of = (precision, dot, threads, rows, how);
                    assert!(found == bits(&expected), "{of:?}");
                }
            }
            let alone = outputs(&cpu(2), &batch(&[(3, 1)]));
            for (alone, together) in alone.iter().zip(&expected) {
                let last = together[together.len() - alone.len()..].to_vec();
                assert!(bits(std::slice::from_ref(alone)) == bits(&[last]), "{precision:?} on {dot}: alone");
            }
        }
    }
}

#[test]
fn a_plan_for_many_rows_takes_few_another_way_to_the_same_bits() {
    let few = [(1, 40)];
    let many: Vec<(u64, usize)> = (0..12).map(|seed| (seed, 60)).collect();
    let graph = Arc::new(stack());
    let weights = parameters(&graph, Leaf::Weight);
    for precision in LOWP {
        let cpu = |threads: usize| Cpu::new(threads).with_precision(precision).sharing_everything();
        let (cpu, alone) = (cpu(2), cpu(1));
        let runner = cpu.prepare(&graph, &weights, &Capacity::of(&batch(&many))).expect("it fits");
        let mut state = State::default();
        for lengths in [&few[..], &many, &few] {
            let batch = batch(lengths);
            let found = run(&*runner, &mut state, &batch).expect("it was admitted");
            assert!(bits(&found) == bits(&outputs(&alone, &batch)), "{precision:?}, {} texts", lengths.len());
        }
    }
}

/// An encoder's attention of so many heads; where they are `shown`, queries, keys and values are outputs, and so they are wide.
fn attended(heads: usize, shown: bool) -> Result<Graph, Error> {
    const WIDTH: usize = 192;
    let mut build = Builder::new();
    let table = build.weight("table", Shape::fixed(77, WIDTH))?;
    let x = build.add("embed", Lookup { ids: Ids::Tokens(Side::Target) }, &[table])?;
    let mut of_rows = Vec::new();
    for name in ["q", "k", "v"] {
        let w = build.weight(name, Shape::fixed(WIDTH, WIDTH))?;
        let b = build.weight(&format!("{name}.bias"), Shape::fixed(1, WIDTH))?;
        of_rows.push(build.add(name, Linear, &[x, w, b])?);
    }
    let size = WIDTH / heads;
    let attend = Attend {
        side: Side::Target,
        heads,
        key_heads: heads,
        size,
        scale: 1.0 / (size as f32).sqrt(),
        keys: Keys::Rows(Rows::Tokens(Side::Target)),
        who: Who::Every,
        reach: Reach::Both,
        pattern: Pattern::Dense,
        relative: Relative::None,
    };
    let y = build.add("attended", attend, &of_rows)?;
    build.output("y", y);
    for value in of_rows.into_iter().filter(|_| shown) {
        build.output("shown", value);
    }
    Ok(build.finish())
}

#[test]
fn an_attention_of_bf16_has_the_bits_of_one_in_f32() {
    for lengths in [vec![(1, 1)], vec![(1, 17), (2, 40)], vec![(1, 150), (2, 3), (3, 170)]] {
        let batch = batch(&lengths);
        for (heads, precision) in [(6, Precision::Bf16), (3, Precision::Int8), (6, Precision::Int8)] {
            let of = |threads: usize, shown: bool| {
                let graph = Arc::new(attended(heads, shown).expect("it fits"));
                let weights = parameters(&graph, Leaf::Weight);
                let cpu = Cpu::new(threads).with_precision(precision).sharing_everything();
                let runner = cpu.prepare(&graph, &weights, &Capacity::of(&batch)).expect("it fits");
                run(&*runner, &mut State::default(), &batch).expect("it was admitted")
            };
            let wide = of(1, true);
            for threads in [1, 2] {
                assert!(bits(&of(threads, false)) == bits(&wide[..1]), "{precision:?}, {heads}, {lengths:?}");
            }
        }
    }
}

/// What is an output as well, and so has a step of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shown {
    Nothing,
    Gate,
    Inner,
}

/// A gated layer of this inner width, with biases or not.
fn gated(biased: bool, hidden: usize, shown: Shown) -> Result<Graph, Error> {
    const WIDTH: usize = 96;
    let mut build = Builder::new();
    let table = build.weight("table", Shape::fixed(77, WIDTH))?;
    let x = build.add("embed", Lookup { ids: Ids::Tokens(Side::Target) }, &[table])?;
    let linear = |build: &mut Builder, name: &str, x: Value, out: usize| {
        let mut inputs = vec![x, build.weight(name, Shape::fixed(out, build.shape(x).width))?];
        if biased {
            inputs.push(build.weight(&format!("{name}.bias"), Shape::fixed(1, out))?);
        }
        build.add(name, Linear, &inputs)
    };
    let gate = linear(&mut build, "gate", x, hidden)?;
    let up = linear(&mut build, "up", x, hidden)?;
    let inner = build.add("inner", Gate { act: Activation::Silu }, &[gate, up])?;
    let down = linear(&mut build, "down", inner, WIDTH)?;
    build.output("down", down);
    match shown {
        Shown::Nothing => {}
        Shown::Gate => build.output("gate", gate),
        Shown::Inner => build.output("inner", inner),
    }
    Ok(build.finish())
}

#[test]
fn a_gate_in_one_step_has_the_bits_of_two() {
    // More than one block, and no whole number of tiles; so long that numbers are rounded, and can be `bf16` or not.
    let cases = [
        (1160, false, vec![(1, 3)]),
        (1160, true, vec![(1, 150), (2, 170)]),
        (2112, true, vec![(1, 3)]),
        (2112, false, vec![(1, 150), (2, 170)]),
        (2100, true, vec![(1, 40)]),
    ];
    for (hidden, biased, lengths) in &cases {
        let batch = batch(lengths);
        let of = |cpu: &Cpu, shown: Shown| {
            let graph = Arc::new(gated(*biased, *hidden, shown).expect("it fits"));
            let weights = parameters(&graph, Leaf::Weight);
            let runner = cpu.prepare(&graph, &weights, &Capacity::of(&batch)).expect("it fits");
            run(&*runner, &mut State::default(), &batch).expect("it was admitted")
        };
        for precision in LOWP {
            for (dot, threads) in Dot::available().into_iter().flat_map(|dot| [(dot, 1), (dot, 2)]) {
                let cpu = Cpu::with_isa(threads, dot.isa()).with_dot(dot).with_precision(precision);
                let cpu = cpu.sharing_everything();
                let one = of(&cpu, Shown::Nothing);
                for shown in [Shown::Gate, Shown::Inner] {
                    let about = (precision, dot, threads, lengths, hidden, shown);
                    assert!(bits(&one) == bits(&of(&cpu, shown)[..1]), "{about:?}");
                }
            }
        }
    }
}

#[test]
fn weights_stay_wide_where_they_are_told_to() {
    let batch = batch(&[(1, 5), (2, 40)]);
    // Without AMX attention is wide.
    let cpu = || Cpu::new(1).with_dot(Dot::Scalar);
    let wide = outputs(&cpu(), &batch);
    for precision in LOWP {
        // Activations are approximate: within 8e-5 each.
        let all_kept = outputs(&cpu().with_precision(precision).keeping_f32(|_| true), &batch);
        let apart = all_kept.iter().zip(&wide).map(|(kept, wide)| difference(kept, wide));
        assert!(apart.fold(0.0, f32::max) < 5e-4);
        if precision == Precision::Int4 {
            continue; // rows looked up there are in low precision then, too
        }
        // Only the table of the vocabulary is in low precision, so the stack before it has the same bits.
        let table = cpu().with_precision(precision).keeping_f32(|name| name != "tokens");
        let found = outputs(&table, &batch);
        assert!(bits(&found[..1]) == bits(&all_kept[..1]) && bits(&found[1..]) != bits(&all_kept[1..]));
    }
}

#[test]
fn the_default_is_f32() {
    let batch = batch(&[(1, 5), (2, 40)]);
    for isa in Isa::available() {
        let [plain, asked] = [Cpu::with_isa(1, isa), Cpu::with_isa(1, isa).with_precision(Precision::F32)];
        assert!(bits(&outputs(&plain, &batch)) == bits(&outputs(&asked, &batch)));
    }
}

/// The outputs of a training graph: the loss and all gradients.
fn trained(cpu: &Cpu, lengths: &[(u64, usize)]) -> Vec<Vec<f32>> {
    let purpose = Purpose::Train;
    let stack = Stack { layers: 2, width: 96, heads: 4, hidden: 200, vocabulary: 77, longest: 60, purpose };
    let graph = Arc::new(stack.graph().expect("it fits"));
    let inputs = parameters(&graph, Leaf::Input);
    let mut batch = batch(lengths);
    let rows = batch.target.rows();
    batch.target.labels = (0..rows).map(|row| (row * 7 % 77) as u32).collect();
    batch.target.weights = vec![1.0 / rows as f32; rows];
    batch.inputs = graph.leaves(Leaf::Input).map(|(_, info)| inputs[&info.name].data()).collect();
    let weights = parameters(&graph, Leaf::Weight);
    let runner = cpu.prepare(&graph, &weights, &Capacity::of(&batch)).expect("it fits");
    run(&*runner, &mut State::default(), &batch).expect("it was admitted")
}

#[test]
fn bf16_gradients_are_near_those_in_f32() {
    let lengths = [(1, 5), (2, 40), (3, 1), (4, 60)];
    let expected = trained(&Cpu::new(1), &lengths);
    let largest = |numbers: &[f32]| numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    // After the rows, the scores and the loss come the gradients.
    let most = expected.iter().skip(3).map(|numbers| largest(numbers)).fold(0.0_f32, f32::max);
    for dot in Dot::available() {
        let cpu = Cpu::with_isa(1, dot.isa()).with_dot(dot).with_precision(Precision::Bf16);
        let found = trained(&cpu, &lengths);
        let far = |(found, expected): (&Vec<f32>, &Vec<f32>)| {
            // What no key's score depends on, a bias of all keys, has a gradient of nothing but rounding.
            let scale = largest(expected).max(0.02 * most);
            found.iter().zip(expected).fold(0.0_f32, |far, (a, b)| far.max((a - b).abs())) / scale
        };
        let far: Vec<f32> = found.iter().zip(&expected).map(far).collect();
        let worst = largest(&far);
        assert!(worst < 0.06, "on {dot}: {far:?}");
        assert!(worst > 1e-6, "on {dot} they are not in low precision");
    }
}

#[test]
fn bf16_gradients_have_the_same_bits_on_any_number_of_threads_and_in_row_blocks() {
    let lengths = [(1, 5), (2, 40), (3, 1), (4, 60)];
    let with = |threads: usize| Cpu::new(threads).with_precision(Precision::Bf16).sharing_everything();
    let expected = bits(&trained(&with(1), &lengths));
    for threads in [2, 3] {
        assert!(bits(&trained(&with(threads), &lengths)) == expected, "{threads} threads");
    }
    for (threads, rows) in [(1, 1), (1, 32), (2, 16), (2, 40)] {
        let found = trained(&with(threads).taking_rows(rows), &lengths);
        assert!(bits(&found) == expected, "{threads} threads, {rows} rows at a time");
    }
}
