//! Models with one thing broken: each is an error of one line with a hint, within 64 MB, never a panic and never a hang.
//!
//! A few name every tensor that does not fit, in a list under the line; the table says which.

mod cases;
mod change;

use std::path::Path;
use std::process::Command;

use super::{Ran, finish, folder, settled};
use cases::{Case, Says};

/// A run that computes for so many seconds hangs, and is killed. Real ones take milliseconds.
const HANGS: usize = 60;

/// In megabytes.
const MEMORY: f64 = 64.0;

#[test]
fn broken_models_are_errors_of_one_line_with_a_hint() {
    let all = cases::all();
    assert!(all.len() >= 100, "{}", all.len());
    let mut wrong = Vec::new();
    for case in &all {
        let folder = folder("broken");
        change::copy(case.model, &folder);
        (case.change)(&folder);
        let ran = run(case, &folder);
        if let Err(what) = check(case, &ran) {
            wrong.push(format!("{}: {what}, with exit code {:?}:\n{}", case.name, ran.code, ran.err));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn run(case: &Case, folder: &Path) -> Ran {
    let place = folder.join(case.file).display().to_string();
    let out = folder.join("out.safetensors").display().to_string();
    let words = case.verb.words(&place, &out);
    let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
    args.push("-v");
    let mut command = Command::new("sh");
    settled(command.args(["-c", &format!("ulimit -t {HANGS}; exec \"$0\" \"$@\"")]));
    finish(command.arg(env!("CARGO_BIN_EXE_glassformer")).args(&args).args(["--threads", "2"]))
}

/// What is wrong with a run.
fn check(case: &Case, ran: &Ran) -> Result<(), String> {
    if ran.code != Some(2) || !ran.out.is_empty() || ran.err.contains("panicked") {
        return Err("it is not refused".to_owned());
    }
    // Besides the failure, -v says how the model was opened, what runs it and what the run took.
    let details = ["opened ", "computing in "];
    let is_detail = |line: &&str| details.iter().any(|begin| line.starts_with(begin));
    let said: Vec<&str> = ran.err.lines().filter(|line| !is_detail(line)).collect();
    let [error, list @ .., hint, peak] = said.as_slice() else {
        return Err("there is no error with a hint".to_owned());
    };
    if !error.starts_with("error: ") || error.chars().count() > 1000 || !hint.starts_with("hint: ") {
        return Err("it is not a short error with a hint".to_owned());
    }
    let (found, words) = match case.says {
        Says::Line(words) => (list.is_empty() && error.contains(words), words),
        Says::List(words) => {
            let indented = list.len() < 16 && list.iter().all(|line| line.starts_with("  "));
            (indented && list.iter().any(|line| line.contains(words)), words)
        }
    };
    if !found {
        return Err(format!("{words:?} is not where it should be"));
    }
    let megabytes = peak.strip_prefix("peak memory ").and_then(|text| text.strip_suffix(" MB"));
    match megabytes.and_then(|text| text.parse::<f64>().ok()) {
        Some(megabytes) if megabytes < MEMORY => Ok(()),
        _ => Err("the memory is too much, or not told".to_owned()),
    }
}

/// What the table is measured against: the models before anything is broken.
#[test]
fn the_models_that_are_broken_work_before() {
    let mut seen = Vec::new();
    for case in cases::all() {
        let key = (case.model, case.verb);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let folder = folder("whole");
        change::copy(case.model, &folder);
        let ran = run(&Case { file: "", ..case }, &folder);
        assert_eq!(ran.code, Some(0), "{}: {}", case.model, ran.err);
    }
}
