//! The definitions: every symbol of the line, exactly, with the numbers of this formula.

mod attend;
mod input;
mod output;
mod position;
mod stack;

use super::expr::{Expr, Fence, Sign, call, float, joined, over, prose, root, round, row, sub, sup};
use super::head;
use super::line::input as first_input;
use super::names::{Feed, Names, act_word, denses};
use crate::half::Half;
use crate::types::{Activation, FeedForward, Formula, Norm};

pub(super) fn lines(formula: &Formula) -> Vec<Expr> {
    let names = Names::of(formula);
    let mut lines = vec![whole(&names)];
    for (half, side) in formula.halves() {
        stack::lines(&mut lines, &names, half, side);
    }
    for (half, side) in formula.halves() {
        input::lines(&mut lines, &names, half, side);
    }
    position::sinusoids(&mut lines, formula);
    for site in &names.sites {
        attend::lines(&mut lines, &names, site);
    }
    for feed in &names.feeds {
        lines.push(feed_forward(&names, feed));
    }
    for act in activations(&names) {
        lines.extend(activation(act));
    }
    for norm in &names.norms {
        lines.push(norm_line(&names, *norm));
    }
    output::lines(&mut lines, &names);
    lines
}

/// `Y = softmax(Dec(Y_<t, M) · Wₒ), M = Enc(X)`
fn whole(names: &Names<'_>) -> Expr {
    let formula = names.formula;
    let both = formula.source.is_some() && formula.target.is_some();
    let encoded = call("Enc", first_input(formula));
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
    let feeds = names.feeds.iter().map(|feed| match feed.layer {
        FeedForward::Plain { act, .. } | FeedForward::Gated { act, .. } => act,
    });
    for act in feeds.chain(denses(names.formula).filter_map(|dense| dense.act)) {
        if !found.contains(&act) {
            found.push(act);
        }
    }
    found
}

/// What the activation function is; tanh needs no explanation.
fn activation(act: Activation) -> Option<Expr> {
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
