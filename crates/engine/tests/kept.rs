//! What was read for earlier requests is not read again, and nobody's bits change by that.

use glassformer_cpu::Cpu;
use glassformer_engine::{Decoding, Event, Generated, Generator, Load, Request, Room, Session};
use glassformer_formula::Formula;
use glassformer_formula::named::{self, Size};
use glassformer_graph::{PAGE, Precision};
use glassformer_model::Model;
use glassformer_tensor::Random;

use crate::common::{alone, pair};

const SIZE: Size = Size { width: 16, heads: 2, hidden: 24, layers: 2, vocabulary: 31, length: 128 };

fn decoding(beams: usize) -> Decoding {
    let logprobs = (beams == 1).then_some(0);
    Decoding { beams, logprobs, max_new_tokens: Some(9), start: Some(0), ..Decoding::default() }
}

/// Texts of which many begin alike, in a random order: turns of some conversations.
fn requests(formula: &Formula) -> Vec<Request> {
    let mut random = Random::new(7);
    let said: Vec<Vec<u32>> =
        (0..4).map(|_| (0..90).map(|_| 3 + random.below(20) as u32).collect()).collect();
    (0..40)
        .map(|_| {
            let text = &said[random.below(4)];
            let text = match formula.source {
                // The memory of a source is kept as a whole.
                Some(_) => text[..40].to_vec(),
                None => text[..=random.below(89)].to_vec(),
            };
            let decoding = decoding(1 + 2 * random.below(2));
            let request = match formula.source {
                Some(_) => Request::source(text, &[], decoding).expect("there is a start"),
                None => Request::prompt(text, decoding),
            };
            Request { owner: Some(random.below(2) as u64), ..request }
        })
        .collect()
}

/// Answers requests, some of them together.
fn answer(session: &mut Session, requests: &[Request]) -> Vec<Vec<Generated>> {
    let mut random = Random::new(1);
    let mut answers = vec![Vec::new(); requests.len()];
    let mut waiting = requests.iter();
    while waiting.len() > 0 || !session.is_idle() {
        for request in waiting.by_ref().take(random.below(2)) {
            session.submit(request.clone()).expect("it is admitted");
        }
        for event in session.step().expect("it runs") {
            if let Event::Done { request, outputs } = event {
                answers[request] = outputs;
            }
        }
    }
    answers
}

#[test]
fn kept_pages_give_the_same_bits() {
    for formula in [named::gpt2(SIZE), named::llama(SIZE, 1), pair()] {
        for precision in [Precision::F32, Precision::Int8] {
            let cpu = Cpu::new(2).with_precision(precision).keeping_f32(|_| false);
            let model = Model::random(formula.clone(), 11).expect("the formula works");
            let requests = requests(&formula);
            let expected = alone(&model, &cpu, &requests);
            let room = Room::of(&formula, &requests, 6);
            // Enough for the widest request by itself, and hardly more: what is kept must go again.
            let few = (3 * room.target + room.source).div_ceil(PAGE) + 2;
            for (pages, source_pages) in [(room.pages * 4, room.source_pages * 4), (few, few)] {
                let room = Room { pages, source_pages, ..room };
                let generator = Generator::new(&model, &cpu, room).expect("it prepares");
                let mut session = generator.session();
                assert_eq!(answer(&mut session, &requests), expected, "{precision}");
                let Load { asked_tokens, kept_tokens, .. } = session.load();
                let least = if pages > few { asked_tokens / 4 } else { 0 };
                assert!(kept_tokens > least, "{kept_tokens} of {asked_tokens} tokens were kept");
            }
        }
    }
}

#[test]
fn a_second_turn_reads_only_what_is_new() {
    let model = Model::random(named::llama(SIZE, 1), 11).expect("the formula works");
    let first: Vec<u32> = (0..50).map(|i| 3 + i % 25).collect();
    let request = |tokens: &[u32], owner| Request { owner, ..Request::prompt(tokens.to_vec(), decoding(1)) };
    let generator = Generator::new(&model, &Cpu::new(1), Room::new(2, 0, 120)).expect("it prepares");
    let mut session = generator.session();
    let said = answer(&mut session, &[request(&first, Some(1))]).remove(0).remove(0).ids;
    assert_eq!(said.len(), 9);
    // All of both is stored but for the last token that was written.
    let second = [&first[..], &said, &[4, 5, 6]].concat();
    let kept = |session: &mut Session, owner| {
        let before = session.load().kept_tokens;
        session.submit(request(&second, owner)).expect("it is admitted");
        while !session.is_idle() {
            session.step().expect("it runs");
        }
        session.load().kept_tokens - before
    };
    assert_eq!(kept(&mut session, Some(2)), 0, "what one owner has read is not another's");
    assert_eq!(kept(&mut session, None), 0);
    assert_eq!(kept(&mut session, Some(1)), first.len() + said.len() - 1);
}
