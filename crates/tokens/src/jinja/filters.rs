//! Filters of texts and numbers. Those of lists are in `sequences`.

use std::rc::Rc;

use super::args::Args;
use super::exec::Renderer;
use super::meter::{Outcome, wrong};
use super::show::{self, Layout};
use super::text::{self, Ends};
use super::value::{Number, Value};
use super::{format, methods};

impl Renderer<'_> {
    /// Applies a filter.
    pub(super) fn filter(&self, name: &str, input: &Value, args: Args) -> Outcome<Value> {
        self.meter.step(1)?;
        let meter = self.meter;
        if let Value::Text(text) = input {
            meter.read(text)?; // nearly all go through it, and be it to count
        }
        let text = || self.as_text(input);
        match name {
            "lower" => meter.text(text()?.to_lowercase()),
            "upper" => meter.text(text()?.to_uppercase()),
            "capitalize" => meter.text(text::capitalize(&text()?)),
            "title" => meter.text(title(&text()?)),
            "trim" => methods::strip(&text()?, &args, Ends::Both, meter),
            "string" | "safe" => Ok(Value::Text(text()?)),
            "replace" => {
                let as_text = |place, name| Ok(Value::Text(self.as_text(&args.need(place, name)?)?));
                let count = args.get(2, "count").unwrap_or(Value::None);
                let args =
                    Args { places: vec![as_text(0, "old")?, as_text(1, "new")?, count], names: Vec::new() };
                methods::replace(&text()?, &args, meter)
            }
            "indent" => self.indent(&text()?, &args),
            "truncate" => self.truncate(&text()?, &args),
            "center" => {
                let width = Value::Int(args.integer(0, "width")?.unwrap_or(80));
                self.method(&Value::Text(text()?), "center", Args::one(width))
            }
            "format" => {
                let values = if args.names.is_empty() {
                    Value::tuple(args.places, meter)?
                } else {
                    let names = args.names.into_iter().map(|(name, value)| (Value::Text(name.into()), value));
                    Value::dict(names, meter)?
                };
                format::percent(&text()?, &values, meter)
            }
            "escape" | "e" | "forceescape" => meter.text(escape(&text()?)),
            "striptags" => meter.text(strip_tags(&text()?)),
            "urlencode" => meter.text(url_encode(&text()?)),
            "wordcount" => {
                let text = text()?;
                let words = text.split(|c: char| c != '_' && !c.is_alphanumeric());
                Ok(Value::Int(words.filter(|word| !word.is_empty()).count() as i128))
            }
            "tojson" => self.to_json(input, &args),
            "default" | "d" => {
                let missing =
                    matches!(input, Value::Undefined(_)) || (args.flag(1, "boolean") && !input.truth());
                let default = || args.get(0, "default_value").unwrap_or_else(|| Value::Text("".into()));
                Ok(if missing { default() } else { input.clone() })
            }
            "abs" | "int" | "float" | "round" => number_filter(name, input, &args),
            "length" | "count" => match input.length() {
                Some(length) => Ok(Value::Int(length as i128)),
                None => wrong(format!("object of type '{}' has no len()", input.kind())),
            },
            "attr" => {
                let name = args.text(0, "name")?.unwrap_or_default();
                match input {
                    Value::Dict(_) if !methods::has(input, &name) => {
                        Ok(Value::Undefined(format!("'dict object' has no attribute '{name}'").into()))
                    }
                    _ => self.attribute(input, &name),
                }
            }
            _ => self.sequence_filter(name, input, args),
        }
    }

    /// A value as `str()` has it.
    pub(super) fn as_text(&self, value: &Value) -> Outcome<Rc<str>> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            other => Ok(show::text(other, self.meter)?.into()),
        }
    }

    fn to_json(&self, input: &Value, args: &Args) -> Outcome<Value> {
        args.check("tojson", &["ensure_ascii", "indent", "separators", "sort_keys"])?;
        let indent = match args.get(1, "indent") {
            None | Some(Value::None) => None,
            Some(Value::Text(indent)) => Some(indent.to_string()),
            Some(value) => match value.integer() {
                Some(count) if count <= 1000 => Some(" ".repeat(count.max(0) as usize)),
                _ => return wrong("the indent of tojson must be a small number or a text"),
            },
        };
        let (item, key) = match args.get(2, "separators") {
            None | Some(Value::None) => {
                (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned())
            }
            Some(pair) => match pair.items(self.meter)?.as_slice() {
                [Value::Text(item), Value::Text(key)] => (item.to_string(), key.to_string()),
                _ => return wrong("the separators of tojson must be two texts"),
            },
        };
        let layout = Layout {
            indent,
            item,
            key,
            sort: args.flag(3, "sort_keys"),
            ascii: args.flag(0, "ensure_ascii"),
        };
        Ok(Value::Text(layout.write(input, self.meter)?.into()))
    }

    fn indent(&self, text: &str, args: &Args) -> Outcome<Value> {
        let indent = match args.get(0, "width") {
            Some(Value::Text(indent)) => indent.to_string(),
            Some(value) => match value.integer() {
                Some(count) if count <= 1 << 16 => " ".repeat(count.max(0) as usize),
                _ => return wrong("the width of indent must be a small number or a text"),
            },
            None => "    ".to_owned(),
        };
        let (first, blank) = (args.flag(1, "first"), args.flag(2, "blank"));
        let with_end = format!("{text}\n");
        let mut out = show::Writer::new(self.meter);
        for (at, line) in text::lines(&with_end, false).into_iter().enumerate() {
            if at > 0 {
                out.push("\n")?;
            }
            if if at == 0 { first } else { blank || !line.is_empty() } {
                out.push(&indent)?;
            }
            out.push(line)?;
        }
        Ok(Value::Text(out.text.into()))
    }

    fn truncate(&self, text: &Rc<str>, args: &Args) -> Outcome<Value> {
        let number = |place, name, usual: usize| -> Outcome<usize> {
            Ok(args.integer(place, name)?.map_or(usual, |number| usize::try_from(number).unwrap_or(0)))
        };
        let length = number(0, "length", 255)?;
        let end = args.text(2, "end")?.unwrap_or_else(|| "...".into());
        let leeway = number(3, "leeway", 5)?;
        if text.chars().count() <= length.saturating_add(leeway) {
            return Ok(Value::Text(text.clone()));
        }
        let kept: String = text.chars().take(length.saturating_sub(end.chars().count())).collect();
        let kept = if args.flag(1, "killwords") {
            &kept
        } else {
            kept.rsplit_once(' ').map_or(&*kept, |(kept, _)| kept)
        };
        self.meter.text(kept.to_owned() + &end)
    }
}

