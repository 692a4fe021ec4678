//! How near the matrix product comes to what the machine can do:
//! `cargo run --release -p glassformer-cpu --example gemm [rounds] [instruction sets]`.
//!
//! Large products are measured against fused multiply-adds on registers alone, products of few rows against plain
//! reading of as many bytes. Both sides take turns, round by round, and only their ratio in the same round counts:
//! another program, or another virtual machine, may take a share of the core at any moment.

use glassformer_cpu::ceilings;
use glassformer_cpu::epilogue::Epilogue;
use glassformer_cpu::gemm::{Begin, Gemm, Matrix, Packed, Packing};
use glassformer_cpu::isa::Isa;
use glassformer_cpu::team::Team;
use glassformer_tensor::{Buffer, Random};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Instant;

/// rows × k × columns, and how A lies.
const LARGE: [(usize, usize, usize, &str); 6] = [
    (1024, 768, 3072, "feed up, BERT base"),
    (1024, 3072, 768, "feed down"),
    (1024, 768, 768, "attention output"),
    (64, 768, 3072, "a short text"),
    (1000, 512, 50_257, "logits"),
    (3072, 1024, 768, "gradient of a weight (A transposed)"),
];

/// The same for few rows: memory has to give B, and nothing else counts. The first B is larger than any cache.
const FEW: [(usize, usize, usize); 7] = [
    (1, 4096, 16_384),
    (4, 4096, 16_384),
    (8, 4096, 16_384),
    (16, 4096, 16_384),
    (1, 768, 3072),
    (1, 3072, 768),
    (1, 512, 512),
];

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(21);
    let teams = [1, 2].map(|threads| Team::new(NonZeroUsize::new(threads).expect("not zero")));
    let count = std::env::args().nth(2).and_then(|count| count.parse().ok()).unwrap_or(Isa::ALL.len());
    for isa in Isa::available().into_iter().rev().take(count) {
        let rounds = if isa == Isa::Scalar { 3 } else { rounds };
        println!(
            "\n{isa}: share of the multiply-add peak, median of {rounds} rounds (and of the quiet ones)"
        );
        println!("{:>22}  {:>18}  {:>18}  two/one", "rows × k × columns", "1 thread", "2 threads");
        for (rows, k, columns, name) in LARGE {
            let data = Data::new(rows, k, columns, name.contains("transposed"));
            let [one, two] = measure(rounds, &teams, &data, isa, ceilings::multiply_adds);
            let shape = format!("{rows} × {k} × {columns}");
            println!("{shape:>22}  {one}  {two}  {:>7.2}  {name}", two.over(&one));
        }
        println!("{isa}: share of the bandwidth of plain reading");
        for (rows, k, columns) in FEW {
            let data = Data::new(rows, k, columns, false);
            let limit = |isa: Isa, team: &Team| read_rate(isa, team, &data) * rows as f64;
            let [one, two] = measure(rounds, &teams, &data, isa, limit);
            let shape = format!("{rows} × {k} × {columns}");
            let speed = median(one.0.iter().map(|sample| sample.rate)) / rows as f64 * 4.0 / 1e9;
            println!("{shape:>22}  {one}  {two}  {:>7.2}  {speed:.1} GB/s", two.over(&one));
        }
    }
    packing(rounds);
}

/// The matrices of one product.
struct Data {
    product: Gemm,
    packed: Packed,
    _a: Buffer,
    _c: Buffer,
}

impl Data {
    fn new(rows: usize, k: usize, columns: usize, transposed: bool) -> Self {
        let mut random = Random::new(1);
        let mut numbers = |count: usize| {
            let mut buffer = Buffer::zeros(count);
            buffer.fill_with(|| random.uniform() - 0.5);
            buffer
        };
        let (a, b, mut c) = (numbers(rows * k), numbers(k * columns), Buffer::zeros(rows * columns));
        let packed = Packed::from_rows(&b, k, columns);
        let product = Gemm {
            rows,
            k,
            columns,
            a: if transposed { Matrix::transposed(a.as_ptr(), rows) } else { Matrix::rows(a.as_ptr(), k) },
            b: packed.as_ptr(),
            c: c.as_mut_ptr(),
            c_stride: columns,
            begin: Begin::Zero,
            epilogue: Epilogue::default(),
        };
        Self { product, packed, _a: a, _c: c }
    }

