//! What is opened from which files, and what the real models' tokenizers say.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::common::{asset, corpus, fixture, fnv, opened, scratch};
use glassformer_tokens::{Special, SpecialText, Tokenizer};
use serde_json::{Value, json};

/// A folder with copies of these files.
fn folder_of(name: &str, files: &[(&Path, &str)]) -> std::path::PathBuf {
    let folder = scratch(name);
    for (from, to) in files {
        fs::copy(from, folder.join(to)).unwrap();
    }
    folder
}

#[test]
fn ctranslate2s_vocabulary_gives_marians_ids() {
    let marian = opened("marian");
    let (own, pair) = (fixture("ctranslate2"), fixture("marian"));
    let folder = folder_of(
        "ctranslate2",
        &[
            (&own.join("config.json"), "config.json"),
            (&own.join("shared_vocabulary.json"), "shared_vocabulary.json"),
            (&pair.join("source.spm"), "source.spm"),
            (&pair.join("target.spm"), "target.spm"),
        ],
    );
    let tokenizer = Tokenizer::open(&folder).unwrap();
    // Its vocabulary has no <pad>, which is a special token only there.
    for text in corpus().texts.iter().filter(|text| !text.contains("<pad>") && !text.contains("<s>")) {
        let ids = tokenizer.encode(text, Special::Add).unwrap().ids;
        assert_eq!(ids, marian.encode(text, Special::Add).unwrap().ids, "{text:?}");
        let target = tokenizer.encode_target(text, Special::Leave).unwrap().ids;
        assert_eq!(target, marian.encode_target(text, Special::Leave).unwrap().ids, "{text:?}");
        let decode = |tokenizer: &Tokenizer| tokenizer.decode(&ids, SpecialText::Skip).unwrap();
        assert_eq!(decode(&tokenizer), decode(&marian));
    }
    // The same as lines of text, as older versions wrote it.
    let list: Vec<String> =
        serde_json::from_slice(&fs::read(folder.join("shared_vocabulary.json")).unwrap()).unwrap();
    fs::remove_file(folder.join("shared_vocabulary.json")).unwrap();
    fs::write(folder.join("shared_vocabulary.txt"), list.join("\n") + "\n").unwrap();
    let lines = Tokenizer::open(&folder).unwrap();
    let encode = |tokenizer: &Tokenizer| tokenizer.encode("今天天气很好", Special::Add).unwrap().ids;
    assert_eq!(encode(&lines), encode(&tokenizer));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn texts_of_the_output_are_encoded_with_the_model_of_the_output() {
    let marian = opened("marian");
    let text = "The old lighthouse keeper";
    let (source, target) =
        (marian.encode(text, Special::Add).unwrap(), marian.encode_target(text, Special::Add).unwrap());
    assert_ne!(source.ids, target.ids);
    assert_eq!(marian.decode(&target.ids, SpecialText::Skip).unwrap(), text);
    let bert = opened("wordpiece-cased");
    assert_eq!(bert.encode(text, Special::Add).unwrap(), bert.encode_target(text, Special::Add).unwrap());
}

#[test]
fn special_tokens_have_their_ids() {
    let bert = opened("wordpiece-uncased").special();
    assert_eq!(
        (bert.pad, bert.unk, bert.cls, bert.sep, bert.mask),
        (Some(0), Some(1), Some(2), Some(3), Some(4))
    );
    assert_eq!((bert.bos, bert.eos), (None, None));
    let llama = opened("llama").special();
    assert_eq!((llama.unk, llama.bos, llama.eos), (Some(0), Some(1), Some(2)));
    let t5 = opened("t5");
    assert_eq!((t5.special().pad, t5.special().eos, t5.special().unk), (Some(0), Some(1), Some(2)));
    assert_eq!(t5.id("<extra_id_0>"), Some(599));
    assert_eq!(t5.token(500), Some("<extra_id_99>"));
    let split = opened("json-split");
    assert_eq!(split.special().bos, split.id("<|begin|>"));
    assert_eq!(opened("json-unigram").special().mask, Some(500), "by its usual name");
    let plain = opened("unigram").special();
    assert_eq!((plain.unk, plain.bos, plain.eos, plain.pad), (Some(0), Some(1), Some(2), None));
}

#[test]
fn cutting_and_padding_are_reported_and_not_done() {
    let split = opened("json-split");
    assert_eq!(split.max_length(), Some(77));
    assert!(split.encode(&"word ".repeat(500), Special::Add).unwrap().len() > 500);
    let unigram = opened("json-unigram");
    assert_eq!(unigram.max_length(), None);
    assert_eq!(unigram.encode("", Special::Add).unwrap().len(), 2);
    assert_eq!(opened("wordpiece-cased").model_max_length(), Some(512));
}

#[test]
fn languages_are_reported_where_the_configuration_says_them() {
    assert_eq!(opened("wordpiece-cased").languages(), None);
    assert_eq!(opened("marian").languages(), Some(("zh", "en")));
    let (own, pair) = (fixture("ctranslate2"), fixture("marian"));
    let folder = folder_of(
        "ctranslate2-languages",
        &[
            (&own.join("shared_vocabulary.json"), "shared_vocabulary.json"),
            (&pair.join("source.spm"), "source.spm"),
            (&pair.join("target.spm"), "target.spm"),
            (&pair.join("tokenizer_config.json"), "tokenizer_config.json"),
        ],
    );
    assert_eq!(Tokenizer::open(&folder).unwrap().languages(), Some(("zh", "en")));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn vocabularies_can_be_gone_through() {
    for name in ["gpt2", "llama", "marian", "json-unigram"] {
        let tokenizer = opened(name);
        let vocabulary = tokenizer.vocabulary();
        assert_eq!(vocabulary.iter().count(), vocabulary.len());
        assert_eq!(vocabulary.size(), vocabulary.len(), "{name}: no holes");
        for (id, token) in vocabulary.iter() {
            assert_eq!(tokenizer.token(id), Some(token));
            assert_eq!(tokenizer.id(token), Some(id), "{name}: {token:?}");
        }
        assert_eq!(tokenizer.token(1 << 30), None);
        assert_eq!(tokenizer.decode(&[1 << 30], SpecialText::Keep).unwrap(), "", "{name}");
    }
}

#[test]
fn what_the_configuration_says_of_case_counts() {
    let folder = scratch("case");
    fs::copy(fixture("wordpiece-cased").join("vocab.txt"), folder.join("vocab.txt")).unwrap();
    let encode = |config: Value, text: &str| {
        fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
        Tokenizer::open(&folder).unwrap().encode(text, Special::Leave).unwrap().ids
    };
    let lower = encode(json!({}), "THE É 今天");
    assert_eq!(lower, encode(json!({"do_lower_case": true}), "the e 今天"));
    assert_eq!(lower, encode(json!({"do_lower_case": false, "strip_accents": true}), "the é 今天"));
    assert_ne!(lower, encode(json!({"do_lower_case": false}), "THE É 今天"));
    let apart = encode(json!({"tokenize_chinese_chars": true}), "今天");
    let together = encode(json!({"tokenize_chinese_chars": false}), "今天");
    assert!(apart.len() >= together.len());
    // A special token of another name is found in texts, with an id after the last.
    let own = encode(json!({"mask_token": "<blank>"}), "a <blank>");
    assert_eq!(
        *own.last().unwrap() as usize,
        fs::read_to_string(folder.join("vocab.txt")).unwrap().lines().count()
    );
    fs::remove_dir_all(&folder).unwrap();
}

/// They were `[CLS]` and `[SEP]`, with ids after the last.
#[test]
fn mpnets_vocabulary_has_robertas_marks() {
    let folder = scratch("mpnet");
    fs::write(folder.join("vocab.txt"), "<s>\n<pad>\n</s>\n[UNK]\na\nb\n##c\n<mask>\n").unwrap();
    fs::write(folder.join("config.json"), json!({"model_type": "mpnet"}).to_string()).unwrap();
    let tokenizer = Tokenizer::open(&folder).unwrap();
    assert_eq!(tokenizer.encode("ac x", Special::Add).unwrap().ids, [0, 4, 6, 3, 2]);
    assert_eq!(tokenizer.encode_pair("a", "b", Special::Add).unwrap().ids, [0, 4, 2, 2, 5, 2]);
    assert_eq!(tokenizer.encode("a <mask>", Special::Leave).unwrap().ids, [4, 7]);
    let special = tokenizer.special();
    assert_eq!((special.cls, special.sep, special.mask, special.pad), (Some(0), Some(2), Some(7), Some(1)));
    fs::remove_dir_all(&folder).unwrap();
}

/// A byte-level vocabulary may hold `##` as it may hold anything.
#[test]
fn only_the_model_says_that_pieces_are_marked() {
    assert!(opened("wordpiece-cased").marks_pieces());
    let bytes = json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
        "model": {"type": "BPE", "vocab": {"#": 0, "##": 1}, "merges": [["#", "#"]]},
    });
    assert!(!Tokenizer::from_json(&bytes.to_string(), "{}").unwrap().marks_pieces());
}

