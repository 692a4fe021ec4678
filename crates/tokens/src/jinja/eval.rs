//! Expressions, evaluated.

use std::rc::Rc;

use super::args::Args;
use super::ast::{Arguments, Comparison, Expr, Kind};
use super::call::FUNCTIONS;
use super::exec::Renderer;
use super::meter::{Outcome, wrong};
use super::methods;
use super::ops::negative;
use super::show::Writer;
use super::value::{Loop, Scope, Value};

impl Renderer<'_> {
    pub(super) fn expression(&self, expr: &Expr, scope: &Scope) -> Outcome<Value> {
        let eval = |expr: &Expr| self.eval(expr, scope);
        let all = |exprs: &[Expr]| exprs.iter().map(eval).collect::<Outcome<Vec<Value>>>();
        Ok(match &expr.kind {
            Kind::None => Value::None,
            Kind::Bool(flag) => Value::Bool(*flag),
            Kind::Int(number) => Value::Int(*number),
            Kind::Float(number) => Value::Float(*number),
            Kind::Text(text) => self.meter.text(text.as_str())?,
            Kind::Name(name) => lookup(name, scope),
            Kind::List(items) => Value::list(all(items)?, self.meter)?,
            Kind::Tuple(items) => Value::tuple(all(items)?, self.meter)?,
            Kind::Dict(pairs) => {
                let pair = |(key, value): &(Expr, Expr)| Ok((eval(key)?, eval(value)?));
                Value::dict(pairs.iter().map(pair).collect::<Outcome<Vec<_>>>()?, self.meter)?
            }
            Kind::Attribute(value, name) => self.attribute(&eval(value)?, name)?,
            Kind::Item(value, key) => self.item(&eval(value)?, &eval(key)?)?,
            Kind::Slice(value, parts) => {
                let value = eval(value)?;
                let part =
                    |part: &Option<Box<Expr>>| part.as_ref().map_or(Ok(Value::None), |part| eval(part));
                let [start, stop, step] = parts;
                self.slice(&value, &[part(start)?, part(stop)?, part(step)?])?
            }
            Kind::Call(callee, arguments) => {
                let callee = eval(callee)?;
                let args = self.arguments(arguments, scope)?;
                self.meter.line.set(expr.line);
                self.call(&callee, args)?
            }
            Kind::Filter(Some(input), name, arguments) => {
                let input = eval(input)?;
                let args = self.arguments(arguments, scope)?;
                self.meter.line.set(expr.line);
                self.filter(name, &input, args)?
            }
            Kind::Filter(None, name, _) => return wrong(format!("the filter '{name}' has no input")),
            Kind::Test(input, name, arguments) => {
                let input = eval(input)?;
                let args = self.arguments(arguments, scope)?;
                Value::Bool(self.check(name, &input, &args)?)
            }
            Kind::Not(value) => Value::Bool(!eval(value)?.truth()),
            Kind::Negative(value) => negative(&eval(value)?)?,
            Kind::Positive(value) => match eval(value)? {
                value @ (Value::Int(_) | Value::Float(_)) => value,
                Value::Bool(flag) => Value::Int(flag.into()),
                Value::Undefined(why) => return wrong(&*why),
                other => return wrong(format!("bad operand type for unary +: '{}'", other.kind())),
            },
            Kind::And(left, right) => {
                let left = eval(left)?;
                if left.truth() { eval(right)? } else { left }
            }
            Kind::Or(left, right) => {
                let left = eval(left)?;
                if left.truth() { left } else { eval(right)? }
            }
            Kind::Binary(operator, left, right) => {
                let (left, right) = (eval(left)?, eval(right)?);
                self.meter.line.set(expr.line);
                self.binary(*operator, &left, &right)?
            }
            Kind::Concat(parts) => {
                let mut out = Writer::new(self.meter);
                for part in parts {
                    out.value(&eval(part)?)?;
                }
                Value::Text(out.text.into())
            }
            Kind::Compare(first, rest) => Value::Bool(self.compare(first, rest, scope)?),
            Kind::Choice { test, then, otherwise } => {
                if eval(test)?.truth() {
                    eval(then)?
                } else if let Some(otherwise) = otherwise {
                    eval(otherwise)?
                } else {
                    Value::Undefined(
                        "the inline if-expression evaluated to false and no else section was defined".into(),
                    )
                }
            }
        })
    }

    fn compare(&self, first: &Expr, rest: &[(Comparison, Expr)], scope: &Scope) -> Outcome<bool> {
        let mut left = self.eval(first, scope)?;
        for (comparison, expr) in rest {
            let right = self.eval(expr, scope)?;
            let meter = self.meter;
            let ordered =
                |wanted: fn(std::cmp::Ordering) -> bool| Ok(left.order(&right, meter)?.is_some_and(wanted));
            let holds = match comparison {
                Comparison::Equal => left.equals(&right, meter)?,
                Comparison::NotEqual => !left.equals(&right, meter)?,
                Comparison::Less => ordered(std::cmp::Ordering::is_lt)?,
                Comparison::LessOrEqual => ordered(std::cmp::Ordering::is_le)?,
                Comparison::Greater => ordered(std::cmp::Ordering::is_gt)?,
                Comparison::GreaterOrEqual => ordered(std::cmp::Ordering::is_ge)?,
                Comparison::In => right.contains(&left, meter)?,
                Comparison::NotIn => !right.contains(&left, meter)?,
            };
            if !holds {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    fn arguments(&self, arguments: &Arguments, scope: &Scope) -> Outcome<Args> {
        let mut args = Args::default();
        for expr in &arguments.places {
            args.places.push(self.eval(expr, scope)?);
        }
        for (name, expr) in &arguments.names {
            args.names.push((name.clone(), self.eval(expr, scope)?));
        }
        if let Some(more) = &arguments.more_places {
            args.places.extend(self.eval(more, scope)?.items(self.meter)?);
        }
        if let Some(more) = &arguments.more_names {
            match self.eval(more, scope)? {
                Value::Dict(dict) => {
                    for (key, value) in dict.entries() {
                        let Value::Text(key) = key else { return wrong("keywords must be strings") };
                        args.names.push((key.to_string(), value.clone()));
                    }
                }
                other => return wrong(format!("argument after ** must be a mapping, not {}", other.kind())),
            }
        }
        Ok(args)
    }

    /// The call of a `{% call %}` block, whose body is one more argument.
    pub(super) fn call_with(&self, call: &Expr, scope: &Scope, caller: Value) -> Outcome<Value> {
        let Kind::Call(callee, arguments) = &call.kind else {
            return wrong("{% call %} is followed by no call");
        };
        let callee = self.eval(callee, scope)?;
        let mut args = self.arguments(arguments, scope)?;
        args.names.push(("caller".to_owned(), caller));
        self.call(&callee, args)
    }

    /// The filters of a block, the innermost of which gets its text.
    pub(super) fn filter_block(&self, filter: &Expr, input: Value, scope: &Scope) -> Outcome<Value> {
        let Kind::Filter(inner, name, arguments) = &filter.kind else {
            return wrong("a block is given to something that is no filter");
        };
        let input = match inner {
            Some(inner) => self.filter_block(inner, input, scope)?,
            None => input,
        };
        let args = self.arguments(arguments, scope)?;
        self.filter(name, &input, args)
    }

    pub(super) fn call(&self, callee: &Value, args: Args) -> Outcome<Value> {
        match callee {
            Value::Macro(called) => self.call_macro(called, args),
            Value::Function(name) => self.function(name, args),
            Value::Method(method) => self.method(&method.0, &method.1, args),
            Value::Loop(state) => self.call_loop(state, &args),
            Value::Joiner(joiner) => {
                let again = joiner.1.replace(true);
                Ok(if again { Value::Text(joiner.0.clone()) } else { Value::Text("".into()) })
            }
            Value::Undefined(why) => wrong(&**why),
            other => wrong(format!("'{}' object is not callable", other.kind())),
        }
    }

    /// `value.name`: a method, then an item of that name.
    pub(super) fn attribute(&self, value: &Value, name: &str) -> Outcome<Value> {
        let missing =
            || Value::Undefined(format!("'{} object' has no attribute '{name}'", value.kind()).into());
        if let Value::Undefined(why) = value {
            return wrong(&**why);
        }
        self.meter.read(name)?;
        if methods::has(value, name) {
            return Ok(Value::Method(Rc::new((value.clone(), name.to_owned()))));
        }
        Ok(match value {
            Value::Dict(dict) => dict.get_text(name).cloned().unwrap_or_else(missing),
            Value::Namespace(names) => {
                let names = names.borrow();
                self.meter.step(names.len() / 8)?;
                names
                    .iter()
                    .find(|(known, _)| **known == *name)
                    .map_or_else(missing, |(_, value)| value.clone())
            }
            Value::Loop(state) => loop_attribute(state, name).unwrap_or_else(missing),
            Value::Cycler(cycler) if name == "current" => cycler.0.items[cycler.1.get()].clone(),
            Value::Macro(found) if name == "name" => self.meter.text(found.definition.name.as_str())?,
            _ => missing(),
        })
    }

    /// `value[key]`: an item, then an attribute of that name.
    pub(super) fn item(&self, value: &Value, key: &Value) -> Outcome<Value> {
        if let Value::Text(name) = key {
            self.meter.read(name)?;
        }
        let found = match value {
            Value::Undefined(why) => return wrong(&**why),
            Value::Dict(dict) => dict.get(key, self.meter)?.cloned(),
            Value::List(_) | Value::Tuple(_) | Value::Text(_) | Value::Range(..) => match key.integer() {
                Some(index) => self.at(value, index)?,
                None => None,
            },
            _ => None,
        };
        match (found, key) {
            (Some(found), _) => Ok(found),
            (None, Value::Text(name)) => match value {
                Value::Dict(_) if !methods::has(value, name) => {
                    Ok(Value::Undefined(format!("'dict object' has no attribute '{name}'").into()))
                }
                _ => self.attribute(value, name),
            },
            (None, _) => {
                let key = super::show::repr(key, self.meter)?;
                Ok(Value::Undefined(format!("'{} object' has no element {key}", value.kind()).into()))
            }
        }
    }

    fn at(&self, value: &Value, index: i128) -> Outcome<Option<Value>> {
        let length = value.length().unwrap_or(0);
        let index = if index < 0 { index + length as i128 } else { index };
        let Some(index) = usize::try_from(index).ok().filter(|index| *index < length) else {
            return Ok(None);
        };
        Ok(match value {
            Value::List(items) | Value::Tuple(items) => items.items.get(index).cloned(),
            Value::Range(start, _, step) => Some(Value::Int(start + index as i128 * step)),
            Value::Text(text) => {
                self.meter.step(1 + text.len() / 16)?;
                text.chars().nth(index).map(|c| Value::Text(c.encode_utf8(&mut [0; 4]).into()))
            }
            _ => None,
        })
    }
}

/// The value of a name, or the function that is always there under it.
fn lookup(name: &str, scope: &Scope) -> Value {
    if let Some(value) = scope.get(name) {
        return value;
    }
    match FUNCTIONS.iter().find(|known| **known == name) {
        Some(known) => Value::Function(known),
        None => Value::undefined(name),
    }
}

fn loop_attribute(state: &Loop, name: &str) -> Option<Value> {
    let (index, length) = (state.index.get(), state.items.len());
    let number = |number: usize| Value::Int(number as i128);
    let neighbour = |at: Option<usize>| {
        let item = at.and_then(|at| state.items.get(at)).cloned();
        item.unwrap_or_else(|| Value::Undefined("there is no neighbouring item".into()))
    };
    Some(match name {
        "index" => number(index + 1),
        "index0" => number(index),
        "revindex" => number(length - index),
        "revindex0" => number(length - index - 1),
        "first" => Value::Bool(index == 0),
        "last" => Value::Bool(index + 1 == length),
        "length" => number(length),
        "depth" => number(state.depth + 1),
        "depth0" => number(state.depth),
        "previtem" => neighbour(index.checked_sub(1)),
        "nextitem" => neighbour(Some(index + 1)),
        _ => return None,
    })
}
