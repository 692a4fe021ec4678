//! Broken and hostile files: each is an error with a useful message, never a panic and never a large allocation.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::{fixture, opened, scratch};
use glassformer_tokens::{Error, Special, Tokenizer};
use serde_json::{Value, json};

/// Far more than these files, most of them of a few hundred bytes, can justify.
const LARGE: usize = 32 << 20;

/// The largest single allocation since the program began.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watched;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` above used the same allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// Names and contents.
type Files<'a> = Vec<(&'a str, &'a [u8])>;

/// Opens a folder with these files, and encodes a text where that works.
fn attempt(name: &str, files: &[(&str, &[u8])]) -> Result<(), Error> {
    let folder = scratch(name);
    for (file, bytes) in files {
        fs::write(folder.join(file), bytes).unwrap();
    }
    let opened = Tokenizer::open(&folder);
    fs::remove_dir_all(&folder).unwrap();
    let outcome = opened.and_then(|tokenizer| {
        let text = "The old lighthouse ＡＢ½ naïve 今天 <s> [MASK] \u{0} 👍🏽 e\u{301}";
        tokenizer.encode(text, Special::Add)?;
        tokenizer.encode_pair(text, text, Special::Add)?;
        let ids: Vec<u32> = (0..2000).collect();
        tokenizer.decode(&ids, glassformer_tokens::SpecialText::Keep)?;
        Ok(())
    });
    assert!(LARGEST.load(Relaxed) < LARGE, "{name} allocated {} bytes", LARGEST.load(Relaxed));
    outcome
}

/// A `tokenizer.json` with one thing changed.
fn changed(name: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut json: Value =
        serde_json::from_slice(&fs::read(fixture(name).join("tokenizer.json")).unwrap()).unwrap();
    change(&mut json);
    json.to_string().into_bytes()
}

