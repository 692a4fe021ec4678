//! What must not depend on the batch, the workers, the order of arrival or the place of keys does not, to the last bit.

use super::cases::sequences_in_tables;
use super::*;

/// One attention of each kind that a decoder can have.
fn decoders() -> Vec<Attend> {
    let base = plain(4, 2, 24);
    vec![
        base,
        plain(3, 3, 7),
        plain(2, 2, 64),
        Attend { pattern: Pattern::Window(20), ..base },
        Attend { relative: Relative::Alibi, ..base },
        Attend { relative: Relative::Buckets { max_distance: 50 }, ..base },
        Attend { relative: Relative::TransformerXl, ..plain(2, 2, 17) },
    ]
}

fn assert_same(what: &str, op: &Attend, found: &[f32], expected: &[f32]) {
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(bits(found) == bits(expected), "{what}: {op:?}");
}

/// The first rows of what the relative positions need.
fn relative_part(op: &Attend, inputs: &[Numbers], distances: usize) -> Vec<Numbers> {
    let mut extra = inputs[3..].to_vec();
    if op.relative == Relative::TransformerXl {
        extra[0] = extra[0].part(0..distances);
    }
    extra
}

#[test]
fn alone_and_in_a_batch_are_the_same_bits() {
    let mut random = Random::new(1);
    let both = decoders().into_iter().flat_map(|op| match op.relative {
        Relative::TransformerXl => vec![op],
        Relative::None | Relative::Alibi | Relative::Buckets { .. } => {
            vec![op, Attend { reach: Reach::Both, ..op }]
        }
    });
    for op in both {
        let lengths = [130, 1, 64, 71, 3];
        let batch = sequences(&lengths);
        let inputs = draw(&op, &batch, &mut random);
        for how in [How::best()].into_iter().chain(How::lowp()) {
            let made = run(&op.into(), &inputs, &batch, &mut State::default(), how);
            for span in &batch.target.spans {
                let rows = span.start..span.start + span.len;
                let mut own: Vec<Numbers> = inputs[..3].iter().map(|x| x.part(rows.clone())).collect();
                own.extend(relative_part(&op, &inputs, span.len));
                let alone = sequences(&[span.len]);
                let found = run(&op.into(), &own, &alone, &mut State::default(), how);
                for (found, made) in found.iter().zip(&made) {
                    assert_same("alone", &op, &found.data, &made.part(rows.clone()).data);
                }
            }
        }
    }
}

#[test]
fn workers_and_register_widths_are_the_same_bits() {
    let mut random = Random::new(2);
    for op in decoders() {
        let batch = sequences(&[100, 30, 177]);
        let inputs = draw(&op, &batch, &mut random);
        let grads = grad_inputs(&op, &inputs, &batch, &mut random);
        let grad = Kernel::Grad(AttendGrad { attend: op });
        for isa in Isa::available() {
            let on = |op: &Kernel, inputs: &[Numbers], isa, workers| {
                run(op, inputs, &batch, &mut State::default(), How::f32(isa, workers))
            };
            let bits = |made: &[Numbers]| made.iter().map(Numbers::bits).collect::<Vec<_>>();
            let (one, one_grad) = (on(&op.into(), &inputs, isa, 1), on(&grad, &grads, isa, 1));
            for workers in [2, 5] {
                assert!(bits(&on(&op.into(), &inputs, isa, workers)) == bits(&one), "{op:?} on {isa}");
                assert!(bits(&on(&grad, &grads, isa, workers)) == bits(&one_grad), "{grad:?} on {isa}");
            }
            if isa == Isa::Avx512 {
                assert!(bits(&on(&op.into(), &inputs, Isa::Avx2, 1)) == bits(&one), "{op:?}");
                assert!(bits(&on(&grad, &grads, Isa::Avx2, 1)) == bits(&one_grad), "{grad:?}");
            }
        }
    }
}

#[test]
fn workers_are_the_same_bits_in_low_precision() {
    let mut random = Random::new(7);
    for op in decoders() {
        let batch = sequences(&[100, 30, 177]);
        let inputs = draw(&op, &batch, &mut random);
        for how in How::lowp() {
            let on = |workers| {
                let made = run(&op.into(), &inputs, &batch, &mut State::default(), How { workers, ..how });
                made.iter().map(Numbers::bits).collect::<Vec<_>>()
            };
            let one = on(1);
            assert!([2, 5].into_iter().all(|workers| on(workers) == one), "{op:?}");
        }
    }
}

