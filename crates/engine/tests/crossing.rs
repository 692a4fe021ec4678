//! What crosses between the host and a backend's memory that it cannot see, counted in bytes.
//!
//! It went wrong once: every step read a vocabulary of scores, and training bound all parameters anew.

use std::sync::Arc;

use glassformer_conformance::{Crossed, Opaque};
use glassformer_cpu::Cpu;
use glassformer_engine::{Decoding, Event, Forward, Generator, Request, Room, Sequence};
use glassformer_formula::Formula;
use glassformer_formula::named::{self, Original, Size};
use glassformer_graph::Span;
use glassformer_model::Model;

const SIZE: Size = Size { width: 16, heads: 2, hidden: 24, layers: 2, vocabulary: 3000, length: 96 };

fn pair() -> Formula {
    let Size { width, heads, hidden, vocabulary, .. } = SIZE;
    let (source_layers, target_layers) = (1, 2);
    let (source_vocabulary, target_vocabulary) = (vocabulary, vocabulary);
    named::original(Original {
        width,
        heads,
        hidden,
        source_layers,
        target_layers,
        source_vocabulary,
        target_vocabulary,
    })
}

/// Bytes of ids and spans, where the head is asked about the last row of each sequence.
fn rows(tokens: usize, sequences: usize) -> u64 {
    (4 * tokens + sequences * (size_of::<Span>() + 4)) as u64
}

/// Bytes of the largest scores of a row, with one number about the row as a whole.
fn largest(most: usize) -> u64 {
    (8 * most + 8) as u64
}

/// What crosses in each step of a session that answers `request`.
fn steps(formula: Formula, request: Request) -> Vec<Crossed> {
    let model = Model::random(formula, 3).expect("the formula works");
    let device = Opaque::over(Arc::new(Cpu::new(1)));
    let room = Room::of(model.formula(), std::slice::from_ref(&request), 1);
    let generator = Generator::new(&model, &device, room).expect("it prepares");
    let mut session = generator.session();
    session.submit(request).expect("it is admitted");
    let mut crossed = Vec::new();
    while !session.is_idle() {
        let events = session.step().expect("it runs");
        assert!(!events.iter().any(|event| matches!(event, Event::Failed { .. })), "{events:?}");
        crossed.push(device.take());
    }
    crossed
}

#[test]
fn a_step_of_a_decoder_moves_ids_spans_and_the_largest_score() {
    let decoding = Decoding { start: Some(0), ..Decoding::greedy(None, 5) };
    let crossed = steps(named::llama(SIZE, 1), Request::prompt(vec![5, 17, 9], decoding));
    let each = |tokens| Crossed { runs: 1, rows: rows(tokens, 1), outputs: largest(1), ..Crossed::default() };
    assert_eq!(crossed, [each(3), each(1), each(1), each(1), each(1)]);
}

#[test]
fn a_step_of_an_encoder_decoder_moves_no_more_and_its_source_once() {
    let decoding = Decoding { start: Some(0), ..Decoding::greedy(None, 3) };
    let request = Request::source(vec![5, 17, 9, 4], &[], decoding).expect("it fits");
    let crossed = steps(pair(), request);
    let encoder = (4 * 4 + size_of::<Span>()) as u64;
    let each = |source| Crossed {
        runs: 1 + u64::from(source > 0),
        rows: source + rows(1, 1),
        outputs: largest(1),
        ..Crossed::default()
    };
    assert_eq!(crossed, [each(encoder), each(0), each(0)]);
}

#[test]
fn beams_move_their_candidates_alone() {
    let decoding = Decoding { start: Some(0), beams: 4, ..Decoding::greedy(Some(1), 4) };
    let request = Request::source(vec![5, 17, 9, 4], &[], decoding).expect("it fits");
    let crossed = steps(pair(), request);
    assert_eq!(crossed.len(), 4);
    for (at, step) in crossed.iter().enumerate().skip(1) {
        // Two candidates for each beam, or one more than there are ends.
        assert_eq!(step.outputs, 4 * largest(8), "step {at}");
        assert_eq!(step.rows, rows(4, 4), "step {at}");
    }
}

#[test]
fn an_encoder_moves_ids_and_what_is_read() {
    let model = Model::random(named::bert(SIZE), 3).expect("the formula works");
    let device = Opaque::over(Arc::new(Cpu::new(1)));
    let sequence = Sequence { source: vec![5, 17, 9], ..Sequence::default() };
    let forward = Forward::whole(&model, &device, &[sequence]).expect("it runs");
    assert_eq!(device.take().outputs, 0, "nothing is read before anybody asks");
    let pooled = forward.output("pooled").expect("it is read").expect("it has a pooler");
    assert_eq!(device.take(), Crossed { outputs: 4 * pooled.shape.width as u64, ..Crossed::default() });
}
