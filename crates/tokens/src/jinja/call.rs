//! The functions that are always there.

use std::cell::RefCell;
use std::rc::Rc;

use super::args::Args;
use super::exec::Renderer;
use super::meter::{Fault, Outcome, wrong};
use super::value::Value;

/// The longest range, as in the reference's sandbox.
const LONGEST_RANGE: usize = 100_000;

/// The functions that are always there.
pub(super) const FUNCTIONS: [&str; 7] =
    ["range", "dict", "namespace", "joiner", "cycler", "raise_exception", "strftime_now"];

impl Renderer<'_> {
    /// Calls a function that is always there.
    pub fn function(&self, name: &str, args: Args) -> Outcome<Value> {
        match name {
            "range" => range(&args),
            "dict" => {
                let mut pairs = match args.get(0, "") {
                    None => Vec::new(),
                    Some(Value::Dict(dict)) => dict.entries().to_vec(),
                    Some(other) => {
                        other.items(self.meter)?.iter().map(|pair| self.pair(pair)).collect::<Outcome<_>>()?
                    }
                };
                pairs.extend(args.names.into_iter().map(|(name, value)| (Value::Text(name.into()), value)));
                Value::dict(pairs, self.meter)
            }
            "namespace" => {
                let mut names: Vec<(Rc<str>, Value)> = Vec::new();
                if let Some(Value::Dict(dict)) = args.get(0, "") {
                    for (key, value) in dict.entries() {
                        if let Value::Text(key) = key {
                            names.push((key.clone(), value.clone()));
                        }
                    }
                }
                names.extend(args.names.into_iter().map(|(name, value)| (name.into(), value)));
                if let Some((name, _)) = names.iter().find(|(name, _)| name.starts_with('_')) {
                    return wrong(format!("a namespace cannot hold the name '{name}'"));
                }
                self.meter.hold(names.iter().map(|(_, value)| value))?;
                self.namespace(names)
            }
            "joiner" => {
                let text = args.text(0, "sep")?.unwrap_or_else(|| ", ".into());
                Ok(Value::Joiner(Rc::new((text, RefCell::new(false)))))
            }
            "cycler" if args.places.is_empty() => wrong("at least one item has to be provided"),
            "cycler" => Value::cycler(args.places, self.meter),
            "raise_exception" => {
                let message = super::show::text(&args.need(0, "message")?, self.meter)?;
                Err(Fault::Raised(message))
            }
            "strftime_now" => {
                let format = args.text(0, "format")?.unwrap_or_default();
                self.meter.text(self.now.format(&format))
            }
            other => wrong(format!("'{other}' is not a function")),
        }
    }

    fn pair(&self, value: &Value) -> Outcome<(Value, Value)> {
        match value.items(self.meter)?.as_slice() {
            [key, value] => Ok((key.clone(), value.clone())),
            _ => wrong("a dictionary is made of pairs"),
        }
    }
}

fn range(args: &Args) -> Outcome<Value> {
    args.check("range", &["start", "stop", "step"])?;
    let number = |place, name| args.integer(place, name);
    let first = number(0, "start")?.ok_or_else(|| Fault::Wrong("range expects a number".to_owned()))?;
    let (start, stop) = match number(1, "stop")? {
        Some(stop) => (first, stop),
        None => (0, first),
    };
    let step = number(2, "step")?.unwrap_or(1);
    let small = |number: i128| number.unsigned_abs() < 1 << 100;
    if step == 0 || !small(start) || !small(stop) || !small(step) {
        return wrong("range expects small numbers and a step that is not nought");
    }
    let range = Value::Range(start, stop, step);
    match range.length() {
        Some(length) if length > LONGEST_RANGE => {
            wrong(format!("Range too big. The sandbox blocks ranges larger than {LONGEST_RANGE}."))
        }
        _ => Ok(range),
    }
}