fn number_filter(name: &str, input: &Value, args: &Args) -> Outcome<Value> {
    match (name, input.number()) {
        ("abs", Some(Number::Int(number))) => Ok(Value::Int(number.saturating_abs())),
        ("abs", Some(Number::Float(number))) => Ok(Value::Float(number.abs())),
        ("round", Some(number)) => round(number, args),
        ("float", Some(number)) => Ok(Value::Float(number.float())),
        ("int", Some(Number::Int(number))) => Ok(Value::Int(number)),
        ("int", Some(Number::Float(number))) if number.is_finite() => Ok(Value::Int(number.trunc() as i128)),
        ("float", None) => {
            let read = match input {
                Value::Text(text) => text.trim().replace('_', "").parse().ok(),
                _ => None,
            };
            Ok(read.map_or_else(|| args.get(0, "default").unwrap_or(Value::Float(0.0)), Value::Float))
        }
        ("int", _) => {
            let base = args.integer(1, "base")?.unwrap_or(10);
            let base = u32::try_from(base).ok().filter(|base| (2..=36).contains(base)).unwrap_or(10);
            let read = match input {
                Value::Text(text) => read_int(text, base),
                _ => None,
            };
            Ok(read.map_or_else(|| args.get(0, "default").unwrap_or(Value::Int(0)), Value::Int))
        }
        _ => wrong(format!("the filter '{name}' wants a number, not a {}", input.kind())),
    }
}

fn read_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim().replace('_', "");
    let digits = text.strip_prefix("0x").filter(|_| base == 16).unwrap_or(&text);
    let whole = i128::from_str_radix(digits, base).ok();
    whole.or_else(|| {
        text.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number.trunc() as i128)
    })
}

/// Half goes to the even neighbour, as in Python.
fn round(number: Number, args: &Args) -> Outcome<Value> {
    let precision = args.integer(0, "precision")?.unwrap_or(0).clamp(-300, 300);
    let method = args.text(1, "method")?.unwrap_or_else(|| "common".into());
    let scale = 10_f64.powi(precision as i32);
    Ok(match (&*method, number) {
        ("common", Number::Int(number)) if precision >= 0 => Value::Int(number),
        ("common", number) if precision >= 0 => {
            let text = format!("{:.*}", precision as usize, number.float());
            Value::Float(text.parse().unwrap_or(number.float()))
        }
        ("common", number) => Value::Float((number.float() * scale).round_ties_even() / scale),
        ("ceil", number) => Value::Float((number.float() * scale).ceil() / scale),
        ("floor", number) => Value::Float((number.float() * scale).floor() / scale),
        _ => return wrong("method must be common, ceil or floor"),
    })
}

/// Jinja's own idea of a title: what follows a space, a hyphen or an opening bracket is a word.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        let between = text::is_space(c) || "-({[<".contains(c);
        if inside && !between {
            out.extend(c.to_lowercase());
        } else if between {
            out.push(c);
        } else {
            out.extend(c.to_uppercase());
        }
        inside = !between;
    }
    out
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

fn strip_tags(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        // Where no tag ends any more, none begins.
        let Some((_, after)) = after.split_once('>') else { break };
        out.push_str(before);
        rest = after;
    }
    out.push_str(rest);
    text::words(&out, None).join(" ")
}

fn url_encode(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"_.-~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
