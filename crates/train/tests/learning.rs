//! The original Transformer learns from scratch: two layers, to reverse sequences it has never seen.

use glassformer_cpu::Cpu;
use glassformer_engine::{Decoding, Finish, Generator, Request, Room};
use glassformer_formula::Formula;
use glassformer_formula::named::{Original, original};
use glassformer_graph::{Batch, Capacity, SideCapacity, Span};
use glassformer_model::Model;
use glassformer_tensor::Random;
use glassformer_train::{Settings, Trainer};

const START: u32 = 0;
const END: u32 = 1;
const LETTERS: usize = 8;
const LONGEST: usize = 6;

fn formula() -> Formula {
    original(Original {
        width: 64,
        heads: 4,
        hidden: 128,
        source_layers: 2,
        target_layers: 2,
        source_vocabulary: LETTERS + 2,
        target_vocabulary: LETTERS + 2,
    })
}

/// A sequence; those whose letters add up to a multiple of five are never trained on.
fn draw(random: &mut Random, unseen: bool) -> Vec<u32> {
    loop {
        let len = 1 + random.below(LONGEST);
        let letters: Vec<u32> = (0..len).map(|_| 2 + random.below(LETTERS) as u32).collect();
        if letters.iter().sum::<u32>().is_multiple_of(5) == unseen {
            return letters;
        }
    }
}

fn batch(random: &mut Random, sequences: usize) -> Batch<'static> {
    let mut batch = Batch { seed: random.bits(), ..Batch::default() };
    for source in 0..sequences {
        let letters = draw(random, false);
        batch.source.push(&letters, Span::default());
        let reversed: Vec<u32> = letters.into_iter().rev().collect();
        let shifted: Vec<u32> = std::iter::once(START).chain(reversed.iter().copied()).collect();
        batch.target.push(&shifted, Span { source, ..Span::default() });
        batch.target.labels.extend(reversed.into_iter().chain([END]));
    }
    batch.target.pick_all();
    let rows = batch.target.rows();
    batch.target.weights = vec![1.0 / rows as f32; rows];
    batch
}

#[test]
fn a_two_layer_transformer_learns_to_reverse_unseen_sequences() {
    let backend = Cpu::default();
    let sequences = 48;
    let side = SideCapacity {
        rows: sequences * (LONGEST + 1),
        sequences,
        picked: sequences * (LONGEST + 1),
        memory: 0,
        keys: LONGEST + 1,
    };
    let capacity = Capacity { source: side, target: side };
    let settings = Settings { dropout: 0.05, smoothing: 0.1, ..Settings::default() };
    let model = Model::random(formula(), 7).expect("the formula works");
    let mut trainer = Trainer::new(&model, &backend, &capacity, &settings).expect("it prepares");
    let mut random = Random::new(1);
    let steps = 500;
    for step in 0..steps {
        let warm = (step as f32 + 1.0) / 60.0;
        let left = (steps - step) as f32 / steps as f32;
        let rate = 2e-3 * warm.min(1.0) * left;
        let loss = trainer.step(batch(&mut random, sequences), rate).expect("a step");
        if step % 100 == 0 {
            println!("step {step}: loss {loss:.3}");
        }
    }

    let trained = trainer.model().expect("it fits");
    let room = Room::new(50, LONGEST, LONGEST + 4);
    let generator = Generator::new(&trained, &backend, room).expect("it prepares");
    let mut unseen = Random::new(99);
    let decoding = Decoding { start: Some(START), ..Decoding::greedy(Some(END), LONGEST + 2) };
    let request = |source| Request::source(source, &[], decoding.clone()).expect("there is a start");
    let requests: Vec<Request> = (0..400).map(|_| request(draw(&mut unseen, true))).collect();
    let answers = generator.best(requests.clone()).expect("it generates");
    let right = requests.iter().zip(&answers).filter(|(request, answer)| {
        answer.finish == Finish::Eos
            && answer.ids[..answer.ids.len() - 1].iter().eq(request.source.iter().rev())
    });
    let right = right.count();
    println!("{right} of {} right", requests.len());
    assert!(right * 100 > 99 * requests.len(), "only {right} of {} are reversed", requests.len());
}