/// Runs the sequences `pieces` by pieces on pages and returns y and the logarithms of all rows.
fn by_pieces(op: &Attend, inputs: &[Numbers], lengths: &[usize], pieces: &[usize], how: How) -> Vec<Numbers> {
    let (on_pages, store) = paged(op);
    let mut state = pages(Slot { heads: op.key_heads, size: op.size }, lengths, how.lowp);
    let whole = sequences(lengths);
    let mut all: Vec<Numbers> = [op.heads * op.size, op.heads]
        .map(|width| Numbers {
            rows: whole.target.rows(),
            width,
            data: vec![POISON; whole.target.rows() * width],
        })
        .to_vec();
    let mut past = 0;
    for &piece in pieces {
        let mut batch = Batch::default();
        let mut rows = Vec::new();
        for (table, span) in whole.target.spans.iter().enumerate().filter(|(_, span)| past < span.len) {
            let len = piece.min(span.len - past);
            batch.target.push_rows(len, Span { table, past, ..Span::default() });
            rows.extend(span.start + past..span.start + past + len);
        }
        past += piece;
        let take = |x: &Numbers| Numbers {
            rows: rows.len(),
            width: x.width,
            data: rows.iter().flat_map(|&row| x.row(row).to_vec()).collect(),
        };
        let [q, k, v] = [0, 1, 2].map(|x| take(&inputs[x]));
        run(&store, &[k, v], &batch, &mut state, how);
        let mut given = vec![q];
        given.extend(relative_part(op, inputs, batch.count(Rows::Distances(Side::Target))));
        let made = run(&on_pages, &given, &batch, &mut state, how);
        for (all, made) in all.iter_mut().zip(made) {
            for (k, &row) in rows.iter().enumerate() {
                all.data[row * all.width..(row + 1) * all.width].copy_from_slice(made.row(k));
            }
        }
    }
    all
}

#[test]
fn pages_and_rows_and_one_by_one_are_the_same_bits() {
    let mut random = Random::new(3);
    for op in decoders() {
        let lengths = [150, 38, 70];
        let batch = sequences(&lengths);
        let inputs = draw(&op, &batch, &mut random);
        let in_f32 = Isa::available().into_iter().map(|isa| How::f32(isa, 2));
        for how in in_f32.chain(How::lowp()) {
            let rows = run(&op.into(), &inputs, &batch, &mut State::default(), how);
            for pieces in [vec![150], vec![37, 1, 112], vec![1; 150], vec![64, 5, 81]] {
                let found = by_pieces(&op, &inputs, &lengths, &pieces, how);
                for (found, rows) in found.iter().zip(&rows) {
                    assert_same(&format!("pieces of {pieces:?}, {how:?}"), &op, &found.data, &rows.data);
                }
            }
        }
    }
}

#[test]
fn low_precision_keeps_their_bits_from_stretch_to_stretch() {
    let (mut random, lengths) = (Random::new(9), [530, 38, 257]);
    let batch = sequences(&lengths);
    let ops = [plain(4, 2, 24), Attend { pattern: Pattern::Window(20), ..plain(2, 2, 64) }];
    for (op, how) in ops.into_iter().flat_map(|op| How::lowp().into_iter().map(move |how| (op, how))) {
        let inputs = draw(&op, &batch, &mut random);
        let rows = run(&op.into(), &inputs, &batch, &mut State::default(), how);
        for pieces in [vec![530], vec![255, 1, 1, 273], vec![37, 300, 193]] {
            let found = by_pieces(&op, &inputs, &lengths, &pieces, how);
            for (found, rows) in found.iter().zip(&rows) {
                assert_same(&format!("pieces of {pieces:?}"), &op, &found.data, &rows.data);
            }
        }
    }
}

#[test]
fn what_the_other_side_has_is_seen_in_the_same_bits_from_rows_and_from_pages() {
    let (mut random, lengths) = (Random::new(8), [300, 38, 70]);
    for op in [plain(4, 2, 24), plain(2, 2, 64)].map(|op| Attend { reach: Reach::Both, ..op }) {
        let mut batch = sequences_in_tables(&lengths);
        for len in lengths {
            batch.source.push_rows(len, Span::default());
        }
        for (source, span) in batch.target.spans.iter_mut().enumerate() {
            span.source = source;
        }
        let widths = [op.heads, op.key_heads, op.key_heads].map(|heads| heads * op.size);
        let inputs = widths.map(|width| Numbers::normal(batch.target.rows(), width, &mut random));
        let on_rows = Attend { keys: Keys::Rows(Rows::Tokens(Side::Source)), ..op };
        let (on_pages, store) = paged(&op);
        for how in How::lowp().into_iter().chain([How::best()]) {
            let mut state = pages(Slot { heads: op.key_heads, size: op.size }, &lengths, how.lowp);
            run(&store, &inputs[1..], &batch, &mut state, how);
            let found = run(&on_pages, &inputs[..1], &batch, &mut state, how);
            let expected = run(&on_rows.into(), &inputs, &batch, &mut State::default(), how);
            assert_same(&format!("{how:?}"), &op, &found[0].data, &expected[0].data);
        }
    }
}

