//! Width, depth, blocks, feeds and norms of one side, and how many weights they come to.

use super::{Place, Report, attend, limits, position};
use crate::half::Half;
use crate::types::{Attention, Depth, FeedForward, Formula, Input, Mix, Side, Source, Stack};

pub(super) fn check(report: &mut Report, place: &Place<'_>, side: &Side) {
    let at = format!("{}.stack", place.half.name());
    let stack = &side.stack;
    report.size(format!("{at}.width"), stack.width, limits::WIDTH);
    depth(report, &at, stack.depth);
    position::check(report, place, side);
    if stack.block.is_empty() {
        report.refuse(format!("{at}.block"), "is empty", "give at least one sublayer");
    }
    if stack.block.len() > limits::SUBLAYERS {
        report.refuse(
            format!("{at}.block"),
            format!("{} sublayers cannot be meant", stack.block.len()),
            format!("give at most {}, and repeat them with depth", limits::SUBLAYERS),
        );
    }
    for (index, sublayer) in stack.block.iter().enumerate() {
        let at = format!("{at}.block[{index}]");
        match &sublayer.mix {
            Mix::Attend(attention) => {
                attend::check(report, place, &format!("{at}.mix.attend"), attention, stack);
            }
            Mix::Feed(feed) => feed_forward(report, &format!("{at}.mix.feed"), *feed),
        }
        report.norm(&format!("{at}.norm.input"), sublayer.norm.input);
        report.norm(&format!("{at}.norm.branch"), sublayer.norm.branch);
        report.norm(&format!("{at}.norm.output"), sublayer.norm.output);
    }
    report.norm(&format!("{at}.final_norm"), stack.final_norm);
    memory_is_read(report, place, &at, stack);
    attend::one_projection(report, &at, stack);
}

pub(super) fn weights_fit(report: &mut Report, place: &Place<'_>, side: &Side) {
    if weights(side, place.formula) > limits::WEIGHTS {
        report.refuse(
            format!("{}.stack", place.half.name()),
            format!("its matrices would hold more than {} numbers", limits::WEIGHTS),
            "give smaller sizes or fewer layers",
        );
    }
}

fn depth(report: &mut Report, at: &str, depth: Depth) {
    match depth {
        Depth::Layers(count) => report.size(format!("{at}.depth.layers"), count, limits::LAYERS),
        Depth::Shared { times } => report.size(format!("{at}.depth.shared.times"), times, limits::LAYERS),
        Depth::Adaptive { max, threshold } => {
            report.size(format!("{at}.depth.adaptive.max"), max, limits::LAYERS);
            if !(threshold > 0.0 && threshold < 1.0) {
                report.refuse(
                    format!("{at}.depth.adaptive.threshold"),
                    format!("{threshold} is not between 0 and 1, so rows would stop at once or never"),
                    "give a number such as 0.99",
                );
            }
        }
    }
}

fn feed_forward(report: &mut Report, at: &str, feed: FeedForward) {
    match feed {
        FeedForward::Plain { hidden, act: _, bias: _ } => {
            report.size(format!("{at}.plain.hidden"), hidden, limits::HIDDEN);
        }
        FeedForward::Gated { hidden, act: _, bias: _ } => {
            report.size(format!("{at}.gated.hidden"), hidden, limits::HIDDEN);
        }
    }
}

/// A source that no sublayer of the target looks at would be computed for nothing.
fn memory_is_read(report: &mut Report, place: &Place<'_>, at: &str, stack: &Stack) {
    let is_reader = |(_, attention): (usize, &Attention)| attention.source == Source::Memory;
    let has_both = place.half == Half::Target && place.formula.source.is_some();
    if has_both && !stack.block.is_empty() && !attentions(stack).any(is_reader) {
        report.refuse(
            format!("{at}.block"),
            "no sublayer attends to the source, so the source would be computed for nothing",
            "add an attend sublayer with source = \"memory\", or leave out the source",
        );
    }
}

/// The attentions of a block, with their place in it.
pub(super) fn attentions(stack: &Stack) -> impl Iterator<Item = (usize, &Attention)> {
    stack.block.iter().enumerate().filter_map(|(index, sublayer)| match &sublayer.mix {
        Mix::Attend(attention) => Some((index, attention)),
        Mix::Feed(_) => None,
    })
}

/// The numbers in the matrices of a side: biases and norms are left out, they do not matter here. It saturates instead of
/// overflowing, and a saturated sum is above every limit.
fn weights(side: &Side, formula: &Formula) -> u128 {
    let stack = &side.stack;
    let width = stack.width;
    let memory = formula.source.as_ref().map_or(width, |side| side.stack.width);
    let block = stack.block.iter().fold(0_u128, |sum, sublayer| {
        sum.saturating_add(match &sublayer.mix {
            Mix::Attend(attention) => {
                let heads = attention.heads;
                let from = match attention.source {
                    Source::Own => width,
                    Source::Memory => memory,
                };
                let queries = product(&[2, width, heads.query, heads.size]);
                queries.saturating_add(product(&[2, from, heads.key, heads.size]))
            }
            Mix::Feed(FeedForward::Plain { hidden, act: _, bias: _ }) => product(&[2, width, *hidden]),
            Mix::Feed(FeedForward::Gated { hidden, act: _, bias: _ }) => product(&[3, width, *hidden]),
        })
    });
    let blocks = match stack.depth {
        Depth::Layers(count) => block.saturating_mul(count as u128),
        Depth::Shared { times: _ } | Depth::Adaptive { max: _, threshold: _ } => block,
    };
    let input = match &side.input {
        Input::Tokens(tokens) => product(&[tokens.vocabulary, tokens.width.unwrap_or(width)]),
        Input::Patches(patches) => product(&[patches.size, patches.size, patches.channels, width]),
    };
    blocks.saturating_add(input)
}

fn product(factors: &[usize]) -> u128 {
    factors.iter().fold(1, |product, &factor| product.saturating_mul(factor as u128))
}
