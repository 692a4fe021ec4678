//! Files of tokenizers and chat templates changed at random: each is refused, or does its work. Never a panic, and never much
//! memory.
//!
//! The same for minutes: `GLASSFORMER_FUZZ_SECONDS=300 cargo test --release -p glassformer-tokens --test fuzz`. A panic leaves
//! the folder that caused it behind, under the build's temporary files.

mod common;
#[path = "../../weights/tests/common/mutate.rs"]
mod mutate;
#[path = "../../weights/tests/common/watch.rs"]
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::fixture;
use glassformer_tensor::Random;
use glassformer_tokens::{ChatTemplate, Conversation, Error, Special, SpecialText, Tokenizer};
use mutate::{mutate, mutate_json, passes};
use serde_json::Value;
use watch::{Watched, most_held};

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// For each good file; a fixed number, so that the test does the same everywhere.
const ROUNDS: usize = 20;
/// For each good template, of which a changed one seldom parses.
const TEMPLATE_ROUNDS: usize = 200;
/// For opening a tokenizer or template, and using it on a line of text; a file that grew may need some times its size besides.
const MEMORY: usize = 64 << 20;

/// Good files: each format, in each way it is written.
const SEEDS: [(&str, &str); 21] = [
    ("json-split", "tokenizer.json"),
    ("json-split", "tokenizer_config.json"),
    ("json-fallback", "tokenizer.json"),
    ("json-unigram", "tokenizer.json"),
    ("gpt2", "vocab.json"),
    ("gpt2", "merges.txt"),
    ("gpt2", "tokenizer_config.json"),
    ("roberta", "vocab.json"),
    ("roberta", "merges.txt"),
    ("roberta", "special_tokens_map.json"),
    ("llama", "tokenizer.model"),
    ("llama", "tokenizer_config.json"),
    ("t5", "spiece.model"),
    ("t5", "tokenizer_config.json"),
    ("bpe", "spm.model"),
    ("unigram", "spm.model"),
    ("unigram-bytes", "spm.model"),
    ("marian", "vocab.json"),
    ("marian", "source.spm"),
    ("wordpiece-cased", "vocab.txt"),
    ("wordpiece-uncased", "tokenizer_config.json"),
];

