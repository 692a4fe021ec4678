//! Statements, carried out.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::args::Args;
use super::ast::{Action, Definition, Expr, For, Stmt, Target};
use super::meter::{Meter, Outcome, wrong};
use super::show::Writer;
use super::time::Now;
use super::value::{Loop, Macro, Scope, Value};

/// What comes after a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// About the bytes of a scope, or of a namespace, that is kept until the end.
const KEPT: usize = 1024;

/// One rendering.
pub(super) struct Renderer<'m> {
    pub meter: &'m Meter,
    pub now: Now,
    /// Everything that may hold itself, and so would never be freed, or hold a chain of its kind, too long to free by
    /// recursion: scopes with macros, namespaces, and loops that were asked whether something changed.
    scopes: RefCell<Vec<Scope>>,
    namespaces: RefCell<Vec<Value>>,
    loops: RefCell<Vec<Rc<Loop>>>,
}

impl<'m> Renderer<'m> {
    pub fn new(meter: &'m Meter, now: Now) -> Self {
        Self {
            meter,
            now,
            scopes: RefCell::default(),
            namespaces: RefCell::default(),
            loops: RefCell::default(),
        }
    }

    /// The text of a template.
    pub fn render(&self, body: &[Stmt], names: Vec<(String, Value)>) -> Outcome<String> {
        let scope = Scope::new(None);
        for (name, value) in names {
            scope.set(&name, value);
        }
        // A scope of its own, so that what the template sets hides what it was given.
        let mut out = Writer::new(self.meter);
        self.run(body, &Scope::new(Some(&scope)), &mut out)?;
        Ok(out.text)
    }

    pub fn namespace(&self, names: Vec<(Rc<str>, Value)>) -> Outcome<Value> {
        self.meter.grow(KEPT)?;
        let namespace = Value::Namespace(Rc::new(RefCell::new(names)));
        self.namespaces.borrow_mut().push(namespace.clone());
        Ok(namespace)
    }

    /// Keeps a loop that is about to hold a value until the end.
    pub fn keep(&self, state: &Rc<Loop>) -> Outcome<()> {
        if state.last.borrow().is_none() {
            self.meter.grow(KEPT)?;
            self.loops.borrow_mut().push(state.clone());
        }
        Ok(())
    }

