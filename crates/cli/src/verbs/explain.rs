//! `glassformer explain`: a run of any model that writes, or document 2, replayed.

use glassformer::explain::{Detail, Terminal, Tour, Walkthrough, document2, json};
use glassformer::tasks::{self, silent};
use glassformer::tokens::Special;
use glassformer::{Decoding, Finish, Writer};

use crate::args::Explain;
use crate::console::{Console, language, result, width};
use crate::failure::Failure;
use crate::load;

/// A walk tells every number of every word; nobody reads that of a page.
const MOST_TOKENS: usize = 256;

pub fn run(args: &Explain, console: &Console) -> Result<(), Failure> {
    let walkthrough = match &args.text {
        Some(text) => tour(args, text, &load::exact_writer(args.model.as_deref(), console)?, console)?,
        None => document2::walkthrough(&console.exact_backend())?,
    };
    let terminal = Terminal { lang: language(args.lang), paint: console.result_paint(), width: width() };
    let text = match (args.json, args.errata) {
        (true, _) => {
            let faulty = |error| Failure::new(format!("cannot write JSON: {error}"), "please report this");
            json::render(&walkthrough).map_err(faulty)? + "\n"
        }
        (false, true) => terminal.errata(&walkthrough),
        (false, false) => terminal.render(&walkthrough),
    };
    result(&text)
}

/// What `writer` makes of `text` by its usual search, but without drawing, and every number on the way.
fn tour(args: &Explain, text: &str, writer: &Writer, console: &Console) -> Result<Walkthrough, Failure> {
    if text.trim().is_empty() {
        return Err(Failure::new(
            "the text is empty",
            "give a sentence, or no text at all to replay document 2",
        ));
    }
    let read = writer.tokenizer().encode(text, Special::Add)?.ids;
    if read.len() > MOST_TOKENS {
        let found = format!("the text has {} tokens", read.len());
        return Err(Failure::new(found, format!("a walk takes {MOST_TOKENS} at most; give a sentence")));
    }
    let mut options = writer.usual();
    let (most, beams) = (usize::from(args.max_new_tokens), options.decoding.beams);
    // Which beam is the best is known at the end alone. Of the most likely tokens the first ones are enough.
    let max_new_tokens = if beams > 1 { options.decoding.max_new_tokens } else { Some(most) };
    options.decoding = Decoding { returns: 1, sampling: None, max_new_tokens, ..options.decoding };
    let written = writer.generate(&[text], &options, &mut silent).map_err(|error| match error {
        tasks::Error::Long { .. } => Failure::new(error.to_string(), "give a shorter text"),
        error => error.into(),
    });
    let mut written = written?.remove(0).remove(0);
    let goes_on = written.finish == Finish::Length || written.ids.len() > most;
    written.ids.truncate(most);
    let count = written.ids.len();
    if goes_on {
        console.note(&format!("the answer goes on after {count} tokens; --max-new-tokens tells more"));
    }
    let (source, mut target) = if writer.reads_source() {
        (read, options.decoding.start.into_iter().collect())
    } else {
        (Vec::new(), read)
    };
    target.append(&mut written.ids);
    let token = |id: u32| writer.tokenizer().token(id).map_or_else(|| id.to_string(), str::to_owned);
    let detail = if args.full { Detail::All } else { Detail::First };
    let answer = written.text.trim();
    let tour = Tour { text, answer, source, target, written: count, beams, token: &token, detail };
    Ok(tour.walk(&writer.checkpoint().model, &console.exact_backend())?)
}
