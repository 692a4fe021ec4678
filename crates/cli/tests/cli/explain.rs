//! `glassformer explain`.

use std::fs;
use std::path::Path;

use super::{command, decoder, finish, folder, run, saved};

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
    let value: serde_json::Value =
        serde_json::from_str(&run(&["explain", "--errata", "--json"]).ok()).unwrap();
    assert_eq!(value["schema"], 1);
    let errata = value["errata"].as_array().unwrap();
    assert!(!errata.is_empty() && value.get("steps").is_none(), "{value}");
}

/// Everything came at once: thousands of lines, before anyone could see what they were about.
#[test]
fn a_summary_of_one_screen_comes_first_and_numbers_where_they_are_asked_for() {
    let ran = run(&["explain", "Good morning"]);
    assert_eq!(ran.err, "");
    let summary = ran.ok();
    assert!(summary.lines().count() <= 30, "{summary}");
    for needed in ["“Good morning” → “早上好”", "␣Good", "</s>", "who looks at whom", "--layer 1"]
    {
        assert!(summary.contains(needed), "{needed} is missing");
    }
    let part = |args: &[&str]| run(&[&["explain"], args, &["Good morning"]].concat()).ok();
    let layer = part(&["--layer", "2"]);
    assert!(layer.contains("source.1.attend.scores") && !layer.contains("source.0.attend"), "{layer}");
    let head = part(&["--layer", "2", "--head", "3"]);
    assert!(head.contains("head 3") && !head.contains("head 2"), "{head}");
    let step = part(&["--step", "1"]);
    assert!(step.contains("S = Q · Kᵀ / √64") && step.contains("step.1"), "{step}");
    assert!(part(&["--full"]).lines().count() > layer.lines().count());
    let value: serde_json::Value = serde_json::from_str(&part(&["--json"])).unwrap();
    assert_eq!(value["schema"], 1);
    assert_eq!(value["summary"]["tokens"][0]["text"], "␣Good");
    for (what, most) in [("layer", 6), ("head", 5), ("step", 4)] {
        run(&["explain", &format!("--{what}"), "99", "Good morning"])
            .refused_with(&format!("there is no {what} 99"), &format!("from 1 to {most}"));
    }
}

/// "途中的每一个数" stood beside "Encoder" and "next word".
#[test]
fn in_chinese_no_english_is_left() {
    let folder = |name: &str| format!("{}/../../fixtures/tasks/{name}", env!("CARGO_MANIFEST_DIR"));
    let (fill, spans, tags) = (folder("fill"), folder("spans"), folder("tags"));
    let followed: [&[&str]; 5] = [
        &["早上好"],
        &["--full", "早上好"],
        &["--model", &fill, "--full", "[MASK]"],
        &["--model", &spans, "--full", "？", "。"],
        &["--model", &tags, "--full", "。"],
    ];
    for args in followed {
        let text = run(&[&["explain", "--lang", "zh"], args].concat()).ok();
        for line in text.lines() {
            // Names of values, symbols, flags, and tokens are the same in all languages.
            let prose = line.split_whitespace().filter(|word| word.chars().all(|c| c.is_ascii_alphabetic()));
            let words: Vec<&str> = prose.filter(|word| word.len() > 4).collect();
            assert!(words.len() < 3, "{line}");
        }
        for english in ["layer 1", "head 1", " the ", "start", "Encoder", "chosen", "who looks"] {
            let told = text.lines().filter(|line| !line.contains("--")).any(|line| line.contains(english));
            assert!(!told, "{english:?} in {text}");
        }
    }
}

/// Only what writes could be followed.
#[test]
fn what_reads_is_followed_to_its_blanks_classes_tags_and_answers() {
    let told = |folder: &str, texts: &[&str]| {
        let folder = format!("{}/../../fixtures/tasks/{folder}", env!("CARGO_MANIFEST_DIR"));
        let text = run(&[&["explain", "--model", &folder], texts].concat()).ok();
        assert!(text.lines().count() <= 30, "{text}");
        text
    };
    let has = |text: &str, needed: &[&str]| {
        for needed in needed {
            assert!(text.contains(needed), "{needed} is missing: {text}");
        }
    };
    has(&told("fill", &["a [MASK]"]), &["[MASK]  p  ← p 0.7811"]);
    has(&told("classes", &["The cat"]), &["NEUTRAL  ← NEUTRAL 0.9999"]);
    has(&told("tags", &["The cat"]), &["[CLS]  B-PER  ← B-PER 0.4924", "the    I-LOC"]);
    let answer = told("spans", &["Where did the cat sit?", "The cat sat on the mat."]);
    has(&answer, &["start  10 cat  ←", "end    15 .    ←", "Start and end are chosen together"]);
}

