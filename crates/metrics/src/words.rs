//! Texts cut into words as BLEU wants them: sacreBLEU's `13a` and `zh`.

/// How words are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// As `mteval-v13a` does: Western languages.
    Western,
    /// Each Chinese character is a word.
    Chinese,
    /// By spaces alone.
    Spaced,
}

impl Words {
    /// The words of `text`.
    pub fn of(self, text: &str) -> Vec<String> {
        let text = text.trim_end();
        let line = match self {
            Self::Spaced => text.to_owned(),
            Self::Western => {
                let mut line = text.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
                for (entity, character) in [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
                    line = line.replace(entity, character);
                }
                western(&format!(" {line} "))
            }
            Self::Chinese => {
                let spread = |c: char| if is_chinese(c) { format!(" {c} ") } else { c.to_string() };
                western(&text.trim().chars().map(spread).collect::<String>())
            }
        };
        line.split_whitespace().map(str::to_owned).collect()
    }
}

/// Spaces around punctuation, except within numbers.
fn western(line: &str) -> String {
    let mark = |c: char| matches!(c, '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/');
    let spread: String =
        line.chars().map(|c| if mark(c) { format!(" {c} ") } else { c.to_string() }).collect();
    let stop = |c: char| matches!(c, '.' | ',');
    let digit = |c: char| c.is_ascii_digit();
    let line = pairs(&spread, |a, b| !digit(a) && stop(b), |a, b| format!("{a} {b} "));
    let line = pairs(&line, |a, b| stop(a) && !digit(b), |a, b| format!(" {a} {b}"));
    pairs(&line, |a, b| digit(a) && b == '-', |a, b| format!("{a} {b} "))
}

/// Every two characters that fit, from the left and without overlap, replaced.
fn pairs(line: &str, fits: impl Fn(char, char) -> bool, put: impl Fn(char, char) -> String) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    let mut rest = line.chars();
    while let Some(first) = rest.next() {
        match rest.clone().next() {
            Some(second) if fits(first, second) => {
                rest.next();
                out += &put(first, second);
            }
            _ => out.push(first),
        }
    }
    out
}

/// What sacreBLEU takes for Chinese. Two of its ranges are written with five digits where the language reads four, so that
/// all of U+2001 to U+2A6D are among them; scores are only comparable if they are here too.
fn is_chinese(c: char) -> bool {
    matches!(
        c,
        '\u{2001}'..='\u{2a6d}'
            | '\u{2e80}'..='\u{2eff}'
            | '\u{2f00}'..='\u{2fdf}'
            | '\u{2ff0}'..='\u{303f}'
            | '\u{3100}'..='\u{312f}'
            | '\u{31a0}'..='\u{31bf}'
            | '\u{31c0}'..='\u{31ef}'
            | '\u{3200}'..='\u{33ff}'
            | '\u{3400}'..='\u{4db5}'
            | '\u{4e00}'..='\u{9fbb}'
            | '\u{f900}'..='\u{fa2d}'
            | '\u{fa30}'..='\u{fa6a}'
            | '\u{fa70}'..='\u{fad9}'
            | '\u{fe10}'..='\u{fe1f}'
            | '\u{fe30}'..='\u{fe4f}'
            | '\u{ff00}'..='\u{ffef}'
    )
}
