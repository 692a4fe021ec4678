//! Tokens as statements.

use std::sync::Arc;

use super::ast::{Action, Definition, Expr, For, Kind, Stmt, Target};
use super::lex::{Token, fault};
use super::parse::{Inline, Parsed, Parser};

impl Parser {
    /// Statements up to a tag with one of these names, whose name is the next token then; up to the end without names.
    pub(super) fn body(&mut self, ends: &[&str]) -> Parsed<Vec<Stmt>> {
        let mut body = Vec::new();
        loop {
            self.links = 0;
            let line = self.line();
            match self.peek() {
                None if ends.is_empty() => return Ok(body),
                None => {
                    return fault(line, format!("the template ends before {{% {} %}}", ends.join(" or ")));
                }
                Some(Token::Data(text)) => {
                    let kind = Action::Data(text.clone());
                    body.push(Stmt { line, kind });
                    self.at += 1;
                }
                Some(Token::PrintBegin) => {
                    self.at += 1;
                    let expr = self.tuple(Self::expression)?;
                    if !self.take(&Token::PrintEnd) {
                        return self.unexpected("'}}'");
                    }
                    body.push(Stmt { line, kind: Action::Print(expr) });
                }
                Some(Token::TagBegin) => {
                    self.at += 1;
                    if ends.iter().any(|end| self.is_word(end)) {
                        return Ok(body);
                    }
                    let kind = self.deeper(Self::statement)?;
                    self.tag_end()?;
                    body.push(Stmt { line, kind });
                }
                Some(_) => return self.unexpected("text or a tag"),
            }
        }
    }

    fn tag_end(&mut self) -> Parsed<()> {
        if self.take(&Token::TagEnd) { Ok(()) } else { self.unexpected("'%}'") }
    }

    /// The rest of a tag and the statements after it, up to a tag with one of these names.
    fn block(&mut self, ends: &[&str]) -> Parsed<Vec<Stmt>> {
        self.take_sign(":");
        self.tag_end()?;
        self.body(ends)
    }

    /// The same, and that tag's name.
    fn closed(&mut self, end: &str) -> Parsed<Vec<Stmt>> {
        let body = self.block(&[end])?;
        self.expect_word(end)?;
        Ok(body)
    }

    fn statement(&mut self) -> Parsed<Action> {
        let line = self.line();
        let tag = self.name()?;
        match tag.as_str() {
            "if" => self.condition(),
            "for" => self.repetition(),
            "set" => self.assignment(),
            "macro" => {
                let name = self.name()?;
                self.definition(name, "endmacro").map(|definition| Action::Macro(Arc::new(definition)))
            }
            "call" => self.call_block(line),
            "filter" => {
                let filter = self.filters(None, Inline::First)?;
                let Some(filter) = filter else { return self.unexpected("a filter") };
                Ok(Action::FilterBlock(filter, self.closed("endfilter")?))
            }
            "with" => {
                let mut names = Vec::new();
                while self.peek() != Some(&Token::TagEnd) && !self.is_sign(":") {
                    if !names.is_empty() {
                        self.expect_sign(",")?;
                    }
                    let target = self.target()?;
                    self.expect_sign("=")?;
                    names.push((target, self.expression()?));
                }
                Ok(Action::With(names, self.closed("endwith")?))
            }
            "generation" => Ok(Action::Scope(self.closed("endgeneration")?)),
            "block" => {
                let name = self.name()?;
                self.take_word("scoped");
                let body = self.closed("endblock")?;
                self.take_word(&name);
                Ok(Action::Scope(body))
            }
            "print" => {
                let mut printed = vec![self.expression()?];
                while self.take_sign(",") {
                    printed.push(self.expression()?);
                }
                Ok(Action::Print(Expr { line, kind: Kind::Concat(printed) }))
            }
            "break" | "continue" if self.loops == 0 => {
                fault(line, format!("{{% {tag} %}} stands in no loop"))
            }
            "break" => Ok(Action::Break),
            "continue" => Ok(Action::Continue),
            "include" | "import" | "from" | "extends" => {
                fault(line, format!("{{% {tag} %}} needs another template, and there is none"))
            }
            other => fault(line, format!("{{% {other} %}} is not a known tag")),
        }
    }

