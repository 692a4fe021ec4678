//! What came of a text.

use super::Answer;
use crate::tour::Ending;
use crate::{Likely, Summary};

pub(super) fn answer(ending: &Ending<'_>, summary: Summary) -> Answer {
    let kind = match ending {
        Ending::Written { .. } => "written",
        Ending::Blanks { .. } => "blanks",
        Ending::Classes { .. } => "classes",
        Ending::Tags { .. } => "tags",
        Ending::Span { .. } => "span",
        Ending::Rows => "rows",
    };
    let likely = match ending.likely() {
        Likely::Softmax => "softmax",
        Likely::Sigmoid => "sigmoid",
        Likely::Scores => "scores",
    };
    let (places, text) = match ending {
        Ending::Blanks { places } => (places.clone(), None),
        Ending::Span { best } => (best.map(|(first, last)| vec![first, last]).unwrap_or_default(), None),
        Ending::Written { answer, .. } => (Vec::new(), Some((*answer).to_owned())),
        Ending::Classes { .. } | Ending::Tags { .. } | Ending::Rows => (Vec::new(), None),
    };
    Answer {
        kind: kind.to_owned(),
        text,
        finish: None,
        likely: likely.to_owned(),
        places,
        labels: ending.vocabulary(),
        summary,
    }
}
