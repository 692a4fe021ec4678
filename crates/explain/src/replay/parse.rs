//! The notation of formulas as a tree. It knows nothing of the engine: only what a reader of the line knows.

/// How deep brackets may be nested: a line may come from a file that is not trusted.
const DEEPEST: usize = 32;
/// How long a line may be. A chain of sums is a tree as deep as it is long.
const LONGEST: usize = 4096;

/// A formula's right side.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number.
    Number(f64),
    /// n, the number of rows of the text.
    Length,
    /// A value or a weight.
    Symbol(String),
    /// `Kᵀ`.
    Transposed(Box<Expr>),
    /// `W[t]`: what is between the brackets stays as it is written.
    Index(Box<Expr>, String),
    /// `LN(X)`.
    Call(String, Vec<Expr>),
    /// `[a, b]`: columns side by side.
    Beside(Vec<Expr>),
    /// `[a; b]`: rows one after the other.
    Below(Vec<Expr>),
    /// `a + b`.
    Add(Box<Expr>, Box<Expr>),
    /// `a − b`.
    Subtract(Box<Expr>, Box<Expr>),
    /// `a · b`.
    Product(Box<Expr>, Box<Expr>),
    /// `a ⊙ b`: number by number.
    Each(Box<Expr>, Box<Expr>),
    /// `a / b`.
    Divide(Box<Expr>, Box<Expr>),
    /// `−a`.
    Negative(Box<Expr>),
    /// `√a`.
    Root(Box<Expr>),
    /// |i − j|.
    Distance,
}

/// A line taken apart: the right side, and what stands behind commas.
///
/// # Errors
/// If it is no line of this notation.
pub fn line(text: &str) -> Result<(Expr, Vec<String>), String> {
    if text.len() > LONGEST {
        return Err(format!("a line of {} bytes", text.len()));
    }
    let mut parts = split(text, ',').into_iter();
    let equation = parts.next().ok_or("an empty line")?;
    let (_, right) = equation.split_once(" = ").ok_or_else(|| format!("{text:?} is no equation"))?;
    let mut parser = Parser { rest: right.chars().collect(), at: 0, depth: 0 };
    let expr = parser.sum()?;
    if parser.at < parser.rest.len() {
        let rest: String = parser.rest[parser.at..].iter().collect();
        return Err(format!("{text:?}: {rest:?} is left over"));
    }
    Ok((expr, parts.collect()))
}

/// The parts of `text` between `mark`s that stand in no brackets.
pub fn split(text: &str, mark: char) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in text.chars() {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        if c == mark && depth == 0 {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).collect()
}

struct Parser {
    rest: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn spaces(&mut self) {
        while self.rest.get(self.at) == Some(&' ') {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.spaces();
        self.rest.get(self.at).copied()
    }

    fn takes(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn needs(&mut self, wanted: char) -> Result<(), String> {
        if self.takes(wanted) { Ok(()) } else { Err(format!("{wanted:?} is missing at {}", self.at)) }
    }

    /// One level deeper than before.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == DEEPEST {
            return Err(format!("it is nested more than {DEEPEST} deep"));
        }
        self.depth += 1;
        let found = inner(self);
        self.depth -= 1;
        found
    }

    fn sum(&mut self) -> Result<Expr, String> {
        self.deeper(|parser| {
            let mut left = parser.product()?;
            loop {
                left = match parser.peek() {
                    Some('+') => {
                        parser.at += 1;
                        Expr::Add(left.into(), parser.product()?.into())
                    }
                    Some('−') => {
                        parser.at += 1;
                        Expr::Subtract(left.into(), parser.product()?.into())
                    }
                    _ => return Ok(left),
                };
            }
        })
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut left = self.factor()?;
        loop {
            left = match self.peek() {
                Some('·') => {
                    self.at += 1;
                    Expr::Product(left.into(), self.factor()?.into())
                }
                Some('⊙') => {
                    self.at += 1;
                    Expr::Each(left.into(), self.factor()?.into())
                }
                Some('/') => {
                    self.at += 1;
                    Expr::Divide(left.into(), self.factor()?.into())
                }
                _ => return Ok(left),
            };
        }
    }

