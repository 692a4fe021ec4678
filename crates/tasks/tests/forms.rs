//! Texts of a given form: whatever the model, and however its tokens are chosen, a text that ended has the form.

use std::path::Path;
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_engine::{Finish, Sampling};
use glassformer_tasks::{Error, Form, Generate, GeneratedText, TextGenerator, silent};
use regex_automata::meta::Regex;
use serde_json::{Value, json};

fn open(name: &str) -> TextGenerator {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tasks").join(name);
    TextGenerator::open(folder, Arc::new(Cpu::new(2))).unwrap()
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 5 },
            "age": { "type": "integer", "minimum": 0, "maximum": 120 },
            "likes": { "enum": ["cats", "dogs", null] },
        },
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

/// The same without gaps between its parts.
fn compact() -> Value {
    let mut schema = schema();
    schema["x-guidance"] = json!({ "whitespace_flexible": false });
    schema
}

/// By hand what the schema says.
fn assert_valid(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let fields = value.as_object().expect("an object");
    let letters = fields["name"].as_str().expect("a name").chars().count();
    assert!((1..=5).contains(&letters), "{text}");
    assert!(fields["age"].as_u64().expect("an age") <= 120, "{text}");
    for (key, value) in fields {
        match key.as_str() {
            "name" | "age" => {}
            "likes" => assert!([json!("cats"), json!("dogs"), Value::Null].contains(value), "{text}"),
            other => panic!("{other} is not among the properties"),
        }
    }
}

/// Every way to choose tokens.
fn ways(usual: &Generate) -> Vec<Generate> {
    let drawn = Sampling { temperature: 1.2, top_k: 40, seed: 3, ..Sampling::default() };
    let several = |mut options: Generate, returns: usize| {
        options.decoding.returns = returns;
        options
    };
    let mut apart = several(usual.clone().beams(4), 2);
    apart.decoding.groups = 2;
    apart.decoding.diversity_penalty = 0.5;
    vec![
        usual.clone(),
        several(usual.clone().sampling(drawn), 4),
        several(usual.clone().beams(3), 3),
        apart,
        usual.clone().beams(2).sampling(drawn),
    ]
}

/// What a model writes in every way, and how many of the texts ended.
fn written(name: &str, form: &Form) -> (Vec<GeneratedText>, usize) {
    let generator = open(name);
    let usual = generator.default_options().form(form.clone()).max_new_tokens(60);
    let write = |options: &Generate| {
        generator.generate(&["the cat"], options, &mut silent).unwrap().into_iter().flatten()
    };
    let texts: Vec<GeneratedText> = ways(&usual).iter().flat_map(write).collect();
    let ended = texts.iter().filter(|text| text.finish == Finish::Eos).count();
    (texts, ended)
}

#[test]
fn json_follows_its_schema() {
    for name in ["story", "talk", "languages"] {
        let (texts, ended) = written(name, &Form::JsonSchema(compact()));
        assert!(ended > 4, "{name}: only {ended} of {} ended", texts.len());
        for text in texts.iter().filter(|text| text.finish == Finish::Eos) {
            assert_valid(&text.text);
        }
    }
}

#[test]
fn a_pattern_is_matched_from_beginning_to_end() {
    let patterns =
        ["(yes|no|perhaps)", "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[a-z]{1,6}( [a-z]{1,6}){2}\\.", "猫(坐|睡)着。"];
    for name in ["story", "languages"] {
        for pattern in patterns {
            let whole = Regex::new(&format!("^(?:{pattern})$")).unwrap();
            let (texts, ended) = written(name, &Form::Regex(pattern.to_owned()));
            assert!(ended > 4, "{name}, {pattern}: only {ended} of {} ended", texts.len());
            for text in texts.iter().filter(|text| text.finish == Finish::Eos) {
                assert!(whole.is_match(&text.text), "{name}: {:?} is no {pattern}", text.text);
            }
        }
    }
}

#[test]
fn any_object_and_what_a_grammar_describes() {
    let generator = open("talk");
    let mut options = generator.default_options().form(Form::Json).max_new_tokens(300);
    // An object of a model that knows nothing need not end; so it is made likelier that it does.
    options.decoding.length_decay = Some((4, 1.5));
    let texts = generator.generate(&["a dog"], &options.beams(2), &mut silent).unwrap();
    for text in texts.iter().flatten().filter(|text| text.finish == Finish::Eos) {
        assert!(serde_json::from_str::<Value>(&text.text).unwrap().is_object(), "{}", text.text);
    }
    let grammar = "start: animal \" and \" animal\nanimal: \"a cat\" | \"a dog\"".to_owned();
    let animals = ["a cat", "a dog"];
    let known: Vec<String> = animals.iter().flat_map(|a| animals.map(|b| format!("{a} and {b}"))).collect();
    let (texts, ended) = written("talk", &Form::Grammar(grammar));
    assert_eq!(ended, texts.len());
    assert!(texts.iter().all(|text| known.contains(&text.text)), "{texts:?}");
}