/// What is wrong, the file, and words that the message must have.
#[allow(clippy::too_many_lines)] // a table
fn broken_jsons() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let charsmap = |text: &str| {
        changed("json-unigram", |json| {
            json["normalizer"]["normalizers"][0]["precompiled_charsmap"] = json!(text);
        })
    };
    let replace = |pattern: &str| {
        changed("json-unigram", |json| {
            json["normalizer"]["normalizers"][2]["pattern"] = json!({"Regex": pattern});
        })
    };
    let split = |pattern: &str| {
        changed("json-split", |json| {
            json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = json!({"Regex": pattern});
        })
    };
    vec![
        ("empty", vec![], "EOF"),
        ("not JSON", b"{]".to_vec(), "line 1"),
        ("not UTF-8", b"{\"\xff\": 1}".to_vec(), "line 1"),
        ("a list", b"[]".to_vec(), "tokenizer.json"),
        ("no model", b"{\"version\": \"1.0\"}".to_vec(), "missing field `model`"),
        ("another version", changed("json-split", |json| json["version"] = json!("9")), "version"),
        (
            "an unknown model",
            changed("json-split", |json| json["model"]["type"] = json!("Magic")),
            "tokenizer.json",
        ),
        (
            "deep nesting",
            [b"{\"model\":".to_vec(), b"[".repeat(9999), b"]".repeat(9999), b"}".to_vec()].concat(),
            "recursion limit",
        ),
        (
            "merges of strangers",
            changed("json-split", |json| json["model"]["merges"] = json!([["no", "such"]])),
            "vocabulary",
        ),
        (
            "a negative id",
            changed("json-split", |json| json["model"]["vocab"]["x"] = json!(-1)),
            "tokenizer.json",
        ),
        (
            "a giant id",
            changed("json-split", |json| json["model"]["vocab"]["x"] = json!(1_u64 << 40)),
            "tokenizer.json",
        ),
        (
            "unigram without pieces",
            changed("json-unigram", |json| json["model"]["vocab"] = json!([])),
            "EmptyVocabulary",
        ),
        (
            "unknown id outside",
            changed("json-unigram", |json| json["model"]["unk_id"] = json!(99_999)),
            "tokenizer.json",
        ),
        ("a giant table", charsmap("/////w=="), "more units"),
        ("half a table", charsmap("AAQAAAAA"), "more units"),
        ("no base 64", charsmap("!!!!"), "base 64"),
        (
            "a table of characters, again and again",
            changed("json-unigram", |json| {
                let all = &mut json["normalizer"]["normalizers"];
                *all = json!([all[0], all[0], all[0]]);
            }),
            "times as long",
        ),
        ("a pattern that does not compile", split("((("), "tokenizer.json"),
        ("a pattern that explodes", split("(?:\\p{L}{1000}){1000}"), "tokenizer.json"),
        (
            "very many patterns",
            changed("json-split", |json| {
                let one = json["pre_tokenizer"]["pretokenizers"][0].clone();
                json["pre_tokenizer"]["pretokenizers"] = json!(vec![one; 65]);
            }),
            "more than 64",
        ),
        ("look-around in a replacement", replace("a(?=b)"), "looks around"),
        ("a replacement that does not compile", replace("[z-a]"), "tokenizer.json"),
        (
            "a template without its token",
            changed("json-split", |json| {
                json["post_processor"]["processors"][1]["special_tokens"] = json!({});
            }),
            "no special token",
        ),
        (
            "a template with more ids than texts",
            changed("json-split", |json| {
                json["post_processor"]["processors"][1]["special_tokens"]["<|begin|>"]["ids"] = json!([1, 2]);
            }),
            "not as many ids",
        ),
        (
            "a second text in the template of one",
            changed("json-split", |json| {
                json["post_processor"]["processors"][1]["single"] =
                    json!([{"Sequence": {"id": "B", "type_id": 0}}]);
            }),
            "second one",
        ),
        (
            "words of no length",
            changed("json-split", |json| json["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0})),
            "length nought",
        ),
        (
            "a folder of another program",
            br#"{"special": {}, "tokens": ["a"]}"#.to_vec(),
            "missing field `model`",
        ),
    ]
}

#[test]
fn broken_tokenizer_jsons_are_errors() {
    for (what, bytes, words) in broken_jsons() {
        match attempt("broken-json", &[("tokenizer.json", &bytes)]) {
            Err(error) => assert!(error.to_string().contains(words), "{what}: {error}"),
            Ok(()) => panic!("{what} was accepted"),
        }
    }
}

#[test]
fn a_pattern_that_never_ends_is_an_error_when_it_is_used() {
    let json = changed("json-split", |json| {
        json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = json!({"Regex": "(?:a|aa)+(?<!z)c|\\w"});
    });
    let folder = scratch("endless");
    fs::write(folder.join("tokenizer.json"), json).unwrap();
    let tokenizer = Tokenizer::open(&folder).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let error = tokenizer.encode(&"a".repeat(100_000), Special::Add).unwrap_err();
    assert!(matches!(error, Error::Pattern { .. }), "{error}");
}

#[test]
fn dropping_merges_at_random_is_for_training() {
    let json = changed("json-split", |json| json["model"]["dropout"] = json!(0.5));
    let folder = scratch("dropout");
    fs::write(folder.join("tokenizer.json"), json).unwrap();
    let tokenizer = Tokenizer::open(&folder).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let text = "The old lighthouse keeper counted the ships before breakfast.";
    let expected = opened("json-split").encode(text, Special::Add).unwrap();
    for _ in 0..20 {
        assert_eq!(tokenizer.encode(text, Special::Add).unwrap(), expected);
    }
}

#[test]
fn broken_vocabularies_are_errors() {
    let marian = |file: &str| fs::read(fixture("marian").join(file)).unwrap();
    let spm = marian("source.spm");
    let long = json!({"sep_token": "*+".repeat(1 << 20)}).to_string();
    let cases: Vec<(&str, Files<'_>, &str)> = vec![
        (
            "a special token of megabytes",
            vec![("tokenizer_config.json", long.as_bytes()), ("vocab.txt", b"[UNK]\na\n")],
            "a special token has 2097152 bytes",
        ),
        ("nothing", vec![], "expected tokenizer.json"),
        ("only a configuration", vec![("tokenizer_config.json", b"{}")], "expected tokenizer.json"),
        (
            "a broken configuration",
            vec![("tokenizer_config.json", b"{"), ("vocab.txt", b"a\n")],
            "tokenizer_config.json",
        ),
        ("a vocabulary that is not UTF-8", vec![("vocab.txt", b"a\n\xff\n")], "vocab.txt"),
        ("a vocabulary of numbers", vec![("vocab.json", b"[1]"), ("merges.txt", b"")], "vocab.json"),
        ("an id that is text", vec![("vocab.json", b"{\"a\": \"b\"}"), ("merges.txt", b"")], "has the id"),
        (
            "an id that is too large",
            vec![("vocab.json", b"{\"a\": 4294967296}"), ("merges.txt", b"")],
            "4294967296",
        ),
        ("a merge of three", vec![("vocab.json", b"{\"a\": 0}"), ("merges.txt", b"a b c\n")], "line 1"),
        (
            "a merge of strangers",
            vec![("vocab.json", b"{\"a\": 0}"), ("merges.txt", b"#version: 0.2\nx y\n")],
            "vocabulary",
        ),
        (
            "Marian without <unk>",
            vec![("vocab.json", b"{\"</s>\": 0}"), ("source.spm", &spm), ("target.spm", &spm)],
            "no unk_token",
        ),
        (
            "Marian without </s>",
            vec![("vocab.json", b"{\"<unk>\": 0}"), ("source.spm", &spm), ("target.spm", &spm)],
            "no eos_token",
        ),
        (
            "CTranslate2 without its model",
            vec![("shared_vocabulary.json", b"[\"a\"]")],
            "sentencepiece.model",
        ),
        (
            "CTranslate2 without <unk>",
            vec![("shared_vocabulary.json", b"[\"a\"]"), ("spm.model", &spm)],
            "no unk_token",
        ),
        ("XLM-R's pieces", vec![("sentencepiece.bpe.model", &spm)], "tokenizer.json"),
        (
            "ALBERT's pieces",
            vec![("spiece.model", &spm), ("config.json", b"{\"model_type\": \"albert\"}")],
            "tokenizer.json",
        ),
        (
            "CLIP's pairs",
            vec![("vocab.json", b"{}"), ("merges.txt", b""), ("config.json", b"{\"model_type\": \"clip\"}")],
            "tokenizer.json",
        ),
    ];
    for (what, files, words) in cases {
        match attempt("broken-vocabulary", &files) {
            Err(error) => assert!(error.to_string().contains(words), "{what}: {error}"),
            Ok(()) => panic!("{what} was accepted"),
        }
    }
}

/// A field of a message in the format of protocol buffers.
fn field(number: u32, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut tag = number << 3 | u32::from(kind);
    let mut bytes = Vec::new();
    while tag >= 0x80 {
        bytes.push(tag as u8 | 0x80);
        tag >>= 7;
    }
    bytes.push(tag as u8);
    if kind == 2 {
        let mut length = body.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
    }
    bytes.extend(body);
    bytes
}

fn piece(text: &str, score: f32, kind: u8) -> Vec<u8> {
    let body =
        [field(1, 2, text.as_bytes()), field(2, 5, &score.to_le_bytes()), field(3, 0, &[kind])].concat();
    field(1, 2, &body)
}

#[test]
fn broken_sentencepiece_models_are_errors() {
    let good = || [piece("<unk>", 0.0, 2), piece("▁", -1.0, 1), piece("a", -2.0, 1)].concat();
    let with = |more: Vec<u8>| [good(), more].concat();
    let settings = |body: Vec<u8>| with(field(2, 2, &body));
    let table = |blob: &[u8]| with(field(3, 2, &field(2, 2, blob)));
    let real = fs::read(fixture("t5").join("spiece.model")).unwrap();
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", vec![], "not a SentencePiece model"),
        ("a text", b"hello world, this is not a model".to_vec(), "byte"),
        ("cut short", real[..real.len() / 2].to_vec(), "remain"),
        (
            "a length beyond the file",
            [field(1, 2, b""), vec![10, 255, 255, 255, 255, 127]].concat(),
            "remain",
        ),
        ("an endless number", vec![8; 1].into_iter().chain([255; 20]).collect(), "too long"),
        ("field nought", vec![0, 0], "field number 0"),
        ("a group", vec![11, 12], "unknown kind"),
        ("a piece that is a number", field(1, 0, &[1]), "is a number"),
        ("a piece that is not UTF-8", field(1, 2, &field(1, 2, b"\xff")), "utf-8"),
        ("no unknown piece", piece("a", 0.0, 1), "no unknown piece"),
        ("two unknown pieces", with(piece("<u>", 0.0, 2)), "second unknown"),
        ("a piece twice", with(piece("a", 0.0, 1)), "twice"),
        ("an empty piece", with(piece("", 0.0, 1)), "empty"),
        ("a kind that is not known", with(piece("x", 0.0, 9)), "unknown kind 9"),
        ("a score that is no number", with(piece("x", f32::NAN, 1)), "NaN"),
        ("an endless score", with(piece("x", f32::INFINITY, 1)), "inf"),
        ("bytes that are missing", settings(field(35, 0, &[1])), "<0x00> is missing"),
        ("words", settings(field(3, 0, &[3])), "whole words"),
        ("an unknown algorithm", settings(field(3, 0, &[99])), "99"),
        ("a table cut short", table(b"\x01"), "cut short"),
        ("a giant table", table(b"\xff\xff\xff\xff"), "more units"),
        (
            "a table without texts",
            table(&[&1024_u32.to_le_bytes()[..], &[0; 1024]].concat()),
            "without an end",
        ),
    ];
    for (what, bytes, words) in cases {
        match attempt("broken-pieces", &[("spm.model", &bytes)]) {
            Err(error) => assert!(error.to_string().contains(words), "{what}: {error}"),
            Ok(()) => panic!("{what} was accepted"),
        }
    }
    attempt("whole-pieces", &[("spm.model", &good())]).unwrap();
}

