//! Text on a grid of terminal columns, where a Chinese character takes two.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::Lang;

/// How many columns `text` takes.
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// How many columns a character takes: two for the wide East Asian ones, none for marks that join the one before.
fn char_columns(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// As much of `text` as fits into `width` columns, with "…" where something was left out.
pub(super) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut used = 0;
    let fits = |c: &char| {
        used += char_columns(*c);
        used < width
    };
    let kept: String = text.chars().take_while(fits).collect();
    if width == 0 { String::new() } else { kept + "…" }
}

/// `text` with spaces behind it, `width` columns in all.
pub(super) fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// `text` with spaces before it, `width` columns in all.
pub(super) fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(columns(text))))
}

/// `text` in lines of at most `width` columns. Chinese may break between any two characters, English only at spaces; a word
/// that is wider than a line stands alone.
pub(super) fn wrap(text: &str, width: usize, lang: Lang) -> Vec<String> {
    text.split('\n').flat_map(|paragraph| wrap_one(paragraph, width, lang)).collect()
}

fn wrap_one(text: &str, width: usize, lang: Lang) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in pieces(text, lang) {
        let needed = columns(&line) + columns(piece.trim_end());
        if needed > width && !line.trim().is_empty() {
            lines.push(line.trim_end().to_owned());
            line.clear();
        }
        line.push_str(if line.is_empty() { piece.trim_start() } else { piece });
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// The parts between which a line may end: words with the space behind them, and single wide characters. What may not begin
/// a line (closing punctuation) stays with the part before it, what may not end one with the part after it.
fn pieces(text: &str, lang: Lang) -> Vec<&str> {
    const NEVER_FIRST: &str = "，。：；、）”！？」』》,.:;)]!?";
    const NEVER_LAST: &str = "（“「『《([";
    let mut cuts = vec![0];
    let mut before: Option<char> = None;
    for (at, c) in text.char_indices() {
        if let Some(before) = before {
            let wide = char_columns(before) == 2 || char_columns(c) == 2;
            let between = match lang {
                Lang::English => before == ' ',
                Lang::Chinese => before == ' ' || wide,
            };
            if between && c != ' ' && !NEVER_FIRST.contains(c) && !NEVER_LAST.contains(before) {
                cuts.push(at);
            }
        }
        before = Some(c);
    }
    cuts.push(text.len());
    cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_characters_take_two_columns() {
        assert_eq!(columns("cat"), 3);
        assert_eq!(columns("坐着"), 4);
        assert_eq!(left("猫", 5), "猫   ");
        assert_eq!(right("猫", 5), "   猫");
        assert_eq!(cut("坐着看", 5), "坐着…");
        assert_eq!(cut("坐着看", 4), "坐…");
        assert_eq!(cut("cat", 3), "cat");
    }

    #[test]
    fn lines_break_at_spaces_and_between_wide_characters() {
        assert_eq!(wrap("one two three", 8, Lang::English), ["one two", "three"]);
        assert_eq!(wrap("one\ntwo", 8, Lang::English), ["one", "two"]);
        assert_eq!(wrap("and 坐着 looks", 7, Lang::English), ["and", "坐着", "looks"]);
        assert_eq!(wrap("这里三个词都列", 8, Lang::Chinese), ["这里三个", "词都列"]);
        assert_eq!(wrap("unbreakable", 4, Lang::Chinese), ["unbreakable"]);
        assert_eq!(wrap("", 4, Lang::English), [""]);
    }

    #[test]
    fn closing_punctuation_never_begins_a_line() {
        assert_eq!(wrap("解码器，词", 6, Lang::Chinese), ["解码", "器，词"]);
        assert_eq!(wrap("看（猫）吧", 6, Lang::Chinese), ["看", "（猫）", "吧"]);
    }
}
