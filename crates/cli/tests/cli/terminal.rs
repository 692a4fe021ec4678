//! What happens on a terminal alone: prompts, editing, history, wrapping.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use serde_json::Value;

use super::{command, folder};

/// A tiny model that writes, with a tokenizer.
fn model(name: &str) -> String {
    format!("{}/../../fixtures/tasks/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The command on a terminal of its own.
struct Terminal {
    child: Child,
    keys: File,
    shown: Receiver<Vec<u8>>,
    screen: Vec<u8>,
}

impl Terminal {
    fn open(args: &[&str], columns: u16, home: &Path) -> Self {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let ends = openpty(Some(&size), None).unwrap();
        let end = || Stdio::from(ends.slave.try_clone().unwrap());
        let mut command = command(args);
        command.env("TERM", "xterm").env("XDG_STATE_HOME", home);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let keys = File::from(ends.master);
        let mut screen = keys.try_clone().unwrap();
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal that nobody has open any more fails to be read.
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                if send.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, shown, screen: Vec::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line, and waits until it has ended.
    #[track_caller]
    fn enter(&mut self, keys: &str) {
        self.press(&format!("{keys}\r"));
        self.wait("\n");
    }

    /// Waits until `text` is shown, and forgets what was shown up to there.
    #[track_caller]
    fn wait(&mut self, text: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = self.screen.windows(text.len()).position(|part| part == text.as_bytes()) {
                self.screen.drain(..at + text.len());
                return;
            }
            match self.shown.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.screen.extend(bytes),
                Err(why) => {
                    panic!("{text:?} is not shown ({why}), but {:?}", String::from_utf8_lossy(&self.screen))
                }
            }
        }
    }

    #[track_caller]
    fn ends_with(mut self, code: i32) {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(code));
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        panic!("it goes on");
    }
}

/// What the tiny model answers.
fn answer(index: usize) -> (String, String) {
    let text = fs::read_to_string(format!("{}/expected.json", model("talk"))).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let part = |name: &str| expected[index][name].as_str().unwrap().to_owned();
    (part("text"), part("answer"))
}

/// The beginning of a prompt, as the line editor draws it.
const PROMPT: &str = "> ";

#[test]
fn a_message_can_be_edited_and_called_back() {
    let home = folder("terminal_history");
    let (said, answered) = answer(0);
    let talk = model("talk");
    let args = ["chat", &talk, "--max-new-tokens", "10"];
    let mut chat = Terminal::open(&args, 200, &home);
    chat.wait(PROMPT);
    // A wrong letter is taken back, the beginning is put in last.
    let (first, rest) = said.split_at(1);
    chat.enter(&format!("{rest}X\x7f\x01{first}"));
    chat.wait(answered.trim());
    chat.wait(PROMPT);
    chat.enter("/reset");
    chat.wait(PROMPT);
    chat.enter("\x1b[A\x1b[A"); // twice up: the message
    chat.wait(answered.trim());
    chat.wait(PROMPT);
    chat.press("\x04");
    chat.ends_with(0);
    let history = home.join("glassformer/chat-history");
    let kept = fs::read_to_string(&history).unwrap();
    assert!(kept.lines().any(|line| line == said), "{kept}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&history).unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "others may not read what was said");
    // The next conversation knows it too.
    let mut chat = Terminal::open(&args, 200, &home);
    chat.wait(PROMPT);
    chat.enter("\x1b[A");
    chat.wait(answered.trim());
    chat.wait(PROMPT);
    chat.press("\x04");
    chat.ends_with(0);
}

/// The second answer begins with `0 the0`, and its second word ends in column 13.
#[test]
fn an_answer_is_wrapped_at_words() {
    let talk = model("talk");
    for (columns, begin) in [(200, "0 the0"), (12, "0\r\nthe0")] {
        let home = folder("terminal_wrap");
        let mut chat = Terminal::open(&["chat", &talk, "--max-new-tokens", "10"], columns, &home);
        for index in [0, 1] {
            chat.wait(PROMPT);
            chat.enter(&answer(index).0);
        }
        chat.wait(begin);
        chat.wait(PROMPT);
        chat.press("\x04");
        chat.ends_with(0);
    }
}

#[test]
fn ctrl_c_keeps_a_conversation_once_and_ends_it_twice() {
    let home = folder("terminal_interrupt");
    let mut chat = Terminal::open(&["chat", &model("talk"), "--max-new-tokens", "4"], 200, &home);
    chat.wait(PROMPT);
    chat.press("half a line\x03");
    chat.wait("Ctrl-D ends the conversation");
    chat.wait(PROMPT);
    chat.press("\x03");
    chat.ends_with(130);
}

/// Without a text `translate` once refused to begin.
#[test]
fn translating_asks_for_texts() {
    let mut translate = Terminal::open(&["translate"], 80, &folder("terminal_translate"));
    translate.wait(PROMPT);
    translate.enter("Hello");
    translate.wait("你好");
    translate.wait(PROMPT);
    translate.enter("Good morning");
    translate.wait("早上好");
    translate.wait(PROMPT);
    translate.press("\x04");
    translate.ends_with(0);
}
