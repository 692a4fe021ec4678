//! Every task against what the reference's pipelines give (`fixtures/tasks`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_tasks::{Answer, Classify, Error, Fill, Input, Long, Merge, Tag, TextEncoder, Unanswerable};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tasks").join(name)
}

fn open(name: &str) -> (TextEncoder, Vec<Value>) {
    let folder = folder(name);
    let encoder = TextEncoder::open(&folder, Arc::new(Cpu::new(2))).unwrap();
    let expected = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    (encoder, serde_json::from_str::<Vec<Value>>(&expected).unwrap())
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

#[track_caller]
fn close(found: f32, expected: &Value) {
    let expected = expected.as_f64().unwrap() as f32;
    assert!((found - expected).abs() < 1e-4, "{found} where {expected} was expected");
}

#[test]
fn blanks_are_filled_as_the_reference_fills_them() {
    let (encoder, expected) = open("fill");
    let texts: Vec<&str> = expected.iter().map(|one| text(one, "text")).collect();
    let filled = encoder.fill(&texts, &Fill { top: 3, ..Fill::default() }).unwrap();
    for (found, expected) in filled.iter().zip(&expected) {
        assert_eq!(found.len(), list(expected, "blanks").len());
        for (blank, expected) in found.iter().zip(list(expected, "blanks")) {
            for (choice, expected) in blank.choices.iter().zip(expected.as_array().unwrap()) {
                assert_eq!(u64::from(choice.id), expected["token"].as_u64().unwrap());
                assert_eq!(choice.word, text(expected, "token_str"));
                assert_eq!(choice.text, text(expected, "sequence"));
                close(choice.score, &expected["score"]);
            }
        }
    }
}

#[test]
fn classes_measures_and_ranks_are_the_references() {
    for name in ["classes", "classes-several", "classes-measure", "classes-rank"] {
        let (encoder, expected) = open(name);
        let input = |one: &'static Value| match one.get("text_pair") {
            Some(pair) => Input::Pair(text(one, "text"), pair.as_str().unwrap()),
            None => Input::One(text(one, "text")),
        };
        let expected: &'static [Value] = Vec::leak(expected);
        let inputs: Vec<Input<'_>> = expected.iter().map(input).collect();
        let options = Classify { top: 9, long: Long::Cut };
        let results = encoder.classify(&inputs, &options).unwrap();
        for (found, expected) in results.iter().zip(expected) {
            assert_eq!(found.len(), list(expected, "labels").len(), "{name}");
            for (label, expected) in found.iter().zip(list(expected, "labels")) {
                assert_eq!(label.label, text(expected, "label"), "{name}");
                close(label.score, &expected["score"]);
            }
        }
        // A text alone gets the bits that it got among others, and the first labels are the best.
        let alone = encoder.classify(&inputs[2..3], &Classify { top: 1, ..options }).unwrap();
        assert_eq!(alone[0][0], results[2][0]);
    }
}

#[test]
fn entities_are_merged_as_the_reference_merges_them() {
    let (encoder, expected) = open("tags");
    let texts: Vec<&str> = expected.iter().map(|one| text(one, "text")).collect();
    let merges = [
        ("none", Merge::None),
        ("simple", Merge::Simple),
        ("first", Merge::First),
        ("average", Merge::Average),
        ("max", Merge::Max),
    ];
    for (name, merge) in merges {
        let results = encoder.tag(&texts, &Tag { merge, ..Tag::default() }).unwrap();
        for (found, expected) in results.iter().zip(&expected) {
            let place = |key: &str, value: &Value| value[key].as_u64().unwrap() as usize;
            let wanted: Vec<(&str, usize, usize)> = list(expected, name)
                .iter()
                .map(|entity| (text(entity, "label"), place("start", entity), place("end", entity)))
                .collect();
            let places: Vec<(&str, usize, usize)> = found
                .iter()
                .map(|entity| (entity.label.as_str(), entity.chars.start, entity.chars.end))
                .collect();
            assert_eq!(places, wanted, "{name}: {}", text(expected, "text"));
            for (entity, wanted) in found.iter().zip(list(expected, name)) {
                close(entity.score, &wanted["score"]);
                let chars: String = text(expected, "text")
                    .chars()
                    .skip(entity.chars.start)
                    .take(entity.chars.end - entity.chars.start)
                    .collect();
                assert_eq!(entity.text, chars);
            }
        }
    }
}

#[test]
fn answers_are_found_across_windows() {
    let (encoder, expected) = open("spans");
    for expected in &expected {
        let possible = expected["impossible"].as_bool().unwrap();
        let options = Answer {
            top: 4,
            longest: 7,
            window: 48,
            overlap: 12,
            unanswerable: if possible { Unanswerable::Possible } else { Unanswerable::Never },
        };
        let pair = (text(expected, "question"), text(expected, "context"));
        let found = &encoder.answer(&[pair], &options).unwrap()[0];
        assert_eq!(found.len(), list(expected, "answers").len());
        for (found, expected) in found.iter().zip(list(expected, "answers")) {
            assert_eq!(found.text, text(expected, "answer"));
            assert_eq!(found.chars.start as u64, expected["start"].as_u64().unwrap());
            assert_eq!(found.chars.end as u64, expected["end"].as_u64().unwrap());
            close(found.score, &expected["score"]);
        }
    }
}

#[test]
fn what_cannot_be_done_is_an_error_that_says_why() {
    let (encoder, _) = open("fill");
    let refused = |texts: &[&str]| encoder.fill(texts, &Fill::default()).unwrap_err();
    assert!(matches!(refused(&["[MASK]", "no blank"]), Error::Text { text: 1, .. }));
    let long = "cat ".repeat(80) + "[MASK]";
    assert!(matches!(refused(&[&long]), Error::Long { text: 0, tokens: 83, limit: 64 }));
    assert!(matches!(encoder.tag(&["a"], &Tag::default()), Err(Error::Head { task: "tag", .. })));
    // Cutting the text cuts the blank off.
    let cut = encoder.fill(&[&long], &Fill { long: Long::Cut, ..Fill::default() });
    assert!(matches!(cut, Err(Error::Text { text: 0, .. })));

    let (encoder, _) = open("spans");
    let answer = |pair, options: &Answer| encoder.answer(&[pair], options).unwrap_err();
    assert!(matches!(answer(("who", ""), &Answer::default()), Error::Text { text: 0, .. }));
    let question = "who ".repeat(60);
    let context = "the cat sat ".repeat(30);
    assert!(matches!(answer((&question, &context), &Answer::default()), Error::Text { text: 0, .. }));
    assert!(matches!(
        answer(("who", "cat"), &Answer { top: 0, ..Answer::default() }),
        Error::Option { option: "top", .. }
    ));
}
