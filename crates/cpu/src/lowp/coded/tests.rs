//! Products of coded weights against their naive reference, and against themselves cut differently.

use super::*;
use glassformer_tensor::{Buffer, CodedRow, Random, Tolerance, compare};

/// Four bits with a half for each 32, as GGUF has them.
const Q4_0: Coding = Coding { bits: Bits::Four, group: 32, base: Base::Offset(8), scales: Scales::Halves };

/// All codings of files that products are done in.
fn codings() -> Vec<Coding> {
    let halves = |bits, base| Coding { bits, group: 32, base, scales: Scales::Halves };
    let steps = |bits, group, base| Coding { bits, group, base, scales: Scales::Steps };
    vec![
        Q4_0,
        halves(Bits::Eight, Base::Offset(128)),
        halves(Bits::Six, Base::Offset(16)),
        halves(Bits::Four, Base::Minimum),
        halves(Bits::Six, Base::Minimum),
        steps(Bits::Four, 16, Base::Minimum),
        steps(Bits::Four, 16, Base::Offset(4)),
        steps(Bits::Four, 32, Base::Minimum),
        steps(Bits::Six, 32, Base::Minimum),
        steps(Bits::Six, 16, Base::Offset(32)),
        steps(Bits::Eight, 32, Base::Offset(128)),
    ]
}

fn random_row(random: &mut Random, coding: Coding, k: usize) -> CodedRow {
    let codes = (0..k).map(|_| random.below(usize::from(coding.most()) + 1) as u8).collect();
    let groups = coding.groups(k);
    let upper = if coding.scales == Scales::Steps { k.div_ceil(SUPER) } else { groups };
    let mut numbers = || (0..upper).map(|_| half(random.normal() * 0.01)).collect::<Vec<f32>>();
    let (scales, minima) = (numbers(), numbers());
    let mut steps = || (0..groups).map(|_| random.below(100) as i8 - 20).collect::<Vec<i8>>();
    let (scale_steps, minimum_steps) = (steps(), steps());
    CodedRow { codes, scales, minima, scale_steps, minimum_steps }
}

fn half(x: f32) -> f32 {
    glassformer_tensor::half::widen(glassformer_tensor::half::round(x))
}

/// What lies between the rows, and must stay as it is.
const GAP: usize = 3;
const UNTOUCHED: f32 = 12345.0;

/// A product with its data.
struct Case {
    coding: Coding,
    rows: usize,
    k: usize,
    columns: usize,
    a: Vec<f32>,
    weight: Vec<CodedRow>,
    bias: Option<Vec<f32>>,
}

impl Case {
    fn random(random: &mut Random, coding: Coding, [rows, k, columns]: [usize; 3]) -> Self {
        let k = if coding.scales == Scales::Steps { k.next_multiple_of(SUPER) } else { k };
        let weight = (0..columns).map(|_| random_row(random, coding, k)).collect();
        let mut numbers = |count: usize| (0..count).map(|_| random.normal()).collect::<Vec<f32>>();
        let (a, bias) = (numbers(rows * (k + GAP)), numbers(columns));
        let bias = Some(bias).filter(|_| random.below(2) == 0);
        Self { coding, rows, k, columns, a, weight, bias }
    }

    /// C as the module's comment writes it, number by number.
    fn naive(&self) -> Vec<f32> {
        let mut c = vec![UNTOUCHED; self.rows * (self.columns + GAP)];
        for i in 0..self.rows {
            let row = &self.a[i * (self.k + GAP)..][..self.k];
            let (mut integers, mut scales) = (Vec::new(), Vec::new());
            for numbers in row.chunks(32) {
                let most = numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
                integers.extend(numbers.iter().map(|x| (x * inverse).round_ties_even() as i32));
                scales.push(most / 127.0);
            }
            for (j, column) in self.weight.iter().enumerate() {
                let sum = self.chain(&integers, &scales, column);
                c[i * (self.columns + GAP) + j] = self.bias.as_ref().map_or(sum, |bias| sum + bias[j]);
            }
        }
        c
    }

    /// The chain over the groups of one row and one column.
    fn chain(&self, integers: &[i32], scales: &[f32], column: &CodedRow) -> f32 {
        let group = self.coding.group;
        let mut total = 0.0_f32;
        for (g, (a, codes)) in integers.chunks(group).zip(column.codes.chunks(group)).enumerate() {
            let of_group = |numbers: &[f32], steps: &[i8]| match self.coding.scales {
                Scales::Steps => numbers[g * group / SUPER] * f32::from(steps[g]),
                Scales::Row | Scales::RowSteps | Scales::Halves => numbers[g],
            };
            let dot = |offset: u8| -> i32 {
                a.iter().zip(codes).map(|(a, &code)| a * (i32::from(code) - i32::from(offset))).sum()
            };
            let of_a = scales[g * group / 32];
            let scale = of_group(&column.scales, &column.scale_steps) * of_a;
            match self.coding.base {
                Base::Offset(offset) => total = scale.mul_add(dot(offset) as f32, total),
                Base::Minimum => {
                    total = scale.mul_add(dot(0) as f32, total);
                    let minimum = of_group(&column.minima, &column.minimum_steps);
                    total = minimum.mul_add(-(a.iter().sum::<i32>() as f32) * of_a, total);
                }
            }
        }
        total
    }

