//! The encoder half alone.

use super::{Size, angles, attend, attention, layer_norm, plain, post_norm, pre_norm, split, tokens};
use crate::types::{
    Activation, Attention, Counting, Dense, Depth, FeedForward, Formula, Global, Head, Input, Lead, Mix,
    Norm, Other, Patches, Pattern, Pool, Pooler, Position, ProjectionBias, Reach, Sharing, Side, Source,
    Stack, Then, Tokens,
};

/// BERT (Devlin et al. 2018): learned positions, token types and a pooler, filling in masked words.
pub fn bert(size: Size) -> Formula {
    masked_words(bert_side(size, learned(size, 0), Pattern::Dense, 1e-12))
}

/// BERT with a head for classes, `classes` of them, read off the pooled first row.
pub fn bert_classifier(size: Size, classes: usize) -> Formula {
    let dense = Dense { act: Some(Activation::Tanh), bias: true, norm: None };
    let pooler = Pooler { dense: Some(dense), ..Pooler::of(Pool::First) };
    Formula { pooler: Some(pooler), head: Head::Classes { count: classes, bias: true }, ..bert(size) }
}

/// BERT with a head for the tag of each token, one of `tags`.
pub fn bert_tagger(size: Size, tags: usize) -> Formula {
    Formula { pooler: None, head: Head::Tags { count: tags, dense: None }, ..bert(size) }
}

/// BERT with a head for the two ends of an answer.
pub fn bert_reader(size: Size) -> Formula {
    Formula { pooler: None, head: Head::Spans, ..bert(size) }
}

/// BERT whose rows become one vector of length 1: their mean.
pub fn bert_embedder(size: Size) -> Formula {
    let pooler = Pooler { then: vec![Then::Unit], ..Pooler::of(Pool::Mean) };
    Formula { pooler: Some(pooler), head: Head::Rows, ..bert(size) }
}

/// Longformer (Beltagy et al. 2020): BERT whose rows look `window` rows to each side, and some at everything.
pub fn longformer(size: Size, window: usize) -> Formula {
    let pattern = Pattern::Sliding { window, global: Global::Separate };
    let mut side = bert_side(size, learned(size, 2), pattern, 1e-5);
    if let Input::Tokens(tokens) = &mut side.input {
        tokens.types = Some(1);
    }
    masked_words(side)
}

/// Linformer (Wang et al. 2020): BERT whose keys and values are squeezed into `rank` rows.
pub fn linformer(size: Size, rank: usize) -> Formula {
    let pattern = Pattern::LowRank { rank, length: size.length, sharing: Sharing::Heads };
    masked_words(bert_side(size, learned(size, 0), pattern, 1e-12))
}

/// ALBERT (Lan et al. 2019): BERT with one block, or a few, for all layers, and an input that is `narrow` numbers wide.
pub fn albert(size: Size, narrow: usize, depth: Depth) -> Formula {
    let mut side = bert_side(size, learned(size, 0), Pattern::Dense, 1e-12);
    side.stack.depth = depth;
    side.stack.block[1].mix = plain(size.hidden, Activation::GeluTanh);
    if let Input::Tokens(tokens) = &mut side.input {
        tokens.width = Some(narrow);
    }
    let mut formula = masked_words(side);
    if let Head::Words { dense: Some(dense), .. } = &mut formula.head {
        dense.act = Some(Activation::GeluTanh);
    }
    formula
}

/// `MPNet` (Song et al. 2020): BERT whose scores also know distances, by buckets, and without token types.
pub fn mpnet(size: Size) -> Formula {
    let buckets = Position::Buckets { count: 32, max_distance: 128 };
    let position = Position::Together(vec![learned(size, 2), buckets]);
    let mut side = bert_side(size, position, Pattern::Dense, 1e-5);
    if let Input::Tokens(tokens) = &mut side.input {
        tokens.types = None;
    }
    masked_words(side)
}

fn learned(size: Size, offset: usize) -> Position {
    // What begins after a padding token's row does not count that token.
    let counting = offset.checked_sub(1).map_or(Counting::Every, |padding| Counting::But(padding as u32));
    Position::Learned { max: size.length, offset, counting }
}

