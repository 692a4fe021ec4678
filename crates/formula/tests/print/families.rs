//! What tells families apart: heads, poolers, groups, other layers, parallel sums, clusters.

use glassformer_formula::named::{Size, albert, gpt2, transformer_xl};
use glassformer_formula::print::unicode;
use glassformer_formula::{
    Activation, Biases, Clusters, Counting, Dense, Depth, Head, Norm, Other, Pairing, Pool, Pooler, Position,
    Reads, Rotary, Scaling, Start, Then,
};

use super::{SMALL, changed, defines};

#[test]
fn heads_show_their_projections_and_their_scale() {
    let body = "(LN ∘ ○ₗ₌₁²[ (I + FFN_GELU-tanh ∘ LN) ∘ (I + MaskedAttn ∘ LN) ])(X)";
    let head = |head| changed(|formula| formula.head = head);
    let tags = |dense| head(Head::Tags { count: 9, dense });
    assert_eq!(tags(None), format!("Y = softmax( {body} · Wₜ + bₜ )"));
    let dense = Dense { act: Some(Activation::Tanh), bias: false, norm: None };
    assert_eq!(tags(Some(dense)), format!("Y = softmax( tanh({body} · W_d) · Wₜ + bₜ )"));
    let bare = Dense { act: None, bias: true, norm: Some(Norm::Rms { epsilon: 1e-6 }) };
    assert_eq!(tags(Some(bare)), format!("Y = softmax( RMS({body} · W_d + b_d) · Wₜ + bₜ )"));
    let scaled = Head::Words { tied: true, bias: false, dense: None, scale: Some(0.125) };
    assert_eq!(head(scaled), format!("Y = softmax( {body} · 0.125 · Eᵀ )"));
}

#[test]
fn pooled_rows_show_where_they_are_read() {
    let body = "(LN ∘ ○ₗ₌₁²[ (I + FFN_GELU-tanh ∘ LN) ∘ (I + MaskedAttn ∘ LN) ])(X)";
    let pooled = |pool, dense, head| {
        changed(|formula| {
            formula.pooler = Some(Pooler { pool, dense, then: Vec::new() });
            formula.head = head;
        })
    };
    let classes = |bias| Head::Classes { count: 2, bias };
    assert_eq!(pooled(Pool::Last, None, classes(true)), format!("Y = softmax( last({body}) · W_c + b_c )"));
    assert_eq!(pooled(Pool::Mean, None, classes(false)), format!("Y = softmax( mean({body}) · W_c )"));
    let dense = Dense { act: Some(Activation::Tanh), bias: true, norm: None };
    assert_eq!(
        pooled(Pool::First, Some(dense), classes(true)),
        format!("Y = softmax( tanh(first({body}) · W_pool + b_pool) · W_c + b_c )")
    );
    assert_eq!(pooled(Pool::Mean, None, Head::Rows), format!("Y = R, pooled = mean(R), R = {body}"));
}

#[test]
fn groups_are_blocks_of_repeated_blocks() {
    let mut grouped = albert(SMALL, 16, Depth::Groups { layers: 6, groups: 2 });
    grouped.head = Head::Rows;
    grouped.pooler = None;
    grouped.check().unwrap();
    assert_eq!(unicode(&grouped), "Y = ○ₗ₌₁²[ [ LN ∘ (I + FFN_GELU-tanh ∘ LN ∘ (I + MultiHead)) ]³ ](X)");
    defines(&grouped, &["Enc = ○ₗ₌₁² Encₗ³, 2 sets of weights, each 3 times in a row"]);
}

