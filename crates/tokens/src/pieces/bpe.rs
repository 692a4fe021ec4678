//! Byte-pair encoding as SentencePiece does it: join the two neighbours that make the best piece, again and again.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use super::model::{Cut, Kind, Model};
use super::normalize::{SPACE, char_length};

/// Words longer than this are not remembered.
const LONGEST_WORD: usize = 64;

const END: u32 = u32::MAX;

/// A stretch of text that is one piece, or was joined to its left neighbour and is empty.
struct Symbol {
    start: u32,
    length: u32,
    previous: u32,
    next: u32,
    /// A symbol of the user's: never joined.
    frozen: bool,
}

/// Two neighbours that would make a piece.
struct Pair {
    score: f32,
    left: u32,
    right: u32,
    /// Of both together: tells whether either has changed since.
    length: u32,
}

impl Ord for Pair {
    /// The best score first, then the leftmost. No score is NaN.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

/// Cuts a text that was normalised.
///
/// Where no piece crosses from a word to the space of the next, words do not influence each other: each is cut alone,
/// and words seen before in this text are looked up. The result is the same; the time is a third.
pub(super) fn cut(model: &Model, text: &[u8]) -> Vec<Cut> {
    let mut cuts = Vec::with_capacity(text.len() / 3);
    if model.words_touch {
        join(model, text, 0, &mut cuts);
        return cuts;
    }
    // Where a word was seen first, and its cuts.
    let mut seen: HashMap<&[u8], (u32, std::ops::Range<usize>)> = HashMap::new();
    let mut start = 0;
    while start < text.len() {
        let end = word_end(text, start);
        let word = &text[start..end];
        if let Some((at, known)) = seen.get(word) {
            for k in known.clone() {
                let Cut { end, id } = cuts[k];
                cuts.push(Cut { end: end - at + start as u32, id });
            }
        } else {
            let begin = cuts.len();
            join(model, word, start, &mut cuts);
            if word.len() <= LONGEST_WORD {
                seen.insert(word, (start as u32, begin..cuts.len()));
            }
        }
        start = end;
    }
    cuts
}

/// Where the word that begins here has ended: before the next ▁ that follows something else.
fn word_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while text[at..].starts_with(SPACE) {
        at += SPACE.len();
    }
    while at < text.len() && !text[at..].starts_with(SPACE) {
        at += 1;
    }
    at
}

/// The pairs of a text that is being joined.
struct Joiner<'a> {
    model: &'a Model,
    text: &'a [u8],
    symbols: Vec<Symbol>,
    agenda: BinaryHeap<Pair>,
    /// What an unused piece was made of: such pieces are taken apart again at the end.
    parts: HashMap<&'a [u8], (&'a [u8], &'a [u8])>,
}

impl<'a> Joiner<'a> {
    fn piece(&self, start: u32, length: u32) -> &'a [u8] {
        &self.text[start as usize..(start + length) as usize]
    }

    /// Puts a pair on the agenda where it would make a piece.
    fn consider(&mut self, left: u32, right: u32) {
        if left == END || right == END {
            return;
        }
        let (a, b) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        let length = a.length + b.length;
        if a.frozen || b.frozen || length > self.model.longest {
            return;
        }
        let piece = self.piece(a.start, length);
        let Some(id) = self.model.normal(piece) else { return };
        let made = &self.model.pieces[id as usize];
        self.agenda.push(Pair { score: made.score, left, right, length });
        if made.kind == Kind::Unused {
            let parts = (self.piece(a.start, a.length), self.piece(b.start, b.length));
            self.parts.insert(piece, parts);
        }
    }

    /// Joins neighbours until nothing more makes a piece.
    fn run(&mut self) {
        while let Some(Pair { left, right, length, .. }) = self.agenda.pop() {
            let (a, b) = (&self.symbols[left as usize], &self.symbols[right as usize]);
            if a.length == 0 || b.length == 0 || a.length + b.length != length {
                continue; // one of them was joined to another meanwhile
            }
            let after = b.next;
            self.symbols[right as usize].length = 0;
            let joined = &mut self.symbols[left as usize];
            joined.length = length;
            joined.next = after;
            let before = joined.previous;
            if after != END {
                self.symbols[after as usize].previous = left;
            }
            self.consider(before, left);
            self.consider(left, after);
        }
    }
}

/// Joins the characters of a text, which begins at `base`, into pieces.
fn join(model: &Model, text: &[u8], base: usize, cuts: &mut Vec<Cut>) {
    let mut symbols = Vec::with_capacity(text.len());
    let mut start = 0;
    while start < text.len() {
        let (length, frozen) = match model.symbols.longest(&text[start..]) {
            Some((length, _)) => (length, true),
            None => (char_length(text[start]).min(text.len() - start), false),
        };
        let index = symbols.len() as u32;
        let previous = index.checked_sub(1).unwrap_or(END);
        symbols.push(Symbol {
            start: start as u32,
            length: length as u32,
            previous,
            next: index + 1,
            frozen,
        });
        start += length;
    }
    let Some(last) = symbols.last_mut() else { return };
    last.next = END;
    let mut joiner = Joiner { model, text, symbols, agenda: BinaryHeap::new(), parts: HashMap::new() };
    for right in 1..joiner.symbols.len() as u32 {
        joiner.consider(right - 1, right);
    }
    joiner.run();
    let mut at = 0;
    while at != END {
        let symbol = &joiner.symbols[at as usize];
        at = symbol.next;
        // A stack and not a recursion: a file may hold a piece of any length.
        let mut apart = vec![joiner.piece(symbol.start, symbol.length)];
        let mut end = base as u32 + symbol.start;
        while let Some(piece) = apart.pop() {
            let id = model.find(piece);
            match joiner.parts.get(piece) {
                Some(&(left, right)) if model.pieces[id as usize].kind == Kind::Unused => {
                    apart.push(right);
                    apart.push(left);
                }
                _ => {
                    end += piece.len() as u32;
                    cuts.push(Cut { end, id });
                }
            }
        }
    }
}
