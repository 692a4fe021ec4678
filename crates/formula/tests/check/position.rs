//! Positions: numbers that cannot work, and places where they cannot enter.

use glassformer_formula::named::{bert, gpt2, llama};
use glassformer_formula::{
    Biases, Counting, Depth, Formula, Heads, Mix, Pairing, Pattern, Position, Rotary, Scaling, Sharing,
    Spread, Start, When,
};

use super::{SMALL, angles, attend, case, own, refused, source, stack, target, tokens};

#[test]
fn squeezed_rows_have_no_distance() {
    let buckets = || Position::Buckets { count: 32, max_distance: 128 };
    let together = Position::Together(vec![
        Position::Learned { max: 32, offset: 0, counting: Counting::Every },
        buckets(),
    ]);
    let positions = [Position::Rotary(angles(10_000.0)), Position::Alibi, buckets(), together];
    let at = "source.stack.block[0].mix.attend.pattern.low_rank";
    let squeezed = |position| {
        case(bert(SMALL), at, "squeezed rows have no distance", |f| {
            own(f).pattern = Pattern::LowRank { rank: 8, length: 32, sharing: Sharing::Heads };
            stack(f).position = position;
        })
    };
    refused(positions.into_iter().map(squeezed).collect());
}

#[test]
fn impossible_positions_are_refused() {
    let sinusoidal = |base, when| Position::Sinusoidal {
        base,
        layout: Pairing::Interleaved,
        spread: Spread::Open,
        offset: 0,
        when,
        counting: Counting::Every,
    };
    let buckets = |count, max_distance| Position::Buckets { count, max_distance };
    let xl = Position::TransformerXl { memory: 8, biases: Biases::Layer, clamp: None, start: Start::Empty };
    let feeds_alone = |position: Position| {
        case(gpt2(SMALL), "target.stack.position", "the block has none", |f| {
            stack(f).position = position;
            stack(f).block.remove(0);
        })
    };
    refused(vec![
        case(gpt2(SMALL), "target.stack.position.sinusoidal.base", "grow", |f| {
            stack(f).position = sinusoidal(0.0, When::Once);
        }),
        case(gpt2(SMALL), "target.stack.position.sinusoidal", "width 63 is odd", |f| {
            stack(f).position = sinusoidal(10_000.0, When::Once);
            stack(f).width = 63;
        }),
        case(gpt2(SMALL), "target.stack.position.sinusoidal.when", "layers are blocks of their own", |f| {
            stack(f).position = sinusoidal(10_000.0, When::EveryStep);
        }),
        case(bert(SMALL), "source.stack.position.buckets.count", "1 buckets are too few", |f| {
            stack(f).position = buckets(1, 128);
        }),
        case(bert(SMALL), "source.stack.position.buckets.count", "two directions", |f| {
            stack(f).position = buckets(31, 128);
        }),
        case(bert(SMALL), "source.stack.position.buckets.max_distance", "within the 8 exact buckets", |f| {
            stack(f).position = buckets(32, 8);
        }),
        case(gpt2(SMALL), "target.stack.position.buckets.max_distance", "within the 16 exact buckets", |f| {
            stack(f).position = buckets(32, 16);
        }),
        case(bert(SMALL), "source.stack.position.transformer_xl", "read at once", |f| {
            stack(f).position = xl.clone();
        }),
        case(gpt2(SMALL), "target.stack.position.transformer_xl", "width 63 is odd", |f| {
            stack(f).position = xl.clone();
            stack(f).width = 63;
        }),
        case(gpt2(SMALL), "target.stack.block[2].mix.attend.heads", "for 4 heads of 16", |f| {
            stack(f).position = buckets(32, 128);
            let mut other = stack(f).block[0].clone();
            if let Mix::Attend(attention) = &mut other.mix {
                attention.heads = Heads { query: 2, key: 2, size: 32 };
            }
            stack(f).block.push(other);
        }),
        case(gpt2(SMALL), "target.stack.position.sinusoidal.when", "layers are blocks of their own", |f| {
            stack(f).position = sinusoidal(10_000.0, When::EveryStep);
            stack(f).depth = Depth::Groups { layers: 4, groups: 2 };
        }),
        case(gpt2(SMALL), "target.stack.position.sinusoidal.spread", "the width 2 has no two", |f| {
            own(f).heads = Heads { query: 1, key: 1, size: 2 };
            stack(f).width = 2;
            stack(f).position = Position::Sinusoidal {
                base: 10_000.0,
                layout: Pairing::Halves,
                spread: Spread::Closed,
                offset: 0,
                when: When::Once,
                counting: Counting::Every,
            };
        }),
        case(bert(SMALL), "source.stack.position.sinusoidal", "width 15 is odd", |f| {
            stack(f).position = sinusoidal(10_000.0, When::Once);
            tokens(source(f)).width = Some(15);
        }),
        case(gpt2(SMALL), "target.stack.position.transformer_xl.clamp", "is 0", |f| {
            stack(f).position = Position::TransformerXl {
                memory: 8,
                biases: Biases::Layer,
                clamp: Some(0),
                start: Start::Empty,
            };
        }),
        feeds_alone(Position::Alibi),
        feeds_alone(buckets(32, 128)),
        feeds_alone(xl.clone()),
    ]);
}