/// `--lang zh` said this in English, and in English it said "1 tokens".
#[test]
fn that_an_answer_goes_on_is_said_in_the_language_of_the_rest() {
    let story = format!("{}/../../fixtures/tasks/story", env!("CARGO_MANIFEST_DIR"));
    let said = |args: &[&str]| run(&[&["explain", "--model", &story, "Once upon a time"], args].concat()).err;
    let one = said(&["--max-new-tokens", "1"]);
    assert!(one.contains("the answer goes on after 1 token;"), "{one}");
    let chinese = said(&["--max-new-tokens", "2", "--lang", "zh"]);
    assert!(chinese.contains("答案在 2 个词元之后还没有结束"), "{chinese}");
}

/// Errata alone spoke of "the document" without a word about which.
#[test]
fn errata_say_which_document_they_are_about() {
    let text = run(&["explain", "--errata"]).ok();
    assert!(text.contains("The document is a Chinese introduction to the Transformer"), "{text}");
    assert!(run(&["explain", "--errata", "--lang", "zh"]).ok().contains("“文档”指一篇介绍"));
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
    run(&["explain", &"cat ".repeat(300)]).refused_with("tokens", "256 at most");
    run(&["explain", " "]).refused_with("the text is empty", "give a sentence");
}

#[test]
fn a_page_has_the_run_inside_and_asks_nobody() {
    let folder = folder("explain-html");
    let file = folder.join("cat.html");
    let path = file.display().to_string();
    let ran = run(&["explain", "--html", &path, "The cat sat"]);
    assert!(ran.err.contains("wrote") && ran.err.contains("cat.html"), "{}", ran.err);
    ran.ok();
    let page = fs::read_to_string(&file).expect("it is there");
    assert!(page.contains("default-src 'none'") && page.contains("猫坐着"));
    let inside = |id: &str| {
        page.split_once(&format!(" id=\"{id}\">")).and_then(|(_, rest)| rest.split_once("</script>"))
    };
    let trace: serde_json::Value =
        serde_json::from_str(inside("trace").expect("a run").0).expect("it is JSON");
    assert_eq!(trace["answer"]["text"], "猫坐着");
    assert!(inside("tensors").expect("numbers").0.len() > 100_000 && inside("document").is_some());
    assert!(page.len() < 2_500_000, "{}", page.len());
    run(&["explain", "--html", "/no/such/folder/a.html", "cat"]).refused_with("/no/such/folder", "");
    run(&["explain", "--html", &path, " "]).refused_with("the text is empty", "give a sentence");
    run(&["explain", "--model", "anything"]).refused_with("there is no text", "give a sentence");
}

/// The bytes of both files of a trace.
fn bytes(folder: &Path) -> [Vec<u8>; 2] {
    ["trace.json", "trace.safetensors"].map(|name| fs::read(folder.join(name)).unwrap())
}

#[test]
fn a_run_is_written_as_files_and_verified() {
    let out = folder("explain_trace").join("a").join("b");
    let path = out.to_str().unwrap();
    let ran = run(&["explain", "--trace", path, "--level", "full", "Good morning"]);
    assert!(ran.err.starts_with("wrote ") && ran.err.contains(path), "{}", ran.err);
    assert_eq!(ran.ok(), "");
    let trace: serde_json::Value = serde_json::from_slice(&bytes(&out)[0]).unwrap();
    assert_eq!((&trace["schema"], &trace["level"]), (&1.into(), &"full".into()));
    assert_eq!(trace["answer"]["text"], run(&["translate", "Good morning"]).ok().trim());
    assert_eq!(trace["decode"]["search"], "beams");
    let table = run(&["verify", path]).ok();
    assert!(table.contains("✓ rows of a softmax sum to one") && table.contains("equal: "), "{table}");
    let told: serde_json::Value = serde_json::from_str(&run(&["verify", path, "--json"]).ok()).unwrap();
    assert_eq!((&told["equal"], &told["missing"], &told["schema"]), (&true.into(), &0.into(), &1.into()));
    // The manifest itself can be named, too.
    run(&["verify", out.join("trace.json").to_str().unwrap()]).ok();

    // One bit of a number in the middle is another.
    let numbers = out.join("trace.safetensors");
    let mut changed = fs::read(&numbers).unwrap();
    let at = changed.len() / 2 / 4 * 4 + 3;
    changed[at] ^= 0x40;
    fs::write(&numbers, changed).unwrap();
    let ran = run(&["verify", path]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("different: "), "{}", ran.out);
    let told: serde_json::Value = serde_json::from_str(&run(&["verify", path, "--json"]).out).unwrap();
    assert!(told["first"]["step"].is_string() && told["equal"] == false, "{}", told["first"]);
}

