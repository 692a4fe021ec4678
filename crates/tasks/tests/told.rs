//! What sentence-transformers' files say beside a model, against sentence-transformers itself: functions over scores, how much of
//! a vector is kept, prompts that are not pooled, inputs that a tokenizer leaves out (`fixtures/tasks/told.py`). All of it was read
//! by nobody once: a cross-encoder with Identity gave a sigmoid, and `truncate_dim` of 8 gave 24 numbers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_tasks::{Classify, Embed, Error, Input, Long, Prompt, TextEncoder};
use serde_json::{Map, Value, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tasks").join(name)
}

/// A copy of a folder whose files are changed; it goes when this does.
struct Changed(PathBuf);

impl Drop for Changed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The folder `name` with `files` changed: keys are put over those that are there, and anything else replaces a file.
fn changed(name: &str, (test, case): (&str, usize), files: &Value) -> Changed {
    let place = format!("glassformer-{}-told-{test}-{case}", std::process::id());
    let folder = std::env::temp_dir().join(place);
    copy(&fixture(name), &folder);
    for (file, keys) in files.as_object().unwrap() {
        let path = folder.join(file);
        let mut value = keys.clone();
        if let Value::Object(keys) = keys {
            let old = fs::read_to_string(&path).map(|text| serde_json::from_str(&text).unwrap());
            let mut all: Map<String, Value> = old.unwrap_or_default();
            all.extend(keys.clone());
            value = Value::Object(all);
        }
        fs::write(path, value.to_string()).unwrap();
    }
    Changed(folder)
}

fn cases() -> Vec<Value> {
    serde_json::from_str(&fs::read_to_string(fixture("told.json")).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

#[track_caller]
fn close(found: &[f32], expected: &[f32], case: &Value) {
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
    let equal = found.len() == expected.len() && found.iter().zip(expected).all(near);
    assert!(equal, "{found:?} instead of {expected:?}: {}", case["files"]);
}

#[test]
fn scores_are_what_the_files_make_of_them() {
    let mut seen = 0;
    for (at, case) in cases().iter().enumerate().filter(|(_, case)| case.get("pairs").is_some()) {
        let folder = changed(case["folder"].as_str().unwrap(), ("scores", at), &case["files"]);
        let encoder = TextEncoder::open(&folder.0, Arc::new(Cpu::new(1))).unwrap();
        let text = |pair: &'static Value, at: usize| pair[at].as_str().unwrap();
        let pairs: &'static Vec<Value> = Box::leak(Box::new(case["pairs"].as_array().unwrap().clone()));
        let inputs: Vec<Input<'_>> =
            pairs.iter().map(|pair| Input::Pair(text(pair, 0), text(pair, 1))).collect();
        let found = encoder.classify(&inputs, &Classify { top: 9, long: Long::Refuse }).unwrap();
        for (found, expected) in found.iter().zip(case["scores"].as_array().unwrap()) {
            let mut expected = numbers(expected);
            // The files that the reference reads for several classes leave scores as they are; ours come best first.
            expected.sort_by(|a, b| b.total_cmp(a));
            close(&found.iter().map(|label| label.score).collect::<Vec<_>>(), &expected, case);
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} scores were compared");
}

#[test]
fn vectors_are_cut_and_prompts_left_out_as_the_files_say() {
    let mut seen = 0;
    for (at, case) in cases().iter().enumerate().filter(|(_, case)| case.get("texts").is_some()) {
        let folder = changed(case["folder"].as_str().unwrap(), ("vectors", at), &case["files"]);
        let encoder = TextEncoder::open(&folder.0, Arc::new(Cpu::new(1))).unwrap();
        let texts: Vec<&str> =
            case["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
        let found = encoder.embed(&texts, &Embed::default()).unwrap();
        for (found, expected) in found.iter().zip(case["vectors"].as_array().unwrap()) {
            close(found, &numbers(expected), case);
            seen += 1;
        }
        // A text alone gets the bits that it got among others.
        assert_eq!(encoder.embed(&texts[1..2], &Embed::default()).unwrap()[0], found[1]);
    }
    assert!(seen > 50, "only {seen} vectors were compared");
}

#[test]
fn functions_that_are_not_known_are_refused_by_name() {
    let classify = |name: Value| {
        let files = json!({"config.json": {"sentence_transformers": {"activation_fn": name}}});
        let folder = changed("classes-rank", ("refused", 0), &files);
        let encoder = TextEncoder::open(&folder.0, Arc::new(Cpu::new(1))).unwrap();
        encoder.classify(&["a cat"], &Classify::default()).map(drop)
    };
    for name in ["torch.nn.modules.activation.Mish", "their.own.Sigmoid", "Sigmoid", "torch"] {
        let Err(Error::Option { what, .. }) = classify(json!(name)) else { panic!("{name}") };
        assert!(what.contains(name), "{what}");
    }
    assert!(classify(json!(5)).is_err() && classify(Value::Null).is_ok());
}

#[test]
fn keys_beside_the_model_that_mean_nothing_here_are_refused_by_name() {
    let open = |keys: Value| {
        let folder = changed("sentences", ("keys", 0), &json!({"config_sentence_transformers.json": keys}));
        // Only who embeds reads these files.
        let encoder = TextEncoder::open(&folder.0, Arc::new(Cpu::new(1))).unwrap();
        encoder.embed(&["a dog"], &Embed::default()).map(drop).map_err(|error| error.to_string())
    };
    for (keys, named) in [
        (json!({"truncate_dim": 0}), "truncate_dim is 0"),
        (json!({"truncate_dim": "8"}), "truncate_dim is \"8\""),
        (json!({"truncate_dims": 8}), "truncate_dims not understood"),
    ] {
        let error = open(keys).unwrap_err();
        assert!(error.contains(named) && error.contains("config_sentence_transformers.json"), "{error}");
    }
}

#[test]
fn a_prompt_that_leaves_no_room_is_an_error() {
    let files = json!({
        "config_sentence_transformers.json": {"prompts": {"long": "the cat ".repeat(40)}},
        "1_Pooling/config.json": {"include_prompt": false},
    });
    let folder = changed("sentences", ("room", 0), &files);
    let encoder = TextEncoder::open(&folder.0, Arc::new(Cpu::new(1))).unwrap();
    let options = Embed { prompt: Prompt::Named("long".to_owned()), long: Long::Cut };
    assert!(matches!(encoder.embed(&["a dog"], &options), Err(Error::Text { text: 0, .. })));
}
