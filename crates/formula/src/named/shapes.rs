//! One short function per row of the design's table, after the original.

use super::{
    Original, Size, attend, layer_norm, original, plain, post_norm, pre_norm, sinusoids, split, tokens, words,
};
use crate::types::{
    Activation, Attention, Biases, Dense, Depth, FeedForward, Formula, Global, Head, Input, InputScale, Lead,
    Mix, Norm, Pairing, Patches, Pattern, Pool, Pooler, Position, ProjectionBias, Reach, Rotary, Scale,
    Scaling, Sharing, Side, Source, Stack, Table, Tokens, When,
};

/// BERT (Devlin et al. 2018): the encoder half with learned positions and token types, filling in masked words.
pub fn bert(size: Size) -> Formula {
    encoder(size, 0, Pattern::Dense)
}

/// Longformer (Beltagy et al. 2020): BERT whose rows look `window` rows to each side, and some at everything.
pub fn longformer(size: Size, window: usize) -> Formula {
    encoder(size, 2, Pattern::Sliding { window, global: Global::Separate })
}

/// Linformer (Wang et al. 2020): BERT whose keys and values are squeezed into `rank` rows.
pub fn linformer(size: Size, rank: usize) -> Formula {
    encoder(size, 0, Pattern::LowRank { rank, length: size.length, sharing: Sharing::Heads })
}

fn encoder(size: Size, offset: usize, pattern: Pattern) -> Formula {
    let norm = layer_norm(1e-12);
    let attention = Mix::Attend(Attention {
        source: Source::Own,
        reach: Reach::Both,
        pattern,
        heads: split(size.width, size.heads, size.heads),
        scale: Scale::RootSize,
        bias: ProjectionBias::ALL,
        norm: None,
        rotary: None,
    });
    let side = Side {
        input: Input::Tokens(Tokens { types: Some(2), norm: Some(norm), ..tokens(size.vocabulary) }),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: Position::Learned { max: size.length, offset },
            block: post_norm(norm, vec![attention, plain(size.hidden, Activation::Gelu)]),
            others: Vec::new(),
            final_norm: None,
        },
    };
    let dense = |act, norm| Dense { act: Some(act), bias: true, norm };
    Formula {
        source: Some(side),
        target: None,
        pooler: Some(Pooler { pool: Pool::First, dense: Some(dense(Activation::Tanh, None)) }),
        head: Head::Words {
            tied: true,
            bias: true,
            dense: Some(dense(Activation::Gelu, Some(norm))),
            scale: None,
        },
    }
}

/// GPT-2 (Radford et al. 2019): the decoder half, pre-norm.
pub fn gpt2(size: Size) -> Formula {
    let target = gpt2_side(size, &[Source::Own]);
    Formula { source: None, target: Some(target), pooler: None, head: words(true, false) }
}

fn gpt2_side(size: Size, sources: &[Source]) -> Side {
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
            position: Position::Learned { max: size.length, offset: 0 },
            block: pre_norm(norm, mixes),
            others: Vec::new(),
            final_norm: Some(norm),
        },
    }
}

/// `LLaMA` (Touvron et al. 2023), with `key_heads` key heads: pre-norm RMS, rotary positions, gated `SiLU`, no bias.
pub fn llama(size: Size, key_heads: usize) -> Formula {
    let norm = Norm::Rms { epsilon: 1e-5 };
    let attention = Attention {
        source: Source::Own,
        reach: Reach::Past,
        pattern: Pattern::Dense,
        heads: split(size.width, size.heads, key_heads),
        scale: Scale::RootSize,
        bias: ProjectionBias::NONE,
        norm: None,
        rotary: None,
    };
    let feed = FeedForward::Gated { hidden: size.hidden, act: Activation::Silu, bias: false };
    let rotary = Rotary { base: 500_000.0, size: None, layout: Pairing::Halves, scaling: Scaling::None };
    let side = Side {
        input: Input::Tokens(tokens(size.vocabulary)),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: Position::Rotary(rotary),
            block: pre_norm(norm, vec![Mix::Attend(attention), Mix::Feed(feed)]),
            others: Vec::new(),
            final_norm: Some(norm),
        },
    };
    Formula { source: None, target: Some(side), pooler: None, head: words(false, false) }
}

/// T5 (Raffel et al. 2019), in its later form with a gated feed and a `W_o` of its own: pre-norm RMS, bucketed distances,
/// unscaled scores, no bias.
pub fn t5(size: Size) -> Formula {
    let norm = Norm::Rms { epsilon: 1e-6 };
    let attend = |source, reach| {
        Mix::Attend(Attention {
            source,
            reach,
            pattern: Pattern::Dense,
            heads: split(size.width, size.heads, size.heads),
            scale: Scale::One,
            bias: ProjectionBias::NONE,
            norm: None,
            rotary: None,
        })
    };
    let feed = Mix::Feed(FeedForward::Gated { hidden: size.hidden, act: Activation::GeluTanh, bias: false });
    let side = |table, mixes| Side {
        input: Input::Tokens(Tokens { table, ..tokens(size.vocabulary) }),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: Position::Buckets { count: 32, max_distance: 128 },
            block: pre_norm(norm, mixes),
            others: Vec::new(),
            final_norm: Some(norm),
        },
    };
    let encoder = vec![attend(Source::Own, Reach::Both), feed.clone()];
    let decoder = vec![attend(Source::Own, Reach::Past), attend(Source::Memory, Reach::Both), feed];
    Formula {
        source: Some(side(Table::Own, encoder)),
        target: Some(side(Table::Source, decoder)),
        pooler: None,
        head: words(false, false),
    }
}