    /// The whole product, so many times one after the other.
    fn run(&self, isa: Isa, team: &Team, times: usize) {
        let scratch: Vec<_> = (0..team.size()).map(|_| Mutex::new(Buffer::zeros(Gemm::SCRATCH))).collect();
        team.run(&|worker| {
            let mut scratch = scratch[worker.index].lock().unwrap();
            for _ in 0..times {
                // SAFETY: `isa` is available, and the buffers have the sizes that the product says.
                unsafe { self.product.run(isa, worker, &mut scratch) };
                worker.barrier();
            }
        });
    }
}

/// One round: multiply-adds per second, and how many the limit allowed before and after.
struct Sample {
    rate: f64,
    limits: [f64; 2],
}

impl Sample {
    fn share(&self) -> f64 {
        self.rate / f64::midpoint(self.limits[0], self.limits[1])
    }
}

/// The rounds of one product on one team.
struct Samples(Vec<Sample>);

impl Samples {
    /// How many times faster than another team, round by round.
    fn over(&self, other: &Self) -> f64 {
        median(self.0.iter().zip(&other.0).map(|(a, b)| a.rate / b.rate))
    }
}

impl std::fmt::Display for Samples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Quiet is a round in which the limit was nearly as high before and after as it usually is.
        let usual = median(self.0.iter().flat_map(|sample| sample.limits));
        let quiet =
            |sample: &&Sample| sample.limits.iter().all(|limit| (0.97..1.03).contains(&(limit / usual)));
        let shares = |samples: Vec<&Sample>| 100.0 * median(samples.into_iter().map(Sample::share));
        let all = shares(self.0.iter().collect());
        write!(f, "{all:>6.1} % ({:>5.1} %)", shares(self.0.iter().filter(quiet).collect()))
    }
}

/// The middle one; NaN where there is none.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// One product and its limit in turns, with each team in turn.
fn measure(
    rounds: usize,
    teams: &[Team; 2],
    data: &Data,
    isa: Isa,
    limit: impl Fn(Isa, &Team) -> f64,
) -> [Samples; 2] {
    let Gemm { rows, k, columns, .. } = data.product;
    let steps = (rows * k * columns) as f64;
    // Small products several times, so that waking the team does not count.
    let times = (4e8 / steps).ceil();
    let mut samples = [Samples(Vec::new()), Samples(Vec::new())];
    data.run(isa, &teams[0], 1);
    for _ in 0..rounds {
        for (Samples(samples), team) in samples.iter_mut().zip(teams) {
            let before = limit(isa, team);
            let rate = steps * times / timed(|| data.run(isa, team, times as usize));
            samples.push(Sample { rate, limits: [before, limit(isa, team)] });
        }
    }
    samples
}

fn timed(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

/// Numbers of the packed B read per second.
fn read_rate(isa: Isa, team: &Team, data: &Data) -> f64 {
    let count = Packed::len(data.packed.k(), data.packed.columns());
    // SAFETY: B has that many numbers, and nobody writes it.
    let numbers = unsafe { std::slice::from_raw_parts(data.packed.as_ptr(), count) };
    ceilings::reading(isa, team, numbers, (100_000_000 / count).max(1))
}

/// What packing costs, for weights that change at every step.
fn packing(rounds: usize) {
    let (k, columns) = (768, 3072);
    let (source, mut to) = (Buffer::zeros(k * columns), Buffer::zeros(Packed::len(k, columns)));
    println!("\npacking [{k}, {columns}]");
    for (name, b) in [
        ("from rows", Matrix::rows(source.as_ptr(), columns)),
        ("from a weight", Matrix::transposed(source.as_ptr(), k)),
    ] {
        let packing = Packing { k, columns, b, to: to.as_mut_ptr() };
        let seconds = median((0..rounds).map(|_| {
            timed(|| {
                for part in 0..packing.parts() {
                    // SAFETY: the best set is available, and the buffers have the sizes of the packing.
                    unsafe { packing.run_part(Isa::best(), part) };
                }
            })
        }));
        println!("{name:>22}  {:.2} ns per number", seconds * 1e9 / (k * columns) as f64);
    }
}
