//! The definitions: every symbol of the line, exactly, with the numbers of this formula.

mod attend;
mod position;

use super::expr::{
    Expr, Fence, Sign, at, call, float, joined, over, prose, root, round, row, sub, sub_sup, sup,
};
use super::head;
use super::line::{input, is_plain, layers, ring, signals_steps};
use super::names::{Feed, Names, act_word, step_signal};
use crate::half::Half;
use crate::types::{
    Activation, Depth, FeedForward, Formula, Head, Input, InputScale, Lead, Mix, Norm, Pool, Pooler, Reads,
    Side, Source, Sublayer, Table, Tokens,
};

pub(super) fn lines(formula: &Formula) -> Vec<Expr> {
    let names = Names::of(formula);
    let mut lines = vec![whole(&names)];
    for (half, side) in formula.halves() {
        stack(&mut lines, &names, half, side);
    }
    for (half, side) in formula.halves() {
        rows(&mut lines, &names, half, side);
    }
    position::sinusoids(&mut lines, formula);
    for site in &names.sites {
        attend::lines(&mut lines, &names, site);
    }
    for feed in &names.feeds {
        lines.push(feed_forward(&names, feed));
    }
    for act in activations(&names) {
        lines.extend(bend(act));
    }
    for norm in &names.norms {
        lines.push(norm_line(&names, *norm));
    }
    output(&mut lines, formula);
    lines
}

/// `Y = softmax(Dec(Y_<t, M) · Wₒ), M = Enc(X)`
fn whole(names: &Names<'_>) -> Expr {
    let formula = names.formula;
    let both = formula.source.is_some() && formula.target.is_some();
    let encoded = call("Enc", input(formula));
    let rows = match (&formula.source, &formula.target) {
        (_, Some(_)) if both => call("Dec", row![target_rows(formula), Sign::Comma, "M"]),
        (_, Some(_)) => call("Dec", "X"),
        (_, None) => encoded.clone(),
    };
    let line = head::whole(names, rows, Fence::Round);
    if both { row![line, Sign::Comma, "M", Sign::Equals, encoded] } else { line }
}

/// The rows that the target starts from: X where it stands alone, else `Y_<t` of document 1.
fn target_rows(formula: &Formula) -> Expr {
    if formula.source.is_some() { sub("Y", row![Sign::Less, "t"]) } else { "X".into() }
}

