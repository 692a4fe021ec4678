//! What formulas look like, letter by letter.

mod families;

use glassformer_formula::named::{Size, gpt2, llama};
use glassformer_formula::print::{Notation, definitions, definitions_in, formula, latex, mathml, unicode};
use glassformer_formula::{
    Activation, Attention, FeedForward, Formula, Global, Head, Mix, NAMES, Norm, Pairing, Pattern, Position,
    Reach, Rotary, Scale, Scaling, Sublayer, named,
};

const SMALL: Size = Size { width: 64, heads: 4, hidden: 256, layers: 2, vocabulary: 100, length: 32 };

/// What each named formula prints as.
const LINES: [(&str, &str); NAMES.len()] = [
    (
        "original",
        "Y = softmax( ○ₗ₌₁⁶[ LN ∘ (I + FFN ∘ LN ∘ (I + MultiHead)) ] · \
         ○ₗ₌₁⁶[ MaskedAttn ▷ Enc-DecAttn ▷ FFN ](X) · Wₒ )",
    ),
    (
        "bert",
        "Y = softmax( LN(GELU(R · W_d + b_d)) · Eᵀ + bₒ ), pooled = tanh(first(R) · W_pool + b_pool), \
         R = ○ₗ₌₁¹²[ LN ∘ (I + FFN_GELU ∘ LN ∘ (I + MultiHead)) ](X)",
    ),
    (
        "bert-classifier",
        "Y = softmax( tanh(first(○ₗ₌₁¹²[ LN ∘ (I + FFN_GELU ∘ LN ∘ (I + MultiHead)) ](X)) · W_pool + b_pool) · W_c + b_c )",
    ),
    ("bert-tagger", "Y = softmax( ○ₗ₌₁¹²[ LN ∘ (I + FFN_GELU ∘ LN ∘ (I + MultiHead)) ](X) · Wₜ + bₜ )"),
    ("bert-reader", "Y = softmax_rows( ○ₗ₌₁¹²[ LN ∘ (I + FFN_GELU ∘ LN ∘ (I + MultiHead)) ](X) · Wₛ + bₛ )"),
    (
        "bert-embedder",
        "Y = R, pooled = unit(mean(R)), R = ○ₗ₌₁¹²[ LN ∘ (I + FFN_GELU ∘ LN ∘ (I + MultiHead)) ](X)",
    ),
    (
        "albert",
        "Y = softmax( LN(GELU-tanh(R · W_d + b_d)) · Eᵀ + bₒ ), pooled = tanh(first(R) · W_pool + b_pool), \
         R = [ LN ∘ (I + FFN_GELU-tanh ∘ LN ∘ (I + MultiHead)) ]¹²(X)",
    ),
    (
        "modernbert",
        "Y = softmax( LN(GELU((LN ∘ ○ₗ₌₀²¹[ (I + FFN_GEGLU ∘ LN) ∘ (I + Attn_RoPE[w=64] ∘ LN) ; \
         l ∈ {0}: (I + FFN_GEGLU ∘ LN) ∘ (I + MultiHead_RoPE) ; \
         l ∈ {3, 6, …, 21}: (I + FFN_GEGLU ∘ LN) ∘ (I + MultiHead_RoPE ∘ LN) ])(X) · W_d)) · Eᵀ + bₒ )",
    ),
    (
        "mpnet",
        "Y = softmax( LN(GELU(R · W_d + b_d)) · Eᵀ + bₒ ), pooled = tanh(first(R) · W_pool + b_pool), \
         R = ○ₗ₌₁¹²[ LN ∘ (I + FFN_GELU ∘ LN ∘ (I + MultiHead_T5)) ](X)",
    ),
    ("gpt2", "Y = softmax( (LN ∘ ○ₗ₌₁¹²[ (I + FFN_GELU-tanh ∘ LN) ∘ (I + MaskedAttn ∘ LN) ])(X) · Eᵀ )"),
    ("gpt_neox", "Y = softmax( (LN ∘ ○ₗ₌₁¹²[ I + MaskedAttn_RoPE ∘ LN + FFN_GELU ∘ LN ])(X) · Wₒ )"),
    (
        "llama",
        "Y = softmax( (RMS ∘ ○ₗ₌₁³²[ (I + FFN_SwiGLU ∘ RMS) ∘ (I + MaskedAttn_RoPE[32:8] ∘ RMS) ])(X) · Wₒ )",
    ),
    (
        "t5",
        "Y = softmax( (RMS ∘ ○ₗ₌₁¹²[ (I + FFN_GEGLU-tanh ∘ RMS) ∘ (I + MultiHead_T5 ∘ RMS) ]) · \
         (RMS ∘ ○ₗ₌₁¹²[ (I + FFN_GEGLU-tanh ∘ RMS) ∘ (I + Enc-DecAttn ∘ RMS) ∘ \
         (I + MaskedAttn_T5 ∘ RMS) ])(X) · Wₒ )",
    ),
    (
        "bart",
        "Y = softmax( ○ₗ₌₁⁶[ LN ∘ (I + FFN_GELU ∘ LN ∘ (I + MultiHead)) ] · \
         ○ₗ₌₁⁶[ MaskedAttn ▷ Enc-DecAttn ▷ FFN_GELU ](X) · Eᵀ + bₒ )",
    ),
    (
        "marian",
        "Y = softmax( ○ₗ₌₁⁶[ LN ∘ (I + FFN_SiLU ∘ LN ∘ (I + MultiHead)) ] · \
         ○ₗ₌₁⁶[ MaskedAttn ▷ Enc-DecAttn ▷ FFN_SiLU ](X) · Eᵀ + bₒ )",
    ),
    (
        "m2m100",
        "Y = softmax( (LN ∘ ○ₗ₌₁¹²[ (I + FFN ∘ LN) ∘ (I + MultiHead ∘ LN) ]) · \
         (LN ∘ ○ₗ₌₁¹²[ (I + FFN ∘ LN) ∘ (I + Enc-DecAttn ∘ LN) ∘ (I + MaskedAttn ∘ LN) ])(X) · Eᵀ )",
    ),
    (
        "longformer",
        "Y = softmax( LN(GELU(R · W_d + b_d)) · Eᵀ + bₒ ), pooled = tanh(first(R) · W_pool + b_pool), \
         R = ○ₗ₌₁¹²[ LN ∘ (I + FFN_GELU ∘ LN ∘ (I + Attn[w=256, global])) ](X)",
    ),
    (
        "linformer",
        "Y = softmax( LN(GELU(R · W_d + b_d)) · Eᵀ + bₒ ), pooled = tanh(first(R) · W_pool + b_pool), \
         R = ○ₗ₌₁¹²[ LN ∘ (I + FFN_GELU ∘ LN ∘ (I + Attn[rank 128])) ](X)",
    ),
    ("transformer_xl", "Y = ln AdaptiveSoftmax_E( ○ₗ₌₁¹⁸[ MaskedAttn_XL[memory 1600] ▷ FFN ](X) )"),
    (
        "universal",
        "Y = softmax( [ LN ∘ (I + FFN ∘ LN ∘ (I + MultiHead)) ∘ (I + PEₜ) ]⁶ · \
         [ (I + PEₜ) ▷ MaskedAttn ▷ Enc-DecAttn ▷ FFN ]⁶(X) · Wₒ )",
    ),
    (
        "universal_halting",
        "Y = softmax( [ LN ∘ (I + FFN ∘ LN ∘ (I + MultiHead)) ∘ (I + PEₜ) ]^(until Σp > 0.99, ≤ 8) · \
         [ (I + PEₜ) ▷ MaskedAttn ▷ Enc-DecAttn ▷ FFN ]^(until Σp > 0.99, ≤ 8)(X) · Wₒ )",
    ),
    (
        "vit",
        "Y = softmax( first((LN ∘ ○ₗ₌₁¹²[ (I + FFN_GELU ∘ LN) ∘ (I + MultiHead ∘ LN) ])(Patch₁₆(X))) · \
         W_c + b_c )",
    ),
    (
        "captioner",
        "Y = softmax( (LN ∘ ○ₗ₌₁¹²[ (I + FFN_GELU ∘ LN) ∘ (I + MultiHead ∘ LN) ]) · \
         (LN′ ∘ ○ₗ₌₁¹²[ (I + FFN_GELU-tanh ∘ LN′) ∘ (I + Enc-DecAttn ∘ LN′) ∘ \
         (I + MaskedAttn ∘ LN′) ])(Patch₁₆(X)) · Eᵀ )",
    ),
];

