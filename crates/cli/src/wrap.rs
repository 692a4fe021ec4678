//! Text on a terminal that comes piece by piece: lines end between words, not within them.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What has not been written yet, and where the line is.
pub struct Wrap {
    /// How many columns a line has.
    columns: usize,
    /// How many of them are written.
    column: usize,
    /// Spaces before the word; they are left out where the line ends.
    gap: String,
    /// What is known so far of the word.
    word: String,
}

impl Wrap {
    pub fn new(columns: usize) -> Self {
        Self { columns: columns.max(1), column: 0, gap: String::new(), word: String::new() }
    }

    /// What can be written when `piece` has come: all but its last word, which may go on.
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for letter in piece.chars() {
            if letter == '\n' {
                self.place(&mut out);
                self.gap.clear();
                self.column = 0;
                out.push(letter);
            } else if letter == ' ' || letter == '\t' || letter == '\u{3000}' {
                self.place(&mut out);
                self.gap.push(letter);
            } else {
                if self.word.chars().next_back().is_some_and(|last| parts(last, letter)) {
                    self.place(&mut out);
                }
                self.word.push(letter);
            }
        }
        out
    }

    /// What is left when no more comes.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        self.place(&mut out);
        out
    }

    /// Writes the word: behind its gap, or on a new line where it does not fit on this one.
    fn place(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let (gap, word) = (self.gap.width(), self.word.width());
        if self.column > 0 && self.column + gap + word > self.columns {
            out.push('\n');
            self.column = 0;
        } else {
            out.push_str(&self.gap);
            self.column += gap;
        }
        out.push_str(&self.word);
        self.column += word;
        // The terminal itself breaks what is longer than a line.
        if self.column > self.columns {
            self.column = (self.column - 1) % self.columns + 1;
        }
        self.gap.clear();
        self.word.clear();
    }
}

/// Whether a line may end between these two: where one of them is wide, as 中 is, and neither clings to the other.
fn parts(before: char, after: char) -> bool {
    const OPENING: &str = "（《〈「『【〔“‘([{<";
    const CLOSING: &str = "）》〉」』】〕”’，。、；：！？…—～·)]}>,.;:!?%";
    let wide = |letter: char| letter.width() == Some(2);
    (wide(before) || wide(after))
        && after.width() != Some(0)
        && !CLOSING.contains(after)
        && !OPENING.contains(before)
}

#[cfg(test)]
mod tests {
    use super::Wrap;

    /// `text`, come letter by letter.
    fn wrapped(columns: usize, text: &str) -> String {
        let mut wrap = Wrap::new(columns);
        let mut out: String = text.chars().map(|letter| wrap.push(&letter.to_string())).collect();
        out += &wrap.finish();
        out
    }

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrapped(10, "The cat sat on the mat."), "The cat\nsat on the\nmat.");
        assert_eq!(wrapped(10, "one\n\n  two three"), "one\n\n  two\nthree");
        assert_eq!(wrapped(4, "abcdefgh ij k"), "abcdefgh\nij k");
        assert_eq!(wrapped(4, "abcdef ij"), "abcdef\nij");
        assert_eq!(wrapped(80, " a  b "), " a  b");
    }

    /// Each of these letters has two columns, and may end a line; 。 may not begin one.
    #[test]
    fn wide_letters_count_twice() {
        assert_eq!(wrapped(8, "中国的首都是北京。"), "中国的首\n都是北\n京。");
        assert_eq!(wrapped(6, "ab中国cd"), "ab中国\ncd");
        assert_eq!(wrapped(6, "说：《红楼梦》"), "说：\n《红楼\n梦》");
        // A letter with its accent is not torn apart.
        assert_eq!(wrapped(2, "中e\u{301}"), "中\ne\u{301}");
    }

    #[test]
    fn pieces_are_written_as_soon_as_their_words_are_whole() {
        let mut wrap = Wrap::new(20);
        assert_eq!([wrap.push("The ca"), wrap.push("t sat"), wrap.finish()], ["The", " cat", " sat"]);
    }
}
