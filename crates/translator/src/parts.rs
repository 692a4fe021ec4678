//! What of a text is English, and what stays as it is.

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'t> {
    /// To be translated.
    English(&'t str),
    /// To stay: another script, numbers, emoji, spaces.
    Other(&'t str),
}

/// Cuts a text where the script changes. The parts together are the text; spaces around English belong to neither side's words
/// and stay.
pub(crate) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let latin = is_latin(first);
        let end = rest.find(|c| is_latin(c) != latin).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        let inside = run.trim();
        if !inside.contains(|c: char| c.is_ascii_alphabetic()) {
            push_other(&mut parts, run, text);
            continue;
        }
        let start = run.len() - run.trim_start().len();
        push_other(&mut parts, &run[..start], text);
        parts.push(Part::English(inside));
        push_other(&mut parts, &run[start + inside.len()..], text);
    }
    parts
}

/// Adds what stays, to what stays before it where there is some.
fn push_other<'t>(parts: &mut Vec<Part<'t>>, other: &'t str, text: &'t str) {
    if other.is_empty() {
        return;
    }
    let start = other.as_ptr().addr() - text.as_ptr().addr();
    match parts.last_mut() {
        Some(Part::Other(before)) => {
            let from = start - before.len();
            *before = &text[from..start + other.len()];
        }
        _ => parts.push(Part::Other(other)),
    }
}

/// Whether English may be written with it: ASCII, letters with accents, and the signs of printed texts (’ “ ” – …).
fn is_latin(c: char) -> bool {
    matches!(c, '\0'..'\u{2b0}' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '€')
}

#[cfg(test)]
mod tests {
    use super::Part::{English, Other};
    use super::parts;

    #[test]
    fn english_is_told_from_the_rest() {
        assert_eq!(parts("Hello"), [English("Hello")]);
        assert_eq!(parts(" It’s “late”… \n"), [Other(" "), English("It’s “late”…"), Other(" \n")]);
        assert_eq!(parts("Hello 😀👍🏽!"), [English("Hello"), Other(" 😀👍🏽!")]);
        assert_eq!(parts("我 love 你"), [Other("我 "), English("love"), Other(" 你")]);
        for other in ["", "你好。", "3.14", "😀", " \t\n", "Привет", "¡¿"] {
            assert!(parts(other).iter().all(|part| matches!(part, Other(_))), "{other:?}");
        }
    }

    #[test]
    fn nothing_is_lost() {
        for text in ["", "a\u{200d}b", "x😀y 你 z\r\n\nw", "\u{feff}Hi", "é\u{301}", "1 a 2", "\0a\0"] {
            let all = parts(text).into_iter().map(|part| match part {
                English(text) | Other(text) => text,
            });
            assert_eq!(all.collect::<String>(), text);
        }
    }
}
