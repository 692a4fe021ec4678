//! The whole formula in one line: `Y = softmax( encoder · decoder(X) · W_o )`.

use super::expr::{
    Expr, Fence, Sign, call, fence, float, joined, marked, prose, round, row, sub, sub_sup, sup,
};
use super::head::whole;
use super::names::{Names, step_signal};
use crate::half::Half;
use crate::types::{
    Depth, Formula, Input, Mix, Norm, NormSites, Other, Position, Reads, Side, Source, Sublayer, When,
};

pub(super) fn line(formula: &Formula) -> Expr {
    let names = Names::of(formula);
    let sides: Vec<Expr> = formula.halves().map(|(half, side)| stack(&names, half, side)).collect();
    whole(&names, row![joined(sides, Sign::Dot), round(marked("embed", input(formula)))], Fence::Roomy)
}

/// X, or the patches of X.
pub(super) fn input(formula: &Formula) -> Expr {
    match formula.halves().next().map(|(_, side)| &side.input) {
        Some(Input::Patches(patches)) => call(sub("Patch", patches.size), "X"),
        Some(Input::Tokens(_)) | None => "X".into(),
    }
}

/// ○ with its block, and the norm after it.
fn stack(names: &Names<'_>, half: Half, side: &Side) -> Expr {
    let of = |place: &str, sublayers: &[Sublayer]| {
        let names_of_sublayers = sublayer_names(sublayers);
        let id = |sublayer: usize, what: &str| {
            format!("{}{place}-{}{what}", half_name(half), names_of_sublayers[sublayer])
        };
        block(names, (half, side), sublayers, &id)
    };
    let others = side.stack.others.iter().enumerate();
    let blocks = others.fold(of("", &side.stack.block), |blocks, (index, other)| {
        let own = of(&format!("-other{}", index + 1), &other.block);
        row![blocks, Sign::Semicolon, layers(other), prose(": "), own]
    });
    let block = fence(Fence::Square, blocks);
    let repeated = match side.stack.depth {
        Depth::Layers(count) => row![ring(side, count), block],
        Depth::Shared { times } => sup(block, times),
        Depth::Groups { layers, groups } => {
            row![ring(side, groups), fence(Fence::Square, sup(block, layers / groups.max(1)))]
        }
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
        Some(norm) => {
            let norm = marked(format!("{}-norm", half_name(half)), names.norm(norm));
            round(row![norm, Sign::After, repeated])
        }
    };
    Expr::Brace(Box::new(whole), label)
}

/// ○ over `count` layers: from 1, as document 1 counts, or from 0 where single layers are named as the data names them.
pub(super) fn ring(side: &Side, count: usize) -> Expr {
    let (first, last) = if side.stack.others.is_empty() { (1, count) } else { (0, count.saturating_sub(1)) };
    sub_sup(Sign::Ring, row!["l", Sign::Equals, first], last)
}

/// `l ∈ {0, 3, 6}`; four and more at one distance are abbreviated: `{0, 3, …, 21}`.
pub(super) fn layers(other: &Other) -> Expr {
    let mut layers = other.layers.clone();
    layers.sort_unstable();
    let even = layers.windows(3).all(|of| of[1] - of[0] == of[2] - of[1]);
    let list = match layers[..] {
        [first, second, _, .., last] if even && layers.len() > 3 => {
            joined([first.into(), second.into(), Sign::Dots.into(), last.into()], Sign::Comma)
        }
        _ => joined(layers.into_iter().map(Expr::from), Sign::Comma),
    };
    row!["l", Sign::In, fence(Fence::Set, list)]
}

fn half_name(half: Half) -> &'static str {
    match half {
        Half::Source => "source",
        Half::Target => "target",
    }
}

/// See [`super::sublayer_names`].
pub(super) fn sublayer_names(block: &[Sublayer]) -> Vec<String> {
    let kind = |sublayer: &Sublayer| match &sublayer.mix {
        Mix::Attend(attention) => match attention.source {
            Source::Own => "attend",
            Source::Memory => "cross",
        },
        Mix::Feed(_) => "feed",
    };
    let name = |(place, sublayer): (usize, &Sublayer)| {
        let before = block[..place].iter().filter(|other| kind(other) == kind(sublayer)).count();
        if before == 0 { kind(sublayer).to_owned() } else { format!("{}{}", kind(sublayer), before + 1) }
    };
    block.iter().enumerate().map(name).collect()
}

