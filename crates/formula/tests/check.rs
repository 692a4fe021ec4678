//! What cannot work is refused, at the field that is wrong and for the right reason.

use glassformer_formula::named::{Original, Size, bert, gpt2, llama, original};
use glassformer_formula::{
    Activation, Attention, Biases, Depth, FeedForward, Formula, Global, Head, Heads, Input, Lead, Mix, NAMES,
    Norm, NormSites, Pairing, Patches, Pattern, Pool, Position, Problem, Reach, Rotary, Scale, Scaling,
    Sharing, Side, Source, Stack, Sublayer, Table, Tokens, When, named,
};

const SMALL: Size = Size { width: 64, heads: 4, hidden: 256, layers: 2, vocabulary: 100, length: 32 };

fn source(formula: &mut Formula) -> &mut Side {
    formula.source.as_mut().expect("a source")
}

fn target(formula: &mut Formula) -> &mut Side {
    formula.target.as_mut().expect("a target")
}

fn tokens(side: &mut Side) -> &mut Tokens {
    match &mut side.input {
        Input::Tokens(tokens) => tokens,
        Input::Patches(_) => panic!("patches"),
    }
}

fn attend(side: &mut Side, index: usize) -> &mut Attention {
    match &mut side.stack.block[index].mix {
        Mix::Attend(attention) => attention,
        Mix::Feed(_) => panic!("a feed"),
    }
}

/// The first attention of the only side.
fn own(formula: &mut Formula) -> &mut Attention {
    let side = if formula.source.is_some() { source(formula) } else { target(formula) };
    attend(side, 0)
}

fn stack(formula: &mut Formula) -> &mut Stack {
    let side = if formula.source.is_some() { source(formula) } else { target(formula) };
    &mut side.stack
}

fn feed(hidden: usize) -> Mix {
    Mix::Feed(FeedForward::Gated { hidden, act: Activation::Silu, bias: false })
}

/// A changed formula must have exactly this one problem.
struct Case {
    formula: Formula,
    field: &'static str,
    why: &'static str,
}

fn case(
    mut formula: Formula,
    field: &'static str,
    why: &'static str,
    change: impl FnOnce(&mut Formula),
) -> Case {
    formula.check().unwrap_or_else(|problems| panic!("before the change: {problems}"));
    change(&mut formula);
    Case { formula, field, why }
}

fn refused(cases: Vec<Case>) {
    for Case { formula, field, why } in cases {
        let problems = formula.check().expect_err(field);
        let [problem] = problems.list() else { panic!("not one problem with {field}: {problems}") };
        assert_eq!(problem.field, field, "{problems}");
        assert!(problem.why.contains(why), "{field}: {} does not say {why}", problem.why);
        assert!(!problem.hint.is_empty());
        assert!(problems.to_string().contains(field));
    }
}

#[test]
fn named_formulas_can_work() {
    for name in NAMES {
        assert_eq!(named(name).expect(name).check(), Ok(()), "{name}");
    }
}

#[test]
fn impossible_sizes_are_refused() {
    let base = || gpt2(SMALL);
    refused(vec![
        case(base(), "target.input.tokens.vocabulary", "is 0", |f| tokens(target(f)).vocabulary = 0),
        case(base(), "target.input.tokens.vocabulary", "cannot be meant", |f| {
            tokens(target(f)).vocabulary = usize::MAX;
        }),
        case(base(), "target.input.tokens.types", "is 0", |f| tokens(target(f)).types = Some(0)),
        case(base(), "target.stack.width", "is 0", |f| stack(f).width = 0),
        case(base(), "target.stack.width", "cannot be meant", |f| stack(f).width = usize::MAX - 1),
        case(base(), "target.stack.depth.layers", "is 0", |f| stack(f).depth = Depth::Layers(0)),
        case(base(), "target.stack.depth.layers", "cannot be meant", |f| {
            stack(f).depth = Depth::Layers(1_000_000_000);
        }),
        case(base(), "target.stack.depth.shared.times", "is 0", |f| {
            stack(f).depth = Depth::Shared { times: 0 }
        }),
        case(base(), "target.stack.block[1].mix.feed.gated.hidden", "is 0", |f| {
            stack(f).block[1].mix = feed(0);
        }),
        case(base(), "target.stack.block[1].mix.feed.gated.hidden", "cannot be meant", |f| {
            stack(f).block[1].mix = feed(1 << 40);
        }),
        case(base(), "target.stack", "more than", |f| {
            stack(f).width = 1 << 20;
            stack(f).block[1].mix = feed(1 << 24);
        }),
        case(base(), "target.stack.block", "is empty", |f| stack(f).block.clear()),
        case(base(), "target.stack.block", "65 sublayers", |f| {
            let sublayer = stack(f).block[0].clone();
            stack(f).block = vec![sublayer; 65];
        }),
        case(base(), "target.stack.position.learned.max", "is 0", |f| {
            stack(f).position = Position::Learned { max: 0, offset: 0 };
        }),
        case(base(), "target.stack.position.learned.offset", "cannot be meant", |f| {
            stack(f).position = Position::Learned { max: 1, offset: usize::MAX };
        }),
        case(base(), "head.classes.count", "is 0", |f| f.head = Head::Classes { count: 0, pool: Pool::Last }),
        case(base(), "head.tags.count", "is 0", |f| f.head = Head::Tags { count: 0 }),
    ]);
}

