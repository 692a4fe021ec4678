//! Jinja, as much of it as chat templates use, with the reference's semantics: Python's values, Python's printing.
//!
//! Written here and not taken from a library because of one promise: a template from a file that is not trusted ends in
//! an error, within a second and within its memory. A library that counts instructions alone does not keep it: joining a
//! text to itself thirty times takes thirty instructions and all the memory there is. Here every value that is made is
//! counted before it is made, and every step of going through one.
//!
//! Reading order: `lex` and `parse` (with `statements` and `postfix`), `value` and `compare`, then `exec` and `eval`.

mod args;
mod ast;
mod call;
mod checks;
mod compare;
mod eval;
mod exec;
mod filters;
mod format;
mod lex;
mod meter;
mod methods;
mod ops;
mod parse;
mod postfix;
mod sequences;
mod show;
mod statements;
mod text;
mod time;
mod value;

use std::thread;

use serde_json::{Map, Value as Json};

use self::exec::Renderer;
use self::meter::{Fault, Meter};
use self::value::Value;
use crate::error::Error;

pub(crate) use meter::Limits;
pub(crate) use time::Now;

/// The largest template that is read. The largest published one has 40 kB.
const LONGEST: usize = 4 << 20;

/// Room for the deepest rendering, on a thread of its own: the caller's stack may be small.
const STACK: usize = 64 << 20;

/// A template that was parsed.
#[derive(Debug)]
pub(crate) struct Template {
    body: Vec<ast::Stmt>,
}

impl Template {
    pub fn new(source: &str) -> Result<Self, Error> {
        if source.len() > LONGEST {
            return Err(Error::Template { line: 1, reason: format!("it has more than {LONGEST} bytes") });
        }
        let parsed = parse::template(source);
        parsed
            .map(|body| Self { body })
            .map_err(|fault| Error::Template { line: fault.line, reason: fault.reason })
    }

    /// The text of the template, with these names.
    pub fn render(&self, names: &Map<String, Json>, limits: Limits, now: Now) -> Result<String, Error> {
        thread::scope(|scope| {
            let builder = thread::Builder::new().stack_size(STACK).name("chat template".to_owned());
            let handle =
                builder.spawn_scoped(scope, || self.render_here(names, limits, now)).map_err(|source| {
                    Error::Io { action: "start a thread for", path: "the chat template".into(), source }
                })?;
            handle.join().unwrap_or_else(|_| {
                Err(Error::Template {
                    line: 1,
                    reason: "rendering it panicked; report this with the template".to_owned(),
                })
            })
        })
    }

    fn render_here(&self, names: &Map<String, Json>, limits: Limits, now: Now) -> Result<String, Error> {
        let meter = Meter::new(limits);
        let renderer = Renderer::new(&meter, now);
        let given = names.iter().map(|(name, json)| Ok((name.clone(), Value::from_json(json, &meter)?)));
        let rendered =
            given.collect::<Result<Vec<_>, _>>().and_then(|names| renderer.render(&self.body, names));
        let line = meter.line.get();
        rendered.map_err(|fault| match fault {
            Fault::Wrong(reason) => Error::Template { line, reason: crate::error::clip(&reason) },
            Fault::Raised(message) => Error::Refused { message: crate::error::clip(&message) },
            Fault::Exhausted(limit) => Error::Exhausted { line, limit },
        })
    }
}
