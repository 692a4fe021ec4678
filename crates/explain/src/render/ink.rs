//! What walkthroughs for people are written on: a language, a width, and colours by meaning.

use crate::{Lang, Verdict};

/// What a terminal can show: whether colours are written, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Text alone, heat maps in letters that every terminal has.
    Ascii,
    /// Text alone, heat maps in blocks.
    Plain,
    /// With ANSI escape sequences, 256 colours.
    Colour,
    /// The same with all colours.
    TrueColour,
}

impl Paint {
    /// Whether there are colours at all.
    pub fn is_coloured(self) -> bool {
        match self {
            Self::Ascii | Self::Plain => false,
            Self::Colour | Self::TrueColour => true,
        }
    }
}

/// Writes walkthroughs for people.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// In which language.
    pub lang: Lang,
    /// With colours or without.
    pub paint: Paint,
    /// In lines of that many columns.
    pub width: usize,
}

/// What a piece of text is, and thereby its colour.
#[derive(Clone, Copy)]
pub(super) enum Ink {
    Chapter,
    Title,
    Symbol,
    Faint,
    Good,
    Bad,
    /// A probability, in sixths.
    Heat(usize),
}

/// Columns before text, and before the rows of a matrix.
pub(super) const INDENT: usize = 5;
pub(super) const MATRIX: usize = INDENT + 2;
/// Backgrounds for probabilities, from dark to bright blue of the 256 colours.
const HEAT: [u8; 7] = [0, 17, 18, 19, 20, 26, 33];

impl Terminal {
    /// The text in the colour of what it is.
    pub(super) fn ink(&self, ink: Ink, text: &str) -> String {
        if !self.paint.is_coloured() || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Chapter => "1;36".to_owned(),
            Ink::Title => "1".to_owned(),
            Ink::Symbol => "36".to_owned(),
            Ink::Faint => "2".to_owned(),
            Ink::Good => "32".to_owned(),
            Ink::Bad => "1;31".to_owned(),
            Ink::Heat(0) => return text.to_owned(),
            Ink::Heat(sixths) => format!("97;48;5;{}", HEAT[sixths.min(6)]),
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// ✓ or ✗ in its colour.
    pub(super) fn mark(&self, verdict: Verdict) -> String {
        let ink = match verdict {
            Verdict::Right => Ink::Good,
            Verdict::Wrong => Ink::Bad,
        };
        self.ink(ink, &verdict.mark().to_string())
    }

    /// The text of this terminal's language.
    pub(super) fn say<'t>(&self, en: &'t str, zh: &'t str) -> &'t str {
        match self.lang {
            Lang::English => en,
            Lang::Chinese => zh,
        }
    }
}
