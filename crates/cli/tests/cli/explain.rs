//! `glassformer explain`.

use super::{command, finish, run};

#[test]
fn explain_tells_the_whole_story_on_stdout_alone() {
    let ran = run(&["explain"]);
    assert_eq!(ran.err, "");
    let text = ran.ok();
    for needed in [
        "cat  3.76  4.24  4.72  5.20",
        "✗ Q_cat   5.5  ✗  6.1  ✗  6.7  ✗  7.3  ✗",
        "next word  猫 (id 2)",
        "next word  坐着 (id 3)",
        "next word  <eos> (id 1)",
        "97 are right, 48 are wrong",
    ] {
        assert!(text.contains(needed), "{needed} is missing");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn the_language_is_asked_for_or_found_in_the_environment() {
    let chinese = |text: &str| text.contains("编码器的输入");
    assert!(chinese(&run(&["explain", "--lang", "zh"]).ok()));
    assert!(chinese(&finish(command(&["explain"]).env("LANG", "zh_CN.UTF-8")).ok()));
    assert!(chinese(&finish(command(&["explain"]).env("LC_ALL", "zh_TW").env("LANG", "en_US.UTF-8")).ok()));
    assert!(!chinese(&finish(command(&["explain", "--lang", "en"]).env("LANG", "zh_CN.UTF-8")).ok()));
    assert!(!chinese(&run(&["explain"]).ok()));
}

#[test]
fn colours_come_only_where_they_are_wanted() {
    let coloured = |text: &str| text.contains('\x1b');
    assert!(!coloured(&run(&["explain"]).ok()), "a pipe is not a terminal");
    assert!(coloured(&run(&["explain", "--color", "always"]).ok()));
    assert!(!coloured(&run(&["explain", "--color", "never"]).ok()));
    assert!(!coloured(&finish(command(&["explain"]).env("NO_COLOR", "1")).ok()));
}

#[test]
fn json_is_versioned_and_whole() {
    let value: serde_json::Value = serde_json::from_str(&run(&["explain", "--json"]).ok()).unwrap();
    assert_eq!(value["schema"], 1);
    assert_eq!(value["score"], serde_json::json!({ "total": 145, "right": 97, "wrong": 48 }));
}

#[test]
fn errata_can_be_had_alone() {
    let text = run(&["explain", "--errata"]).ok();
    assert!(text.contains("✗ Output_cat") && !text.contains("✓ Embedding"), "{text}");
}

#[test]
fn a_text_is_followed_through_the_translator_of_this_program() {
    let ran = run(&["explain", "Good morning"]);
    assert_eq!(ran.err, "");
    let text = ran.ok();
    for needed in ["“Good morning” → “早上好”", "Q · Kᵀ", "softmax", "▁Good", "</s>"] {
        assert!(text.contains(needed), "{needed} is missing");
    }
    let chinese = run(&["explain", "--lang", "zh", "Good morning"]).ok();
    assert!(chinese.contains("途中的每一个数"));
    let value: serde_json::Value =
        serde_json::from_str(&run(&["explain", "--json", "Good morning"]).ok()).unwrap();
    assert_eq!(value["schema"], 1);
    let full = run(&["explain", "--full", "Good morning"]).ok();
    assert!(full.lines().count() > text.lines().count());
}

/// It once followed the most likely tokens where `translate` takes the best of several beams.
#[test]
fn the_answer_is_that_of_the_usual_search() {
    let text = "I have 3 apples. You have 4.";
    let answer = run(&["translate", text]).ok();
    assert_ne!(answer, run(&["translate", "--beams", "1", text]).ok());
    let ran = run(&["explain", "--max-new-tokens", "3", text]);
    assert!(ran.err.contains("the answer goes on after 3 tokens"), "{}", ran.err);
    let told = ran.ok();
    for needed in [format!("“{text}” → “{}”", answer.trim()), "The search followed 4 beams".to_owned()]
    {
        assert!(told.contains(&needed), "{needed} is missing");
    }
    assert!(run(&["explain", "--lang", "zh", "Good morning"]).ok().contains("束搜索同时跟踪 4 条路径"));
}

#[test]
fn any_model_that_writes_can_be_followed() {
    let story = format!("{}/../../fixtures/tasks/story", env!("CARGO_MANIFEST_DIR"));
    let ran = run(&["explain", "--model", &story, "--max-new-tokens", "2", "Once upon a time"]);
    assert!(ran.err.contains("the answer goes on after 2 tokens"), "{}", ran.err);
    let text = ran.ok();
    assert!(text.contains("“Once upon a time” → “") && !text.contains("encoder"), "{text}");
    run(&["explain", "--model", "nowhere", "cat"]).refused_with("nowhere", "a folder with formula.toml");
    run(&["explain", &"cat ".repeat(300)]).refused_with("tokens", "a walk takes 256 at most");
    run(&["explain", " "]).refused_with("the text is empty", "give a sentence");
}