#[test]
fn several_positions_show_together() {
    let rotary = Rotary { base: 10_000.0, size: None, layout: Pairing::Halves, scaling: Scaling::None };
    let parts = vec![
        Position::Learned { max: 32, offset: 0, counting: Counting::Every },
        Position::Rotary(rotary),
        Position::Alibi,
    ];
    let mut formula = gpt2(SMALL);
    formula.target.as_mut().unwrap().stack.position = Position::Together(parts);
    formula.check().unwrap();
    assert!(unicode(&formula).contains("MaskedAttn_RoPE+ALiBi ∘ LN"));
    defines(&formula, &["X = E[x] + P[p]", "  headᵢ = softmax(Rot(Q) Rot(K)ᵀ/√16 − mᵢ D + Mask) V"]);
}

#[test]
fn parallel_sums_keep_what_came_before() {
    let reads = |reads: [Reads; 3], output: Option<Norm>| {
        let mut formula = gpt2(SMALL);
        let block = &mut formula.target.as_mut().unwrap().stack.block;
        block.push(block[1].clone());
        for (sublayer, reads) in block.iter_mut().zip(reads) {
            sublayer.reads = reads;
        }
        block[0].norm.output = output;
        formula.head = Head::Rows;
        formula.check().unwrap();
        let text = unicode(&formula);
        text["Y = (LN ∘ ○ₗ₌₁²[ ".len()..text.find(" ])(X)").unwrap()].replace("_GELU-tanh", "")
    };
    let (rows, block) = (Reads::Rows, Reads::Block);
    let rms = Some(Norm::Rms { epsilon: 1e-6 });
    assert_eq!(reads([block, block, block], None), "I + MaskedAttn ∘ LN + FFN ∘ LN + FFN ∘ LN");
    assert_eq!(reads([rows, block, rows], None), "(I + FFN ∘ LN) ∘ (I + MaskedAttn ∘ LN + FFN ∘ LN)");
    assert_eq!(reads([rows, rows, block], None), "(I + FFN ∘ LN) ∘ (I + MaskedAttn ∘ LN) + FFN ∘ LN");
    assert_eq!(reads([rows, block, block], rms), "RMS ∘ (I + MaskedAttn ∘ LN) + FFN ∘ LN + FFN ∘ LN");
}

#[test]
fn layers_are_listed_as_briefly_as_is_exact() {
    let listed = |layers: &[usize]| {
        let mut formula = gpt2(Size { layers: 12, ..SMALL });
        let stack = &mut formula.target.as_mut().unwrap().stack;
        stack.others = vec![Other { layers: layers.to_vec(), block: stack.block.clone() }];
        formula.check().unwrap();
        let text = unicode(&formula);
        text[text.find('∈').unwrap()..text.find(':').unwrap()].to_owned()
    };
    assert_eq!(listed(&[4]), "∈ {4}");
    assert_eq!(listed(&[6, 3, 0]), "∈ {0, 3, 6}");
    assert_eq!(listed(&[1, 3, 5, 7]), "∈ {1, 3, …, 7}");
    assert_eq!(listed(&[1, 3, 5, 8]), "∈ {1, 3, 5, 8}");
}

#[test]
fn clusters_are_defined_at_both_ends() {
    let clusters = Clusters { cuts: vec![10, 40], divisor: 4, width: None };
    let mut formula = transformer_xl(SMALL, clusters.clone());
    defines(
        &formula,
        &[
            "X = E⁽ⁱ⁾[x − cᵢ] U⁽ⁱ⁾ · √64 where cᵢ ≤ x < cᵢ₊₁",
            "  c = (0, 10, 40, 100)",
            "  E⁽⁰⁾ : 10 × 64, U⁽⁰⁾ : 64 × 64, E⁽¹⁾ : 30 × 16, U⁽¹⁾ : 16 × 64, E⁽²⁾ : 60 × 4, U⁽²⁾ : 4 × 64",
            "AdaptiveSoftmax_E(x)[w] = p⁽⁰⁾[w] where w < 10, else p⁽⁰⁾[10 + i − 1] · p⁽ⁱ⁾[w − cᵢ] where cᵢ ≤ w < cᵢ₊₁",
            "  p⁽⁰⁾ = softmax(x D⁽⁰⁾ [(E⁽⁰⁾)ᵀ, C] + b⁽⁰⁾), p⁽ⁱ⁾ = softmax(x D⁽ⁱ⁾ (E⁽ⁱ⁾)ᵀ + b⁽ⁱ⁾)",
            "  D⁽⁰⁾ : 64 × 64, D⁽¹⁾ : 64 × 16, D⁽²⁾ : 64 × 4, C : 64 × 2",
        ],
    );
    formula.head = Head::Adaptive { clusters: clusters.clone(), tied: false };
    assert!(unicode(&formula).starts_with("Y = ln AdaptiveSoftmax( ○"));
    defines(&formula, &["  p⁽⁰⁾ = softmax(x D⁽⁰⁾ [Wₒ⁽⁰⁾, C] + b⁽⁰⁾), p⁽ⁱ⁾ = softmax(x D⁽ⁱ⁾ Wₒ⁽ⁱ⁾ + b⁽ⁱ⁾)"]);
}

