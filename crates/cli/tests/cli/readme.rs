//! What README shows is what the command does.

use std::process::Command;

use super::{finish, folder};

const README: &str = include_str!("../../../../README.md");

/// A command of README, and the lines that it is said to print.
struct Shown {
    args: Vec<String>,
    lines: Vec<String>,
}

/// All `glassformer` commands of the blocks for the console, `cargo run` among them.
fn shown() -> Vec<Shown> {
    let blocks = README.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut all: Vec<Shown> = Vec::new();
    for block in blocks {
        let mut ours = false;
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                let args =
                    command.strip_prefix("cargo run --release -- ").or(command.strip_prefix("glassformer "));
                ours = args.is_some();
                all.extend(args.map(|args| Shown { args: words(args), lines: Vec::new() }));
            } else if let Some(last) = all.last_mut().filter(|_| ours && !line.is_empty()) {
                last.lines.push(line.to_owned());
            }
        }
    }
    all
}

/// The words of a command, as a shell tells them apart where only double quotes are used.
fn words(command: &str) -> Vec<String> {
    let command = command.split("  #").next().unwrap_or(command);
    let parts = command.split('"').enumerate();
    let quoted = |(at, part): (usize, &str)| -> Vec<String> {
        if at % 2 == 1 { vec![part.to_owned()] } else { part.split_whitespace().map(str::to_owned).collect() }
    };
    parts.flat_map(quoted).collect()
}

#[test]
fn commands_without_models_print_what_readme_says() {
    let own = |args: &[String]| match args[0].as_str() {
        "translate" => !args.iter().any(|arg| arg.starts_with("--model")),
        "formula" => args.contains(&"--name".to_owned()),
        _ => false,
    };
    let mut seen = 0;
    for Shown { args, lines } in shown().iter().filter(|shown| own(&shown.args) && !shown.lines.is_empty()) {
        let said = finish(Command::new(env!("CARGO_BIN_EXE_glassformer")).args(args)).ok();
        assert_eq!(said.lines().collect::<Vec<_>>(), *lines, "{args:?}");
        seen += 1;
    }
    assert!(seen >= 2, "README shows a translation and a formula");
}

/// Other commands want models and data that are not here: that is then all that is wrong with them.
#[test]
fn commands_of_readme_have_words_that_are_known() {
    let here = folder("readme");
    let all = shown();
    assert!(all.len() > 12);
    for Shown { args, .. } in all.iter().filter(|shown| shown.args[0] != "explain") {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glassformer"));
        command.args(args).current_dir(&here).env("HF_HUB_OFFLINE", "1").env("HF_HOME", &here);
        let ran = finish(&mut command);
        assert!(!ran.err.contains("try '--help'"), "{args:?}: {}", ran.err);
        assert!(matches!(ran.code, Some(0 | 2)), "{args:?}: {}", ran.err);
    }
}
