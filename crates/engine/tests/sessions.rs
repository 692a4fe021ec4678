//! Many requests at once: each gets the same bits as alone, whatever arrives when, and however few pages there are.

use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_engine::{
    Decoding, EarlyStopping, Event, Finish, Generated, Generator, Load, Request, Room, Sampling, Stopper,
};
use glassformer_formula::named::{self, Size};
use glassformer_formula::{Clusters, Depth, Formula, Position};
use glassformer_graph::PAGE;
use glassformer_model::Model;
use glassformer_tensor::Random;

use crate::common::{Ended, alone, ended, pair};

const SIZE: Size = Size { width: 16, heads: 2, hidden: 24, layers: 2, vocabulary: 31, length: 96 };

fn universal() -> Formula {
    named::universal(SIZE, Depth::Adaptive { max: 4, threshold: 0.9 })
}

fn remembering() -> Formula {
    let clusters = Clusters { cuts: vec![9, 20], divisor: 2, width: None };
    let mut formula = named::transformer_xl(SIZE, clusters);
    if let Position::TransformerXl { memory, .. } =
        &mut formula.target.as_mut().expect("a target").stack.position
    {
        *memory = 7;
    }
    formula
}

fn decodings() -> Vec<Decoding> {
    let new = Decoding { max_new_tokens: Some(40), end: vec![1, 2], start: Some(0), ..Decoding::default() };
    let drawn = Sampling { temperature: 1.3, top_k: 9, top_p: 0.9, ..Sampling::default() };
    vec![
        Decoding { logprobs: Some(2), ..new.clone() },
        Decoding { repetition_penalty: 1.4, no_repeat_ngram: 2, min_new_tokens: Some(30), ..new.clone() },
        Decoding { sampling: Some(drawn), returns: 3, ..new.clone() },
        Decoding { sampling: Some(Sampling { seed: 5, ..drawn }), frequency_penalty: 0.4, ..new.clone() },
        Decoding { beams: 4, returns: 3, logprobs: Some(0), ..new.clone() },
        Decoding { beams: 3, length_penalty: 2.0, early_stopping: EarlyStopping::Never, ..new.clone() },
        Decoding { beams: 4, groups: 2, diversity_penalty: 0.7, returns: 4, ..new.clone() },
        Decoding { beams: 2, sampling: Some(Sampling { seed: 9, ..drawn }), ..new },
    ]
}

/// Requests of random lengths, every way of decoding among them.
fn requests(formula: &Formula, count: usize) -> Vec<Request> {
    let (mut random, ways) = (Random::new(3), decodings());
    let mut draw = |most: usize, bound: usize| -> Vec<u32> {
        let len = 1 + random.below(most);
        (0..len).map(|_| 3 + random.below(bound - 3) as u32).collect()
    };
    (0..count)
        .map(|number| {
            let decoding = ways[number % ways.len()].clone();
            if formula.source.is_some() {
                let prefix = draw(3, 31);
                Request::source(draw(30, 23), &prefix[1..], decoding).expect("there is a start")
            } else {
                Request::prompt(draw(45, 31), decoding)
            }
        })
        .collect()
}

/// Submits requests at random moments, takes steps until all are done, and gives the answers and how many were sent back.
fn arriving(generator: &Generator, requests: &[Request], seed: u64) -> (Vec<Vec<Generated>>, usize) {
    let (mut random, mut session) = (Random::new(seed), generator.session());
    let mut answers = vec![None; requests.len()];
    let mut told: Vec<Vec<Vec<u32>>> =
        requests.iter().map(|request| vec![Vec::new(); request.decoding.returns]).collect();
    let mut waiting = requests.iter();
    while waiting.len() > 0 || !session.is_idle() {
        for request in waiting.by_ref().take(random.below(3)) {
            session.submit(request.clone()).expect("it is admitted");
        }
        for event in session.step().expect("the model runs") {
            match event {
                Event::Token { request, sequence, token } => told[request][sequence].push(token.id),
                Event::Done { request, outputs } => {
                    assert!(answers[request].replace(outputs).is_none(), "request {request} is done twice");
                }
                Event::Failed { request, error } => panic!("request {request}: {error}"),
            }
        }
        let Load { held_pages: held, pages: all, .. } = session.load();
        assert!(held <= all);
    }
    assert_eq!(session.load().held_pages, 0, "every page comes back");
    let answers: Vec<Vec<Generated>> =
        answers.into_iter().map(|answer| answer.expect("none is lost")).collect();
    for ((told, answer), request) in told.iter().zip(&answers).zip(requests) {
        if request.decoding.beams == 1 {
            let ids: Vec<&Vec<u32>> = answer.iter().map(|output| &output.ids).collect();
            assert!(told.iter().eq(ids), "what is told as it is written is what is answered");
        }
    }
    (answers, session.load().preempted)
}

