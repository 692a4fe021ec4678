//! How near products of low-precision numbers come to what the machine can do:
//! `cargo run --release -p glassformer-cpu --example precision [rounds] [kinds of instructions]`.
//!
//! Large products are measured against tiles multiplied in registers alone, where there is AMX; products of few rows
//! against plain reading of as many bytes. Both take turns, round by round: the machine may be shared with others.

use glassformer_cpu::ceilings;
use glassformer_cpu::epilogue::Epilogue;
use glassformer_cpu::isa::Isa;
use glassformer_cpu::lowp::{Dot, Format, LowpGemm, RowQuantizer, RowSource, Weight};
use glassformer_cpu::team::Team;
use glassformer_tensor::{Buffer, Random};
use std::num::NonZeroUsize;
use std::time::Instant;

/// rows × k × columns.
const LARGE: [(usize, usize, usize); 10] = [
    (128, 768, 768),
    (128, 768, 3072),
    (128, 3072, 768),
    (1024, 768, 768),
    (1024, 768, 3072),
    (1024, 3072, 768),
    (4096, 768, 768),
    (4096, 768, 3072),
    (4096, 3072, 768),
    (128, 384, 1536),
];

/// The same for few rows: memory has to give B. The first B is larger than any cache of a core.
const FEW: [(usize, usize, usize); 7] = [
    (1, 4096, 32_768),
    (4, 4096, 32_768),
    (16, 4096, 32_768),
    (1, 768, 3072),
    (1, 3072, 768),
    (1, 768, 768),
    (8, 768, 3072),
];

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().ok());
    let rounds = arguments.next().flatten().unwrap_or(11);
    let kinds = arguments.next().flatten().unwrap_or(2);
    let teams = [1, 2].map(|threads| Team::new(NonZeroUsize::new(threads).expect("not zero")));
    for dot in Dot::available().into_iter().rev().take(kinds) {
        for format in Format::ALL {
            println!("\n{format:?} on {dot}: median of {rounds} rounds, with the quantization of A");
            println!("{:>20}  {:>26}  {:>26}  two/one", "rows × k × columns", "1 thread", "2 threads");
            for shape in LARGE {
                let limit =
                    |team: &Team| ceilings::lowp(dot, format, team).map_or(f64::NAN, |rate| rate / 1e12);
                report(rounds, &teams, dot, &Data::new(format, shape), "TOP/s", limit);
            }
            for shape in FEW {
                let data = Data::new(format, shape);
                report(rounds, &teams, dot, &data, "GB/s", |team| read_rate(team, &data));
            }
        }
    }
}

/// One line: speed, and its share of the limit.
fn report(rounds: usize, teams: &[Team; 2], dot: Dot, data: &Data, unit: &str, limit: impl Fn(&Team) -> f64) {
    let (rows, k, columns) = data.shape;
    let work =
        if unit == "GB/s" { data.bytes() as f64 / 1e9 } else { (2 * rows * k * columns) as f64 / 1e12 };
    let seconds = (rows * k * columns) as f64 / 5e11 + data.bytes() as f64 / 2e10;
    let times = (4e-3 / seconds).ceil().max(1.0);
    let mut rates = [Vec::new(), Vec::new()];
    let mut shares = [Vec::new(), Vec::new()];
    data.run(dot, &teams[0], 1);
    for _ in 0..rounds {
        for ((rates, shares), team) in rates.iter_mut().zip(&mut shares).zip(teams) {
            let limit_before = limit(team);
            let rate = work * times / timed(|| data.run(dot, team, times as usize));
            rates.push(rate);
            shares.push(rate / limit_before.max(limit(team)));
        }
    }
    let ratio = median(rates[0].iter().zip(&rates[1]).map(|(one, two)| two / one));
    let show = |rates: &[f64], shares: &[f64]| {
        let best = rates.iter().copied().fold(0.0, f64::max);
        let (rate, share) = (median(rates.iter().copied()), median(shares.iter().copied()));
        format!("{rate:>6.2} (best {best:>6.2}) {:>5.1} %", 100.0 * share)
    };
    let shape = format!("{rows} × {k} × {columns}");
    let [one, two] = [0, 1].map(|team| show(&rates[team], &shares[team]));
    println!("{shape:>20}  {one}  {two}  {ratio:>7.2}  {unit}");
}

/// The matrices of one product.
struct Data {
    shape: (usize, usize, usize),
    weight: Weight,
    quantizer: RowQuantizer,
    product: LowpGemm,
    _buffers: [Buffer; 3],
}

impl Data {
    fn new(format: Format, (rows, k, columns): (usize, usize, usize)) -> Self {
        let mut random = Random::new(1);
        let mut numbers = |count: usize| {
            let mut buffer = Buffer::zeros(count);
            buffer.fill_with(|| random.uniform() - 0.5);
            buffer
        };
        let (a, b) = (numbers(rows * k), numbers(k * columns));
        let (mut quantized, mut c) =
            (Buffer::zeros(RowQuantizer::len(format, rows, k)), Buffer::zeros(rows * columns));
        let weight = Weight::from_weight(format, &b, columns, k);
        let quantizer = RowQuantizer {
            format,
            rows,
            k,
            from: RowSource::F32(a.as_ptr()),
            stride: k,
            to: quantized.as_mut_ptr(),
        };
        let product = LowpGemm {
            format,
            rows,
            k,
            columns,
            some: [0, columns],
            a: quantized.as_ptr(),
            b: weight.as_ptr(),
            c: c.as_mut_ptr(),
            c_stride: columns,
            epilogue: Epilogue::default(),
        };
        Self { shape: (rows, k, columns), weight, quantizer, product, _buffers: [a, quantized, c] }
    }

    /// Bytes of B.
    fn bytes(&self) -> usize {
        4 * Weight::len(self.weight.format(), self.weight.k(), self.weight.columns())
    }

    /// The whole product, so many times one after the other.
    fn run(&self, dot: Dot, team: &Team, times: usize) {
        team.run(&|worker| {
            for _ in 0..times {
                // SAFETY: `dot` is available, and the buffers have the sizes that the descriptions say.
                unsafe {
                    worker.share(self.quantizer.rows.div_ceil(16), |part| {
                        for row in 16 * part..self.quantizer.rows.min(16 * part + 16) {
                            self.quantizer.run_row(dot.isa(), row);
                        }
                    });
                    worker.barrier();
                    let workers = worker.count;
                    worker.share(self.product.items(dot, workers), |item| {
                        LowpGemm::run_item(&[self.product], dot, item, workers);
                    });
                    worker.barrier();
                }
            }
        });
    }
}

/// The middle one; NaN where there is none.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

fn timed(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

/// Billions of bytes of the weight read per second.
fn read_rate(team: &Team, data: &Data) -> f64 {
    // SAFETY: the weight has that many bytes, and nobody writes it.
    let numbers = unsafe { std::slice::from_raw_parts(data.weight.as_ptr(), data.bytes() / 4) };
    let times = (100_000_000 / data.bytes()).max(1);
    4.0 * ceilings::reading(Isa::best(), team, numbers, times) / 1e9
}