    fn run(&self, body: &[Stmt], scope: &Scope, out: &mut Writer<'_>) -> Outcome<Flow> {
        for stmt in body {
            match self.statement(stmt, scope, out)? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    /// The text of some statements.
    fn text(&self, body: &[Stmt], scope: &Scope) -> Outcome<String> {
        let mut out = Writer::new(self.meter);
        self.run(body, scope, &mut out)?;
        Ok(out.text)
    }

    fn statement(&self, stmt: &Stmt, scope: &Scope, out: &mut Writer<'_>) -> Outcome<Flow> {
        let _deeper = self.meter.deeper()?;
        self.meter.step(1)?;
        self.meter.line.set(stmt.line);
        match &stmt.kind {
            Action::Data(text) => out.push(text)?,
            Action::Print(expr) => out.value(&self.eval(expr, scope)?)?,
            Action::If(branches, otherwise) => {
                for (test, body) in branches {
                    if self.eval(test, scope)?.truth() {
                        return self.run(body, scope, out);
                    }
                }
                return self.run(otherwise, scope, out);
            }
            Action::For(statement) => {
                let items = self.eval(&statement.items, scope)?;
                self.repeat(statement, &items, scope, 0, out)?;
            }
            Action::Set(target, expr) => self.assign(target, self.eval(expr, scope)?, scope)?,
            Action::SetBlock(target, filter, body) => {
                let text = self.text(body, &Scope::new(Some(scope)))?;
                let mut value = self.meter.text(text)?;
                if let Some(filter) = filter {
                    value = self.filter_block(filter, value, scope)?;
                }
                self.assign(target, value, scope)?;
            }
            Action::Macro(definition) => scope.set(&definition.name, self.define(definition, scope)?),
            Action::Call(call, caller) => {
                let caller = self.define(caller, scope)?;
                let value = self.call_with(call, scope, caller)?;
                out.value(&value)?;
            }
            Action::FilterBlock(filter, body) => {
                let text = self.text(body, &Scope::new(Some(scope)))?;
                let value = self.filter_block(filter, self.meter.text(text)?, scope)?;
                out.value(&value)?;
            }
            Action::With(names, body) => {
                let inner = Scope::new(Some(scope));
                for (target, expr) in names {
                    // Evaluated outside: `with a=1, b=a` does not see the new `a`.
                    self.assign(target, self.eval(expr, scope)?, &inner)?;
                }
                return self.run(body, &inner, out);
            }
            Action::Scope(body) => return self.run(body, &Scope::new(Some(scope)), out),
            Action::Break => return Ok(Flow::Break),
            Action::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn define(&self, definition: &Arc<Definition>, scope: &Scope) -> Outcome<Value> {
        self.meter.grow(KEPT)?;
        self.scopes.borrow_mut().push(scope.clone());
        Ok(Value::Macro(Rc::new(Macro { definition: definition.clone(), scope: scope.clone() })))
    }

    fn assign(&self, target: &Target, value: Value, scope: &Scope) -> Outcome<()> {
        match target {
            Target::Name(name) => scope.set(name, value),
            Target::Attribute(name, attribute) => match scope.get(name) {
                Some(Value::Namespace(_)) if attribute.starts_with('_') => {
                    return wrong(format!("a namespace cannot hold the name '{attribute}'"));
                }
                Some(Value::Namespace(names)) => {
                    self.meter.grow(attribute.len() + size_of::<Value>())?;
                    let mut names = names.borrow_mut();
                    self.meter.step(names.len() / 8)?;
                    match names.iter_mut().find(|(known, _)| **known == **attribute) {
                        Some((_, known)) => *known = value,
                        None => names.push((attribute.as_str().into(), value)),
                    }
                }
                _ => return wrong("cannot assign attribute on non-namespace object"),
            },
            Target::Tuple(targets) => {
                let items = value.items(self.meter)?;
                if items.len() != targets.len() {
                    return wrong(format!(
                        "{} values cannot be unpacked into {} names",
                        items.len(),
                        targets.len()
                    ));
                }
                for (target, item) in targets.iter().zip(items) {
                    self.assign(target, item, scope)?;
                }
            }
        }
        Ok(())
    }

    fn repeat(
        &self,
        statement: &Arc<For>,
        items: &Value,
        scope: &Scope,
        depth: usize,
        out: &mut Writer<'_>,
    ) -> Outcome<()> {
        let mut items = items.items(self.meter)?;
        if let Some(test) = &statement.test {
            let mut kept = Vec::new();
            for item in items {
                let inner = Scope::new(Some(scope));
                self.assign(&statement.target, item.clone(), &inner)?;
                if self.eval(test, &inner)?.truth() {
                    kept.push(item);
                }
            }
            items = kept;
        }
        if items.is_empty() {
            // A loop that is not carried out leaves a break in its else part to the loop around it.
            return self.run(&statement.otherwise, &Scope::new(Some(scope)), out).map(|_| ());
        }
        let recursion = statement.recursive.then(|| (statement.clone(), scope.clone()));
        let (count, within) = (items.len(), self.meter.hold(items.iter())?);
        let state =
            Rc::new(Loop { items, within, index: Cell::new(0), depth, recursion, last: RefCell::default() });
        for index in 0..count {
            self.meter.step(1)?;
            state.index.set(index);
            let inner = Scope::new(Some(scope));
            inner.set("loop", Value::Loop(state.clone()));
            self.assign(&statement.target, state.items[index].clone(), &inner)?;
            if self.run(&statement.body, &inner, out)? == Flow::Break {
                break;
            }
        }
        Ok(())
    }

    /// `loop(items)` inside a recursive loop.
    pub fn call_loop(&self, state: &Loop, args: &Args) -> Outcome<Value> {
        let Some((statement, scope)) = &state.recursion else {
            return wrong("a loop calls itself, and is not marked 'recursive'");
        };
        let mut out = Writer::new(self.meter);
        let items = args.need(0, "iterable")?;
        self.repeat(statement, &items, scope, state.depth + 1, &mut out)?;
        self.meter.text(out.text)
    }

    pub fn call_macro(&self, called: &Macro, args: Args) -> Outcome<Value> {
        let _deeper = self.meter.deeper()?;
        let Definition { name, parameters, body, uses } = &*called.definition;
        let scope = Scope::new(Some(&called.scope));
        let mut places = args.places.into_iter();
        let mut names = args.names;
        for (parameter, default) in parameters {
            let named = names.iter().position(|(name, _)| name == parameter).map(|at| names.remove(at).1);
            let value = match (places.next(), named) {
                (Some(_), Some(_)) => {
                    return wrong(format!("macro '{name}' got two values for '{parameter}'"));
                }
                (Some(value), None) | (None, Some(value)) => value,
                (None, None) => match default {
                    Some(default) => self.eval(default, &scope)?,
                    None => Value::Undefined(format!("parameter '{parameter}' was not provided").into()),
                },
            };
            scope.set(parameter, value);
        }
        let more: Vec<Value> = places.collect();
        let caller = names.iter().position(|(name, _)| name == "caller").map(|at| names.remove(at).1);
        if !more.is_empty() && !uses.varargs {
            return wrong(format!("macro '{name}' takes not more than {} argument(s)", parameters.len()));
        }
        if let Some((extra, _)) = names.first().filter(|_| !uses.kwargs) {
            return wrong(format!("macro '{name}' takes no keyword argument '{extra}'"));
        }
        if caller.is_some() && !uses.caller {
            return wrong(format!(
                "macro '{name}' was invoked with two values for the special caller argument"
            ));
        }
        scope.set("varargs", Value::tuple(more, self.meter)?);
        let names = names.into_iter().map(|(name, value)| (Value::Text(name.into()), value));
        scope.set("kwargs", Value::dict(names, self.meter)?);
        scope.set("caller", caller.unwrap_or_else(|| Value::undefined("caller")));
        let line = self.meter.line.get();
        let text = self.text(body, &scope)?;
        self.meter.line.set(line);
        self.meter.text(text)
    }

    /// The value of an expression; a name that has none is undefined.
    pub fn eval(&self, expr: &Expr, scope: &Scope) -> Outcome<Value> {
        let _deeper = self.meter.deeper()?;
        self.meter.step(1)?;
        self.meter.line.set(expr.line);
        self.expression(expr, scope)
    }
}

impl Drop for Renderer<'_> {
    fn drop(&mut self) {
        for scope in self.scopes.take() {
            scope.clear();
        }
        for namespace in self.namespaces.take() {
            if let Value::Namespace(names) = namespace {
                names.take();
            }
        }
        for state in self.loops.take() {
            state.last.take();
        }
    }
}
