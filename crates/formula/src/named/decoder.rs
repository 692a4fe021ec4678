//! The decoder half alone.

use super::{Size, angles, attend, attention, layer_norm, plain, post_norm, pre_norm, split, tokens, words};
use crate::types::{
    Activation, Attention, Biases, Clusters, Counting, Depth, FeedForward, Formula, Head, Input, InputScale,
    Mix, Norm, Position, ProjectionBias, Reach, Reads, Rotary, Side, Source, Stack, Start, Tokens,
};

/// GPT-2 (Radford et al. 2019): pre-norm, learned positions.
pub fn gpt2(size: Size) -> Formula {
    let target = gpt2_side(size, &[Source::Own]);
    Formula { source: None, target: Some(target), pooler: None, head: words(true, false) }
}

pub(super) fn gpt2_side(size: Size, sources: &[Source]) -> Side {
    let norm = layer_norm(1e-5);
    let heads = split(size.width, size.heads, size.heads);
    let attends = sources.iter().map(|&source| match source {
        Source::Own => attend(heads, source, Reach::Past),
        Source::Memory => attend(heads, source, Reach::Both),
    });
    let mixes = attends.chain([plain(size.hidden, Activation::GeluTanh)]).collect();
    Side {
        input: Input::Tokens(tokens(size.vocabulary)),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: Position::Learned { max: size.length, offset: 0, counting: Counting::Every },
            block: pre_norm(norm, mixes),
            others: Vec::new(),
            final_norm: Some(norm),
        },
    }
}

/// GPT-NeoX (Black et al. 2022) and Pythia: attention and feed side by side, rotary positions for `turned` numbers of each
/// head.
pub fn gpt_neox(size: Size, turned: usize) -> Formula {
    let mut side = gpt2_side(size, &[Source::Own]);
    side.stack.position = Position::Rotary(Rotary { size: Some(turned), ..angles(10_000.0) });
    side.stack.block[1].mix = plain(size.hidden, Activation::Gelu);
    side.stack.block[1].reads = Reads::Block;
    Formula { source: None, target: Some(side), pooler: None, head: words(false, false) }
}

/// `LLaMA` (Touvron et al. 2023), with `key_heads` key heads: pre-norm RMS, rotary positions, gated `SiLU`, no bias.
pub fn llama(size: Size, key_heads: usize) -> Formula {
    let norm = Norm::Rms { epsilon: 1e-5 };
    let heads = split(size.width, size.heads, key_heads);
    let attention = Attention { bias: ProjectionBias::NONE, ..attention(heads, Source::Own, Reach::Past) };
    let feed = FeedForward::Gated { hidden: size.hidden, act: Activation::Silu, bias: false };
    let side = Side {
        input: Input::Tokens(tokens(size.vocabulary)),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: Position::Rotary(angles(500_000.0)),
            block: pre_norm(norm, vec![Mix::Attend(attention), Mix::Feed(feed)]),
            others: Vec::new(),
            final_norm: Some(norm),
        },
    };
    Formula { source: None, target: Some(side), pooler: None, head: words(false, false) }
}

/// Transformer-XL (Dai et al. 2019): relative sinusoids, `size.length` rows of memory, and a vocabulary in clusters, whose
/// tables the input and the adaptive softmax share.
pub fn transformer_xl(size: Size, clusters: Clusters) -> Formula {
    let heads = split(size.width, size.heads, size.heads);
    let attention = Attention { bias: ProjectionBias::NONE, ..attention(heads, Source::Own, Reach::Past) };
    let mixes = vec![Mix::Attend(attention), plain(size.hidden, Activation::Relu)];
    let input = Tokens { scale: InputScale::RootWidth, ..tokens(size.vocabulary) };
    let side = Side {
        input: Input::Tokens(Tokens { clusters: Some(clusters.clone()), ..input }),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: Position::TransformerXl {
                memory: size.length,
                biases: Biases::Layer,
                clamp: None,
                start: Start::Empty,
            },
            block: post_norm(layer_norm(1e-5), mixes),
            others: Vec::new(),
            final_norm: None,
        },
    };
    Formula { source: None, target: Some(side), pooler: None, head: Head::Adaptive { clusters, tied: true } }
}
