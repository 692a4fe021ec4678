//! Tokens as expressions: a descent that follows the reference's parser, function by function, the loosest binding
//! first. Statements are in `statements`, what follows an expression in `postfix`.

use super::ast::{Comparison, Expr, Kind, Operator, Stmt, Uses};
use super::lex::{self, Fault, Token, fault};

/// Expressions and statements within each other.
const DEEPEST: usize = 100;

/// Links of the chains in one tag: `a.b.c` has two, `1 + 2 + 3` too. The first link of a chain lies deepest, and dropping it recurses.
const LONGEST: usize = 4000;

pub(super) struct Parser {
    pub(super) tokens: Vec<(Token, usize)>,
    pub(super) at: usize,
    depth: usize,
    /// How many links the chains of this tag have so far.
    pub(super) links: usize,
    /// The names that the macros around this place use.
    pub(super) uses: Uses,
    /// How many loops are around this place.
    pub(super) loops: usize,
}

pub(super) type Parsed<T> = Result<T, Fault>;

/// The statements of a template.
pub(super) fn template(source: &str) -> Parsed<Vec<Stmt>> {
    let tokens = lex::tokens(source)?;
    let mut parser = Parser { tokens, at: 0, depth: 0, links: 0, uses: Uses::default(), loops: 0 };
    parser.body(&[])
}

pub(super) fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

