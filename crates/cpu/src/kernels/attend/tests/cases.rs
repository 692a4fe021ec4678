//! The graph's own cases, and random larger ones.

use glassformer_graph::Op;
use glassformer_graph::ops::Shown;

use super::*;

#[test]
fn every_case_agrees_with_the_reference() {
    let mut random = Random::new(1);
    let mut count = 0;
    for case in Op::cases() {
        let kernel = if let Op::Attend(op) = case.op {
            Kernel::Attend(op)
        } else if let Op::AttendShow(op) = case.op {
            Kernel::Show(op)
        } else {
            continue;
        };
        let graph = case.graph().expect("the case fits");
        let (batch, data) = case.draw(&graph, &mut random);
        let numbers = |(data, shape): (Vec<f32>, &glassformer_graph::Shape)| {
            let (rows, width) = (batch.count(shape.rows), shape.width);
            Numbers { rows, width, data }
        };
        let inputs: Vec<Numbers> = data.into_iter().zip(&case.inputs).map(numbers).collect();
        check(&kernel, &inputs, &batch, 2e-5, &How::everywhere());
        if let Kernel::Attend(op) = &kernel {
            check_grad(op, &inputs, &batch, 5e-5, &How::everywhere());
        }
        count += 1;
    }
    assert_eq!(count, 3 * 14, "fourteen attentions, each shown in two ways");
}

/// Any attention, with a batch for it.
fn anything(random: &mut Random) -> (Attend, Batch<'static>) {
    let key_heads = 1 + random.below(3);
    let heads = key_heads * random.pick(&[1, 1, 2, 5]);
    let mut op = plain(heads, key_heads, 3 + random.below(78));
    op.reach = *random.pick(&[Reach::Both, Reach::Past]);
    op.who = *random.pick(&[Who::Every, Who::Every, Who::Local, Who::Global]);
    let window = random.below(90);
    op.pattern = *random.pick(&[
        Pattern::Dense,
        Pattern::Dense,
        Pattern::Window(window),
        Pattern::WindowAndGlobal(window),
    ]);
    op.relative = *random.pick(&[
        Relative::None,
        Relative::Alibi,
        Relative::Buckets { max_distance: 40 },
        Relative::Buckets { max_distance: 9 },
        Relative::TransformerXl,
    ]);
    op.keys = Keys::Rows(*random.pick(&[
        Rows::Tokens(Side::Target),
        Rows::Tokens(Side::Target),
        Rows::Tokens(Side::Source),
        Rows::Recalled(Side::Target),
        Rows::Low(Side::Target, 20),
    ]));
    if op.relative == Relative::TransformerXl {
        (op.heads, op.reach) = (op.key_heads, Reach::Past);
        if !matches!(op.keys, Keys::Rows(Rows::Tokens(Side::Target) | Rows::Recalled(_))) {
            op.keys = Keys::Rows(Rows::Tokens(Side::Target));
        }
    }
    let mut batch = Batch::default();
    let longest = *random.pick(&[10, 100, 300]);
    for _ in 0..3 {
        batch.source.push_rows(1 + random.below(longest), Span::default());
    }
    for _ in 0..=random.below(4) {
        let (source, memory) = (random.below(3), random.below(70));
        batch.target.push_rows(1 + random.below(longest), Span { source, memory, ..Span::default() });
    }
    batch.target.global = (0..batch.target.rows()).map(|_| random.below(30) == 0).collect();
    (op, batch)
}

#[test]
fn any_attention_agrees_with_the_reference() {
    for seed in 0..40 {
        let mut random = Random::new(100 + seed);
        let (op, batch) = anything(&mut random);
        let inputs = draw(&op, &batch, &mut random);
        check(&op.into(), &inputs, &batch, 2e-5, &How::everywhere());
        check(&op.into(), &inputs, &batch, LOWP_TOLERANCE, &How::lowp());
    }
}

#[test]
fn any_gradient_agrees_with_the_reference() {
    for seed in 0..30 {
        let mut random = Random::new(200 + seed);
        let (op, batch) = anything(&mut random);
        let inputs = draw(&op, &batch, &mut random);
        check_grad(&op, &inputs, &batch, 5e-5, &How::everywhere());
    }
}

