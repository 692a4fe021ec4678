//! What a `tokenizer.json` must keep to before the library is given it: the places where the library would panic,
//! allocate without limit, or fail in silence.

use serde::Deserialize;
use serde_json::Value;

use super::pattern::{Pattern, Room};
use crate::pieces::{Charsmap, REPLACEMENT};

/// The parts of a file that are checked or reported. The vocabulary is left to the library.
#[derive(Deserialize)]
pub(super) struct Outline {
    #[serde(default)]
    pub truncation: Option<Truncation>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    pub decoder: Value,
    // Present, whatever it is: the library's own message for a missing one names no file.
    model: Model,
}

/// The part of a model that is checked.
#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    continuing_subword_prefix: Value,
}

/// The pairs that a model joins, read where they are checked.
#[derive(Deserialize)]
struct Joins {
    model: Merges,
}

#[derive(Deserialize)]
struct Merges {
    #[serde(default)]
    merges: Vec<Value>,
}

/// The file's wish to cut texts.
#[derive(Deserialize)]
pub(super) struct Truncation {
    pub max_length: usize,
}

impl Outline {
    /// Reads and checks a file.
    pub fn new(json: &[u8]) -> Result<Self, String> {
        let outline: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        check_growth("normalizer", stretch(&outline.normalizer, "normalizers"))?;
        check_growth("pre_tokenizer", stretch(&outline.pre_tokenizer, "pretokenizers"))?;
        check_growth("decoder", stretch(&outline.decoder, "decoders"))?;
        let mut room = Room::default();
        check_normalizer(&outline.normalizer, &mut room)?;
        check_processor(&outline.post_processor)?;
        if let Some(prefix) = outline.model.continuing_subword_prefix.as_str().filter(|text| !text.is_empty())
        {
            check_merges(json, prefix)?;
        }
        check_decoder(&outline.decoder, &mut room)?;
        Ok(outline)
    }
}

/// The library cuts the prefix off the second token of each pair without asking whether it is there.
fn check_merges(json: &[u8], prefix: &str) -> Result<(), String> {
    let joins: Joins = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let length = prefix.chars().count();
    for pair in &joins.model.merges {
        let text = pair.as_str().and_then(|line| line.split_once(' ')).map(|(_, second)| second);
        let second = text.or_else(|| pair.get(1).and_then(Value::as_str)).unwrap_or_default();
        if second.get(length..).is_none() {
            return Err(format!("the pair {pair} does not go on with the prefix {prefix:?}"));
        }
    }
    Ok(())
}

fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or("")
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn check_normalizer(value: &Value, room: &mut Room) -> Result<(), String> {
    list(value, "normalizers").try_for_each(|part| check_normalizer(part, room))?;
    if let Some(map) = value.get("precompiled_charsmap") {
        let blob = base64(map.as_str().ok_or("the table of characters is not a text")?)?;
        if !blob.is_empty() && !Charsmap::new(&blob)?.is_text() {
            return Err("the table of characters is not UTF-8".to_owned());
        }
    }
    check_replace(value, room)
}

fn check_decoder(value: &Value, room: &mut Room) -> Result<(), String> {
    list(value, "decoders").try_for_each(|part| check_decoder(part, room))?;
    check_replace(value, room)
}

/// A text may become so much longer by what a file replaces in it. Real files make bytes of spaces (times three) and of
/// characters (times two).
const STRETCH: f64 = 4096.0;

/// As much may be put before each text, in bytes.
const PREPENDED: usize = 1024;

/// How long a text may become in a normalizer, pre-tokenizer or decoder: times, plus. A chain of twelve that each write ten letters for one
/// would need more memory than there is.
fn stretch(value: &Value, parts: &str) -> (f64, usize) {
    let (times, plus) = list(value, parts).map(|part| stretch(part, parts)).fold((1.0, 0), chain);
    let size = |key: &str| value.get(key).and_then(Value::as_str).map_or(0, str::len);
    let own = match kind(value) {
        "Replace" => {
            let plain =
                value.get("pattern").and_then(|pattern| pattern.get("String")).and_then(Value::as_str);
            match plain.map_or(0, str::len) {
                0 => (1.0 + size("content") as f64, 0), // it may match nothing between any two letters
                length => ((size("content") as f64 / length as f64).max(1.0), 0),
            }
        }
        "Precompiled" => (REPLACEMENT as f64, 0),
        "Prepend" => (1.0, size("prepend")),
        "ByteLevel" => (2.0, 0),
        _ => (1.0, 0),
    };
    chain((times, plus), own)
}

fn chain((times, plus): (f64, usize), (more, after): (f64, usize)) -> (f64, usize) {
    (times * more, plus.saturating_add(after))
}

fn check_growth(what: &str, (times, plus): (f64, usize)) -> Result<(), String> {
    if times > STRETCH || plus > PREPENDED {
        return Err(format!("the {what} makes texts {times:.0} times as long, or {plus} bytes longer"));
    }
    Ok(())
}

/// The library drops an error of such a pattern, so only patterns that cannot fail are accepted.
fn check_replace(value: &Value, room: &mut Room) -> Result<(), String> {
    let source = value.get("pattern").and_then(|pattern| pattern.get("Regex")).and_then(Value::as_str);
    match source {
        Some(source) if kind(value) == "Replace" && !Pattern::new(source, room)?.is_linear() => {
            Err(format!("the pattern {source:?} of a replacement looks around, which is not supported"))
        }
        _ => Ok(()),
    }
}

/// A template of so many pieces repeats a text without end. Real ones have five.
const PIECES: usize = 64;

/// Each special token of a template must be there, with as many ids as texts.
fn check_processor(value: &Value) -> Result<(), String> {
    list(value, "processors").try_for_each(check_processor)?;
    if kind(value) != "TemplateProcessing" {
        return Ok(());
    }
    for key in ["single", "pair"] {
        let pieces = list(value, key).count();
        if pieces > PIECES {
            return Err(format!("the template has {pieces} pieces, and {PIECES} is the most"));
        }
    }
    let tokens = &value["special_tokens"];
    for piece in list(value, "single").chain(list(value, "pair")) {
        let Some(name) = piece.get("SpecialToken").and_then(|token| token.get("id")).and_then(Value::as_str)
        else {
            continue;
        };
        let count = |key| tokens.get(name).map(|token| list(token, key).count());
        match (count("ids"), count("tokens")) {
            (Some(ids), Some(texts)) if ids == texts => {}
            (Some(_), _) => return Err(format!("the special token {name:?} has not as many ids as texts")),
            (None, _) => return Err(format!("the template names {name:?}, which is no special token of it")),
        }
    }
    if list(value, "single").any(|piece| piece.get("Sequence").is_some_and(|part| part["id"] == "B")) {
        return Err("the template of a single text holds a second one".to_owned());
    }
    Ok(())
}

/// Standard base 64.
fn base64(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(format!("{:?} in a table of characters in base 64", char::from(c))),
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base_64_of_any_length() {
        assert_eq!(base64("").unwrap(), b"");
        assert_eq!(base64("TQ==").unwrap(), b"M");
        assert_eq!(base64("TWE=").unwrap(), b"Ma");
        assert_eq!(base64("TWFu+/8A").unwrap(), b"Man\xfb\xff\0");
        assert!(base64("T!").is_err());
    }
}