#[test]
fn every_named_formula_prints_as_what_it_is() {
    assert_eq!(LINES.map(|(name, _)| name), NAMES);
    for (name, line) in LINES {
        assert_eq!(unicode(&named(name).unwrap()), line, "{name}");
    }
}

#[test]
fn the_original_is_document_ones_latex() {
    // The document's own line, with its N and M as numbers and its two labels in English.
    let document = r"
        Y = \text{softmax}\left(
        \underbrace{
        \bigcirc_{l=1}^N \left[ \text{LN} \circ \left( I + \text{FFN} \circ \text{LN} \circ \left( I + \text{MultiHead} \right) \right) \right]
        }_{\text{编码器}}
        \cdot
        \underbrace{
        \bigcirc_{l=1}^M \left[ \text{MaskedAttn} \triangleright \text{Enc-DecAttn} \triangleright \text{FFN} \right]
        }_{\text{解码器}}
        (X) \cdot W_o
        \right)";
    let document = document.replace("^N", "^{6}").replace("^M", "^{6}");
    let document = document.replace("编码器", "encoder").replace("解码器", "decoder");
    let words: Vec<&str> = document.split_whitespace().collect();
    assert_eq!(latex(&Formula::original_base()), words.join(" "));
}

#[test]
fn the_original_is_one_mathml_element() {
    let block = "<mi>LN</mi><mo>∘</mo><mrow><mo>(</mo><mrow><mi>I</mi><mo>+</mo><mrow><mi>FFN</mi><mo>∘</mo><mrow>\
                 <mi>LN</mi><mo>∘</mo><mrow><mo>(</mo><mrow><mi>I</mi><mo>+</mo><mrow><mi>MultiHead</mi></mrow></mrow>\
                 <mo>)</mo></mrow></mrow></mrow></mrow><mo>)</mo></mrow>";
    let ring = "<msubsup><mo>○</mo><mrow><mi>l</mi><mo>=</mo><mn>1</mn></mrow><mn>6</mn></msubsup>";
    let brace = "<mo stretchy=\"true\">⏟</mo></munder>";
    let decoder = "<mi>MaskedAttn</mi><mo>▷</mo><mi>Enc-DecAttn</mi><mo>▷</mo><mi>FFN</mi>";
    let expected = format!(
        "<math xmlns=\"http://www.w3.org/1998/Math/MathML\" display=\"block\"><mrow><mi>Y</mi><mo>=</mo><mrow>\
         <mi>softmax</mi><mrow><mo>(</mo><mrow><mrow><mrow>\
         <munder><munder><mrow>{ring}<mrow><mo>[</mo><mrow><mrow>{block}</mrow></mrow><mo>]</mo></mrow></mrow>{brace}\
         <mtext>encoder</mtext></munder><mo>·</mo>\
         <munder><munder><mrow>{ring}<mrow><mo>[</mo><mrow>{decoder}</mrow><mo>]</mo></mrow></mrow>{brace}\
         <mtext>decoder</mtext></munder></mrow><mrow><mo>(</mo><mi>X</mi><mo>)</mo></mrow></mrow>\
         <mo>·</mo><msub><mi>W</mi><mi>o</mi></msub></mrow><mo>)</mo></mrow></mrow></mrow></math>"
    );
    assert_eq!(mathml(&Formula::original_base()), expected);
}

