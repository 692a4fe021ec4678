//! What models write, against the reference's `generate` and chat templates (`fixtures/tasks`), and how it comes.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_engine::{Draft, Finish, Sampling};
use glassformer_tasks::{
    Error, Files, Generate, Input, Long, ScoredToken, Split, TextEncoder, TextGenerator, Translate, silent,
};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tasks").join(name)
}

fn open(name: &str) -> (TextGenerator, Value) {
    let generator = TextGenerator::open(folder(name), Arc::new(Cpu::new(2))).unwrap();
    let expected = std::fs::read_to_string(folder(name).join("expected.json")).unwrap();
    (generator, serde_json::from_str(&expected).unwrap())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn options(generator: &TextGenerator, given: &Value) -> Generate {
    let mut options = generator.default_options();
    let number = |key: &str| given[key].as_u64().map(|n| n as usize);
    options.decoding.max_new_tokens = number("max_new_tokens");
    options.decoding.beams = number("num_beams").unwrap_or(1);
    options.decoding.returns = number("num_return_sequences").unwrap_or(1);
    options
}

#[test]
fn stories_go_on_as_the_reference_tells_them() {
    let (generator, expected) = open("story");
    for expected in list(&expected["written"]) {
        let options = options(&generator, &expected["options"]);
        let mut heard = String::new();
        let mut tell = |_: usize, piece: &str| {
            heard += piece;
            ControlFlow::Continue(())
        };
        let written = &generator.generate(&[text(&expected["prompt"])], &options, &mut tell).unwrap()[0];
        let texts: Vec<&str> = written.iter().map(|written| written.text.as_str()).collect();
        let wanted: Vec<&str> = list(&expected["texts"]).iter().map(text).collect();
        assert_eq!(texts, wanted);
        assert_eq!(heard, texts[0], "pieces make the text");
        let stream = || generator.stream(text(&expected["prompt"]), &options).unwrap();
        assert_eq!(stream().collect::<Result<String, _>>().unwrap(), heard);
        let mut begun = stream();
        begun.next();
        assert_eq!(begun.finish().unwrap(), *written);
    }
}

#[test]
fn prompts_run_together_and_keep_their_order() {
    let (generator, _) = open("story");
    let mut options = generator.default_options();
    options.decoding.max_new_tokens = Some(9);
    let prompts = ["Once upon a time", "The dog", "猫", "Ann lives in Paris; Bob", "The cat sat on"];
    let together = generator.generate(&prompts, &options, &mut silent).unwrap();
    for (prompt, written) in prompts.iter().zip(&together) {
        assert_eq!(generator.generate(&[prompt], &options, &mut silent).unwrap()[0], *written);
    }
}

#[test]
fn drafts_change_no_text() {
    let (plain, _) = open("story");
    let (small, _) = open("story");
    let generator = open("story").0.with_draft_model(&small).unwrap();
    let prompts =
        ["The cat sat on the mat. The cat sat on the", "Ann lives in Paris; Bob", "The dog the dog the dog"];
    let drawn = Sampling::default().temperature(0.7).seed(3);
    for sampling in [None, Some(drawn)] {
        let mut options = plain.default_options().max_new_tokens(40);
        options.decoding.sampling = sampling;
        options.decoding.draft = Draft::Never;
        let expected = plain.generate(&prompts, &options, &mut silent).unwrap();
        for draft in [Draft::LookUp, Draft::Model] {
            options.decoding.draft = draft;
            assert_eq!(generator.generate(&prompts, &options, &mut silent).unwrap(), expected, "{draft:?}");
        }
    }
    let load = generator.load().session;
    assert!(load.accepted_tokens > 40 && load.accepted_tokens <= load.drafted_tokens, "{load:?}");
}

#[test]
fn a_draft_model_has_the_same_tokens() {
    let generator = open("story").0;
    let refused = generator.with_draft_model(&open("talk").0);
    assert!(matches!(refused.err(), Some(Error::Option { option: "draft", .. })));
}

#[test]
fn a_text_that_stops_is_cut_off_there_and_never_shown() {
    let (generator, _) = open("story");
    let mut options = generator.default_options();
    options.decoding.max_new_tokens = Some(12);
    let whole = generator.generate(&["The cat"], &options, &mut silent).unwrap()[0][0].clone();
    let stop: String = whole.text.chars().skip(3).take(2).collect();
    let before: &str = &whole.text[..whole.text.find(&stop).unwrap()];
    options.stop = vec![stop, "never comes".to_owned()];
    let mut heard = String::new();
    let mut tell = |_: usize, piece: &str| {
        heard += piece;
        ControlFlow::Continue(())
    };
    let stopped = generator.generate(&["The cat"], &options, &mut tell).unwrap()[0][0].clone();
    assert_eq!((stopped.text.as_str(), stopped.finish), (before, Finish::Stop));
    assert_eq!(heard, before);
}

#[test]
fn who_has_heard_enough_breaks_a_text_off() {
    let (generator, _) = open("story");
    let mut options = generator.default_options();
    options.decoding.max_new_tokens = Some(30);
    let mut pieces = 0;
    let mut tell = |_: usize, _: &str| {
        pieces += 1;
        if pieces == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let written = &generator.generate(&["The cat"], &options, &mut tell).unwrap()[0][0];
    assert_eq!((pieces, written.finish), (2, Finish::Stop));
    assert!(written.ids.len() < 30);
}

#[test]
fn a_conversation_is_the_references() {
    let (generator, expected) = open("talk");
    let mut options = generator.default_options();
    options.decoding.max_new_tokens = Some(10);
    let mut chat = generator.chat(options).unwrap();
    for _ in 0..2 {
        for expected in list(&expected) {
            let answer = chat.say(text(&expected["text"]), &mut |_| ControlFlow::Continue(())).unwrap();
            let ids: Vec<u64> = answer.ids.iter().map(|&id| u64::from(id)).collect();
            let wanted: Vec<u64> = list(&expected["ids"]).iter().filter_map(Value::as_u64).collect();
            assert_eq!((ids, answer.text.as_str()), (wanted, text(&expected["answer"])));
        }
        assert_eq!(chat.said().len(), 4);
        chat.reset();
    }
    // A second turn reads only what is new.
    for text in ["The cat sat on the mat and looked at the dog. ".repeat(2).as_str(), "Then?"] {
        chat.say(text, &mut |_| ControlFlow::Continue(())).unwrap();
    }
    let load = generator.load().session;
    assert!(load.kept_tokens > 16 && load.kept_tokens < load.asked_tokens, "{load:?}");
    chat.reset();
    // What does not fit is refused, and was never said.
    let long = "cat ".repeat(600);
    assert!(matches!(chat.say(&long, &mut |_| ControlFlow::Continue(())), Err(Error::Long { .. })));
    assert!(chat.said().is_empty());
    let (story, _) = open("story");
    assert!(matches!(story.chat(story.default_options()), Err(Error::Head { task: "chat", .. })));
}

#[test]
fn languages_are_told_by_name() {
    let (generator, expected) = open("languages");
    let translate = |expected: &Value, from: &str, to: &str, split: Split| {
        let mut generate = generator.default_options();
        generate.decoding.max_new_tokens = Some(12);
        let options = Translate {
            generate: Some(generate),
            from: Some(from.to_owned()),
            to: Some(to.to_owned()),
            split,
        };
        generator.translate(&[text(&expected["text"])], &options)
    };
    for expected in list(&expected["translated"]) {
        let (from, to) = (text(&expected["from"]), text(&expected["to"]));
        let found = translate(expected, from, to, Split::Never).unwrap();
        assert_eq!(found, [text(&expected["translation"])]);
    }
    let first = &expected["translated"][0];
    assert_eq!(translate(first, "English", "Chinese", Split::Never).unwrap(), [text(&first["translation"])]);
    for unknown in ["de", "Klingon", "zh-Hant"] {
        assert!(matches!(
            translate(first, "en", unknown, Split::Long),
            Err(Error::Option { option: "to", .. })
        ));
    }
}

/// Both were once ignored, and then refused whatever they were.
#[test]
fn a_translator_of_one_language_into_one_accepts_their_names_alone() {
    let file = |name: &str| -> &'static [u8] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../translator/model");
        std::fs::read(folder.join(name)).unwrap().leak()
    };
    let shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let weights = shards.map(|name| (name, file(name)));
    let text = |name: &str| std::str::from_utf8(file(name)).unwrap();
    let generator = |tokenizer_config: &'static str| {
        let files = Files {
            config: text("config.json"),
            generation: text("generation_config.json"),
            tokenizer: text("tokenizer.json"),
            tokenizer_config,
            weights: weights.to_vec().leak(),
        };
        TextGenerator::from_files(&files, Arc::new(Cpu::new(2))).unwrap()
    };
    let of_one = generator(r#"{"eos_token": "</s>", "source_lang": "eng", "target_lang": "zh"}"#);
    let translate = |from: Option<&str>, to: Option<&str>| translate(&of_one, from, to);
    let pairs =
        [(Some("en"), Some("zh")), (Some("English"), Some("zho")), (None, Some("Chinese")), (None, None)];
    for (from, to) in pairs {
        assert_eq!(translate(from, to).unwrap(), ["你好"], "{from:?} {to:?}");
    }
    let others = [
        (Some("en"), Some("de"), "to"),
        (Some("zh"), None, "from"),
        (None, Some("zh-Hant"), "to"),
        (Some("Klingon"), Some("zh"), "from"),
    ];
    for (from, to, wrong) in others {
        let Err(Error::Option { option, hint, .. }) = translate(from, to) else { panic!("{from:?} {to:?}") };
        assert_eq!(option, wrong);
        assert!(hint.starts_with("it translates eng into zh"), "{hint}");
    }
    let of_many = generator(r#"{"eos_token": "</s>", "source_lang": "gem", "target_lang": "zh"}"#);
    assert_eq!(super::writing::translate(&of_many, Some("en"), Some("zh")).unwrap(), ["你好"]);
    assert!(super::writing::translate(&of_many, Some("Klingon"), None).is_err());
}

/// Words of both languages stand before the text, so one of them alone was once ignored.
#[test]
fn a_t5_is_not_told_the_language_to_read_alone() {
    let file = |name: &str| -> &'static [u8] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
        std::fs::read(folder).unwrap().leak()
    };
    let text = |name: &str| std::str::from_utf8(file(name)).unwrap();
    let files = Files {
        config: text("hf/t5/config.json"),
        generation: text("hf/t5/generation_config.json"),
        tokenizer: TINY,
        tokenizer_config: "{}",
        weights: vec![("model.safetensors", file("hf/t5/model.safetensors"))].leak(),
    };
    let generator = TextGenerator::from_files(&files, Arc::new(Cpu::new(2))).unwrap();
    assert!(matches!(translate(&generator, Some("fr"), None), Err(Error::Option { option: "from", .. })));
    for (from, to) in [(None, None), (None, Some("de")), (Some("fr"), Some("de"))] {
        translate(&generator, from, to).unwrap();
    }
}

/// A tokenizer of three words.
const TINY: &str =
    r#"{"model": {"type": "WordLevel", "vocab": {"<unk>": 0, "Hello": 1, "</s>": 2}, "unk_token": "<unk>"}}"#;

/// One word, told these languages.
fn translate(generator: &TextGenerator, from: Option<&str>, to: Option<&str>) -> Result<Vec<String>, Error> {
    let [from, to] = [from, to].map(|name| name.map(str::to_owned));
    let mut generate = generator.default_options();
    generate.decoding.max_new_tokens = Some(8);
    generator.translate(&["Hello"], &Translate { generate: Some(generate), from, to, split: Split::Long })
}

#[test]
fn lines_and_blank_lines_stay_where_they_were() {
    let (generator, _) = open("languages");
    let mut generate = generator.default_options();
    generate.decoding.max_new_tokens = Some(5);
    let (from, to) = (Some("en".to_owned()), Some("fr".to_owned()));
    let options = Translate { generate: Some(generate), from, to, split: Split::Always };
    let one = |text: &str| generator.translate(&[text], &options).unwrap().remove(0);
    let (cat, dog) = (one("The cat sat."), one("The dog ran!"));
    assert_eq!(one(""), "");
    assert_eq!(one("\n  \n"), "\n  \n");
    assert_eq!(one("  The cat sat.\n\nThe dog ran!\n"), format!("  {cat}\n\n{dog}\n"));
    let both = one("The cat sat. The dog ran!");
    assert!(both.starts_with(&cat) && both.ends_with(&dog), "{both:?} of {cat:?} and {dog:?}");
}

#[test]
fn likelihoods_are_the_references() {
    let close = |found: &[ScoredToken], expected: &Value| {
        let expected: Vec<f32> = list(expected).iter().map(|log| log.as_f64().unwrap() as f32).collect();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().map(|token| token.logprob).zip(expected) {
            assert!((found - expected).abs() < 1e-4, "{found} where {expected} was expected");
        }
    };
    let encoder = |name: &str| TextEncoder::open(folder(name), Arc::new(Cpu::new(2))).unwrap();
    let (_, story) = open("story");
    let texts: Vec<Input<'_>> =
        list(&story["scored"]).iter().map(|one| Input::One(text(&one["text"]))).collect();
    let found = encoder("story").score(&texts, Long::Refuse).unwrap();
    for (found, expected) in found.iter().zip(list(&story["scored"])) {
        close(&found.tokens, &expected["logs"]);
        let mean = found.total / found.tokens.len() as f64;
        assert!((found.perplexity() - (-mean).exp()).abs() < 1e-9);
    }
    let (_, languages) = open("languages");
    let pair = &languages["scored"][0];
    let input = Input::Pair(text(&pair["source"]), text(&pair["target"]));
    close(&encoder("languages").score(&[input], Long::Refuse).unwrap()[0].tokens, &pair["logs"]);
    // An encoder scores each word given all others.
    let found = encoder("fill").score(&[Input::One("The cat sat.")], Long::Refuse).unwrap();
    assert_eq!(found[0].tokens.len(), 4);
    assert!(found[0].tokens.iter().all(|token| token.logprob.is_finite() && token.logprob < 0.0));
    assert!(matches!(encoder("tags").score(&[Input::One("cat")], Long::Refuse), Err(Error::Head { .. })));
}

/// A flag that asked for it was once accepted and then hinted at.
#[test]
fn a_prompt_that_is_too_long_loses_its_beginning() {
    let (generator, _) = open("story");
    let mut options = generator.default_options();
    options.long = Long::Cut;
    options.decoding.max_new_tokens = Some(8);
    let write = |begin: &str, end: &str| {
        let prompt = format!("{begin} {} {end}", "the cat sat on the mat ".repeat(40));
        generator.generate(&[&prompt], &options, &mut silent).unwrap().remove(0).remove(0)
    };
    let found = write("Ann", "The dog");
    assert_eq!(found.ids.len(), 8, "what was asked for has its room");
    assert_eq!(found, write("Once upon a time Bob", "The dog"));
    assert_ne!(found, write("Ann", "Paris"));
}

#[test]
fn bad_wishes_are_refused_with_a_reason() {
    let (generator, _) = open("story");
    let ask = |change: &dyn Fn(&mut Generate)| {
        let mut options = generator.default_options();
        change(&mut options);
        generator.generate(&["The cat"], &options, &mut silent)
    };
    assert!(ask(&|options| options.decoding.beams = 0).is_err());
    assert!(ask(&|options| options.decoding.beams = 1_000_000).is_err());
    assert!(ask(&|options| options.decoding.repetition_penalty = f64::NAN).is_err());
    // A billion tokens are as many as the model has positions for.
    let written = ask(&|options| options.decoding.max_new_tokens = Some(1_000_000_000)).unwrap();
    assert!(written[0][0].ids.len() < 64);
    assert!(matches!(
        generator.generate(&[""], &generator.default_options(), &mut silent),
        Err(Error::Text { text: 0, .. })
    ));
    let long = "cat ".repeat(100);
    let refused = generator.generate(&["The cat", &long], &generator.default_options(), &mut silent);
    assert!(matches!(refused, Err(Error::Long { text: 1, limit: 64, .. })));
}
