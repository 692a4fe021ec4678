//! Methods of texts, lists and dictionaries: those of Python's that change nothing.

use std::rc::Rc;

use super::args::Args;
use super::exec::Renderer;
use super::meter::{Meter, Outcome, wrong};
use super::text::{self, Ends};
use super::value::Value;
use super::{format, show};

const TEXT: [&str; 41] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
];

/// Whether a value has a method of this name.
pub(super) fn has(value: &Value, name: &str) -> bool {
    match value {
        Value::Text(_) => TEXT.contains(&name),
        Value::Dict(_) => ["get", "items", "keys", "values", "copy"].contains(&name),
        Value::List(_) => ["count", "index", "copy"].contains(&name),
        Value::Tuple(_) => ["count", "index"].contains(&name),
        Value::Loop(_) => ["cycle", "changed"].contains(&name),
        Value::Cycler(_) => ["next", "reset"].contains(&name),
        _ => false,
    }
}

impl Renderer<'_> {
    pub(super) fn method(&self, value: &Value, name: &str, args: Args) -> Outcome<Value> {
        let meter = self.meter;
        match value {
            Value::Text(text) => text_method(text, name, &args, meter),
            Value::Dict(dict) => match name {
                "get" => {
                    let missing = || args.get(1, "default").unwrap_or(Value::None);
                    Ok(dict.get(&args.need(0, "key")?, meter)?.cloned().unwrap_or_else(missing))
                }
                "keys" => Value::list(dict.entries().iter().map(|(key, _)| key.clone()).collect(), meter),
                "values" => {
                    Value::list(dict.entries().iter().map(|(_, value)| value.clone()).collect(), meter)
                }
                "items" => {
                    let pair =
                        |(key, value): &(Value, Value)| Value::tuple(vec![key.clone(), value.clone()], meter);
                    Value::list(dict.entries().iter().map(pair).collect::<Outcome<_>>()?, meter)
                }
                _ => Ok(value.clone()),
            },
            Value::List(items) | Value::Tuple(items) => {
                if name == "copy" {
                    return Ok(value.clone());
                }
                let wanted = args.need(0, "value")?;
                let mut places = Vec::new();
                for (at, item) in items.items.iter().enumerate() {
                    if item.equals(&wanted, meter)? {
                        places.push(at as i128);
                    }
                }
                match (name, places.first()) {
                    ("index", Some(first)) => Ok(Value::Int(*first)),
                    ("index", None) => wrong("the value is not in the list"),
                    _ => Ok(Value::Int(places.len() as i128)),
                }
            }
            Value::Loop(state) => match name {
                "cycle" if args.places.is_empty() => wrong("no items for cycling given"),
                "cycle" => Ok(args.places[state.index.get() % args.places.len()].clone()),
                _ => {
                    let now = Value::tuple(args.places, meter)?;
                    self.keep(state)?;
                    let before = state.last.replace(Some(now.clone()));
                    Ok(Value::Bool(match before {
                        Some(before) => !before.equals(&now, meter)?,
                        None => true,
                    }))
                }
            },
            Value::Cycler(cycler) => {
                let (items, at) = (&cycler.0.items, cycler.1.get());
                cycler.1.set(if name == "next" { (at + 1) % items.len() } else { 0 });
                Ok(if name == "next" { items[at].clone() } else { Value::None })
            }
            other => wrong(format!("'{}' object has no method '{name}'", other.kind())),
        }
    }
}