#[test]
fn a_conversation_answers_in_a_form() {
    let generator = open("talk");
    let options = generator.default_options().form(Form::JsonSchema(schema())).max_new_tokens(200);
    let mut chat = generator.chat(options.beams(2)).unwrap();
    for said in ["who is there?", "and who else?"] {
        let mut heard = String::new();
        let answer = chat.say(said, &mut |piece| {
            heard += piece;
            std::ops::ControlFlow::Continue(())
        });
        let answer = answer.unwrap();
        assert_eq!((answer.finish, &heard), (Finish::Eos, &answer.text));
        assert_valid(&answer.text);
    }
}

#[test]
fn texts_without_a_form_stay_the_same_bits_beside_others() {
    let generator = open("story");
    let mut plain = generator.default_options().max_new_tokens(20);
    plain.decoding.logprobs = Some(0);
    let before = generator.generate(&["Once upon a time"], &plain, &mut silent).unwrap();
    let formed = plain.clone().form(Form::Regex("[a-z ]{3,30}".to_owned()));
    let alone = generator.generate(&["the cat"], &formed, &mut silent).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let beside = generator.generate(&["the cat"], &formed, &mut silent).unwrap();
                    assert_eq!(beside, alone);
                }
            });
        }
        for _ in 0..3 {
            assert_eq!(generator.generate(&["Once upon a time"], &plain, &mut silent).unwrap(), before);
        }
    });
}

/// What is refused, and in which words.
#[track_caller]
fn refused(form: Form, named: &str, said: &str) {
    let generator = open("story");
    let options = generator.default_options().form(form).max_new_tokens(40);
    match generator.generate(&["the cat"], &options, &mut silent) {
        Err(Error::Option { option, what, hint }) => {
            assert_eq!(option, named);
            assert!(what.contains(said) && !hint.is_empty(), "{what}; {hint}");
        }
        Err(Error::Text { what, hint, .. }) => {
            assert!(named.is_empty() && what.contains(said) && !hint.is_empty(), "{what}; {hint}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_kept_to_is_refused() {
    refused(Form::JsonSchema(json!({ "type": "object", "uniqueItems": true })), "schema", "uniqueItems");
    refused(Form::JsonSchema(json!({ "type": "number", "minimum": 3, "maximum": 2 })), "schema", "");
    refused(Form::JsonSchema(json!({ "$ref": "https://example.org/schema" })), "schema", "");
    refused(Form::Regex("(".to_owned()), "regex", "");
    refused(Form::Grammar("start: nothing".to_owned()), "grammar", "");
    refused(Form::Grammar("start: %json {}".to_owned()), "grammar", "JSON schema");
}

#[test]
fn hostile_forms_are_refused() {
    let nested = (0..200).fold(json!({}), |inner, _| json!({ "items": inner }));
    refused(Form::JsonSchema(nested), "schema", "deeper");
    let wide = json!({ "enum": (0..20_000).collect::<Vec<u32>>() });
    refused(Form::JsonSchema(wide), "schema", "bytes");
    refused(Form::Regex("a".repeat(5000)), "regex", "bytes");
    refused(Form::Grammar("// ".repeat(40_000)), "grammar", "bytes");
    let next = |at: usize| json!({ "$ref": format!("#/$defs/a{}", at + 1) });
    let chain = (0..300).map(|at| (format!("a{at}"), json!({ "allOf": [next(at)] })));
    let chain = json!({ "$ref": "#/$defs/a0", "$defs": chain.collect::<serde_json::Map<_, _>>() });
    refused(Form::JsonSchema(chain), "schema", "references");
    // Twenty choices of two, all of which must hold: a million.
    let choice = |at: usize| {
        json!({ "anyOf": [
        { "properties": { (format!("a{at}")): { "type": "string" } } },
        { "properties": { (format!("b{at}")): { "type": "null" } } },
    ] })
    };
    let all = json!({ "allOf": (0..20).map(choice).collect::<Vec<_>>() });
    refused(Form::JsonSchema(all), "schema", "too large");
}
