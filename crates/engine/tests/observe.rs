//! Watching a search changes nothing, and tells what happens.

use std::sync::{Arc, Mutex};

use glassformer_cpu::Cpu;
use glassformer_engine::{
    Decoding, EarlyStopping, Generated, Generator, Observed, Observer, Request, Room, Sampling, Stage,
};
use glassformer_formula::named::{self, Size};
use glassformer_model::Model;

use crate::common::pair;

/// What was told, in few words.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<Word>>);

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Scores { lane: usize, written: usize, stage: Stage, likeliest: usize },
    Chosen(u32),
    Beams { written: usize, ended: usize, going: usize },
}

impl Observer for Told {
    fn observe(&self, seen: Observed<'_>) {
        let word = match seen {
            Observed::Scores { lane, written, stage, scores } => {
                let likeliest =
                    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a)));
                Word::Scores { lane, written, stage, likeliest: likeliest.expect("there are scores") }
            }
            Observed::Chosen { token, .. } => Word::Chosen(token),
            Observed::Beams { written, found, .. } => {
                let ended = found.iter().filter(|next| next.ended.is_some_and(|ended| ended.kept)).count();
                Word::Beams { written, ended, going: found.iter().filter(|next| next.next.is_some()).count() }
            }
            _ => return,
        };
        self.0.lock().expect("nobody panics").push(word);
    }
}

/// What is generated with nobody watching, and with somebody.
fn both(model: &Model, request: &Request) -> (Vec<Generated>, Vec<Generated>, Vec<Word>) {
    let cpu = Cpu::new(1);
    let run = |request: Request| {
        let room = Room::of(model.formula(), std::slice::from_ref(&request), 8);
        let generator = Generator::new(model, &cpu, room).expect("it prepares");
        generator.run(vec![request]).expect("it generates").remove(0)
    };
    let told = Arc::new(Told::default());
    let alone = run(request.clone());
    let watched = run(Request { observer: Some(told.clone()), ..request.clone() });
    let words = told.0.lock().expect("nobody panics").clone();
    (alone, watched, words)
}

fn options() -> Vec<Decoding> {
    let plain = Decoding { start: Some(0), ..Decoding::greedy(Some(1), 12) };
    let drawn = Sampling::default().temperature(0.8).top_k(9).top_p(0.9).seed(5);
    let mut all = vec![
        plain.clone(),
        plain.clone().repetition_penalty(1.4).no_repeat_ngram(2).min_new_tokens(4),
        Decoding { suppress: vec![3, 4], forced_last: vec![1], ..plain.clone() },
        Decoding { logprobs: Some(3), ..plain.clone() },
        plain.clone().sampling(drawn),
        plain.clone().sampling(drawn).returns(3),
        plain.clone().beams(3).sampling(drawn),
        Decoding { groups: 2, diversity_penalty: 0.7, ..plain.clone().beams(4) },
    ];
    for (penalty, early_stopping) in
        [(1.0, EarlyStopping::Likely), (-0.5, EarlyStopping::Full), (2.0, EarlyStopping::Never)]
    {
        all.push(Decoding { early_stopping, ..plain.clone().beams(4).length_penalty(penalty) });
    }
    all
}

#[test]
fn a_watched_search_writes_the_same_bits() {
    let model = Model::random(pair(), 11).expect("the formula works");
    for decoding in options() {
        let request = Request::source(vec![5, 17, 9, 4], &[], decoding.clone()).expect("it fits");
        let (alone, watched, words) = both(&model, &request);
        let bits = |all: &[Generated]| -> Vec<_> {
            all.iter()
                .map(|one| (one.ids.clone(), one.score.map(f32::to_bits), one.logprobs.clone()))
                .collect()
        };
        assert_eq!(bits(&alone), bits(&watched), "{decoding:?}");
        assert!(!words.is_empty(), "{decoding:?}");
    }
}

#[test]
fn each_token_has_its_scores_and_then_what_was_chosen() {
    let size = Size { width: 16, heads: 2, hidden: 24, layers: 2, vocabulary: 50, length: 64 };
    let model = Model::random(named::llama(size, 1), 3).expect("the formula works");
    let request = Request::prompt(vec![5, 17, 9], Decoding::greedy(None, 4));
    let (alone, _, words) = both(&model, &request);
    let expected = alone[0].ids.iter().enumerate().flat_map(|(written, &token)| {
        let scores = Word::Scores { lane: 0, written, stage: Stage::Raw, likeliest: token as usize };
        [scores, Word::Chosen(token)]
    });
    assert_eq!(words, expected.collect::<Vec<_>>());
}

#[test]
fn beams_tell_what_ended_and_what_goes_on() {
    let model = Model::random(pair(), 11).expect("the formula works");
    let decoding = Decoding { start: Some(0), ..Decoding::greedy(Some(1), 6) }.beams(3);
    let request = Request::source(vec![5, 17, 9, 4], &[], decoding).expect("it fits");
    let (_, _, words) = both(&model, &request);
    let steps: Vec<&Word> = words.iter().filter(|word| matches!(word, Word::Beams { .. })).collect();
    for (place, step) in steps.iter().enumerate() {
        let Word::Beams { written, going, .. } = **step else { unreachable!("it was filtered") };
        assert_eq!(written, place + 1);
        assert_eq!(going, if place + 1 == steps.len() { 0 } else { 3 }, "{steps:?}");
    }
    let ended: usize =
        words.iter().map(|word| if let Word::Beams { ended, .. } = word { *ended } else { 0 }).sum();
    assert!(ended >= 3, "{words:?}");
}
