//! Long results on a terminal, a screen at a time.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use terminal_size::terminal_size_of;

use crate::console::result;
use crate::failure::Failure;

/// Writes `text`: through `PAGER`, or `less`, where stdout is a terminal and the text is longer than that.
pub fn show(text: &str) -> Result<(), Failure> {
    let lines = terminal_size_of(io::stdout()).map_or(usize::MAX, |(_, height)| usize::from(height.0));
    if !io::stdout().is_terminal() || text.lines().count() < lines || !paged(text) {
        return result(text);
    }
    Ok(())
}

/// Whether a pager took `text`. There may be none.
fn paged(text: &str) -> bool {
    let wanted = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    let mut words = wanted.split_whitespace();
    let Some(program) = words.next() else { return false };
    let mut pager = Command::new(program);
    pager.args(words).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Colours as they are, and what was read stays on the screen.
        pager.env("LESS", "RX");
    }
    let Ok(mut running) = pager.spawn() else { return false };
    if let Some(mut input) = running.stdin.take() {
        // Who has seen enough leaves; that is no failure.
        let _ = input.write_all(text.as_bytes());
    }
    running.wait().is_ok()
}
