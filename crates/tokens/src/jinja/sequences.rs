//! Filters of lists and dictionaries.

use std::cmp::Ordering;

use super::args::Args;
use super::exec::Renderer;
use super::meter::{Fault, Outcome, wrong};
use super::show;
use super::value::Value;

impl Renderer<'_> {
    pub(super) fn sequence_filter(&self, name: &str, input: &Value, args: Args) -> Outcome<Value> {
        let meter = self.meter;
        let items = || input.items(meter);
        match name {
            "list" => Value::list(items()?, meter),
            "first" => Ok(items()?.into_iter().next().unwrap_or_else(|| empty("first"))),
            "last" => Ok(items()?.into_iter().next_back().unwrap_or_else(|| empty("last"))),
            "reverse" => {
                if let Value::Text(text) = input {
                    return meter.text(text.chars().rev().collect::<String>());
                }
                let mut items = items()?;
                items.reverse();
                Value::iterator(items, meter)
            }
            "join" => self.join(&items()?, &args),
            "items" => match input {
                Value::Undefined(_) => Value::iterator(Vec::new(), meter),
                Value::Dict(_) => {
                    Value::iterator(self.method(input, "items", Args::default())?.items(meter)?, meter)
                }
                _ => wrong("Can only get item pairs from a mapping."),
            },
            "dictsort" => self.dictsort(input, &args),
            "sort" => {
                let places = ["reverse", "case_sensitive", "attribute"];
                args.check("sort", &places)?;
                let keys = Keys { attribute: args.get(2, "attribute"), case: args.flag(1, "case_sensitive") };
                let reverse = args.flag(0, "reverse");
                Value::list(self.sorted(items()?, &keys, reverse)?, meter)
            }
            "unique" => self.unique(items()?, &args),
            "min" | "max" => self.extreme(name, items()?, &args),
            "sum" => {
                let mut total = args.get(1, "start").unwrap_or(Value::Int(0));
                for item in items()? {
                    let item = match args.get(0, "attribute") {
                        Some(path) => self.path(&item, &path)?,
                        None => item,
                    };
                    total = self.binary(super::ast::Operator::Add, &total, &item)?;
                }
                Ok(total)
            }
            // Nothing comes of nothing, not even a mistake.
            "map" | "select" | "reject" | "selectattr" | "rejectattr" if !input.truth() => {
                Value::iterator(Vec::new(), meter)
            }
            "map" => self.map(items()?, args),
            "select" | "reject" | "selectattr" | "rejectattr" => self.select(name, items()?, args),
            "batch" | "slice" => self.grouped(name, &items()?, &args),
            "groupby" => self.group_by(items()?, &args),
            "pprint" => meter.text(show::repr(input, meter)?),
            other => wrong(format!("there is no filter '{other}'")),
        }
    }

    /// What a path such as `function.name` or `0.id` leads to.
    fn path(&self, value: &Value, path: &Value) -> Outcome<Value> {
        let Value::Text(path) = path else { return self.item(value, path) };
        self.meter.grow(path.len())?;
        let mut value = value.clone();
        for part in path.split('.') {
            let key = match part.parse::<u64>() {
                Ok(number) => Value::Int(number.into()),
                Err(_) => Value::Text(part.into()),
            };
            value = self.item(&value, &key)?;
        }
        Ok(value)
    }

    fn join(&self, items: &[Value], args: &Args) -> Outcome<Value> {
        let between = args.get(0, "d").map_or_else(|| Ok("".into()), |between| self.as_text(&between))?;
        let attribute = args.get(1, "attribute");
        let mut out = show::Writer::new(self.meter);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push(&between)?;
            }
            match &attribute {
                Some(path) => out.value(&self.path(item, path)?)?,
                None => out.value(item)?,
            }
        }
        Ok(Value::Text(out.text.into()))
    }

    /// What a value is ordered by.
    fn key(&self, item: &Value, keys: &Keys) -> Outcome<Value> {
        let value = match &keys.attribute {
            Some(Value::Text(paths)) if paths.contains(',') => {
                let part = |path: &str| {
                    let found = self.path(item, &Value::Text(path.into()))?;
                    self.folded(found, keys)
                };
                return Value::tuple(paths.split(',').map(part).collect::<Outcome<_>>()?, self.meter);
            }
            Some(Value::None) | None => item.clone(),
            Some(path) => self.path(item, path)?,
        };
        self.folded(value, keys)
    }

    fn folded(&self, value: Value, keys: &Keys) -> Outcome<Value> {
        match value {
            Value::Text(text) if !keys.case => self.meter.text(text.to_lowercase()),
            other => Ok(other),
        }
    }

    fn sorted(&self, items: Vec<Value>, keys: &Keys, reverse: bool) -> Outcome<Vec<Value>> {
        let mut keyed: Vec<(Value, Value)> =
            items.into_iter().map(|item| Ok((self.key(&item, keys)?, item))).collect::<Outcome<_>>()?;
        // A comparison that fails is remembered, and the order after it means nothing.
        let mut failed: Option<Fault> = None;
        keyed.sort_by(|(a, _), (b, _)| {
            if failed.is_some() {
                return Ordering::Equal;
            }
            match a.order(b, self.meter) {
                Ok(order) if reverse => order.unwrap_or(Ordering::Equal).reverse(),
                Ok(order) => order.unwrap_or(Ordering::Equal),
                Err(fault) => {
                    failed = Some(fault);
                    Ordering::Equal
                }
            }
        });
        match failed {
            Some(fault) => Err(fault),
            None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
        }
    }

    fn dictsort(&self, input: &Value, args: &Args) -> Outcome<Value> {
        let Value::Dict(_) = input else {
            return wrong(format!("the filter 'dictsort' wants a dictionary, not a {}", input.kind()));
        };
        let pairs = self.method(input, "items", Args::default())?.items(self.meter)?;
        let place = match args.text(1, "by")?.as_deref() {
            None | Some("key") => 0,
            Some("value") => 1,
            Some(_) => return wrong("You can only sort by either \"key\" or \"value\""),
        };
        let keys = Keys { attribute: Some(Value::Int(place)), case: args.flag(0, "case_sensitive") };
        Value::list(self.sorted(pairs, &keys, args.flag(2, "reverse"))?, self.meter)
    }

    fn unique(&self, items: Vec<Value>, args: &Args) -> Outcome<Value> {
        let keys = Keys { attribute: args.get(1, "attribute"), case: args.flag(0, "case_sensitive") };
        let mut seen: Vec<Value> = Vec::new();
        let mut kept = Vec::new();
        for item in items {
            let key = self.key(&item, &keys)?;
            if !super::compare::any(&seen, |known| known.equals(&key, self.meter))? {
                seen.push(key);
                kept.push(item);
            }
        }
        Value::iterator(kept, self.meter)
    }

    fn extreme(&self, name: &str, items: Vec<Value>, args: &Args) -> Outcome<Value> {
        let keys = Keys { attribute: args.get(1, "attribute"), case: args.flag(0, "case_sensitive") };
        let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
        let mut best: Option<(Value, Value)> = None;
        for item in items {
            let key = self.key(&item, &keys)?;
            let better = match &best {
                Some((known, _)) => key.order(known, self.meter)? == Some(wanted),
                None => true,
            };
            if better {
                best = Some((key, item));
            }
        }
        Ok(best.map_or_else(
            || Value::Undefined("No aggregated item, sequence was empty.".into()),
            |(_, item)| item,
        ))
    }

    fn map(&self, items: Vec<Value>, args: Args) -> Outcome<Value> {
        let mut out = Vec::with_capacity(items.len());
        if args.places.is_empty() {
            let Some(path) = args.get(0, "attribute") else { return wrong("map requires a filter argument") };
            let default = args.names.iter().find(|(name, _)| name == "default").map(|(_, value)| value);
            for item in items {
                let found = self.path(&item, &path)?;
                out.push(match (found, default) {
                    (Value::Undefined(_), Some(default)) => default.clone(),
                    (found, _) => found,
                });
            }
        } else {
            let Value::Text(name) = args.places[0].clone() else {
                return wrong("map requires the name of a filter");
            };
            let args = args.rest();
            for item in items {
                let again = Args { places: args.places.clone(), names: args.names.clone() };
                out.push(self.filter(&name, &item, again)?);
            }
        }
        Value::iterator(out, self.meter)
    }

    fn select(&self, name: &str, items: Vec<Value>, args: Args) -> Outcome<Value> {
        let wanted = name.starts_with("select");
        let by_attribute = name.ends_with("attr");
        let path = by_attribute.then(|| args.need(0, "attribute")).transpose()?;
        let args = if by_attribute { args.rest() } else { args };
        let test = match args.places.first() {
            Some(Value::Text(test)) => Some(test.clone()),
            Some(other) => return wrong(format!("the name of a test is expected, not a {}", other.kind())),
            None => None,
        };
        let args = args.rest();
        let mut kept = Vec::new();
        for item in items {
            let value = match &path {
                Some(path) => self.path(&item, path)?,
                None => item.clone(),
            };
            let holds = match &test {
                Some(test) => self.check(test, &value, &args)?,
                None => value.truth(),
            };
            if holds == wanted {
                kept.push(item);
            }
        }
        Value::iterator(kept, self.meter)
    }

    /// `batch`: rows of so many; `slice`: so many columns.
    fn grouped(&self, name: &str, items: &[Value], args: &Args) -> Outcome<Value> {
        let count = args.integer(0, if name == "batch" { "linecount" } else { "slices" })?.unwrap_or(0);
        let Some(count) = usize::try_from(count).ok().filter(|count| (1..=100_000).contains(count)) else {
            return wrong(format!("the filter '{name}' wants a number from 1 to 100000"));
        };
        let fill = args.get(1, "fill_with").filter(|fill| !matches!(fill, Value::None));
        let mut groups: Vec<Vec<Value>> = Vec::new();
        if name == "batch" {
            groups.extend(items.chunks(count).map(<[Value]>::to_vec));
            if let (Some(fill), Some(last)) = (&fill, groups.last_mut()) {
                self.meter.grow(count * size_of::<Value>())?;
                last.resize(count, fill.clone());
            }
        } else {
            let (each, extra) = (items.len() / count, items.len() % count);
            let mut begin = 0;
            for index in 0..count {
                let end = begin + each + usize::from(index < extra);
                let mut group = items[begin..end].to_vec();
                if let Some(fill) = fill.as_ref().filter(|_| index >= extra && extra > 0) {
                    group.push(fill.clone());
                }
                groups.push(group);
                begin = end;
            }
        }
        let groups =
            groups.into_iter().map(|group| Value::list(group, self.meter)).collect::<Outcome<_>>()?;
        Value::iterator(groups, self.meter)
    }

    fn group_by(&self, items: Vec<Value>, args: &Args) -> Outcome<Value> {
        let path = args.need(0, "attribute")?;
        let default = args.get(1, "default");
        let case = args.flag(2, "case_sensitive");
        let by_path = Keys { attribute: Some(path.clone()), case };
        let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
        for item in self.sorted(items, &by_path, false)? {
            let found = match (self.path(&item, &path)?, &default) {
                (Value::Undefined(_), Some(default)) => default.clone(),
                (found, _) => found,
            };
            let key = self.folded(found.clone(), &by_path)?;
            match groups.last_mut() {
                Some((known, _, group)) if known.equals(&key, self.meter)? => group.push(item),
                _ => groups.push((key, found, vec![item])),
            }
        }
        let group = |(_, key, items)| Value::tuple(vec![key, Value::list(items, self.meter)?], self.meter);
        Value::list(groups.into_iter().map(group).collect::<Outcome<_>>()?, self.meter)
    }
}

/// What a list is ordered by.
struct Keys {
    attribute: Option<Value>,
    /// Whether large and small letters differ.
    case: bool,
}

fn empty(which: &str) -> Value {
    Value::Undefined(format!("No {which} item, sequence was empty.").into())
}
