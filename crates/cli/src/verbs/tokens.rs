//! `glassformer tokenize` and `detokenize`: texts as the tokens that a model reads, and back.

use glassformer::tasks::{self, Input};
use glassformer::tokens::{Encoding, Part, Span, Special, SpecialText, Tokenizer};
use serde_json::{Value, json};

use super::tasks::{each, inputs, place};
use crate::args::{Detokenize, Tokenize};
use crate::console::Console;
use crate::failure::Failure;
use crate::texts::Texts;
use crate::{ids, load};

pub fn tokenize(args: &Tokenize, console: &Console) -> Result<(), Failure> {
    let tokenizer = load::tokenizer(args.model.given(), console)?;
    let special = if args.bare { Special::Leave } else { Special::Add };
    let encode = |input: &Input<'_>| match *input {
        Input::Pair(first, second) => tokenizer.encode_pair(first, second, special),
        Input::One(text) if args.target => tokenizer.encode_target(text, special),
        Input::One(text) => tokenizer.encode(text, special),
    };
    let work = |texts: &[&str]| -> Result<Vec<Encoding>, tasks::Error> {
        inputs(texts, args.pairs)?.iter().map(|input| Ok(encode(input)?)).collect()
    };
    let lines = |text: &str, encoding: &Encoding| {
        if args.ids {
            return vec![encoding.ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")];
        }
        let line = |index: usize| {
            let Token { id, text, place, note } = Token::of(&tokenizer, encoding, index);
            format!("  {id:>6}  {place:<9}  {text}{note}")
        };
        std::iter::once(text.to_owned()).chain((0..encoding.len()).map(line)).collect()
    };
    let value = |encoding: &Encoding| {
        let tokens: Vec<Value> =
            (0..encoding.len()).map(|index| token(&tokenizer, encoding, index)).collect();
        json!({ "ids": encoding.ids, "types": encoding.types, "tokens": tokens })
    };
    each(&args.texts, args.json, work, (lines, value))
}

/// A token as people read it.
struct Token {
    id: u32,
    text: String,
    /// Where it lies in its text, in characters.
    place: String,
    note: &'static str,
}

impl Token {
    fn of(tokenizer: &Tokenizer, encoding: &Encoding, index: usize) -> Self {
        let id = encoding.ids[index];
        let (place, note) = match encoding.parts[index] {
            Some(Part::First) => (place(encoding.chars[index]), ""),
            Some(Part::Second) => (place(encoding.chars[index]), "  (second text)"),
            None => ("added".to_owned(), ""),
        };
        Self { id, text: tokenizer.readable(id), place, note }
    }
}

fn token(tokenizer: &Tokenizer, encoding: &Encoding, index: usize) -> Value {
    let id = encoding.ids[index];
    let part = encoding.parts[index].map(|part| match part {
        Part::First => 0,
        Part::Second => 1,
    });
    let Span { start, end } = encoding.chars[index];
    let (start, end) = (part.map(|_| start), part.map(|_| end));
    json!({
        "id": id, "token": tokenizer.token(id), "text": tokenizer.readable(id), "start": start, "end": end,
        "part": part, "special": tokenizer.is_special(id), "added": encoding.special[index],
    })
}

pub fn detokenize(args: &Detokenize, console: &Console) -> Result<(), Failure> {
    let tokenizer = load::tokenizer(args.model.given(), console)?;
    let special = if args.special { SpecialText::Keep } else { SpecialText::Skip };
    // Words behind one another are the ids of one text.
    let input = args.ids.as_slice() == ["-"];
    let texts = if input || args.ids.is_empty() { args.ids.clone() } else { vec![args.ids.join(" ")] };
    let texts = Texts { texts, file: args.file.clone() };
    let work = |lines: &[&str]| -> Result<Vec<(Vec<u32>, String)>, tasks::Error> {
        let decode = |(text, line): (usize, &&str)| {
            let ids = known(&tokenizer, line)
                .map_err(|Failure { message: what, hint, .. }| tasks::Error::Text { text, what, hint })?;
            let text = tokenizer.decode(&ids, special)?;
            Ok((ids, text))
        };
        lines.iter().enumerate().map(decode).collect()
    };
    let value = |(ids, text): &(Vec<u32>, String)| {
        let tokens: Vec<String> = ids.iter().map(|&id| tokenizer.readable(id)).collect();
        json!({ "text": text, "ids": ids, "tokens": tokens })
    };
    each(&texts, args.json, work, (|_: &str, (_, text): &(Vec<u32>, String)| vec![text.clone()], value))
}

/// The ids of a line, each of which stands for a token. A blank line is the empty text.
fn known(tokenizer: &Tokenizer, line: &str) -> Result<Vec<u32>, Failure> {
    if line.trim().is_empty() {
        return Ok(Vec::new());
    }
    let example = "write ids with spaces between, such as 5 17 9";
    let ids: Vec<u32> = ids::numbers("ids", line).map_err(|bad| Failure::new(bad.message, example))?;
    match ids.iter().find(|id| tokenizer.token(**id).is_none()) {
        None => Ok(ids),
        Some(id) => Err(Failure::new(
            format!("id {id} is in no vocabulary of this model"),
            format!(
                "its {} tokens have ids below {}",
                tokenizer.vocabulary().len(),
                tokenizer.vocabulary().size()
            ),
        )),
    }
}
