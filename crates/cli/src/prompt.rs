//! Someone at a terminal, asked for a line.

use std::io::{self, BufRead, Write};

use crate::failure::Failure;

/// Asks for lines.
pub struct Prompt;

impl Prompt {
    pub fn open() -> Self {
        Self
    }

    /// The next line without its end; nothing at the end of input.
    pub fn line(&mut self) -> Result<Option<String>, Failure> {
        let _ = write!(io::stderr(), "> ");
        let mut line = Vec::new();
        let read = io::stdin().lock().read_until(b'\n', &mut line);
        match read {
            Err(error) => Err(Failure::new(format!("cannot read standard input: {error}"), "check it")),
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned())),
        }
    }
}
