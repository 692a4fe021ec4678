//! Texts of a given form: every way of choosing tokens keeps to it, and each request gets the same bits as alone.

use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_engine::{
    Allowed, Constraint, Decoding, Event, Finish, Generated, Generator, Matcher, Request, Room, Sampling,
};
use glassformer_formula::Formula;
use glassformer_formula::named::{self, Size};
use glassformer_graph::PAGE;
use glassformer_model::Model;
use glassformer_tensor::Random;

use crate::common::{Ended, alone, ended, pair};

const WORDS: u32 = 31;
const SIZE: Size =
    Size { width: 16, heads: 2, hidden: 24, layers: 2, vocabulary: WORDS as usize, length: 96 };
const END: [u32; 2] = [1, 2];

/// A text must be one of these.
#[derive(Clone, Debug)]
struct OneOf(Arc<Vec<Vec<u32>>>);

#[derive(Clone, Debug)]
struct Following {
    texts: OneOf,
    written: Vec<u32>,
    bits: Vec<u32>,
}

impl Constraint for OneOf {
    fn start(&self) -> Box<dyn Matcher> {
        Box::new(Following { texts: self.clone(), written: Vec::new(), bits: Vec::new() })
    }
}

impl Matcher for Following {
    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }

    fn push(&mut self, token: u32) {
        self.written.push(token);
    }

    fn allowed(&mut self) -> Result<Allowed<'_>, String> {
        self.bits = vec![0; WORDS.div_ceil(32) as usize];
        let rests = || self.texts.0.iter().filter_map(|text| text.strip_prefix(&self.written[..]));
        for &next in rests().filter_map(|rest| rest.first()) {
            self.bits[next as usize / 32] |= 1 << (next % 32);
        }
        let end = rests().any(<[u32]>::is_empty);
        Ok(Allowed { tokens: &self.bits, end })
    }
}

/// Many texts that begin alike; some are the beginning of others.
fn texts() -> OneOf {
    let mut random = Random::new(8);
    let mut texts: Vec<Vec<u32>> = vec![vec![5, 9]];
    for _ in 0..60 {
        let begun = &texts[random.below(texts.len())];
        let begun = begun[..=random.below(begun.len())].to_vec();
        let more = (0..=random.below(9)).map(|_| 3 + random.below(WORDS as usize - 3) as u32);
        texts.push(begun.into_iter().chain(more).collect());
    }
    OneOf(Arc::new(texts))
}

fn decodings() -> Vec<Decoding> {
    let new = Decoding { max_new_tokens: Some(40), end: END.to_vec(), start: Some(0), ..Decoding::default() };
    let drawn = Sampling { temperature: 1.3, top_k: 9, top_p: 0.9, ..Sampling::default() };
    vec![
        new.clone(),
        Decoding { logprobs: Some(2), frequency_penalty: 0.4, ..new.clone() },
        Decoding { sampling: Some(drawn), returns: 3, ..new.clone() },
        Decoding { beams: 4, returns: 3, logprobs: Some(0), ..new.clone() },
        Decoding { beams: 4, groups: 2, diversity_penalty: 0.7, returns: 4, ..new.clone() },
        Decoding { beams: 2, sampling: Some(Sampling { seed: 9, ..drawn }), ..new.clone() },
        Decoding { max_new_tokens: Some(2), forced_last: vec![1], ..new },
    ]
}

/// Requests of random lengths, every way of decoding among them, of which every third has no form.
fn requests(formula: &Formula, count: usize) -> Vec<Request> {
    let (mut random, ways) = (Random::new(3), decodings());
    let form: Arc<dyn Constraint> = Arc::new(texts());
    (0..count)
        .map(|number| {
            let decoding = ways[number % ways.len()].clone();
            let len = 1 + random.below(if formula.source.is_some() { 30 } else { 45 });
            let text = (0..len).map(|_| 3 + random.below(20) as u32).collect();
            let request = match formula.source {
                Some(_) => Request::source(text, &[], decoding).expect("there is a start"),
                None => Request::prompt(text, decoding),
            };
            Request { constraint: Some(form.clone()).filter(|_| number % 3 < 2), ..request }
        })
        .collect()
}

/// The texts of all outputs, without the tokens that ended them, keep to the form.
fn assert_kept(outputs: &[Generated]) {
    let OneOf(texts) = texts();
    for Generated { ids, finish, .. } in outputs {
        let (last, text) = ids.split_last().expect("it wrote something");
        match finish {
            Finish::Eos => {
                assert!(END.contains(last) && texts.iter().any(|known| known == text), "{ids:?}");
            }
            Finish::Length => assert!(texts.iter().any(|known| known.starts_with(ids)), "{ids:?}"),
            Finish::Stop => panic!("nothing stops it"),
        }
    }
}

