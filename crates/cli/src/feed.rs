//! Standard input as its lines come. A thread reads ahead, so that who asks sees what is there already without waiting for the rest:
//! lines that came together are worked on together, and a line that came alone is answered alone.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// How long a line that came is kept for others to join it: a writer that writes several at once takes less than this between them.
const TOGETHER: Duration = Duration::from_millis(4);

/// How many lines are read ahead.
const AHEAD: usize = 64;

/// Lines of standard input, with their ends.
pub struct Feed {
    lines: Receiver<io::Result<Vec<u8>>>,
}

/// What is there.
pub enum Line {
    Came(io::Result<Vec<u8>>),
    /// Nothing came in time.
    None,
    End,
}

impl Feed {
    /// Begins to read.
    pub fn open() -> Self {
        let (send, lines) = sync_channel(AHEAD);
        thread::spawn(move || {
            let mut input = io::stdin().lock();
            loop {
                let mut line = Vec::new();
                let read = input.read_until(b'\n', &mut line);
                let last = !matches!(read, Ok(1..));
                if matches!(read, Ok(0)) || send.send(read.map(|_| line)).is_err() || last {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// The next line, however long it takes.
    pub fn next(&self) -> Line {
        self.lines.recv().map_or(Line::End, Line::Came)
    }

    /// The next line if it is there, or comes at once.
    pub fn next_at_once(&self) -> Line {
        match self.lines.recv_timeout(TOGETHER) {
            Ok(line) => Line::Came(line),
            Err(RecvTimeoutError::Timeout) => Line::None,
            Err(RecvTimeoutError::Disconnected) => Line::End,
        }
    }
}