#[test]
fn what_cannot_be_traced_leaves_an_earlier_trace_as_it_was() {
    let out = folder("explain_kept");
    let path = out.to_str().unwrap();
    run(&["explain", "--trace", path, "--level", "summary", "Good morning"]).ok();
    let before = bytes(&out);
    let trace = |more: &[&str]| run(&[&["explain", "--trace", path], more].concat());
    trace(&[" "]).refused_with("the text is empty", "give a sentence");
    trace(&[&"cat ".repeat(25_000)]).refused_with("tokens", "256 at most");
    trace(&["--max-new-tokens", "1000", "cat"]).refused_with("--max-new-tokens is 1000", "from 1 to 256");
    let (_, untold) = saved("explain_untold", decoder());
    trace(&["--model", &untold, "cat"]).refused_with("tokenizer", "forward and generate --ids need none");
    run(&["explain", "--trace", path]).refused("required");
    trace(&["--full", "cat"]).refused("cannot be used with");
    let left: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(bytes(&out), before);
    let told = run(&["verify", path]).ok();
    assert!(told.contains("could not be computed"), "{told}");
}

#[test]
fn what_is_no_trace_is_refused() {
    let out = folder("explain_broken");
    let path = out.to_str().unwrap();
    run(&["verify"]).refused_with("nothing to verify", "explain --trace");
    run(&["verify", path]).refused_with("there is no trace.json", "--against");
    run(&["explain", "--trace", path, "Good morning"]).ok();
    let [json, numbers] = bytes(&out);
    fs::write(out.join("trace.json"), &json[..json.len() / 2]).unwrap();
    run(&["verify", path]).refused_with("ends before it is complete", "write the trace again");
    let other = String::from_utf8(json.clone()).unwrap().replacen("\"schema\":1", "\"schema\":7", 1);
    fs::write(out.join("trace.json"), other).unwrap();
    run(&["verify", path]).refused_with("version 7", "write the trace again");
    fs::write(out.join("trace.json"), &json).unwrap();
    fs::write(out.join("trace.safetensors"), &numbers[..numbers.len() / 2]).unwrap();
    run(&["verify", path]).refused("trace.safetensors");
    fs::write(out.join("trace.safetensors"), &numbers).unwrap();
    assert!(run(&["verify", path]).ok().contains("equal: "));
}

/// How words are chosen can be said, and is told of each.
#[test]
fn a_trace_shows_every_rule_over_candidates() {
    let story = format!("{}/../../fixtures/tasks/story", env!("CARGO_MANIFEST_DIR"));
    let out = folder("explain_rules");
    let path = out.to_str().unwrap();
    let drawn = ["--temperature", "0.7", "--top-k", "5", "--seed", "3", "--repetition-penalty", "1.2"];
    let text = ["--max-new-tokens", "4", "--model", &story, "Once upon a time"];
    run(&[&["explain", "--trace", path][..], &drawn, &text].concat()).ok();
    let trace: serde_json::Value = serde_json::from_slice(&bytes(&out)[0]).unwrap();
    let stages = trace["decode"]["steps"][0]["stages"].as_array().unwrap();
    let kinds: Vec<&str> = stages.iter().filter_map(|stage| stage["kind"].as_str()).collect();
    assert_eq!(kinds, ["raw", "repetition_penalty", "temperature", "top_k"]);
    let plain = run(&[&["generate"][..], &drawn, &text].concat()).ok();
    assert_eq!(trace["answer"]["text"].as_str().unwrap().trim(), plain.trim());
}
