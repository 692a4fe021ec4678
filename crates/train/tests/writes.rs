//! What training writes can be read: the checkpoint of a translator in the layout of its family.

use std::sync::Arc;

use crate::common::{Folder, backwards, train};
use glassformer_cpu::Cpu;
use glassformer_engine::{Decoding, Finish, Generator, Request, Room};
use glassformer_families as families;
use glassformer_tasks::TextEncoder;
use glassformer_tokens::{Special, SpecialText, Tokenizer};
use glassformer_train::Event;

#[test]
fn a_trained_translator_opens_as_marian_and_translates() {
    let folder = Folder::new("marian");
    let config = backwards(&folder.0, "out", 400, "");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    // As often as elsewhere, its checkpoints would take most of the time.
    let (often, seldom) = ("every = 3, check = 7", "every = 200, check = 200");
    assert!(text.contains(often), "{text}");
    std::fs::write(&config, text.replace(often, seldom)).expect("the configuration");
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

/// A formula that no family has: two windows with a row that sees all, and the mean of the rows.
const SENTENCES: &str = r#"
    head = "rows"
    [source.input.tokens]
    vocabulary = 1
    [source.stack]
    width = 16
    depth.layers = 2
    position.sinusoidal = {}
    [[source.stack.block]]
    mix.attend = { reach = "both", heads = { query = 2, key = 2 }, pattern.sliding = { window = 2, global = "separate" } }
    norm.output.layer = { epsilon = 1e-5 }
    [pooler]
    pool = "mean"
    then = ["unit"]
"#;

/// `glassformer embed` once said of such a folder that it does not say of which model its tensors are.
#[test]
fn a_sentence_encoder_of_a_formula_opens_for_embedding() {
    let folder = Folder::new("sentences");
    let config = backwards(&folder.0, "out", 4, "");
    std::fs::write(folder.0.join("formula.toml"), SENTENCES).expect("the formula");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    std::fs::write(&config, text.replace("\"translate\"", "\"embed\"")).expect("the configuration");
    train(&config, |_| false);
    let opened = families::open_for_embedding(folder.0.join("out/model")).expect("it opens");
    assert!(opened.embedding.is_some() && opened.model.formula().pooler.is_some());
    assert_eq!(opened.global, [0], "the first row sees all, as it did in training");
}

/// Labels had no place beside a formula: a tagger found nothing, and a classifier called everything `LABEL_0`.
#[test]
fn a_classifier_and_a_tagger_of_a_formula_keep_their_labels() {
    let folder = Folder::new("labelled");
    let trained = |objective: &str, formula: &str, data: (&str, &str)| {
        let config = backwards(&folder.0, objective, 2, "");
        let (name, text) = data;
        std::fs::write(folder.0.join(name), text).expect("the data");
        std::fs::write(folder.0.join("formula.toml"), formula).expect("the formula");
        let text = std::fs::read_to_string(&config).expect("the configuration");
        let text = text.replace("\"translate\"", &format!("\"{objective}\"")).replace("data.tsv", name);
        std::fs::write(&config, text).expect("the configuration");
        train(&config, |_| false);
        let encoder = TextEncoder::open(folder.0.join(objective).join("model"), Arc::new(Cpu::new(1)));
        encoder.expect("it opens").checkpoint().labels.clone()
    };
    let text = "a cat\tanimal\na tree\tplant\na dog\tanimal\n".repeat(4).replace("a dog", "my dog");
    let formula = SENTENCES.replace("head = \"rows\"", "head.classes = { count = 1 }");
    let classes = trained("classify", &formula, ("texts.tsv", &text));
    assert_eq!(classes, ["animal", "plant"]);
    let words = "a\tO\nParis\tLOC\n\nin\tO\nRome\tLOC\n\n";
    let (stack, _) = SENTENCES.split_once("[pooler]").expect("a stack and a pooler");
    let formula = stack.replace("head = \"rows\"", "head.tags = { count = 1 }");
    let tags = trained("tag", &formula, ("words.conll", words));
    assert_eq!(tags, ["LOC", "O"]);
}