    fn factor(&mut self) -> Result<Expr, String> {
        if self.takes('−') {
            return Ok(Expr::Negative(self.deeper(Self::factor)?.into()));
        }
        let mut expr = self.primary()?;
        loop {
            match self.rest.get(self.at) {
                Some('ᵀ') => {
                    self.at += 1;
                    expr = Expr::Transposed(expr.into());
                }
                Some('[') => {
                    let end = self.closing('[', ']')?;
                    let inside: String = self.rest[self.at + 1..end].iter().collect();
                    self.at = end + 1;
                    expr = Expr::Index(expr.into(), inside);
                }
                _ => return Ok(expr),
            }
        }
    }

    /// Where the bracket that opens here closes.
    fn closing(&self, open: char, close: char) -> Result<usize, String> {
        let mut depth = 0;
        for (k, &c) in self.rest.iter().enumerate().skip(self.at) {
            depth += i32::from(c == open) - i32::from(c == close);
            if depth == 0 {
                return Ok(k);
            }
        }
        Err(format!("a bracket opens at {} and does not close", self.at))
    }

    fn primary(&mut self) -> Result<Expr, String> {
        match self.peek().ok_or("an end where a value should be")? {
            '(' => {
                self.at += 1;
                let inside = self.sum()?;
                self.needs(')')?;
                Ok(inside)
            }
            '[' => {
                self.at += 1;
                let first = self.sum()?;
                let below = self.peek() == Some(';');
                let mut all = vec![first];
                while self.takes(if below { ';' } else { ',' }) {
                    all.push(self.sum()?);
                }
                self.needs(']')?;
                Ok(if below { Expr::Below(all) } else { Expr::Beside(all) })
            }
            '|' => {
                let text: String = self.rest[self.at..].iter().take(7).collect();
                self.at += 7;
                if text == "|i − j|" { Ok(Expr::Distance) } else { Err(format!("{text:?}")) }
            }
            '√' => {
                self.at += 1;
                Ok(Expr::Root(self.deeper(Self::primary)?.into()))
            }
            c if c.is_ascii_digit() => self.number(),
            _ => self.word(),
        }
    }

    fn number(&mut self) -> Result<Expr, String> {
        let digits: String = self.rest[self.at..]
            .iter()
            .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | 'e'))
            .collect();
        self.at += digits.chars().count();
        digits.parse().map(Expr::Number).map_err(|_| format!("{digits:?} is no number"))
    }

    fn word(&mut self) -> Result<Expr, String> {
        let part = |c: &&char| c.is_alphanumeric() && **c != 'ᵀ' || matches!(c, '_' | '′' | '″' | '‴');
        let below = |c: &char| ('₀'..='₉').contains(c);
        let word: String = self.rest[self.at..].iter().take_while(|c| part(c) || below(c)).collect();
        if word.is_empty() {
            return Err(format!("no value begins at {} of {:?}", self.at, self.rest));
        }
        self.at += word.chars().count();
        if self.rest.get(self.at) != Some(&'(') {
            return Ok(if word == "n" { Expr::Length } else { Expr::Symbol(word) });
        }
        self.at += 1;
        let mut inside = vec![self.sum()?];
        while self.takes(',') {
            inside.push(self.sum()?);
        }
        self.needs(')')?;
        Ok(Expr::Call(word, inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nested_too_deep_is_an_error() {
        for open in ["(", "−", "√", "f(", "["] {
            let text = format!("X = {}", open.repeat(100_000));
            assert!(line(&text).is_err(), "{open}");
        }
        let long = format!("X = {}", vec!["a"; 100_000].join(" · "));
        assert!(line(&long).is_err(), "a chain of products is a tree that is as deep");
    }

    #[test]
    fn lines_are_read_as_people_read_them() {
        let (expr, conditions) = line("S = Q · Kᵀ / √48 − m · |i − j|, h = 6, j ≤ i").expect("it is a line");
        assert_eq!(conditions, ["h = 6", "j ≤ i"]);
        let Expr::Subtract(left, right) = expr else { panic!("{expr:?}") };
        assert!(matches!(*left, Expr::Divide(..)) && matches!(*right, Expr::Product(..)));
        assert!(line("Q").is_err() && line("Q = X ·").is_err() && line("Q = X) + 1").is_err());
    }
}
