//! Both halves: what is read, and what is written after it.

use super::decoder::gpt2_side;
use super::encoder::vit_side;
use super::{
    Original, Size, attend, attention, layer_norm, original, plain, post_norm, pre_norm, sinusoids, split,
    tokens, words,
};
use crate::types::{
    Activation, Attention, Counting, Depth, FeedForward, Formula, Input, InputScale, Mix, Norm, NormSites,
    Pairing, Position, ProjectionBias, Reach, Scale, Side, Source, Spread, Stack, Table, Tokens, When,
};

/// T5 (Raffel et al. 2019), in its later form with a gated feed and a `W_o` of its own: pre-norm RMS, bucketed distances,
/// unscaled scores, no bias.
pub fn t5(size: Size) -> Formula {
    let norm = Norm::Rms { epsilon: 1e-6 };
    let attend = |source, reach| {
        let heads = split(size.width, size.heads, size.heads);
        let bias = ProjectionBias::NONE;
        Mix::Attend(Attention { scale: Scale::One, bias, ..attention(heads, source, reach) })
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

/// BART (Lewis et al. 2019): GELU, learned positions and a norm of the embeddings.
pub fn bart(size: Size) -> Formula {
    let input = Tokens { norm: Some(layer_norm(1e-5)), ..tokens(size.vocabulary) };
    let position = Position::Learned { max: size.length, offset: 2, counting: Counting::Every };
    two_sides(size, &input, &position, Activation::Gelu)
}

/// Marian (Junczys-Dowmunt et al. 2018): swish and sinusoids in halves.
pub fn marian(size: Size) -> Formula {
    let input = Tokens { scale: InputScale::RootWidth, ..tokens(size.vocabulary) };
    two_sides(size, &input, &sinusoids(Pairing::Halves, When::Once), Activation::Silu)
}

/// M2M100 (Fan et al. 2020): pre-norm with sinusoids in halves from position 2, whose slowest one reaches the base.
pub fn m2m100(size: Size) -> Formula {
    let input = Tokens { scale: InputScale::RootWidth, ..tokens(size.vocabulary) };
    let position = Position::Sinusoidal {
        base: 10_000.0,
        layout: Pairing::Halves,
        spread: Spread::Closed,
        offset: 2,
        when: When::Once,
        counting: Counting::Every,
    };
    let mut formula = two_sides(size, &input, &position, Activation::Relu);
    for side in [&mut formula.source, &mut formula.target].into_iter().flatten() {
        let norm = layer_norm(1e-5);
        for sublayer in &mut side.stack.block {
            sublayer.norm = NormSites { input: Some(norm), ..NormSites::default() };
        }
        side.stack.final_norm = Some(norm);
    }
    formula.head = words(true, false);
    formula
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

/// An image in, a sentence out: a `ViT` source over 14 × 14 patches, and a GPT-2 target that also looks at it.
pub fn captioner(size: Size, patch: usize) -> Formula {
    let source = vit_side(Size { length: 14 * 14 + 1, ..size }, patch);
    let target = gpt2_side(size, &[Source::Own, Source::Memory]);
    Formula { source: Some(source), target: Some(target), pooler: None, head: words(true, false) }
}
