//! Texts of a given form: what the flags of `generate` and `chat` hold a model to.

use std::fs;

use serde_json::Value;

use super::{folder, run};

fn model(name: &str) -> String {
    format!("{}/../../fixtures/tasks/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_pattern_a_grammar_and_a_schema_hold_what_is_written() {
    let here = folder("form");
    let (schema, grammar) = (here.join("schema.json"), here.join("animals.lark"));
    fs::write(&schema, r#"{"type": "array", "items": {"enum": [1, 23]}, "minItems": 2, "maxItems": 2}"#)
        .unwrap();
    fs::write(&grammar, "start: \"cat\" | \"dog\"\n").unwrap();
    for name in ["story", "languages"] {
        let model = model(name);
        let generate = ["generate", "--model", &model, "--beams", "2", "the cat"];
        let with = |flag: &str, value: &str| run(&[&generate[..], &[flag, value]].concat()).ok();
        assert!(["yes\n", "no\n"].contains(&&*with("--regex", "(yes|no)")));
        assert!(["cat\n", "dog\n"].contains(&&*with("--grammar", grammar.to_str().unwrap())));
        let numbers: Vec<u32> = serde_json::from_str(&with("--schema", schema.to_str().unwrap())).unwrap();
        assert!(numbers.len() == 2 && numbers.iter().all(|number| [1, 23].contains(number)), "{numbers:?}");
    }
    let talk = model("talk");
    let answer =
        run(&["chat", "--model", &talk, "--schema", schema.to_str().unwrap(), "--json", "the cat"]).ok();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let text = answer["outputs"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Vec<u32>>(text).unwrap().len(), 2);
}

#[test]
fn forms_that_make_no_sense_are_refused() {
    let story = model("story");
    let here = folder("form_refused");
    let (broken, odd) = (here.join("broken.json"), here.join("odd.json"));
    fs::write(&broken, "{").unwrap();
    fs::write(&odd, r#"{"type": "array", "uniqueItems": true}"#).unwrap();
    let generate = ["generate", "--model", &story, "the cat"];
    let with = |flags: &[&str]| run(&[&generate[..], flags].concat());
    with(&["--schema", broken.to_str().unwrap()]).refused_with("is no JSON", "JSON Schema");
    with(&["--schema", odd.to_str().unwrap()]).refused_with("uniqueItems", "leave that part out");
    with(&["--schema", "nowhere.json"]).refused_with("cannot read nowhere.json", "UTF-8");
    with(&["--regex", "("]).refused_with("regex cannot be kept to", "another way");
    with(&["--regex", "a", "--json-object"]).refused("cannot be used with");
    let ids = run(&["generate", "--model", &story, "--ids", "5 17", "--regex", "a"]);
    ids.refused_with("--ids", "--schema");
}