#[test]
fn the_originals_definitions_are_exact() {
    let expected = "\
Y = softmax(Dec(Y_<t, M) · Wₒ), M = Enc(X)
Enc = ○ₗ₌₁⁶ Encₗ
Encₗ(x) = LN(a + FFN(a)), a = LN(x + MultiHead(x))
Dec = ○ₗ₌₁⁶ Decₗ
Decₗ(y, M) = LN(b + FFN(b)), b = LN(a + Enc-DecAttn(a, M)), a = LN(y + MaskedAttn(y))
  MaskedAttn ▷ Enc-DecAttn ▷ FFN: one after the other, each with its residual and norm; row t sees rows up to t alone, \
  and what is read off it becomes row t + 1
X = Eₓ[x] · √512 + PE
  Eₓ : 37000 × 512
Y_<t = E_y[y] · √512 + PE
  E_y : 37000 × 512
PE[p, 2j] = sin(p/10000^(2j/512)), PE[p, 2j + 1] = cos(p/10000^(2j/512))
MultiHead(x) = concat(head₁, …, head₈) W_O + b_O
  headᵢ = softmax(Q Kᵀ/√64) V
  Q = x W_Q⁽ⁱ⁾ + b_Q⁽ⁱ⁾, K = x W_K⁽ⁱ⁾ + b_K⁽ⁱ⁾, V = x W_V⁽ⁱ⁾ + b_V⁽ⁱ⁾
  W_Q⁽ⁱ⁾, W_K⁽ⁱ⁾, W_V⁽ⁱ⁾ : 512 × 64, W_O : 512 × 512
MaskedAttn(x) = concat(head₁, …, head₈) W_O + b_O
  headᵢ = softmax(Q Kᵀ/√64 + Mask) V
  Q = x W_Q⁽ⁱ⁾ + b_Q⁽ⁱ⁾, K = x W_K⁽ⁱ⁾ + b_K⁽ⁱ⁾, V = x W_V⁽ⁱ⁾ + b_V⁽ⁱ⁾
  W_Q⁽ⁱ⁾, W_K⁽ⁱ⁾, W_V⁽ⁱ⁾ : 512 × 64, W_O : 512 × 512
  Mask[p, q] = 0 where q ≤ p, else −∞
Enc-DecAttn(x, M) = concat(head₁, …, head₈) W_O + b_O
  headᵢ = softmax(Q Kᵀ/√64) V
  Q = x W_Q⁽ⁱ⁾ + b_Q⁽ⁱ⁾, K = M W_K⁽ⁱ⁾ + b_K⁽ⁱ⁾, V = M W_V⁽ⁱ⁾ + b_V⁽ⁱ⁾
  W_Q⁽ⁱ⁾, W_K⁽ⁱ⁾, W_V⁽ⁱ⁾ : 512 × 64, W_O : 512 × 512
FFN(x) = ReLU(x W₁ + b₁) W₂ + b₂, W₁ : 512 × 2048, W₂ : 2048 × 512
ReLU(z) = max(0, z)
LN(x) = γ ⊙ (x − μ)/√(σ² + 10⁻⁵) + β
Wₒ : 512 × 37000";
    assert_eq!(definitions(&Formula::original_base()).join("\n"), expected);
}

