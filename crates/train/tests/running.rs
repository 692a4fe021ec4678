//! Running text: what is a piece of it, and what is none.

use std::path::{Path, PathBuf};

use crate::common::{Folder, train};
use glassformer_cpu::Cpu;
use glassformer_formula::Formula;
use glassformer_tensor::Random;
use glassformer_tokens::Tokenizer;
use glassformer_train::{About, Changes, Config, Ended, Event, Order, Run, Store, Task};
use serde_json::{Value, json};

const FORMULA: &str = r#"
    [target.input.tokens]
    vocabulary = 1
    [target.stack]
    width = 8
    depth.layers = 1
    position.learned = { max = 16 }
    [[target.stack.block]]
    mix.attend = { reach = "past", heads = { query = 1, key = 1 } }
    norm.input.layer = { epsilon = 1e-5 }
    [head.words]
    tied = true
"#;

/// The same as an encoder.
fn encoder() -> String {
    FORMULA.replace("target", "source").replace("past", "both").replace("max = 16", "max = 18")
}

/// Learns to write `train.txt`, or to fill its gaps, and looks at `valid.txt`.
fn config(folder: &Path, [out, objective, tokenizer]: [&str; 3]) -> PathBuf {
    let formula = if objective == "fill" { encoder() } else { FORMULA.to_owned() };
    std::fs::write(folder.join("formula.toml"), formula).expect("the formula");
    let config = format!(
        r#"
        out = "{out}"
        objective = "{objective}"
        model.formula = "formula.toml"
        tokenizer = {tokenizer}
        data = {{ train = [{{ path = "train.txt" }}], valid = [{{ path = "valid.txt" }}], length = 16, hidden = 0.9 }}
        batch = {{ tokens = 64 }}
        schedule = {{ steps = 2, rate = 1e-3 }}
        checkpoint = {{ every = 2, check = 2 }}
        "#
    );
    let path = folder.join(format!("{out}.toml"));
    std::fs::write(&path, config).expect("the configuration");
    path
}

/// Enough to learn from.
fn sentences() -> String {
    "the cat sat on the mat\n".repeat(40)
}

/// Lines without a word.
const BLANK: &str = "\n \n\t\n";

/// Writes what is learned from, and what is looked at.
fn data(folder: &Path, train: &str, valid: &str) {
    for (name, text) in [("train.txt", train), ("valid.txt", valid)] {
        std::fs::write(folder.join(name), text).expect("the data");
    }
}