#[test]
fn spaces_are_tidied_where_the_configuration_says_so() {
    let folder = scratch("tidy");
    let mut json: Value =
        serde_json::from_slice(&fs::read(fixture("json-unigram").join("tokenizer.json")).unwrap()).unwrap();
    json["decoder"] = Value::Null;
    fs::write(folder.join("tokenizer.json"), json.to_string()).unwrap();
    let decoded = |config: Value| {
        fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
        let tokenizer = Tokenizer::open(&folder).unwrap();
        let ids = [tokenizer.id("a").unwrap(), tokenizer.id(",").unwrap(), tokenizer.id(".").unwrap()];
        let mut stream = tokenizer.stream(SpecialText::Skip);
        let parts: String = ids.iter().map(|&id| stream.push(&tokenizer, id).unwrap()).collect();
        let text = tokenizer.decode(&ids, SpecialText::Skip).unwrap();
        assert_eq!(parts + &stream.finish(&tokenizer).unwrap(), text);
        text
    };
    assert_eq!(decoded(json!({})), "a , .");
    assert_eq!(decoded(json!({"clean_up_tokenization_spaces": true})), "a,.");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_stream_never_cuts_a_character() {
    let text = "naïve 今天 👨‍👩‍👧‍👦 é\u{301} \u{fffd} ok";
    for name in ["gpt2", "llama", "json-split", "json-fallback", "unigram-bytes"] {
        let tokenizer = opened(name);
        let ids = tokenizer.encode(text, Special::Add).unwrap().ids;
        let mut stream = tokenizer.stream(SpecialText::Skip);
        let parts: Vec<String> = ids.iter().map(|&id| stream.push(&tokenizer, id).unwrap()).collect();
        let rest = stream.finish(&tokenizer).unwrap();
        assert_eq!(parts.concat() + &rest, tokenizer.decode(&ids, SpecialText::Skip).unwrap(), "{name}");
        // Only the character that is U+FFFD itself shows as one.
        assert_eq!(parts.iter().filter(|part| part.contains('\u{fffd}')).count(), 1, "{name}: {parts:?}");
        assert!(
            parts.iter().filter(|part| !part.is_empty()).count() > 5,
            "{name} waits for the end: {parts:?}"
        );
    }
}

#[test]
fn ids_in_any_order_stream_as_they_decode() {
    let mut state = 7_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below as u64) as u32
    };
    for name in [
        "wordpiece-cased",
        "gpt2",
        "roberta",
        "json-split",
        "json-unigram",
        "json-fallback",
        "unigram",
        "llama",
        "t5",
        "marian",
    ] {
        let tokenizer = opened(name);
        for special in [SpecialText::Skip, SpecialText::Keep] {
            for _ in 0..200 {
                let ids: Vec<u32> = (0..12).map(|_| random(tokenizer.vocabulary().size() + 2)).collect();
                let mut stream = tokenizer.stream(special);
                let parts: String = ids.iter().map(|&id| stream.push(&tokenizer, id).unwrap()).collect();
                let text = tokenizer.decode(&ids, special).unwrap();
                assert_eq!(parts + &stream.finish(&tokenizer).unwrap(), text, "{name}, {special:?}: {ids:?}");
            }
        }
    }
}

