//! Drafts change no bit of what is written: looked up, of a draft model, and of one that knows nothing of the text.

use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_engine::{
    Decoding, Draft, Event, Generated, Generator, Load, Request, Room, Sampling, Session, Stopper,
};
use glassformer_formula::named::{self, Size};
use glassformer_formula::{Clusters, Formula, Global, Mix, Pattern};
use glassformer_graph::{PAGE, Precision};
use glassformer_model::Model;
use glassformer_tensor::Random;

use crate::common::alone;

const VOCABULARY: usize = 31;
const SIZE: Size = Size { width: 16, heads: 2, hidden: 24, layers: 2, vocabulary: VOCABULARY, length: 128 };

/// A decoder each of whose rows sees itself and nine before it.
fn windowed() -> Formula {
    let mut formula = named::llama(SIZE, 1);
    for sublayer in &mut formula.target.as_mut().expect("a target").stack.block {
        if let Mix::Attend(attention) = &mut sublayer.mix {
            attention.pattern = Pattern::Sliding { window: 9, global: Global::None };
        }
    }
    formula
}

/// One of each kind: rotations, learned positions, windows; distances, learned positions and sinusoids beside a source.
fn formulas() -> [(&'static str, Formula); 6] {
    [
        ("llama", named::llama(SIZE, 1)),
        ("gpt2", named::gpt2(SIZE)),
        ("windowed", windowed()),
        ("t5", named::t5(SIZE)),
        ("bart", named::bart(SIZE)),
        ("marian", named::marian(SIZE)),
    ]
}

#[derive(Debug)]
struct After(usize);

impl Stopper for After {
    fn stops(&self, new: &[u32]) -> bool {
        new.len() == self.0
    }
}

/// Lets a text go round: 11, 12, 13, 14, 15, 11 and so on.
fn round() -> Vec<(Vec<u32>, f32)> {
    (0..5).map(|step| (vec![11 + step, 11 + (step + 1) % 5], 50.0)).collect()
}

/// Every way of decoding that a draft has to leave alone.
fn decodings() -> Vec<Decoding> {
    let new = Decoding { max_new_tokens: Some(60), start: Some(0), ..Decoding::default() };
    let drawn = Sampling { temperature: 0.4, top_k: 9, top_p: 0.9, ..Sampling::default() };
    vec![
        new.clone(),
        Decoding { logprobs: Some(2), ..new.clone() },
        Decoding { min_new_tokens: Some(20), end: vec![1, 2, 5, 7, 9], forced_last: vec![2], ..new.clone() },
        Decoding { repetition_penalty: 1.1, frequency_penalty: 0.05, end: vec![1], ..new.clone() },
        Decoding { sampling: Some(drawn), logprobs: Some(0), ..new.clone() },
        Decoding { no_repeat_ngram: 5, bad_words: vec![vec![4], vec![8, 9]], ..new.clone() },
        Decoding { sampling: Some(Sampling { seed: 5, ..drawn }), presence_penalty: 0.1, ..new.clone() },
        Decoding { suppress: vec![3], begin_suppress: vec![6, 7], forced_first: Some(11), ..new.clone() },
        Decoding { max_new_tokens: None, max_length: Some(100), renormalize: true, ..new.clone() },
        Decoding { sequence_bias: round(), forced_first: Some(12), begin_suppress: vec![12], ..new.clone() },
        // These go without drafts.
        Decoding { beams: 2, ..new.clone() },
        Decoding { sampling: Some(drawn), returns: 2, ..new },
    ]
}

/// Requests whose prompts repeat themselves, every way of decoding among them.
fn requests(formula: &Formula, count: usize) -> Vec<Request> {
    let (mut random, ways) = (Random::new(3), decodings());
    let mut said = |most: usize| -> Vec<u32> {
        let part: Vec<u32> =
            (0..2 + random.below(6)).map(|_| 3 + random.below(VOCABULARY - 3) as u32).collect();
        part.iter().copied().cycle().take(4 + random.below(most)).collect()
    };
    let request = |number: usize| {
        let decoding = ways[number % ways.len()].clone();
        let request = match formula.source {
            Some(_) => Request::source(said(24), &[], decoding).expect("there is a start"),
            None => Request::prompt(said(36), decoding),
        };
        let stopper: Option<Arc<dyn Stopper>> = (number % 4 == 3).then(|| Arc::new(After(27)) as _);
        Request { stopper, owner: number.is_multiple_of(3).then_some(1), ..request }
    };
    (0..count).map(request).collect()
}

fn drafting(requests: &[Request], draft: Draft) -> Vec<Request> {
    let drafted =
        |request: &Request| Request { decoding: request.decoding.clone().draft(draft), ..request.clone() };
    requests.iter().map(drafted).collect()
}

fn cpu(precision: Precision) -> Cpu {
    Cpu::new(2).with_precision(precision).keeping_f32(|_| false)
}

/// Submits requests at random moments, takes steps until all are done, and gives the answers.
fn answer(session: &mut Session, requests: &[Request]) -> Vec<Vec<Generated>> {
    let mut random = Random::new(1);
    let mut answers = vec![Vec::new(); requests.len()];
    let mut told = vec![Vec::new(); requests.len()];
    let mut waiting = requests.iter();
    while waiting.len() > 0 || !session.is_idle() {
        for request in waiting.by_ref().take(random.below(4)) {
            session.submit(request.clone()).expect("it is admitted");
        }
        for event in session.step().expect("it runs") {
            match event {
                Event::Token { request, sequence: 0, token } => told[request].push(token.id),
                Event::Token { .. } => {}
                Event::Done { request, outputs } => answers[request] = outputs,
                Event::Failed { request, error } => panic!("request {request}: {error}"),
            }
        }
    }
    for ((told, answer), request) in told.iter().zip(&answers).zip(requests) {
        assert!(request.decoding.beams > 1 || *told == answer[0].ids, "what is told is what is answered");
    }
    answers
}

/// The same answers with drafts, in much room and in little: what was drafted and accepted in the first, and how many requests were sent
/// back in the other.
fn same_with_drafts(
    generator: impl Fn(Room) -> Generator,
    requests: &[Request],
    expected: &[Vec<Generated>],
    formula: &Formula,
) -> Load {
    let room = Room::of(formula, requests, 5);
    // Enough for the widest request by itself, and hardly more.
    let few = Room { pages: 2 * room.target.div_ceil(PAGE) + 1, rows: 12, ..room };
    let [much, little] = [Room { pages: room.pages * 3, ..room }, few].map(|room| {
        let mut session = generator(room).session();
        let answers = answer(&mut session, requests);
        for ((answer, expected), request) in answers.iter().zip(expected).zip(requests) {
            assert_eq!(answer, expected, "{:?}", request.decoding);
        }
        session.load()
    });
    Load { preempted: little.preempted, ..much }
}

#[test]
fn looked_up_drafts_give_the_same_bits() {
    let (mut wrong, mut sent_back) = (0, 0);
    for (name, formula) in formulas() {
        for precision in [Precision::F32, Precision::Int8] {
            let cpu = cpu(precision);
            let model = Model::random(formula.clone(), 11).expect("the formula works");
            let requests = requests(&formula, 36);
            let expected = alone(&model, &cpu, &requests);
            let generator = |room| Generator::new(&model, &cpu, room).expect("it prepares");
            let requests = drafting(&requests, Draft::LookUp);
            let Load { drafted_tokens, accepted_tokens, preempted, .. } =
                same_with_drafts(generator, &requests, &expected, &formula);
            assert!(accepted_tokens > 50, "{name}: {accepted_tokens} of {drafted_tokens} were right");
            wrong += drafted_tokens - accepted_tokens;
            sent_back += preempted;
        }
    }
    assert!(wrong > 50, "{wrong} were wrong: it takes some to test what they leave behind");
    assert!(sent_back > 0, "this test means nothing where there are enough pages");
}

#[test]
fn drafts_of_a_model_give_the_same_bits_right_or_wrong() {
    let mut sent_back = 0;
    for (name, formula) in formulas() {
        let cpu = cpu(Precision::F32);
        let model = Model::random(formula.clone(), 11).expect("the formula works");
        let requests = requests(&formula, 24);
        let expected = alone(&model, &cpu, &requests);
        let requests = drafting(&requests, Draft::Model);
        // Itself, which is always right, and one that knows nothing.
        let shares = [11, 12].map(|seed| {
            let small = Model::random(formula.clone(), seed).expect("the formula works");
            let generator = |room| {
                let small = Generator::new(&small, &cpu, room).expect("it prepares");
                let generator = Generator::new(&model, &cpu, room).expect("it prepares");
                generator.with_draft_model(&small).expect("they fit")
            };
            let Load { drafted_tokens, accepted_tokens, preempted, .. } =
                same_with_drafts(generator, &requests, &expected, &formula);
            sent_back += preempted;
            accepted_tokens as f64 / drafted_tokens as f64
        });
        assert!(shares[0] > 0.95 && shares[1] < 0.9 * shares[0], "{name}: {shares:?}");
    }
    assert!(sent_back > 0, "this test means nothing where there are enough pages");
}

#[test]
fn a_repeating_text_takes_far_fewer_steps() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let steps = |draft: Draft| {
        let decoding = Decoding { sequence_bias: round(), ..Decoding::greedy(None, 100) };
        let request = Request::prompt(vec![5, 11], decoding.draft(draft));
        let room = Room::of(model.formula(), std::slice::from_ref(&request), 1);
        let mut session = Generator::new(&model, &Cpu::new(1), room).expect("it prepares").session();
        session.submit(request).expect("it is admitted");
        let mut steps = 0;
        while !session.is_idle() {
            session.step().expect("it runs");
            steps += 1;
        }
        (steps, session.load())
    };
    let (plain, load) = steps(Draft::Never);
    assert_eq!((plain, load.drafted_tokens), (100, 0));
    let (drafted, load) = steps(Draft::LookUp);
    assert_eq!(drafted + load.accepted_tokens, plain, "a step for each token that was not drafted");
    assert!(drafted < 40, "{drafted} steps");
}

