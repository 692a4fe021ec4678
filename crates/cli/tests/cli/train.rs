//! `glassformer train`.

use std::path::Path;

use super::{Ran, command, finish, folder, run};

/// A small encoder that classifies.
const FORMULA: &str = r#"
[source.input.tokens]
vocabulary = 1
[source.stack]
width = 16
depth.layers = 1
position.sinusoidal = { layout = "halves" }
[[source.stack.block]]
mix.attend = { reach = "both", heads = { query = 2, key = 2 } }
norm.output.layer = { epsilon = 1e-5, bias = true }
[pooler]
pool = "first"
[head.classes]
count = 2
"#;

/// A text for each of two classes, with many pieces that come equally often.
fn examples(count: usize) -> Vec<(String, &'static str)> {
    let word =
        |at: usize| format!("{}{}", ["ka", "lu", "mo", "ni", "pe"][at % 5], ["ra", "so", "ti"][at % 3]);
    let kind = |at: usize| if at.is_multiple_of(2) { ("good", "yes") } else { ("bad", "no") };
    let example = |at: usize| {
        let (mood, label) = kind(at);
        (format!("{} {} {mood} {}", word(at), word(at * 7), word(at * 11)), label)
    };
    (0..count).map(example).collect()
}

/// Writes the data and a configuration; gives its path.
fn configuration(here: &Path, lines: &str, more: &str) -> String {
    std::fs::write(here.join("data.tsv"), lines).unwrap();
    std::fs::write(here.join("formula.toml"), FORMULA).unwrap();
    let text = format!(
        r#"
        out = "out"
        objective = "classify"
        model.formula = "formula.toml"
        data = {{ train = [{{ path = "data.tsv" }}], length = 30 }}
        batch = {{ tokens = 64 }}
        schedule = {{ steps = 2, rate = 1e-3 }}
        {more}
        "#
    );
    let path = here.join("train.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// `kind = "unigram"` learned another vocabulary in each process, 4 of 4, as ties were left to hash tables.
#[test]
fn a_vocabulary_is_learned_twice_with_the_same_bytes() {
    let lines: String = examples(120).iter().map(|(text, label)| format!("{text}\t{label}\n")).collect();
    for (kind, size) in [("unigram", 330), ("bpe", 330), ("byte-bpe", 300), ("characters", 300)] {
        // With as many threads as the library likes to take, and with others.
        let [first, second] = ["1", "3"].map(|threads| {
            let here = folder(&format!("train_{kind}_{threads}"));
            let config =
                configuration(&here, &lines, &format!("tokenizer = {{ kind = \"{kind}\", size = {size} }}"));
            let mut command = command(&["train", &config]);
            finish(command.env("RAYON_NUM_THREADS", threads)).ok();
            let read = |file: &str| std::fs::read(here.join("out").join(file)).unwrap();
            (
                read("tokenizer/tokenizer.json"),
                read("tokenizer/tokenizer_config.json"),
                read("model/model.safetensors"),
            )
        });
        assert!(first == second, "{kind}");
    }
}

/// Columns that were swapped trained without a word, one label for each example.
#[test]
fn swapped_columns_are_warned_of_before_the_first_step() {
    let here = folder("train_swapped");
    let lines: String = (0..20)
        .map(|at| (format!("text {at}"), ["yes", "no"][at % 2]))
        .map(|(text, label)| format!("{label}\t{text}\n"))
        .collect();
    let config = configuration(&here, &lines, "tokenizer.kind = \"characters\"");
    let Ran { code, err, .. } = run(&["train", &config, "--verbose"]);
    assert_eq!(code, Some(0), "{err}");
    let warned = err.find("warning:").expect("it warns");
    assert!(err[warned..].contains("20 examples have 20 different labels and 2 different texts"), "{err}");
    assert!(err[warned..].contains("hint: give this file columns = [1, 0]"), "{err}");
    assert!(warned < err.find("step 1:").expect("it trains"), "{err}");
    std::fs::remove_dir_all(here.join("out")).unwrap();
    let right =
        std::fs::read_to_string(&config).unwrap().replace("\"data.tsv\"", "\"data.tsv\", columns = [1, 0]");
    std::fs::write(&config, right).unwrap();
    let Ran { code, err, .. } = run(&["train", &config]);
    assert_eq!(code, Some(0), "{err}");
    assert!(!err.contains("warning:"), "{err}");
}