impl Parser {
    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    pub(super) fn line(&self) -> usize {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |&(_, line)| line)
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.is_word_at(self.at, word)
    }

    fn is_word_at(&self, at: usize, word: &str) -> bool {
        matches!(self.tokens.get(at), Some((Token::Name(found), _)) if found == word)
    }

    pub(super) fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    pub(super) fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    pub(super) fn unexpected<T>(&self, expected: &str) -> Parsed<T> {
        let found = match self.peek() {
            None => "the end of the template".to_owned(),
            Some(Token::Data(_)) => "text".to_owned(),
            Some(Token::PrintBegin) => "'{{'".to_owned(),
            Some(Token::PrintEnd) => "'}}'".to_owned(),
            Some(Token::TagBegin) => "'{%'".to_owned(),
            Some(Token::TagEnd) => "'%}'".to_owned(),
            Some(Token::Name(name)) => format!("'{name}'"),
            Some(Token::Text(text)) => format!("the text {text:?}"),
            Some(Token::Int(number)) => number.to_string(),
            Some(Token::Float(number)) => number.to_string(),
            Some(Token::Sign(sign)) => format!("'{sign}'"),
        };
        fault(self.line(), format!("{expected} is expected, not {found}"))
    }

    pub(super) fn expect_sign(&mut self, sign: &str) -> Parsed<()> {
        if self.take_sign(sign) { Ok(()) } else { self.unexpected(&format!("'{sign}'")) }
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.take_word(word) { Ok(()) } else { self.unexpected(&format!("'{word}'")) }
    }

    pub(super) fn name(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    /// Runs a part of the parser one level deeper.
    pub(super) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return fault(self.line(), format!("more than {DEEPEST} tags and expressions within each other"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Adds a link to a chain of expressions.
    pub(super) fn link(&mut self, line: usize, kind: Kind) -> Parsed<Expr> {
        self.links += 1;
        if self.links > LONGEST {
            return fault(line, format!("more than {LONGEST} operations in one tag"));
        }
        Ok(Expr { line, kind })
    }

    pub(super) fn tuple(&mut self, parse: fn(&mut Self) -> Parsed<Expr>) -> Parsed<Expr> {
        self.tuple_until(parse, None)
    }

    /// An expression, or several with commas between.
    pub(super) fn tuple_until(
        &mut self,
        parse: fn(&mut Self) -> Parsed<Expr>,
        end: Option<&str>,
    ) -> Parsed<Expr> {
        let line = self.line();
        let first = parse(self)?;
        if !self.is_sign(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.take_sign(",") {
            let over = matches!(self.peek(), Some(Token::PrintEnd | Token::TagEnd)) || self.is_sign(")");
            if over || end.is_some_and(|end| self.is_word(end)) {
                break;
            }
            all.push(parse(self)?);
        }
        Ok(Expr { line, kind: Kind::Tuple(all) })
    }

    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.deeper(|parser| {
            let mut expr = parser.or()?;
            while parser.is_word("if") {
                let line = parser.line();
                parser.at += 1;
                let test = boxed(parser.or()?);
                let otherwise =
                    if parser.take_word("else") { Some(boxed(parser.expression()?)) } else { None };
                expr = parser.link(line, Kind::Choice { test, then: boxed(expr), otherwise })?;
            }
            Ok(expr)
        })
    }

    pub(super) fn or(&mut self) -> Parsed<Expr> {
        let mut left = self.and()?;
        while self.take_word("or") {
            let line = self.line();
            let right = self.and()?;
            left = self.link(line, Kind::Or(boxed(left), boxed(right)))?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed<Expr> {
        let mut left = self.not()?;
        while self.take_word("and") {
            let line = self.line();
            let right = self.not()?;
            left = self.link(line, Kind::And(boxed(left), boxed(right)))?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed<Expr> {
        if !self.is_word("not") {
            return self.compare();
        }
        let line = self.line();
        self.at += 1;
        let inner = self.deeper(Self::not)?;
        Ok(Expr { line, kind: Kind::Not(boxed(inner)) })
    }

    fn compare(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let comparison = match self.peek() {
                Some(Token::Sign("==")) => Comparison::Equal,
                Some(Token::Sign("!=")) => Comparison::NotEqual,
                Some(Token::Sign("<")) => Comparison::Less,
                Some(Token::Sign("<=")) => Comparison::LessOrEqual,
                Some(Token::Sign(">")) => Comparison::Greater,
                Some(Token::Sign(">=")) => Comparison::GreaterOrEqual,
                _ if self.is_word("in") => Comparison::In,
                _ if self.is_word("not") && self.is_word_at(self.at + 1, "in") => {
                    self.at += 1;
                    Comparison::NotIn
                }
                _ => break,
            };
            self.at += 1;
            rest.push((comparison, self.sum()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Expr { line, kind: Kind::Compare(boxed(first), rest) })
    }

    fn binary(&mut self, signs: &[(&str, Operator)], next: fn(&mut Self) -> Parsed<Expr>) -> Parsed<Expr> {
        let mut left = next(self)?;
        while let Some(&(_, operator)) = signs.iter().find(|(sign, _)| self.is_sign(sign)) {
            let line = self.line();
            self.at += 1;
            let right = next(self)?;
            left = self.link(line, Kind::Binary(operator, boxed(left), boxed(right)))?;
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed<Expr> {
        self.binary(&[("+", Operator::Add), ("-", Operator::Subtract)], Self::concat)
    }

    fn concat(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let first = self.product()?;
        if !self.is_sign("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_sign("~") {
            parts.push(self.product()?);
        }
        Ok(Expr { line, kind: Kind::Concat(parts) })
    }

    fn product(&mut self) -> Parsed<Expr> {
        let signs = [
            ("*", Operator::Multiply),
            ("/", Operator::Divide),
            ("//", Operator::FloorDivide),
            ("%", Operator::Modulo),
        ];
        self.binary(&signs, |parser| {
            parser.binary(&[("**", Operator::Power)], |parser| parser.unary(Filters::Allowed))
        })
    }

    fn unary(&mut self, filters: Filters) -> Parsed<Expr> {
        let line = self.line();
        let node = if self.take_sign("-") {
            let inner = self.deeper(|parser| parser.unary(Filters::Not))?;
            Expr { line, kind: Kind::Negative(boxed(inner)) }
        } else if self.take_sign("+") {
            let inner = self.deeper(|parser| parser.unary(Filters::Not))?;
            Expr { line, kind: Kind::Positive(boxed(inner)) }
        } else {
            self.primary()?
        };
        let node = self.postfix(node)?;
        match filters {
            Filters::Allowed => self.filtered(node),
            Filters::Not => Ok(node),
        }
    }

    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let Some((token, _)) = self.tokens.get(self.at).cloned() else {
            return self.unexpected("an expression");
        };
        let kind = match token {
            Token::Name(name) => {
                self.at += 1;
                match name.as_str() {
                    "true" | "True" => Kind::Bool(true),
                    "false" | "False" => Kind::Bool(false),
                    "none" | "None" => Kind::None,
                    _ => {
                        self.uses.caller |= name == "caller";
                        self.uses.varargs |= name == "varargs";
                        self.uses.kwargs |= name == "kwargs";
                        Kind::Name(name)
                    }
                }
            }
            Token::Text(mut text) => {
                self.at += 1;
                while let Some(Token::Text(more)) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                Kind::Text(text)
            }
            Token::Int(number) => {
                self.at += 1;
                Kind::Int(number)
            }
            Token::Float(number) => {
                self.at += 1;
                Kind::Float(number)
            }
            Token::Sign("(") => return self.parentheses(),
            Token::Sign("[") => {
                self.at += 1;
                Kind::List(self.items("]", Self::expression)?)
            }
            Token::Sign("{") => {
                self.at += 1;
                Kind::Dict(self.items("}", |parser| {
                    let key = parser.expression()?;
                    parser.expect_sign(":")?;
                    Ok((key, parser.expression()?))
                })?)
            }
            _ => return self.unexpected("an expression"),
        };
        Ok(Expr { line, kind })
    }

    fn parentheses(&mut self) -> Parsed<Expr> {
        let line = self.line();
        self.expect_sign("(")?;
        if self.take_sign(")") {
            return Ok(Expr { line, kind: Kind::Tuple(Vec::new()) });
        }
        let inner = self.tuple(Self::expression)?;
        self.expect_sign(")")?;
        Ok(inner)
    }

    /// Items with commas between, up to a closing bracket.
    fn items<T>(&mut self, close: &str, parse: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.is_sign(close) {
            if !items.is_empty() {
                self.expect_sign(",")?;
                if self.is_sign(close) {
                    break;
                }
            }
            items.push(parse(self)?);
        }
        self.expect_sign(close)?;
        Ok(items)
    }
}

/// Whether filters may follow.
#[derive(Clone, Copy)]
enum Filters {
    Allowed,
    Not,
}

/// Whether the first filter stands without its `|`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inline {
    First,
    Piped,
}