#[test]
fn models_that_read_token_by_token_go_without_drafts() {
    let clusters = Clusters { cuts: vec![9, 20], divisor: 2, width: None };
    let formula = named::transformer_xl(SIZE, clusters);
    let model = Model::random(formula, 11).expect("the formula works");
    let request = |draft| Request::prompt([5, 6].repeat(9), Decoding::greedy(None, 40).draft(draft));
    let room = Room::of(model.formula(), &[request(Draft::Never)], 1);
    let generator = Generator::new(&model, &Cpu::new(1), room).expect("it prepares");
    let mut session = generator.session();
    let answers = answer(&mut session, &[request(Draft::Never), request(Draft::LookUp)]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(session.load().drafted_tokens, 0);
}

#[test]
fn a_draft_model_of_another_kind_is_refused() {
    let generator = |formula: Formula| {
        let model = Model::random(formula, 11).expect("the formula works");
        Generator::new(&model, &Cpu::new(1), Room::new(1, 20, 20)).expect("it prepares")
    };
    let refused = |small: Formula| {
        let refused = generator(named::llama(SIZE, 1)).with_draft_model(&generator(small));
        refused.err().expect("it does not fit").to_string()
    };
    assert!(refused(named::llama(Size { vocabulary: 4000, ..SIZE }, 1)).contains("4000 different tokens"));
    assert!(refused(named::marian(SIZE)).contains("encoder"));
}

#[test]
fn what_a_draft_model_read_goes_with_its_request() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let generator = Generator::new(&model, &Cpu::new(1), Room::new(2, 0, 120)).expect("it prepares");
    let generator = generator.clone().with_draft_model(&generator).expect("it fits itself");
    let mut session = generator.session();
    for _ in 0..50 {
        let request = Request::prompt(vec![5; 40], Decoding::greedy(None, 60).draft(Draft::Model));
        session.submit(request).expect("it is admitted");
        session.step().expect("it runs");
        session.step().expect("it runs");
        assert!(session.load().drafted_tokens > 0);
        let number =
            session.submit(Request::prompt(vec![5], Decoding::greedy(None, 1))).expect("it is admitted");
        assert!(session.cancel(number - 1) && session.cancel(number));
    }
    assert_eq!(session.load().held_pages, 0);
}
