//! Width, depth, blocks, feeds and norms of one side, and how many weights they come to.

use std::collections::BTreeSet;

use super::blocks::blocks;
use super::{Place, Report, attend, limits, position};
use crate::half::Half;
use crate::types::{Cluster, Depth, FeedForward, Formula, Input, Mix, Side, Source, Stack, Sublayer, Tokens};

pub(super) fn check(report: &mut Report, place: &Place<'_>, side: &Side) {
    let at = format!("{}.stack", place.half.name());
    let stack = &side.stack;
    report.size(format!("{at}.width"), stack.width, limits::WIDTH);
    depth(report, &at, stack.depth);
    position::check(report, place, side);
    for (path, block) in blocks(stack) {
        self::block(report, place, (&format!("{at}.{path}"), block), stack);
    }
    others(report, &format!("{at}.others"), stack);
    applied(report, &at, stack);
    report.norm(&format!("{at}.final_norm"), stack.final_norm);
    memory_is_read(report, place, &at, stack);
    attend::one_projection(report, &at, stack);
}

fn block(report: &mut Report, place: &Place<'_>, of: (&str, &[Sublayer]), stack: &Stack) {
    let (at, block) = of;
    if block.is_empty() {
        report.refuse(at, "is empty", "give at least one sublayer");
    }
    if block.len() > limits::SUBLAYERS {
        report.refuse(
            at,
            format!("{} sublayers cannot be meant", block.len()),
            format!("give at most {}, and repeat them with depth", limits::SUBLAYERS),
        );
    }
    for (index, sublayer) in block.iter().enumerate() {
        let at = format!("{at}[{index}]");
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
}

/// Whether the layers with a block of their own exist, and are told apart.
fn others(report: &mut Report, at: &str, stack: &Stack) {
    let count = match stack.depth {
        Depth::Layers(count) => count,
        Depth::Shared { .. } | Depth::Groups { .. } | Depth::Adaptive { .. } => {
            if !stack.others.is_empty() {
                report.refuse(
                    at,
                    "layers that share their weights cannot have blocks of their own",
                    "choose the depth layers, or leave out the others",
                );
            }
            return;
        }
    };
    let mut seen = BTreeSet::new();
    for (index, other) in stack.others.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if other.layers.is_empty() {
            report.refuse(format!("{at}.layers"), "is empty", "list the layers, counted from 0");
        }
        // One wrong layer tells enough of a list.
        for (place, layer) in other.layers.iter().enumerate() {
            let field = format!("{at}.layers[{place}]");
            if *layer >= count {
                let why = format!("there is no layer {layer}: the {count} layers are counted from 0");
                report.refuse(field, why, "list layers that there are");
                break;
            }
            if !seen.insert(*layer) {
                report.refuse(field, format!("layer {layer} is listed twice"), "list every layer once");
                break;
            }
        }
        if reads_memory(&other.block) != reads_memory(&stack.block) && !other.block.is_empty() {
            report.refuse(
                format!("{at}.block"),
                "one of this block and the stack's attends to the source, and the other does not",
                "let all layers attend to the source, or none",
            );
        }
    }
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
        Depth::Groups { layers, groups } => {
            let at = format!("{at}.depth.groups");
            report.size(format!("{at}.layers"), layers, limits::LAYERS);
            report.size(format!("{at}.groups"), groups, limits::LAYERS);
            if layers > 0 && groups > 0 && !layers.is_multiple_of(groups) {
                report.refuse(
                    format!("{at}.groups"),
                    format!("{layers} layers cannot be divided into {groups} groups of one size"),
                    "give a number of groups that divides the layers",
                );
            }
        }
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

/// Shared layers cost no weights, but they are unrolled like any others.
fn applied(report: &mut Report, at: &str, stack: &Stack) {
    let times = match stack.depth {
        Depth::Layers(times)
        | Depth::Shared { times }
        | Depth::Groups { layers: times, groups: _ }
        | Depth::Adaptive { max: times, threshold: _ } => times,
    };
    let longest = blocks(stack).map(|(_, block)| block.len()).max().unwrap_or(0);
    // What is too large by itself has been refused.
    if times <= limits::LAYERS && longest <= limits::SUBLAYERS && times * longest > limits::APPLIED {
        report.refuse(
            format!("{at}.depth"),
            format!("{times} times {longest} sublayers cannot be meant"),
            format!("give at most {} sublayers one after the other", limits::APPLIED),
        );
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
    let has_both = place.half == Half::Target && place.formula.source.is_some();
    if has_both && !stack.block.is_empty() && !reads_memory(&stack.block) {
        report.refuse(
            format!("{at}.block"),
            "no sublayer attends to the source, so the source would be computed for nothing",
            "add an attend sublayer with source = \"memory\", or leave out the source",
        );
    }
}

fn reads_memory(block: &[Sublayer]) -> bool {
    block.iter().any(|sublayer| match &sublayer.mix {
        Mix::Attend(attention) => attention.source == Source::Memory,
        Mix::Feed(_) => false,
    })
}

/// The numbers in the matrices of a side: biases and norms are left out, they do not matter here. It saturates instead of
/// overflowing, and a saturated sum is above every limit.
fn weights(side: &Side, formula: &Formula) -> u128 {
    let stack = &side.stack;
    let width = stack.width;
    let memory = formula.source.as_ref().map_or(width, |side| side.stack.width);
    let of_block = |block: &[Sublayer]| {
        let sizes = block.iter().map(|sublayer| match &sublayer.mix {
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
        });
        sizes.fold(0, u128::saturating_add)
    };
    let others =
        stack.others.iter().map(|other| of_block(&other.block).saturating_mul(other.layers.len() as u128));
    let block = of_block(&stack.block);
    let blocks = match stack.depth {
        Depth::Layers(count) | Depth::Groups { layers: _, groups: count } => {
            block.saturating_mul(count as u128)
        }
        Depth::Shared { times: _ } | Depth::Adaptive { max: _, threshold: _ } => block,
    };
    let blocks = others.fold(blocks, u128::saturating_add);
    let input = match &side.input {
        Input::Tokens(Tokens { vocabulary, clusters: Some(clusters), .. }) => {
            let tables = clusters.list(*vocabulary, width).into_iter();
            let words = |cluster: Cluster| cluster.to.saturating_sub(cluster.from).saturating_add(width);
            tables.map(|cluster| product(&[words(cluster), cluster.width])).fold(0, u128::saturating_add)
        }
        Input::Tokens(tokens) => product(&[tokens.vocabulary, tokens.width.unwrap_or(width)]),
        Input::Patches(patches) => product(&[patches.size, patches.size, patches.channels, width]),
    };
    blocks.saturating_add(input)
}

fn product(factors: &[usize]) -> u128 {
    factors.iter().fold(1, |product, &factor| product.saturating_mul(factor as u128))
}
