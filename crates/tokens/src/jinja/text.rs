//! Python's ideas of spaces, lines and words.

/// What Python takes for a space.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Without these characters at one end or both; without spaces where there are none.
pub(super) fn strip<'t>(text: &'t str, chars: Option<&str>, ends: Ends) -> &'t str {
    let gone = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if ends == Ends::Right { text } else { text.trim_start_matches(gone) };
    if ends == Ends::Left { text } else { text.trim_end_matches(gone) }
}

/// Which end of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Left,
    Right,
    Both,
}

/// Lines, as `str.splitlines` cuts them; with what ends them where that is wanted.
pub(super) fn lines(text: &str, keep: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut begin = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends =
            matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
        if !ends {
            continue;
        }
        let mut end = at + c.len_utf8();
        if c == '\r' && chars.next_if(|&(_, next)| next == '\n').is_some() {
            end += 1;
        }
        lines.push(&text[begin..if keep { end } else { at }]);
        begin = end;
    }
    if begin < text.len() {
        lines.push(&text[begin..]);
    }
    lines
}

/// Words between spaces, from the left, at most this many cuts.
pub(super) fn words(text: &str, most: Option<usize>) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if most.is_some_and(|most| words.len() == most) {
            words.push(rest.trim_end_matches(is_space));
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    words
}

/// The same from the right.
pub(super) fn words_from_right(text: &str, most: Option<usize>) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if most.is_some_and(|most| words.len() == most) {
            words.push(rest.trim_start_matches(is_space));
            break;
        }
        let begin =
            rest.char_indices().rev().find(|&(_, c)| is_space(c)).map_or(0, |(at, c)| at + c.len_utf8());
        words.push(&rest[begin..]);
        rest = rest[..begin].trim_end_matches(is_space);
    }
    words.reverse();
    words
}

/// The first letter large, the others small.
pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + &chars.as_str().to_lowercase()
    })
}

/// Every word's first letter large, a word being a run of letters (`str.title`).
pub(super) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphabetic();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{lines, title, words, words_from_right};

    #[test]
    fn lines_end_where_python_ends_them() {
        assert_eq!(lines("a\nb\r\nc\rd\u{2028}e", false), ["a", "b", "c", "d", "e"]);
        assert_eq!(lines("a\n\n", false), ["a", ""]);
        assert_eq!(lines("a\r\nb", true), ["a\r\n", "b"]);
        assert_eq!(lines("", false), [""; 0]);
    }

    #[test]
    fn words_are_cut_from_either_side() {
        assert_eq!(words("  a  b c ", None), ["a", "b", "c"]);
        assert_eq!(words("  a  b c ", Some(1)), ["a", "b c"]);
        assert_eq!(words_from_right("  a  b c ", Some(1)), ["a  b", "c"]);
        assert_eq!(title("it's a TEST"), "It'S A Test");
    }
}
