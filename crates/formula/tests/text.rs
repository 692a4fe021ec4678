//! Formulas as text: what is written is read back, and what is wrong is named.

use glassformer_formula::named::{Original, original};
use glassformer_formula::{Depth, Formula, NAMES, TextError, check::limits, named, print};

#[test]
fn every_named_formula_comes_back_from_text() {
    for name in NAMES {
        let formula = named(name).unwrap();
        assert_eq!(Formula::from_toml(&formula.to_toml().unwrap()).unwrap(), formula, "{name} as TOML");
        assert_eq!(Formula::from_json(&formula.to_json().unwrap()).unwrap(), formula, "{name} as JSON");
    }
}

#[test]
fn unknown_names_are_none() {
    assert_eq!(named("perceptron"), None);
}

const TINY: &str = r#"
head = "rows"

[source.input.tokens]
vocabulary = 10

[source.stack]
width = 8
depth.layers = 1
position = "none"

[[source.stack.block]]
norm = {}
[source.stack.block.mix.attend]
reach = "both"
heads = { query = 2, key = 2 }
"#;

#[test]
fn a_size_left_out_is_width_over_heads() {
    let formula = Formula::from_toml(TINY).unwrap();
    assert!(formula.to_toml().unwrap().contains("size = 4"));
    let stated = Formula::from_toml(&TINY.replace("key = 2", "key = 2, size = 3")).unwrap();
    assert!(
        stated.to_toml().unwrap().contains("size = 3"),
        "a stated size is kept, though 2 × 3 is not the width"
    );
}

