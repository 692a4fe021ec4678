//! `glassformer explain` asked why.

use std::fs;

use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::{command, finish, folder, run, run_with_input};

fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/tasks/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What is said of the text, and what programs read.
fn asked(args: &[&str]) -> (String, Value) {
    let said = run(&[&["explain", "--no-pager"], args].concat()).ok();
    let json = run(&[&["explain", "--json"], args].concat()).ok();
    (said, serde_json::from_str(&json).unwrap())
}

#[test]
fn the_translator_is_asked_why() {
    let every = ["--lens", "--attribute", "--heads", "--ablate", "heads", "--gradients", "The cat sat"];
    let (said, value) = asked(&every);
    for needed in [
        "“The cat sat” → “猫坐着”",
        "why 猫 at 2?",
        "what it would say after each sublayer",
        "what wrote the score",
        "without each head",
        "which tokens the score hangs on (gradient × input)",
        "what each head looks at",
        "decoder cross-attention: layers down, heads across",
    ] {
        assert!(said.contains(needed), "{needed} is missing:\n{said}");
    }
    assert!(said.lines().all(|line| line.width() <= 80), "{said}");
    assert_eq!((&value["schema"], &value["asked"]["text"]), (&Value::from(1), &Value::from("猫")));
    // The last reading is what the summary says, and the parts are the score.
    let summary: Value = serde_json::from_str(&run(&["explain", "--json", "The cat sat"]).ok()).unwrap();
    let last = value["lens"]["readings"].as_array().unwrap().last().unwrap().clone();
    for (cell, choice) in
        last["cells"].as_array().unwrap().iter().zip(summary["summary"]["choices"].as_array().unwrap())
    {
        assert_eq!(cell["wanted"]["p"], choice["score"]);
        assert_eq!(cell["top"][0]["text"], choice["candidates"][0]["text"]);
    }
    let parts = value["attribution"]["parts"].as_array().unwrap();
    let sum: f64 = parts.iter().map(|part| part["share"].as_f64().unwrap()).sum();
    assert!((sum - value["attribution"]["score"].as_f64().unwrap()).abs() < 1e-4);
    // Six layers and two with two attentions, of five heads each.
    assert_eq!(value["ablation"]["without"].as_array().unwrap().len(), 5 * (6 + 2 * 2));
}

#[test]
fn a_contrast_is_the_difference_of_two_scores() {
    let score = |args: &[&str]| {
        let (_, value) = asked(&[&["--attribute"], args, &["The cat sat"]].concat());
        value["attribution"]["score"].as_f64().unwrap()
    };
    let dog = || {
        let (_, value) = asked(&["--attribute=狗", "--step", "2", "The cat sat"]);
        value["attribution"]["score"].as_f64().unwrap()
    };
    assert!((score(&["--contrast", "狗"]) - (score(&[]) - dog())).abs() < 1e-9);
    run(&["explain", "--attribute", "--contrast", "猫", "The cat sat"]).refused("is no question");
    run(&["explain", "--attribute", "--contrast", "no such token at all", "The cat sat"])
        .refused("is no single token");
    run(&["explain", "--contrast", "狗", "The cat sat"]).refused_with("part of a question", "--attribute");
}

#[test]
fn what_reads_is_asked_too() {
    let (story, blanks, classes) = (fixture("story"), fixture("fill"), fixture("classes"));
    let (tags, spans) = (fixture("tags"), fixture("spans"));
    let cases: [(&[&str], &str); 5] = [
        (&["--model", &story, "--max-new-tokens", "2", "Once upon a time"], "decoder layer 1 self-attention"),
        (&["--model", &blanks, "a [MASK]"], "why p at 3 [MASK]?"),
        (&["--model", &classes, "--contrast", "POSITIVE", "The cat"], "why NEUTRAL and not POSITIVE?"),
        (&["--model", &tags, "The cat"], "encoder layer 1 self-attention"),
        (&["--model", &spans, "Where did the cat sit?", "The cat sat on the mat."], "why start at 10 cat?"),
    ];
    for (args, needed) in cases {
        let questions =
            ["--lens", "--attribute", "--heads", "--ablate", "sublayers", "--gradients=integrated"];
        let said = run(&[&["explain", "--no-pager"], &questions[..], args].concat()).ok();
        assert!(said.contains(needed), "{needed} is missing:\n{said}");
        assert!(said.contains("without each sublayer") && said.contains("of average tokens"), "{said}");
        let chinese = run(&[&["explain", "--no-pager", "--lang", "zh"], &questions[..], args].concat()).ok();
        for english in [" layer ", "head ", "score", "sum ", "encoder", "decoder"] {
            let told = chinese.lines().skip(2).any(|line| line.contains(english));
            assert!(!told, "{english:?} in {chinese}");
        }
    }
}

