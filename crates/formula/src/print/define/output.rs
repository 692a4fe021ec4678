//! The head: what its matrices are, and adaptive softmax.

use super::input::{cuts, of_cluster, within_cluster};
use super::shape;
use crate::print::expr::{
    Expr, Fence, Sign, at, call, fence, joined, prose, round, row, sub, sub_sup, transposed,
};
use crate::print::head::{adaptive_name, last, pool_step, pool_word};
use crate::print::names::Names;
use crate::types::{Clusters, Dense, Head, Input, Pool, Pooler, Side, Then, Tokens};

pub(super) fn lines(lines: &mut Vec<Expr>, names: &Names<'_>) {
    let Some((_, side)) = names.formula.halves().last() else { return };
    let width = side.stack.width;
    if let Some(pooler) = &names.formula.pooler {
        lines.push(pooled(pooler, width));
        lines.extend(then(pooler, width));
    }
    let tokens = match &side.input {
        Input::Tokens(tokens) => Some(tokens),
        Input::Patches(_) => None,
    };
    match (&names.formula.head, tokens) {
        (Head::Rows, _) | (Head::Words { .. } | Head::Adaptive { .. }, None) => {}
        (Head::Words { tied, bias: _, dense, scale: _ }, Some(tokens)) => {
            lines.extend(words(side, tokens, *tied, *dense));
        }
        (Head::Adaptive { clusters, tied }, Some(tokens)) => {
            adaptive(lines, names, (width, tokens), (clusters, *tied));
        }
        (Head::Classes { count, bias: _ }, _) => lines.push(shape(sub("W", "c"), width, *count)),
        (Head::Tags { count, dense }, _) => {
            let inner = dense.map(|_| shape(sub("W", "d"), width, width));
            let shapes = inner.into_iter().chain([shape(sub("W", "t"), width, *count)]);
            lines.push(joined(shapes, Sign::Comma));
        }
        (Head::Spans, _) => {
            let columns = prose(": the first and the last row of the answer, softmax over the rows");
            lines.push(row![shape(sub("W", "s"), width, 2), columns]);
        }
    }
}

fn pooled(pooler: &Pooler, width: usize) -> Expr {
    let meaning = |pool: &Pool| match pool {
        Pool::First => " is the first row of a sequence".to_owned(),
        Pool::Last => " is the last row of a sequence".to_owned(),
        Pool::LastBut(padding) => format!(" is the last row of a sequence whose token is not {padding}"),
        Pool::Mean => " is that of a sequence's rows".to_owned(),
        Pool::MeanRoot => " is the sum of a sequence's rows over the root of their number".to_owned(),
        Pool::WeightedMean => " is the mean of a sequence's rows where the i-th counts i times".to_owned(),
        Pool::Max => " is the largest number of each column of a sequence's rows".to_owned(),
        Pool::Together(_) => " stands side by side".to_owned(),
    };
    let rows = pooler.pool.parts().iter().map(|part| row![pool_word(part), prose(meaning(part))]);
    let dense = pooler.dense.map(|_| shape(sub("W", "pool"), width, width));
    joined(dense.into_iter().chain(rows), Sign::Comma)
}

/// The shapes of what is done to a pooled row then, and what `unit` is.
fn then(pooler: &Pooler, width: usize) -> Option<Expr> {
    let mut width = match pooler.dense {
        Some(_) => width,
        None => width.saturating_mul(pooler.pool.parts().len()),
    };
    let mut said = Vec::new();
    for (index, step) in pooler.then.iter().enumerate() {
        match step {
            Then::Dense { width: to, act: _, bias: _ } => {
                said.push(shape(sub("W", pool_step(index)), width, *to));
                width = *to;
            }
            Then::Norm(_) => {}
            Then::Unit => said.push(row![call("unit", "x"), prose(" is x over its length")]),
        }
    }
    (!said.is_empty()).then(|| joined(said, Sign::Comma))
}

/// A projection before the scores leads to the table's width, whether the table is used or not.
fn words(side: &Side, tokens: &Tokens, tied: bool, dense: Option<Dense>) -> Option<Expr> {
    let width = side.stack.width;
    let inner = if dense.is_some() { side.input_width() } else { width };
    let projected = dense.map(|_| shape(sub("W", "d"), width, inner));
    let own = (!tied).then(|| shape(sub("W", "o"), inner, tokens.vocabulary));
    let shapes: Vec<Expr> = projected.into_iter().chain(own).collect();
    (!shapes.is_empty()).then(|| joined(shapes, Sign::Comma))
}

/// Frequent words and clusters of rare ones first, then the words within each cluster.
fn adaptive(lines: &mut Vec<Expr>, names: &Names<'_>, of: (usize, &Tokens), head: (&Clusters, bool)) {
    let (width, tokens) = of;
    let (clusters, tied) = head;
    let first = clusters.cuts.first().copied().unwrap_or(tokens.vocabulary);
    let p = |cluster: Expr| of_cluster("p", cluster);
    let frequent = row![at(p(0.into()), "w"), prose(" where "), "w", Sign::Less, first];
    let itself = at(p(0.into()), row![first, Sign::Plus, "i", Sign::Minus, 1]);
    let inside = at(p("i".into()), row!["w", Sign::Minus, sub("c", "i")]);
    let rare = row![itself, Sign::Dot, inside, prose(" where "), within_cluster("w".into())];
    let name = at(call(adaptive_name(names), "x"), "w");
    lines.push(row![name, Sign::Equals, frequent, prose(", else "), rare]);
    let matrix = |cluster: Expr| {
        if tied {
            transposed(round(of_cluster(names.table(last(names)), cluster)))
        } else {
            sub_sup("W", "o", round(cluster))
        }
    };
    let projects = clusters.projects(width);
    let scores = |cluster: Expr, matrix: Expr| {
        let product = if projects {
            row!["x", Sign::Beside, of_cluster("D", cluster.clone()), Sign::Beside, matrix]
        } else {
            row!["x", Sign::Beside, matrix]
        };
        let value = call("softmax", row![product, Sign::Plus, of_cluster("b", cluster.clone())]);
        row![of_cluster("p", cluster), Sign::Equals, value]
    };
    let both = fence(Fence::Index, row![matrix(0.into()), Sign::Comma, "C"]);
    let (head, tail) = (scores(0.into(), both), scores("i".into(), matrix("i".into())));
    lines.push(row![Sign::Indent, head, Sign::Comma, tail]);
    lines.push(row![Sign::Indent, cuts(clusters, tokens.vocabulary)]);
    let mut shapes = Vec::new();
    for (index, cluster) in clusters.list(tokens.vocabulary, width).into_iter().enumerate() {
        if projects {
            shapes.push(shape(of_cluster("D", index), width, cluster.width));
        }
        if !tied {
            let words = cluster.to.saturating_sub(cluster.from);
            shapes.push(shape(matrix(index.into()), cluster.width, words));
        }
    }
    if !clusters.cuts.is_empty() {
        shapes.push(shape("C", clusters.width.unwrap_or(width), clusters.cuts.len()));
    }
    if !shapes.is_empty() {
        lines.push(row![Sign::Indent, joined(shapes, Sign::Comma)]);
    }
}
