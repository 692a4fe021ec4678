//! Patterns of a tokenizer, matched in time that is linear where it can be and limited where it cannot.

use std::time::{Duration, Instant};

use regex_automata::meta::{Config, Regex};
use regex_automata::{Input, PatternID};
use tokenizers::tokenizer::Offsets;
use tokenizers::tokenizer::pattern::Pattern as Splitter;

use crate::error::{Error, clip};

/// How GPT-2 cuts text into words.
pub(super) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// How nearly every published pattern ends: a run of spaces leaves its last one to the word that follows.
const RUN_OF_SPACES: &str = r"|\s+(?!\S)|\s+";

/// The most memory that a compiled pattern may take.
const LARGEST: usize = 16 << 20;

/// The most memory that all patterns of a tokenizer may take, but for the last one.
const ALL: usize = 64 << 20;

/// The most patterns of a tokenizer. Real ones have five.
const PATTERNS: usize = 64;

/// What a pattern that goes back is taken to need: the engine does not say.
const GUESS: usize = 4 << 20;

/// How much one match may go back and try again.
const BACKTRACKS: usize = 1_000_000;

/// How long a pattern that goes back may take on a text, besides a second for each 100 kB.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is left for the patterns of a tokenizer.
pub(crate) struct Room {
    patterns: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { patterns: PATTERNS, bytes: ALL }
    }
}

impl Room {
    /// Lets one more pattern in.
    fn enter(&mut self) -> Result<(), String> {
        if self.patterns == 0 || self.bytes == 0 {
            let room = ALL >> 20;
            return Err(format!(
                "its patterns are more than {PATTERNS}, or take more than {room} MB together"
            ));
        }
        self.patterns -= 1;
        Ok(())
    }
}

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    source: String,
    matcher: Matcher,
}

#[derive(Debug)]
enum Matcher {
    /// No look-around: linear.
    Plain(Regex),
    /// Ends in [`RUN_OF_SPACES`], and has no other look-around. Pattern 0 is everything before; pattern 1 is a run of
    /// spaces, which gives its last one back where a word follows. Linear, and ten times as fast as going back.
    Words(Regex),
    /// Anything else.
    Backtracking(Box<fancy_regex::Regex>),
}

impl Pattern {
    /// Compiles a pattern, and takes its share of `room`; what is wrong with it otherwise.
    pub fn new(source: &str, room: &mut Room) -> Result<Self, String> {
        room.enter()?;
        let matcher = match source.strip_suffix(RUN_OF_SPACES).map(|head| compile(&[head, r"\s+"])) {
            Some(Ok(words)) => Matcher::Words(words),
            Some(Err(_)) | None => match compile(&[source]) {
                Ok(plain) => Matcher::Plain(plain),
                Err(_) => Matcher::Backtracking(Box::new(backtracking(source)?)),
            },
        };
        let size = match &matcher {
            Matcher::Plain(regex) | Matcher::Words(regex) => regex.memory_usage(),
            Matcher::Backtracking(_) => GUESS,
        };
        room.bytes = room.bytes.saturating_sub(size);
        Ok(Self { source: source.to_owned(), matcher })
    }

    /// A text as a pattern.
    pub fn literal(text: &str, room: &mut Room) -> Result<Self, String> {
        let escaped: String = text
            .chars()
            .flat_map(|c| [c.is_ascii_punctuation().then_some('\\'), Some(c)])
            .flatten()
            .collect();
        Self::new(&escaped, room)
    }

    /// Whether it can be matched without going back.
    pub fn is_linear(&self) -> bool {
        !matches!(self.matcher, Matcher::Backtracking(_))
    }

    /// Hands every match to `found`.
    fn each(&self, text: &str, mut found: impl FnMut(usize, usize)) -> Result<(), Error> {
        match &self.matcher {
            Matcher::Plain(regex) => regex.find_iter(text).for_each(|m| found(m.start(), m.end())),
            Matcher::Words(regex) => {
                let mut at = 0;
                while let Some(m) = regex.find(Input::new(text).span(at..text.len())) {
                    let mut end = m.end();
                    if m.pattern() == PatternID::must(1) && end < text.len() {
                        let last = text[m.start()..end].chars().next_back().map_or(0, char::len_utf8);
                        if m.start() + last < end {
                            end -= last;
                        }
                    }
                    found(m.start(), end);
                    if m.is_empty() {
                        // as the other engines do: an empty match is followed by the next character
                        at = end + text[end..].chars().next().map_or(1, char::len_utf8);
                        if at > text.len() {
                            break;
                        }
                    } else {
                        at = end;
                    }
                }
            }
            Matcher::Backtracking(regex) => {
                let begin = Instant::now();
                let patience = PATIENCE + Duration::from_micros(10 * text.len() as u64);
                for m in regex.find_iter(text) {
                    let m = m.map_err(|error| self.failed(error))?;
                    found(m.start(), m.end());
                    if begin.elapsed() > patience {
                        return Err(self.failed(format!("it took more than {} seconds", patience.as_secs())));
                    }
                }
            }
        }
        Ok(())
    }

