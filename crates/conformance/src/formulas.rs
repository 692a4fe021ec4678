//! Random small formulas: every variant that `check` admits, in any combination. The best test this project has.

use glassformer_formula::{
    Activation, Attention, Biases, Clusters, Counting, Dense, Depth, FeedForward, Formula, Global, Head,
    Heads, Input, InputScale, Lead, Mix, Norm, NormSites, Other, Pairing, Patches, Pattern, Pool, Pooler,
    Position, ProjectionBias, Reach, Reads, Rotary, Scale, Scaling, Sharing, Side, Source, Spread, Stack,
    Start, Sublayer, Table, Then, Tokens, When,
};
use glassformer_graph::{Batch, Graph, Leaf, Rows, Side as Half, Span};
use glassformer_model::{Model, initialise};
use glassformer_tensor::Random;
use glassformer_weights::Weights;

/// The longest sequence that a random formula must take.
pub const LONGEST: usize = 24;
/// Ids are below this.
pub const VOCABULARY: usize = 11;

fn coin(random: &mut Random) -> bool {
    random.below(2) == 0
}

/// A formula drawn from `random`.
///
/// # Panics
/// If it does not pass its check, which is a mistake here.
pub fn formula(random: &mut Random) -> Formula {
    let (source, target) = *random.pick(&[(true, false), (false, true), (true, true)]);
    let width = *random.pick(&[8, 12, 20]);
    let shared_table = source && target && coin(random);
    let source = source.then(|| side(random, Half::Source, width, false));
    let mut target = target.then(|| side(random, Half::Target, width, source.is_some()));
    if let (true, Some(source), Some(target)) = (shared_table, &source, &mut target)
        && let (Input::Tokens(theirs), Input::Tokens(tokens)) = (&source.input, &mut target.input)
        && theirs.clusters.is_none()
        && tokens.clusters.is_none()
    {
        tokens.table = Table::Source;
        tokens.width = theirs.width;
    }
    let last = target.as_ref().or(source.as_ref());
    let words = last.is_some_and(|side| matches!(side.input, Input::Tokens(_)));
    let narrow = last.is_some_and(|side| matches!(&side.input, Input::Tokens(t) if t.width.is_some()));
    let clustered = last.is_some_and(|side| matches!(&side.input, Input::Tokens(t) if t.clusters.is_some()));
    let dense = Dense { act: Some(Activation::Tanh), bias: coin(random), norm: optional_norm(random) };
    let dense = coin(random).then_some(dense);
    let head = match random.below(7) {
        0 | 1 if words => {
            let tied = !clustered && (!narrow || dense.is_some()) && coin(random);
            Head::Words { tied, bias: coin(random), dense, scale: coin(random).then_some(0.5) }
        }
        2 if words && !narrow => Head::Adaptive { clusters: clusters(), tied: clustered && coin(random) },
        3 => Head::Tags { count: 3, dense },
        4 => Head::Classes { count: 4, bias: coin(random) },
        5 => Head::Spans,
        _ => Head::Rows,
    };
    let norm = Then::Norm(Norm::Layer { epsilon: 1e-5, bias: true });
    let projected = Then::Dense { width: 10, act: Some(Activation::Tanh), bias: true };
    let pools = [
        (Pool::First, vec![]),
        (Pool::Last, vec![projected, norm, Then::Unit]),
        (Pool::Mean, vec![Then::Unit]),
        (Pool::LastBut(1), vec![]),
        (Pool::MeanRoot, vec![]),
        (Pool::WeightedMean, vec![projected]),
        (Pool::Max, vec![]),
        (Pool::Together(vec![Pool::Max, Pool::Mean]), vec![Then::Unit]),
    ];
    let (pool, then) = random.pick(&pools).clone();
    let wanted = matches!(head, Head::Classes { .. }) || coin(random);
    let pooler = wanted.then_some(Pooler { pool, dense, then });
    let formula = Formula { source, target, pooler, head };
    formula.check().unwrap_or_else(|problems| panic!("the generator made {formula:#?}: {problems}"));
    formula
}

/// A model of `formula`, with everything away from its neutral start.
///
/// # Panics
/// If the formula does not work.
pub fn model(formula: &Formula, random: &mut Random) -> Model {
    let mut tensors = initialise(formula, random.bits()).expect("the formula works");
    for tensor in tensors.values_mut() {
        tensor.data_mut().iter_mut().for_each(|x| *x += 0.1 * random.normal());
    }
    Model::new(formula.clone(), Weights::from_tensors(tensors)).expect("the weights fit")
}

fn clusters() -> Clusters {
    Clusters { cuts: vec![4, 7], divisor: 2, width: None }
}

