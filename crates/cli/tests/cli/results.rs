//! What results hold, one rule of length for all verbs, and errors in the words of who typed them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{folder, run, run_with_input};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn model(name: &str) -> String {
    fixture("tasks").join(name).display().to_string()
}

fn outputs(text: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(text).unwrap();
    assert_eq!(document["schema"], 1);
    document["outputs"].as_array().unwrap().clone()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A copy of the model `name` with keys of one of its files put over those that are there.
fn changed(test: &str, name: &str, file: &str, keys: &Value) -> String {
    let here = folder(test);
    copy(&fixture("tasks").join(name), &here);
    let path = here.join(file);
    let old = fs::read_to_string(&path).map(|text| serde_json::from_str(&text).unwrap());
    let mut all: Map<String, Value> = old.unwrap_or_default();
    all.extend(keys.as_object().unwrap().clone());
    fs::write(path, Value::Object(all).to_string()).unwrap();
    here.display().to_string()
}

/// It was a sigmoid, whatever the files said.
#[test]
fn a_cross_encoder_with_identity_prints_its_scores() {
    let identity = json!({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}});
    let here = changed("results_identity", "classes-rank", "config.json", &identity);
    let score = |model: &str| {
        let ran =
            run(&["classify", "--model", model, "--pairs", "--json", "The cat sat.\tAnn lives in Paris."]);
        outputs(&ran.ok())[0]["labels"][0]["score"].as_f64().unwrap()
    };
    let (scored, usual) = (score(&here), score(&model("classes-rank")));
    assert!((scored + 0.466_316).abs() < 1e-4 && (usual - 0.385_489).abs() < 1e-4, "{scored} {usual}");
    let unknown = json!({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Mish"}});
    let here = changed("results_mish", "classes-rank", "config.json", &unknown);
    run(&["classify", "--model", &here, "a cat"])
        .refused_with("torch.nn.modules.activation.Mish", "Identity");
}

/// `truncate_dim` of 8 gave all numbers.
#[test]
fn vectors_have_as_many_numbers_as_the_files_say() {
    let told = "config_sentence_transformers.json";
    let here = changed("results_cut", "sentences", told, &json!({"truncate_dim": 8}));
    let out = run(&["embed", "--model", &here, "--json", "The cat sat."]).ok();
    assert_eq!(outputs(&out)[0]["embedding"].as_array().unwrap().len(), 8);
}

#[test]
fn similarities_come_as_json() {
    let sentences = model("sentences");
    let args = ["embed", "--model", &sentences, "--similar", "the cat", "the cat", "a big dog"];
    let lines = run(&args).ok();
    let found = outputs(&run(&[&args[..], &["--json"]].concat()).ok());
    assert_eq!(found.len(), 2);
    for (found, line) in found.iter().zip(lines.lines()) {
        let said: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
        assert!((found["similarity"].as_f64().unwrap() - said).abs() < 1e-5, "{found} {line}");
    }
    assert!((found[0]["similarity"].as_f64().unwrap() - 1.0).abs() < 1e-5);
}

/// Words for both were one list, each with a text that had `[CLS]` in it.
#[test]
fn each_blank_of_a_text_has_words_of_its_own() {
    let fill = model("fill");
    let args = ["fill", "--model", &fill, "--top", "2", "[MASK] lives in [MASK]."];
    let lines = run(&args).ok();
    let blanks = outputs(&run(&[&args[..], &["--json"]].concat()).ok())[0]["blanks"].clone();
    let mut expected = vec!["[MASK] lives in [MASK].".to_owned()];
    for (number, blank) in blanks.as_array().unwrap().iter().enumerate() {
        for choice in blank["choices"].as_array().unwrap() {
            let (score, word) = (choice["score"].as_f64().unwrap(), choice["word"].as_str().unwrap());
            expected.push(format!("  blank {}  {score:.4}  {word}", number + 1));
        }
    }
    assert_eq!(expected.len(), 5);
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}

/// `show` said what `embed` did not keep to, and models that write did not ask their tokenizer.
#[test]
fn one_rule_says_how_long_a_text_may_be() {
    let here =
        changed("results_length", "sentences", "sentence_bert_config.json", &json!({"max_seq_length": 20}));
    assert!(run(&["show", &here]).ok().contains("20 tokens at most"));
    let long = "cat ".repeat(30);
    run(&["embed", "--model", &here, &long])
        .refused_with("text 1 has 32 tokens, and the model reads 20", "--truncate");
    run(&["embed", "--model", &here, "--truncate", &long]).ok();
    let tokens = json!({"model_max_length": 20});
    for (name, verb) in
        [("languages", "summarize"), ("languages", "generate"), ("story", "generate"), ("fill", "fill")]
    {
        let here = changed(&format!("results_length_{name}_{verb}"), name, "tokenizer_config.json", &tokens);
        assert!(run(&["show", &here]).ok().contains("20 tokens at most"), "{name}");
        let text = if verb == "fill" { format!("[MASK] {long}") } else { long.clone() };
        let ran = run(&[verb, "--model", &here, "a [MASK]", &text]);
        let said = ran.err.contains("text 2 has") && ran.err.contains("the model reads 20 at most");
        assert!(said && ran.err.contains("--truncate"), "{verb}: {}", ran.err);
        run(&[verb, "--model", &here, "--truncate", &text]).ok();
    }
    let here = changed("results_length_talk", "talk", "tokenizer_config.json", &tokens);
    run(&["chat", "--model", &here, &long]).refused_with("the model reads 20 at most", "say less");
}

/// `chat` once said what `generate` needs.
#[test]
fn an_error_names_the_verb_that_was_typed() {
    let fill = model("fill");
    for verb in ["chat", "translate", "summarize", "generate"] {
        run(&[verb, "--model", &fill, "a cat"])
            .refused(&format!("error: {verb} needs a model with a decoder"));
    }
    run(&["tag", "--model", &fill, "a cat"]).refused("error: tag needs a model with a head for tags");
    let story = model("story");
    run(&["chat", "--model", &story, "a cat"]).refused("error: chat needs a model with a chat template");
    run(&["summarize", "--model", &story, "a cat"]).refused("error: summarize needs a model with an encoder");
    let ran = run(&["generate", "--model", &story, "--top-p", "7", "a cat"]);
    assert!(!ran.err.contains("sequence") && ran.err.contains("top_p is 7"), "{}", ran.err);
}

/// `guidance_scale` was refused.
#[test]
fn guidance_leads_away_from_what_is_not_wanted() {
    let story = model("story");
    let write = |more: &[&str]| {
        let args = ["generate", "--model", &story, "--max-new-tokens", "12", "The cat"];
        run(&[&args[..], more].concat()).ok()
    };
    let plain = write(&[]);
    assert_eq!(write(&["--guidance", "1"]), plain);
    let guided = write(&["--guidance", "3"]);
    assert_ne!(guided, plain);
    assert_ne!(write(&["--guidance", "3", "--negative", "Ann lives in Paris"]), guided);
    // A guidance of 0 writes what comes without the prompt: after its last token alone, or after the other one.
    let other = ["generate", "--model", &story, "--max-new-tokens", "12", "Once upon"];
    assert_eq!(write(&["--guidance", "0", "--negative", "Once upon"]), run(&other).ok());
    let here = changed("results_guided", "story", "generation_config.json", &json!({"guidance_scale": 3.0}));
    let args = ["generate", "--model", &here, "--max-new-tokens", "12", "The cat"];
    assert_eq!(run(&args).ok(), guided);
    // The raw door takes the other prompt as ids.
    let ids = |more: &[&str]| {
        let args = ["generate", "--model", &story, "--max-new-tokens", "9", "--ids", "40 41 42"];
        run(&[&args[..], more].concat())
    };
    let negative = ["--guidance", "0", "--negative", "50 51"];
    let alone = ["generate", "--model", &story, "--max-new-tokens", "9", "--ids", "50 51"];
    assert_eq!(ids(&negative).ok(), run(&alone).ok());
    ids(&["--guidance", "2", "--negative", "9999"]).refused("id 9999");
    ids(&["--negative", "50"]).refused_with("changes nothing", "guidance");
}

/// Its hint was to check `config.json`, and what to do stood in the message.
#[test]
fn an_unknown_key_of_generation_is_told_with_what_to_do() {
    let here = changed("results_surprise", "story", "generation_config.json", &json!({"surprise": 1}));
    run(&["generate", "--model", &here, "The cat"]).refused_with(
        "generation_config.json: surprise not understood, and may change the results",
        "update Glassformer or report it",
    );
}

#[test]
fn guidance_that_means_nothing_is_refused() {
    let (story, languages) = (model("story"), model("languages"));
    for verb in ["generate", "translate", "summarize"] {
        run(&[verb, "--model", &languages, "--guidance", "2", "The cat"])
            .refused_with("guidance is for models of a decoder alone", "leave it out");
    }
    run(&["generate", "--model", &story, "--negative", "a dog", "The cat"])
        .refused_with("negative changes nothing without guidance", "guidance");
    run(&["generate", "--model", &story, "--guidance", "NaN", "The cat"]).refused("guidance is NaN");
    let long = |count: usize| "cat ".repeat(count);
    let guided = ["generate", "--model", &story, "--guidance", "2", "The cat", "--negative"];
    run(&[&guided[..], &[&long(90)]].concat()).refused_with("the model reads 64 at most", "shorten it");
    run(&[&guided[..], &[&long(20)]].concat()).ok();
}

/// `chat` answered otherwise where a small GGUF file was run in eight bits without being asked.
#[test]
fn small_gguf_files_write_in_f32_unless_told_otherwise() {
    let gguf = fixture("gguf/llama-q8_0.gguf").display().to_string();
    // This one has no tokenizer, which is said after how it would compute.
    let how = |args: &[&str]| run(&[&["-v"], args, &["--model", &gguf]].concat()).err;
    let small = how(&["generate", "--max-new-tokens", "2", "a"]);
    assert!(small.contains("computing in f32 with "), "{small}");
    let stored = how(&["generate", "--max-new-tokens", "2", "--dtype", "stored", "a"]);
    assert!(stored.contains("computing in the bits of the file with "), "{stored}");
}

/// `chat --model x.gguf` took four times the memory and twice the time for the same answers.
#[test]
#[ignore = "needs downloaded models"]
fn large_gguf_files_write_in_the_bits_that_they_are_stored_in() {
    let assets = std::env::var("GLASSFORMER_ASSETS")
        .unwrap_or_else(|_| format!("{}/.cache/glassformer-assets", std::env::var("HOME").expect("a home")));
    let gguf = format!("{assets}/qwen-coder-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf");
    let usual = run(&["-v", "chat", "--model", &gguf, "用一句话介绍北京。"]);
    assert!(usual.err.contains("computing in the bits of the file with "), "{}", usual.err);
    let exact = run(&["chat", "--model", &gguf, "--dtype", "f32", "用一句话介绍北京。"]).ok();
    assert_eq!(usual.ok(), exact);
    // Where ids go in, the numbers are the reference's.
    let ids = run(&["-v", "generate", "--model", &gguf, "--max-new-tokens", "1", "--ids", "5 6"]).err;
    assert!(ids.contains("computing in f32 with "), "{ids}");
}

#[test]
fn texts_are_counted_from_one() {
    let ran = run_with_input(&["fill", "--model", &model("fill"), "--top", "1"], b"[MASK]\nnone here\n");
    assert!(ran.err.contains("text 2: there is no blank"), "{}", ran.err);
}
