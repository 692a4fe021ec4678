//! `glassformer formula`.

use std::fs;

use glassformer::formula::NAMES;

use super::{encoder, folder, run, run_with_input, saved};

#[test]
fn every_name_is_printed_in_every_notation() {
    for name in NAMES {
        for notation in ["unicode", "latex", "mathml", "toml", "json"] {
            let text = run(&["formula", "--name", name, "--notation", notation]).ok();
            assert!(text.len() > 20 && text.ends_with('\n'), "{name} as {notation}: {text}");
        }
    }
}

/// Only base sizes could be printed.
#[test]
fn every_name_has_sizes_that_can_be_given() {
    for name in NAMES {
        let base = ["formula", "--name", name, "--notation", "toml"];
        let small = ["--width", "64", "--layers", "2", "--vocabulary", "500", "--length", "40"];
        let text = run(&[&base[..], &small].concat()).ok();
        assert!(text.contains("width = 64"), "{name}: {text}");
        assert!(text.contains("vocabulary = 500") || name == "vit", "{name}: {text}");
        assert_eq!(run_with_input(&["formula", "-", "--notation", "toml"], text.as_bytes()).ok(), text);
    }
    let three = run(&[
        "formula",
        "--name",
        "bert-classifier",
        "--width",
        "64",
        "--classes",
        "3",
        "--notation",
        "toml",
    ]);
    assert!(three.ok().contains("count = 3"));
    run(&["formula", "--name", "bert", "--width", "64", "--heads", "5"]).refused("5");
    run(&["formula", "--name", "bert", "--width", "0"]).refused_with("width", "other sizes");
    run(&["formula", "--name", "llama", "--layers", "18446744073709551615"]).refused("cannot be meant");
    run(&["formula", "--width", "64", "-"]).refused("--name");
}

#[test]
fn what_was_written_can_be_read_back() {
    let printed = run(&["formula", "--name", "t5"]).ok();
    for notation in ["toml", "json"] {
        let text = run(&["formula", "--name", "t5", "--notation", notation]).ok();
        assert_eq!(run_with_input(&["formula", "-"], text.as_bytes()).ok(), printed);
        let file = folder(&format!("formula_{notation}")).join("mine.txt");
        fs::write(&file, text).unwrap();
        assert_eq!(run(&["formula", file.to_str().unwrap()]).ok(), printed);
    }
}

#[test]
fn a_models_folder_has_a_formula() {
    let (_, folder) = saved("formula_of_folder", encoder());
    assert!(run(&["formula", &folder, "--definitions"]).ok().starts_with("Y = "));
}

#[test]
fn definitions_follow_the_formula() {
    let text = run(&["formula", "--name", "original", "--definitions"]).ok();
    assert!(text.lines().count() > 5 && text.contains("MultiHead"), "{text}");
    run(&["formula", "--name", "original", "--definitions", "--notation", "toml"])
        .refused_with("--definitions", "unicode");
}

#[test]
fn what_is_no_formula_is_refused_with_its_place() {
    run(&["formula"]).refused("required");
    run(&["formula", "--name", "nobody"]).refused("possible values: original");
    run(&["formula", "/nowhere/at/all.toml"]).refused_with("cannot read", "--name");
    run_with_input(&["formula", "-"], b"surprise = 1\nhead = \"rows\"\n")
        .refused_with("surprise", "--notation toml");
    run_with_input(&["formula", "-"], b"{\"head\": 3}").refused("this JSON is not a formula");
    run_with_input(&["formula", "-"], b"\xff\xfe").refused("cannot read");
    run_with_input(&["formula", "-"], b"head = \"rows\"").refused("neither a source nor a target");
    run_with_input(&["formula", "-"], "[".repeat(100_000).as_bytes()).refused("error:");
    run_with_input(&["formula", "-"], format!("{{{}", "\"a\":{".repeat(100_000)).as_bytes())
        .refused("error:");
}
