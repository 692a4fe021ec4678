//! One stack: how often its block is applied, and what the block does to the rows.

use super::rows_letter;
use crate::half::Half;
use crate::print::expr::{Expr, Sign, call, float, joined, prose, round, row, sub, sub_sup, sup};
use crate::print::line::{is_plain, layers, ring, signals_steps};
use crate::print::names::{Names, step_signal};
use crate::types::{Depth, Mix, Norm, Reads, Side, Source, Sublayer};

pub(super) fn lines(lines: &mut Vec<Expr>, names: &Names<'_>, half: Half, side: &Side) {
    let (whole, step) = match half {
        Half::Source => ("Enc", "EncStep"),
        Half::Target => ("Dec", "DecStep"),
    };
    let signalled = signals_steps(side);
    let step = if signalled { sub(step, "t") } else { step.into() };
    let composed = |index: &'static str, bound: usize, name: Expr| {
        row![sub_sup(Sign::Ring, row![index, Sign::Equals, 1], bound), Sign::Beside, name]
    };
    let after = |repeated: Expr| match side.stack.final_norm {
        None => repeated,
        Some(norm) => row![names.norm(norm), Sign::After, repeated],
    };
    let one_set = prose(", one set of weights");
    let name = match side.stack.depth {
        Depth::Layers(_) | Depth::Groups { .. } => sub(whole, "l"),
        Depth::Shared { .. } | Depth::Adaptive { .. } => step,
    };
    match side.stack.depth {
        Depth::Layers(count) => {
            lines.push(row![whole, Sign::Equals, after(row![ring(side, count), Sign::Beside, name.clone()])]);
        }
        Depth::Groups { layers, groups } => {
            let times = layers / groups.max(1);
            let repeated = row![ring(side, groups), Sign::Beside, sup(name.clone(), times)];
            let sets = format!(", {groups} sets of weights, each {times} times in a row");
            lines.push(row![whole, Sign::Equals, after(repeated), prose(sets)]);
        }
        Depth::Shared { times } => {
            let repeated =
                if signalled { composed("t", times, name.clone()) } else { sup(name.clone(), times) };
            lines.push(row![whole, Sign::Equals, after(repeated), one_set]);
        }
        Depth::Adaptive { max, threshold } => {
            let last = match side.stack.final_norm {
                None => sub("y", max),
                Some(norm) => call(names.norm(norm), sub("y", max)),
            };
            let arguments = if reads_memory(side) { row!["x", Sign::Comma, "M"] } else { "x".into() };
            lines.push(row![call(whole, arguments), Sign::Equals, last, one_set]);
            halting(lines, side, &name, threshold);
        }
    }
    lines.push(block(names, half, side, (name.clone(), &side.stack.block)));
    for other in &side.stack.others {
        let own = block(names, half, side, (name.clone(), &other.block));
        lines.push(row![Sign::Indent, own, prose(" for "), layers(other)]);
    }
    if half == Half::Target && is_plain(&side.stack.block) {
        let mixes = side.stack.block.iter().map(|sublayer| names.mix(side, &sublayer.mix));
        let turn = ": one after the other, each with its residual and norm; ";
        let time = "row t sees rows up to t alone, and what is read off it becomes row t + 1";
        lines.push(row![Sign::Indent, joined(mixes, Sign::Then), prose(turn), prose(time)]);
    }
}

