//! Bad input: each is an error that names the place, on every backend, and nothing panics.

use std::collections::BTreeMap;

use glassformer_cpu::Cpu;
use glassformer_engine::{Forward, Generator, Request, Room, Sequence, Stop};
use glassformer_formula::named::{self, Original, Size};
use glassformer_formula::{Formula, Position};
use glassformer_graph::{Backend, Reference};
use glassformer_model::{Model, initialise};
use glassformer_tensor::Tensor;
use glassformer_weights::Weights;

const SIZE: Size = Size { width: 8, heads: 2, hidden: 16, layers: 2, vocabulary: 11, length: 6 };

fn original() -> Formula {
    named::original(Original {
        width: 8,
        heads: 2,
        hidden: 16,
        source_layers: 1,
        target_layers: 1,
        source_vocabulary: 11,
        target_vocabulary: 7,
    })
}

fn backends() -> [Box<dyn Backend>; 2] {
    [Box::new(Reference), Box::new(Cpu::new(2))]
}

/// Demands an error that holds all of `words`.
fn refused<T>(what: &str, result: Result<T, impl std::fmt::Display>, words: &[&str]) {
    let message = match result {
        Ok(_) => panic!("{what} was accepted"),
        Err(error) => error.to_string(),
    };
    for word in words {
        assert!(message.contains(word), "{what}: {message:?} does not say {word:?}");
    }
}

fn pair(source: &[u32], target: &[u32]) -> Sequence {
    Sequence { source: source.to_vec(), target: target.to_vec(), ..Sequence::default() }
}

#[test]
fn bad_sequences_are_refused_by_name() {
    let model = Model::random(original(), 1).expect("the formula works");
    let bert = Model::random(named::bert(SIZE), 1).expect("the formula works");
    for backend in backends() {
        let run = |model, sequence| Forward::whole(model, &*backend, &[sequence]);
        assert!(run(&model, pair(&[1, 10], &[6])).is_ok());
        refused(
            "a source id",
            run(&model, pair(&[1, 11], &[2])),
            &["11", "source row 1", "source.embed.tokens"],
        );
        refused("a target id", run(&model, pair(&[1], &[7])), &["7", "target row 0", "target.embed.tokens"]);
        refused("an empty source", run(&model, pair(&[], &[1])), &["source", "empty"]);
        refused("an empty target", run(&model, pair(&[1], &[])), &["target", "empty"]);
        refused("a target for an encoder", run(&bert, pair(&[1], &[1])), &["no target"]);
        refused(
            "too long",
            run(&bert, pair(&[1; 7], &[])),
            &["position 6", "source.embed.positions", "shorten"],
        );
        let typed = Sequence { types: vec![0, 5], ..pair(&[1, 2], &[]) };
        refused("a token type", run(&bert, typed), &["5", "source.embed.types"]);
        let global = Sequence { global: vec![2], ..pair(&[1, 2], &[]) };
        refused("a global position", run(&bert, global), &["global position 2"]);
    }
}

#[test]
fn bad_requests_are_refused_by_name() {
    let model = Model::random(original(), 1).expect("the formula works");
    let bert = Model::random(named::bert(SIZE), 1).expect("the formula works");
    let room = Room { sequences: 2, source: 4, target: 5 };
    let stop = Stop { end: Some(1), max_new_tokens: 4 };
    for backend in backends() {
        refused("an encoder", Generator::new(&bert, &*backend, room), &["target"]);
        let generator = Generator::new(&model, &*backend, room).expect("it prepares");
        let ask = |source: &[u32], prompt: &[u32], stop| {
            generator.greedy(&[Request { source: source.to_vec(), prompt: prompt.to_vec() }], stop)
        };
        assert!(ask(&[1, 2], &[0], stop).is_ok());
        refused("no prompt", ask(&[1], &[], stop), &["request 0", "prompt is empty"]);
        refused("no source", ask(&[], &[0], stop), &["source is empty"]);
        refused("a long source", ask(&[1; 5], &[0], stop), &["5 tokens", "room is 4"]);
        refused("too many tokens", ask(&[1], &[0, 0], stop), &["6 tokens", "room is 5"]);
        let endless = Stop { end: None, max_new_tokens: usize::MAX };
        refused("10⁹ tokens", ask(&[1], &[0], endless), &["room is 5"]);
        refused("an id", ask(&[1], &[99], stop), &["99", "target.embed.tokens"]);
    }
}

#[test]
fn bad_weights_are_refused_by_name() {
    let formula = original();
    let good = initialise(&formula, 1).expect("the formula works");
    let with = |change: &dyn Fn(&mut BTreeMap<String, Tensor>)| {
        let mut tensors = good.clone();
        change(&mut tensors);
        Model::new(formula.clone(), Weights::from_tensors(tensors))
    };
    let name = "source.0.attend.query.weight";
    refused("a missing weight", with(&|all| _ = all.remove(name)), &[name, "missing", "[8, 8]"]);
    refused(
        "a misshapen weight",
        with(&|all| _ = all.insert("source.0.feed.up.weight".into(), Tensor::zeros(&[8, 16]))),
        &["source.0.feed.up.weight", "[8, 16]", "[16, 8]", "transposed"],
    );
    refused(
        "an extra weight",
        with(&|all| _ = all.insert("x".into(), Tensor::zeros(&[1]))),
        &["x is used by nothing"],
    );
    let nan = with(&|all| all.get_mut(name).expect("it is there").data_mut()[3] = f32::NAN).expect("it fits");
    for backend in backends() {
        refused("NaN", Forward::whole(&nan, &*backend, &[pair(&[1], &[1])]), &[name, "element 3", "NaN"]);
    }
}

#[test]
fn a_formula_that_cannot_work_is_refused_before_anything_is_lowered() {
    let mut formula = named::bert(SIZE);
    formula.source.as_mut().expect("a source").stack.position = Position::Learned { max: 0, offset: 0 };
    refused("no positions", Model::random(formula, 1), &["source.stack.position"]);
    let heads = named::bert(Size { heads: 3, ..SIZE });
    refused("three heads of eight", Model::random(heads, 1), &["heads"]);
}