#[test]
fn any_bf16_gradient_is_near_the_reference() {
    for seed in 0..40 {
        let mut random = Random::new(250 + seed);
        let (op, batch) = anything(&mut random);
        let size = op.size.max(16);
        let op = Attend { relative: Relative::None, size, scale: 1.0 / (size as f32).sqrt(), ..op };
        let inputs = draw(&op, &batch, &mut random);
        let inputs = grad_inputs(&op, &inputs, &batch, &mut random);
        let grad = Kernel::Grad(AttendGrad { attend: op });
        let expected = expected(&grad, &inputs, &batch, &mut State::default());
        let Some(how) = How::tiles() else { return };
        let found = run(&grad, &inputs, &batch, &mut State::default(), how);
        for (k, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let norm = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(|x| x * x).sum::<f32>().sqrt();
            let far = norm(&mut found.data.iter().zip(&expected.data).map(|(x, y)| x - y));
            let bound = LOWP_GRAD_TOLERANCE * norm(&mut expected.data.iter().copied());
            assert!(far <= bound, "output {k} of {grad:?} is {far} away, more than {bound}");
        }
    }
}

#[test]
fn what_is_shown_agrees_with_the_reference() {
    for seed in 0..20 {
        let mut random = Random::new(300 + seed);
        let (attend, batch) = anything(&mut random);
        let inputs = draw(&attend, &batch, &mut random);
        let shown = *random.pick(&[Shown::Scores, Shown::Probabilities]);
        let op = Kernel::Show(AttendShow { attend, shown });
        check(&op, &inputs, &batch, 2e-5, &[How::best()]);
    }
}

#[test]
fn stored_keys_agree_with_the_reference() {
    for seed in 0..20 {
        let mut random = Random::new(400 + seed);
        let (op, _) = anything(&mut random);
        let op = Attend { who: Who::Every, ..op };
        let (on_pages, store) = paged(&op);
        let lengths: Vec<usize> = (0..3).map(|_| 1 + random.below(200)).collect();
        let wide = || pages(Slot { heads: op.key_heads, size: op.size }, &lengths, false);
        let mut stored = Stored { kernel: wide(), reference: wide() };
        let whole = sequences_in_tables(&lengths);
        let width = op.key_heads * op.size;
        let kv = [0, 1].map(|_| Numbers::normal(whole.target.rows(), width, &mut random));
        let mut lowp = pages(Slot { heads: op.key_heads, size: op.size }, &lengths, true);
        run(&store, &kv, &whole, &mut stored.kernel, How::best());
        expected(&store, &kv, &whole, &mut stored.reference);
        // Some rows at the end of each sequence look, at some of the keys.
        let mut batch = Batch::default();
        for (table, &end) in lengths.iter().enumerate() {
            let len = 1 + random.below(end);
            let first = random.below(end - len + 1);
            batch.target.push_rows(len, Span { table, past: end - len, first, ..Span::default() });
        }
        let distances = batch.count(Rows::Distances(Side::Target));
        let mut inputs = vec![Numbers::normal(batch.target.rows(), op.heads * op.size, &mut random)];
        inputs.extend(draw_relative(&op, distances, &mut random));
        check_stored(&on_pages, &inputs, &batch, &mut stored, 2e-5, &How::everywhere());
        for how in How::lowp() {
            run(&store, &kv, &whole, &mut lowp, how);
            let found = run(&on_pages, &inputs, &batch, &mut lowp, how);
            let expected = expected(&on_pages, &inputs, &batch, &mut stored.reference);
            for (found, expected) in found.iter().zip(&expected) {
                let near = compare(&found.data, &expected.data, Tolerance::both(LOWP_TOLERANCE));
                near.unwrap_or_else(|difference| panic!("{on_pages:?}: {difference}"));
            }
        }
    }
}

/// Target sequences of these lengths, each with its table.
pub(super) fn sequences_in_tables(lengths: &[usize]) -> Batch<'static> {
    let mut batch = Batch::default();
    for (table, &len) in lengths.iter().enumerate() {
        batch.target.push_rows(len, Span { table, ..Span::default() });
    }
    batch
}

/// Scores from -300 to 300, each exact in `bf16`: exponentials of most of them are no floats, and levels have to rise from stretch to
/// stretch, or to begin far below zero.
#[test]
fn low_precision_scores_far_from_zero_agree_with_the_reference() {
    let op = plain(1, 1, 64);
    let lengths = [40, 600];
    let batch = sequences(&lengths);
    let mut inputs = draw(&op, &batch, &mut Random::new(9));
    for (row, at) in lengths.iter().flat_map(|&len| 0..len).enumerate() {
        let (query, key) = (16 * (row % 25) as i32 - 192, (4 + at % 4 + at / 256 * 4) as i32);
        for (input, first) in [(0, query), (1, key)] {
            let numbers = &mut inputs[input].data[row * op.size..][..op.size];
            numbers.fill(0.0);
            numbers[0] = first as f32;
        }
    }
    for reach in [Reach::Past, Reach::Both] {
        let op = Attend { reach, ..op };
        check(&op.into(), &inputs, &batch, 1e-2, &How::lowp());
    }
}