#[test]
fn impossible_numbers_are_refused() {
    let base = || gpt2(SMALL);
    let layer = |epsilon| Some(Norm::Layer { epsilon, bias: true });
    let depth = |threshold| Depth::Adaptive { max: 4, threshold };
    refused(vec![
        case(base(), "target.stack.depth.adaptive.max", "is 0", |f| {
            stack(f).depth = Depth::Adaptive { max: 0, threshold: 0.5 };
        }),
        case(base(), "target.stack.depth.adaptive.threshold", "between 0 and 1", |f| {
            stack(f).depth = depth(1.0);
        }),
        case(base(), "target.stack.depth.adaptive.threshold", "between 0 and 1", |f| {
            stack(f).depth = depth(0.0);
        }),
        case(base(), "target.stack.depth.adaptive.threshold", "NaN", |f| stack(f).depth = depth(f32::NAN)),
        case(base(), "target.stack.final_norm.layer.epsilon", "NaN", |f| {
            stack(f).final_norm = layer(f32::NAN);
        }),
        case(base(), "target.stack.block[0].norm.branch.layer.epsilon", "-1", |f| {
            stack(f).block[0].norm.branch = layer(-1.0);
        }),
        case(base(), "target.input.tokens.norm.rms.epsilon", "inf", |f| {
            tokens(target(f)).norm = Some(Norm::Rms { epsilon: f32::INFINITY });
        }),
        case(base(), "target.stack.block[0].mix.attend.norm.rms.epsilon", "-0.5", |f| {
            own(f).norm = Some(Norm::Rms { epsilon: -0.5 });
        }),
        case(base(), "target.stack.block[0].mix.attend.scale.by", "0 is not", |f| {
            own(f).scale = Scale::By(0.0);
        }),
        case(base(), "target.stack.block[0].mix.attend.scale.by", "NaN", |f| {
            own(f).scale = Scale::By(f32::NAN);
        }),
        case(base(), "target.stack.block[0].mix.attend.scale.by", "inf", |f| {
            own(f).scale = Scale::By(f32::INFINITY);
        }),
    ]);
}

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
        case(gpt2(SMALL), "target.stack.block[0].mix.attend.pattern.sliding.window", "is 0", |f| {
            own(f).pattern = window(0, Global::None);
        }),
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

#[test]
fn squeezed_rows_have_no_distance() {
    let rotary = Rotary { base: 10_000.0, size: None, layout: Pairing::Halves, scaling: Scaling::None };
    let positions =
        [Position::Rotary(rotary), Position::Alibi, Position::Buckets { count: 32, max_distance: 128 }];
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
    let sinusoidal = |base, when| Position::Sinusoidal { base, layout: Pairing::Interleaved, when };
    let buckets = |count, max_distance| Position::Buckets { count, max_distance };
    let xl = Position::TransformerXl { memory: 8, biases: Biases::Layer };
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
        case(gpt2(SMALL), "target.stack.position.sinusoidal.when", "every layer is its own block", |f| {
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
        feeds_alone(Position::Alibi),
        feeds_alone(buckets(32, 128)),
        feeds_alone(xl.clone()),
    ]);
}

