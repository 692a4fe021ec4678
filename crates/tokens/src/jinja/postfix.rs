//! What may follow an expression: attributes, items, calls, filters and tests.

use super::ast::{Arguments, Expr, Kind};
use super::lex::{Token, fault};
use super::parse::{Inline, Parsed, Parser, boxed};

impl Parser {
    /// Attributes, items and calls.
    pub(super) fn postfix(&mut self, mut node: Expr) -> Parsed<Expr> {
        loop {
            let line = self.line();
            let kind = if self.take_sign(".") {
                match self.peek().cloned() {
                    Some(Token::Name(name)) => {
                        self.at += 1;
                        Kind::Attribute(boxed(node), name)
                    }
                    Some(Token::Int(number)) => {
                        self.at += 1;
                        Kind::Item(boxed(node), boxed(Expr { line, kind: Kind::Int(number) }))
                    }
                    _ => return self.unexpected("a name or a number"),
                }
            } else if self.take_sign("[") {
                self.subscript(node)?
            } else if self.is_sign("(") {
                Kind::Call(boxed(node), self.arguments()?)
            } else {
                return Ok(node);
            };
            node = self.link(line, kind)?;
        }
    }

    fn subscript(&mut self, node: Expr) -> Parsed<Kind> {
        let line = self.line();
        let part = |parser: &mut Self| {
            if parser.is_sign(":") || parser.is_sign("]") || parser.is_sign(",") {
                return Ok(None);
            }
            parser.expression().map(|expr| Some(boxed(expr)))
        };
        let start = part(self)?;
        if !self.is_sign(":") {
            let Some(first) = start else { return self.unexpected("an expression") };
            if !self.is_sign(",") {
                self.expect_sign("]")?;
                return Ok(Kind::Item(boxed(node), first));
            }
            let mut all = vec![*first];
            while self.take_sign(",") {
                all.push(self.expression()?);
            }
            self.expect_sign("]")?;
            return Ok(Kind::Item(boxed(node), boxed(Expr { line, kind: Kind::Tuple(all) })));
        }
        self.expect_sign(":")?;
        let stop = part(self)?;
        let step = if self.take_sign(":") { part(self)? } else { None };
        self.expect_sign("]")?;
        Ok(Kind::Slice(boxed(node), [start, stop, step]))
    }

    /// What stands in the parentheses of a call.
    fn arguments(&mut self) -> Parsed<Arguments> {
        let line = self.line();
        let bad = || fault(line, "the arguments of a call are in the wrong order");
        let mut found = Arguments::default();
        self.expect_sign("(")?;
        let mut first = true;
        while !self.is_sign(")") {
            if !first {
                self.expect_sign(",")?;
                if self.is_sign(")") {
                    break;
                }
            }
            first = false;
            let named = matches!(self.peek(), Some(Token::Name(_)))
                && matches!(self.tokens.get(self.at + 1), Some((Token::Sign("="), _)));
            if self.take_sign("*") {
                if found.more_places.is_some() || found.more_names.is_some() {
                    return bad();
                }
                found.more_places = Some(boxed(self.expression()?));
            } else if self.take_sign("**") {
                if found.more_names.is_some() {
                    return bad();
                }
                found.more_names = Some(boxed(self.expression()?));
            } else if named {
                if found.more_names.is_some() {
                    return bad();
                }
                let name = self.name()?;
                self.expect_sign("=")?;
                found.names.push((name, self.expression()?));
            } else {
                if found.more_places.is_some() || found.more_names.is_some() || !found.names.is_empty() {
                    return bad();
                }
                found.places.push(self.expression()?);
            }
        }
        self.expect_sign(")")?;
        Ok(found)
    }

    /// Filters, tests, and calls of what they give.
    pub(super) fn filtered(&mut self, mut node: Expr) -> Parsed<Expr> {
        loop {
            if self.is_sign("|") {
                match self.filters(Some(node), Inline::Piped)? {
                    Some(filtered) => node = filtered,
                    None => return self.unexpected("a filter"),
                }
            } else if self.is_word("is") {
                node = self.test(node)?;
            } else if self.is_sign("(") {
                let line = self.line();
                let arguments = self.arguments()?;
                node = self.link(line, Kind::Call(boxed(node), arguments))?;
            } else {
                return Ok(node);
            }
        }
    }

    /// Filters one after the other; the first without an input where there is no node.
    pub(super) fn filters(&mut self, mut node: Option<Expr>, inline: Inline) -> Parsed<Option<Expr>> {
        let mut inline = inline;
        while self.is_sign("|") || inline == Inline::First {
            if inline == Inline::Piped {
                self.expect_sign("|")?;
            }
            inline = Inline::Piped;
            let line = self.line();
            let name = self.dotted()?;
            let arguments = if self.is_sign("(") { self.arguments()? } else { Arguments::default() };
            node = Some(self.link(line, Kind::Filter(node.map(boxed), name, arguments))?);
        }
        Ok(node)
    }

    fn dotted(&mut self) -> Parsed<String> {
        let mut name = self.name()?;
        while self.take_sign(".") {
            name.push('.');
            name.push_str(&self.name()?);
        }
        Ok(name)
    }

    fn test(&mut self, node: Expr) -> Parsed<Expr> {
        let line = self.line();
        self.expect_word("is")?;
        let negated = self.take_word("not");
        let name = self.dotted()?;
        let ends = ["else", "or", "and"].iter().any(|word| self.is_word(word));
        let mut arguments = Arguments::default();
        if self.is_sign("(") {
            arguments = self.arguments()?;
        } else if !ends
            && (matches!(
                self.peek(),
                Some(Token::Name(_) | Token::Text(_) | Token::Int(_) | Token::Float(_))
            ) || self.is_sign("[")
                || self.is_sign("{"))
        {
            if self.is_word("is") {
                return fault(line, "tests cannot follow each other");
            }
            let argument = self.primary()?;
            arguments.places.push(self.postfix(argument)?);
        }
        let test = self.link(line, Kind::Test(boxed(node), name, arguments))?;
        Ok(if negated { Expr { line, kind: Kind::Not(boxed(test)) } } else { test })
    }
}
