//! Well-known shapes, for tests, documentation and a first formula of one's own: the rows of the design's table.
//!
//! Every function takes the few numbers that tell two models of a family apart and says the rest. They are generic shapes:
//! the exact formula of a checkpoint comes from its `config.json`. Numbers that do not fit each other give a formula all
//! the same, which [`Formula::check`] refuses with the reason.

mod decoder;
mod encoder;
mod pair;

use crate::types::{
    Activation, Attention, Clusters, Depth, FeedForward, Formula, Head, Heads, Input, InputScale, Mix, Norm,
    NormSites, Pairing, Pattern, Position, ProjectionBias, Reach, Reads, Rotary, Scale, Scaling, Side,
    Source, Spread, Stack, Sublayer, Table, Tokens, When,
};

pub use decoder::{gpt_neox, gpt2, llama, transformer_xl};
pub use encoder::{albert, bert, linformer, longformer, modernbert, mpnet, vit};
pub use pair::{bart, captioner, m2m100, marian, t5, universal};

/// The names that [`named`] knows.
pub const NAMES: [&str; 19] = [
    "original",
    "bert",
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
    let base = Size { width: 768, heads: 12, hidden: 3072, layers: 12, vocabulary: 30_522, length: 512 };
    let small = Size { width: 512, heads: 8, hidden: 2048, layers: 6, vocabulary: 37_000, length: 512 };
    Some(match name {
        "original" => Formula::original_base(),
        "bert" => bert(base),
        "albert" => albert(Size { vocabulary: 30_000, ..base }, 128, Depth::Shared { times: 12 }),
        "modernbert" => {
            modernbert(Size { hidden: 1152, layers: 22, vocabulary: 50_368, length: 8192, ..base }, 64)
        }
        "mpnet" => mpnet(Size { vocabulary: 30_527, ..base }),
        "gpt2" => gpt2(Size { vocabulary: 50_257, length: 1024, ..base }),
        "gpt_neox" => gpt_neox(Size { vocabulary: 50_304, length: 2048, ..base }, 16),
        "llama" => {
            let size = Size {
                width: 4096,
                heads: 32,
                hidden: 14_336,
                layers: 32,
                vocabulary: 128_256,
                length: 8192,
            };
            llama(size, 8)
        }
        "t5" => t5(Size { hidden: 2048, vocabulary: 32_128, ..base }),
        "bart" => bart(Size { layers: 6, vocabulary: 50_265, length: 1024, ..base }),
        "marian" => marian(Size { vocabulary: 58_101, ..small }),
        "m2m100" => {
            let size =
                Size { width: 1024, heads: 16, hidden: 4096, layers: 12, vocabulary: 128_112, length: 1024 };
            m2m100(size)
        }
        "longformer" => longformer(Size { vocabulary: 50_265, length: 4096, ..base }, 256),
        "linformer" => linformer(base, 128),
        "transformer_xl" => {
            let size =
                Size { width: 1024, heads: 16, hidden: 4096, layers: 18, vocabulary: 267_735, length: 1600 };
            transformer_xl(size, Clusters { cuts: vec![20_000, 40_000, 200_000], divisor: 4, width: None })
        }
        "universal" => universal(small, Depth::Shared { times: 6 }),
        "universal_halting" => universal(small, Depth::Adaptive { max: 8, threshold: 0.99 }),
        "vit" => vit(Size { length: 197, ..base }, 16, 1000),
        "captioner" => captioner(Size { vocabulary: 50_257, length: 1024, ..base }, 16),
        _ => return None,
    })
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
    Position::Sinusoidal { base: 10_000.0, layout, spread: Spread::Open, offset: 0, when }
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