/// Compares a real tokenizer with what the reference said of the corpus.
fn agrees(name: &str, folder: &Path) {
    let all: Value = serde_json::from_slice(&fs::read(fixture("assets.json")).unwrap()).unwrap();
    let begin = Instant::now();
    let tokenizer = Tokenizer::open(folder).unwrap();
    println!("{name}: opened in {:.2} s", begin.elapsed().as_secs_f64());
    for (text, expected) in corpus().texts.iter().zip(all[name].as_array().unwrap()) {
        let ids = tokenizer.encode(text, Special::Add).unwrap().ids;
        assert_eq!(json!([ids.len(), fnv(&ids)]), *expected, "{name}: {text:?} is {ids:?}");
    }
    let text = (corpus().training.join(" ") + "\n").repeat(200);
    let begin = Instant::now();
    let tokens = tokenizer.encode(&text, Special::Add).unwrap().len();
    println!("{name}: {} bytes, {tokens} tokens, {:.2} s", text.len(), begin.elapsed().as_secs_f64());
}

#[test]
#[ignore = "needs downloaded models"]
fn real_tokenizers_agree_with_the_reference() {
    for name in [
        "minilm",
        "m3e-zh",
        "stories15m",
        "flan-t5-title",
        "whisper-tiny-en",
        "rxnfp",
        "antiberty",
        "iglm/IgLM",
        "opus-zh-en",
    ] {
        agrees(name, &asset(name));
    }
}