#[test]
fn each_request_gets_the_same_bits_as_alone() {
    for formula in [pair(), named::gpt2(SIZE), named::llama(SIZE, 1), universal(), remembering()] {
        let model = Model::random(formula, 11).expect("the formula works");
        let requests = requests(model.formula(), 24);
        let expected = alone(&model, &Cpu::new(1), &requests);
        let finishes = |finish| expected.iter().flatten().filter(|output| output.finish == finish).count();
        assert!(finishes(Finish::Eos) > 0 && finishes(Finish::Length) > 0);
        let room = Room::of(model.formula(), &requests, 12);
        // Enough for the widest request by itself, and hardly more.
        let pages = 4 * room.target.div_ceil(PAGE) + 2;
        for (rows, pages) in [(room.rows, room.pages), (12, pages), (17, pages)] {
            let room = Room { rows, pages, ..room };
            let generator = Generator::new(&model, &Cpu::new(2), room).expect("it prepares");
            for seed in 0..2 {
                assert_eq!(arriving(&generator, &requests, seed).0, expected);
            }
        }
    }
}

#[test]
fn requests_that_do_not_fit_are_sent_back_and_answered_all_the_same() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let requests = requests(model.formula(), 16);
    let room = Room::of(model.formula(), &requests, 12);
    let pages = 4 * room.target.div_ceil(PAGE);
    let generator = Generator::new(&model, &Cpu::new(2), Room { pages, ..room }).expect("it prepares");
    let (_, preempted) = arriving(&generator, &requests, 1);
    assert!(preempted > 0, "this test means nothing where there are enough pages");
}

#[test]
fn beams_share_the_pages_of_what_they_have_in_common() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let prompt: Vec<u32> = (0..3 * PAGE as u32 + 5).map(|i| 3 + i % 25).collect();
    let decoding = Decoding { beams: 4, max_new_tokens: Some(6), ..Decoding::default() };
    let request = Request::prompt(prompt, decoding);
    let room = Room::of(model.formula(), std::slice::from_ref(&request), 1);
    let generator = Generator::new(&model, &Cpu::new(1), room).expect("it prepares");
    let mut session = generator.session();
    session.submit(request).expect("it is admitted");
    session.step().expect("the prompt is read");
    // Four beams, one prompt: its four pages are held once.
    assert_eq!(session.load().held_pages, 4);
    for _ in 0..3 {
        session.step().expect("it runs");
        // Three full pages for all, and one that each beam writes into; alone they would hold sixteen.
        let held = session.load().held_pages;
        assert!((4..=7).contains(&held), "{held} pages");
    }
}

#[test]
fn a_source_is_computed_once_for_all_its_beams() {
    let model = Model::random(pair(), 11).expect("the formula works");
    let decoding = Decoding { beams: 4, start: Some(0), max_new_tokens: Some(8), ..Decoding::default() };
    let request = Request::source(vec![5; 20], &[], decoding).expect("there is a start");
    let room = Room::of(model.formula(), std::slice::from_ref(&request), 1);
    // Two pages hold the source of one sequence: there is no room for a second copy.
    let room = Room { source_pages: 2, ..room };
    let generator = Generator::new(&model, &Cpu::new(1), room).expect("it prepares");
    assert_eq!(generator.run(vec![request]).expect("it generates")[0].len(), 1);
}