#[test]
fn edits_are_replayed_from_a_file() {
    let here = folder("why_edits");
    let file = |name: &str, text: &str| {
        let path = here.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let idle =
        file("idle.json", r#"{"schema":1,"edits":[{"do":"scale","value":"target.1.cross.heads","by":1}]}"#);
    let (said, value) = asked(&["--edit", &idle, "The cat sat"]);
    assert!(said.contains("Every score has the bits that it had."), "{said}");
    assert_eq!((&value["effect"]["same_bits"], &value["effect"]["largest"]), (&true.into(), &0.0.into()));
    let cut = r#"{"schema":1,"edits":[
        {"do":"ablate_head","sublayer":"cross","layer":1,"head":4},
        {"do":"patch","value":"source.5.feed.sum","rows":[1],"from":{"text":"The dog sat"}},
        {"do":"cut","sublayer":"cross","layer":0,"query":1,"key":1}]}"#;
    let cut = file("cut.json", cut);
    let (said, value) = asked(&["--edit", &cut, "--lens", "The cat sat"]);
    assert!(said.contains("decoder layer 2 cross-attention, head 5 := zero"), "{said}");
    assert!(said.contains("source.5.feed.sum ← “The dog sat”") && said.contains(": 2 ↛ 2"), "{said}");
    assert_eq!(value["effect"]["same_bits"], false);
    // A dog instead of a cat.
    let after = &value["effect"]["places"][1]["after"];
    assert_eq!(after["top"][0]["text"], "狗", "{after}");
    // The lens is of the edited run.
    let last = value["lens"]["readings"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["cells"][1]["top"], after["top"]);
    // What is given back can be replayed.
    let again = file("again.json", &value["edits"].to_string());
    let (_, second) = asked(&["--edit", &again, "--lens", "The cat sat"]);
    assert_eq!(value["effect"], second["effect"]);
    let piped =
        run_with_input(&["explain", "--no-pager", "--edit", "-", "The cat sat"], &fs::read(&idle).unwrap());
    assert!(piped.ok().contains("the bits that it had"));
}

#[test]
fn edits_that_make_no_sense_are_refused() {
    let here = folder("why_refused");
    let refused = |text: &str, why: &str| {
        let path = here.join("edits.json");
        fs::write(&path, text).unwrap();
        run(&["explain", "--edit", path.to_str().unwrap(), "The cat sat"]).refused(why);
    };
    refused("", "the edits cannot be read");
    refused("{\"schema\":1,\"edits\":[", "the edits cannot be read");
    refused("{\"schema\":9,\"edits\":[]}", "their schema is 9");
    refused("{\"schema\":1,\"edits\":[{\"do\":\"explode\"}]}", "explode");
    refused(&"[".repeat(1_000_000), "the edits cannot be read");
    refused(&" ".repeat(3_000_000), "are read at most");
    refused(
        "{\"schema\":1,\"edits\":[{\"do\":\"scale\",\"value\":\"target.1.cross.head\",\"by\":0}]}",
        "the nearest is \"target.1.cross.heads\"",
    );
    refused(
        "{\"schema\":1,\"edits\":[{\"do\":\"ablate_head\",\"layer\":18446744073709551615,\"head\":0}]}",
        "the nearest is",
    );
    refused(
        "{\"schema\":1,\"edits\":[{\"do\":\"ablate_head\",\"layer\":0,\"head\":7}]}",
        "there is no head 7",
    );
    refused(
        "{\"schema\":1,\"edits\":[{\"do\":\"cut\",\"layer\":0,\"query\":99,\"key\":0}]}",
        "there is no query 99",
    );
    run(&["explain", "--edit", "nowhere.json", "The cat sat"]).refused("nowhere.json");
    run(&["explain", "--lens"]).refused("required");
    run(&["explain", "--lens", "--full", "x"]).refused("cannot be used with");
    run(&["explain", "--lens", "--step", "99", "The cat sat"])
        .refused_with("there is no step 99", "from 1 to");
    run(&["explain", "--lens", " "]).refused_with("the text is empty", "give a sentence");
}

/// Of a model that only gives vectors, heads can be asked.
#[test]
fn a_model_without_scores_says_so() {
    let sentences = fixture("sentences");
    run(&["explain", "--lens", "--model", &sentences, "The cat"])
        .refused_with("no head that scores", "--heads");
    assert!(run(&["explain", "--heads", "--model", &sentences, "The cat"]).ok().contains("the token before"));
}

#[test]
fn heat_maps_follow_what_the_terminal_says() {
    let shown = |variables: &[(&str, &str)], colour: &str| {
        let mut command =
            command(&["explain", "--layer", "2", "--head", "1", "--color", colour, "The cat sat"]);
        command.env_remove("COLORTERM").envs(variables.iter().copied());
        finish(&mut command).ok()
    };
    let all = shown(&[("COLORTERM", "truecolor"), ("TERM", "xterm")], "always");
    assert!(all.contains("\x1b[48;2;"), "{all}");
    let some = shown(&[("TERM", "xterm-256color")], "always");
    assert!(some.contains("\x1b[48;5;") && !some.contains("48;2;"), "{some}");
    let blocks = shown(&[], "auto");
    assert!(blocks.contains("▓") && !blocks.contains('\x1b'), "{blocks}");
    let letters = shown(&[("TERM", "dumb")], "auto");
    assert!(letters.contains(".:-=+*#%@") || letters.contains('@') && !letters.contains("▓"), "{letters}");
    assert_eq!(shown(&[("NO_COLOR", "1"), ("COLORTERM", "truecolor")], "auto"), blocks);
}