fn text_method(text: &Rc<str>, name: &str, args: &Args, meter: &Meter) -> Outcome<Value> {
    meter.step(1)?;
    meter.read(text)?;
    if let Some(value) = question(text, name) {
        return Ok(Value::Bool(value));
    }
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let ends = match name {
                "lstrip" => Ends::Left,
                "rstrip" => Ends::Right,
                _ => Ends::Both,
            };
            strip(text, args, ends, meter)
        }
        "lower" | "casefold" => meter.text(text.to_lowercase()),
        "upper" => meter.text(text.to_uppercase()),
        "capitalize" => meter.text(text::capitalize(text)),
        "title" => meter.text(text::title(text)),
        "swapcase" => {
            let swap = |c: char| {
                if c.is_uppercase() { c.to_lowercase().to_string() } else { c.to_uppercase().to_string() }
            };
            meter.text(text.chars().map(swap).collect::<String>())
        }
        "startswith" | "endswith" => affix(text, name, args),
        "removeprefix" => {
            let part = args.text(0, "prefix")?.unwrap_or_default();
            meter.text(text.strip_prefix(&*part).unwrap_or(text))
        }
        "removesuffix" => {
            let part = args.text(0, "suffix")?.unwrap_or_default();
            meter.text(text.strip_suffix(&*part).unwrap_or(text))
        }
        "replace" => replace(text, args, meter),
        "split" | "rsplit" => split(text, name, args, meter),
        "splitlines" => list(text::lines(text, args.flag(0, "keepends")), meter),
        "partition" | "rpartition" => {
            let part = args.text(0, "sep")?.unwrap_or_default();
            if part.is_empty() {
                return wrong("empty separator");
            }
            let found = if name == "partition" { text.find(&*part) } else { text.rfind(&*part) };
            let parts = match found {
                Some(at) => [&text[..at], &*part, &text[at + part.len()..]],
                None if name == "partition" => [text, "", ""],
                None => ["", "", text],
            };
            Value::tuple(parts.into_iter().map(|part| meter.text(part)).collect::<Outcome<_>>()?, meter)
        }
        "join" => {
            let items = args.need(0, "iterable")?.items(meter)?;
            let mut out = show::Writer::new(meter);
            for (at, item) in items.iter().enumerate() {
                let Value::Text(item) = item else {
                    return wrong(format!(
                        "sequence item {at}: expected str instance, {} found",
                        item.kind()
                    ));
                };
                out.push(if at == 0 { "" } else { text })?;
                out.push(item)?;
            }
            Ok(Value::Text(out.text.into()))
        }
        "count" | "find" | "rfind" | "index" | "rindex" => search(text, name, args),
        "center" | "ljust" | "rjust" | "zfill" => pad(text, name, args, meter),
        "format" => format::braces(text, args, meter),
        "expandtabs" => {
            let width = usize::try_from(args.integer(0, "tabsize")?.unwrap_or(8)).unwrap_or(0).min(1 << 16);
            meter.grow(text.len() + text.matches('\t').count().saturating_mul(width))?;
            meter.text(text.replace('\t', &" ".repeat(width)))
        }
        other => wrong(format!("'str' object has no method '{other}'")),
    }
}

/// The methods that ask something of every character.
fn question(text: &str, name: &str) -> Option<bool> {
    let every = |holds: fn(char) -> bool| !text.is_empty() && text.chars().all(holds);
    let cased = || text.chars().any(|c| c.is_lowercase() || c.is_uppercase());
    Some(match name {
        "isalnum" => every(char::is_alphanumeric),
        "isalpha" => every(char::is_alphabetic),
        "isascii" => text.is_ascii(),
        "isdecimal" | "isdigit" => every(|c| {
            c.is_ascii_digit() || (c.is_numeric() && c.to_digit(36).is_none() && !c.is_alphabetic())
        }),
        "isnumeric" => every(char::is_numeric),
        "isspace" => every(text::is_space),
        "islower" => cased() && !text.chars().any(char::is_uppercase),
        "isupper" => cased() && !text.chars().any(char::is_lowercase),
        "istitle" => cased() && text::title(text) == text,
        _ => return None,
    })
}

fn affix(text: &str, name: &str, args: &Args) -> Outcome<Value> {
    let holds = |part: &Value| match part {
        Value::Text(part) if name == "startswith" => Ok(text.starts_with(&**part)),
        Value::Text(part) => Ok(text.ends_with(&**part)),
        Value::Undefined(why) => wrong(&**why),
        other => wrong(format!("{name} first arg must be str or a tuple of str, not {}", other.kind())),
    };
    Ok(Value::Bool(match args.need(0, "prefix")? {
        Value::Tuple(parts) => super::compare::any(&parts.items, holds)?,
        part => holds(&part)?,
    }))
}

/// `str.strip`: every character may be looked for among all that go.
pub(super) fn strip(text: &str, args: &Args, ends: Ends, meter: &Meter) -> Outcome<Value> {
    let chars = args.text(0, "chars")?;
    meter.step(text.len().saturating_mul(chars.as_ref().map_or(0, |chars| chars.len())) / 32)?;
    meter.text(text::strip(text, chars.as_deref(), ends))
}

