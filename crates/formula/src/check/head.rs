//! What is read off the last stack: whether there is something to read, and whether the widths meet.

use super::{Report, input, limits};
use crate::types::{Clusters, Dense, Formula, Head, Input, Pool, Pooler, Side, Then, Tokens};

pub(super) fn check(report: &mut Report, formula: &Formula) {
    if let Some(pooler) = &formula.pooler {
        report.dense("pooler.dense", pooler.dense);
        pooled(report, pooler);
    }
    let Some(last) = formula.target.as_ref().or(formula.source.as_ref()) else { return };
    match &formula.head {
        Head::Rows | Head::Spans => {}
        Head::Words { tied, bias: _, dense, scale } => {
            report.dense("head.words.dense", *dense);
            if let Some(scale) = scale {
                report.positive("head.words.scale", f64::from(*scale));
            }
            if let Some(tokens) = vocabulary(report, "head.words", last) {
                words(report, tokens, *tied, *dense);
            }
        }
        Head::Adaptive { clusters, tied } => {
            if let Some(tokens) = vocabulary(report, "head.adaptive", last) {
                adaptive(report, (last, tokens), clusters, *tied);
            }
        }
        Head::Classes { count, bias: _ } => {
            report.size("head.classes.count", *count, limits::VOCABULARY);
            if formula.pooler.is_none() {
                report.refuse(
                    "head.classes",
                    "classes are read off one row for each sequence, and there is no pooler to make it",
                    "add a [pooler] with pool = \"first\", \"last\" or \"mean\"",
                );
            }
        }
        Head::Tags { count, dense } => {
            report.size("head.tags.count", *count, limits::VOCABULARY);
            report.dense("head.tags.dense", *dense);
        }
    }
}

fn pooled(report: &mut Report, pooler: &Pooler) {
    if let Pool::Together(parts) = &pooler.pool {
        if parts.is_empty() {
            report.refuse(
                "pooler.pool.together",
                "is empty",
                "list what is read, such as \"max\" and \"mean\"",
            );
        }
        if parts.len() > limits::POOLS {
            let why = format!("{} ways to read the rows cannot be meant", parts.len());
            report.refuse("pooler.pool.together", why, format!("list at most {}", limits::POOLS));
        }
        for (index, part) in parts.iter().enumerate() {
            if matches!(part, Pool::Together(_)) {
                let field = format!("pooler.pool.together[{index}]");
                report.refuse(field, "lists several ways within the list", "write one list");
            }
        }
    }
    if pooler.then.len() > limits::SUBLAYERS {
        let why = format!("{} steps cannot be meant", pooler.then.len());
        report.refuse("pooler.then", why, format!("give at most {}", limits::SUBLAYERS));
    }
    for (index, step) in pooler.then.iter().enumerate() {
        let at = format!("pooler.then[{index}]");
        match step {
            Then::Dense { width, act: _, bias: _ } => {
                report.size(format!("{at}.dense.width"), *width, limits::WIDTH);
            }
            Then::Norm(norm) => report.norm(&format!("{at}.norm"), Some(*norm)),
            Then::Unit => {}
        }
    }
}

/// The tokens of the last side, whose words a head scores.
fn vocabulary<'a>(report: &mut Report, at: &str, last: &'a Side) -> Option<&'a Tokens> {
    match &last.input {
        Input::Tokens(tokens) => Some(tokens),
        Input::Patches(_) => {
            report.refuse(
                at,
                "the last side reads patches, so there is no vocabulary to score",
                "choose the head rows, classes or tags, or add a target that reads tokens",
            );
            None
        }
    }
}

fn words(report: &mut Report, tokens: &Tokens, tied: bool, dense: Option<Dense>) {
    if !tied {
        return;
    }
    if tokens.clusters.is_some() {
        report.refuse(
            "head.words.tied",
            "the input has a table for each cluster, so there is no one table to share",
            "write tied = false, or choose the head adaptive with the same clusters",
        );
    }
    if let (Some(width), None) = (tokens.width, dense) {
        report.refuse(
            "head.words.tied",
            format!(
                "the table is {width} wide and widened by a projection, so rows cannot be compared with it"
            ),
            "add head.words.dense, which leads back to the table's width, or write tied = false",
        );
    }
}

fn adaptive(report: &mut Report, of: (&Side, &Tokens), clusters: &Clusters, tied: bool) {
    let (last, tokens) = of;
    input::clusters(report, "head.adaptive.clusters", clusters, (tokens.vocabulary, last.stack.width));
    if tied && tokens.clusters.as_ref() != Some(clusters) {
        report.refuse(
            "head.adaptive.tied",
            "the input's words are not in these clusters, so their tables cannot be shared",
            "give the input the same clusters, or write tied = false",
        );
    }
}