/// A formula's definitions must hold each of these lines.
fn defines(formula: &Formula, lines: &[&str]) {
    let all = definitions(formula);
    for line in lines {
        assert!(all.iter().any(|one| one == line), "no line {line} in\n{}", all.join("\n"));
    }
}

#[test]
fn definitions_say_what_is_special_about_each_family() {
    let lines = |name: &str, lines: &[&str]| defines(&named(name).unwrap(), lines);
    lines(
        "bert",
        &[
            "X = LN(E[x] + T[type] + P[p])",
            "  P : 512 × 768",
            "W_pool : 768 × 768, first is the first row of a sequence",
            "W_d : 768 × 768",
        ],
    );
    lines(
        "albert",
        &[
            "Enc = EncStep¹², one set of weights",
            "X = LN(E[x] + T[type] + P[p]) W_E + b_E",
            "  E : 30000 × 128, W_E : 128 × 768, T : 2 × 128",
            "  P : 512 × 128",
            "W_d : 768 × 128",
        ],
    );
    lines(
        "modernbert",
        &[
            "Enc = LN ∘ ○ₗ₌₀²¹ Encₗ",
            "Encₗ(x) = a + FFN_GEGLU(LN(a)), a = x + Attn_RoPE[w=64](LN(x))",
            "  Encₗ(x) = a + FFN_GEGLU(LN(a)), a = x + MultiHead_RoPE(x) for l ∈ {0}",
            "  Encₗ(x) = a + FFN_GEGLU(LN(a)), a = x + MultiHead_RoPE(LN(x)) for l ∈ {3, 6, …, 21}",
            "  Rot turns the pair (j, j + 32) of row p by p θⱼ, θⱼ = 10000^(−2j/64)",
            "  Rot turns the pair (j, j + 32) of row p by p θⱼ, θⱼ = 160000^(−2j/64)",
        ],
    );
    lines("mpnet", &["X = LN(E[x] + P[p + 2])", "  headᵢ = softmax(Q Kᵀ/√64 + B⁽ⁱ⁾) V"]);
    lines("gpt_neox", &["Decₗ(x) = a + FFN_GELU(LN(x)), a = x + MaskedAttn_RoPE(LN(x))"]);
    lines(
        "m2m100",
        &[
            "X = E[x] · √1024 + PE[p + 2]",
            "PE[p, j] = sin(p/10000^(j/511)), PE[p, j + 512] = cos(p/10000^(j/511))",
        ],
    );
    lines("gpt2", &["Decₗ(x) = a + FFN_GELU-tanh(LN(a)), a = x + MaskedAttn(LN(x))"]);
    lines(
        "llama",
        &[
            "  headᵢ = softmax(Rot(Q) Rot(K)ᵀ/√128 + Mask) V",
            "  Q = x W_Q⁽ⁱ⁾, K = x W_K⁽ᵍ⁾, V = x W_V⁽ᵍ⁾, g = ⌈i/4⌉",
            "  Rot turns the pair (j, j + 64) of row p by p θⱼ, θⱼ = 500000^(−2j/128)",
            "RMS(x) = γ ⊙ x/√(mean(x²) + 10⁻⁵)",
        ],
    );
    lines("t5", &["  bucket(d) = d for d < 8, else 8 + ⌊8 · ln(d/8)/ln(128/8)⌋, at most 15"]);
    lines("bart", &["Y_<t = LN(E[y] + P[p + 2])", "  P : 1026 × 768"]);
    lines("marian", &["PE[p, j] = sin(p/10000^(2j/512)), PE[p, j + 256] = cos(p/10000^(2j/512))"]);
    lines("longformer", &["  Mask[p, q] = 0 where |p − q| ≤ 256 or p or q is global, else −∞"]);
    lines("linformer", &["  headᵢ = softmax(Q (L_K K)ᵀ/√64) L_V V"]);
    lines("transformer_xl", &["  headᵢ = softmax(((Q + u⁽ⁱ⁾) Kᵀ + Z)/√64 + Mask) V"]);
    lines(
        "universal",
        &["Enc = ○ₜ₌₁⁶ EncStepₜ, one set of weights", "PEₜ[p] = PE[p] + PE[t − 1], t = 1, 2, … the step"],
    );
    lines(
        "universal_halting",
        &[
            "Dec(x, M) = y₈, one set of weights",
            "  h₀ = x, y₀ = 0, hₜ = DecStepₜ(hₜ₋₁, M)",
            "  yₜ = αₜ hₜ + (1 − αₜ) yₜ₋₁",
            "  pₜ = sigmoid((hₜ₋₁ + PEₜ) wₚ + bₚ)",
            "  αₜ = pₜ while p₁ + … + pₜ ≤ 0.99, then once 1 − (p₁ + … + pₜ₋₁), then 0",
        ],
    );
    lines("vit", &["first is the first row of a sequence", "W_c : 768 × 1000"]);
    lines("captioner", &["LN(x) = γ ⊙ (x − μ)/√(σ² + 10⁻¹²) + β", "LN′(x) = γ ⊙ (x − μ)/√(σ² + 10⁻⁵) + β"]);
}

