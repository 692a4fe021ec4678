//! The verbs that read text: arguments, files and standard input, order, JSON, and what they refuse.

use std::fs;

use serde_json::Value;

use super::{folder, run, run_into_closed_pipe, run_with_input};

/// A tiny model with a tokenizer.
fn model(name: &str) -> String {
    format!("{}/../../fixtures/tasks/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn outputs(text: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(text).unwrap();
    assert_eq!(document["schema"], 1);
    document["outputs"].as_array().unwrap().clone()
}

#[test]
fn texts_come_from_arguments_files_and_standard_input_in_order() {
    let path = folder("tasks_files").join("texts.txt");
    fs::write(&path, "the dog ran\r\n\nthe red cat\n").unwrap();
    let model = model("classes");
    let args = ["classify", "--model", &model, "--json", "--file", path.to_str().unwrap(), "a cat", "-"];
    let mixed = outputs(&run_with_input(&args, b"big dog\nbig cat").ok());
    let alone = |text: &str| outputs(&run(&["classify", "--model", &model, "--json", text]).ok())[0].clone();
    let texts = ["a cat", "big dog", "big cat", "the dog ran", "", "the red cat"];
    assert_eq!(mixed, texts.map(alone));
}

#[test]
fn data_without_a_text_is_refused() {
    let path = folder("evaluate_nothing").join("nothing.txt");
    for nothing in ["", "\n", "\n  \n"] {
        fs::write(&path, nothing).unwrap();
        run(&["evaluate", "--model", &model("story"), path.to_str().unwrap()])
            .refused("there is no text in it");
    }
}

#[test]
fn many_lines_keep_their_order_across_batches() {
    let model = model("classes");
    let words = ["cat", "dog", "big red dog", "the river bank and the mat", "Paris"];
    let lines: Vec<&str> = (0..700).map(|i| words[i * i % words.len()]).collect();
    let many = outputs(
        &run_with_input(&["classify", "--model", &model, "--json"], lines.join("\n").as_bytes()).ok(),
    );
    let few = outputs(
        &run_with_input(&["classify", "--model", &model, "--json"], words.join("\n").as_bytes()).ok(),
    );
    let place = |line: &&str| words.iter().position(|word| word == line).unwrap();
    let expected: Vec<&Value> = lines.iter().map(|line| &few[place(line)]).collect();
    assert!(many.iter().eq(expected));
}

#[test]
fn each_verb_prints_lines_for_people() {
    let fill = run(&["fill", "--model", &model("fill"), "--top", "2", "The cat [MASK] on the mat."]).ok();
    assert_eq!(fill.lines().count(), 2, "{fill}");
    assert!(fill.lines().all(|line| line.contains("on the mat.")), "{fill}");
    let tag = run(&["tag", "--model", &model("tags"), "Ann lives in Paris."]).ok();
    assert!(tag.starts_with("Ann lives in Paris.\n  0."), "{tag}");
    let args = [
        "answer",
        "--model",
        &model("spans"),
        "--context",
        "Ann lives in Paris.",
        "--top",
        "2",
        "Who lives?",
    ];
    let answer = run(&args).ok();
    assert_eq!(answer.lines().count(), 2, "{answer}");
}

#[test]
fn a_context_can_come_from_a_file_or_after_a_tab() {
    let path = folder("tasks_context").join("context.txt");
    fs::write(&path, "Ann lives in Paris.").unwrap();
    let model = model("spans");
    let given = |more: &[&str]| {
        let args = ["answer", "--model", &model, "--json", "--top", "3"];
        outputs(&run(&[&args[..], more].concat()).ok())
    };
    let expected = given(&["--context", "Ann lives in Paris.", "Who lives?"]);
    assert_eq!(given(&["--context-file", path.to_str().unwrap(), "Who lives?"]), expected);
    assert_eq!(given(&["Who lives?\tAnn lives in Paris."]), expected);
    run(&["answer", "--model", &model, "Who lives?"]).refused_with("there is no context", "--context");
    run(&["answer", "--model", &model, "--context", "", "Who lives?"])
        .refused_with("its context is empty", "give a text");
    // As long as may be is as long as the context.
    let all = given(&["--longest", "99", "--context", "Ann lives in Paris.", "Who lives?"]);
    let most = usize::MAX.to_string();
    assert_eq!(given(&["--longest", &most, "--context", "Ann lives in Paris.", "Who lives?"]), all);
}

#[test]
fn what_a_task_cannot_use_is_refused_with_a_hint() {
    let fill = model("fill");
    run(&["fill", "--model", &fill, "no blank"]).refused_with("text 1: there is no blank", "[MASK]");
    run(&["tag", "--model", &fill, "cat"]).refused_with("needs a model with a head for tags", "show");
    let long = "cat ".repeat(100);
    run(&["classify", "--model", &model("classes"), &long]).refused_with("102 tokens", "--truncate");
    run(&["classify", "--model", &model("classes"), "--truncate", &long]).ok();
    run(&["fill", "--model", &fill, "--file", "/no/such/file"]).refused_with("/no/such/file", "--file takes");
    let ran = run_with_input(&["fill", "--model", &fill], b"[MASK]\n\xff\xfe\n");
    ran.refused_with("line 2 of standard input is not UTF-8", "iconv");
    // The number of a bad line counts all lines, whatever batch it falls into.
    let lines = "[MASK]\n".repeat(300) + "no blank\n";
    let ran = run_with_input(&["fill", "--model", &fill, "--top", "1"], lines.as_bytes());
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("text 301: there is no blank"), "{}", ran.err);
}