    fn condition(&mut self) -> Parsed<Action> {
        let mut branches = Vec::new();
        loop {
            let test = self.tuple(Self::or)?;
            let body = self.block(&["elif", "else", "endif"])?;
            branches.push((test, body));
            if self.take_word("elif") {
                continue;
            }
            let otherwise = if self.take_word("else") { self.block(&["endif"])? } else { Vec::new() };
            self.expect_word("endif")?;
            return Ok(Action::If(branches, otherwise));
        }
    }

    fn repetition(&mut self) -> Parsed<Action> {
        let target = self.targets(Some("in"))?;
        self.expect_word("in")?;
        let items = self.tuple_until(Self::or, Some("recursive"))?;
        let test = if self.take_word("if") { Some(self.expression()?) } else { None };
        let recursive = self.take_word("recursive");
        self.loops += 1;
        let body = self.block(&["endfor", "else"])?;
        self.loops -= 1;
        let otherwise = if self.take_word("else") { self.block(&["endfor"])? } else { Vec::new() };
        self.expect_word("endfor")?;
        Ok(Action::For(Arc::new(For { target, items, test, body, otherwise, recursive })))
    }

    fn assignment(&mut self) -> Parsed<Action> {
        let target = self.targets(None)?;
        if self.take_sign("=") {
            return Ok(Action::Set(target, self.tuple(Self::expression)?));
        }
        let filter = self.filters(None, Inline::Piped)?;
        Ok(Action::SetBlock(target, filter, self.closed("endset")?))
    }

    fn definition(&mut self, name: String, end: &str) -> Parsed<Definition> {
        let mut parameters: Vec<(String, Option<Expr>)> = Vec::new();
        self.expect_sign("(")?;
        while !self.is_sign(")") {
            if !parameters.is_empty() {
                self.expect_sign(",")?;
            }
            let name = self.name()?;
            let default = if self.take_sign("=") { Some(self.expression()?) } else { None };
            if default.is_none() && parameters.last().is_some_and(|(_, default)| default.is_some()) {
                return fault(self.line(), "a parameter without a default follows one with a default");
            }
            parameters.push((name, default));
        }
        self.expect_sign(")")?;
        self.macro_body(name, parameters, end)
    }

    fn macro_body(
        &mut self,
        name: String,
        parameters: Vec<(String, Option<Expr>)>,
        end: &str,
    ) -> Parsed<Definition> {
        let outer = (std::mem::take(&mut self.uses), std::mem::take(&mut self.loops));
        let body = self.closed(end)?;
        let uses = std::mem::replace(&mut self.uses, outer.0);
        self.loops = outer.1;
        Ok(Definition { name, parameters, body, uses })
    }

    fn call_block(&mut self, line: usize) -> Parsed<Action> {
        let mut parameters = Vec::new();
        if self.take_sign("(") {
            while !self.is_sign(")") {
                if !parameters.is_empty() {
                    self.expect_sign(",")?;
                }
                let name = self.name()?;
                let default = if self.take_sign("=") { Some(self.expression()?) } else { None };
                parameters.push((name, default));
            }
            self.expect_sign(")")?;
        }
        let call = self.expression()?;
        if !matches!(call.kind, Kind::Call(..)) {
            return fault(line, "{% call %} is followed by no call");
        }
        let caller = self.macro_body("caller".to_owned(), parameters, "endcall")?;
        Ok(Action::Call(call, Arc::new(caller)))
    }

    fn target(&mut self) -> Parsed<Target> {
        if self.take_sign("(") {
            let target = self.deeper(|parser| parser.targets(None))?;
            self.expect_sign(")")?;
            return Ok(target);
        }
        let name = self.name()?;
        if ["true", "false", "none", "True", "False", "None"].contains(&name.as_str()) {
            return fault(self.line(), format!("'{name}' cannot be assigned to"));
        }
        if self.take_sign(".") {
            return Ok(Target::Attribute(name, self.name()?));
        }
        Ok(Target::Name(name))
    }

    /// One target, or several with commas between.
    fn targets(&mut self, end: Option<&str>) -> Parsed<Target> {
        let first = self.target()?;
        if !self.is_sign(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.take_sign(",") {
            let over = end.is_some_and(|end| self.is_word(end)) || self.is_sign("=") || self.is_sign(")");
            if over {
                break;
            }
            all.push(self.target()?);
        }
        Ok(Target::Tuple(all))
    }
}
