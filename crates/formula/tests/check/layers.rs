//! Depth: layers with blocks of their own, and groups that share one.

use glassformer_formula::named::{gpt2, modernbert};
use glassformer_formula::{Depth, Formula, Heads, Mix, Other, Position, Source, Sublayer};

use super::{SMALL, case, refused, stack, target};

fn other(formula: &Formula, layers: &[usize]) -> Other {
    let side = formula.target.as_ref().expect("a target");
    Other { layers: layers.to_vec(), block: side.stack.block.clone() }
}

/// The first attention of a block.
fn first(block: &mut [Sublayer]) -> &mut Heads {
    match &mut block[0].mix {
        Mix::Attend(attention) => &mut attention.heads,
        Mix::Feed(_) => panic!("a feed"),
    }
}

#[test]
fn layers_that_are_not_there_or_there_twice_are_refused() {
    let lists = |field, why, lists: &[&[usize]]| {
        case(gpt2(SMALL), field, why, |f| {
            stack(f).others = lists.iter().map(|layers| other(f, layers)).collect();
        })
    };
    refused(vec![
        lists("target.stack.others[0].layers", "is empty", &[&[]]),
        lists("target.stack.others[0].layers[1]", "there is no layer 2", &[&[0, 2]]),
        lists("target.stack.others[0].layers[0]", "there is no layer 18446744073709551615", &[&[usize::MAX]]),
        lists("target.stack.others[0].layers[1]", "layer 1 is listed twice", &[&[1, 1]]),
        lists("target.stack.others[1].layers[1]", "layer 0 is listed twice", &[&[0], &[1, 0]]),
    ]);
}

#[test]
fn blocks_of_other_layers_are_checked_like_the_stacks() {
    let changed = |field, why, change: fn(&mut Other)| {
        case(gpt2(SMALL), field, why, |f| {
            let mut other = other(f, &[1]);
            change(&mut other);
            stack(f).others = vec![other];
        })
    };
    refused(vec![
        changed("target.stack.others[0].block", "is empty", |other| other.block.clear()),
        changed("target.stack.others[0].block", "65 sublayers", |other| {
            other.block = vec![other.block[0].clone(); 65];
        }),
        changed("target.stack.others[0].block[0].mix.attend.heads.key", "is 0", |other| {
            first(&mut other.block).key = 0;
        }),
        case(gpt2(SMALL), "target.stack.others[0].block[0].mix.attend.heads", "for 4 heads of 16", |f| {
            stack(f).position = Position::Buckets { count: 32, max_distance: 128 };
            let mut other = other(f, &[1]);
            *first(&mut other.block) = Heads { query: 2, key: 2, size: 32 };
            stack(f).others = vec![other];
        }),
    ]);
}

#[test]
fn all_layers_attend_to_the_source_or_none_does() {
    refused(vec![case(
        Formula::original_base(),
        "target.stack.others[0].block",
        "attends to the source",
        |f| {
            let mut other = other(f, &[3]);
            other.block.retain(|sublayer| match &sublayer.mix {
                Mix::Attend(attention) => attention.source == Source::Own,
                Mix::Feed(_) => true,
            });
            target(f).stack.others = vec![other];
        },
    )]);
}

#[test]
fn layers_with_the_same_weights_have_the_same_block() {
    for depth in [
        Depth::Shared { times: 2 },
        Depth::Groups { layers: 4, groups: 2 },
        Depth::Adaptive { max: 2, threshold: 0.5 },
    ] {
        refused(vec![case(gpt2(SMALL), "target.stack.others", "share their weights", |f| {
            stack(f).depth = depth;
            stack(f).others = vec![other(f, &[1])];
        })]);
    }
}

#[test]
fn groups_have_one_size() {
    let grouped = |field, why, layers, groups| {
        case(gpt2(SMALL), field, why, |f| stack(f).depth = Depth::Groups { layers, groups })
    };
    refused(vec![
        grouped("target.stack.depth.groups.groups", "is 0", 4, 0),
        grouped("target.stack.depth.groups.layers", "is 0", 0, 4),
        grouped("target.stack.depth.groups.groups", "4 layers cannot be divided into 8 groups", 4, 8),
        grouped("target.stack.depth.groups.groups", "4 layers cannot be divided into 3 groups", 4, 3),
        grouped("target.stack.depth.groups.layers", "cannot be meant", 1 << 20, 2),
    ]);
    let mut fine = gpt2(SMALL);
    stack(&mut fine).depth = Depth::Groups { layers: 4, groups: 4 };
    assert_eq!(fine.check(), Ok(()));
}

/// An ALBERT of 2,048 times 64 sublayers, all with the same weights, fits a small file; planning it took minutes.
#[test]
fn sublayers_are_counted_as_often_as_they_are_applied() {
    let mut deep = gpt2(SMALL);
    stack(&mut deep).depth = Depth::Shared { times: 2048 };
    stack(&mut deep).block = vec![stack(&mut deep).block[0].clone(); 4];
    assert_eq!(deep.check(), Ok(()));
    refused(vec![
        case(gpt2(SMALL), "target.stack.depth", "2048 times 6 sublayers", |f| {
            stack(f).depth = Depth::Shared { times: 2048 };
            stack(f).block = vec![stack(f).block[0].clone(); 6];
        }),
        case(gpt2(SMALL), "target.stack.depth", "200 times 64 sublayers", |f| {
            stack(f).depth = Depth::Groups { layers: 200, groups: 2 };
            stack(f).block = vec![stack(f).block[0].clone(); 64];
        }),
        case(gpt2(SMALL), "target.stack.depth", "1000 times 10 sublayers", |f| {
            let mut other = other(f, &[1]);
            other.block = vec![other.block[0].clone(); 10];
            stack(f).depth = Depth::Layers(1000);
            stack(f).others = vec![other];
        }),
    ]);
}

#[test]
fn other_blocks_count_among_the_weights() {
    let mut large = modernbert(SMALL, 8);
    let hidden = |block: &mut [Sublayer]| {
        if let Mix::Feed(glassformer_formula::FeedForward::Gated { hidden, .. }) = &mut block[1].mix {
            *hidden = 1 << 24;
        }
    };
    stack(&mut large).width = 1 << 19;
    assert_eq!(large.check(), Ok(()));
    hidden(&mut stack(&mut large).others[0].block);
    let problems = large.check().expect_err("2⁴⁴ numbers and more");
    assert!(problems.to_string().contains("source.stack: its matrices would hold more than"), "{problems}");
}