/// GPT-2 in small, with its own attention and its norms changed.
fn changed(change: impl FnOnce(&mut Formula)) -> String {
    let mut formula = gpt2(SMALL);
    change(&mut formula);
    formula.check().unwrap();
    unicode(&formula)
}

fn attention(formula: &mut Formula) -> &mut Attention {
    match &mut formula.target.as_mut().unwrap().stack.block[0].mix {
        Mix::Attend(attention) => attention,
        Mix::Feed(_) => unreachable!("the first sublayer attends"),
    }
}

#[test]
fn every_variant_shows() {
    let rms = Some(Norm::Rms { epsilon: 1e-6 });
    let sandwich = changed(|formula| {
        formula
            .target
            .as_mut()
            .unwrap()
            .stack
            .block
            .iter_mut()
            .for_each(|sublayer: &mut Sublayer| sublayer.norm.branch = rms);
    });
    assert_eq!(
        sandwich,
        "Y = softmax( (LN ∘ ○ₗ₌₁²[ (I + RMS ∘ FFN_GELU-tanh ∘ LN) ∘ (I + RMS ∘ MaskedAttn ∘ LN) ])(X) · Eᵀ )"
    );
    let inner = |text: &str| {
        let start = text.find("(I + Masked").unwrap() + "(I + ".len();
        text[start..text.find(" ∘ LN) ])").unwrap()].to_owned()
    };
    let position = |position| changed(|formula| formula.target.as_mut().unwrap().stack.position = position);
    assert_eq!(inner(&position(Position::Alibi)), "MaskedAttn_ALiBi");
    assert_eq!(inner(&position(Position::None)), "MaskedAttn");
    let window = Pattern::Sliding { window: 16, global: Global::None };
    assert_eq!(inner(&changed(|formula| attention(formula).pattern = window)), "MaskedAttn[w=16]");
    assert_eq!(inner(&changed(|formula| attention(formula).norm = rms)), "MaskedAttn[QK norm]");
    assert_eq!(inner(&changed(|formula| attention(formula).heads.key = 1)), "MaskedAttn[4:1]");
    let body = "(LN ∘ ○ₗ₌₁²[ (I + FFN_GELU-tanh ∘ LN) ∘ (I + MaskedAttn ∘ LN) ])(X)";
    let head = |head| changed(|formula| formula.head = head);
    assert_eq!(head(Head::Rows), format!("Y = {body}"));
    assert_eq!(head(Head::Spans), format!("Y = softmax_rows( {body} · Wₛ + bₛ )"));
}

