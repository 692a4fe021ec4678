//! Products of low-precision numbers against a naive reference, and against themselves cut differently.

use super::*;
use crate::epilogue::tests::{epilogues, followed};
use crate::epilogue::{Combine, Other};
use crate::isa::Isa;
use crate::lanes::activation::ActivationKind;
use glassformer_tensor::{Buffer, CodedRow, Coding, Random, Tolerance, compare};

mod agreement;
mod cuts;
mod dot;
mod epilogue;
mod reference;
mod weight;

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

    /// C by a reference, which is given a row, a column and the bias.
    fn naive(&self, reference: impl Fn(&[f32], &[f32], Option<f32>) -> f32) -> Vec<f32> {
        let mut c = vec![UNTOUCHED; self.rows * (self.columns + GAP)];
        for i in 0..self.rows {
            for j in 0..self.columns {
                let bias = self.bias.as_ref().map(|bias| bias[j]);
                c[i * (self.columns + GAP) + j] = reference(self.row(i), self.column(j), bias);
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
