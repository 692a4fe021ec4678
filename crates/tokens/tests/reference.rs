//! Ids, spans and decoded texts against the reference implementations, exactly: `fixtures/tokens` says what each number is.

use std::time::Instant;

use crate::common::{corpus, fixture, fnv, opened};
use glassformer_tokens::{Encoding, Part, Span, Special, SpecialText, Tokenizer};
use serde_json::Value;

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().expect("a list").iter().map(|n| n.as_u64().expect("a number") as u32).collect()
}

fn spans(value: &Value) -> Vec<Span> {
    numbers(value).chunks(2).map(|p| Span { start: p[0] as usize, end: p[1] as usize }).collect()
}

/// Compares one answer of the reference's.
fn compare(tokenizer: &Tokenizer, (first, second): (&str, Option<&str>), expected: &Value, what: &str) {
    let encode = |special| match second {
        None => tokenizer.encode(first, special).unwrap(),
        Some(second) => tokenizer.encode_pair(first, second, special).unwrap(),
    };
    let found = encode(Special::Add);
    assert_eq!(found.ids, numbers(&expected["ids"]), "{what}: ids");
    assert_eq!(encode(Special::Leave).ids, numbers(&expected["bare"]), "{what}: ids without special tokens");
    let Encoding { ids, bytes, chars, types, special, words, parts } = &found;
    let lengths = [bytes.len(), chars.len(), types.len(), special.len(), words.len(), parts.len()];
    assert_eq!(lengths, [ids.len(); 6], "{what}: lengths");
    for (key, spans_found) in [("chars", chars), ("bytes", bytes)] {
        if !expected[key].is_null() {
            assert_eq!(*spans_found, spans(&expected[key]), "{what}: spans in {key}");
        }
    }
    if !expected["types"].is_null() {
        assert_eq!(*types, numbers(&expected["types"]), "{what}: types");
        let mask: Vec<u32> = special.iter().map(|&s| s.into()).collect();
        assert_eq!(mask, numbers(&expected["special"]), "{what}: special tokens");
        let number = |value: &Value| value.as_u64().map(|n| n as u32);
        let expected_words: Vec<Option<u32>> =
            expected["words"].as_array().unwrap().iter().map(number).collect();
        assert_eq!(*words, expected_words, "{what}: words");
        let part = |value: &Value| value.as_u64().map(|n| if n == 0 { Part::First } else { Part::Second });
        let expected_parts: Vec<Option<Part>> =
            expected["parts"].as_array().unwrap().iter().map(part).collect();
        assert_eq!(*parts, expected_parts, "{what}: parts");
    }
    for (span, part) in bytes.iter().zip(parts) {
        let text = if *part == Some(Part::Second) { second.unwrap_or("") } else { first };
        assert!(text.get(span.range()).is_some(), "{what}: {span:?} cuts a character");
    }
    for (key, keep) in [("text", SpecialText::Skip), ("kept", SpecialText::Keep)] {
        let text = tokenizer.decode(&found.ids, keep).unwrap();
        if let Some(expected) = expected[key].as_str() {
            assert_eq!(text, expected, "{what}: decoded, {keep:?}");
        }
        let mut stream = tokenizer.stream(keep);
        let mut streamed = String::new();
        for &id in &found.ids {
            streamed.push_str(&stream.push(tokenizer, id).unwrap());
        }
        streamed.push_str(&stream.finish(tokenizer).unwrap());
        assert_eq!(streamed, text, "{what}: streamed, {keep:?}");
    }
}

/// Compares everything that was asked of a reference.
fn agrees(name: &str) {
    let tokenizer = opened(name);
    let corpus = corpus();
    let expected: Value =
        serde_json::from_slice(&std::fs::read(fixture(name).join("expected.json")).unwrap()).unwrap();
    for (text, answer) in corpus.texts.iter().zip(expected["texts"].as_array().unwrap()) {
        compare(&tokenizer, (text, None), answer, &format!("{name}, {text:?}"));
    }
    for ([first, second], answer) in corpus.pairs.iter().zip(expected["pairs"].as_array().unwrap()) {
        compare(&tokenizer, (first, Some(second)), answer, &format!("{name}, {first:?} and {second:?}"));
    }
    for (hex, ids) in corpus.bytes.iter().zip(expected["bytes"].as_array().unwrap()) {
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let (found, _) = tokenizer.encode_bytes(&bytes, Special::Add).unwrap();
        assert_eq!(found.ids, numbers(ids), "{name}, bytes {hex}");
    }
    let texts = [
        ("a", "a".repeat(1_000_000)),
        ("corpus", (corpus.training.join(" ") + "\n").repeat(60)),
        ("spaces", " ".repeat(100_000) + "x"),
    ];
    for (label, text) in texts {
        let begin = Instant::now();
        let ids = tokenizer.encode(&text, Special::Add).unwrap().ids;
        let seconds = begin.elapsed().as_secs_f64();
        println!("{name}, {label}: {} bytes, {} tokens, {seconds:.2} s", text.len(), ids.len());
        let answer = &expected["long"][label];
        assert_eq!(
            (ids.len() as u64, fnv(&ids).as_str()),
            (answer[0].as_u64().unwrap(), answer[1].as_str().unwrap()),
            "{name}, {label}"
        );
    }
}

macro_rules! agreements {
    ($($test:ident: $name:literal,)*) => {
        $(#[test] fn $test() { agrees($name); })*
    };
}

agreements! {
    word_pieces_in_lower_case_agree_with_the_reference: "wordpiece-uncased",
    word_pieces_with_case_agree_with_the_reference: "wordpiece-cased",
    byte_level_pairs_agree_with_gpt2s_class: "gpt2",
    byte_level_pairs_agree_with_robertas_class: "roberta",
    a_tokenizer_json_with_a_pattern_agrees_with_the_reference: "json-split",
    a_tokenizer_json_with_a_table_of_characters_agrees_with_the_reference: "json-unigram",
    a_tokenizer_json_with_bytes_for_the_unknown_agrees_with_the_reference: "json-fallback",
    sentencepiece_unigram_with_symbols_of_the_users_agrees_with_the_reference: "unigram",
    sentencepiece_unigram_with_bytes_and_spaces_at_the_end_agrees_with_the_reference: "unigram-bytes",
    sentencepiece_pairs_with_folded_case_agree_with_the_reference: "bpe",
    llamas_pieces_agree_with_the_reference: "llama",
    t5s_pieces_and_sentinels_agree_with_the_reference: "t5",
    marians_two_models_agree_with_the_reference: "marian",
}
