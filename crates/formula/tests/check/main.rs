//! What cannot work is refused, at the field that is wrong and for the right reason.

mod attend;
mod ends;
mod layers;
mod position;

use glassformer_formula::named::{Original, Size, bert, gpt2, original};
use glassformer_formula::{
    Activation, Attention, Biases, Counting, Depth, FeedForward, Formula, Head, Input, Mix, NAMES, Norm,
    NormSites, Other, Pairing, Pool, Pooler, Position, Reach, Reads, Rotary, Scale, Scaling, Side, Stack,
    Start, Sublayer, Tokens, named,
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

fn angles(base: f64) -> Rotary {
    Rotary { base, size: None, layout: Pairing::Halves, scaling: Scaling::None }
}

fn words(tied: bool) -> Head {
    Head::Words { tied, bias: false, dense: None, scale: None }
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
            stack(f).position = Position::Learned { max: 0, offset: 0, counting: Counting::Every };
        }),
        case(base(), "target.stack.position.learned.offset", "cannot be meant", |f| {
            stack(f).position = Position::Learned { max: 1, offset: usize::MAX, counting: Counting::Every };
        }),
        case(base(), "head.classes.count", "is 0", |f| {
            f.pooler = Some(Pooler::of(Pool::Last));
            f.head = Head::Classes { count: 0, bias: true };
        }),
        case(base(), "head.tags.count", "is 0", |f| f.head = Head::Tags { count: 0, dense: None }),
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
fn what_only_looks_odd_is_allowed() {
    let allowed = |mut formula: Formula, change: &dyn Fn(&mut Formula)| {
        change(&mut formula);
        assert_eq!(formula.check(), Ok(()));
    };
    allowed(bert(SMALL), &|f| own(f).reach = Reach::Past);
    allowed(gpt2(SMALL), &|f| {
        f.pooler = Some(Pooler::of(Pool::Last));
        f.head = Head::Classes { count: 2, bias: false };
    });
    allowed(gpt2(SMALL), &|f| f.pooler = Some(Pooler::of(Pool::Mean)));
    allowed(gpt2(SMALL), &|f| stack(f).position = Position::Buckets { count: 3, max_distance: 2 });
    allowed(gpt2(SMALL), &|f| {
        stack(f).position =
            Position::TransformerXl { memory: 0, biases: Biases::Stack, clamp: Some(1), start: Start::Zeros }
    });
    allowed(gpt2(SMALL), &|f| {
        f.head = words(false);
        tokens(target(f)).width = Some(16);
    });
    allowed(gpt2(SMALL), &|f| stack(f).block[0].reads = Reads::Block);
    allowed(gpt2(SMALL), &|f| stack(f).position = Position::Together(vec![Position::Alibi]));
    allowed(gpt2(SMALL), &|f| {
        let block = stack(f).block.clone();
        stack(f).others = vec![Other { layers: vec![1, 0], block }];
    });
    allowed(gpt2(SMALL), &|f| {
        stack(f).block.push(Sublayer { mix: feed(8), reads: Reads::Rows, norm: NormSites::default() });
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
