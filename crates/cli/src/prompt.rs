//! Someone at a terminal, asked for lines: with an editor and a history where the terminal can show them.

use std::fs::DirBuilder;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Config, Editor};

use crate::failure::Failure;
use crate::folders;

const PROMPT: &str = "> ";

/// How many lines a history keeps.
const KEPT: usize = 1000;

/// Asks for lines.
pub enum Prompt {
    Editor { editor: Box<Editor<(), DefaultHistory>>, history: Option<PathBuf> },
    Plain,
}

/// What was answered.
pub enum Answer {
    Line(String),
    /// Ctrl-C was pressed instead.
    Interrupted,
    End,
}

impl Prompt {
    /// With what was typed before, kept in the user's folder of states by this name; nothing is kept without one.
    pub fn open(history: Option<&str>) -> Self {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Self::Plain;
        }
        let config = Config::builder().history_ignore_space(true).auto_add_history(true);
        let config = config.max_history_size(KEPT).map(rustyline::config::Builder::build);
        let Ok(mut editor) = config.and_then(Editor::with_config) else { return Self::Plain };
        let history = history.and_then(file);
        if let Some(history) = &history {
            // There is none the first time.
            let _ = editor.load_history(history);
        }
        Self::Editor { editor: Box::new(editor), history }
    }

    /// The next line without its end.
    pub fn line(&mut self) -> Result<Answer, Failure> {
        let cannot = |error: String| Failure::new(format!("cannot read standard input: {error}"), "check it");
        match self {
            Self::Editor { editor, history } => match editor.readline(PROMPT) {
                Ok(line) => {
                    if let Some(history) = history {
                        // Who cannot keep a history talks all the same.
                        let _ = editor.append_history(history);
                    }
                    Ok(Answer::Line(line))
                }
                Err(ReadlineError::Eof) => Ok(Answer::End),
                Err(ReadlineError::Interrupted) => Ok(Answer::Interrupted),
                Err(error) => Err(cannot(error.to_string())),
            },
            Self::Plain => {
                if io::stdin().is_terminal() {
                    let _ = write!(io::stderr(), "{PROMPT}");
                }
                let mut line = Vec::new();
                let read = io::stdin().lock().read_until(b'\n', &mut line);
                if read.map_err(|error| cannot(error.to_string()))? == 0 {
                    return Ok(Answer::End);
                }
                Ok(Answer::Line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()))
            }
        }
    }
}

/// The file of a history, in a folder that is there.
fn file(name: &str) -> Option<PathBuf> {
    let folder = folders::state()?;
    let mut make = DirBuilder::new();
    make.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut make, 0o700); // what people say is theirs alone
    make.create(&folder).ok()?;
    Some(folder.join(name))
}