/// BART (Lewis et al. 2019): both halves with GELU, learned positions and a norm of the embeddings.
pub fn bart(size: Size) -> Formula {
    let input = Tokens { norm: Some(layer_norm(1e-5)), ..tokens(size.vocabulary) };
    let position = Position::Learned { max: size.length, offset: 2 };
    two_sides(size, &input, &position, Activation::Gelu)
}

/// Marian (Junczys-Dowmunt et al. 2018): both halves with swish and sinusoids in halves.
pub fn marian(size: Size) -> Formula {
    let input = Tokens { scale: InputScale::RootWidth, ..tokens(size.vocabulary) };
    two_sides(size, &input, &sinusoids(Pairing::Halves, When::Once), Activation::Silu)
}

/// Encoder-decoder, post-norm, with one table for the source, the target and `W_o`.
fn two_sides(size: Size, input: &Tokens, position: &Position, act: Activation) -> Formula {
    let heads = split(size.width, size.heads, size.heads);
    let side = |table, mixes| Side {
        input: Input::Tokens(Tokens { table, ..input.clone() }),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: position.clone(),
            block: post_norm(layer_norm(1e-5), mixes),
            others: Vec::new(),
            final_norm: None,
        },
    };
    let feed = plain(size.hidden, act);
    let encoder = vec![attend(heads, Source::Own, Reach::Both), feed.clone()];
    let decoder =
        vec![attend(heads, Source::Own, Reach::Past), attend(heads, Source::Memory, Reach::Both), feed];
    Formula {
        source: Some(side(Table::Own, encoder)),
        target: Some(side(Table::Source, decoder)),
        pooler: None,
        head: words(true, true),
    }
}

/// Transformer-XL (Dai et al. 2019): the decoder half with relative sinusoids and `size.length` rows of memory.
pub fn transformer_xl(size: Size) -> Formula {
    let attention = Attention {
        source: Source::Own,
        reach: Reach::Past,
        pattern: Pattern::Dense,
        heads: split(size.width, size.heads, size.heads),
        scale: Scale::RootSize,
        bias: ProjectionBias::NONE,
        norm: None,
        rotary: None,
    };
    let mixes = vec![Mix::Attend(attention), plain(size.hidden, Activation::Relu)];
    let side = Side {
        input: Input::Tokens(Tokens { scale: InputScale::RootWidth, ..tokens(size.vocabulary) }),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: Position::TransformerXl { memory: size.length, biases: Biases::Layer, clamp: None },
            block: post_norm(layer_norm(1e-5), mixes),
            others: Vec::new(),
            final_norm: None,
        },
    };
    Formula { source: None, target: Some(side), pooler: None, head: words(true, true) }
}

/// Universal Transformer (Dehghani et al. 2018): the original with one block per side, applied as `depth` says, and
/// sinusoids of place and step before every application.
pub fn universal(size: Size, depth: Depth) -> Formula {
    let mut formula = original(Original {
        width: size.width,
        heads: size.heads,
        hidden: size.hidden,
        source_layers: size.layers,
        target_layers: size.layers,
        source_vocabulary: size.vocabulary,
        target_vocabulary: size.vocabulary,
    });
    for side in [&mut formula.source, &mut formula.target].into_iter().flatten() {
        side.stack.depth = depth;
        side.stack.position = sinusoids(Pairing::Interleaved, When::EveryStep);
    }
    formula
}

/// `ViT` (Dosovitskiy et al. 2020): the encoder half over patches of `patch` pixels, telling `classes` apart.
///
/// `size.length` counts the class row too; `size.vocabulary` is not used.
pub fn vit(size: Size, patch: usize, classes: usize) -> Formula {
    let pooler = Some(Pooler { pool: Pool::First, dense: None });
    let head = Head::Classes { count: classes, bias: true };
    Formula { source: Some(vit_side(size, patch)), target: None, pooler, head }
}

/// An image in, a sentence out: a `ViT` source over 14 × 14 patches, and a GPT-2 target that also looks at it.
pub fn captioner(size: Size, patch: usize) -> Formula {
    let source = vit_side(Size { length: 14 * 14 + 1, ..size }, patch);
    let target = gpt2_side(size, &[Source::Own, Source::Memory]);
    Formula { source: Some(source), target: Some(target), pooler: None, head: words(true, false) }
}

fn vit_side(size: Size, patch: usize) -> Side {
    let norm = layer_norm(1e-12);
    let attention = attend(split(size.width, size.heads, size.heads), Source::Own, Reach::Both);
    Side {
        input: Input::Patches(Patches { size: patch, channels: 3, lead: Lead::Class, norm: None }),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: Position::Learned { max: size.length, offset: 0 },
            block: pre_norm(norm, vec![attention, plain(size.hidden, Activation::Gelu)]),
            others: Vec::new(),
            final_norm: Some(norm),
        },
    }
}
