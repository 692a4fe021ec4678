//! The product against its naive reference, and against itself cut differently.

use super::*;
use crate::epilogue::tests::{epilogues, followed};
use glassformer_tensor::{Random, Tolerance, compare};

/// How A lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    InRows,
    InColumns,
}

/// A product with its data: rows of A and C are some numbers longer than they need be.
struct Case {
    rows: usize,
    k: usize,
    columns: usize,
    a: Vec<f32>,
    layout: Layout,
    b: Vec<f32>,
    bias: Option<Vec<f32>>,
    c: Vec<f32>,
    begin: Begin,
}

/// What lies between the rows, and must stay as it is.
const GAP: usize = 3;
const UNTOUCHED: f32 = 12345.0;

impl Case {
    fn random(random: &mut Random, rows: usize, k: usize, columns: usize) -> Self {
        let mut numbers = |count: usize| (0..count).map(|_| random.normal()).collect::<Vec<f32>>();
        let (b, bias, c) = (numbers(k * columns), numbers(columns), numbers(rows * (columns + GAP)));
        let a = numbers((rows + GAP) * (k + GAP));
        let bias = Some(bias).filter(|_| random.below(2) == 0);
        let layout = *random.pick(&[Layout::InRows, Layout::InColumns]);
        let begin = *random.pick(&[Begin::Zero, Begin::Existing]);
        let mut case = Self { rows, k, columns, a, layout, b, bias, c, begin };
        for i in 0..rows {
            case.c[i * (columns + GAP) + columns..][..GAP].fill(UNTOUCHED);
        }
        case
    }

    fn matrix(&self) -> Matrix {
        match self.layout {
            Layout::InRows => Matrix::rows(self.a.as_ptr(), self.k + GAP),
            Layout::InColumns => Matrix::transposed(self.a.as_ptr(), self.rows + GAP),
        }
    }

    fn a(&self, i: usize, k: usize) -> f32 {
        let Matrix { row, column, .. } = self.matrix();
        self.a[i * row + k * column]
    }

    /// The naive reference, in `f64`.
    fn expected(&self) -> Vec<f32> {
        let mut c = self.c.clone();
        for i in 0..self.rows {
            for j in 0..self.columns {
                let place = &mut c[i * (self.columns + GAP) + j];
                let begin = if self.begin == Begin::Zero { 0.0 } else { f64::from(*place) };
                let terms =
                    (0..self.k).map(|k| f64::from(self.a(i, k)) * f64::from(self.b[k * self.columns + j]));
                let bias = self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[j]));
                *place = (begin + terms.sum::<f64>() + bias) as f32;
            }
        }
        c
    }

    /// The numerics contract, word for word: one chain of fused multiply-adds.
    fn chained(&self) -> Vec<f32> {
        let mut c = self.c.clone();
        for i in 0..self.rows {
            for j in 0..self.columns {
                let place = &mut c[i * (self.columns + GAP) + j];
                let begin = if self.begin == Begin::Zero { 0.0 } else { *place };
                let chain = |sum: f32, k| self.a(i, k).mul_add(self.b[k * self.columns + j], sum);
                let sum = (0..self.k).fold(begin, chain);
                *place = self.bias.as_ref().map_or(sum, |bias| sum + bias[j]);
            }
        }
        c
    }

    /// Rows `first` to `end` by the kernels, with tiles in a random order; the other rows of C as they were.
    fn found(&self, isa: Isa, rows: (usize, usize), random: &mut Random) -> Vec<f32> {
        self.found_with(isa, rows, Epilogue::default(), random)
    }

    /// The same, and what follows.
    fn found_with(
        &self,
        isa: Isa,
        (first, end): (usize, usize),
        epilogue: Epilogue,
        random: &mut Random,
    ) -> Vec<f32> {
        let packed = Packed::from_rows(&self.b, self.k, self.columns);
        let mut c = self.c.clone();
        let mut a = self.matrix();
        let stride = self.columns + GAP;
        a.start = a.start.wrapping_add(first * a.row);
        let product = Gemm {
            rows: end - first,
            k: self.k,
            columns: self.columns,
            a,
            b: packed.as_ptr(),
            c: c.as_mut_ptr().wrapping_add(first * stride),
            c_stride: stride,
            begin: self.begin,
            epilogue: Epilogue { bias: self.bias.as_ref().map(Vec::as_ptr), ..epilogue },
        };
        let mut scratch = vec![f32::NAN; Gemm::SCRATCH];
        let mut scratch = TileScratch::new(&mut scratch);
        let workers = 1 + random.below(5);
        let mut tiles: Vec<usize> = (0..product.tiles(workers)).collect();
        random.shuffle(&mut tiles);
        for tile in tiles {
            // SAFETY: `isa` is available, and the vectors have the sizes and strides that the product says.
            unsafe { product.run_tile(isa, tile, workers, &mut scratch) };
        }
        c
    }
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn products_agree_with_the_naive_twin() {
    let mut random = Random::new(1);
    let mut shapes: Vec<[usize; 3]> = (0..60).map(|_| [(); 3].map(|()| 1 + random.below(300))).collect();
    // Few rows, more than one tile each way, more than one block of k, no k at all.
    shapes.extend([
        [1, 100, 1000],
        [5, 769, 65],
        [16, 33, 17],
        [130, 5, 400],
        [7, 2000, 40],
        [260, 800, 20],
        [4, 0, 9],
    ]);
    for [rows, k, columns] in shapes {
        let case = Case::random(&mut random, rows, k, columns);
        let expected = case.expected();
        for isa in Isa::available() {
            let found = case.found(isa, (0, rows), &mut random);
            let tolerance = Tolerance { absolute: 1e-6 * (k as f32).max(10.0), relative: 1e-5 };
            if let Err(difference) = compare(&found, &expected, tolerance) {
                let Case { layout, begin, .. } = case;
                panic!("[{rows}, {k}] · [{k}, {columns}], {layout:?}, {begin:?} on {isa}: {difference}");
            }
        }
    }
}