    fn failed(&self, reason: impl std::fmt::Display) -> Error {
        Error::Pattern { pattern: clip(&self.source), reason: reason.to_string() }
    }
}

fn compile(patterns: &[&str]) -> Result<Regex, String> {
    let limits = Config::new().nfa_size_limit(Some(LARGEST)).onepass_size_limit(Some(LARGEST));
    Regex::builder().configure(limits).build_many(patterns).map_err(|error| error.to_string())
}

fn backtracking(source: &str) -> Result<fancy_regex::Regex, String> {
    fancy_regex::RegexBuilder::new(source)
        .backtrack_limit(BACKTRACKS)
        .delegate_size_limit(LARGEST)
        .build()
        .map_err(|error| error.to_string())
}

impl Splitter for &Pattern {
    fn find_matches(&self, text: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        if text.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let mut splits = Vec::new();
        let mut end = 0;
        self.each(text, |start, stop| {
            if end != start {
                splits.push(((end, start), false));
            }
            splits.push(((start, stop), true));
            end = stop;
        })?;
        if end != text.len() {
            splits.push(((end, text.len()), false));
        }
        Ok(splits)
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, GPT2, Matcher, Pattern, Room};

    fn compiled(source: &str) -> Result<Pattern, String> {
        Pattern::new(source, &mut Room::default())
    }

    /// All matches, as the backtracking engine finds them and as `Pattern` does.
    fn both(source: &str, text: &str) -> (Vec<String>, Vec<String>) {
        let slow = fancy_regex::Regex::new(source).unwrap();
        let slow = slow.find_iter(text).map(|m| m.unwrap().as_str().to_owned()).collect();
        let mut fast = Vec::new();
        compiled(source).unwrap().each(text, |start, end| fast.push(text[start..end].to_owned())).unwrap();
        (slow, fast)
    }

    const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

    #[test]
    fn the_linear_form_finds_what_going_back_finds() {
        let texts = [
            "",
            " ",
            "  ",
            "a",
            " a",
            "  a",
            "   a  b",
            "a \n b",
            "\n\n  \n x",
            "  \n",
            " \u{3000} x \u{3000}y",
            "a  ",
            "don't  WE'LL",
            "1234 5",
            "\u{a0}\u{a0}x",
            "\t\tx\r\n\r\n y",
            "x \u{200b} y",
            "e\u{301} ..  !!",
        ];
        for source in [GPT2, LLAMA3] {
            assert!(matches!(compiled(source).unwrap().matcher, Matcher::Words(_)));
            for text in texts {
                let (slow, fast) = both(source, text);
                assert_eq!(slow, fast, "{text:?}");
            }
        }
    }

    #[test]
    fn a_million_spaces_are_one_match_and_a_word() {
        let text = " ".repeat(1_000_000) + "x";
        let mut found = Vec::new();
        compiled(LLAMA3).unwrap().each(&text, |start, end| found.push((start, end))).unwrap();
        assert_eq!(found, [(0, 999_999), (999_999, 1_000_001)]);
    }

    #[test]
    fn a_pattern_that_never_ends_is_an_error() {
        let pattern = compiled(r"(?:a|aa)+(?<!z)c").unwrap();
        let error = pattern.each(&"a".repeat(10_000), |_, _| {}).unwrap_err();
        assert!(matches!(error, Error::Pattern { .. }), "{error}");
    }

    #[test]
    fn a_pattern_that_explodes_does_not_compile() {
        assert!(compiled(r"(?:\p{L}{1000}){1000}").is_err());
        assert!(compiled(r"(((").is_err());
        assert!(compiled(&"(".repeat(10_000)).is_err());
    }

    #[test]
    fn a_text_is_matched_as_it_stands() {
        let mut found = Vec::new();
        Pattern::literal("a.*", &mut Room::default())
            .unwrap()
            .each("aba.*.", |start, end| found.push((start, end)))
            .unwrap();
        assert_eq!(found, [(2, 5)]);
    }

    #[test]
    fn patterns_share_their_room() {
        let filled = |source: &str| {
            let mut room = Room::default();
            (0..1000).take_while(|_| Pattern::new(source, &mut room).is_ok()).count()
        };
        assert_eq!(filled("a"), 64);
        assert!((2..20).contains(&filled(r"\p{L}{150}x")));
        assert!((2..20).contains(&filled(r"a(?=b)")));
    }
}
