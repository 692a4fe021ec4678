//! A formula as one line, in Unicode, LaTeX or `MathML`, and the definitions of every symbol in it.
//!
//! The line says what the model is made of; the definitions say it exactly, with all numbers. One tree (`expr`) is built
//! for each and rendered three times, so the notations cannot disagree.
//!
//! # The notation
//!
//! It is document 1's, and the original Transformer prints as that document writes it:
//!
//! ```text
//! Y = softmax( ○ₗ₌₁⁶[ LN ∘ (I + FFN ∘ LN ∘ (I + MultiHead)) ] · ○ₗ₌₁⁶[ MaskedAttn ▷ Enc-DecAttn ▷ FFN ](X) · Wₒ )
//! ```
//!
//! - `○ₗ₌₁⁶[ f ]` applies six blocks, each with its own weights; `[ f ]⁶` applies one block six times; `○ₗ₌₁²[ [ f ]³ ]` two
//!   blocks, each three times; `[ f ]^(until Σp > 0.99, ≤ 8)` one until each row halts.
//! - `○ₗ₌₀⁵[ f ; l ∈ {0, 3}: g ]` applies g in the layers 0 and 3, counted from 0 as the data counts them, and f in the others.
//! - A sum that holds another sum, `I + FFN ∘ LN ∘ (I + MultiHead)`, is document 1's way to write post-norm blocks: its I is
//!   the identity on what FFN receives, `(I + FFN) ∘ LN ∘ (I + MultiHead)`. A sum that holds none, `I + FFN ∘ LN`, reads as
//!   usual, x + FFN(LN(x)): pre-norm. So does a sum of several operators, `I + MaskedAttn ∘ LN + FFN ∘ LN`: all of them read
//!   what entered the block. The definitions spell each out, as `LN(a + FFN(a)), a = LN(x + MultiHead(x))`.
//! - `f ▷ g` abbreviates decoder blocks of plain post-norm sublayers, f first. Any other decoder block is written out.
//! - Where the pooled row is a result besides Y, the last stack's rows are called R.
//! - `A · B(X)`: the decoder B also looks at what the encoder A made of X.
//! - A subscript names what document 1 does not have: `MaskedAttn_RoPE`, `MultiHead_T5`, `FFN_SwiGLU`; the softmax of a
//!   vocabulary in clusters says whose tables it uses, `AdaptiveSoftmax_E`. Square brackets hold numbers: `[32:8]` query and
//!   key heads, `[w=256, global]` a window, `[rank 128]` a squeezed length. A prime tells apart two operators of one name with
//!   different numbers: LN and LN′.

mod define;
mod expr;
mod head;
mod latex;
mod line;
mod mathml;
mod names;
mod unicode;

use crate::types::{Formula, Sublayer};
use expr::Expr;

/// How a formula is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Plain text with mathematical characters.
    Unicode,
    /// LaTeX for math mode, without delimiters; `\text` and `\underbrace` need amsmath.
    Latex,
    /// One `MathML` `<math>` element.
    Mathml,
}

/// The formula in one line.
pub fn formula(formula: &Formula, notation: Notation) -> String {
    render(&line::line(formula), notation)
}

/// One line for every symbol that the formula uses, with its numbers. An indented line belongs to the one before it.
pub fn definitions_in(formula: &Formula, notation: Notation) -> Vec<String> {
    define::lines(formula).iter().map(|line| render(line, notation)).collect()
}

/// The formula in one line of Unicode text.
pub fn unicode(formula: &Formula) -> String {
    self::formula(formula, Notation::Unicode)
}

/// The formula as LaTeX.
pub fn latex(formula: &Formula) -> String {
    self::formula(formula, Notation::Latex)
}

/// The formula as `MathML`.
pub fn mathml(formula: &Formula) -> String {
    self::formula(formula, Notation::Mathml)
}

/// The formula as `MathML` whose operators can be pointed at: `source-attend` for what mixes in that sublayer of the encoder,
/// `source-attend-input`, `-branch` and `-output` for its norms, `source-attend-sum` for what it is added to, `source-norm` for the
/// norm after all layers, `embed`, `pooler`, `head` and `softmax` for the rest. Where some layers have another block, its operators are
/// `source-other1-attend` and so on.
pub fn mathml_with_ids(formula: &Formula) -> String {
    mathml::render(&line::line(formula), mathml::Ids::Write)
}

/// What the sublayers of a block are called, in the ids of [`mathml_with_ids`] as in a model's graph: `attend`, `cross` and `feed`, with a
/// number from the second of its kind on.
pub fn sublayer_names(block: &[Sublayer]) -> Vec<String> {
    line::sublayer_names(block)
}

/// The definitions as Unicode text.
pub fn definitions(formula: &Formula) -> Vec<String> {
    definitions_in(formula, Notation::Unicode)
}

fn render(expr: &Expr, notation: Notation) -> String {
    match notation {
        Notation::Unicode => unicode::render(expr),
        Notation::Latex => latex::render(expr),
        Notation::Mathml => mathml::render(expr, mathml::Ids::Leave),
    }
}