fn side(random: &mut Random, half: Half, width: usize, cross: bool) -> Side {
    let depth = match random.below(6) {
        0 => Depth::Shared { times: 2 },
        2 => Depth::Groups { layers: 4, groups: 2 },
        1 => Depth::Adaptive { max: 3, threshold: 0.9 },
        _ => Depth::Layers(1 + random.below(2)),
    };
    let query = *random.pick(&[1, 2, 4]);
    let size = if coin(random) { width / query } else { *random.pick(&[2, 4, 6]) };
    let size = if size % 2 == 1 { size + 1 } else { size };
    let position = position(random, half, depth, size);
    let xl = matches!(position, Position::TransformerXl { .. });
    let key = if xl || coin(random) { query } else { *random.pick(&[1, query]) };
    let heads = Heads { query, key, size };
    let own = attention(random, half, &position, heads);
    let mut mixes = vec![Mix::Attend(own)];
    if cross {
        mixes.push(Mix::Attend(Attention {
            source: Source::Memory,
            reach: Reach::Both,
            pattern: Pattern::Dense,
            ..attention(random, half, &position, Heads { query, key: query, size })
        }));
    }
    mixes.push(Mix::Feed(feed(random)));
    let reads = [Reads::Rows, Reads::Rows, Reads::Block];
    let block: Vec<Sublayer> = mixes
        .into_iter()
        .map(|mix| Sublayer { mix, reads: *random.pick(&reads), norm: sites(random) })
        .collect();
    let mut others = Vec::new();
    if depth == Depth::Layers(2) && coin(random) {
        let norm = sites(random);
        let block = block.iter().map(|sublayer| Sublayer { norm, ..sublayer.clone() }).collect();
        others.push(Other { layers: vec![1], block });
    }
    let input = input(random, half, width);
    let position = if matches!(input, Input::Patches(_)) { every(position) } else { position };
    let final_norm = optional_norm(random);
    Side { input, stack: Stack { width, depth, position, block, others, final_norm } }
}

fn input(random: &mut Random, half: Half, width: usize) -> Input {
    if half == Half::Source && random.below(5) == 0 {
        let lead = *random.pick(&[Lead::None, Lead::Class]);
        return Input::Patches(Patches { size: 2, channels: 3, lead, norm: optional_norm(random) });
    }
    if random.below(6) == 0 {
        return Input::Tokens(Tokens {
            vocabulary: VOCABULARY,
            table: Table::Own,
            width: None,
            clusters: Some(clusters()),
            scale: InputScale::RootWidth,
            types: None,
            norm: None,
        });
    }
    Input::Tokens(Tokens {
        vocabulary: VOCABULARY,
        table: Table::Own,
        width: (random.below(4) == 0).then_some(width / 2),
        clusters: None,
        scale: *random.pick(&[InputScale::One, InputScale::RootWidth]),
        types: (half == Half::Source && coin(random)).then_some(2),
        norm: optional_norm(random),
    })
}

/// A side that is read at once may leave tokens out of its positions; one that is written counts what it has stored.
fn counting(half: Half, offset: usize) -> Counting {
    match (half, offset) {
        (Half::Source, 2) => Counting::But(1),
        (Half::Source | Half::Target, _) => Counting::Every,
    }
}

/// The same where there are no tokens to leave out.
fn every(position: Position) -> Position {
    let counting = Counting::Every;
    match position {
        Position::Learned { max, offset, .. } => Position::Learned { max, offset, counting },
        Position::Sinusoidal { base, layout, spread, offset, when, .. } => {
            Position::Sinusoidal { base, layout, spread, offset, when, counting }
        }
        other => other,
    }
}

fn position(random: &mut Random, half: Half, depth: Depth, size: usize) -> Position {
    let layout = *random.pick(&[Pairing::Interleaved, Pairing::Halves]);
    match random.below(if half == Half::Target { 7 } else { 6 }) {
        0 => Position::None,
        1 => {
            let repeated = matches!(depth, Depth::Shared { .. } | Depth::Adaptive { .. }) && coin(random);
            let when = if repeated { When::EveryStep } else { When::Once };
            let spread = *random.pick(&[Spread::Open, Spread::Closed]);
            let offset = random.below(3);
            let counting = counting(half, offset);
            Position::Sinusoidal { base: 10_000.0, layout, spread, offset, when, counting }
        }
        2 => {
            let offset = random.below(3);
            Position::Learned { max: LONGEST + 1, offset, counting: counting(half, offset) }
        }
        3 => Position::Rotary(Rotary {
            base: 100.0,
            size: (size > 2 && coin(random)).then_some(size - 2),
            layout,
            scaling: match random.below(4) {
                0 => Scaling::Linear { factor: 2.0 },
                1 => Scaling::Llama3 { factor: 4.0, low: 1.0, high: 4.0, original: 16 },
                2 => Scaling::Yarn {
                    factor: 4.0,
                    original: 16,
                    fast: 32.0,
                    slow: 1.0,
                    magnitude: None,
                    whole: true,
                },
                _ => Scaling::None,
            },
        }),
        4 => Position::Alibi,
        5 => {
            let buckets = Position::Buckets { count: 8, max_distance: 10 };
            let learned = Position::Learned { max: LONGEST + 1, offset: 0, counting: Counting::Every };
            if coin(random) { buckets } else { Position::Together(vec![learned, buckets]) }
        }
        _ => Position::TransformerXl {
            memory: 64,
            biases: *random.pick(&[Biases::Layer, Biases::Stack]),
            clamp: coin(random).then_some(5),
            start: Start::Empty,
        },
    }
}