/// As where one of two graphs that share pages keeps numbers of four bytes.
#[test]
fn pages_that_are_not_laid_out_for_bf16_hold_none() {
    let (mut random, lengths) = (Random::new(12), [40, 7]);
    let op = plain(4, 2, 64);
    let (on_pages, store) = paged(&op);
    let batch = sequences_in_tables(&lengths);
    let inputs = draw(&op, &batch, &mut random);
    for how in How::lowp() {
        let found = [how, How::f32(how.isa, 2)].map(|how| {
            let mut state = pages(Slot { heads: op.key_heads, size: op.size }, &lengths, false);
            run(&store, &inputs[1..3], &batch, &mut state, how);
            run(&on_pages, &inputs[..1], &batch, &mut state, how)[0].bits()
        });
        assert_eq!(found[0], found[1], "{how:?}");
    }
}

/// Beams of one sentence look at its source together.
#[test]
fn sequences_that_look_at_one_source_have_the_bits_of_each_alone() {
    let (mut random, lengths) = (Random::new(11), [40, 7, 90]);
    let targets = [(1, 0), (1, 0), (3, 0), (2, 1), (1, 2), (1, 2), (150, 2), (1, 2), (1, 0)];
    for op in [plain(4, 2, 24), plain(2, 2, 64), plain(3, 3, 5)] {
        let (_, store) = paged(&op);
        let look = Attend { keys: Keys::Pages(Which::Crossing, 1), reach: Reach::Both, ..op };
        let whole = sequences_in_tables(&lengths);
        let width = op.key_heads * op.size;
        let kv = [0, 1].map(|_| Numbers::normal(whole.target.rows(), width, &mut random));
        let mut batch = Batch::default();
        for (len, source) in targets {
            batch.target.push_rows(len, Span { source, ..Span::default() });
        }
        let queries = Numbers::normal(batch.target.rows(), op.heads * op.size, &mut random);
        for how in How::everywhere().into_iter().chain(How::lowp()) {
            let mut stored = pages(Slot { heads: op.key_heads, size: op.size }, &lengths, how.lowp);
            run(&store, &kv, &whole, &mut stored, how);
            let mut state = as_source(stored);
            let made = run(&look.into(), std::slice::from_ref(&queries), &batch, &mut state, how);
            for span in &batch.target.spans {
                let rows = span.start..span.start + span.len;
                let mut alone = Batch::default();
                alone.target.push_rows(span.len, Span { source: span.source, ..Span::default() });
                let found = run(&look.into(), &[queries.part(rows.clone())], &alone, &mut state, how);
                for (found, made) in found.iter().zip(&made) {
                    assert_same(&format!("alone, {how:?}"), &op, &found.data, &made.part(rows.clone()).data);
                }
            }
        }
    }
}

#[test]
fn what_a_row_does_not_see_cannot_touch_it() {
    let mut random = Random::new(4);
    for op in [plain(2, 1, 20), Attend { pattern: Pattern::WindowAndGlobal(30), ..plain(2, 2, 16) }] {
        let mut batch = sequences(&[100]);
        batch.target.global = (0..100).map(|row| row == 5).collect();
        let inputs = draw(&op, &batch, &mut random);
        let clean = run(&op.into(), &inputs, &batch, &mut State::default(), How::best());
        let mut dirty = inputs.clone();
        let width = op.key_heads * op.size;
        dirty[1].data[80 * width..81 * width].fill(f32::NAN);
        dirty[2].data[80 * width..81 * width].fill(f32::INFINITY);
        let found = run(&op.into(), &dirty, &batch, &mut State::default(), How::best());
        for (found, clean) in found.iter().zip(&clean) {
            assert_same("rows before", &op, &found.part(0..80).data, &clean.part(0..80).data);
            assert!(found.row(80).iter().all(|x| x.is_nan()));
        }
    }
}

#[test]
fn a_row_that_sees_nothing_is_zero() {
    // A source sequence of no rows, as stored keys before anything was stored.
    let op = Attend { keys: Keys::Pages(Which::Crossing, 1), reach: Reach::Both, ..plain(2, 2, 5) };
    let mut random = Random::new(5);
    let batch = sequences(&[3]);
    let inputs = vec![Numbers::normal(3, 10, &mut random)];
    let filled = pages(Slot { heads: 2, size: 5 }, &[0], false);
    let mut state = as_source(filled);
    let made = run(&op.into(), &inputs, &batch, &mut state, How::best());
    assert!(made[0].data.iter().all(|&x| x == 0.0));
    assert!(made[1].data.iter().all(|&x| x == f32::NEG_INFINITY));
}

