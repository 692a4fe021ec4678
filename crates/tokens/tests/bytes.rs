//! The bytes of tokens, one after the other, are the text.

use crate::common::{corpus, fixture, opened};
use glassformer_tokens::{Special, SpecialText, Tokenizer};

/// A fixture's tokenizer: its texts are the bytes of their tokens.
fn spells(tokenizer: &Tokenizer, name: &str, texts: &[String]) {
    let found = tokenizer.token_bytes(tokenizer.vocabulary().size() + 3).unwrap().expect(name);
    let unknown = tokenizer.special().unk;
    let mut whole = 0;
    for text in texts {
        let ids = tokenizer.encode_target(text, Special::Leave).unwrap().ids;
        if ids.iter().any(|id| Some(*id) == unknown || tokenizer.is_special(*id)) {
            continue;
        }
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| found.tokens[id as usize].iter().copied()).collect();
        let rest = bytes.strip_prefix(b" ").filter(|_| found.first_space_goes);
        let spelled = String::from_utf8(rest.map_or(bytes.clone(), <[u8]>::to_vec)).expect("it is UTF-8");
        assert_eq!(spelled, tokenizer.decode(&ids, SpecialText::Skip).unwrap(), "{name}, {text:?}");
        whole += usize::from(spelled.trim_end() == *text && !text.is_empty());
    }
    assert!(whole > 3, "{name}: only {whole} of {} texts came back as they were", texts.len());
    for (id, token) in tokenizer.vocabulary().iter().filter(|(id, _)| tokenizer.is_special(*id)) {
        assert!(found.tokens[id as usize].is_empty(), "{name}: {token} is special, and has bytes");
    }
}

#[test]
fn the_bytes_of_a_texts_tokens_are_the_text() {
    let mut texts: Vec<String> =
        corpus().texts.into_iter().filter(|text| text.trim_matches([' ', '▁', '\n', '\t']) == text).collect();
    texts.extend(["the cat", "a", "The dog and the cat.", "in the house", "on", "the"].map(str::to_owned));
    for name in [
        "wordpiece-uncased",
        "wordpiece-cased",
        "gpt2",
        "roberta",
        "json-split",
        "json-unigram",
        "json-fallback",
        "unigram",
        "unigram-bytes",
        "bpe",
        "llama",
        "t5",
        "marian",
    ] {
        spells(&opened(name), name, &texts);
    }
}

#[test]
fn a_token_is_a_byte_a_part_of_a_character_or_a_word_with_its_space() {
    let bytes = |name: &str, token: &str| {
        let tokenizer = opened(name);
        let id = tokenizer.id(token).unwrap_or_else(|| panic!("{name} has no {token}"));
        tokenizer.token_bytes(tokenizer.vocabulary().size()).unwrap().expect(name).tokens[id as usize].clone()
    };
    assert_eq!(bytes("gpt2", "Ġ"), b" ");
    assert_eq!(bytes("gpt2", "ä"), [0xE4]);
    assert_eq!(bytes("llama", "<0xE4>"), [0xE4]);
    assert_eq!(bytes("llama", "▁the"), b" the");
    assert_eq!(bytes("json-fallback", "<0xE4>"), [0xE4]);
    assert_eq!(bytes("wordpiece-uncased", "the"), b" the");
}

#[test]
fn nothing_is_said_of_texts_that_are_tidied_or_joined_otherwise() {
    let json = std::fs::read_to_string(fixture("json-unigram").join("tokenizer.json")).unwrap();
    let tidied = Tokenizer::from_json(&json, r#"{"clean_up_tokenization_spaces": true}"#).unwrap();
    assert_eq!(tidied.token_bytes(9).unwrap(), None);
    let joined = r#"{"version": "1.0", "model": {"type": "BPE", "vocab": {"a</w>": 0, "b": 1}, "merges": []},
                     "decoder": {"type": "BPEDecoder", "suffix": "</w>"}}"#;
    assert_eq!(Tokenizer::from_json(joined, "{}").unwrap().token_bytes(2).unwrap(), None);
}
