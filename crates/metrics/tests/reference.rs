//! Scores equal to those of sacreBLEU, seqeval and the SQuAD evaluation. `fixtures/metrics/make.py` made the numbers.

use glassformer_metrics::{Words, bleu, chrf, entities, spans};
use serde_json::Value;

fn fixture(part: &str) -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/metrics/scores.json");
    let text = std::fs::read_to_string(path).expect("the fixture is in the repository");
    let all: Value = serde_json::from_str(&text).expect("it is JSON");
    all[part].as_array().expect("a list").clone()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

fn lists(value: &Value) -> Vec<Vec<String>> {
    value.as_array().expect("a list").iter().map(texts).collect()
}

fn close(what: &str, found: f64, expected: &Value) {
    let expected = expected.as_f64().expect("a number");
    assert!((found - expected).abs() < 1e-9, "{what}: {found}, and the reference has {expected}");
}

#[test]
fn bleu_and_chrf_are_those_of_sacrebleu() {
    let cases = fixture("bleu");
    assert!(cases.len() > 30);
    for case in cases {
        let words = match case["words"].as_str().expect("a name") {
            "13a" => Words::Western,
            "zh" => Words::Chinese,
            _ => Words::Spaced,
        };
        let (written, references) = (texts(&case["texts"]), lists(&case["references"]));
        let found = bleu(&written, &references, words);
        close(&format!("BLEU {written:?}"), found.score, &case["score"]);
        close("brevity", found.brevity, &case["brevity"]);
        for (found, expected) in found.precisions.iter().zip(case["precisions"].as_array().expect("four")) {
            close("precision", *found, expected);
        }
        close(&format!("chrF {written:?}"), chrf(&written, &references), &case["chrf"]);
    }
}

#[test]
fn entities_are_those_of_seqeval() {
    for case in fixture("entities") {
        let (all, each) = entities(&lists(&case["found"]), &lists(&case["right"]));
        close("F1", all.f1(), &case["f1"]);
        close("precision", all.precision(), &case["precision"]);
        close("recall", all.recall(), &case["recall"]);
        assert_eq!(each.values().map(|scores| scores.right).sum::<usize>(), all.right);
    }
}

#[test]
fn spans_are_those_of_squad() {
    for case in fixture("spans") {
        let found = spans(&texts(&case["answers"]), &lists(&case["right"]));
        close("exact match", found.exact, &case["exact"]);
        close("F1", found.f1, &case["f1"]);
    }
}