#[test]
fn every_search_keeps_to_the_form() {
    for formula in [pair(), named::llama(SIZE, 1)] {
        let model = Model::random(formula, 11).expect("the formula works");
        let requests = requests(model.formula(), 21);
        let written = alone(&model, &Cpu::new(1), &requests);
        for (request, outputs) in requests.iter().zip(&written).filter(|(r, _)| r.constraint.is_some()) {
            assert!(!outputs.is_empty() && outputs.len() <= request.decoding.returns);
            assert_kept(outputs);
        }
        let of = |finish| written.iter().flatten().filter(|output| output.finish == finish).count();
        assert!(of(Finish::Eos) > 9 && of(Finish::Length) > 0);
    }
}

#[test]
fn each_request_gets_the_same_bits_as_alone_and_after_it_was_sent_back() {
    let mut sent_back = 0;
    for formula in [pair(), named::llama(SIZE, 1)] {
        let model = Model::random(formula, 11).expect("the formula works");
        let requests = requests(model.formula(), 21);
        let expected = alone(&model, &Cpu::new(1), &requests);
        let room = Room::of(model.formula(), &requests, 12);
        let pages = 4 * room.target.div_ceil(PAGE) + 2; // enough for the widest request, and hardly more
        for room in [room, Room { pages, ..room }, Room { pages, rows: 12, ..room }] {
            let generator = Generator::new(&model, &Cpu::new(2), room).expect("it prepares");
            let mut session = generator.session();
            let mut answers = vec![Vec::new(); requests.len()];
            for request in &requests {
                session.submit(request.clone()).expect("it is admitted");
            }
            while !session.is_idle() {
                for event in session.step().expect("the model runs") {
                    match event {
                        Event::Token { .. } => {}
                        Event::Done { request, outputs } => answers[request] = outputs,
                        Event::Failed { request, error } => panic!("request {request}: {error}"),
                    }
                }
            }
            assert_eq!(answers, expected);
            sent_back += session.load().preempted;
        }
    }
    assert!(sent_back > 0, "pages never ran out");
}

/// Fails at the third token.
#[derive(Clone, Debug)]
struct Failing(usize, [u32; 1]);

impl Constraint for Failing {
    fn start(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}

impl Matcher for Failing {
    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }

    fn push(&mut self, _: u32) {
        self.0 += 1;
    }

    fn allowed(&mut self) -> Result<Allowed<'_>, String> {
        if self.0 == 2 {
            return Err("the form is too large".to_owned());
        }
        Ok(Allowed { tokens: &self.1, end: false })
    }
}

#[test]
fn a_form_that_fails_or_leaves_no_token_fails_its_request_alone() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let plain = Request::prompt(
        vec![4, 5, 6],
        Decoding { max_new_tokens: Some(8), end: END.to_vec(), ..Decoding::default() },
    );
    let expected = alone(&model, &Cpu::new(1), std::slice::from_ref(&plain)).remove(0);
    let dead_end = OneOf(Arc::new(vec![vec![7, 8, WORDS]])); // there is no such token
    let forms: [(Arc<dyn Constraint>, &str); 2] =
        [(Arc::new(Failing(0, [!0])), "too large"), (Arc::new(dead_end), "every token is ruled out")];
    for beams in [1, 3] {
        for (form, said) in &forms {
            let decoding = Decoding { beams, ..plain.decoding.clone() };
            let bad = Request { constraint: Some(form.clone()), decoding, ..plain.clone() };
            let requests = vec![plain.clone(), bad, plain.clone()];
            let room = Room::of(model.formula(), &requests, 5);
            let generator = Generator::new(&model, &Cpu::new(1), room).expect("it prepares");
            let mut session = generator.session();
            let Ended { done, failed } = ended(&mut session, requests);
            assert_eq!(done, [(0, expected.clone()), (2, expected.clone())]);
            assert!(matches!(&failed[..], [(1, error)] if error.contains(said)), "{failed:?}");
        }
    }
}

#[test]
fn a_form_needs_a_token_that_ends_it() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    for end in [vec![], vec![WORDS]] {
        let decoding = Decoding { max_new_tokens: Some(8), end, ..Decoding::default() };
        let request = Request { constraint: Some(Arc::new(texts())), ..Request::prompt(vec![4], decoding) };
        let room = Room::of(model.formula(), std::slice::from_ref(&request), 1);
        let generator = Generator::new(&model, &Cpu::new(1), room).expect("it prepares");
        let error = generator.run(vec![request]).expect_err("nothing would end the text").to_string();
        assert!(error.contains("end token"), "{error}");
    }
}