/// What an operator of a sublayer is pointed at by.
type Id<'i> = dyn Fn(usize, &str) -> String + 'i;

fn block(names: &Names<'_>, (half, side): (Half, &Side), sublayers: &[Sublayer], id: &Id<'_>) -> Expr {
    let step = signals_steps(side).then(|| round(row!["I", Sign::Plus, step_signal()]));
    match (half, is_plain(sublayers)) {
        (Half::Target, true) => {
            let mix =
                |(index, sublayer): (usize, &Sublayer)| marked(id(index, ""), names.mix(side, &sublayer.mix));
            let mixes = sublayers.iter().enumerate().map(mix);
            joined(step.into_iter().chain(mixes), Sign::Then)
        }
        (Half::Source, true) => {
            joined(nested(names, side, sublayers, id).into_iter().chain(step), Sign::After)
        }
        (Half::Source | Half::Target, false) => {
            joined(written_out(names, (side, sublayers), step, id), Sign::After)
        }
    }
}

/// Whether the block is of document 1's `LN(x + f(x))` alone.
pub(super) fn is_plain(sublayers: &[Sublayer]) -> bool {
    let plain =
        |norm| matches!(norm, NormSites { input: None, branch: None, output: Some(Norm::Layer { .. }) });
    sublayers.iter().all(|sublayer| plain(sublayer.norm))
        && sublayers.iter().skip(1).all(|sublayer| sublayer.reads == Reads::Rows)
}

/// Whether the sinusoids of place and step are added before every application of the block.
pub(super) fn signals_steps(side: &Side) -> bool {
    let signals = |part: &Position| matches!(part, Position::Sinusoidal { when: When::EveryStep, .. });
    side.stack.position.parts().iter().any(signals)
}

/// Document 1's `LN ∘ (I + FFN ∘ LN ∘ (I + MultiHead))`, each sum around the one before it.
fn nested(names: &Names<'_>, side: &Side, sublayers: &[Sublayer], id: &Id<'_>) -> Option<Expr> {
    sublayers.iter().enumerate().fold(None, |inner: Option<Expr>, (index, sublayer)| {
        let mix = marked(id(index, ""), names.mix(side, &sublayer.mix));
        let branch = joined([mix].into_iter().chain(inner), Sign::After);
        let sum = round(row![marked(id(index, "-sum"), "I"), Sign::Plus, branch]);
        let norm = sublayer.norm.output.map(|norm| marked(id(index, "-output"), names.norm(norm)));
        Some(joined(norm.into_iter().chain([sum]), Sign::After))
    })
}

/// What a block is composed of, the last one first: `output ∘ (I + branch ∘ f ∘ input)` for every sublayer. One that reads
/// what entered the block joins the sum of those before it: `I + f ∘ LN + g ∘ LN`. `step` comes before all of them.
fn written_out(
    names: &Names<'_>,
    (side, sublayers): (&Side, &[Sublayer]),
    step: Option<Expr>,
    id: &Id<'_>,
) -> Vec<Expr> {
    let mut factors: Vec<Expr> = Vec::new();
    // The last sum, where nothing was done to it yet and nothing came before it.
    let mut open: Option<Expr> = None;
    for (index, sublayer) in sublayers.iter().enumerate() {
        let sites = &sublayer.norm;
        let norm =
            |norm: Option<Norm>, what: &str| norm.map(|norm| marked(id(index, what), names.norm(norm)));
        let mix = marked(id(index, ""), names.mix(side, &sublayer.mix));
        let branch =
            norm(sites.branch, "-branch").into_iter().chain([mix]).chain(norm(sites.input, "-input"));
        let branch = joined(branch, Sign::After);
        let kept = match sublayer.reads {
            Reads::Block if index > 0 => {
                let before = std::mem::take(&mut factors);
                open.take().unwrap_or_else(|| joined(before, Sign::After))
            }
            Reads::Rows | Reads::Block => marked(id(index, "-sum"), "I"),
        };
        let sum = row![kept, Sign::Plus, branch];
        open = (factors.is_empty() && sites.output.is_none()).then(|| sum.clone());
        let mut parts: Vec<Expr> = norm(sites.output, "-output").into_iter().chain([round(sum)]).collect();
        parts.append(&mut factors);
        factors = parts;
    }
    match open {
        Some(sum) if step.is_none() => vec![sum],
        Some(_) | None => factors.into_iter().chain(step).collect(),
    }
}