#[test]
fn clusters_of_the_stacks_width_have_no_projections() {
    let clusters = Clusters { cuts: vec![10], divisor: 1, width: None };
    defines(
        &transformer_xl(SMALL, clusters.clone()),
        &[
            "X = E⁽ⁱ⁾[x − cᵢ] · √64 where cᵢ ≤ x < cᵢ₊₁",
            "  E⁽⁰⁾ : 10 × 64, E⁽¹⁾ : 90 × 64",
            "  p⁽⁰⁾ = softmax(x [(E⁽⁰⁾)ᵀ, C] + b⁽⁰⁾), p⁽ⁱ⁾ = softmax(x (E⁽ⁱ⁾)ᵀ + b⁽ⁱ⁾)",
            "  C : 64 × 1",
        ],
    );
    let narrow = Clusters { width: Some(16), ..clusters };
    defines(&transformer_xl(SMALL, narrow), &["  D⁽⁰⁾ : 64 × 16, D⁽¹⁾ : 64 × 16, C : 16 × 1"]);
}

#[test]
fn a_sentence_is_pooled_projected_and_brought_to_length_one() {
    let dense = Then::Dense { width: 20, act: Some(Activation::Tanh), bias: true };
    let pool = Pool::Together(vec![Pool::Max, Pool::Mean]);
    let mut formula = gpt2(SMALL);
    formula.head = Head::Rows;
    formula.pooler = Some(Pooler { pool, dense: None, then: vec![dense, Then::Unit] });
    formula.check().unwrap();
    let line = unicode(&formula);
    let expected = "pooled = unit(tanh([max(R), mean(R)] · Wₚₒₒₗ₁ + bₚₒₒₗ₁))";
    assert!(line.contains(expected), "{line}");
    defines(
        &formula,
        &[
            "max is the largest number of each column of a sequence's rows, mean is that of a sequence's rows",
            "Wₚₒₒₗ₁ : 128 × 20, unit(x) is x over its length",
        ],
    );
}

#[test]
fn a_memory_of_zeros_is_said() {
    let mut formula = gpt2(SMALL);
    formula.target.as_mut().unwrap().stack.position =
        Position::TransformerXl { memory: 8, biases: Biases::Layer, clamp: None, start: Start::Zeros };
    let line =
        "  H are the 8 rows before x that entered this layer with earlier segments, zeros before the first";
    defines(&formula, &[line]);
}

#[test]
fn distances_stop_growing_where_they_are_clamped() {
    let mut formula = gpt2(SMALL);
    formula.target.as_mut().unwrap().stack.position =
        Position::TransformerXl { memory: 8, biases: Biases::Layer, clamp: Some(20), start: Start::Empty };
    formula.check().unwrap();
    let line =
        "  Z[p, q] = (Q[p] + v⁽ⁱ⁾) · (S[min(p − q, 20)] W_R⁽ⁱ⁾), W_R⁽ⁱ⁾ : 64 × 16, u and v of each layer";
    defines(&formula, &[line]);
}