#[test]
fn every_element_is_one_chain_of_fused_steps() {
    let mut random = Random::new(2);
    for [rows, k, columns] in [[1, 50, 100], [17, 900, 70], [150, 801, 33], [3, 1, 1]] {
        let case = Case::random(&mut random, rows, k, columns);
        let expected = bits(&case.chained());
        for isa in Isa::available().into_iter().filter(|&isa| isa != Isa::Scalar) {
            assert!(
                bits(&case.found(isa, (0, rows), &mut random)) == expected,
                "[{rows}, {k}, {columns}] on {isa}"
            );
        }
    }
}

#[test]
fn a_row_alone_has_the_bits_that_it_has_in_a_batch() {
    let mut random = Random::new(3);
    for [k, columns] in [[100, 77], [777, 500], [1600, 64]] {
        let case = Case::random(&mut random, 300, k, columns);
        let stride = columns + GAP;
        for isa in Isa::available() {
            let all = case.found(isa, (0, 300), &mut random);
            for rows in [1, 2, 3, 5, 6, 7, 16, 17, 40] {
                let first = random.below(300 - rows + 1);
                let some = case.found(isa, (first, first + rows), &mut random);
                let range = first * stride..(first + rows) * stride;
                assert!(
                    bits(&some[range.clone()]) == bits(&all[range]),
                    "{rows} rows of [300, {k}, {columns}] on {isa}"
                );
            }
        }
    }
}

#[test]
fn what_follows_has_the_bits_of_a_step_behind() {
    let mut random = Random::new(5);
    for [rows, k, columns] in [[1, 50, 100], [17, 900, 70], [150, 10, 33], [130, 401, 430]] {
        let case = Case::random(&mut random, rows, k, columns);
        let other: Vec<f32> = (0..rows * (columns + 1)).map(|_| random.normal()).collect();
        for isa in Isa::available() {
            let plain = case.found(isa, (0, rows), &mut random);
            for epilogue in epilogues(&other, columns + 1) {
                let found = case.found_with(isa, (0, rows), epilogue, &mut random);
                let expected = followed(isa, &plain, [rows, columns, columns + GAP], &epilogue);
                assert!(bits(&found) == bits(&expected), "[{rows}, {k}, {columns}], {epilogue:?} on {isa}");
            }
        }
    }
}

#[test]
fn weights_and_matrices_pack_alike() {
    let mut random = Random::new(4);
    for [k, columns] in [[1, 1], [5, 16], [64, 100], [33, 47], [100, 31]] {
        let b: Vec<f32> = (0..k * columns).map(|_| random.normal()).collect();
        let weight: Vec<f32> = (0..k * columns).map(|at| b[at % k * columns + at / k]).collect();
        for isa in Isa::available() {
            let pack = |b: Matrix| {
                let mut to = vec![f32::NAN; Packed::len(k, columns)];
                let packing = Packing { k, columns, b, to: to.as_mut_ptr() };
                for part in (0..packing.parts()).rev() {
                    // SAFETY: `isa` is available, and the vectors have the sizes that the packing says.
                    unsafe { packing.run_part(isa, part) };
                }
                to
            };
            let from_rows = pack(Matrix::rows(b.as_ptr(), columns));
            let from_weight = pack(Matrix::transposed(weight.as_ptr(), k));
            for at in 0..Packed::len(k, columns) {
                let first = at / (k * SLIVER * PANEL) * SLIVER * PANEL;
                let width = (columns - first).next_multiple_of(PANEL).min(SLIVER * PANEL);
                let (step, column) = ((at - first * k) / width, (at - first * k) % width);
                let j = first + column;
                let expected = if j < columns { b[step * columns + j] } else { 0.0 };
                assert_eq!(
                    [from_rows[at], from_weight[at]],
                    [expected; 2],
                    "[{k}, {columns}] at {at} on {isa}"
                );
            }
        }
    }
}

#[test]
fn tiles_cover_everything_and_are_never_empty() {
    for (rows, columns) in [(1, 1), (1, 50_000), (17, 768), (125, 1), (127, 385), (1024, 3072), (5000, 16)] {
        let product = Gemm {
            rows,
            k: 1,
            columns,
            a: Matrix::rows(std::ptr::null(), 1),
            b: std::ptr::null(),
            c: std::ptr::null_mut(),
            c_stride: columns,
            begin: Begin::Zero,
            epilogue: Epilogue::default(),
        };
        for workers in [1, 2, 7, 64] {
            let Cut { down, across } = product.cut(workers);
            let eights = rows.div_ceil(EIGHT);
            assert!(
                eights.div_ceil(down) * EIGHT <= ROW_BLOCK,
                "{rows} × {columns} for {workers}: {down} × {across}"
            );
            for (len, count) in [(eights, down), (columns.div_ceil(SLIVER * PANEL), across)] {
                let parts: Vec<_> = (0..count).map(|index| part(len, count, index)).collect();
                assert!(parts.iter().all(|part| !part.is_empty()));
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert_eq!((parts[0].start, parts[count - 1].end), (0, len));
            }
        }
    }
}