fn attention(random: &mut Random, half: Half, position: &Position, heads: Heads) -> Attention {
    let reach = if half == Half::Target { Reach::Past } else { *random.pick(&[Reach::Both, Reach::Past]) };
    let absolute =
        matches!(position, Position::None | Position::Sinusoidal { .. } | Position::Learned { .. });
    let pattern = match random.below(4) {
        0 => {
            let global = match reach {
                Reach::Both => *random.pick(&[Global::None, Global::Shared, Global::Separate]),
                Reach::Past => Global::None,
            };
            Pattern::Sliding { window: 1 + random.below(4), global }
        }
        1 if absolute && reach == Reach::Both => {
            let sharing = *random.pick(&[Sharing::Heads, Sharing::KeyValue, Sharing::Layers]);
            Pattern::LowRank { rank: 3, length: LONGEST + 1, sharing }
        }
        _ => Pattern::Dense,
    };
    let reach = if matches!(position, Position::TransformerXl { .. }) { Reach::Past } else { reach };
    Attention {
        source: Source::Own,
        reach,
        pattern,
        heads,
        scale: *random.pick(&[Scale::RootSize, Scale::One, Scale::By(0.3)]),
        bias: *random.pick(&[ProjectionBias::ALL, ProjectionBias::NONE]),
        norm: if random.below(4) == 0 { Some(Norm::Rms { epsilon: 1e-5 }) } else { None },
        rotary: None,
    }
}

fn feed(random: &mut Random) -> FeedForward {
    let acts = [Activation::Relu, Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Tanh];
    let (hidden, act, bias) = (*random.pick(&[7, 16, 33]), *random.pick(&acts), coin(random));
    if coin(random) {
        FeedForward::Plain { hidden, act, bias }
    } else {
        FeedForward::Gated { hidden, act, bias }
    }
}

fn optional_norm(random: &mut Random) -> Option<Norm> {
    coin(random).then(|| norm(random))
}

fn norm(random: &mut Random) -> Norm {
    match random.below(3) {
        0 => Norm::Rms { epsilon: 1e-5 },
        1 => Norm::Layer { epsilon: 1e-5, bias: false },
        _ => Norm::Layer { epsilon: 1e-5, bias: true },
    }
}

fn sites(random: &mut Random) -> NormSites {
    let norm = Some(norm(random));
    let none = NormSites::default();
    match random.below(4) {
        0 => NormSites { input: norm, ..none },
        1 => NormSites { input: norm, branch: norm, ..none },
        2 => none,
        _ => NormSites { output: norm, ..none },
    }
}

/// A batch of `count` sequences for `graph`, with the numbers of those inputs of it that are not parameters, by name.
pub fn batch(random: &mut Random, formula: &Formula, count: usize) -> (Batch<'static>, Vec<Vec<f32>>) {
    let mut batch = Batch { seed: random.bits(), ..Batch::default() };
    let mut pieces = Vec::new();
    for index in 0..count {
        let mut piece = Vec::new();
        for (half, side) in [(Half::Source, &formula.source), (Half::Target, &formula.target)] {
            let Some(side) = side else { continue };
            let len = 1 + random.below(LONGEST);
            let packed = batch.side_mut(half);
            packed.push_rows(len, Span { source: index, ..Span::default() });
            match &side.input {
                Input::Tokens(_) => packed.tokens.extend((0..len).map(|_| random.below(VOCABULARY) as u32)),
                Input::Patches(patches) => {
                    let numbers = len * patches.size * patches.size * patches.channels;
                    piece.extend((0..numbers).map(|_| random.normal()));
                }
            }
            if half == Half::Source {
                packed.types.extend((0..len).map(|_| random.below(2) as u32));
                packed.global.extend((0..len).map(|_| random.below(4) == 0));
            }
        }
        pieces.push(piece);
    }
    batch.source.pick_all();
    batch.target.pick_all();
    (batch, pieces)
}

/// Points the inputs of `graph` that are not parameters at `patches`; remembered rows are empty.
pub fn bind<'a>(batch: &mut Batch<'a>, graph: &Graph, patches: &'a [f32]) {
    batch.inputs = graph
        .leaves(Leaf::Input)
        .map(|(_, info)| if info.shape.rows == Rows::Tokens(Half::Source) { patches } else { &[] })
        .collect();
}

/// Sequence `index` of `batch` alone.
pub fn alone(batch: &Batch<'_>, index: usize) -> Batch<'static> {
    let mut one = Batch { seed: batch.seed, ..Batch::default() };
    for half in [Half::Source, Half::Target] {
        let packed = batch.side(half);
        let Some(span) = packed.spans.get(index) else { continue };
        let rows = span.start..span.start + span.len;
        let into = one.side_mut(half);
        into.push_rows(span.len, Span::default());
        into.tokens.extend(packed.tokens.get(rows.clone()).unwrap_or_default());
        into.types.extend(packed.types.get(rows.clone()).unwrap_or_default());
        into.global.extend(packed.global.get(rows).unwrap_or_default());
        into.pick_all();
    }
    one
}