/// Texts with something of everything.
const TEXTS: [&str; 4] = [
    "The cat sat on the mat, 12345 times!",
    "",
    "naïve 北京 😀 \u{301}\u{0}\t\n▁<unk>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

// One test, since the allocator watches the whole program.
#[test]
fn changed_files_are_refused_or_do_their_work() {
    let mut slowest = (Duration::ZERO, String::new());
    for pass in passes() {
        let (mut rounds, mut opened) = (0, 0);
        for (number, (name, file)) in SEEDS.into_iter().enumerate() {
            let folder = copied(name);
            let good = fs::read(fixture(name).join(file)).expect("it is a fixture");
            let mut random = Random::new(pass * 1000 + number as u64);
            for round in 0..ROUNDS {
                let place = format!("{name}/{file}, pass {pass}, round {round}");
                let bytes = changed(&good, file, &mut random);
                fs::write(folder.join(file), &bytes).expect("it can be written");
                let begin = Instant::now();
                let (result, held) = most_held(|| exercise(&folder));
                slowest = slowest.max((begin.elapsed(), place.clone()));
                assert!(held < MEMORY + 8 * bytes.len(), "{place}: {held} bytes for {}", bytes.len());
                told(&place, result.as_ref().err());
                (rounds, opened) = (rounds + 1, opened + usize::from(result.is_ok()));
            }
        }
        println!(
            "pass {pass}: {rounds} rounds, {opened} opened; the slowest took {:?}: {}",
            slowest.0, slowest.1
        );
        assert!(opened > 0 && opened < rounds, "{opened} of {rounds} opened");
        templates(pass);
    }
}

/// A copy of the files of a fixture, without what is expected of them.
fn copied(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-tokens").join(name);
    fs::create_dir_all(&folder).expect("a folder can be made");
    for entry in fs::read_dir(fixture(name)).expect("it is a fixture") {
        let entry = entry.expect("it can be read");
        if entry.file_name() != "expected.json" {
            fs::copy(entry.path(), folder.join(entry.file_name())).expect("it can be copied");
        }
    }
    folder
}

fn changed(good: &[u8], file: &str, random: &mut Random) -> Vec<u8> {
    let json = Path::new(file).extension().is_some_and(|end| end == "json");
    if !json || random.below(4) == 0 {
        return mutate(good, random);
    }
    let value: Value = serde_json::from_slice(good).expect("it is JSON");
    mutate_json(&value, random).to_string().into_bytes()
}

/// Opens the tokenizer and asks for everything. Must not panic.
fn exercise(folder: &Path) -> Result<(), Error> {
    let tokenizer = Tokenizer::open(folder)?;
    let _ = (tokenizer.special(), tokenizer.max_length(), tokenizer.model_max_length());
    for text in TEXTS {
        let Ok(encoding) = tokenizer.encode(text, Special::Add) else { continue };
        for id in encoding.ids.iter().copied().chain([0, 1, u32::MAX]) {
            let _ =
                (tokenizer.token(id), tokenizer.is_special(id), tokenizer.decode(&[id], SpecialText::Keep));
        }
        let _ = tokenizer.decode(&encoding.ids, SpecialText::Skip);
        let mut stream = tokenizer.stream(SpecialText::Keep);
        for id in encoding.ids {
            let _ = stream.push(&tokenizer, id);
        }
        let _ = tokenizer.encode_pair(text, TEXTS[0], Special::Leave);
        let _ = tokenizer.encode_target(text, Special::Add);
        let _ = tokenizer.encode_bytes(text.as_bytes(), Special::Add);
    }
    if let Ok(Some(chat)) = ChatTemplate::open(folder) {
        let _ = chat.render(&Conversation::new([("user", "hello")]));
    }
    Ok(())
}

fn told(place: &str, error: Option<&Error>) {
    if let Some(error) = error {
        let message = error.to_string();
        assert!(!message.is_empty() && message.len() < 2000 && !message.contains('\n'), "{place}: {message}");
        assert!(!message.contains("panicked"), "{place}: {message}");
    }
}

/// The templates of real models, with letters, words and whole statements changed.
fn templates(pass: u64) {
    let all: Value = serde_json::from_slice(&fs::read(fixture("chat.json")).expect("it is a fixture"))
        .expect("it is JSON");
    let sources: Vec<&str> = all["templates"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["template"].as_str())
        .collect();
    let mut random = Random::new(pass);
    let (mut rounds, mut rendered) = (0, 0);
    for (number, source) in sources.iter().enumerate() {
        for round in 0..TEMPLATE_ROUNDS {
            let place = format!("template {number}, pass {pass}, round {round}");
            let text = changed_template(source, &sources, &mut random);
            let render = || {
                ChatTemplate::new(&text)?.render(&Conversation::new([("user", "hi"), ("assistant", "ho")]))
            };
            let (result, held) = most_held(render);
            assert!(held < MEMORY, "{place}: {held} bytes: {text}");
            told(&place, result.as_ref().err());
            (rounds, rendered) = (rounds + 1, rendered + usize::from(result.is_ok()));
        }
    }
    println!("pass {pass}: {rounds} templates, {rendered} rendered");
    assert!(rendered > 0 && rendered < rounds, "{rendered} of {rounds} rendered");
}

/// Words of the language that lead far.
const WORDS: [&str; 16] = [
    "{% for x in range(1000000000) %}",
    "{% endfor %}",
    "{% if",
    "{{ messages * 1000000 }}",
    "{{ 'x' * 1000000000 }}",
    "|",
    "loop",
    "[-1]",
    "[::0]",
    "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
    "~",
    "**",
    "9999999999999999999",
    "{#",
    "}}",
    "|tojson(indent=1000000)",
];

fn changed_template(source: &str, others: &[&str], random: &mut Random) -> String {
    let mut letters: Vec<char> = source.chars().collect();
    for _ in 0..=random.below(2) {
        let at = random.below(letters.len() + 1);
        let end = letters.len().min(at + random.below(30));
        let new: Vec<char> = match random.below(4) {
            0 => Vec::new(),
            1 => random.pick(&WORDS).chars().collect(),
            2 => letters[at..end].iter().copied().cycle().take(random.below(200)).collect(),
            _ => {
                let other: Vec<char> = random.pick(others).chars().collect();
                let from = random.below(other.len() + 1);
                other[from..other.len().min(from + random.below(60))].to_vec()
            }
        };
        letters.splice(at..end, new);
    }
    letters.into_iter().collect()
}
