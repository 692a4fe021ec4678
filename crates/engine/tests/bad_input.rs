//! Bad input: each is an error that names the place, on every backend, and nothing panics.

use std::collections::BTreeMap;

use glassformer_cpu::Cpu;
use glassformer_engine::{Decoding, Forward, Generator, Request, Room, Sampling, Sequence};
use glassformer_formula::named::{self, Original, Size};
use glassformer_formula::{Counting, Formula, Position};
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
fn a_room_beyond_all_memory_is_refused() {
    let model = Model::random(named::llama(SIZE, 1), 1).expect("the formula works");
    let requests = [Request::prompt(vec![1, 2], Decoding::greedy(None, 3))];
    let room = Room::of(model.formula(), &requests, 1);
    for backend in backends() {
        assert!(Generator::new(&model, &*backend, room).is_ok());
        let vast = Room { pages: 1 << 45, ..room };
        refused(
            "a vast room",
            Generator::new(&model, &*backend, vast),
            &["keys and values", "more than the system gives"],
        );
    }
    let long = Room { rows: 1 << 40, ..room };
    refused("a vast pass", Generator::new(&model, &Cpu::new(1), long), &["the values of a run", "GB"]);
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
    let room = Room::new(2, 4, 5);
    let four = Decoding::greedy(Some(1), 4);
    for backend in backends() {
        refused("an encoder", Generator::new(&bert, &*backend, room), &["target"]);
        let generator = Generator::new(&model, &*backend, room).expect("it prepares");
        let ask = |source: &[u32], prompt: &[u32], decoding: &Decoding| {
            let (source, prompt, decoding) = (source.to_vec(), prompt.to_vec(), decoding.clone());
            generator.run(vec![Request { source, prompt, decoding, ..Request::default() }])
        };
        assert!(ask(&[1, 2], &[0], &four).is_ok());
        refused("no prompt", ask(&[1], &[], &four), &["request 0", "prompt is empty"]);
        refused("no source", ask(&[], &[0], &four), &["source is empty"]);
        refused("a long source", ask(&[1; 5], &[0], &four), &["5 tokens", "room is 4"]);
        refused("too many tokens", ask(&[1], &[0, 0], &four), &["6 tokens", "room is 5"]);
        refused(
            "10⁹ tokens",
            ask(&[1], &[0], &Decoding::greedy(None, 1_000_000_000)),
            &["max_new_tokens", "less"],
        );
        refused("a million tokens", ask(&[1], &[0], &Decoding::greedy(None, 1_000_000)), &["room is 5"]);
        refused("an id", ask(&[1], &[99], &four), &["99", "target.embed.tokens"]);
        refused("a source id", ask(&[11], &[0], &four), &["11", "source.embed.tokens"]);
        let banned = Decoding { bad_words: vec![vec![7]], ..four.clone() };
        refused("a bad word", ask(&[1], &[0], &banned), &["id 7", "7 different tokens"]);
        let beams = Decoding { beams: 3, ..four.clone() };
        refused("three beams", ask(&[1], &[0], &beams), &["3 sequences", "room is 2"]);
        let short = Decoding { max_length: Some(2), ..Decoding::default() };
        refused("a long prompt", ask(&[1], &[0, 2], &short), &["prompt has 2 tokens", "2 are all"]);
    }
}

#[test]
fn bad_options_are_all_named() {
    let good = Decoding { sampling: Some(Sampling::default()), ..Decoding::default() };
    assert_eq!(good.check(), []);
    let with = |change: &dyn Fn(&mut Decoding, &mut Sampling)| {
        let (mut decoding, mut sampling) = (good.clone(), Sampling::default());
        change(&mut decoding, &mut sampling);
        decoding.sampling = decoding.sampling.map(|_| sampling);
        let problems: Vec<String> =
            decoding.check().into_iter().map(|problem| problem.what + "; " + &problem.hint).collect();
        problems.join("\n")
    };
    let cases: Vec<(String, &str)> = vec![
        (with(&|_, sampling| sampling.temperature = f64::NAN), "temperature is NaN"),
        (with(&|_, sampling| sampling.temperature = -1.0), "temperature is -1"),
        (with(&|_, sampling| sampling.top_p = 0.0), "top_p is 0"),
        (with(&|_, sampling| sampling.top_p = 1.5), "top_p is 1.5"),
        (with(&|_, sampling| sampling.min_p = -0.1), "min_p is -0.1"),
        (with(&|_, sampling| sampling.typical_p = f64::NAN), "typical_p is NaN"),
        (with(&|_, sampling| sampling.epsilon = 1.0), "epsilon is 1"),
        (with(&|decoding, _| decoding.beams = 0), "beams is 0"),
        (with(&|decoding, _| decoding.beams = 1_000_000), "beams is 1000000"),
        (with(&|decoding, _| decoding.returns = 0), "returns is 0"),
        (with(&|decoding, _| (decoding.beams, decoding.returns) = (2, 3)), "3 sequences"),
        (with(&|decoding, _| (decoding.sampling, decoding.returns) = (None, 2)), "finds one"),
        (
            with(&|decoding, _| (decoding.sampling, decoding.beams, decoding.groups) = (None, 4, 3)),
            "3 equal groups",
        ),
        (with(&|decoding, _| (decoding.beams, decoding.groups) = (4, 2)), "do not sample"),
        (with(&|decoding, _| decoding.max_new_tokens = Some(0)), "max_new_tokens is 0"),
        (with(&|decoding, _| decoding.max_length = Some(usize::MAX)), "max_length is"),
        (with(&|decoding, _| decoding.length_penalty = f64::INFINITY), "length_penalty is inf"),
        (with(&|decoding, _| decoding.repetition_penalty = 0.0), "repetition_penalty is 0"),
        (with(&|decoding, _| decoding.presence_penalty = f64::NAN), "presence_penalty is NaN"),
        (with(&|decoding, _| decoding.bad_words = vec![vec![]]), "a run of tokens is empty"),
        (
            with(&|decoding, _| (decoding.forced_first, decoding.suppress) = (Some(3), vec![3])),
            "the forced first token is suppressed",
        ),
    ];
    for (problems, expected) in cases {
        assert_eq!(problems.lines().count(), 1, "{expected}: {problems}");
        assert!(problems.contains(expected) && problems.contains("; "), "{expected}: {problems}");
    }
    let both = with(&|decoding, sampling| (decoding.beams, sampling.top_p) = (0, 0.0));
    assert_eq!(both.lines().count(), 2, "{both}");
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
    formula.source.as_mut().expect("a source").stack.position =
        Position::Learned { max: 0, offset: 0, counting: Counting::Every };
    refused("no positions", Model::random(formula, 1), &["source.stack.position"]);
    let heads = named::bert(Size { heads: 3, ..SIZE });
    refused("three heads of eight", Model::random(heads, 1), &["heads"]);
}
