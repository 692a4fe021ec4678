//! Products of low-precision numbers against their naive twins, and against themselves cut differently.

use super::*;
use crate::epilogue::tests::{epilogues, followed};
use crate::epilogue::{Combine, Other};
use crate::isa::Isa;
use crate::lanes::activation::ActivationKind;
use glassformer_tensor::{Buffer, CodedRow, Coding, Random, Tolerance, compare};

/// A product with its data: rows of A and C are some numbers longer than they need be.
struct Case {
    rows: usize,
    k: usize,
    columns: usize,
    a: Vec<f32>,
    /// `[columns, k]`, as a weight lies.
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

/// What lies between the rows, and must stay as it is.
const GAP: usize = 3;
const UNTOUCHED: f32 = 12345.0;

impl Case {
    fn random(random: &mut Random, rows: usize, k: usize, columns: usize) -> Self {
        let mut numbers = |count: usize| (0..count).map(|_| random.normal()).collect::<Vec<f32>>();
        let (a, weight, bias) = (numbers(rows * (k + GAP)), numbers(k * columns), numbers(columns));
        Self { rows, k, columns, a, weight, bias: Some(bias).filter(|_| random.below(2) == 0) }
    }

    fn row(&self, i: usize) -> &[f32] {
        &self.a[i * (self.k + GAP)..][..self.k]
    }

    fn column(&self, j: usize) -> &[f32] {
        &self.weight[j * self.k..][..self.k]
    }

    /// C by a naive twin, which is given a row, a column and the bias.
    fn naive(&self, twin: impl Fn(&[f32], &[f32], Option<f32>) -> f32) -> Vec<f32> {
        let mut c = vec![UNTOUCHED; self.rows * (self.columns + GAP)];
        for i in 0..self.rows {
            for j in 0..self.columns {
                let bias = self.bias.as_ref().map(|bias| bias[j]);
                c[i * (self.columns + GAP) + j] = twin(self.row(i), self.column(j), bias);
            }
        }
        c
    }

    /// Rows `rows` by the kernels, with items in a random order; the other rows of C untouched.
    fn found(&self, format: Format, dot: Dot, rows: Range<usize>, random: &mut Random) -> Vec<f32> {
        self.found_with((format, dot), rows, Epilogue::default(), random)
    }

    /// The same, and what follows.
    fn found_with(
        &self,
        (format, dot): (Format, Dot),
        rows: Range<usize>,
        epilogue: Epilogue,
        random: &mut Random,
    ) -> Vec<f32> {
        self.found_some((format, dot), (rows, [0, self.columns]), epilogue, random)
    }

    /// The same of some columns.
    fn found_some(
        &self,
        (format, dot): (Format, Dot),
        (rows, some): (Range<usize>, [usize; 2]),
        epilogue: Epilogue,
        random: &mut Random,
    ) -> Vec<f32> {
        let stride = self.columns + GAP;
        let mut c = vec![UNTOUCHED; self.rows * stride];
        let to = (c[rows.start * stride..].as_mut_ptr(), stride, Store::F32);
        // SAFETY: C has room for these rows.
        unsafe { self.multiply((format, dot), (rows, some), epilogue, to, random) };
        c
    }

    /// The same to a C whose rows begin so far apart.
    ///
    /// # Safety
    /// The machine has `dot`, and there is room at C.
    unsafe fn multiply(
        &self,
        (format, dot): (Format, Dot),
        (rows, some): (Range<usize>, [usize; 2]),
        epilogue: Epilogue,
        (c, c_stride, store): (*mut f32, usize, Store),
        random: &mut Random,
    ) {
        let weight = Weight::from_weight(format, &self.weight, self.columns, self.k);
        let mut quantized = Buffer::zeros(RowQuantizer::len(format, rows.len(), self.k));
        // What lies in unused lines must not matter.
        quantized.fill(f32::NAN);
        let quantizer = RowQuantizer {
            format,
            rows: rows.len(),
            k: self.k,
            from: RowSource::F32(self.a[rows.start * (self.k + GAP)..].as_ptr()),
            stride: self.k + GAP,
            to: quantized.as_mut_ptr(),
        };
        let product = LowpGemm {
            format,
            rows: rows.len(),
            k: self.k,
            columns: self.columns,
            some,
            a: quantized.as_ptr(),
            b: weight.as_ptr(),
            c,
            c_stride,
            epilogue: Epilogue { bias: self.bias.as_ref().map(Vec::as_ptr), store, ..epilogue },
        };
        // SAFETY: the caller's promise, and the vectors have the sizes that the descriptions say.
        unsafe {
            for row in 0..rows.len() {
                quantizer.run_row(dot.isa(), row);
            }
            run(&product, dot, random);
        }
    }