#[test]
fn nothing_in_is_nothing_out() {
    let classes = model("classes");
    assert_eq!(
        run_with_input(&["classify", "--model", &classes, "--json"], b"").ok(),
        "{\"schema\":1,\"outputs\":[]}\n"
    );
    assert_eq!(run_with_input(&["classify", "--model", &classes], b"").ok(), "");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let ran = run_into_closed_pipe(&["classify", "--model", &model("classes"), "cat", "dog"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

/// `show FOLDER` was once an unexpected argument.
#[test]
fn the_first_argument_is_the_model_where_no_text_can_be() {
    let (tags, talk) = (model("tags"), model("talk"));
    let file = folder("usual_model").join("run.safetensors");
    let file = file.to_str().unwrap();
    for flag in [&[][..], &["--model"]] {
        let ran = |verb: &str, more: &[&str]| run(&[&[verb], flag, &[&tags], more].concat());
        assert!(ran("show", &[]).ok().contains("B-PER"));
        ran("forward", &["--ids", "2 6 7 3", "--out", file]).ok();
        assert!(ran("verify", &["--against", file]).ok().starts_with("equal: "));
        assert!(ran("bench", &["--length", "4", "--batch", "1", "--rounds", "1"]).ok().contains("encode 4"));
    }
    for verb in ["show", "bench"] {
        run(&[verb, &tags, "--model", &tags]).refused("cannot be used with");
        run(&[verb]).refused_with("there is no model", "folder");
        run(&[verb, "no-such-model"]).refused_with("no-such-model", "folder");
    }
    run(&["embed", "a text"]).refused_with("there is no model", "folder");
    // Behind --model every argument of a conversation is something to say.
    let answer = run(&["chat", &talk, "the cat", "--max-new-tokens", "4"]).ok();
    assert_eq!(run(&["chat", "--model", &talk, "the cat", "--max-new-tokens", "4"]).ok(), answer);
    run(&["chat", &talk, "--json"]).refused_with("--json", "say something");
}

#[test]
fn a_card_says_what_a_model_can_do() {
    let card = run(&["show", "--model", &model("tags")]).ok();
    for part in [
        "kind        bert",
        "formula     Y = ",
        "B-PER",
        "79 tokens",
        "64 tokens at most",
        "✓ tag",
        "– fill needs",
    ] {
        assert!(card.contains(part), "{part} in {card}");
    }
    let json: Value =
        serde_json::from_str(&run(&["show", "--model", &model("tags"), "--json"]).ok()).unwrap();
    assert_eq!(json["labels"][1], "B-PER");
    let parts: u64 = json["parts"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(json["parameters"].as_u64(), Some(parts));
    let tensors = run(&["show", "--model", &model("tags"), "--tensors"]).ok();
    assert!(tensors.contains("classifier.weight  F32  [5, 16]"), "{tensors}");
}

#[test]
fn a_run_equals_what_it_wrote_and_a_difference_is_named() {
    let folder = folder("tasks_verify");
    let file = folder.join("run.safetensors");
    let file = file.to_str().unwrap();
    let tags = model("tags");
    let args = ["forward", "--model", &tags, "--ids", "2 6 7 3", "--ids", "2 3", "--trace", "--out", file];
    run(&args).ok();
    let equal = run(&["verify", "--model", &tags, "--against", file]).ok();
    assert!(equal.starts_with("equal: "), "{equal}");
    // Another head on another stack: the very first node differs.
    let other = run(&["verify", "--model", &model("fill"), "--against", file]);
    assert_eq!(other.code, Some(1), "{}", other.err);
    assert!(other.out.starts_with("different: sequence 0, source.embed"), "{}", other.out);
    let json = run(&["verify", "--model", &model("fill"), "--against", file, "--json"]);
    assert_eq!((json.code, &outputs(&json.out)[1]["equal"]), (Some(1), &Value::Bool(false)));
    let weights = format!("{tags}/model.safetensors");
    run(&["verify", "--model", &tags, "--against", &weights])
        .refused_with("nothing to compare", "forward --out");
    run(&["verify", "--model", &tags, "--against", file, "--tolerance", "NaN"]).refused("--tolerance");
}
