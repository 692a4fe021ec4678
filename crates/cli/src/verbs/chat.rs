//! `glassformer chat`: a conversation on the terminal, or a few questions from the command line.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use glassformer::tasks::{self, Chat};

use super::write::{show, value};
use crate::args;
use crate::console::{Console, columns, result};
use crate::failure::{Failure, INTERRUPTED};
use crate::load;
use crate::outputs::{Form, Outputs};
use crate::prompt::{Answer, Prompt};
use crate::texts::Texts;
use crate::wrap::Wrap;

const HELP: &str = "\
/reset          forget what was said
/system TEXT    say what the model is to be; without TEXT, take it back
/quit           leave; so does Ctrl-D
Ctrl-C          stop an answer";

/// What is under way, for who presses Ctrl-C.
mod under_way {
    pub const NOTHING: u8 = 0;
    pub const ANSWER: u8 = 1;
    pub const BROKEN_OFF: u8 = 2;
}

pub fn run(args: &args::Chat, console: &Console) -> Result<(), Failure> {
    let texts = args.texts();
    if args.json && texts.is_empty() {
        let hint = "say something, or - to read messages from standard input";
        return Err(Failure::new("--json: a conversation on the terminal has no result", hint));
    }
    let generator = load::generator(&load::path(args.given(), console)?, args.decode.draft_model(), console)?;
    let mut options = generator.default_options();
    args.decode.apply_for_one(&mut options.decoding, console)?;
    options.stop.extend(args.stop.iter().cloned());
    options.form = args.form.read()?;
    let mut chat = generator.chat(options)?;
    if let Some(system) = &args.system {
        chat.system(system);
    }
    if texts.is_empty() {
        return talk(&mut chat, console);
    }
    let mut outputs = Outputs::new(Form::of(args.json));
    let mut reading = Texts { texts, file: Vec::new() }.read()?;
    while let Some(text) = reading.next()?.filter(|_| !outputs.closed()) {
        let mut tell = |piece: &str| if args.json { ControlFlow::Continue(()) } else { show(piece) };
        let written = chat.say(&text, &mut tell).map_err(|error| failure(error, "say less"))?;
        let index = outputs.count();
        outputs.push(|| "\n".to_owned(), || value(index, &written))?;
    }
    load::told_of_drafts(&generator, console);
    outputs.finish()
}

/// A conversation until the input ends. Ctrl-C breaks an answer off; where there is none, it ends the program.
fn talk(chat: &mut Chat<'_>, console: &Console) -> Result<(), Failure> {
    let state = Arc::new(AtomicU8::new(under_way::NOTHING));
    let heard = state.clone();
    let broken_off = move || {
        let (from, to) = (under_way::ANSWER, under_way::BROKEN_OFF);
        if heard.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst) == Err(under_way::NOTHING) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    };
    if ctrlc::set_handler(broken_off).is_err() {
        console.note("Ctrl-C will end the program: its signal cannot be caught here");
    }
    if io::stdin().is_terminal() {
        console.note("/help lists commands; Ctrl-D ends");
    }
    let mut prompt = Prompt::open(console.settings().history.value.then_some("chat-history"));
    let mut interrupted = 0;
    loop {
        let line = match prompt.line()? {
            Answer::Line(line) => line,
            Answer::End => return Ok(()),
            // Who meant the answer that had ended already shall not lose the conversation.
            Answer::Interrupted if interrupted == 0 => {
                interrupted += 1;
                console.note("Ctrl-D ends the conversation, and so does Ctrl-C once more");
                continue;
            }
            Answer::Interrupted => std::process::exit(i32::from(INTERRUPTED)),
        };
        interrupted = 0;
        let line = line.trim();
        match line.split_once(char::is_whitespace).unwrap_or((line, "")) {
            ("", _) => {}
            ("/quit" | "/exit", _) => return Ok(()),
            ("/help", _) => console.note(HELP),
            ("/reset", _) => chat.reset(),
            ("/system", text) => chat.system(text.trim()),
            (command, _) if command.starts_with('/') => {
                console.note(&format!("{command} is no command; /help lists them"));
            }
            _ => {
                if answer(chat, line, &state, console)?.is_break() {
                    return Ok(());
                }
            }
        }
    }
}

/// One answer. A message that cannot be answered is told, and the conversation goes on; it breaks off where nobody reads, and
/// fails where answers cannot be written.
fn answer(
    chat: &mut Chat<'_>,
    text: &str,
    state: &AtomicU8,
    console: &Console,
) -> Result<ControlFlow<()>, Failure> {
    state.store(under_way::ANSWER, Ordering::SeqCst);
    let mut heard = ControlFlow::Continue(());
    let mut wrap = columns().map(Wrap::new);
    let mut tell = |piece: &str| {
        if state.load(Ordering::SeqCst) == under_way::BROKEN_OFF {
            return ControlFlow::Break(());
        }
        heard = show(&wrap.as_mut().map_or_else(|| piece.to_owned(), |wrap| wrap.push(piece)));
        heard
    };
    let answered = chat.say(text, &mut tell);
    state.store(under_way::NOTHING, Ordering::SeqCst);
    let rest = wrap.map(|mut wrap| wrap.finish()).unwrap_or_default();
    match answered {
        Ok(_) => result(&(rest + "\n"))?,
        Err(error) => console.fail(&failure(error, "say less, or forget what was said with /reset")),
    }
    Ok(heard)
}

/// Why there is no answer. A conversation that is too long is never cut; `hint` says what can be done about it.
fn failure(error: tasks::Error, hint: &str) -> Failure {
    match error {
        tasks::Error::Long { tokens, limit, .. } => Failure::new(
            format!("the conversation has {tokens} tokens, and the model reads {limit} at most"),
            hint,
        ),
        error => error.into(),
    }
}