#[test]
fn files_with_random_bytes_changed_never_panic() {
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for (folder, file) in [
        ("llama", "tokenizer.model"),
        ("unigram", "spm.model"),
        ("t5", "spiece.model"),
        ("json-split", "tokenizer.json"),
        ("json-fallback", "tokenizer.json"),
        ("json-unigram", "tokenizer.json"),
        ("roberta", "vocab.json"),
    ] {
        let whole = fs::read(fixture(folder).join(file)).unwrap();
        let merges = fs::read(fixture("roberta").join("merges.txt")).unwrap();
        let rounds = if whole.len() > 200_000 { 8 } else { 40 };
        for _ in 0..rounds {
            let mut bytes = whole.clone();
            for _ in 0..=random(4) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            if random(4) == 0 {
                bytes.truncate(random(whole.len()));
            }
            let files: [(&str, &[u8]); 2] = [(file, &bytes), ("merges.txt", &merges)];
            if let Err(error) = attempt("fuzz", &files) {
                assert!(!error.to_string().contains("panicked"), "{folder}: {error}");
            }
        }
    }
}

/// Each was compared with all others, which would take hours here.
#[test]
fn very_many_special_tokens_are_looked_up() {
    let many: serde_json::Map<String, Value> = (0..100_000)
        .map(|id| ((id + 1000).to_string(), json!({"content": format!("<{id}>"), "special": true})))
        .collect();
    let config =
        json!({"added_tokens_decoder": many, "extra_ids": 1_000_000, "tokenizer_class": "T5Tokenizer"})
            .to_string();
    let model = fs::read(fixture("t5").join("spiece.model")).unwrap();
    attempt("many-t5", &[("spiece.model", &model), ("tokenizer_config.json", config.as_bytes())]).unwrap();
    let vocabulary = fs::read(fixture("wordpiece-cased").join("vocab.txt")).unwrap();
    let config = config.replace("T5Tokenizer", "BertTokenizer");
    attempt("many-bert", &[("vocab.txt", &vocabulary), ("tokenizer_config.json", config.as_bytes())])
        .unwrap();
}