/// A set whose lines were all blank had one piece of no tokens less one: 16 GB, and then a panic.
#[test]
fn blank_lines_are_nothing_to_learn_from_and_nothing_to_look_at() {
    let folder = Folder::new("blank");
    data(&folder.0, &sentences(), BLANK);
    let first = config(&folder.0, ["out", "generate", r#"{ kind = "bpe", size = 300 }"#]);
    let (ended, events) = train(&first, |_| false);
    assert_eq!(ended, Ended::Done);
    let looked = events.iter().any(|event| matches!(event, Event::Checked { .. }));
    assert!(!looked, "it looked at nothing");

    data(&folder.0, BLANK, BLANK);
    let blank = config(&folder.0, ["blank", "generate", r#"{ folder = "out/tokenizer" }"#]);
    let blank = Config::open(&blank).expect("the configuration is right");
    let refused = Run::open(blank, &Cpu::new(1), Changes::Refuse, &mut |_| {});
    let why = refused.err().expect("nothing can be learned").to_string();
    assert!(why.contains("3 lines have too few tokens"), "{why}");
}

/// It was believed, and four billion rows were asked for.
#[test]
fn a_token_far_behind_the_others_is_refused() {
    let folder = Folder::new("far");
    data(&folder.0, &sentences(), "the cat sat\n");
    let first = config(&folder.0, ["out", "generate", r#"{ kind = "bpe", size = 300 }"#]);
    assert_eq!(train(&first, |_| false).0, Ended::Done);
    let path = folder.0.join("out/tokenizer/tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    tokenizer["model"]["vocab"]["far"] = json!(4_000_000_000_u32);
    std::fs::write(&path, tokenizer.to_string()).unwrap();
    let far = config(&folder.0, ["far", "generate", r#"{ folder = "out/tokenizer" }"#]);
    let far = Config::open(&far).expect("the configuration is right");
    let refused = Run::open(far, &Cpu::new(1), Changes::Refuse, &mut |_| {});
    let why = refused.err().expect("there is no such embedding").to_string();
    assert!(why.contains("has id 4000000000"), "{why}");
}

#[test]
fn a_folder_is_one_training_s_at_a_time() {
    let folder = Folder::new("locked");
    data(&folder.0, &sentences(), "the cat sat\n");
    let path = config(&folder.0, ["out", "generate", r#"{ kind = "bpe", size = 300 }"#]);
    let open = || {
        let config = Config::open(&path).expect("the configuration is right");
        Run::open(config, &Cpu::new(1), Changes::Refuse, &mut |_| {})
    };
    let first = open().expect("nobody else is there");
    let why = open().err().expect("somebody is there").to_string();
    assert!(why.contains("another training is under way"), "{why}");
    drop(first);
    assert!(open().is_ok(), "the first one is gone");
}

/// Moves the ids of the upper half of a vocabulary up, so that there are none between.
fn with_a_gap(tokenizer: &Path) {
    let path = tokenizer.join("tokenizer.json");
    let mut json: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("it was learned")).expect("it is JSON");
    let vocabulary = json["model"]["vocab"].as_object_mut().expect("tokens and their ids");
    let half = vocabulary.len() as u64 / 2;
    for id in vocabulary.values_mut() {
        let number = id.as_u64().expect("an id");
        *id = json!(if number < half { number } else { number + 1000 });
    }
    std::fs::write(&path, json.to_string()).expect("it can be written");
}

/// The table of words had as many rows as there are tokens, and ids beyond them had none; words put in the place of hidden ones were none.
#[test]
fn ids_may_have_gaps() {
    let folder = Folder::new("gaps");
    data(&folder.0, &sentences(), "the cat sat\n");
    for objective in ["generate", "fill"] {
        let learned = format!("learned-{objective}");
        train(&config(&folder.0, [&learned, objective, r#"{ kind = "bpe", size = 300 }"#]), |_| false);
        let tokenizer = folder.0.join(&learned).join("tokenizer");
        with_a_gap(&tokenizer);
        let given = format!("{{ folder = \"{learned}/tokenizer\" }}");
        let path = config(&folder.0, [objective, objective, &given]);
        let (ended, _) = train(&path, |_| false);
        assert_eq!(ended, Ended::Done);
    }

    let tokenizer = Tokenizer::open(folder.0.join("learned-fill/tokenizer")).expect("it opens");
    let read = Config::open(folder.0.join("fill.toml")).expect("the configuration is right");
    let formula = Formula::from_toml(&encoder()).expect("it is right");
    let task = Task::new(&read, tokenizer, Vec::new(), &formula, About::default()).expect("it fits");
    let store = Store::open(&folder.0.join("fill/data"), "train", 1).expect("the data is there");
    let mut random = Random::new(1);
    for _ in 0..50 {
        let batch = task.batch(&store, &[0, 16], &mut random).expect("it can be read");
        let known = |&id: &u32| task.tokenizer().token(id).is_some();
        assert!(batch.source.tokens.iter().all(known), "a word that is none");
    }
}

/// Weights were ignored where text is cut into pieces.
#[test]
fn pieces_of_text_come_as_often_as_their_file_wants() {
    let folder = Folder::new("weights");
    data(&folder.0, &sentences(), &"mice ran from the cat\n".repeat(40));
    let path = config(&folder.0, ["out", "generate", r#"{ kind = "characters" }"#]);
    let two = std::fs::read_to_string(&path).expect("the configuration").replace(
        r#"train = [{ path = "train.txt" }]"#,
        r#"train = [{ path = "train.txt", weight = 0.0 }, { path = "valid.txt", weight = 2.5 }]"#,
    );
    std::fs::write(&path, two).expect("the configuration");
    train(&path, |_| false);

    let tokenizer = Tokenizer::open(folder.0.join("out/tokenizer")).expect("it opens");
    let read = Config::open(&path).expect("the configuration is right");
    let formula = Formula::from_toml(FORMULA).expect("it is right");
    let task = Task::new(&read, tokenizer, Vec::new(), &formula, About::default()).expect("it fits");
    let store = Store::open(&folder.0.join("out/data"), "train", 1).expect("the data is there");
    let order = Order { seed: 1, weights: vec![0.0, 2.5], rows: 64, pool: 1 };
    let starts: Vec<u64> = task.plan(&store, &order, 0).concat();
    assert!(starts.iter().all(|&start| store.origin_of(start) == 1), "the first file has no weight");
    let mut each: Vec<u64> = starts.clone();
    each.sort_unstable();
    each.dedup();
    let times = starts.len() as f64 / each.len() as f64;
    assert!((2.2..2.8).contains(&times), "{times}");
}
