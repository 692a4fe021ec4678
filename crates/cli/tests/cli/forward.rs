//! `glassformer forward`.

use std::path::{Path, PathBuf};

use glassformer::formula::named;
use glassformer::{Forward, Reference, Sequence, Weights, tensor};

use super::{SMALL, decoder, encoder, encoder_decoder, folder, run, saved};

/// Runs `forward` and opens what it wrote.
#[track_caller]
fn forward(test: &str, model: &str, args: &[&str]) -> Weights {
    let out = out(test);
    let ran = run(&[&["forward", "--model", model, "--out", out.to_str().unwrap()], args].concat());
    assert!(ran.err.contains("tensors to"), "{}", ran.err);
    assert_eq!(ran.ok(), "");
    Weights::open(out).unwrap()
}

fn out(test: &str) -> PathBuf {
    folder(&format!("{test}_out")).join("out.safetensors")
}

#[test]
fn an_encoder_decoder_gives_source_hidden_and_logits_of_every_sequence() {
    let (_, model) = saved("forward_pair", encoder_decoder());
    let args = ["--ids", "5 17 9", "--target-ids", "0 4", "--ids", "3,2", "--target-ids", "0 1 2 3"];
    let weights = forward("forward_pair", &model, &args);
    let shapes: Vec<(&str, &[usize])> =
        weights.names().map(|name| (name, weights.shape(name).unwrap())).collect();
    let expected: [(&str, &[usize]); 6] = [
        ("0.hidden", &[2, 8]),
        ("0.logits", &[2, 15]),
        ("0.source", &[3, 8]),
        ("1.hidden", &[4, 8]),
        ("1.logits", &[4, 15]),
        ("1.source", &[2, 8]),
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn a_sequence_alone_and_in_a_batch_gives_the_same_bits() {
    let (_, model) = saved("forward_batch", decoder());
    let both = forward("forward_both", &model, &["--ids", "7 1", "--ids", "5 17 9"]);
    let alone = forward("forward_alone", &model, &["--ids", "5 17 9"]);
    for name in ["hidden", "logits"] {
        let (a, b) = (both.get(&format!("1.{name}")).unwrap(), alone.get(&format!("0.{name}")).unwrap());
        assert_eq!(a.values(), b.values(), "{name}");
    }
}

#[test]
fn the_file_holds_what_the_engine_computes() {
    let (model, folder) = saved("forward_engine", encoder());
    let written = forward("forward_engine", &folder, &["--ids", "5 17 9", "--types", "0 0 1"]);
    let sequence = Sequence { source: vec![5, 17, 9], types: vec![0, 0, 1], ..Sequence::default() };
    let reference = Forward::whole(&model, &Reference, &[sequence]).unwrap();
    for name in ["hidden", "logits"] {
        let found = written.get(&format!("0.{name}")).unwrap();
        let expected = reference.output(name).unwrap().unwrap().numbers;
        tensor::compare(&found.values(), &expected, tensor::Tolerance::both(1e-4)).unwrap();
    }
}

#[test]
fn global_positions_change_what_the_others_see() {
    let (_, model) = saved("forward_global", named::longformer(SMALL, 1));
    let ids = "1 2 3 4 5 6";
    let without = forward("forward_local", &model, &["--ids", ids]);
    let with = forward("forward_globally", &model, &["--ids", ids, "--global", "0"]);
    assert_ne!(without.get("0.hidden").unwrap().values(), with.get("0.hidden").unwrap().values());
    for test in ["forward_local", "forward_globally"] {
        let file = folder(&format!("{test}_again")).join("out.safetensors");
        let globally: &[&str] = if test == "forward_local" { &[] } else { &["--global", "0"] };
        let args = ["forward", "--model", &model, "--ids", ids, "--out", file.to_str().unwrap()];
        run(&[&args, globally].concat()).ok();
        let equal = run(&["verify", "--model", &model, "--against", file.to_str().unwrap()]).ok();
        assert!(equal.starts_with("equal: "), "{test}: {equal}");
    }
}

#[test]
fn ids_come_from_standard_input_too() {
    let (_, model) = saved("forward_input", decoder());
    let out = out("forward_input");
    let args = ["forward", "--model", &model, "--ids", "-", "--out", out.to_str().unwrap(), "-q"];
    let ran = super::run_with_input(&args, b"5 17\n9\n");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_eq!(Weights::open(out).unwrap().shape("0.hidden"), Some(&[3, 8][..]));
}

#[test]
fn bad_ids_are_refused_with_a_hint() {
    let (_, model) = saved("forward_bad", decoder());
    let out = out("forward_bad");
    let refuse = |args: &[&str]| {
        let ran = run(&[&["forward", "--model", &model, "--out", out.to_str().unwrap()], args].concat());
        assert!(!Path::new(&out).exists());
        ran
    };
    refuse(&["--ids", "5 seventeen"]).refused_with("\"seventeen\" is not a whole number", "--ids \"5 17 9\"");
    refuse(&["--ids", "5 -1"]).refused_with("\"-1\" is not", "--ids");
    refuse(&["--ids", "4294967296"]).refused_with("\"4294967296\"", "--ids");
    refuse(&["--ids", " , "]).refused_with("--ids lists no numbers", "--ids");
    refuse(&["--ids", "5 20"]).refused_with("id 20", "vocabulary");
    refuse(&["--ids", "0 1 2 3 4 5 6 7 8 9 10 11 12"]).refused_with("position 12", "shorten");
    refuse(&[]).refused("--ids <IDS>");
}

#[test]
fn flags_that_the_model_would_ignore_are_refused() {
    let (_, decoder) = saved("forward_flags_decoder", decoder());
    let (_, encoder) = saved("forward_flags_encoder", encoder());
    let (_, pair) = saved("forward_flags_pair", encoder_decoder());
    let out = out("forward_flags");
    let refuse = |model: &str, args: &[&str]| {
        run(&[&["forward", "--model", model, "--out", out.to_str().unwrap(), "--ids", "5 6"], args].concat())
    };
    refuse(&decoder, &["--target-ids", "1"]).refused_with("one stack", "leave --target-ids out");
    refuse(&decoder, &["--types", "0 0"]).refused_with("no token types", "leave --types out");
    refuse(&encoder, &["--global", "0"]).refused_with("no global attention", "leave --global out");
    refuse(&encoder, &["--types", "0"]).refused_with("1 types for 2 ids", "one type for each id");
    refuse(&encoder, &["--types", "0 2"]).refused_with("id 2", "vocabulary");
    refuse(&encoder, &["--types", "0 0", "--types", "1 1"]).refused_with("2 times for 1 sequences", "i-th");
    refuse(&pair, &[]).refused_with("sequence 0: its target is empty", "decoder");
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let (_, model) = saved("forward_unwritable", decoder());
    let out = folder("forward_unwritable_out").join("no/such/folder/out.safetensors");
    run(&["forward", "--model", &model, "--ids", "5", "--out", out.to_str().unwrap()])
        .refused("no/such/folder");
}