#[test]
fn a_size_left_out_is_filled_in_for_other_layers_too() {
    let text = TINY.replace("depth.layers = 1", "depth.layers = 2");
    let text = format!(
        "{text}
[[source.stack.others]]
layers = [1]
[[source.stack.others.block]]
norm = {{}}
mix.attend = {{ reach = \"both\", heads = {{ query = 4, key = 4 }} }}
[[source.stack.others.block]]
norm = {{}}
reads = \"block\"
mix.feed.plain = {{ hidden = 8, act = \"relu\" }}
"
    );
    let formula = Formula::from_toml(&text).unwrap();
    assert_eq!(
        print::unicode(&formula),
        "Y = ○ₗ₌₀¹[ I + MultiHead ; l ∈ {1}: I + MultiHead′ + FFN ](X)",
        "four heads of 2"
    );
    assert!(formula.to_toml().unwrap().contains("size = 2"));
}

#[test]
fn heads_that_do_not_divide_the_width_are_named() {
    let error = Formula::from_toml(&TINY.replace("query = 2, key = 2", "query = 3, key = 3")).unwrap_err();
    let TextError::Problems(problems) = error else { panic!("{error}") };
    assert_eq!(problems.list().len(), 1, "{problems}");
    assert_eq!(problems.list()[0].field, "source.stack.block[0].mix.attend.heads.query");
    assert_eq!(problems.list()[0].why, "3 heads do not divide the width 8");
    let stated = TINY.replace("query = 2, key = 2", "query = 3, key = 3, size = 4");
    assert!(Formula::from_toml(&stated).is_ok());
}

#[test]
fn a_size_of_zero_is_not_a_size_left_out() {
    let error = Formula::from_toml(&TINY.replace("key = 2", "key = 2, size = 0")).unwrap_err();
    assert!(error.to_string().contains("source.stack.block[0].mix.attend.heads.size: is 0"), "{error}");
}

#[test]
fn unknown_keys_are_named_with_their_place() {
    let toml = |text: &str, parts: &[&str]| {
        let error = Formula::from_toml(text).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "no {part} in: {error}");
        }
    };
    toml(&TINY.replace("vocabulary = 10", "vocabulary = 10\nvocab = 10"), &["line 6, column 1", "vocab"]);
    toml(&TINY.replace("reach", "raech"), &["`raech`", "line 15"]);
    toml(&TINY.replace("\"rows\"", "\"columns\""), &["columns", "line 2"]);
    toml(&TINY.replace("width = 8", "width = -8"), &["line 8", "-8"]);
    toml(&TINY.replace("width = 8", "width = 8\nwidth = 9"), &["duplicate key", "line 9"]);
    let json = named("bert").unwrap().to_json().unwrap();
    for (from, to, part) in [
        ("\"vocabulary\"", "\"vocab\"", "vocab"),
        ("\"epsilon\"", "\"eps\"", "eps"),
        ("\"hidden\": 3072", "\"hidden\": 3072, \"dropout\": 0.1", "dropout"),
    ] {
        let error = Formula::from_json(&json.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("line") && error.contains("column"), "{error}");
    }
}

/// It said "expected usize" and "expected struct Side".
#[test]
fn a_wrong_value_is_told_without_the_names_of_types() {
    for (text, wanted) in [
        ("target.input.tokens.vocabulary = 1.5", "expected a whole number"),
        ("pooler.dense.norm.rms.epsilon = 'x'", "expected a number"),
        ("source = 5", "expected an object"),
        ("head.words = 5", "expected an object"),
        ("head.words.tied = 5", "expected a boolean"),
        ("{\"source\": 5}", "expected an object at line 1 column 12"),
    ] {
        let read = if text.starts_with('{') { Formula::from_json(text) } else { Formula::from_toml(text) };
        let error = read.expect_err(text).to_string();
        assert!(error.contains(wanted), "{error}");
        assert!(!["struct", "usize", "f32"].iter().any(|name| error.contains(name)), "{error}");
    }
}

#[test]
fn a_formula_that_cannot_work_is_not_written() {
    let sizes = Original {
        width: 512,
        heads: 7,
        hidden: 2048,
        source_layers: 6,
        target_layers: 6,
        source_vocabulary: 100,
        target_vocabulary: 100,
    };
    let broken = original(sizes);
    assert!(broken.to_toml().unwrap_err().to_string().contains("7 heads do not divide the width 512"));
    assert!(broken.to_json().is_err());
}

/// `SplitMix64`: enough to choose places and values, and the same everywhere.
struct Seed(u64);

impl Seed {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// The places of all numbers in a JSON text.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut start = None;
    for (index, character) in text.char_indices() {
        let part = character.is_ascii_digit() || (start.is_some() && ".e-+".contains(character));
        match (part, start) {
            (true, None) => start = Some(index),
            (false, Some(first)) => {
                found.push(first..index);
                start = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
    found
}

#[test]
fn no_change_of_numbers_makes_anything_panic() {
    let values = [
        "0",
        "1",
        "2",
        "3",
        "7",
        "-1",
        "1.5",
        "1e-300",
        "1e300",
        "\"NaN\"",
        "\"inf\"",
        "null",
        "[]",
        "{}",
        "true",
        "4294967296",
        "9223372036854775807",
        "18446744073709551615",
        "18446744073709551616",
        "65536",
        "1048576",
    ];
    let mut seed = Seed(7);
    let (mut read, mut refused) = (0, 0);
    for name in NAMES {
        let json = named(name).unwrap().to_json().unwrap();
        let places = numbers(&json);
        for _ in 0..400 {
            let mut text = json.clone();
            // From the last place to the first, so that earlier places stay where they are.
            let mut chosen: Vec<_> =
                (0..=seed.below(3)).map(|_| places[seed.below(places.len())].clone()).collect();
            chosen.sort_by_key(|place| std::cmp::Reverse(place.start));
            chosen.dedup();
            for place in chosen {
                text.replace_range(place, values[seed.below(values.len())]);
            }
            match Formula::from_json(&text) {
                Ok(formula) => {
                    read += 1;
                    assert_eq!(Formula::from_toml(&formula.to_toml().unwrap()).unwrap(), formula);
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
            // Printing must survive formulas that nobody checked.
            if let Ok(unchecked) = serde_json::from_str::<Formula>(&text) {
                print::unicode(&unchecked);
                print::definitions_in(&unchecked, print::Notation::Latex);
                print::definitions_in(&unchecked, print::Notation::Mathml);
            }
        }
    }
    assert!(
        read > 100 && refused > 100,
        "{read} read, {refused} refused: the mutations have lost their teeth"
    );
}

#[test]
fn no_cut_of_a_text_makes_reading_panic() {
    let toml = named("universal_halting").unwrap().to_toml().unwrap();
    let json = named("llama").unwrap().to_json().unwrap();
    (0..toml.len()).step_by(7).for_each(|end| drop(Formula::from_toml(&toml[..end])));
    (0..json.len()).step_by(7).for_each(|end| drop(Formula::from_json(&json[..end])));
}

#[test]
fn the_limits_leave_room_for_every_model_there_is() {
    let mut large = named("llama").unwrap();
    let stack = &mut large.target.as_mut().unwrap().stack;
    stack.width = 1 << 15;
    stack.depth = Depth::Layers(512);
    assert_eq!(large.check(), Ok(()));
    large.target.as_mut().unwrap().stack.width = limits::WIDTH + 1;
    assert!(large.check().is_err());
}
