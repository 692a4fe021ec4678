//! Well-known shapes, for tests, documentation and a first formula of one's own: the rows of the design's table.
//!
//! Every function takes the few numbers that tell two models of a family apart and says the rest. They are generic shapes:
//! the exact formula of a checkpoint comes from its `config.json`. Numbers that do not fit each other give a formula all
//! the same, which [`Formula::check`] refuses with the reason.

mod decoder;
mod encoder;
mod pair;
mod sized;

use crate::types::{
    Activation, Attention, Clusters, Counting, Depth, FeedForward, Formula, Head, Heads, Input, InputScale,
    Mix, Norm, NormSites, Pairing, Pattern, Position, ProjectionBias, Reach, Reads, Rotary, Scale, Scaling,
    Side, Source, Spread, Stack, Sublayer, Table, Tokens, When,
};

pub use decoder::{gpt_neox, gpt2, llama, transformer_xl};
pub use encoder::{
    albert, bert, bert_classifier, bert_embedder, bert_reader, bert_tagger, linformer, longformer,
    modernbert, mpnet, vit,
};
pub use pair::{bart, captioner, m2m100, marian, t5, universal};
pub use sized::{Sizes, heads, sized};

/// The names that [`named`] knows.
pub const NAMES: [&str; 23] = [
    "original",
    "bert",
    "bert-classifier",
    "bert-tagger",
    "bert-reader",
    "bert-embedder",
    "albert",
    "modernbert",
    "mpnet",
    "gpt2",
    "gpt_neox",
    "llama",
    "t5",
    "bart",
    "marian",
    "m2m100",
    "longformer",
    "linformer",
    "transformer_xl",
    "universal",
    "universal_halting",
    "vit",
    "captioner",
];

/// The base-size formula of a name among [`NAMES`].
pub fn named(name: &str) -> Option<Formula> {
    sized(name, &Sizes::default())
}

/// The few numbers that tell two models of a family apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Numbers per row.
    pub width: usize,
    /// Query heads of every attention; each is width / heads wide.
    pub heads: usize,
    /// Numbers per row inside the feed-forward layers.
    pub hidden: usize,
    /// Blocks of each stack.
    pub layers: usize,
    /// Token ids, the same for both sides.
    pub vocabulary: usize,
    /// The longest sequence, where the shape has one; rows of memory in Transformer-XL.
    pub length: usize,
}

/// The numbers of the original Transformer, whose two sides need not be of one depth and one language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original {
    /// Numbers per row.
    pub width: usize,
    /// Heads of every attention.
    pub heads: usize,
    /// Numbers per row inside the feed-forward layers.
    pub hidden: usize,
    /// N of document 1: blocks of the encoder.
    pub source_layers: usize,
    /// M of document 1: blocks of the decoder.
    pub target_layers: usize,
    /// Token ids of the source.
    pub source_vocabulary: usize,
    /// Token ids of the target.
    pub target_vocabulary: usize,
}

impl Formula {
    /// The base model of the paper: 512 wide, 8 heads, 2048 hidden, 6 + 6 layers.
    pub fn original_base() -> Self {
        original(Original {
            width: 512,
            heads: 8,
            hidden: 2048,
            source_layers: 6,
            target_layers: 6,
            source_vocabulary: 37_000,
            target_vocabulary: 37_000,
        })
    }
}

/// The original Transformer of document 1 (Vaswani et al. 2017): post-norm, `ReLU`, biases everywhere, sinusoids, √width.
pub fn original(size: Original) -> Formula {
    let Original { width, heads, hidden, .. } = size;
    let attend = |source, reach| attend(split(width, heads, heads), source, reach);
    let feed = plain(hidden, Activation::Relu);
    let norm = layer_norm(1e-5);
    let side = |layers, vocabulary, mixes: Vec<Mix>| Side {
        input: Input::Tokens(Tokens { scale: InputScale::RootWidth, ..tokens(vocabulary) }),
        stack: Stack {
            width,
            depth: Depth::Layers(layers),
            position: sinusoids(Pairing::Interleaved, When::Once),
            block: post_norm(norm, mixes),
            others: Vec::new(),
            final_norm: None,
        },
    };
    let encoder = vec![attend(Source::Own, Reach::Both), feed.clone()];
    let decoder = vec![attend(Source::Own, Reach::Past), attend(Source::Memory, Reach::Both), feed];
    Formula {
        source: Some(side(size.source_layers, size.source_vocabulary, encoder)),
        target: Some(side(size.target_layers, size.target_vocabulary, decoder)),
        pooler: None,
        head: words(false, false),
    }
}

/// A score for every word, of the rows as they are.
fn words(tied: bool, bias: bool) -> Head {
    Head::Words { tied, bias, dense: None, scale: None }
}

/// Heads that share the width. Where they cannot, their size stays unstated, which the check refuses.
fn split(width: usize, query: usize, key: usize) -> Heads {
    Heads::of(width, query, key).unwrap_or(Heads { query, key, size: Heads::UNSTATED })
}

/// A dense attention with biases everywhere.
fn attention(heads: Heads, source: Source, reach: Reach) -> Attention {
    Attention {
        source,
        reach,
        pattern: Pattern::Dense,
        heads,
        scale: Scale::RootSize,
        bias: ProjectionBias::ALL,
        norm: None,
        rotary: None,
    }
}

fn attend(heads: Heads, source: Source, reach: Reach) -> Mix {
    Mix::Attend(attention(heads, source, reach))
}

/// A plain feed-forward layer with biases.
fn plain(hidden: usize, act: Activation) -> Mix {
    Mix::Feed(FeedForward::Plain { hidden, act, bias: true })
}

fn tokens(vocabulary: usize) -> Tokens {
    Tokens {
        vocabulary,
        table: Table::Own,
        width: None,
        clusters: None,
        scale: InputScale::One,
        types: None,
        norm: None,
    }
}

fn sinusoids(layout: Pairing, when: When) -> Position {
    Position::Sinusoidal {
        base: 10_000.0,
        layout,
        spread: Spread::Open,
        offset: 0,
        when,
        counting: Counting::Every,
    }
}

/// Angles from the base alone.
fn angles(base: f64) -> Rotary {
    Rotary { base, size: None, layout: Pairing::Halves, scaling: Scaling::None }
}

fn layer_norm(epsilon: f32) -> Norm {
    Norm::Layer { epsilon, bias: true }
}

/// `norm(x + mix(x))`, mix after mix.
fn post_norm(norm: Norm, mixes: Vec<Mix>) -> Vec<Sublayer> {
    block(NormSites { output: Some(norm), ..NormSites::default() }, mixes)
}

/// `x + mix(norm(x))`, mix after mix.
fn pre_norm(norm: Norm, mixes: Vec<Mix>) -> Vec<Sublayer> {
    block(NormSites { input: Some(norm), ..NormSites::default() }, mixes)
}

fn block(norm: NormSites, mixes: Vec<Mix>) -> Vec<Sublayer> {
    mixes.into_iter().map(|mix| Sublayer { mix, reads: Reads::Rows, norm }).collect()
}
