//! A product has the same bits however it is cut and wherever it is written.

use super::epilogue::epilogues_of;
use super::*;

#[test]
fn what_goes_past_the_caches_has_the_same_bits() {
    let mut random = Random::new(77);
    for (rows, k, columns) in [(70, 100, 130), (33, 1100, 192), (300, 2100, 64), (5, 64, 100)] {
        let case = Case::random(&mut random, rows, k, columns);
        for format in Format::ALL {
            for dot in Dot::available() {
                let expected = case.found(format, dot, 0..rows, &mut random);
                // Rows begin with lines, as they must where they are to go past the caches, and behind them there is room.
                let stride = columns.next_multiple_of(LINES) + LINES;
                let mut c = Buffer::zeros(rows * stride);
                c.fill(UNTOUCHED);
                let (all, to) = ((0..rows, [0, columns]), (c.as_mut_ptr(), stride, Store::Streaming));
                // SAFETY: `dot` is available, and C has room for these rows.
                unsafe { case.multiply((format, dot), all, Epilogue::default(), to, &mut random) };
                for (row, expected) in expected.chunks_exact(columns + GAP).enumerate() {
                    let (found, rest) = c[row * stride..][..stride].split_at(columns);
                    assert_eq!(found, &expected[..columns], "row {row} of {format:?} on {dot}");
                    assert!(rest.iter().all(|&x| x == UNTOUCHED), "behind row {row} of {format:?} on {dot}");
                }
            }
        }
    }
}

#[test]
fn a_row_alone_has_the_bits_that_it_has_in_a_batch() {
    let mut random = Random::new(4);
    for [k, columns] in [[100, 77], [777, 500], [1600, 64]] {
        let case = Case::random(&mut random, 300, k, columns);
        let stride = columns + GAP;
        for (format, dot) in
            Format::ALL.into_iter().flat_map(|f| Dot::available().into_iter().map(move |d| (f, d)))
        {
            let all = case.found(format, dot, 0..300, &mut random);
            for rows in [1, 2, 3, 5, 15, 16, 17, 31, 33, 40] {
                let first = random.below(300 - rows + 1);
                let some = case.found(format, dot, first..first + rows, &mut random);
                let range = first * stride..(first + rows) * stride;
                assert!(
                    bits(&some[range.clone()]) == bits(&all[range]),
                    "{rows} rows of [300, {k}, {columns}] in {format:?} on {dot}"
                );
            }
        }
    }
}

#[test]
fn some_columns_have_the_bits_that_they_have_among_all() {
    let mut random = Random::new(9);
    for [rows, k, columns] in [[1, 100, 200], [40, 1500, 300], [270, 70, 600]] {
        let case = Case::random(&mut random, rows, k, columns);
        let other: Vec<f32> = (0..rows * columns).map(|_| random.normal()).collect();
        let from = UNIT * (1 + random.below(columns / UNIT - 1));
        let to = columns.min(from + UNIT * (1 + random.below(4)));
        for (format, dot) in
            Format::ALL.into_iter().flat_map(|f| Dot::available().into_iter().map(move |d| (f, d)))
        {
            let epilogue = *random.pick(&epilogues_of(format, &other, columns));
            let all = case.found_with((format, dot), 0..rows, epilogue, &mut random);
            let some = case.found_some((format, dot), (0..rows, [from, to]), epilogue, &mut random);
            for (row, (all, some)) in all.chunks(columns + GAP).zip(some.chunks(columns + GAP)).enumerate() {
                let message =
                    format!("row {row} of [{rows}, {k}, {columns}], {epilogue:?}, {format:?} on {dot}");
                assert!(bits(&all[from..to]) == bits(&some[from..to]), "{message}");
                let rest = some[..from].iter().chain(&some[to..]);
                assert!(rest.into_iter().all(|&x| x == UNTOUCHED), "{message}");
            }
        }
    }
}

#[test]
fn items_cover_everything_and_are_never_empty() {
    for (rows, columns) in [(1, 1), (1, 50_000), (17, 768), (125, 1), (127, 385), (1024, 3072), (5000, 16)] {
        let product = LowpGemm {
            format: Format::Bf16,
            rows,
            k: 1,
            columns,
            some: [0, columns],
            a: std::ptr::null(),
            b: std::ptr::null(),
            c: std::ptr::null_mut(),
            c_stride: columns,
            epilogue: Epilogue::default(),
        };
        for Cut { down, across } in [Dot::Scalar, Dot::Amx]
            .into_iter()
            .flat_map(|dot| [1, 2].map(|workers| product.cut(dot, workers)))
        {
            for (len, count) in [(rows.div_ceil(2 * LINES), down), (columns.div_ceil(UNIT), across)] {
                let parts: Vec<_> = (0..count).map(|index| part(len, count, index)).collect();
                assert!(parts.iter().all(|part| !part.is_empty()));
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert_eq!((parts[0].start, parts[count - 1].end), (0, len));
            }
        }
        for workers in [1, 2, 3, 7] {
            let parts: Vec<[usize; 2]> =
                (0..workers).map(|index| product.part_of(index, workers).some).collect();
            assert!(parts.windows(2).all(|pair| pair[0][1] == pair[1][0]), "{parts:?}");
            assert_eq!((parts[0][0], parts[workers - 1][1]), (0, columns), "{parts:?}");
        }
    }
}