#[test]
fn operators_that_differ_in_numbers_alone_have_a_prime() {
    let mut formula = Formula::original_base();
    let source = formula.source.as_mut().unwrap();
    source.stack.block[1].mix =
        Mix::Feed(FeedForward::Plain { hidden: 64, act: Activation::Relu, bias: true });
    formula.check().unwrap();
    assert!(unicode(&formula).contains("Enc-DecAttn ▷ FFN′"));
    assert!(latex(&formula).contains(r"\text{FFN}'"));
    defines(&formula, &["FFN′(x) = ReLU(x W₁ + b₁) W₂ + b₂, W₁ : 512 × 2048, W₂ : 2048 × 512"]);
}

#[test]
fn scaled_angles_are_written_out() {
    let scaled = |scaling| {
        let mut formula = llama(SMALL, 2);
        let rotary = Rotary { base: 10_000.0, size: None, layout: Pairing::Halves, scaling };
        formula.target.as_mut().unwrap().stack.position = Position::Rotary(rotary);
        formula.check().unwrap();
        formula
    };
    let rot = |turn: &str| format!("  Rot turns the pair (j, j + 8) of row p by {turn}, θⱼ = 10000^(−2j/16)");
    defines(&scaled(Scaling::Linear { factor: 4.0 }), &[&rot("p θⱼ/4")]);
    defines(
        &scaled(Scaling::Dynamic { factor: 2.0, original: 32 }),
        &[&rot("p φⱼ"), "  φⱼ = (10000 · (2 n/32 − 1)^(16/14))^(−2j/16) for texts of n > 32 rows, else θⱼ"],
    );
    defines(
        &scaled(Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 32 }),
        &[&rot("p φⱼ"), "  φⱼ = rⱼ θⱼ + (1 − rⱼ) θⱼ/8, rⱼ = (32 θⱼ/2π − 1)/3 within 0 and 1"],
    );
    defines(
        &scaled(Scaling::Yarn {
            factor: 4.0,
            original: 32,
            fast: 32.0,
            slow: 1.0,
            whole: true,
            magnitude: Some(1.5),
        }),
        &[
            "  φⱼ = (1 − rⱼ) θⱼ + rⱼ θⱼ/4, r rising from 0 at 32 turns over 32 rows to 1 at 1, linearly in j; \
           cosines and sines times 1.5",
        ],
    );
    let divisors = vec![1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.5];
    defines(
        &scaled(Scaling::Long { short: divisors.clone(), long: divisors, original: 32, magnitude: 1.25 }),
        &[
            &rot("p θⱼ/sⱼ"),
            "  s = (1, 1, 1, 1, 2, 2, 2, 2.5) up to 32 rows, (1, 1, 1, 1, 2, 2, 2, 2.5) beyond; \
             cosines and sines times 1.25",
        ],
    );
}

