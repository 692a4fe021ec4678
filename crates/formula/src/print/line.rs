//! The whole formula in one line: `Y = softmax( encoder · decoder(X) · W_o )`.

use super::expr::{
    Expr, Fence, Sign, call, fence, float, joined, prose, round, row, sub, sub_sup, sup, transposed,
};
use super::names::{Names, step_signal};
use crate::half::Half;
use crate::types::{Depth, Formula, Head, Input, Norm, NormSites, Pool, Position, Side, Sublayer, When};

pub(super) fn line(formula: &Formula) -> Expr {
    let names = Names::of(formula);
    let sides: Vec<Expr> = formula.halves().map(|(half, side)| stack(&names, half, side)).collect();
    let rows = row![joined(sides, Sign::Dot), round(input(formula))];
    row!["Y", Sign::Equals, head(&names, rows, Fence::Roomy)]
}

/// X, or the patches of X.
pub(super) fn input(formula: &Formula) -> Expr {
    match formula.halves().next().map(|(_, side)| &side.input) {
        Some(Input::Patches(patches)) => call(sub("Patch", patches.size), "X"),
        Some(Input::Tokens(_)) | None => "X".into(),
    }
}

/// What is read off the rows: `softmax(rows · W_o)` and its kin.
pub(super) fn head(names: &Names<'_>, rows: Expr, brackets: Fence) -> Expr {
    let softmax = |scores: Expr| row!["softmax", fence(brackets, scores)];
    let biased = |rows: Expr, letter: &'static str| {
        row![rows, Sign::Dot, sub("W", letter), Sign::Plus, sub("b", letter)]
    };
    match &names.formula.head {
        Head::Rows => rows,
        Head::Words { tied, bias } => {
            let last = if names.formula.target.is_some() { Half::Target } else { Half::Source };
            let matrix = if *tied { transposed(names.table(last)) } else { sub("W", "o") };
            let scores = row![rows, Sign::Dot, matrix];
            softmax(if *bias { row![scores, Sign::Plus, sub("b", "o")] } else { scores })
        }
        Head::Classes { count: _, pool } => softmax(biased(call(pool_word(*pool), rows), "c")),
        Head::Tags { count: _ } => softmax(biased(rows, "t")),
        Head::Spans => row![sub("softmax", "rows"), fence(brackets, biased(rows, "s"))],
    }
}

pub(super) fn pool_word(pool: Pool) -> &'static str {
    match pool {
        Pool::First => "first",
        Pool::Last => "last",
        Pool::Mean => "mean",
    }
}

/// ○ with its block, and the norm after it.
fn stack(names: &Names<'_>, half: Half, side: &Side) -> Expr {
    let block = fence(Fence::Square, block(names, half, side));
    let repeated = match side.stack.depth {
        Depth::Layers(count) => row![sub_sup(Sign::Ring, row!["l", Sign::Equals, 1], count), block],
        Depth::Shared { times } => sup(block, times),
        Depth::Adaptive { max, threshold } => {
            let sum = row![prose("until "), Sign::Sum, "p", Sign::More, float(threshold)];
            sup(block, row![sum, prose(","), Sign::AtMost, max])
        }
    };
    let label = match half {
        Half::Source => "encoder",
        Half::Target => "decoder",
    };
    let whole = match side.stack.final_norm {
        None => repeated,
        Some(norm) => round(row![names.norm(norm), Sign::After, repeated]),
    };
    Expr::Brace(Box::new(whole), label)
}

fn block(names: &Names<'_>, half: Half, side: &Side) -> Expr {
    let sublayers = &side.stack.block;
    let step = signals_steps(side).then(|| round(row!["I", Sign::Plus, step_signal()]));
    match (half, sublayers.iter().all(is_plain_post_norm)) {
        (Half::Target, true) => {
            let mixes = sublayers.iter().map(|sublayer| names.mix(side, &sublayer.mix));
            joined(step.into_iter().chain(mixes), Sign::Then)
        }
        (Half::Source, true) => joined(nested(names, side).into_iter().chain(step), Sign::After),
        (Half::Source | Half::Target, false) => {
            let parts = sublayers.iter().rev().map(|sublayer| written_out(names, side, sublayer));
            joined(parts.chain(step), Sign::After)
        }
    }
}

/// Whether the sublayer is document 1's `LN(x + f(x))`.
pub(super) fn is_plain_post_norm(sublayer: &Sublayer) -> bool {
    matches!(sublayer.norm, NormSites { input: None, branch: None, output: Some(Norm::Layer { .. }) })
}

/// Whether the sinusoids of place and step are added before every application of the block.
pub(super) fn signals_steps(side: &Side) -> bool {
    matches!(side.stack.position, Position::Sinusoidal { when: When::EveryStep, .. })
}

/// Document 1's `LN ∘ (I + FFN ∘ LN ∘ (I + MultiHead))`, each sum around the one before it.
fn nested(names: &Names<'_>, side: &Side) -> Option<Expr> {
    side.stack.block.iter().fold(None, |inner: Option<Expr>, sublayer| {
        let mix = names.mix(side, &sublayer.mix);
        let branch = joined([mix].into_iter().chain(inner), Sign::After);
        let sum = round(row!["I", Sign::Plus, branch]);
        let norm = sublayer.norm.output.map(|norm| names.norm(norm));
        Some(joined(norm.into_iter().chain([sum]), Sign::After))
    })
}

/// `output ∘ (I + branch ∘ f ∘ input)`.
fn written_out(names: &Names<'_>, side: &Side, sublayer: &Sublayer) -> Expr {
    let norm = |norm: Option<Norm>| norm.map(|norm| names.norm(norm));
    let sites = &sublayer.norm;
    let mix = names.mix(side, &sublayer.mix);
    let branch = norm(sites.branch).into_iter().chain([mix]).chain(norm(sites.input));
    let sum = round(row!["I", Sign::Plus, joined(branch, Sign::After)]);
    joined(norm(sites.output).into_iter().chain([sum]), Sign::After)
}