#[test]
fn scores_that_overflow_are_not_seen() {
    let op = plain(1, 1, 2);
    let batch = sequences(&[100]);
    let fill = |x: f32| Numbers { rows: 100, width: 2, data: vec![x; 200] };
    let mut inputs = vec![fill(1e30), fill(-1e30), fill(1.0)];
    // The whole first tile overflows; the first key after it does not.
    inputs[1].data[64 * 2..].fill(0.0);
    let made = run(&op.into(), &inputs, &batch, &mut State::default(), How::best());
    assert!(made[0].part(0..64).data.iter().all(|&x| x == 0.0));
    assert!(made[0].part(64..100).data.iter().all(|&x| x == 1.0));
}

#[test]
fn scores_that_are_no_numbers_show() {
    let op = plain(1, 1, 16);
    let fill = |rows: usize, x: f32| Numbers { rows, width: 16, data: vec![x; rows * 16] };
    for how in How::everywhere().into_iter().chain(How::lowp()).filter(|how| how.dot != Dot::Amx) {
        // All of a row, or one key alone, whatever its lane.
        for (rows, wrong) in [(3, 0..3), (70, 63..64), (70, 5..6), (70, 69..70)] {
            let mut inputs = vec![fill(rows, 1.0), fill(rows, 1.0), fill(rows, 1.0)];
            inputs[1].data[wrong.start * 16..wrong.end * 16].fill(f32::NAN);
            let made = run(&op.into(), &inputs, &sequences(&[rows]), &mut State::default(), how);
            // Rows look back: those before it do not see it.
            let told = made[0].data.iter().enumerate().all(|(at, x)| x.is_nan() == (at / 16 >= wrong.start));
            assert!(told, "{how:?}: {wrong:?} of {rows}");
        }
    }
}

#[test]
fn more_heads_than_queries_in_a_part_share_a_key() {
    let mut random = Random::new(6);
    let op = plain(200, 1, 4);
    let batch = sequences(&[5, 1]);
    let inputs = draw(&op, &batch, &mut random);
    check(&op.into(), &inputs, &batch, 2e-5, &How::everywhere());
    check_grad(&op, &inputs, &batch, 5e-5, &[How::best()]);
}

/// Three sequences that begin alike and go on differently: as forks, which take rows over, and each from its beginning.
#[test]
fn forks_have_the_bits_of_sequences_of_their_own() {
    for seed in 0..30 {
        let mut random = Random::new(700 + seed);
        let op = plain(2, 2, *random.pick(&[16, 40, 64]));
        let slot = Slot { heads: op.key_heads, size: op.size };
        let (on_pages, store) = paged(&op);
        let (common, more) = (1 + random.below(3 * PAGE), 1 + random.below(PAGE + 2));
        let width = op.key_heads * op.size;
        let beginning = [0, 1].map(|_| Numbers::normal(common, width, &mut random));
        let ends = [0, 1].map(|_| Numbers::normal(3 * more, width, &mut random));
        let queries = [Numbers::normal(3 * more, op.heads * op.size, &mut random)];
        let mut later = Batch::default();
        for table in 0..3 {
            later.target.push_rows(more, Span { table, past: common, ..Span::default() });
        }
        for how in How::everywhere().into_iter().chain(How::lowp()) {
            let mut forked = poisoned(slot, 20, how.lowp);
            let table = forked.cache.open();
            forked.cache.reserve(table, common).expect("there are enough pages");
            run(&store, &beginning, &sequences_in_tables(&[common]), &mut forked, how);
            forked.cache.set_len(table, common);
            (0..2).for_each(|_| assert_ne!(forked.cache.fork(table), table));
            // In any order: whoever is the last goes on in the page that all had.
            let mut order = [0, 1, 2];
            random.shuffle(&mut order);
            for table in order {
                forked.cache.reserve(table, common + more).expect("there are enough pages");
            }
            run(&store, &ends, &later, &mut forked, how);

            let mut alone = pages(slot, &[common + more; 3], how.lowp);
            let rows = |of: &Numbers, table: usize| of.part(table * more..(table + 1) * more).data;
            let whole = [0, 1].map(|which| {
                let data =
                    (0..3).flat_map(|t| [beginning[which].data.clone(), rows(&ends[which], t)].concat());
                Numbers { rows: 3 * (common + more), width, data: data.collect() }
            });
            run(&store, &whole, &sequences_in_tables(&[common + more; 3]), &mut alone, how);

            let found = run(&on_pages, &queries, &later, &mut forked, how);
            let expected = run(&on_pages, &queries, &later, &mut alone, how);
            assert_eq!(found[0].bits(), expected[0].bits(), "{common} rows and {more}, {how:?}");
        }
    }
}
