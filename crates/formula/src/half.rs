//! The two halves of a Transformer, for code that walks through both.

use crate::types::{Formula, Side};

/// Which half of the formula is being looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Source,
    Target,
}

impl Half {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Target => "target",
        }
    }
}

impl Formula {
    /// The sides that there are, in the order of the data.
    pub(crate) fn halves(&self) -> impl Iterator<Item = (Half, &Side)> {
        let source = self.source.iter().map(|side| (Half::Source, side));
        source.chain(self.target.iter().map(|side| (Half::Target, side)))
    }
}
