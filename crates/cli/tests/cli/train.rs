//! `glassformer train`.

use std::fmt::Write;
use std::path::Path;

use glassformer::train::Config;
use serde_json::Value;

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
        (format!("{} {} {mood} {}", word(at), word(at / 15), word(at * 11)), label)
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

/// What could not be written stayed as a hidden folder.
#[cfg(unix)]
#[test]
fn a_checkpoint_that_cannot_be_written_leaves_nothing() {
    let here = folder("train_broken_off");
    let lines: String = examples(40).iter().map(|(text, label)| format!("{text}\t{label}\n")).collect();
    let config = configuration(&here, &lines, "tokenizer.kind = \"characters\"");
    std::fs::write(here.join("formula.toml"), FORMULA.replace("width = 16", "width = 128")).unwrap();
    let shown = here.join("out/checkpoints/step-00000002/model.safetensors");
    super::with_small_files(&["train", &config, "--quiet"])
        .refused_with(&format!("cannot write {}", shown.display()), "ulimit -f");
    assert_eq!(std::fs::read_dir(here.join("out/checkpoints")).unwrap().count(), 0);
    // With room it goes on.
    run(&["train", &config]).ok();
}

/// Data for each objective, in a file with the ending that it takes.
fn data(objective: &str) -> (&'static str, String) {
    let mut text = String::new();
    for (at, (example, label)) in examples(160).into_iter().enumerate() {
        let words: Vec<&str> = example.split(' ').collect();
        let _ = match objective {
            "classify" => writeln!(text, "{example}\t{label}"),
            "tag" => words
                .iter()
                .try_for_each(|word| {
                    writeln!(text, "{word} {}", if ["good", "bad"].contains(word) { "B-MOOD" } else { "O" })
                })
                .and_then(|()| writeln!(text)),
            "answer" => writeln!(text, "what {at}?\t{example}\t{}", words[2]),
            "generate" | "fill" => writeln!(text, "{example}."),
            _ => writeln!(text, "{example}\t{}", words.iter().rev().copied().collect::<Vec<_>>().join(" ")),
        };
    }
    let ending = match objective {
        "tag" => "conll",
        "generate" | "fill" => "txt",
        _ => "tsv",
    };
    (ending, text)
}

/// A configuration and a formula had to be written by hand.
#[test]
fn a_configuration_is_proposed_for_each_objective_and_trains_as_it_stands() {
    for objective in ["translate", "generate", "fill", "classify", "tag", "answer", "embed"] {
        let here = folder(&format!("train_init_{objective}"));
        let (ending, text) = data(objective);
        let file = here.join(format!("some.{ending}"));
        std::fs::write(&file, text).unwrap();
        let config = here.join("mine.toml");
        let config = config.to_str().unwrap();
        let told =
            run(&["train", "--init", objective, file.to_str().unwrap(), "--out", config, "--json"]).ok();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["schema"], 1);
        assert!(told["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{told}");
        let written = std::fs::read_to_string(config).unwrap();
        assert!(written.contains("# Measured here with 2 threads: "), "{written}");
        let read = Config::open(config).unwrap();
        assert_eq!(told["steps"], read.schedule.steps);
        let shape = read.model.shape.as_ref().unwrap();
        assert_eq!(told["shape"]["name"], shape.name);
        let told_parameters = told["parameters"].as_u64().unwrap() as f64;
        let Ran { code, err, .. } = run(&["train", config, "--until", "3"]);
        assert_eq!(code, Some(0), "{objective}: {err}");
        let parameters: f64 =
            err.split(" parameters").next().unwrap().rsplit('\n').next().unwrap().parse().unwrap();
        assert!(
            (parameters / told_parameters - 1.0).abs() < 0.2,
            "{objective}: {parameters} and {told_parameters}"
        );
        run(&["train", "--init", objective, file.to_str().unwrap(), "--out", config])
            .refused_with("there is a file", "--force");
    }
}

#[test]
fn what_was_proposed_learns() {
    let here = folder("train_init_learns");
    // With a heading, and the label first: both are found out.
    let lines: String = examples(300).iter().map(|(text, label)| format!("{label}\t{text}\n")).collect();
    let file = here.join("moods.tsv");
    std::fs::write(&file, format!("mood\ttext\n{lines}")).unwrap();
    let config = here.join("moods.toml");
    let config = config.to_str().unwrap();
    let told = run(&["train", "--init", "classify", file.to_str().unwrap(), "--out", config]).ok();
    assert!(told.contains("text and label are read the other way round"), "{told}");
    assert!(told.contains("the first line names the columns (\"mood\"): skip = 1"), "{told}");
    assert!(told.contains("labels      2: no 150, yes 150"), "{told}");
    let read = std::fs::read_to_string(config).unwrap();
    assert!(read.contains("columns = [1, 0], skip = 1 }"), "{read}");
    run(&["train", config]).ok();
    let model = here.join("runs/moods/model");
    for (text, label) in [("kara good moti", "yes"), ("luso bad pera", "no")] {
        let said = run(&["classify", "--model", model.to_str().unwrap(), text]).ok();
        assert!(said.contains(label), "{text}: {said}");
    }
}

#[test]
fn wrong_data_are_refused_with_their_lines() {
    let here = folder("train_init_wrong");
    let refused = |name: &str, objective: &str, text: &str, why: &str, hint: &str| {
        let file = here.join(name);
        std::fs::write(&file, text).unwrap();
        let config = here.join("wrong.toml");
        run(&["train", "--init", objective, file.to_str().unwrap(), "--out", config.to_str().unwrap()])
            .refused_with(why, hint);
        assert!(!config.exists());
    };
    refused("few.tsv", "classify", "a\tx\nb\n", "few.tsv, line 2: there is no column 1 for label", "tabs");
    refused("empty.tsv", "classify", "a\tx\nb\t \n", "empty.tsv, line 2: label is empty", "remove the line");
    refused("none.tsv", "classify", "", "none.tsv: it has no examples", "something in it");
    refused("one.tsv", "classify", "a\tx\nb\tx\n", "all 2 examples have the label \"x\"", "two at least");
    refused("data.jsonl", "translate", "{\"source\": \"a\"}\n", "line 1: it has no \"target\"", "columns");
    refused("broken.jsonl", "tag", "{\n", "line 1: it is not JSON", "one object");
    refused(
        "lost.tsv",
        "answer",
        "q\tcontext\tz\nq\tcontext\ty\n",
        "line 1: the answer is not in the context",
        "copied",
    );
    refused("words.conll", "tag", "word\n", "line 1: it has a word and no tag", "its tag");
    refused("table.csv", "classify", "a,b\n", "its ending does not say what it is", "format");
    let unique: String = (0..20).map(|at| format!("text {at}\tlabel {at}\n")).collect();
    refused(
        "unique.tsv",
        "classify",
        &unique,
        "20 examples have 20 different labels",
        "columns = [TEXT, LABEL]",
    );
    run(&["train", "--init", "sing", "few.tsv"]).refused_with("--init does not know \"sing\"", "classify");
    run(&["train", "--init", "classify", "/nowhere.tsv"]).refused("/nowhere.tsv");
    run(&["train", "--out", "x.toml", "config.toml"]).refused("--init");
    run(&["train", "a.toml", "b.toml"]).refused_with("2 files are given", "--init");
}
