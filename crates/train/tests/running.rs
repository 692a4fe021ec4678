//! Running text: what is a piece of it, and what is none.

mod common;

use std::path::{Path, PathBuf};

use common::{Folder, train};
use glassformer_cpu::Cpu;
use glassformer_train::{Changes, Config, Ended, Event, Run};

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

/// Learns to write `train.txt`, and looks at `valid.txt`.
fn writer(folder: &Path, out: &str, tokenizer: &str) -> PathBuf {
    std::fs::write(folder.join("formula.toml"), FORMULA).expect("the formula");
    let config = format!(
        r#"
        out = "{out}"
        objective = "generate"
        model.formula = "formula.toml"
        tokenizer = {tokenizer}
        data = {{ train = [{{ path = "train.txt" }}], valid = [{{ path = "valid.txt" }}], length = 16 }}
        batch = {{ tokens = 64 }}
        schedule = {{ steps = 2, rate = 1e-3 }}
        checkpoint = {{ every = 2, check = 2 }}
        "#
    );
    let path = folder.join(format!("{out}.toml"));
    std::fs::write(&path, config).expect("the configuration");
    path
}

/// A set whose lines were all blank had one piece of no tokens less one: 16 GB, and then a panic.
#[test]
fn blank_lines_are_nothing_to_learn_from_and_nothing_to_look_at() {
    let folder = Folder::new("blank");
    let write = |name: &str, text: &str| std::fs::write(folder.0.join(name), text).expect("the data");
    write("train.txt", &"the cat sat on the mat\n".repeat(20));
    write("valid.txt", "\n \n\t\n");
    let config = writer(&folder.0, "out", r#"{ kind = "bpe", size = 300 }"#);
    let (ended, events) = train(&config, |_| false);
    assert_eq!(ended, Ended::Done);
    let looked = events.iter().any(|event| matches!(event, Event::Checked { .. }));
    assert!(!looked, "it looked at nothing");

    write("train.txt", "\n\n \n");
    let config = writer(&folder.0, "blank", r#"{ folder = "out/tokenizer" }"#);
    let config = Config::open(&config).expect("the configuration is right");
    let refused = Run::open(config, &Cpu::new(1), Changes::Refuse, &mut |_| {});
    let why = refused.err().expect("nothing can be learned").to_string();
    assert!(why.contains("3 lines have too few tokens"), "{why}");
}