#[test]
fn impossible_rotations_are_refused() {
    let plain = angles(10_000.0);
    let rotary = |field, why, rotary: Rotary| {
        case(llama(SMALL, 2), field, why, |f| stack(f).position = Position::Rotary(rotary))
    };
    let scaled = |field, why, scaling| rotary(field, why, Rotary { scaling, ..angles(10_000.0) });
    let long = |short: Vec<f64>, long: Vec<f64>| Scaling::Long { short, long, original: 32, magnitude: 1.0 };
    let at = "target.stack.position.rotary";
    refused(vec![
        rotary("target.stack.position.rotary.base", "NaN", Rotary { base: f64::NAN, ..plain.clone() }),
        rotary("target.stack.position.rotary.size", "3 is odd", Rotary { size: Some(3), ..plain.clone() }),
        rotary("target.stack.position.rotary.size", "have 16", Rotary { size: Some(18), ..plain.clone() }),
        rotary("target.stack.position.rotary.size", "is 0", Rotary { size: Some(0), ..plain.clone() }),
        case(llama(SMALL, 2), at, "15 is odd", |f| own(f).heads.size = 15),
        scaled("target.stack.position.rotary.scaling.linear.factor", "-2", Scaling::Linear { factor: -2.0 }),
        scaled(
            "target.stack.position.rotary.scaling.dynamic.original",
            "is 0",
            Scaling::Dynamic { factor: 2.0, original: 0 },
        ),
        rotary(
            "target.stack.position.rotary.scaling.dynamic",
            "rotated size is 2",
            Rotary { size: Some(2), scaling: Scaling::Dynamic { factor: 2.0, original: 8 }, ..plain.clone() },
        ),
        scaled(
            "target.stack.position.rotary.scaling.yarn.fast",
            "1 is not above slow = 32",
            Scaling::Yarn { factor: 4.0, original: 32, fast: 1.0, slow: 32.0, whole: true, magnitude: None },
        ),
        scaled(
            "target.stack.position.rotary.scaling.llama3.high",
            "4 is not above low = 4",
            Scaling::Llama3 { factor: 8.0, low: 4.0, high: 4.0, original: 32 },
        ),
        scaled(
            "target.stack.position.rotary.scaling.long.short",
            "7 divisors for 8 angles",
            long(vec![1.0; 7], vec![1.0; 8]),
        ),
        scaled(
            "target.stack.position.rotary.scaling.long.long[3]",
            "-1",
            long(vec![1.0; 8], vec![1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0]),
        ),
    ]);
}

#[test]
fn ways_that_meet_in_one_place_are_refused() {
    let learned = || Position::Learned { max: 32, offset: 0, counting: Counting::Every };
    let buckets = || Position::Buckets { count: 32, max_distance: 128 };
    let turning = || Position::Rotary(angles(10_000.0));
    let xl =
        || Position::TransformerXl { memory: 8, biases: Biases::Layer, clamp: None, start: Start::Empty };
    let at = |field, why, parts: Vec<Position>| {
        case(gpt2(SMALL), field, why, |f| stack(f).position = Position::Together(parts))
    };
    refused(vec![
        at("target.stack.position.together", "is empty", vec![]),
        at("target.stack.position.together[1]", "added to the input", vec![learned(), learned()]),
        at("target.stack.position.together[1]", "turns queries and keys", vec![turning(), turning()]),
        at(
            "target.stack.position.together[2]",
            "added to the scores",
            vec![buckets(), learned(), Position::Alibi],
        ),
        at("target.stack.position.together[0]", "no positions", vec![Position::None, learned()]),
        at(
            "target.stack.position.together[1]",
            "within the list",
            vec![learned(), Position::Together(vec![])],
        ),
        at("target.stack.position.together", "would turn them first", vec![turning(), xl()]),
        at(
            "target.stack.position.together[1].buckets.count",
            "too few",
            vec![learned(), Position::Buckets { count: 1, max_distance: 128 }],
        ),
    ]);
    let mut all = gpt2(SMALL);
    stack(&mut all).position = Position::Together(vec![learned(), turning(), buckets()]);
    assert_eq!(all.check(), Ok(()), "one for each place");
}

#[test]
fn other_angles_need_angles_to_replace() {
    let at = "target.stack.block[0].mix.attend.rotary";
    let both = || {
        let mut formula = Formula::original_base();
        target(&mut formula).stack.position = Position::Rotary(angles(10_000.0));
        formula
    };
    refused(vec![
        case(gpt2(SMALL), at, "it has none", |f| own(f).rotary = Some(angles(100.0))),
        case(both(), "target.stack.block[1].mix.attend.rotary", "nothing is turned", |f| {
            attend(target(f), 1).rotary = Some(angles(100.0));
        }),
        case(llama(SMALL, 2), "target.stack.block[0].mix.attend.rotary.base", "grow", |f| {
            own(f).rotary = Some(angles(0.5));
        }),
        case(llama(SMALL, 2), "target.stack.block[0].mix.attend.rotary.size", "3 is odd", |f| {
            own(f).rotary = Some(Rotary { size: Some(3), ..angles(100.0) });
        }),
        case(llama(SMALL, 2), "target.stack.block[0].mix.attend.rotary.size", "have 16", |f| {
            own(f).rotary = Some(Rotary { size: Some(18), ..angles(100.0) });
        }),
    ]);
    let mut replaced = llama(SMALL, 2);
    stack(&mut replaced).position = Position::Rotary(Rotary { size: Some(18), ..angles(100.0) });
    own(&mut replaced).rotary = Some(angles(100.0));
    assert_eq!(replaced.check(), Ok(()), "no attention follows the stack's angles, so they fit all that do");
}
