//! The command as its users meet it: run, read what it prints, look at its exit code.

mod bad_models;
mod bench;
#[cfg(unix)]
mod broken;
mod explain;
mod form;
mod formula;
mod forward;
mod generate;
mod hub;
mod precision;
mod program;
mod quantize;
mod readme;
mod results;
mod serve;
mod tasks;
#[cfg(unix)]
mod terminal;
mod tokens;
mod train;
mod why;
mod writing;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use glassformer::formula::named::{self, Original, Size};
use glassformer::{Formula, Model};
use unicode_width::UnicodeWidthStr as _;

/// What a run left behind.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    /// Demands success and gives what was printed.
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }

    /// Demands that the command refused, said why on stderr, and printed no result.
    #[track_caller]
    fn refused(&self, why: &str) {
        assert_eq!(self.code, Some(2), "stderr: {}", self.err);
        assert!(self.err.contains(why), "{why:?} is not in: {}", self.err);
        assert!(self.err.starts_with("error:"), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        assert_eq!(self.out, "");
    }

    /// As [`Ran::refused`], and there is a hint.
    #[track_caller]
    fn refused_with(&self, why: &str, hint: &str) {
        self.refused(why);
        let said = self.err.split_once("hint:").map_or("", |(_, hint)| hint);
        assert!(said.contains(hint), "{hint:?} is not in the hint of: {}", self.err);
    }
}

/// What the environment can say.
const SETTINGS: [&str; 7] = [
    "GLASSFORMER_MODEL",
    "GLASSFORMER_THREADS",
    "GLASSFORMER_DTYPE",
    "GLASSFORMER_ISA",
    "GLASSFORMER_COLOR",
    "GLASSFORMER_LANG",
    "GLASSFORMER_HISTORY",
];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassformer"));
    command.args(args).args(["--threads", "2"]);
    settled(&mut command);
    command
}

/// Takes what the tests' surroundings say out of a command's.
fn settled(command: &mut Command) {
    for name in ["LC_ALL", "LC_MESSAGES", "LANG", "NO_COLOR", "TERM"].into_iter().chain(SETTINGS) {
        command.env_remove(name);
    }
    // Whoever runs these tests may have a configuration.
    command.env("GLASSFORMER_CONFIG", "");
}

fn finish(command: &mut Command) -> Ran {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn run(args: &[&str]) -> Ran {
    finish(&mut command(args))
}

/// Runs with `input` on standard input. Who refuses its arguments may be gone before it is written.
fn run_with_input(args: &[&str], input: &[u8]) -> Ran {
    let mut child =
        command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if let Err(error) = child.stdin.take().unwrap().write_all(input) {
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs with a reader that closes its end before anything was written.
fn run_into_closed_pipe(args: &[&str]) -> Ran {
    let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    Ran { code: output.status.code(), out: String::new(), err: String::from_utf8(output.stderr).unwrap() }
}

/// Runs where no file may have more than 32 KB, as if the disk were full.
#[cfg(unix)]
fn with_small_files(args: &[&str]) -> Ran {
    let mut command = Command::new("sh");
    // Blocks have 512 bytes, or 1024 in some shells.
    let limited = "trap '' XFSZ; ulimit -f 32; exec \"$0\" \"$@\"";
    finish(
        command.args(["-c", limited, env!("CARGO_BIN_EXE_glassformer")]).args(args).args(["--threads", "2"]),
    )
}

/// An empty folder of this test's own.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A model of `formula` with seeded weights, saved in a folder of this test's own.
fn saved(test: &str, formula: Formula) -> (Model, String) {
    let folder = folder(test);
    let model = Model::random(formula, 11).unwrap();
    model.save(&folder).unwrap();
    (model, folder.to_str().unwrap().to_owned())
}

const SMALL: Size = Size { width: 8, heads: 2, hidden: 16, layers: 2, vocabulary: 20, length: 12 };

fn encoder_decoder() -> Formula {
    named::original(Original {
        width: 8,
        heads: 2,
        hidden: 16,
        source_layers: 2,
        target_layers: 1,
        source_vocabulary: 20,
        target_vocabulary: 15,
    })
}

fn decoder() -> Formula {
    named::gpt2(SMALL)
}

fn encoder() -> Formula {
    named::bert(SMALL)
}

#[test]
fn help_starts_with_examples_for_every_verb() {
    let verbs = [
        "bench",
        "explain",
        "formula",
        "forward",
        "generate",
        "show",
        "verify",
        "quantize",
        "embed",
        "translate",
        "summarize",
        "chat",
        "score",
        "fill",
        "classify",
        "tag",
        "answer",
        "tokenize",
        "detokenize",
        "config",
        "completions",
        "pull",
        "list",
        "remove",
        "serve",
    ];
    for verb in [None].into_iter().chain(verbs.map(Some)) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glassformer"));
        let output = command.args(verb).arg("--help").output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("Examples:\n  glassformer "), "{text}");
        assert!(output.stderr.is_empty());
    }
}

/// `generate FOLDER "Once"` said that there was no model.
#[test]
fn a_model_among_the_texts_is_pointed_out() {
    let story = format!("{}/../../fixtures/tasks/story", env!("CARGO_MANIFEST_DIR"));
    run(&["generate", &story, "The cat"])
        .refused_with("there is no model", &format!("write --model {story}"));
    run(&["generate", "The cat"]).refused_with("there is no model", "a name of a hub");
}

/// The first lines that anyone sees were longer than a terminal, and broke within words.
#[test]
fn first_examples_fit_on_a_terminal() {
    for verb in [&[][..], &["translate"], &["chat"], &["explain"], &["pull"]] {
        let help = run(&[verb, &["--help"]].concat()).ok();
        for line in help.lines().skip(1).take_while(|line| !line.is_empty()) {
            assert!(line.starts_with("  glassformer ") && line.width() < 80, "{verb:?}: {line}");
        }
    }
}

#[test]
fn wrong_usage_is_refused_before_anything_runs() {
    run(&["explode"]).refused("unrecognized subcommand 'explode'");
    run(&["explain", "--frobnicate"]).refused("unexpected argument '--frobnicate'");
    run(&["explain", "--color", "mauve"]).refused("invalid value 'mauve'");
    run(&["explain", "-q", "-v"]).refused("cannot be used with");
}

/// It was "invalid digit found in string", "number would be zero for non-zero type" and "0 is not in 1..=1024".
#[test]
fn a_number_that_a_flag_does_not_take_is_refused_in_plain_words() {
    finish(Command::new(env!("CARGO_BIN_EXE_glassformer")).args(["explain", "--threads", "0"]))
        .refused_with("--threads is 0", "it takes a whole number from 1 to 1024");
    run(&["explain", "--layer", "0", "x"]).refused_with("--layer is 0", "it takes a whole number from 1 on");
    run(&["generate", "--beams", "1.5", "x"]).refused_with("--beams is 1.5", "it takes a whole number");
    run(&["generate", "--temperature", "hot", "x"]).refused_with("--temperature is hot", "it takes a number");
    run(&["generate", "--seed", "99999999999999999999", "x"])
        .refused_with("--seed is 99999999999999999999", "it takes no number so large");
}

#[test]
fn a_closed_pipe_is_a_clean_end() {
    for args in [&["explain"][..], &["explain", "--json"], &["formula", "--name", "bert", "--definitions"]] {
        let ran = run_into_closed_pipe(args);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{args:?}");
    }
}
