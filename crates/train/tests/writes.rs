//! What training writes can be read: the checkpoint of a translator in the layout of its family.

mod common;

use common::{Folder, backwards, train};
use glassformer_cpu::Cpu;
use glassformer_engine::{Decoding, Finish, Generator, Request, Room};
use glassformer_families as families;
use glassformer_tokens::{Special, SpecialText, Tokenizer};
use glassformer_train::Event;

#[test]
fn a_trained_translator_opens_as_marian_and_translates() {
    let folder = Folder::new("marian");
    let config = backwards(&folder.0, "out", 400, "");
    let (_, events) = train(&config, |_| false);
    let kind = events.iter().find_map(|event| match event {
        Event::Model { kind, .. } => kind.clone(),
        _ => None,
    });
    assert_eq!(kind.as_deref(), Some("marian"));
    let path = folder.0.join("out/model");
    let opened = families::open(&path).expect("it opens");
    let tokenizer = Tokenizer::open(&path).expect("so does its tokenizer");
    let special = tokenizer.special();
    let room = Room::new(4, 16, 16);
    let generator = Generator::new(&opened.model, &Cpu::new(1), room).expect("it prepares");
    let decoding = Decoding { start: special.pad, ..Decoding::greedy(special.eos, 12) };
    let words = ["abc", "fade", "bead", "cab"];
    let requests = words.map(|word| {
        let ids = tokenizer.encode(word, Special::Add).expect("it encodes").ids;
        Request::source(ids, &[], decoding.clone()).expect("there is a start")
    });
    let answers = generator.best(requests.to_vec()).expect("it generates");
    let right = words.iter().zip(&answers).filter(|(word, answer)| {
        let text = tokenizer.decode(&answer.ids, SpecialText::Skip).expect("it decodes");
        println!("{word} → {text}");
        answer.finish == Finish::Eos && text == format!("x{}", word.chars().rev().collect::<String>())
    });
    assert!(right.count() >= 3, "too few words are turned around");
}