    /// C quantized by the kernels, and C as they write it else, quantized afterwards.
    fn found_quantized(
        &self,
        (format, dot): (Format, Dot),
        epilogue: Epilogue,
        random: &mut Random,
    ) -> [Buffer; 2] {
        let (rows, columns, isa) = (self.rows, self.columns, dot.isa());
        let c = self.found_with((format, dot), 0..rows, epilogue, random);
        let weight = Weight::from_weight(format, &self.weight, columns, self.k);
        let mut a = Buffer::zeros(RowQuantizer::len(format, rows, self.k));
        let mut quantized = [(); 2].map(|()| Buffer::zeros(RowQuantizer::len(Format::Bf16, rows, columns)));
        let [found, expected] = &mut quantized;
        let (from, stride) = (RowSource::F32(self.a.as_ptr()), self.k + GAP);
        let of_a = RowQuantizer { format, rows, k: self.k, from, stride, to: a.as_mut_ptr() };
        let (format_of_c, from, stride) = (Format::Bf16, RowSource::F32(c.as_ptr()), columns + GAP);
        let of_c =
            RowQuantizer { format: format_of_c, rows, k: columns, from, stride, to: expected.as_mut_ptr() };
        let product = LowpGemm {
            format,
            rows,
            k: self.k,
            columns,
            some: [0, columns],
            a: a.as_ptr(),
            b: weight.as_ptr(),
            c: std::ptr::null_mut(),
            c_stride: 0,
            epilogue: Epilogue {
                bias: self.bias.as_ref().map(Vec::as_ptr),
                store: Store::Bf16Tiles(found.as_mut_ptr()),
                ..epilogue
            },
        };
        // SAFETY: `dot` is available, and the buffers have the sizes that the descriptions say.
        unsafe {
            for row in 0..rows {
                of_a.run_row(isa, row);
                of_c.run_row(isa, row);
            }
            run(&product, dot, random);
        }
        quantized
    }
}

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

/// All items, in a random order.
///
/// # Safety
/// As for [`LowpGemm::run_item`].
unsafe fn run(product: &LowpGemm, dot: Dot, random: &mut Random) {
    let workers = 1 + random.below(3);
    let mut items: Vec<usize> = (0..product.items(dot, workers)).collect();
    random.shuffle(&mut items);
    for item in items {
        // SAFETY: the caller's promise.
        unsafe { LowpGemm::run_item(&[*product], dot, item, workers) };
    }
}

/// What may follow products of this format. Only those in `bf16` are trained.
fn epilogues_of(format: Format, other: &[f32], stride: usize) -> Vec<Epilogue> {
    let fits =
        |epilogue: &Epilogue| format == Format::Bf16 || !matches!(epilogue.combine, Combine::Derivative(..));
    epilogues(other, stride).into_iter().filter(fits).collect()
}

/// The nearest `bf16`, in `f32`, by trying both neighbours.
fn rounded(x: f32) -> f32 {
    let below = f32::from_bits(x.to_bits() & 0xffff_0000);
    let above = f32::from_bits((x.to_bits() & 0xffff_0000) + 0x1_0000);
    let (down, up) = ((x - below).abs(), (above - x).abs());
    let even = below.to_bits() & 0x1_0000 == 0;
    if down < up || down == up && even { below } else { above }
}

/// The twin of `bf16`, in `f64`.
fn twin_bf16(row: &[f32], column: &[f32], bias: Option<f32>) -> f32 {
    let terms = row.iter().zip(column).map(|(&a, &b)| f64::from(rounded(a)) * f64::from(rounded(b)));
    (terms.sum::<f64>() + f64::from(bias.unwrap_or(0.0))) as f32
}

/// What AMX does, number by number: even and odd steps of a tile apart.
fn twin_amx(row: &[f32], column: &[f32], bias: Option<f32>) -> f32 {
    let mut sum = 0.0_f32;
    for (a, b) in row.chunks(32).zip(column.chunks(32)) {
        let of = |parity: usize| {
            let terms = a.iter().zip(b).skip(parity).step_by(2);
            terms.fold(0.0_f32, |sum, (&a, &b)| rounded(a).mul_add(rounded(b), sum))
        };
        sum += of(0) + of(1);
    }
    bias.map_or(sum, |bias| sum + bias)
}

/// The twin of integers, to the bit: a scale for the column, and one for each block of the row.
fn twin_int8(row: &[f32], column: &[f32], bias: Option<f32>) -> f32 {
    twin_integers(row, integers(column), bias)
}

/// The same with a column in four bits.
fn twin_int4(row: &[f32], column: &[f32], bias: Option<f32>) -> f32 {
    let mut coded = CodedRow::default();
    Coding::INT4.encode(column, &mut coded);
    let integer = |(at, &code): (usize, &u8)| (i64::from(code) - 8) * i64::from(coded.scale_steps[at / 16]);
    twin_integers(row, (coded.codes.iter().enumerate().map(integer).collect(), coded.scales[0]), bias)
}

/// Numbers as integers with one scale.
fn integers(numbers: &[f32]) -> (Vec<i64>, f32) {
    let most = numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
    let integers = numbers.iter().map(|x| (x * inverse).round_ties_even() as i64);
    (integers.collect(), most / 127.0)
}

/// Rows of some lengths are rounded to `bf16` first.
fn twin_integers(row: &[f32], (b, scale_b): (Vec<i64>, f32), bias: Option<f32>) -> f32 {
    let rounds = (2049..=4096).contains(&row.len());
    let row: Vec<f32> = row.iter().map(|&x| if rounds { rounded(x) } else { x }).collect();
    let tiles = row.len().div_ceil(64).max(1);
    let blocks = tiles.div_ceil(16);
    let mut c = bias.unwrap_or(-0.0);
    for block in 0..blocks {
        let start = |block: usize| row.len().min(64 * (tiles * block / blocks));
        let some = start(block)..start(block + 1);
        let (a, scale_a) = integers(&row[some.clone()]);
        let sum: i64 = a.iter().zip(&b[some]).map(|(a, b)| a * b).sum();
        c = (sum as f32).mul_add(scale_a * scale_b, c);
    }
    c
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

fn shapes(random: &mut Random, count: usize) -> Vec<[usize; 3]> {
    let fixed = [[1, 1, 1], [16, 32, 64], [32, 64, 64], [33, 65, 65], [17, 1, 300], [300, 300, 1], [3, 0, 5]];
    let mut shapes = fixed.to_vec();
    shapes.extend((0..count).map(|_| [(); 3].map(|()| 1 + random.below(300))));
    // More than one block of k, and more than one item each way.
    shapes.extend([[50, 1500, 70], [270, 70, 600], [5, 2100, 130], [3, 4200, 70]]);
    shapes
}

#[test]
fn integers_have_the_bits_of_their_naive_twin_everywhere() {
    let mut random = Random::new(1);
    for [rows, k, columns] in shapes(&mut random, 40) {
        let case = Case::random(&mut random, rows, k, columns);
        let expected = [(Format::Int8, case.naive(twin_int8)), (Format::Int4, case.naive(twin_int4))];
        for (format, expected) in expected {
            let expected = bits(&expected);
            for dot in Dot::available() {
                let found = case.found(format, dot, 0..rows, &mut random);
                assert!(bits(&found) == expected, "[{rows}, {k}, {columns}] in {format:?} on {dot}");
            }
        }
    }
}

#[test]
fn sums_of_the_largest_integers_are_held() {
    let mut random = Random::new(18);
    // What is added up in sixteen bits on the way is largest where all have the same sign, or A has another than B.
    for [a, b] in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
        for rows in [1, 2, 3, 4, 6, 8, 12, 16, 37] {
            let mut case = Case::random(&mut random, rows, 1100, 70);
            case.a.fill(a);
            case.weight.fill(b);
            let expected = [(Format::Int8, case.naive(twin_int8)), (Format::Int4, case.naive(twin_int4))];
            for (format, expected) in expected {
                for dot in Dot::available() {
                    let found = case.found(format, dot, 0..rows, &mut random);
                    assert!(
                        bits(&found) == bits(&expected),
                        "{rows} rows of {a} by {b}, {format:?} on {dot}"
                    );
                }
            }
        }
    }
}

#[test]
fn bf16_agrees_with_its_naive_twin() {
    let mut random = Random::new(2);
    for [rows, k, columns] in shapes(&mut random, 40) {
        let case = Case::random(&mut random, rows, k, columns);
        let expected = case.naive(twin_bf16);
        let tolerance = Tolerance { absolute: 1e-5 * (k as f32).sqrt().max(1.0), relative: 1e-5 };
        for dot in Dot::available() {
            let found = case.found(Format::Bf16, dot, 0..rows, &mut random);
            if let Err(difference) = compare(&found, &expected, tolerance) {
                panic!("[{rows}, {k}, {columns}] on {dot}: {difference}");
            }
        }
    }
}

#[test]
fn amx_adds_even_and_odd_steps_of_a_tile_apart() {
    if !Dot::Amx.is_available() {
        return;
    }
    let mut random = Random::new(3);
    for [rows, k, columns] in [[1, 50, 100], [17, 900, 70], [150, 801, 33]] {
        let case = Case::random(&mut random, rows, k, columns);
        let found = case.found(Format::Bf16, Dot::Amx, 0..rows, &mut random);
        assert!(bits(&found) == bits(&case.naive(twin_amx)), "[{rows}, {k}, {columns}]");
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
fn what_follows_has_the_bits_of_a_step_behind() {
    let mut random = Random::new(7);
    for [rows, k, columns] in [[1, 50, 100], [17, 900, 70], [150, 10, 33], [50, 1500, 430]] {
        let case = Case::random(&mut random, rows, k, columns);
        let other: Vec<f32> = (0..rows * (columns + 1)).map(|_| random.normal()).collect();
        for (format, dot) in
            Format::ALL.into_iter().flat_map(|f| Dot::available().into_iter().map(move |d| (f, d)))
        {
            let plain = case.found(format, dot, 0..rows, &mut random);
            for epilogue in epilogues_of(format, &other, columns + 1) {
                let found = case.found_with((format, dot), 0..rows, epilogue, &mut random);
                let expected = followed(dot.isa(), &plain, [rows, columns, columns + GAP], &epilogue);
                assert!(
                    bits(&found) == bits(&expected),
                    "[{rows}, {k}, {columns}], {epilogue:?}, {format:?} on {dot}"
                );
            }
        }
    }
}

#[test]
fn a_bf16_c_is_what_quantizing_makes_of_it() {
    let mut random = Random::new(8);
    for [rows, k, columns] in shapes(&mut random, 12) {
        let case = Case::random(&mut random, rows, k, columns);
        let other: Vec<f32> = (0..rows * columns).map(|_| random.normal()).collect();
        for dot in Dot::available() {
            let epilogue = *random.pick(&epilogues(&other, columns));
            let [found, expected] = case.found_quantized((Format::Bf16, dot), epilogue, &mut random);
            assert!(bits(&found) == bits(&expected), "[{rows}, {k}, {columns}], {epilogue:?} on {dot}");
        }
    }
}

#[test]
fn what_is_kept_is_what_quantizing_makes_of_a_product() {
    let mut random = Random::new(9);
    for [rows, k, columns] in shapes(&mut random, 12) {
        // What is kept has anything behind its last column.
        let columns = columns.next_multiple_of(32);
        let case = Case::random(&mut random, rows, k, columns);
        for dot in Dot::available() {
            let mut kept = Buffer::zeros(RowQuantizer::len(Format::Bf16, rows, columns));
            let activate = Epilogue { activation: Some(ActivationKind::GeluTanh), ..Epilogue::default() };
            let keep = Epilogue { keep: Some(kept.as_mut_ptr()), ..activate };
            let [found, expected] = [keep, activate]
                .map(|epilogue| case.found_quantized((Format::Bf16, dot), epilogue, &mut random));
            let [plain, _] = case.found_quantized((Format::Bf16, dot), Epilogue::default(), &mut random);
            let about = format!("[{rows}, {k}, {columns}] on {dot}");
            assert!(bits(&found[0]) == bits(&expected[0]) && bits(&kept) == bits(&plain), "{about}");
        }
    }
}

#[test]
fn derivatives_of_kept_numbers_are_those_of_rounded_numbers() {
    let mut random = Random::new(10);
    for [rows, k, columns] in shapes(&mut random, 12) {
        let case = Case::random(&mut random, rows, k, columns);
        let other: Vec<f32> = (0..rows * columns).map(|_| rounded(random.normal())).collect();
        let mut quantized = Buffer::zeros(RowQuantizer::len(Format::Bf16, rows, columns));
        let (from, to) = (RowSource::F32(other.as_ptr()), quantized.as_mut_ptr());
        let quantizer = RowQuantizer { format: Format::Bf16, rows, k: columns, from, stride: columns, to };
        // SAFETY: every machine has this set, and the buffers are as long as the quantizer says.
        (0..rows).for_each(|row| unsafe { quantizer.run_row(Isa::Scalar, row) });
        for dot in Dot::available() {
            let act = ActivationKind::NearGeluTanh;
            let of_f32 = Combine::Derivative(act, Other { start: other.as_ptr(), stride: columns });
            let [expected, found] = [of_f32, Combine::DerivativeBf16(act, quantized.as_ptr())]
                .map(|combine| Epilogue { combine, ..Epilogue::default() })
                .map(|epilogue| bits(&case.found_with((Format::Bf16, dot), 0..rows, epilogue, &mut random)));
            assert!(found == expected, "[{rows}, {k}, {columns}] on {dot}");
        }
    }
}

#[test]
fn weights_and_matrices_are_laid_out_alike() {
    let mut random = Random::new(5);
    for [k, columns] in [[1, 1], [64, 100], [33, 47], [100, 31]] {
        let b: Vec<f32> = (0..k * columns).map(|_| random.normal()).collect();
        let weight: Vec<f32> = (0..k * columns).map(|at| b[at % k * columns + at / k]).collect();
        for format in Format::ALL {
            let data = |weight: Weight| {
                // SAFETY: a weight is that long.
                bits(unsafe { std::slice::from_raw_parts(weight.as_ptr(), Weight::len(format, k, columns)) })
            };
            let from_rows = data(Weight::from_rows(format, &b, k, columns));
            assert!(from_rows == data(Weight::from_weight(format, &weight, columns, k)), "[{k}, {columns}]");
        }
    }
}

#[test]
fn stored_integers_are_laid_out_as_quantized_numbers_are() {
    let mut random = Random::new(8);
    let mut shapes = vec![[1, 1], [64, 16], [63, 15], [65, 17], [300, 64]];
    shapes.extend((0..20).map(|_| [1 + random.below(300), 1 + random.below(100)]));
    for [k, columns] in shapes {
        let numbers: Vec<f32> = (0..k * columns).map(|_| random.normal()).collect();
        let (mut row, mut bytes, mut scales) = (CodedRow::default(), Vec::new(), Vec::new());
        for numbers in numbers.chunks(k) {
            Coding::INT8.encode(numbers, &mut row);
            bytes.extend(row.codes.iter().map(|code| code ^ 128));
            scales.extend_from_slice(&row.scales);
        }
        let quantized = Weight::from_weight(Format::Int8, &numbers, columns, k);
        let stored = Weight::from_integers(&bytes, &scales, k).expect("none is -128");
        let data = |weight: &Weight| {
            // SAFETY: a weight is that long.
            bits(unsafe {
                std::slice::from_raw_parts(weight.as_ptr(), Weight::len(Format::Int8, k, columns))
            })
        };
        assert!(data(&quantized) == data(&stored), "[{k}, {columns}]");
        let column = random.below(columns);
        let mut found = vec![0.0; k];
        // SAFETY: it is a weight of so many columns, each of k numbers.
        unsafe { Weight::decode(stored.as_ptr(), columns, column, &mut found) };
        let integers = &bytes[column * k..][..k];
        let expected: Vec<f32> =
            integers.iter().map(|byte| scales[column] * f32::from(byte.cast_signed())).collect();
        assert!(bits(&found) == bits(&expected), "column {column} of [{k}, {columns}]");
        bytes[0] = 0x80;
        assert!(Weight::from_integers(&bytes, &scales, k).is_none(), "-128 is no integer of ours");
    }
}

#[test]
fn what_is_not_a_number_stays_so() {
    for wrong in [f32::NAN, f32::INFINITY, f32::from_bits(0x7fff_ffff)] {
        let mut random = Random::new(6);
        let mut case = Case::random(&mut random, 3, 70, 20);
        case.a[(70 + GAP) + 5] = wrong;
        for format in Format::ALL {
            for dot in Dot::available() {
                let found = case.found(format, dot, 0..3, &mut random);
                let finite =
                    |row: usize| found[row * (20 + GAP)..][..20].iter().filter(|x| x.is_finite()).count();
                assert_eq!([0, 1, 2].map(finite), [20, 0, 20], "{wrong} in {format:?} on {dot}");
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

#[test]
fn each_instruction_set_has_its_best_instructions() {
    for isa in Isa::available() {
        let dot = Dot::best(isa);
        assert!(dot.is_available() && dot.isa() <= isa);
        assert!(Dot::available().into_iter().filter(|other| other.isa() <= isa).all(|other| other <= dot));
    }
}