fn bert_side(size: Size, position: Position, pattern: Pattern, epsilon: f32) -> Side {
    let norm = layer_norm(epsilon);
    let heads = split(size.width, size.heads, size.heads);
    let attention = Attention { pattern, ..attention(heads, Source::Own, Reach::Both) };
    Side {
        input: Input::Tokens(Tokens { types: Some(2), norm: Some(norm), ..tokens(size.vocabulary) }),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position,
            block: post_norm(norm, vec![Mix::Attend(attention), plain(size.hidden, Activation::Gelu)]),
            others: Vec::new(),
            final_norm: None,
        },
    }
}

/// A score for every masked word, and the first row for the whole text.
fn masked_words(side: Side) -> Formula {
    let dense = |act, norm| Some(Dense { act: Some(act), bias: true, norm });
    let norm = side.stack.block[0].norm.output;
    Formula {
        source: Some(side),
        target: None,
        pooler: Some(Pooler { pool: Pool::First, dense: dense(Activation::Tanh, None), then: Vec::new() }),
        head: Head::Words { tied: true, bias: true, dense: dense(Activation::Gelu, norm), scale: None },
    }
}

/// `ModernBERT` (Warner et al. 2024): pre-norm with rotary positions and no bias. Every third layer looks at all rows, the
/// others `window` rows to each side with faster angles; the first layer's attention has no norm, since the input has one.
pub fn modernbert(size: Size, window: usize) -> Formula {
    let norm = Norm::Layer { epsilon: 1e-5, bias: false };
    let heads = split(size.width, size.heads, size.heads);
    let global = Attention { bias: ProjectionBias::NONE, ..attention(heads, Source::Own, Reach::Both) };
    let local = Attention {
        pattern: Pattern::Sliding { window, global: Global::None },
        rotary: Some(angles(10_000.0)),
        ..global.clone()
    };
    let feed = FeedForward::Gated { hidden: size.hidden, act: Activation::Gelu, bias: false };
    let block = |attention| pre_norm(norm, vec![Mix::Attend(attention), Mix::Feed(feed)]);
    let mut first = block(global.clone());
    first[0].norm.input = None;
    let mut others = vec![Other { layers: vec![0], block: first }];
    let layers: Vec<usize> = (3..size.layers).step_by(3).collect();
    if !layers.is_empty() {
        others.push(Other { layers, block: block(global) });
    }
    let side = Side {
        input: Input::Tokens(Tokens { norm: Some(norm), ..tokens(size.vocabulary) }),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: Position::Rotary(angles(160_000.0)),
            block: block(local),
            others,
            final_norm: Some(norm),
        },
    };
    let dense = Dense { act: Some(Activation::Gelu), bias: false, norm: Some(norm) };
    Formula {
        source: Some(side),
        target: None,
        pooler: None,
        head: Head::Words { tied: true, bias: true, dense: Some(dense), scale: None },
    }
}

/// `ViT` (Dosovitskiy et al. 2020): patches of `patch` pixels in, one of `classes` out.
///
/// `size.length` counts the class row too; `size.vocabulary` is not used.
pub fn vit(size: Size, patch: usize, classes: usize) -> Formula {
    Formula {
        source: Some(vit_side(size, patch)),
        target: None,
        pooler: Some(Pooler::of(Pool::First)),
        head: Head::Classes { count: classes, bias: true },
    }
}

pub(super) fn vit_side(size: Size, patch: usize) -> Side {
    let norm = layer_norm(1e-12);
    let attention = attend(split(size.width, size.heads, size.heads), Source::Own, Reach::Both);
    Side {
        input: Input::Patches(Patches { size: patch, channels: 3, lead: Lead::Class, norm: None }),
        stack: Stack {
            width: size.width,
            depth: Depth::Layers(size.layers),
            position: learned(size, 0),
            block: pre_norm(norm, vec![attention, plain(size.hidden, Activation::Gelu)]),
            others: Vec::new(),
            final_norm: Some(norm),
        },
    }
}
