//! Heads, and what they may look at.

use glassformer_formula::named::{bert, gpt2};
use glassformer_formula::{Formula, Global, Heads, Mix, Pattern, Problem, Reach, Sharing, Source};

use super::{SMALL, attend, case, own, refused, stack, target};

#[test]
fn impossible_heads_are_refused() {
    let base = || gpt2(SMALL);
    let at = "target.stack.block[0].mix.attend.heads.query";
    refused(vec![
        case(base(), at, "4 query heads are not a multiple of 3 key heads", |f| own(f).heads.key = 3),
        case(base(), at, "4 query heads are not a multiple of 8 key heads", |f| own(f).heads.key = 8),
        case(base(), at, "is 0", |f| own(f).heads.query = 0),
        case(base(), "target.stack.block[0].mix.attend.heads.key", "is 0", |f| own(f).heads.key = 0),
        case(base(), "target.stack.block[0].mix.attend.heads.size", "is 0", |f| own(f).heads.size = 0),
        case(base(), "target.stack.block[0].mix.attend.heads.size", "cannot be meant", |f| {
            own(f).heads.size = 1 << 40;
        }),
        case(base(), "target.stack.block[0].mix.attend.heads.size", "not stated", |f| {
            own(f).heads.size = Heads::UNSTATED;
        }),
        case(base(), at, "6 heads do not divide the width 64", |f| {
            own(f).heads = Heads { query: 6, key: 6, size: Heads::UNSTATED };
        }),
    ]);
}

#[test]
fn heads_share_the_width_or_say_why_not() {
    assert_eq!(Heads::of(512, 8, 2), Ok(Heads { query: 8, key: 2, size: 64 }));
    let why =
        |width, query, key| Heads::of(width, query, key).map_err(|Problem { why, .. }| why).unwrap_err();
    assert_eq!(why(512, 7, 7), "7 heads do not divide the width 512");
    assert_eq!(why(512, 8, 3), "8 query heads are not a multiple of 3 key heads");
    assert_eq!(why(512, 0, 1), "is 0");
    assert_eq!(why(512, 1, 0), "is 0");
    assert_eq!(why(0, 8, 8), "8 heads do not divide the width 0");
}

#[test]
fn an_inner_size_other_than_the_width_is_allowed() {
    let mut formula = gpt2(SMALL);
    own(&mut formula).heads = Heads { query: 3, key: 3, size: 20 };
    assert_eq!(formula.check(), Ok(()), "T5's heads need not add up to the width");
}

#[test]
fn attention_that_cannot_look_there_is_refused() {
    let both = Formula::original_base;
    let window = |window, global| Pattern::Sliding { window, global };
    let squeezed = Pattern::LowRank { rank: 8, length: 32, sharing: Sharing::Heads };
    refused(vec![
        case(both(), "source.stack.block[0].mix.attend.source", "it cannot look at it", |f| {
            own(f).source = Source::Memory;
        }),
        case(gpt2(SMALL), "target.stack.block[0].mix.attend.source", "no source", |f| {
            own(f).source = Source::Memory;
            own(f).reach = Reach::Both;
        }),
        case(both(), "target.stack.block[1].mix.attend.reach", "no past", |f| {
            attend(target(f), 1).reach = Reach::Past;
        }),
        case(both(), "target.stack.block[0].mix.attend.reach", "not written yet", |f| {
            attend(target(f), 0).reach = Reach::Both;
        }),
        case(both(), "target.stack.block", "computed for nothing", |f| {
            target(f).stack.block.remove(1);
        }),
        case(both(), "target.stack.block[1].mix.attend.pattern.sliding", "no distance", |f| {
            attend(target(f), 1).pattern = window(4, Global::None);
        }),
        case(both(), "target.stack.block[1].mix.attend.pattern.low_rank", "not to the memory", |f| {
            attend(target(f), 1).pattern = squeezed;
        }),
        case(
            gpt2(SMALL),
            "target.stack.block[0].mix.attend.pattern.sliding.window",
            "cannot be meant",
            |f| {
                own(f).pattern = window(usize::MAX, Global::None);
            },
        ),
        case(gpt2(SMALL), "target.stack.block[0].mix.attend.pattern.sliding.global", "rows before it", |f| {
            own(f).pattern = window(4, Global::Shared);
        }),
        case(gpt2(SMALL), "target.stack.block[0].mix.attend.pattern.low_rank", "past and future", |f| {
            own(f).pattern = squeezed;
        }),
        case(
            bert(SMALL),
            "source.stack.block[0].mix.attend.pattern.low_rank.rank",
            "33 is more than the 32",
            |f| {
                own(f).pattern = Pattern::LowRank { rank: 33, length: 32, sharing: Sharing::Heads };
            },
        ),
        case(bert(SMALL), "source.stack.block[0].mix.attend.pattern.low_rank.rank", "is 0", |f| {
            own(f).pattern = Pattern::LowRank { rank: 0, length: 32, sharing: Sharing::Heads };
        }),
        case(
            bert(SMALL),
            "source.stack.block[2].mix.attend.pattern.low_rank",
            "share a projection to 8 of 32",
            |f| {
                own(f).pattern = Pattern::LowRank { rank: 8, length: 32, sharing: Sharing::Layers };
                let mut other = stack(f).block[0].clone();
                if let Mix::Attend(attention) = &mut other.mix {
                    attention.pattern = Pattern::LowRank { rank: 4, length: 32, sharing: Sharing::Layers };
                }
                stack(f).block.push(other);
            },
        ),
    ]);
}
