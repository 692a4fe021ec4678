//! What is read off the rows: `softmax(rows · W_o)` and its kin, and the pooled row.

use super::expr::{Expr, Fence, Sign, call, fence, float, joined, marked, row, sub, transposed};
use super::names::{Names, act_word};
use crate::half::Half;
use crate::types::{Dense, Head, Pool, Pooler, Then};

/// `Y = softmax(rows · W_o)`. Where the pooled row is a result of its own, the rows get a name:
/// `Y = softmax(R · W_o), pooled = tanh(first(R) · W_pool + b_pool), R = rows`.
pub(super) fn whole(names: &Names<'_>, rows: Expr, brackets: Fence) -> Expr {
    let result = |rows: Expr| row!["Y", Sign::Equals, head(names, rows, brackets)];
    let classes = match names.formula.head {
        Head::Classes { .. } => true,
        Head::Rows | Head::Words { .. } | Head::Adaptive { .. } | Head::Tags { .. } | Head::Spans => false,
    };
    match &names.formula.pooler {
        Some(pooler) if !classes => {
            let pooled = row!["pooled", Sign::Equals, pooled(names, pooler, &"R".into())];
            row![result("R".into()), Sign::Comma, pooled, Sign::Comma, "R", Sign::Equals, rows]
        }
        Some(_) | None => result(rows),
    }
}

fn head(names: &Names<'_>, rows: Expr, brackets: Fence) -> Expr {
    let softmax = |scores: Expr| row![marked("softmax", "softmax"), fence(brackets, scores)];
    match &names.formula.head {
        Head::Rows => rows,
        Head::Words { tied, bias, dense, scale } => {
            let rows = projected(names, *dense, rows, "d");
            let rows = match scale {
                None => rows,
                Some(scale) => row![rows, Sign::Dot, float(*scale)],
            };
            let matrix = if *tied { transposed(names.table(last(names))) } else { sub("W", "o") };
            let scores = row![rows, Sign::Dot, marked("head", matrix)];
            softmax(if *bias { row![scores, Sign::Plus, sub("b", "o")] } else { scores })
        }
        Head::Adaptive { .. } => row!["ln", Sign::Beside, adaptive_name(names), fence(brackets, rows)],
        Head::Classes { count: _, bias } => {
            let rows = match &names.formula.pooler {
                None => rows,
                Some(pooler) => pooled(names, pooler, &rows),
            };
            softmax(linear(rows, "c", *bias))
        }
        Head::Tags { count: _, dense } => softmax(linear(projected(names, *dense, rows, "d"), "t", true)),
        Head::Spans => row![sub("softmax", "rows"), fence(brackets, linear(rows, "s", true))],
    }
}

/// The half that the head reads.
pub(super) fn last(names: &Names<'_>) -> Half {
    if names.formula.target.is_some() { Half::Target } else { Half::Source }
}

/// The name says whose tables it uses.
pub(super) fn adaptive_name(names: &Names<'_>) -> Expr {
    match names.formula.head {
        Head::Adaptive { tied: true, .. } => sub("AdaptiveSoftmax", names.table(last(names))),
        Head::Adaptive { tied: false, .. }
        | Head::Rows
        | Head::Words { .. }
        | Head::Classes { .. }
        | Head::Tags { .. }
        | Head::Spans => "AdaptiveSoftmax".into(),
    }
}

/// `tanh(first(rows) · W_pool + b_pool)`, then what is done to it: `unit(tanh([max(rows), mean(rows)] · W_pool1 + b_pool1))`.
fn pooled(names: &Names<'_>, pooler: &Pooler, rows: &Expr) -> Expr {
    let read = |part: &Pool| call(pool_word(part), rows.clone());
    let row = match &pooler.pool {
        Pool::Together(parts) => fence(Fence::Index, joined(parts.iter().map(read), Sign::Comma)),
        one => read(one),
    };
    let start = projected(names, pooler.dense, row, "pool");
    pooler.then.iter().enumerate().fold(start, |x, (index, step)| match step {
        Then::Dense { width: _, act, bias } => {
            let product = row![x, Sign::Dot, sub("W", pool_step(index))];
            let value = if *bias { row![product, Sign::Plus, sub("b", pool_step(index))] } else { product };
            match act {
                None => value,
                Some(act) => call(act_word(*act), value),
            }
        }
        Then::Norm(norm) => call(names.norm(*norm), x),
        Then::Unit => call("unit", x),
    })
}

/// The index of a matrix that is applied to a pooled row: pool1, pool2, …
pub(super) fn pool_step(index: usize) -> Expr {
    row!["pool", index + 1]
}

/// `norm(act(x · W + b))`
fn projected(names: &Names<'_>, dense: Option<Dense>, x: Expr, index: &'static str) -> Expr {
    let Some(Dense { act, bias, norm }) = dense else { return x };
    let value = linear(x, index, bias);
    let value = match act {
        None => value,
        Some(act) => call(act_word(act), value),
    };
    match norm {
        None => value,
        Some(norm) => call(names.norm(norm), value),
    }
}

fn linear(x: Expr, index: &'static str, bias: bool) -> Expr {
    let id = match index {
        "pool" => "pooler",
        "d" => "head-dense",
        _ => "head",
    };
    let matrix = marked(id, sub("W", index));
    let product = row![x, Sign::Dot, matrix];
    if bias { row![product, Sign::Plus, sub("b", index)] } else { product }
}

pub(super) fn pool_word(pool: &Pool) -> &'static str {
    match pool {
        Pool::First => "first",
        Pool::Last | Pool::LastBut(_) => "last",
        Pool::Mean => "mean",
        Pool::MeanRoot => "rootmean",
        Pool::WeightedMean => "weightedmean",
        Pool::Max => "max",
        Pool::Together(_) => "together",
    }
}