#[test]
fn short_prompts_are_read_in_one_step() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let decoding = Decoding { max_new_tokens: Some(2), min_new_tokens: Some(2), ..Decoding::default() };
    let requests: Vec<Request> =
        (0..8).map(|first| Request::prompt((first..first + 16).collect(), decoding.clone())).collect();
    let room = Room::of(model.formula(), &requests, requests.len());
    let generator = Generator::new(&model, &Cpu::new(1), room).expect("it prepares");
    let mut session = generator.session();
    for request in requests {
        session.submit(request).expect("it is admitted");
    }
    let events = session.step().expect("it runs");
    let tokens = events.iter().filter(|event| matches!(event, Event::Token { .. })).count();
    assert_eq!(tokens, 8, "each has written behind the first step");
}

#[test]
fn memory_is_known_before_anything_runs() {
    let model = Model::random(pair(), 11).expect("the formula works");
    let generator =
        Generator::new(&model, &Cpu::new(1), Room { pages: 5, ..Room::new(3, 40, 50) }).expect("it prepares");
    // Two layers: keys and values of sixteen numbers each, sixteen rows a page, four bytes a number.
    let page = 2 * 2 * 16 * PAGE * 4;
    assert_eq!(generator.bytes(), (5 + 3 * 3) * page);
}

#[test]
fn a_cancelled_request_gives_its_pages_back() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let requests = requests(model.formula(), 6);
    let generator =
        Generator::new(&model, &Cpu::new(1), Room::of(model.formula(), &requests, 8)).expect("it prepares");
    let mut session = generator.session();
    for request in requests {
        session.submit(request).expect("it is admitted");
    }
    session.step().expect("it runs");
    for request in 0..6 {
        assert!(session.cancel(request), "request {request}");
        assert!(!session.cancel(request), "request {request} is gone");
    }
    assert!(session.is_idle());
    assert_eq!(session.load().held_pages, 0);
}

#[derive(Debug)]
struct After(usize);

impl Stopper for After {
    fn stops(&self, new: &[u32]) -> bool {
        new.len() == self.0
    }
}

#[test]
fn stop_sequences_and_stoppers_end_a_text() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let plain = Request::prompt(vec![5, 6, 7], Decoding::greedy(None, 12));
    let free = alone(&model, &Cpu::new(1), std::slice::from_ref(&plain)).remove(0).remove(0);
    assert_eq!((free.ids.len(), free.finish), (12, Finish::Length));
    let at = (2..12)
        .find(|&at| !free.ids[..at].windows(2).any(|run| run == &free.ids[at - 1..=at]))
        .expect("a new pair");
    let stop = vec![free.ids[at - 1..=at].to_vec()];
    let mut stopped = plain.clone();
    stopped.decoding.stop = stop;
    let mut asked = plain.clone();
    asked.stopper = Some(Arc::new(After(4)));
    let mut beams = asked.clone();
    beams.decoding.beams = 3;
    let found = alone(&model, &Cpu::new(1), &[stopped, asked, beams]);
    assert_eq!((&found[0][0].ids[..], found[0][0].finish), (&free.ids[..=at], Finish::Stop));
    assert_eq!((&found[1][0].ids[..], found[1][0].finish), (&free.ids[..4], Finish::Stop));
    assert_eq!((found[2][0].ids.len(), found[2][0].finish), (4, Finish::Stop));
}