#[test]
fn impossible_rotations_are_refused() {
    let plain = Rotary { base: 10_000.0, size: None, layout: Pairing::Halves, scaling: Scaling::None };
    let rotary = |field, why, rotary: Rotary| {
        case(llama(SMALL, 2), field, why, |f| stack(f).position = Position::Rotary(rotary))
    };
    let scaled = |field, why, scaling| {
        rotary(field, why, Rotary { base: 10_000.0, size: None, layout: Pairing::Halves, scaling })
    };
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
            Scaling::Yarn { factor: 4.0, original: 32, fast: 1.0, slow: 32.0, magnitude: None },
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
fn tables_and_heads_that_do_not_fit_are_refused() {
    let both = Formula::original_base;
    let patches = || Input::Patches(Patches { size: 4, channels: 3, lead: Lead::None, norm: None });
    refused(vec![
        case(both(), "source.input.tokens.table", "from itself", |f| tokens(source(f)).table = Table::Source),
        case(gpt2(SMALL), "target.input.tokens.table", "no source", |f| {
            tokens(target(f)).table = Table::Source;
        }),
        case(both(), "target.input.tokens.table", "reads patches", |f| {
            source(f).input = patches();
            tokens(target(f)).table = Table::Source;
        }),
        case(both(), "target.input.tokens.vocabulary", "100 ids, but the source's table has 37000", |f| {
            tokens(target(f)).table = Table::Source;
            tokens(target(f)).vocabulary = 100;
        }),
        case(both(), "target.input.tokens.table", "the source's table is 256 wide", |f| {
            tokens(target(f)).table = Table::Source;
            source(f).stack.width = 256;
        }),
        case(gpt2(SMALL), "head.words.tied", "the table is 16 wide", |f| tokens(target(f)).width = Some(16)),
        case(gpt2(SMALL), "target.input.tokens.width", "is 0", |f| {
            f.head = Head::Rows;
            tokens(target(f)).width = Some(0);
        }),
        case(named("vit").expect("a name"), "head.words", "no vocabulary", |f| {
            f.head = Head::Words { tied: false, bias: false };
        }),
        case(both(), "target.input.patches", "cannot write patches", |f| {
            f.head = Head::Rows;
            target(f).input = patches();
        }),
        case(named("vit").expect("a name"), "source.input.patches.size", "is 0", |f| {
            source(f).input = Input::Patches(Patches { size: 0, channels: 3, lead: Lead::Class, norm: None });
        }),
        case(both(), "source", "neither a source nor a target", |f| (f.source, f.target) = (None, None)),
    ]);
}

#[test]
fn what_only_looks_odd_is_allowed() {
    let allowed = |mut formula: Formula, change: &dyn Fn(&mut Formula)| {
        change(&mut formula);
        assert_eq!(formula.check(), Ok(()));
    };
    allowed(bert(SMALL), &|f| own(f).reach = Reach::Past);
    allowed(gpt2(SMALL), &|f| f.head = Head::Classes { count: 2, pool: Pool::Last });
    allowed(gpt2(SMALL), &|f| stack(f).position = Position::Buckets { count: 3, max_distance: 2 });
    allowed(gpt2(SMALL), &|f| {
        stack(f).position = Position::TransformerXl { memory: 0, biases: Biases::Stack }
    });
    allowed(gpt2(SMALL), &|f| {
        f.head = Head::Words { tied: false, bias: false };
        tokens(target(f)).width = Some(16);
    });
    allowed(gpt2(SMALL), &|f| {
        stack(f).block.push(Sublayer { mix: feed(8), norm: NormSites::default() });
    });
}

#[test]
fn all_problems_are_told_at_once() {
    let sizes = Original {
        width: 512,
        heads: 7,
        hidden: 0,
        source_layers: 0,
        target_layers: 6,
        source_vocabulary: 0,
        target_vocabulary: 10,
    };
    let problems = original(sizes).check().expect_err("five things are wrong");
    let fields: Vec<&str> = problems.list().iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "source.input.tokens.vocabulary",
            "source.stack.depth.layers",
            "source.stack.block[0].mix.attend.heads.query",
            "source.stack.block[1].mix.feed.plain.hidden",
            "target.stack.block[0].mix.attend.heads.query",
            "target.stack.block[1].mix.attend.heads.query",
            "target.stack.block[2].mix.feed.plain.hidden",
        ]
    );
    assert_eq!(problems.to_string().lines().count(), fields.len() + 1);
}
