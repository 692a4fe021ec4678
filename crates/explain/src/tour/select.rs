//! What of a run is told.

use glassformer_graph::Side;

use super::{Ending, Telling};
use crate::names::Path;
use crate::{Axis, Error, Shown};

/// What of a run is told besides the summary. Layers, heads and words are counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    #[default]
    Summary,
    /// One layer, one head, one word, or where these meet.
    Part {
        /// This layer of each stack.
        layer: Option<usize>,
        /// This head of each attention, and nothing else.
        head: Option<usize>,
        /// How this word was written: the row of the token before it, and what it was chosen from.
        word: Option<usize>,
    },
    /// Everything.
    All,
}

impl Detail {
    /// Refuses a layer, a head or a word that there is not.
    pub(super) fn check(self, telling: &Telling<'_>) -> Result<(), Error> {
        let Self::Part { layer, head, word } = self else { return Ok(()) };
        let paths = || telling.trace.values().iter().map(|traced| Path::of(&traced.name));
        let layers = paths().filter_map(|path| path.layer).map(|layer| layer + 1).max().unwrap_or(0);
        let heads = telling.trace.values().iter().filter(|traced| traced.axes.last() == Some(&Axis::Heads));
        let heads = heads.filter_map(|traced| traced.tensor.shape().last().copied()).max().unwrap_or(0);
        let words = telling.tour.ending.count();
        let asked = [("layer", layer, layers), ("head", head, heads), ("step", word, words)];
        for (what, asked, there) in asked {
            if let Some(asked) = asked.filter(|asked| !(1..=there).contains(asked)) {
                return Err(Error::Detail { what, asked, there });
            }
        }
        Ok(())
    }

    /// Whether nothing is left out.
    pub(super) fn is_whole(self) -> bool {
        self == Self::All
    }

    /// Whether a value is told.
    pub(super) fn tells(self, path: &Path<'_>) -> bool {
        let Self::Part { layer, head, word } = self else { return self == Self::All };
        let attends = path.part.starts_with("attend") || path.part.starts_with("cross");
        let of_layer = layer.is_none_or(|layer| path.layer == Some(layer - 1));
        let of_head = head.is_none() || attends && path.layer.is_some();
        // One row asks, but all are asked: keys and values are shown whole, where a formula needs them.
        let asked = attends && (path.last.starts_with("key") || path.last.starts_with("value"));
        let of_word = word.is_none() || path.side != Some(Side::Source) && !asked;
        of_layer && of_head && of_word
    }

    /// Whether the choices of words are told, and which.
    pub(super) fn tells_word(self, number: usize) -> bool {
        match self {
            Self::Summary => false,
            Self::All => true,
            Self::Part { word: Some(word), .. } => word == number,
            Self::Part { layer, head, word: None } => layer.is_none() && head.is_none(),
        }
    }

    /// The part of `shown` that was asked for, if any.
    pub(super) fn part(self, telling: &Telling<'_>, shown: Shown) -> Option<Shown> {
        let Self::Part { head, word, .. } = self else { return Some(shown) };
        let shown = match head {
            Some(head) => of_head(telling, shown, head - 1)?,
            None => shown,
        };
        let Some(word) = word else { return Some(shown) };
        let Ending::Written { count, .. } = telling.tour.ending else { return Some(shown) };
        let rows = telling.trace.sequence().target.len();
        // The row of the token before the word is where the word was chosen.
        let row = rows - count + word - 1;
        Some(if shown.shape.first() == Some(&rows) { shown.rows(vec![row]) } else { shown })
    }
}

/// What of a tensor belongs to one head: its scores and probabilities, or its columns of queries, keys, values and results. Nothing
/// of what belongs to no head.
fn of_head(telling: &Telling<'_>, shown: Shown, head: usize) -> Option<Shown> {
    let name = shown.name.clone();
    let path = Path::of(&name);
    let scope = name.rsplit_once('.').map_or("", |(scope, _)| scope);
    let traced = telling.trace.get(&format!("{scope}.probs")).ok()?;
    let heads = traced.tensor.shape().last().copied()?;
    let width = shown.shape.last().copied()?;
    match path.last {
        "scores" | "probs" | "slopes" => Some(shown.columns(vec![head])),
        "angles" => Some(shown),
        "key" | "key_norm" | "key_rotated" | "key_squeezed" | "value" | "value_squeezed" => {
            let size = telling.trace.get(&format!("{scope}.heads")).ok()?.tensor.shape().last()? / heads;
            let kept = head * (width / size) / heads;
            Some(shown.columns((kept * size..(kept + 1) * size).collect()))
        }
        "query" | "query_norm" | "query_rotated" | "heads" | "joined" | "position" => {
            let size = width / heads;
            Some(shown.columns((head * size..(head + 1) * size).collect()))
        }
        _ => None,
    }
}