#[test]
fn log_probabilities_are_the_models_own() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let ask = |decoding: Decoding| {
        alone(&model, &Cpu::new(1), &[Request::prompt(vec![5, 6, 7], decoding)]).remove(0).remove(0)
    };
    let decoding = Decoding { logprobs: Some(3), ..Decoding::greedy(None, 6) };
    let greedy = ask(decoding.clone());
    for ((id, logprob), others) in greedy.ids.iter().zip(&greedy.logprobs).zip(&greedy.others) {
        assert_eq!(others.len(), 3);
        assert_eq!(others[0], (*id, *logprob), "the most likely token is the first of the likeliest");
        assert!(others.is_sorted_by(|a, b| a.1 >= b.1) && *logprob < 0.0);
    }
    // Rules change what is chosen, not what the model thought of it.
    let forced = ask(Decoding { suppress: vec![greedy.ids[0]], ..decoding.clone() });
    assert_eq!(forced.others[0], greedy.others[0]);
    assert_eq!(forced.logprobs[0], greedy.others[0][1].1);
    // A beam's score is the sum of its tokens' log-probabilities over its length.
    let beam = ask(Decoding { beams: 3, ..decoding });
    let sum: f32 = beam.logprobs.iter().sum();
    assert!((sum / beam.ids.len() as f32 - beam.score.expect("a beam has one")).abs() < 1e-5);
}

#[test]
fn what_fails_fails_alone() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let good = Request::prompt(vec![5, 6, 7], Decoding::greedy(None, 6));
    let mut bad = good.clone();
    bad.decoding.suppress = (0..31).collect();
    bad.decoding.sampling = Some(Sampling::default());
    let requests = [good.clone(), bad, good.clone()];
    let generator =
        Generator::new(&model, &Cpu::new(1), Room::of(model.formula(), &requests, 3)).expect("it prepares");
    let mut session = generator.session();
    let Ended { done, failed } = ended(&mut session, requests);
    let expected = alone(&model, &Cpu::new(1), &[good]).remove(0);
    assert_eq!(done, [(0, expected.clone()), (2, expected)]);
    assert_eq!(failed.len(), 1);
    assert!(failed[0].0 == 1 && failed[0].1.contains("every token is ruled out"), "{failed:?}");
}

/// Greedy search once wrote a token that was ruled out, and beams gave no text at all.
#[test]
fn where_every_token_is_ruled_out_every_search_fails() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let suppress: Vec<u32> = (0..31).collect();
    let greedy = Decoding { suppress, ..Decoding::greedy(None, 6) };
    // A penalty asks for all scores where a short list of the largest would do.
    let all_scores = Decoding { repetition_penalty: 1.5, ..greedy.clone() };
    let beams = Decoding { beams: 2, ..greedy.clone() };
    let all_beams = Decoding { beams: 2, ..all_scores.clone() };
    let groups = Decoding { groups: 2, diversity_penalty: 0.5, ..beams.clone() };
    for decoding in [greedy, all_scores, beams, all_beams, groups] {
        let requests = vec![Request::prompt(vec![5, 6, 7], decoding)];
        let room = Room::of(model.formula(), &requests, 2);
        let generator = Generator::new(&model, &Cpu::new(1), room).expect("it prepares");
        let error = generator.run(requests).expect_err("nothing can be written").to_string();
        assert!(error.contains("every token is ruled out"), "{error}");
    }
}

/// Scores below −10⁹ were once taken for beams that must not win, and nothing was found.
#[test]
fn a_length_penalty_far_below_zero_leaves_a_text() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let ask = |length_penalty: f64| {
        let decoding = Decoding { beams: 2, returns: 2, length_penalty, ..Decoding::greedy(None, 9) };
        let requests = vec![Request::prompt(vec![5, 6, 7], decoding)];
        let room = Room::of(model.formula(), &requests, 2);
        Generator::new(&model, &Cpu::new(1), room).expect("it prepares").run(requests)
    };
    let ids = |found: &[Generated]| found.iter().map(|found| found.ids.clone()).collect::<Vec<_>>();
    // All texts are as long as they may be, so their order does not depend on the penalty.
    let wanted = ask(1.0).expect("it runs").remove(0);
    let found = ask(-12.0).expect("it runs").remove(0);
    assert_eq!(ids(&found), ids(&wanted));
    assert!(found[0].score.is_some_and(|score| score.is_finite() && score < -1e9), "{found:?}");
    let error = ask(-300.0).expect_err("no score is a number").to_string();
    assert!(error.contains("length_penalty -300"), "{error}");
}