#[test]
#[ignore = "needs downloaded models"]
fn real_vocabularies_without_tokenizer_json_agree_with_the_reference() {
    type Copied<'a> = &'a [(&'a str, &'a str)];
    let copies: [(&str, &str, Copied<'_>); 3] = [
        (
            "minilm",
            "minilm",
            &[("vocab.txt", "vocab.txt"), ("tokenizer_config.json", "tokenizer_config.json")],
        ),
        ("stories15m", "stories15m/tokenizer.model", &[("tokenizer.model", "plain.model")]),
        (
            "whisper-tiny-en",
            "whisper-tiny-en/vocab.json",
            &[("vocab.json", "vocab.json"), ("merges.txt", "merges.txt")],
        ),
    ];
    for (model, name, files) in copies {
        let paths: Vec<_> = files.iter().map(|(from, to)| (asset(model).join(from), *to)).collect();
        let files: Vec<_> = paths.iter().map(|(from, to)| (from.as_path(), *to)).collect();
        let copy = folder_of(model, &files);
        agrees(name, &copy);
        fs::remove_dir_all(copy).unwrap();
    }
}

#[test]
#[ignore = "needs downloaded models"]
fn marian_translates_the_ids_that_the_reference_gives() {
    let folder = asset("opus-zh-en");
    let tokenizer = Tokenizer::open(&folder).unwrap();
    let ids = tokenizer.encode("今天天气很好，我们去公园散步吧。", Special::Add).unwrap().ids;
    assert_eq!(ids.last(), Some(&0));
    let target = tokenizer
        .encode_target("It's a nice day. Let's go for a walk in the park.", Special::Add)
        .unwrap()
        .ids;
    let text = tokenizer.decode(&target, SpecialText::Skip).unwrap();
    assert_eq!(text, "It's a nice day. Let's go for a walk in the park.");
    let light = Tokenizer::open(folder.join("ctranslate2")).unwrap();
    assert_eq!(light.encode("今天天气很好，我们去公园散步吧。", Special::Add).unwrap().ids, ids);
}

#[test]
fn threads_can_share_what_was_opened() {
    fn shared<T: Send + Sync>() {}
    shared::<Tokenizer>();
    shared::<glassformer_tokens::ChatTemplate>();
}
