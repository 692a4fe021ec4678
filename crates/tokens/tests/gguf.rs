//! Vocabularies as GGUF files hold them: the fixtures', llama.cpp's own where they are here, and those of real models.

use std::fs;
use std::path::Path;

use crate::common::{asset, corpus, fixture, opened};
use glassformer_tokens::{ChatTemplate, Conversation, GgufVocabulary, Special, SpecialText, Tokenizer};
use glassformer_weights::Weights;
use serde_json::Value;

fn expected_ids(name: &str, index: usize, key: &str) -> Vec<u32> {
    let answers: Value =
        serde_json::from_slice(&fs::read(fixture(name).join("expected.json")).unwrap()).unwrap();
    let ids = answers["texts"][index][key].as_array().unwrap();
    ids.iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// What `make.py` has written of a SentencePiece model.
fn of_fixture(model: &str) -> GgufVocabulary {
    let all: Value = serde_json::from_slice(&fs::read(fixture("gguf.json")).unwrap()).unwrap();
    let list = |key: &str| all[model][key].as_array().unwrap().clone();
    GgufVocabulary {
        model: model.to_owned(),
        tokens: list("tokens").iter().map(|token| token.as_str().unwrap().to_owned()).collect(),
        scores: list("scores").iter().map(|score| score.as_f64().unwrap() as f32).collect(),
        token_types: list("token_types").iter().map(|kind| kind.as_u64().unwrap() as u32).collect(),
        unknown: Some(0),
        bos: Some(1),
        eos: Some(2),
        ..GgufVocabulary::default()
    }
}

#[test]
fn llamas_pieces_in_a_gguf_file_are_cut_as_sentencepiece_cuts_them() {
    let tokenizer = Tokenizer::from_gguf(&of_fixture("llama")).unwrap();
    for (index, text) in corpus().texts.iter().enumerate().filter(|(_, text)| !text.contains("<|user|>")) {
        let ids = tokenizer.encode(text, Special::Add).unwrap().ids;
        assert_eq!(ids, expected_ids("llama", index, "ids"), "{text:?}");
    }
    assert_eq!(tokenizer.special().bos, Some(1));
    let ids = tokenizer.encode("a<|user|>b", Special::Leave).unwrap().ids;
    assert!(ids.contains(&tokenizer.id("<|user|>").unwrap()));
}

#[test]
fn t5s_pieces_in_a_gguf_file_are_cut_as_sentencepiece_cuts_them() {
    let tokenizer = Tokenizer::from_gguf(&of_fixture("t5")).unwrap();
    let symbols = ["<sep>", "Zürich", "the end", "<s>", "<ctl>"];
    for (index, text) in corpus().texts.iter().enumerate() {
        if symbols.iter().any(|symbol| text.contains(symbol)) {
            continue;
        }
        let mut expected = expected_ids("unigram", index, "ids");
        expected.push(2);
        assert_eq!(tokenizer.encode(text, Special::Add).unwrap().ids, expected, "{text:?}");
    }
}

#[test]
fn byte_level_pairs_in_a_gguf_file_are_gpt2s() {
    let own = opened("gpt2");
    let merges = fs::read_to_string(fixture("gpt2").join("merges.txt")).unwrap();
    let end = own.id("<|endoftext|>").unwrap();
    let mut token_types = vec![1; own.vocabulary().len()];
    token_types[end as usize] = 3;
    let vocabulary = GgufVocabulary {
        model: "gpt2".to_owned(),
        pre: Some("gpt-2".to_owned()),
        tokens: own.vocabulary().iter().map(|(_, token)| token.to_owned()).collect(),
        merges: merges.lines().skip(1).map(str::to_owned).collect(),
        token_types,
        eos: Some(end),
        bos: Some(end),
        ..GgufVocabulary::default()
    };
    let tokenizer = Tokenizer::from_gguf(&vocabulary).unwrap();
    for text in corpus().texts {
        let ids = tokenizer.encode(&text, Special::Add).unwrap().ids;
        assert_eq!(ids, own.encode(&text, Special::Add).unwrap().ids, "{text:?}");
        assert_eq!(
            tokenizer.decode(&ids, SpecialText::Keep).unwrap(),
            own.decode(&ids, SpecialText::Keep).unwrap()
        );
    }
    let begin = Tokenizer::from_gguf(&GgufVocabulary { add_bos: Some(true), ..vocabulary }).unwrap();
    assert_eq!(begin.encode("", Special::Add).unwrap().ids, [end]);
}

#[test]
fn word_pieces_in_a_gguf_file_are_berts() {
    let own = opened("wordpiece-uncased");
    let spelled = |token: &str| match token.strip_prefix("##") {
        Some(rest) => rest.to_owned(),
        None if token.starts_with('[') && token.ends_with(']') => token.to_owned(),
        None => format!("▁{token}"),
    };
    let tokenizer = Tokenizer::from_gguf(&GgufVocabulary {
        model: "bert".to_owned(),
        tokens: own.vocabulary().iter().map(|(_, token)| spelled(token)).collect(),
        token_types: own.vocabulary().iter().map(|(id, _)| if id < 5 { 3 } else { 1 }).collect(),
        unknown: own.special().unk,
        cls: own.special().cls,
        separator: own.special().sep,
        padding: own.special().pad,
        mask: own.special().mask,
        ..GgufVocabulary::default()
    })
    .unwrap();
    for text in corpus().texts {
        let ids = tokenizer.encode(&text, Special::Add).unwrap().ids;
        assert_eq!(ids, own.encode(&text, Special::Add).unwrap().ids, "{text:?}");
    }
    assert_eq!(tokenizer.special(), own.special());
}

#[test]
fn broken_vocabularies_are_errors() {
    let base = || of_fixture("llama");
    let cases: Vec<(&str, GgufVocabulary, &str)> = vec![
        ("nothing", GgufVocabulary::default(), "no tokens"),
        ("an unknown model", GgufVocabulary { model: "rwkv".to_owned(), ..base() }, "\"rwkv\""),
        ("too few scores", GgufVocabulary { scores: vec![0.0], ..base() }, "1 scores"),
        ("an id outside", GgufVocabulary { bos: Some(1 << 30), ..base() }, "bos_token"),
        (
            "a score that is no number",
            GgufVocabulary { scores: vec![f32::NAN; base().tokens.len()], ..base() },
            "NaN",
        ),
        (
            "a broken table",
            GgufVocabulary { precompiled_charsmap: vec![255; 9], ..base() },
            "table of characters",
        ),
        (
            "an unknown pattern",
            GgufVocabulary { model: "gpt2".to_owned(), pre: Some("x".to_owned()), ..base() },
            "\"x\"",
        ),
        (
            "a merge of one",
            GgufVocabulary { model: "gpt2".to_owned(), merges: vec!["a".to_owned()], ..base() },
            "not a pair",
        ),
        (
            "a merge of strangers",
            GgufVocabulary { model: "gpt2".to_owned(), merges: vec!["no such".to_owned()], ..base() },
            "out of vocabulary",
        ),
    ];
    for (what, vocabulary, words) in cases {
        let error = Tokenizer::from_gguf(&vocabulary).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{what}: {error}");
    }
}

// ---- real files ---------------------------------------------------------------------------------------------------------

/// The vocabulary of a GGUF file, and its chat template.
fn read(path: &Path) -> (GgufVocabulary, Option<String>) {
    let weights = Weights::open(path).unwrap();
    let gguf = weights.gguf().unwrap();
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let text = |name: &str| gguf.string(&key(name)).map(str::to_owned);
    let texts = |name: &str| -> Vec<String> {
        let list = gguf.byte_strings(&key(name)).unwrap_or_default();
        list.into_iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    };
    let numbers = |name: &str| gguf.i32s(&key(name)).unwrap_or_default().into_iter();
    let (id, flag) = (|name: &str| gguf.u32(&key(name)), |name: &str| gguf.bool(&key(name)));
    let vocabulary = GgufVocabulary {
        model: text("model").unwrap_or_default(),
        pre: text("pre"),
        tokens: texts("tokens"),
        scores: gguf.f32s(&key("scores")).unwrap_or_default(),
        token_types: numbers("token_type").map(|kind| kind as u32).collect(),
        merges: texts("merges"),
        bos: id("bos_token_id"),
        eos: id("eos_token_id"),
        unknown: id("unknown_token_id"),
        separator: id("seperator_token_id"),
        padding: id("padding_token_id"),
        cls: id("cls_token_id"),
        mask: id("mask_token_id"),
        add_bos: flag("add_bos_token"),
        add_eos: flag("add_eos_token"),
        add_space_prefix: flag("add_space_prefix"),
        remove_extra_whitespaces: flag("remove_extra_whitespaces"),
        precompiled_charsmap: numbers("precompiled_charsmap").map(|byte| byte as u8).collect(),
    };
    (vocabulary, gguf.string("tokenizer.chat_template").map(str::to_owned))
}

/// What the one GGUF file of an asset says.
fn of_asset(name: &str) -> (GgufVocabulary, Option<String>) {
    read(&asset(name))
}

#[test]
#[ignore = "needs downloaded models"]
fn real_gguf_files_give_the_ids_that_their_models_were_trained_with() {
    let cases: [(&str, &str, &[u32]); 5] = [
        ("tinyllama", "Once upon a time", &[1, 9038, 2501, 263, 931]),
        ("smollm2", "Hello world! 123", &[19556, 905, 17, 216, 33, 34, 35]),
        ("smollm2", "  multiple   spaces", &[216, 2701, 256, 5600]),
        ("qwen-coder-0.5b", "用一句话介绍北京。", &[11_622, 105_321, 100_157, 68_990, 1773]),
        (
            "qwen-coder-0.5b",
            "fn main() {\n    println!(\"1234\");\n}",
            &[8822, 1887, 368, 341, 262, 13751, 17223, 16, 17, 18, 19, 797, 92],
        ),
    ];
    for (name, text, expected) in cases {
        let (vocabulary, _) = of_asset(name);
        let tokenizer = Tokenizer::from_gguf(&vocabulary).unwrap();
        let ids = tokenizer.encode(text, Special::Add).unwrap().ids;
        assert_eq!(ids, expected, "{name}: {text:?}");
        assert_eq!(tokenizer.decode(&ids, SpecialText::Skip).unwrap(), text, "{name}");
    }
}

#[test]
#[ignore = "needs downloaded models"]
fn real_gguf_files_render_their_chat_template() {
    let (vocabulary, template) = of_asset("smollm2");
    let chat = ChatTemplate::new(&template.unwrap()).unwrap();
    let text = chat.render(&Conversation::new([("user", "What is the capital of France?")])).unwrap();
    assert!(
        text.ends_with("<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"),
        "{text}"
    );
    let tokenizer = Tokenizer::from_gguf(&vocabulary).unwrap();
    let ids = tokenizer.encode(&text, Special::Leave).unwrap().ids;
    assert_eq!(ids.iter().filter(|&&id| Some(id) == tokenizer.id("<|im_end|>")).count(), 2);
    assert_eq!(tokenizer.decode(&ids, SpecialText::Keep).unwrap(), text);
}

/// llama.cpp publishes vocabularies with texts and the ids that the models' own tokenizers give.
#[test]
#[ignore = "needs GLASSFORMER_GGUF_VOCABULARIES, a folder of ggml-vocab-*.gguf files"]
fn the_vocabularies_of_llama_cpp_give_the_ids_that_it_expects() {
    let folder = std::env::var_os("GLASSFORMER_GGUF_VOCABULARIES").expect("it names a folder");
    let mut differences = Vec::new();
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "gguf")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let beside = |ending: &str| fs::read_to_string(format!("{}{ending}", path.display()));
        let (Ok(texts), Ok(ids)) = (beside(".inp"), beside(".out")) else { continue };
        let tokenizer = match Tokenizer::from_gguf(&read(path).0) {
            Ok(tokenizer) => tokenizer,
            Err(error) => {
                println!("{name}: {error}");
                continue;
            }
        };
        let texts = texts.split("\n__ggml_vocab_test__\n");
        let mut wrong = 0;
        for (text, ids) in texts.zip(ids.lines()) {
            let expected: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let found = tokenizer.encode(text, Special::Leave).unwrap().ids;
            if found != expected {
                wrong += 1;
                differences.push(format!("{name}: {text:?}\n  {found:?}\n  {expected:?}"));
            }
        }
        println!("{name}: {wrong} differences");
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
