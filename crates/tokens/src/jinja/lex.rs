//! A template as tokens, with the spaces around tags gone as the reference has them go (`trim_blocks`,
//! `lstrip_blocks`, one newline at the end of the template).

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// Text between tags.
    Data(String),
    /// `{{`
    PrintBegin,
    /// `}}`
    PrintEnd,
    /// `{%`
    TagBegin,
    /// `%}`
    TagEnd,
    Name(String),
    Text(String),
    Int(i128),
    Float(f64),
    /// An operator or bracket.
    Sign(&'static str),
}

/// What is wrong, and on which line.
#[derive(Debug)]
pub(super) struct Fault {
    pub line: usize,
    pub reason: String,
}

pub(super) fn fault<T>(line: usize, reason: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { line, reason: reason.into() })
}

/// The longest first.
const SIGNS: [&str; 25] = [
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<",
    "=", ".", ":", "|", ",",
];

/// What Python takes for a space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    line: usize,
    /// Whether what was read last ended a line.
    line_begins: bool,
    tokens: Vec<(Token, usize)>,
    /// Closing brackets that are expected.
    open: Vec<&'static str>,
}

/// All tokens of a template, each with its line.
pub(super) fn tokens(source: &str) -> Result<Vec<(Token, usize)>, Fault> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let mut lexer = Lexer { source, at: 0, line: 1, line_begins: true, tokens: Vec::new(), open: Vec::new() };
    lexer.run()?;
    Ok(lexer.tokens)
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    /// Moves on, counting lines.
    fn skip(&mut self, length: usize) {
        let skipped = &self.source[self.at..self.at + length];
        self.line += skipped.matches('\n').count();
        self.line_begins = skipped.ends_with('\n');
        self.at += length;
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.skip(rest.len() - rest.trim_start_matches(is_space).len());
    }

    fn push(&mut self, token: Token) {
        self.tokens.push((token, self.line));
    }

    fn run(&mut self) -> Result<(), Fault> {
        loop {
            let rest = self.rest();
            let tag = rest.match_indices('{').find(|&(at, _)| rest[at + 1..].starts_with(['{', '%', '#']));
            let Some((length, _)) = tag else {
                if !rest.is_empty() {
                    self.push(Token::Data(rest.to_owned()));
                }
                return Ok(());
            };
            let kind = rest.as_bytes()[length + 1];
            let sign = rest[length + 2..].chars().next().filter(|c| ['-', '+'].contains(c));
            self.data(length, sign, kind != b'{');
            let line = self.line;
            self.skip(2 + usize::from(sign.is_some()));
            match kind {
                b'#' => self.comment(line)?,
                b'{' => {
                    self.push(Token::PrintBegin);
                    self.inside("}}")?;
                }
                _ => self.tag(line)?,
            }
        }
    }

    /// The text before a tag, less the spaces that the tag takes.
    fn data(&mut self, length: usize, sign: Option<char>, strips: bool) {
        let text = &self.rest()[..length];
        let kept = match sign {
            Some('-') => text.trim_end_matches(is_space),
            None if strips => {
                let begin = text.rfind('\n').map_or(0, |at| at + 1);
                let blank = text[begin..].chars().all(is_space);
                if blank && (begin > 0 || self.line_begins) { &text[..begin] } else { text }
            }
            _ => text,
        };
        if !kept.is_empty() {
            self.push(Token::Data(kept.to_owned()));
        }
        self.skip(length);
    }

    fn comment(&mut self, line: usize) -> Result<(), Fault> {
        let Some(end) = self.rest().find("#}") else {
            return fault(line, "a comment has no end");
        };
        let sign = self.rest()[..end].chars().next_back();
        self.skip(end + 2);
        self.after_tag(sign);
        Ok(())
    }

    /// What the end of a tag takes: everything blank, nothing, or one newline.
    fn after_tag(&mut self, sign: Option<char>) {
        match sign {
            Some('-') => self.skip_spaces(),
            Some('+') => {}
            _ if self.rest().starts_with('\n') => self.skip(1),
            _ => {}
        }
    }

    /// A tag, whose beginning was read: raw text, or a statement.
    fn tag(&mut self, line: usize) -> Result<(), Fault> {
        let rest = self.rest();
        let word = rest.trim_start_matches(is_space);
        if let Some(after) = word.strip_prefix("raw") {
            let after = after.trim_start_matches(is_space);
            let sign = after.chars().next().filter(|c| *c == '-');
            if let Some(text) = after.strip_prefix("-%}").or_else(|| after.strip_prefix("%}")) {
                self.skip(rest.len() - text.len());
                if sign.is_some() {
                    self.skip_spaces();
                }
                return self.raw(line);
            }
        }
        self.push(Token::TagBegin);
        self.inside("%}")
    }

    /// Text that is not a template, up to `{% endraw %}`.
    fn raw(&mut self, line: usize) -> Result<(), Fault> {
        let rest = self.rest();
        for (at, _) in rest.match_indices("{%") {
            let inside = &rest[at + 2..];
            let sign = inside.chars().next().filter(|c| ['-', '+'].contains(c));
            let word = inside[usize::from(sign.is_some())..].trim_start_matches(is_space);
            let Some(after) = word.strip_prefix("endraw") else { continue };
            let after = after.trim_start_matches(is_space);
            let end = after.chars().next().filter(|c| ['-', '+'].contains(c));
            let Some(text) = after[usize::from(end.is_some())..].strip_prefix("%}") else { continue };
            let length = rest.len() - text.len();
            self.data(at, sign, true);
            self.skip(length - at);
            self.after_tag(end);
            return Ok(());
        }
        if rest.is_empty() {
            return Ok(()); // the reference sees nothing wrong here either
        }
        fault(line, "{% raw %} has no end")
    }

    /// Everything up to the end of a tag.
    fn inside(&mut self, end: &'static str) -> Result<(), Fault> {
        let begin = self.line;
        loop {
            self.skip_spaces();
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                return fault(begin, format!("a tag has no {end}"));
            };
            if self.open.is_empty() {
                let sign = ['-', '+'].into_iter().find(|sign| {
                    first == *sign && rest[1..].starts_with(end) && (*sign == '-' || end == "%}")
                });
                if sign.is_some() || rest.starts_with(end) {
                    self.push(if end == "}}" { Token::PrintEnd } else { Token::TagEnd });
                    self.skip(end.len() + usize::from(sign.is_some()));
                    match (end, sign) {
                        ("}}", Some(_)) => self.skip_spaces(),
                        ("}}", None) => {}
                        _ => self.after_tag(sign),
                    }
                    return Ok(());
                }
            }
            self.token(first)?;
        }
    }

    fn token(&mut self, first: char) -> Result<(), Fault> {
        match first {
            '0'..='9' => self.number(),
            '\'' | '"' => self.string(first),
            c if c == '_' || c.is_alphabetic() => {
                let rest = self.rest();
                let length = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                self.push(Token::Name(rest[..length].to_owned()));
                self.skip(length);
                Ok(())
            }
            c => {
                let Some(sign) = SIGNS.into_iter().find(|sign| self.rest().starts_with(sign)) else {
                    return fault(self.line, format!("unexpected {c:?}"));
                };
                match sign {
                    "(" => self.open.push(")"),
                    "[" => self.open.push("]"),
                    "{" => self.open.push("}"),
                    ")" | "]" | "}" => match self.open.pop() {
                        Some(expected) if expected == sign => {}
                        Some(expected) => {
                            return fault(self.line, format!("{sign:?} where {expected:?} is expected"));
                        }
                        None => return fault(self.line, format!("{sign:?} closes nothing")),
                    },
                    _ => {}
                }
                self.push(Token::Sign(sign));
                self.skip(sign.len());
                Ok(())
            }
        }
    }

    fn number(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
        let too_large = |line| Fault { line, reason: "the number is too large".to_owned() };
        for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
            if rest.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(prefix)) {
                let body = &rest[2..];
                let length = body.find(|c: char| !c.is_digit(radix) && c != '_').unwrap_or(body.len());
                let number = i128::from_str_radix(&body[..length].replace('_', ""), radix);
                self.push(Token::Int(number.map_err(|_| too_large(self.line))?));
                self.skip(2 + length);
                return Ok(());
            }
        }
        let mut length = digits(rest);
        let whole = length;
        // Not after a dot: `items.0.1` is two places, no fraction.
        let after_dot = matches!(self.tokens.last(), Some((Token::Sign("."), _)));
        if !after_dot
            && rest[length..].starts_with('.')
            && rest[length + 1..].starts_with(|c: char| c.is_ascii_digit())
        {
            length += 1 + digits(&rest[length + 1..]);
        }
        if !after_dot && rest[length..].starts_with(['e', 'E']) {
            let body = &rest[length + 1..];
            let sign = usize::from(body.starts_with(['+', '-']));
            if body[sign..].starts_with(|c: char| c.is_ascii_digit()) {
                length += 1 + sign + digits(&body[sign..]);
            }
        }
        let text = rest[..length].replace('_', "");
        let token = if length > whole {
            Token::Float(text.parse().map_err(|_| too_large(self.line))?)
        } else {
            Token::Int(text.parse().map_err(|_| too_large(self.line))?)
        };
        self.push(token);
        self.skip(length);
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<(), Fault> {
        let rest = self.rest();
        let mut text = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.push(Token::Text(text));
                self.skip(at + 1);
                return Ok(());
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let Some((at, c)) = chars.next() else { break };
            let mut code = |digits: usize, radix: u32| {
                let body = rest[at + 1..].get(..digits)?;
                let number = body
                    .chars()
                    .all(|c| c.is_digit(radix))
                    .then(|| u32::from_str_radix(body, radix).ok())??;
                (0..digits).for_each(|_| {
                    chars.next();
                });
                char::from_u32(number)
            };
            match c {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'b' => text.push('\u{8}'),
                'f' => text.push('\u{c}'),
                'v' => text.push('\u{b}'),
                'a' => text.push('\u{7}'),
                '\n' => {}
                '\\' | '\'' | '"' => text.push(c),
                'x' | 'u' | 'U' => {
                    let digits = if c == 'x' {
                        2
                    } else if c == 'u' {
                        4
                    } else {
                        8
                    };
                    let Some(found) = code(digits, 16) else {
                        return fault(self.line, format!("\\{c} is followed by no character's code"));
                    };
                    text.push(found);
                }
                '0'..='7' => {
                    let body = &rest[at..];
                    let length = body.find(|c: char| !('0'..='7').contains(&c)).unwrap_or(body.len()).min(3);
                    let number = u32::from_str_radix(&body[..length], 8).unwrap_or(0);
                    text.extend(char::from_u32(number));
                    (1..length).for_each(|_| {
                        chars.next();
                    });
                }
                other => text.extend(['\\', other]),
            }
        }
        fault(self.line, "a text has no end")
    }
}
