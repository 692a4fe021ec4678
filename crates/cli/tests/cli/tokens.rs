//! `tokenize` and `detokenize`, and texts where ids could stand.

use serde_json::{Value, json};

use glassformer::Weights;

use super::{folder, run, run_with_input};

/// A tiny model with a tokenizer.
fn model(name: &str) -> String {
    format!("{}/../../fixtures/tasks/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn outputs(text: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(text).unwrap();
    assert_eq!(document["schema"], 1);
    document["outputs"].as_array().unwrap().clone()
}

#[test]
fn tokens_are_shown_with_ids_and_places() {
    let spans = model("spans");
    let shown = run(&["tokenize", "--model", &spans, "Ann lives.[MASK]"]).ok();
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    let expected = [
        &["Ann", "lives.[MASK]"][..],
        &["2", "added", "[CLS]"],
        &["31", "0–3", "ann"],
        &["37", "4–8", "live"],
        &["38", "8–9", "##s"],
        &["25", "9–10", "."],
        &["4", "10–16", "[MASK]"],
        &["3", "added", "[SEP]"],
    ];
    assert_eq!(lines, expected);
    let bare = outputs(&run(&["tokenize", "--model", &spans, "--bare", "--json", "Ann"]).ok());
    assert_eq!(
        bare,
        [json!({ "ids": [31], "types": [0], "tokens": [{
            "id": 31, "token": "ann", "text": "ann", "start": 0, "end": 3, "part": 0, "special": false, "added": false,
        }] })]
    );
}

#[test]
fn pairs_say_which_text_a_token_is_of() {
    let args = ["tokenize", "--model", &model("spans"), "--pairs", "--json"];
    let pair = &outputs(&run_with_input(&args, "Who?\tAnn 中国.\n".as_bytes()).ok())[0];
    assert_eq!(pair["types"], json!([0, 0, 0, 0, 1, 1, 1, 1, 1]));
    let parts: Vec<&Value> = pair["tokens"].as_array().unwrap().iter().map(|token| &token["part"]).collect();
    assert_eq!(json!(parts), json!([null, 0, 0, null, 1, 1, 1, 1, null]));
    run_with_input(&args, b"no tab\n").refused_with("there is no tab", "--pairs");
}

/// A vocabulary of bytes spells 中 as `ä¸Ń`, and a space as `Ġ`.
#[test]
fn bytes_are_shown_as_text() {
    let shown = run(&["tokenize", "--model", &model("story"), "The 猫"]).ok();
    let pieces: Vec<&str> = shown.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(pieces, ["The", "␣", "<E7><8C>", "<AB>"]);
}

#[test]
fn ids_become_the_text_that_they_came_from() {
    let text = "The cat sat.\n\nHello\n";
    let ids = run_with_input(&["tokenize", "--model", "en-zh", "--ids"], text.as_bytes()).ok();
    assert_eq!(run_with_input(&["detokenize", "--model", "en-zh"], ids.as_bytes()).ok(), text);
    let spans = model("spans");
    let detokenize = |more: &[&str]| run(&[&["detokenize", "--model", &spans], more].concat());
    assert_eq!(detokenize(&["2", "31", "37", "38", "3"]).ok(), "ann lives\n");
    assert_eq!(detokenize(&["--special", "2 31 37 38 3"]).ok(), "[CLS] ann lives [SEP]\n");
    let json = outputs(&detokenize(&["--json", "31,37"]).ok());
    assert_eq!(json, [json!({ "text": "ann live", "ids": [31, 37], "tokens": ["ann", "live"] })]);
    detokenize(&["31", "999"]).refused_with("id 999", "below 79");
    detokenize(&["31", "x"]).refused_with("\"x\" is not a whole number", "5 17 9");
    run(&["tokenize", "text"]).refused_with("there is no model", "folder");
    run(&["tokenize", "--model", "nowhere", "text"]).refused_with("no folder or file nowhere", "folder");
}

/// `forward` once took ids alone.
#[test]
fn a_text_runs_as_its_ids_do() {
    let here = folder("tokens_forward");
    let file = |name: &str| here.join(name).to_str().unwrap().to_owned();
    let (spans, languages) = (model("spans"), model("languages"));
    let out = [file("text.safetensors"), file("ids.safetensors"), file("pair.safetensors")];
    let pair = outputs(&run(&["tokenize", "--model", &spans, "--pairs", "--json", "Who?\tAnn lives."]).ok());
    let numbers = |key: &str| {
        let numbers = pair[0][key].as_array().unwrap();
        numbers.iter().map(Value::to_string).collect::<Vec<_>>().join(" ")
    };
    let texts = ["--text", "Who?", "--second", "Ann lives.", "--trace", "--out", &out[0]];
    run(&[&["forward", &spans], &texts[..]].concat()).ok();
    let ids = ["--ids", &numbers("ids"), "--types", &numbers("types"), "--trace", "--out", &out[1]];
    run(&[&["forward", &spans], &ids[..]].concat()).ok();
    let [text, ids] = [0, 1].map(|i| Weights::open(&out[i]).unwrap());
    assert!(text.names().eq(ids.names()) && text.names().count() > 6);
    for name in text.names() {
        assert_eq!(text.get(name).unwrap().values(), ids.get(name).unwrap().values(), "{name}");
    }
    assert_eq!(text.metadata(), ids.metadata());
    // Of an encoder-decoder: the text of the target behind the start token, or that token alone.
    let target =
        outputs(&run(&["tokenize", "--model", &languages, "--target", "--bare", "--json", "The dog"]).ok());
    let told = target[0]["ids"].as_array().unwrap().len();
    let texts = ["--text", "The cat", "--text", "A mat", "--target-text", "The dog", "--out", &out[2]];
    run(&[&["forward", &languages], &texts[..]].concat()).ok();
    let rows = |name: &str| Weights::open(&out[2]).unwrap().shape(name).unwrap()[0];
    assert_eq!((rows("0.hidden"), rows("1.hidden")), (told + 1, 1));
    assert!(run(&["verify", &languages, "--against", &out[2]]).ok().starts_with("equal: "));
    let refuse =
        |more: &[&str]| run(&[&["forward", &spans, "--out", &out[2], "--text", "Who?"], more].concat());
    refuse(&["--target-text", "x"]).refused_with("one stack", "leave --target-text out");
    refuse(&["--second", "x", "--second", "y"]).refused_with("2 times for 1 sequences", "i-th --text");
    refuse(&["--ids", "5"]).refused("cannot be used with");
}