    fn packed(&self) -> Weight {
        let mut weight = Weight::zeros(self.coding, self.k, self.columns);
        for (column, row) in self.weight.iter().enumerate() {
            weight.set_column(column, row);
        }
        weight
    }

    /// Rows `rows` by the kernels, with items in a random order; the other rows of C untouched.
    fn found(
        &self,
        weight: &Weight,
        dot: Dot,
        rows: std::ops::Range<usize>,
        random: &mut Random,
    ) -> Vec<f32> {
        let mut quantized = Buffer::zeros(GroupQuantizer::len(rows.len(), self.k));
        quantized.fill(f32::NAN); // what lies between the parts must not matter
        let quantizer = GroupQuantizer {
            rows: rows.len(),
            k: self.k,
            from: self.a[rows.start * (self.k + GAP)..].as_ptr(),
            stride: self.k + GAP,
            to: quantized.as_mut_ptr(),
        };
        let stride = self.columns + GAP;
        let mut c = vec![UNTOUCHED; self.rows * stride];
        let product = CodedGemm {
            coding: self.coding,
            rows: rows.len(),
            k: self.k,
            columns: self.columns,
            a: quantized.as_ptr(),
            b: weight.as_ptr(),
            c: c[rows.start * stride..].as_mut_ptr(),
            c_stride: stride,
            epilogue: Epilogue { bias: self.bias.as_ref().map(Vec::as_ptr), ..Epilogue::default() },
        };
        let mut items: Vec<usize> = (0..product.items()).collect();
        random.shuffle(&mut items);
        // SAFETY: `dot` is available, and the vectors have the sizes that the descriptions say.
        unsafe {
            for row in 0..rows.len() {
                quantizer.run_row(dot.isa(), row);
            }
            for item in items {
                product.run_item(dot, item);
            }
        }
        c
    }
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

fn agrees(case: &Case, random: &mut Random) {
    let Case { coding, rows, k, columns, .. } = *case;
    let expected = case.naive();
    let weight = case.packed();
    for dot in Dot::available() {
        let found = case.found(&weight, dot, 0..rows, random);
        let what = || format!("[{rows}, {k}, {columns}] in {coding:?} on {dot}");
        if dot == Dot::Scalar {
            // Rounded twice where the others round once.
            let tolerance = Tolerance { absolute: 1e-4, relative: 1e-4 };
            compare(&found, &expected, tolerance).unwrap_or_else(|how| panic!("{}: {how}", what()));
        } else {
            assert!(bits(&found) == bits(&expected), "{}", what());
        }
    }
}

#[test]
fn every_coding_has_the_bits_of_its_naive_twin() {
    let mut random = Random::new(1);
    let fixed = [
        [1, 1, 1],
        [16, 32, 64],
        [9, 64, 65],
        [17, 65, 33],
        [2, 300, 16],
        [3, 0, 5],
        [40, 0, 70],
        [130, 70, 130],
    ];
    for coding in codings() {
        for shape in fixed {
            agrees(&Case::random(&mut random, coding, shape), &mut random);
        }
    }
}

#[test]
fn random_shapes_have_the_bits_of_their_naive_twin() {
    let mut random = Random::new(2);
    let codings = codings();
    for _ in 0..30 {
        let shape = [(); 3].map(|()| 1 + random.below(300));
        let coding = codings[random.below(codings.len())];
        agrees(&Case::random(&mut random, coding, shape), &mut random);
    }
}

#[test]
fn a_row_alone_has_the_bits_that_it_has_in_a_batch() {
    let mut random = Random::new(3);
    for coding in codings() {
        let case = Case::random(&mut random, coding, [140, 512, 70]);
        let (weight, stride) = (case.packed(), 70 + GAP);
        for dot in Dot::available() {
            let all = case.found(&weight, dot, 0..140, &mut random);
            for rows in [1, 2, 5, 15, 16, 17, 40] {
                let first = random.below(140 - rows + 1);
                let some = case.found(&weight, dot, first..first + rows, &mut random);
                let range = first * stride..(first + rows) * stride;
                assert!(
                    bits(&some[range.clone()]) == bits(&all[range]),
                    "{rows} rows in {coding:?} on {dot}"
                );
            }
        }
    }
}

#[test]
fn columns_come_back_as_they_were() {
    let mut random = Random::new(4);
    for coding in codings() {
        let case = Case::random(&mut random, coding, [1, 100, 37]);
        let weight = case.packed();
        for (column, row) in case.weight.iter().enumerate() {
            assert_eq!(bits(&weight.column(column)), bits(&row.decode(&coding)), "{coding:?}");
        }
    }
}

#[test]
fn what_is_not_a_number_stays_so() {
    let mut random = Random::new(5);
    for wrong in [f32::NAN, f32::INFINITY] {
        let mut case = Case::random(&mut random, Q4_0, [3, 70, 20]);
        case.a[(70 + GAP) + 5] = wrong;
        let weight = case.packed();
        for dot in Dot::available() {
            let found = case.found(&weight, dot, 0..3, &mut random);
            let finite =
                |row: usize| found[row * (20 + GAP)..][..20].iter().filter(|x| x.is_finite()).count();
            assert_eq!([0, 1, 2].map(finite), [20, 0, 20], "{wrong} on {dot}");
        }
    }
}