#[test]
fn slopes_are_right_for_any_number_of_heads() {
    let sloped = |heads| {
        let mut formula = gpt2(Size { width: 60, heads, ..SMALL });
        formula.target.as_mut().unwrap().stack.position = Position::Alibi;
        formula
    };
    defines(&sloped(4), &["  D[p, q] = |p − q|, mᵢ = 2^(−8i/4)"]);
    defines(&sloped(6), &["  D[p, q] = |p − q|, mᵢ = 2^(−8i/4) for i ≤ 4, else 2^(−4(2(i − 4) − 1)/4)"]);
}

#[test]
fn scores_show_their_scale() {
    let scaled = |scale| {
        let mut formula = gpt2(SMALL);
        attention(&mut formula).scale = scale;
        attention(&mut formula).reach = Reach::Past;
        formula
    };
    defines(&scaled(Scale::RootSize), &["  headᵢ = softmax(Q Kᵀ/√16 + Mask) V"]);
    defines(&scaled(Scale::One), &["  headᵢ = softmax(Q Kᵀ + Mask) V"]);
    defines(&scaled(Scale::By(0.5)), &["  headᵢ = softmax(0.5 · (Q Kᵀ) + Mask) V"]);
}

/// Every tag closed in order, and scripts and fractions with as many children as they need.
fn well_formed(text: &str) {
    let mut open: Vec<(&str, usize)> = vec![("", 0)];
    for tag in text.split('<').skip(1) {
        let (tag, rest) = tag.split_once('>').expect("a tag ends");
        assert!(!rest.contains('>') && !rest.replace("&lt;", "").replace("&gt;", "").contains('&'), "{rest}");
        let name = tag.split([' ', '/']).next().unwrap();
        if let Some(name) = tag.strip_prefix('/') {
            let (opened, children) = open.pop().unwrap();
            assert_eq!(opened, name);
            let needed = match name {
                "msub" | "msup" | "mfrac" | "munder" => 2,
                "msubsup" => 3,
                "msqrt" | "math" => 1,
                _ => children,
            };
            assert_eq!(children, needed, "children of {name} in {text}");
        } else {
            open.last_mut().unwrap().1 += 1;
            if !tag.ends_with('/') {
                open.push((name, 0));
            }
        }
    }
    assert_eq!(open, [("", 1)]);
}

#[test]
fn all_notations_of_all_names_hold_together() {
    for name in NAMES {
        let one = named(name).unwrap();
        assert!(!unicode(&one).contains('\n'));
        well_formed(&mathml(&one));
        for line in definitions_in(&one, Notation::Mathml) {
            well_formed(&line);
        }
        for line in [vec![formula(&one, Notation::Latex)], definitions_in(&one, Notation::Latex)].concat() {
            assert_eq!(line.matches('{').count(), line.matches('}').count(), "{line}");
            assert_eq!(line.matches("\\left").count(), line.matches("\\right").count(), "{line}");
            assert!(line.is_ascii(), "{line}");
        }
    }
}
