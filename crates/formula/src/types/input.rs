//! How rows come in: token ids or patches.

use serde::{Deserialize, Serialize};

use super::norm::Norm;

/// How rows come in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// Token ids, looked up in a table.
    Tokens(Tokens),
    /// Squares of an image, projected.
    Patches(Patches),
}

/// Rows from token ids: `x = table[id] · scale (+ types[type])`, then positions, then `norm`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// How many different ids there are.
    pub vocabulary: usize,
    /// Whose embedding table is used.
    #[serde(default)]
    pub table: Table,
    /// The input's width where it is narrower than the stack (factorised embedding, ALBERT): table, types, positions and
    /// norm have it, and a projection then widens the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// Clusters of frequent and rare words, each with a table of its own (adaptive input, Transformer-XL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<Clusters>,
    /// What the embedding is multiplied by.
    #[serde(default)]
    pub scale: InputScale,
    /// How many token types (segments, as in BERT) there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<usize>,
    /// A norm right after the sum of embeddings and positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
}

/// A vocabulary cut into clusters, frequent words first: ids below the first cut, below the second, and so on.
///
/// Cluster i has a table of width `width / divisorⁱ` and a projection up to the stack's width (Baevski and Auli 2018). Tables
/// that all have the stack's width need no projection, and have none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clusters {
    /// Where a cluster ends and the next begins, ascending; the vocabulary's end is not listed.
    pub cuts: Vec<usize>,
    /// How much narrower each cluster is than the one before.
    pub divisor: usize,
    /// The width of the first cluster's table, where it is not the stack's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
}

impl Clusters {
    /// Whether rows go through a projection between a table and a stack that is `width` wide.
    pub fn projects(&self, width: usize) -> bool {
        self.divisor != 1 || self.width.is_some_and(|first| first != width)
    }

    /// The clusters of a vocabulary, with the widths of their tables under rows that are `width` wide.
    pub fn list(&self, vocabulary: usize, width: usize) -> Vec<Cluster> {
        let ends = self.cuts.iter().copied().chain([vocabulary]);
        let starts = [0].into_iter().chain(self.cuts.iter().copied());
        let widths = std::iter::successors(Some(self.width.unwrap_or(width)), |width| {
            Some(width / self.divisor.max(1))
        });
        starts.zip(ends).zip(widths).map(|((from, to), width)| Cluster { from, to, width }).collect()
    }
}

/// One cluster of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its first id.
    pub from: usize,
    /// The first id after it.
    pub to: usize,
    /// The width of its table.
    pub width: usize,
}

/// Whose embedding table a side uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// Its own.
    #[default]
    Own,
    /// The other side's: one vocabulary for both languages.
    Source,
}

/// What embeddings are multiplied by before positions are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputScale {
    /// Nothing.
    #[default]
    One,
    /// √width, as in the original Transformer.
    RootWidth,
}

/// Rows from an image cut into squares: each square of `size` × `size` × `channels` numbers is one linear projection away
/// from a row (ViT).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patches {
    /// The side of a square, in pixels.
    pub size: usize,
    /// Numbers per pixel.
    pub channels: usize,
    /// What stands before the first square.
    #[serde(default)]
    pub lead: Lead,
    /// A norm right after the sum of projections and positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
}

/// What stands before the first patch of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lead {
    /// Nothing: the first row is the first square.
    #[default]
    None,
    /// A learned row that a classifier reads (`[CLS]`).
    Class,
}