/// `str.replace`, whose result is counted before it is made.
pub(super) fn replace(text: &str, args: &Args, meter: &Meter) -> Outcome<Value> {
    let (Some(old), Some(new)) = (args.text(0, "old")?, args.text(1, "new")?) else {
        return wrong("replace expects two texts");
    };
    let most = match args.integer(2, "count")? {
        Some(count) if count >= 0 => usize::try_from(count).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let times = text.matches(&*old).count().min(most);
    meter.grow(text.len().saturating_add(times.saturating_mul(new.len())))?;
    Ok(Value::Text(text.replacen(&*old, &new, most).into()))
}

fn list<'t>(parts: impl IntoIterator<Item = &'t str>, meter: &Meter) -> Outcome<Value> {
    let parts = parts.into_iter().map(|part| meter.text(part)).collect::<Outcome<_>>()?;
    Value::list(parts, meter)
}

fn split(text: &str, name: &str, args: &Args, meter: &Meter) -> Outcome<Value> {
    let most = args.integer(1, "maxsplit")?.filter(|most| *most >= 0);
    let most = most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    let Some(part) = args.text(0, "sep")? else {
        let words =
            if name == "split" { text::words(text, most) } else { text::words_from_right(text, most) };
        return list(words, meter);
    };
    if part.is_empty() {
        return wrong("empty separator");
    }
    match (name, most) {
        (_, None) => list(text.split(&*part), meter),
        ("split", Some(most)) => list(text.splitn(most.saturating_add(1), &*part), meter),
        (_, Some(most)) => {
            let mut parts: Vec<&str> = text.rsplitn(most.saturating_add(1), &*part).collect();
            parts.reverse();
            list(parts, meter)
        }
    }
}

/// `find` and its kin: places are counted in characters.
fn search(text: &str, name: &str, args: &Args) -> Outcome<Value> {
    let Some(part) = args.text(0, "sub")? else {
        return wrong(format!("{name} expects a text"));
    };
    let length = text.chars().count() as i128;
    let place = |at: Option<i128>, missing: i128| {
        let at = at.unwrap_or(missing);
        if at < 0 { (at + length).max(0) } else { at.min(length) }
    };
    let (start, end) = (place(args.integer(1, "start")?, 0), place(args.integer(2, "end")?, length));
    let byte = |char: i128| text.char_indices().nth(char as usize).map_or(text.len(), |(at, _)| at);
    let within = if start <= end { &text[byte(start)..byte(end)] } else { "" };
    if name == "count" {
        return Ok(Value::Int(if start <= end { within.matches(&*part).count() as i128 } else { 0 }));
    }
    let found = if name.starts_with('r') { within.rfind(&*part) } else { within.find(&*part) };
    match found.filter(|_| start <= end) {
        Some(at) => Ok(Value::Int(start + within[..at].chars().count() as i128)),
        None if name.ends_with("index") => wrong("substring not found"),
        None => Ok(Value::Int(-1)),
    }
}

fn pad(text: &str, name: &str, args: &Args, meter: &Meter) -> Outcome<Value> {
    let width = usize::try_from(args.integer(0, "width")?.unwrap_or(0)).unwrap_or(0);
    let fill = match args.text(1, "fillchar")? {
        Some(fill) if fill.chars().count() != 1 => {
            return wrong("the fill character must be exactly one character long");
        }
        Some(fill) => fill,
        None if name == "zfill" => "0".into(),
        None => " ".into(),
    };
    let missing = width.saturating_sub(text.chars().count());
    meter.grow(text.len().saturating_add(missing.saturating_mul(fill.len())))?;
    let run = |count: usize| fill.repeat(count);
    let padded = match name {
        "ljust" => text.to_owned() + &run(missing),
        "rjust" => run(missing) + text,
        "zfill" => {
            let sign = usize::from(text.starts_with(['+', '-']));
            text[..sign].to_owned() + &run(missing) + &text[sign..]
        }
        // Python puts the odd one on the left where the width is odd.
        _ => {
            let left = missing / 2 + (missing & width & 1);
            run(left) + text + &run(missing - left)
        }
    };
    Ok(Value::Text(padded.into()))
}
