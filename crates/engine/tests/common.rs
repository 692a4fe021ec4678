//! What tests of sessions share.

use glassformer_cpu::Cpu;
use glassformer_engine::{Event, Generated, Generator, Request, Room, Session};
use glassformer_formula::Formula;
use glassformer_formula::named::{self, Original};
use glassformer_model::Model;

/// A small encoder-decoder.
pub fn pair() -> Formula {
    named::original(Original {
        width: 16,
        heads: 2,
        hidden: 24,
        source_layers: 1,
        target_layers: 2,
        source_vocabulary: 23,
        target_vocabulary: 31,
    })
}

/// What each request gets alone, with nothing kept of those before.
pub fn alone(model: &Model, cpu: &Cpu, requests: &[Request]) -> Vec<Vec<Generated>> {
    let generator = Generator::new(model, cpu, Room::of(model.formula(), requests, 1)).expect("it prepares");
    let one = |request: &Request| {
        let request = Request { owner: None, ..request.clone() };
        generator.run(vec![request]).expect("it generates").remove(0)
    };
    requests.iter().map(one).collect()
}

/// Requests that were answered, by number, and those that failed, with the reason.
#[derive(Default)]
pub struct Ended {
    pub done: Vec<(usize, Vec<Generated>)>,
    pub failed: Vec<(usize, String)>,
}

/// Takes steps until all requests are over.
pub fn ended(session: &mut Session, requests: impl IntoIterator<Item = Request>) -> Ended {
    for request in requests {
        session.submit(request).expect("it is admitted");
    }
    let mut ended = Ended::default();
    while !session.is_idle() {
        for event in session.step().expect("it runs") {
            match event {
                Event::Token { .. } => {}
                Event::Done { request, outputs } => ended.done.push((request, outputs)),
                Event::Failed { request, error } => ended.failed.push((request, error.to_string())),
            }
        }
    }
    ended.done.sort_by_key(|(request, _)| *request);
    ended
}