/// Adaptive computation time, for each row by itself, as in the listing of the Universal Transformer's paper.
fn halting(lines: &mut Vec<Expr>, side: &Side, step: &Expr, threshold: f32) {
    let now = |letter: &'static str| sub(letter, "t");
    let before = |letter: &'static str| sub(letter, row!["t", Sign::Minus, 1]);
    let memory = if reads_memory(side) { row![before("h"), Sign::Comma, "M"] } else { before("h") };
    let start = row![sub("h", 0), Sign::Equals, "x", Sign::Comma, sub("y", 0), Sign::Equals, 0];
    lines.push(row![Sign::Indent, start, Sign::Comma, now("h"), Sign::Equals, call(step.clone(), memory)]);
    let kept = row![round(row![1, Sign::Minus, now("α")]), Sign::Beside, before("y")];
    let mixed = row![now("y"), Sign::Equals, now("α"), Sign::Beside, now("h"), Sign::Plus, kept];
    lines.push(row![Sign::Indent, mixed]);
    let seen =
        if signals_steps(side) { round(row![before("h"), Sign::Plus, step_signal()]) } else { before("h") };
    let score = row![seen, Sign::Beside, sub("w", "p"), Sign::Plus, sub("b", "p")];
    lines.push(row![Sign::Indent, now("p"), Sign::Equals, call("sigmoid", score)]);
    let sum = |last: Expr| row![sub("p", 1), Sign::Plus, Sign::Dots, Sign::Plus, last];
    let going = row![now("α"), Sign::Equals, now("p"), prose(" while "), sum(now("p")), Sign::AtMost];
    let rest = row![1, Sign::Minus, round(sum(before("p")))];
    let going = row![Sign::Indent, going, float(threshold), prose(", then once "), rest];
    lines.push(row![going, prose(", then 0")]);
}

fn reads_memory(side: &Side) -> bool {
    side.stack.block.iter().any(|sublayer| match &sublayer.mix {
        Mix::Attend(attention) => attention.source == Source::Memory,
        Mix::Feed(_) => false,
    })
}

/// `Encₗ(x) = LN(a + FFN(a)), a = LN(x + MultiHead(x))`
fn block(names: &Names<'_>, half: Half, side: &Side, of: (Expr, &[Sublayer])) -> Expr {
    let (name, sublayers) = of;
    let argument: Expr = rows_letter(names, half).into();
    let mut stages = Vec::new();
    let mut here = argument.clone();
    if signals_steps(side) {
        let start = sub(argument.clone(), "0");
        stages.push((start.clone(), row![argument.clone(), Sign::Plus, step_signal()]));
        here = start;
    }
    let entered = here.clone();
    let count = sublayers.len();
    for (index, sublayer) in sublayers.iter().enumerate() {
        let seen = match sublayer.reads {
            Reads::Rows => &here,
            Reads::Block => &entered,
        };
        let value = sublayer_value(names, side, sublayer, (&here, seen));
        here = between(index, count);
        stages.push((here.clone(), value));
    }
    let arguments = if reads_memory(side) { row![argument, Sign::Comma, "M"] } else { argument };
    let mut line = row![call(name, arguments), Sign::Equals];
    let last = stages.pop().map_or(here, |(_, value)| value);
    line = row![line, last];
    for (stage, value) in stages.into_iter().rev() {
        line = row![line, Sign::Comma, stage, Sign::Equals, value];
    }
    line
}

/// What the rows are called after a sublayer: a, b, c, or a₁, a₂, … in long blocks.
fn between(index: usize, count: usize) -> Expr {
    match (["a", "b", "c"].get(index), count) {
        (Some(&letter), 0..=4) => letter.into(),
        (Some(_) | None, _) => sub("a", index + 1),
    }
}

/// `output(x + branch(f(input(x))))`
fn sublayer_value(names: &Names<'_>, side: &Side, sublayer: &Sublayer, of: (&Expr, &Expr)) -> Expr {
    let (x, seen) = of;
    let normed = |norm: Option<Norm>, inner: Expr| match norm {
        None => inner,
        Some(norm) => call(names.norm(norm), inner),
    };
    let seen = normed(sublayer.norm.input, seen.clone());
    let arguments = match &sublayer.mix {
        Mix::Attend(attention) if attention.source == Source::Memory => row![seen, Sign::Comma, "M"],
        Mix::Attend(_) | Mix::Feed(_) => seen,
    };
    let branch = normed(sublayer.norm.branch, call(names.mix(side, &sublayer.mix), arguments));
    normed(sublayer.norm.output, row![x.clone(), Sign::Plus, branch])
}
