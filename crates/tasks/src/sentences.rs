//! Sentences of a text, for translators that were trained on sentences.
//!
//! Splitting keeps everything: the pieces, put together, are the text. What stands between sentences (spaces) is a piece of
//! its own kind, so that a translation can be laid out as its source was.

/// A part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// Something to translate.
    Sentence(&'t str),
    /// Spaces.
    Gap(&'t str),
}

/// Words that end with a full stop in the middle of a sentence.
const SHORT: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "etc", "no", "vol", "fig", "al", "cf", "inc",
    "ltd", "co", "corp", "dept", "est", "approx", "gen", "col", "sgt", "capt", "lt", "rev", "hon", "jan",
    "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "e.g", "i.e", "p.m", "a.m",
    "u.s", "u.k", "ph.d",
];

/// Marks that end a sentence wherever they stand, without a space behind them.
const WIDE: &[char] = &['。', '！', '？', '…', '؟', '।'];

/// Marks that end a sentence where a space follows.
const NARROW: &[char] = &['.', '!', '?'];

/// What may still follow the mark and belong to the sentence.
const CLOSING: &[char] = &['"', '\'', ')', ']', '»', '”', '’', '」', '』', '）', '】', '》'];

/// The sentences of `line` and the gaps around them.
pub(crate) fn split(line: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let gap = rest.len() - rest.trim_start().len();
        if gap > 0 {
            pieces.push(Piece::Gap(&rest[..gap]));
            rest = &rest[gap..];
            continue;
        }
        let end = sentence_end(rest);
        let sentence = rest[..end].trim_end();
        pieces.push(Piece::Sentence(sentence));
        rest = &rest[sentence.len()..];
    }
    pieces
}

/// Where the first sentence of `text`, which begins with one, has ended.
fn sentence_end(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((at, mark)) = chars.next() {
        let wide = WIDE.contains(&mark);
        if !wide && !NARROW.contains(&mark) {
            continue;
        }
        let more = |next: &(usize, char)| {
            WIDE.contains(&next.1) || NARROW.contains(&next.1) || CLOSING.contains(&next.1)
        };
        while chars.next_if(more).is_some() {}
        let end = chars.peek().map_or(text.len(), |(at, _)| *at);
        let spaced = text[end..].starts_with(char::is_whitespace) || end == text.len();
        if wide || (spaced && (mark != '.' || ends_here(&text[..at], text[end..].trim_start()))) {
            return end;
        }
    }
    text.len()
}

/// Whether a full stop after `before` and ahead of `after` ends a sentence: not after an abbreviation or an initial, and not
/// ahead of a small letter.
fn ends_here(before: &str, after: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    let short = SHORT.contains(&word.to_lowercase().as_str());
    let small = after.chars().next().is_some_and(char::is_lowercase);
    !(initial || short || small)
}

/// What stands between two translated sentences: nothing where the writing has no spaces, else `gap` or one space.
pub(crate) fn joiner<'g>(before: &str, gap: &'g str) -> &'g str {
    let spaceless = |c: char| matches!(u32::from(c), 0x2e80..=0x9fff | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xff00..=0xffef | 0x0e00..=0x0e7f);
    let hangul = |c: char| matches!(u32::from(c), 0xac00..=0xd7a3);
    match before.chars().next_back() {
        Some(last) if spaceless(last) && !hangul(last) => "",
        _ if gap.is_empty() => " ",
        _ => gap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(line: &str) -> Vec<&str> {
        let pieces = split(line);
        let text = |piece: &Piece<'_>| match *piece {
            Piece::Sentence(text) | Piece::Gap(text) => text.to_owned(),
        };
        assert_eq!(pieces.iter().map(text).collect::<String>(), line, "nothing is lost");
        let sentence = |piece: &Piece<'static>| match *piece {
            Piece::Sentence(text) => Some(text),
            Piece::Gap(_) => None,
        };
        let line: &'static str = line.to_owned().leak();
        split(line).iter().filter_map(sentence).collect()
    }

    #[test]
    fn sentences_end_where_a_reader_would_say_so() {
        assert_eq!(sentences("One. Two! Three?"), ["One.", "Two!", "Three?"]);
        assert_eq!(
            sentences("  Mr. J. Smith paid 3.50 dollars. He left."),
            ["Mr. J. Smith paid 3.50 dollars.", "He left."]
        );
        assert_eq!(sentences("He said \"Go.\" Then he went."), ["He said \"Go.\"", "Then he went."]);
        assert_eq!(sentences("Fruits, e.g. apples, etc. are sold."), ["Fruits, e.g. apples, etc. are sold."]);
        assert_eq!(
            sentences("今天天气很好。我们去公园吧！好吗？"),
            ["今天天气很好。", "我们去公园吧！", "好吗？"]
        );
        assert_eq!(sentences("他说：“走吧。”然后走了。"), ["他说：“走吧。”", "然后走了。"]);
        assert_eq!(sentences("Wait... what?! Yes"), ["Wait... what?!", "Yes"]);
        assert_eq!(sentences(""), [""; 0]);
        assert_eq!(sentences("   "), [""; 0]);
    }

    #[test]
    fn translated_sentences_stand_as_their_writing_asks() {
        assert_eq!(joiner("你好。", " "), "");
        assert_eq!(joiner("Hello.", ""), " ");
        assert_eq!(joiner("Hello.", "  "), "  ");
        assert_eq!(joiner("안녕", " "), " ");
    }
}