fn stack(lines: &mut Vec<Expr>, names: &Names<'_>, half: Half, side: &Side) {
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

/// How rows come in: `X = E[x] · √512 + PE`
fn rows(lines: &mut Vec<Expr>, names: &Names<'_>, half: Half, side: &Side) {
    let rows = match half {
        Half::Source => "X".into(),
        Half::Target => target_rows(names.formula),
    };
    match &side.input {
        Input::Tokens(tokens) => token_rows(lines, names, (half, side, tokens), rows),
        Input::Patches(patches) => {
            let name = sub("Patch", patches.size);
            let square = row![patches.size, Sign::Cross, patches.size, Sign::Cross, patches.channels];
            let projected = row!["s", Sign::Beside, sub("W", "P"), Sign::Plus, sub("b", "P")];
            let lead = match patches.lead {
                Lead::None => prose(""),
                Lead::Class => prose(", and before them one learned row with its position"),
            };
            let placed = Expr::Row([projected].into_iter().chain(position::added(side)).collect());
            let normed = match patches.norm {
                None => placed,
                Some(norm) => call(names.norm(norm), placed),
            };
            let squares = row![prose(" for every square s of "), square, prose(" numbers")];
            lines.push(row![call(name, "X"), Sign::Equals, normed, squares, lead]);
            let numbers = patches.size.saturating_mul(patches.size).saturating_mul(patches.channels);
            lines.push(row![Sign::Indent, shape(sub("W", "P"), numbers, side.stack.width)]);
        }
    }
    lines.extend(position::table(side));
}

/// Factorised embeddings are widened right after the lookup.
fn token_rows(lines: &mut Vec<Expr>, names: &Names<'_>, of: (Half, &Side, &Tokens), rows: Expr) {
    let (half, side, tokens) = of;
    let width = side.stack.width;
    let table = names.table(half);
    let found = at(table.clone(), rows_letter(names, half));
    let widened = match tokens.width {
        None => found,
        Some(_) => row![found, Sign::Beside, sub("W", "E"), Sign::Plus, sub("b", "E")],
    };
    let mut sum = match (tokens.scale, tokens.width) {
        (InputScale::One, _) => vec![widened],
        (InputScale::RootWidth, None) => vec![widened, Sign::Dot.into(), root(width)],
        (InputScale::RootWidth, Some(_)) => vec![round(widened), Sign::Dot.into(), root(width)],
    };
    if tokens.types.is_some() {
        sum.extend([Sign::Plus.into(), at("T", "type")]);
    }
    sum.extend(position::added(side));
    let value = match tokens.norm {
        None => Expr::Row(sum),
        Some(norm) => call(names.norm(norm), Expr::Row(sum)),
    };
    lines.push(row![rows, Sign::Equals, value]);
    let mut shapes = Vec::new();
    match tokens.table {
        Table::Own => shapes.push(shape(table, tokens.vocabulary, tokens.width.unwrap_or(width))),
        Table::Source => {}
    }
    shapes.extend(tokens.width.map(|narrow| shape(sub("W", "E"), narrow, width)));
    shapes.extend(tokens.types.map(|types| shape("T", types, width)));
    if !shapes.is_empty() {
        lines.push(row![Sign::Indent, joined(shapes, Sign::Comma)]);
    }
}

/// x for what is read, y for what is written after reading.
fn rows_letter(names: &Names<'_>, half: Half) -> &'static str {
    match (half, &names.formula.source) {
        (Half::Target, Some(_)) => "y",
        (Half::Source | Half::Target, _) => "x",
    }
}

/// `W : 512 × 2048`
fn shape(matrix: impl Into<Expr>, rows: usize, columns: usize) -> Expr {
    row![matrix.into(), Sign::Colon, rows, Sign::Cross, columns]
}

fn feed_forward(names: &Names<'_>, feed: &Feed) -> Expr {
    let linear = |x: Expr, name: Expr, bias: Option<Expr>| match bias {
        None => row![x, Sign::Beside, name],
        Some(bias) => row![x, Sign::Beside, name, Sign::Plus, bias],
    };
    let x = || Expr::from("x");
    let start = row![call(names.feed(feed), "x"), Sign::Equals];
    match feed.layer {
        FeedForward::Plain { hidden, act, bias } => {
            let b = |index: usize| bias.then(|| sub("b", index));
            let inner = call(act_word(act), linear(x(), sub("W", 1), b(1)));
            let value = linear(inner, sub("W", 2), b(2));
            let shapes = [shape(sub("W", 1), feed.width, hidden), shape(sub("W", 2), hidden, feed.width)];
            row![start, value, Sign::Comma, joined(shapes, Sign::Comma)]
        }
        FeedForward::Gated { hidden, act, bias } => {
            let b = |name: &'static str| bias.then(|| sub("b", name));
            let gate = call(act_word(act), linear(x(), sub("W", "gate"), b("gate")));
            let up = linear(x(), sub("W", "up"), b("up"));
            let up = if bias { round(up) } else { up };
            let inner = round(row![gate, Sign::Each, up]);
            let value = linear(inner, sub("W", "down"), b("down"));
            let into = shape(row![sub("W", "gate"), Sign::Comma, sub("W", "up")], feed.width, hidden);
            row![start, value, Sign::Comma, into, Sign::Comma, shape(sub("W", "down"), hidden, feed.width)]
        }
    }
}

fn activations(names: &Names<'_>) -> Vec<Activation> {
    let mut found = Vec::new();
    for feed in &names.feeds {
        let act = match feed.layer {
            FeedForward::Plain { act, .. } | FeedForward::Gated { act, .. } => act,
        };
        if !found.contains(&act) {
            found.push(act);
        }
    }
    found
}

/// What the bend is; tanh needs no explanation.
fn bend(act: Activation) -> Option<Expr> {
    let value = match act {
        Activation::Relu => call("max", row![0, Sign::Comma, "z"]),
        Activation::Gelu => {
            row![
                "z",
                Sign::Beside,
                call("Φ", "z"),
                Sign::Comma,
                "Φ",
                prose(" the normal distribution function")
            ]
        }
        Activation::GeluTanh => {
            let cube = row!["z", Sign::Plus, Expr::Number("0.044715".to_owned()), Sign::Beside, sup("z", 3)];
            let inner = row![root(round(over(2, "π"))), Sign::Dot, round(cube)];
            row![over("z", 2), Sign::Dot, round(row![1, Sign::Plus, call("tanh", inner)])]
        }
        Activation::Silu => over("z", round(row![1, Sign::Plus, sup("e", row![Sign::Negative, "z"])])),
        Activation::Tanh => return None,
        Activation::Sigmoid => over(1, round(row![1, Sign::Plus, sup("e", row![Sign::Negative, "z"])])),
    };
    Some(row![call(act_word(act), "z"), Sign::Equals, value])
}

fn norm_line(names: &Names<'_>, norm: Norm) -> Expr {
    let start = row![call(names.norm(norm), "x"), Sign::Equals, "γ", Sign::Each];
    match norm {
        Norm::Layer { epsilon, bias } => {
            let spread = root(row![sup("σ", 2), Sign::Plus, float(epsilon)]);
            let scaled = row![start, over(row!["x", Sign::Minus, "μ"], spread)];
            if bias { row![scaled, Sign::Plus, "β"] } else { scaled }
        }
        Norm::Rms { epsilon } => {
            let square = call("mean", sup("x", 2));
            row![start, over("x", root(row![square, Sign::Plus, float(epsilon)]))]
        }
    }
}

/// What the head's matrices are.
fn output(lines: &mut Vec<Expr>, formula: &Formula) {
    let Some((_, last)) = formula.halves().last() else { return };
    let width = last.stack.width;
    if let Some(Pooler { pool, dense }) = formula.pooler {
        let rows = match pool {
            Pool::First => " is the first row of a sequence",
            Pool::Last => " is the last row of a sequence",
            Pool::Mean => " is that of a sequence's rows",
        };
        let sizes = dense.map(|_| row![shape(sub("W", "pool"), width, width), Sign::Comma]);
        let parts = sizes.into_iter().chain([head::pool_word(pool).into(), prose(rows)]);
        lines.push(Expr::Row(parts.collect()));
    }
    match &formula.head {
        Head::Rows => {}
        Head::Words { tied, bias: _, dense, scale: _ } => match &last.input {
            Input::Tokens(tokens) => {
                let inner = if dense.is_some() { last.input_width() } else { width };
                let narrowed = dense.map(|_| shape(sub("W", "d"), width, inner));
                let own = (!tied).then(|| shape(sub("W", "o"), inner, tokens.vocabulary));
                let shapes: Vec<Expr> = narrowed.into_iter().chain(own).collect();
                if !shapes.is_empty() {
                    lines.push(joined(shapes, Sign::Comma));
                }
            }
            Input::Patches(_) => {}
        },
        Head::Adaptive { .. } => {}
        Head::Classes { count, bias: _ } => lines.push(shape(sub("W", "c"), width, *count)),
        Head::Tags { count, dense } => {
            let inner = dense.map(|_| shape(sub("W", "d"), width, width));
            let shapes = inner.into_iter().chain([shape(sub("W", "t"), width, *count)]);
            lines.push(joined(shapes, Sign::Comma));
        }
        Head::Spans => {
            let columns = prose(": the first and the last row of the answer, softmax over the rows");
            lines.push(row![shape(sub("W", "s"), width, 2), columns]);
        }
    }
}
