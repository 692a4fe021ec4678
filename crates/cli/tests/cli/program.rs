//! The program itself: its version, its settings, completions and man pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Ran, command, finish, folder, run};

/// A tiny model with a tokenizer.
fn model(name: &str) -> String {
    format!("{}/../../fixtures/tasks/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs where the configuration file says `config`.
fn configured(test: &str, config: &str, args: &[&str], environment: &[(&str, &str)]) -> Ran {
    let path = folder(test).join("config.toml");
    fs::write(&path, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassformer"));
    command.args(args).env("GLASSFORMER_CONFIG", &path).envs(environment.iter().copied());
    finish(&mut command)
}

/// Value and origin of a setting.
fn setting(ran: Ran, name: &str) -> (Value, String) {
    let shown: Value = serde_json::from_str(&ran.ok()).unwrap();
    assert_eq!(shown["schema"], 1);
    let setting = &shown["settings"][name];
    (setting["value"].clone(), setting["origin"].as_str().unwrap().to_owned())
}

#[test]
fn a_version_says_where_it_is_from_when_asked_for_more() {
    let short = run(&["--version"]).ok();
    assert_eq!(short, format!("glassformer {}\n", env!("CARGO_PKG_VERSION")));
    for flags in [&["--version", "-v"][..], &["-v", "--version"], &["-Vv"], &["-V", "--verbose"]] {
        let long = run(flags).ok();
        assert!(long.starts_with(&short), "{flags:?}: {long}");
        for name in ["commit", "built for", "instructions", "features", "configuration"] {
            assert!(long.lines().any(|line| line.starts_with(name)), "{name} is not in {long}");
        }
    }
}

#[test]
fn a_flag_goes_before_the_environment_and_that_before_the_file() {
    let file = "threads = 3\ndtype = \"bf16\"\n";
    let show = |flags: &[&str], environment: &[(&str, &str)]| {
        let args = [&["config", "--show", "--json"], flags].concat();
        setting(configured("program_order", file, &args, environment), "threads")
    };
    let (value, origin) = show(&[], &[]);
    assert!(
        value == "3" && origin.starts_with("from ") && origin.ends_with("config.toml"),
        "{value} {origin}"
    );
    let environment = [("GLASSFORMER_THREADS", "4")];
    let (value, origin) = show(&[], &environment);
    assert!(value == "4" && origin.contains("GLASSFORMER_THREADS"), "{value} {origin}");
    let (value, origin) = show(&["--threads", "5"], &environment);
    assert!(value == "5" && origin == "from --threads", "{value} {origin}");
    assert_eq!(show(&[], &[("GLASSFORMER_THREADS", "")]).0, "3");
    let (value, origin) = setting(run(&["config", "--json"]), "dtype");
    assert!(value == "auto" && origin.starts_with("default"), "{value} {origin}");
    let lines = configured("program_lines", file, &["config"], &[]).ok();
    assert!(lines.lines().any(|line| line.starts_with("dtype") && line.contains("config.toml")), "{lines}");
}

#[test]
fn settings_do_what_they_say() {
    let tags = model("tags");
    let file = format!("model = {tags:?}\nthreads = 1\ndtype = \"bf16\"\nlang = \"zh\"\n");
    let ran = |args: &[&str]| configured("program_used", &file, args, &[]);
    assert!(ran(&["show"]).ok().contains("B-PER"));
    let told = ran(&["tag", "-v", "Ann lives in Paris."]);
    assert!(told.err.contains("bf16") && told.err.contains("threads: 1"), "{}", told.err);
    // Numbers that are checked are those of the weights, whatever a file says that was written long ago.
    let out = folder("program_exact").join("run.safetensors");
    let forward = ["forward", "-v", "--ids", "2 6 3", "--out", out.to_str().unwrap()];
    let told = ran(&forward);
    assert!(told.err.contains("computing in f32"), "{}", told.err);
    assert!(ran(&[&forward[..], &["--dtype", "bf16"]].concat()).err.contains("computing in bf16"));
    let chinese = ran(&["explain", "--errata"]).ok();
    assert!(chinese.contains('的'), "{chinese}");
    // A training takes its precision from its own configuration, and a setting is no mistake there.
    assert!(!ran(&["train", "nowhere.toml"]).err.contains("--dtype"));
}

#[test]
fn a_wrong_configuration_is_refused_and_says_where() {
    let refuse = |config: &str, environment: &[(&str, &str)]| {
        configured("program_wrong", config, &["config"], environment)
    };
    refuse("thread = 3", &[]).refused_with("\"thread\"", "is threads meant?");
    refuse("threads = 0", &[]).refused_with("threads in", "from 1 to 1024");
    refuse("dtype = \"f16\"", &[]).refused_with("f16", "bf16");
    refuse("color = [1]", &[]).refused_with("color in", "always");
    refuse("model = \"\"", &[]).refused_with("model in", "a folder");
    refuse("threads =", &[]).refused_with("is no TOML", "--example");
    refuse("", &[("GLASSFORMER_THREADS", "many")]).refused_with("GLASSFORMER_THREADS is many", "1024");
    finish(command(&["config"]).env("GLASSFORMER_CONFIG", "/nowhere/config.toml"))
        .refused_with("/nowhere/config.toml", "GLASSFORMER_CONFIG");
    // What a shell reads when it starts works all the same.
    configured("program_shell", "thread = 3", &["completions", "bash"], &[]).ok();
    // The example is a configuration, and so is each of its lines.
    let example = run(&["config", "--example"]).ok();
    assert_eq!(configured("program_example", &example, &["config"], &[]).code, Some(0));
    for line in example.lines().skip(1).filter(|line| !line.contains("isa")) {
        configured("program_line", line.trim_start_matches("# "), &["config"], &[]).ok();
    }
}

#[test]
fn five_shells_complete_every_verb() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(&["completions", shell]).ok();
        for word in ["translate", "detokenize", "max-new-tokens"] {
            assert!(script.contains(word), "{word} is not in what {shell} reads");
        }
    }
    run(&["completions", "tcsh"]).refused("invalid value 'tcsh'");
}

#[test]
fn each_verb_has_a_man_page_with_its_examples() {
    let here = folder("program_man");
    run(&["man", here.to_str().unwrap()]).ok();
    for (page, part) in [("glassformer.1", "formula"), ("glassformer-generate.1", "Once upon a time")] {
        let text = fs::read_to_string(here.join(page)).unwrap();
        assert!(text.starts_with(".ie") && text.contains(".TH") && text.contains(part), "{page}: {text}");
    }
    assert!(!Path::new(&here.join("glassformer-man.1")).exists(), "hidden verbs have none");
    run(&["man", "/proc/nowhere"]).refused_with("/proc/nowhere", "written");
}
