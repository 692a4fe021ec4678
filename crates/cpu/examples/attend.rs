//! How near attention and its gradient come to what the machine can do:
//! `cargo run --release -p glassformer-cpu --example attend [rounds]`.
//!
//! A graph of the one operation is planned and run as any other; its inputs are copied in, which takes some percent.
//! Multiply-adds on registers alone take turns with it, round by round, and the share is that of the same round:
//! another program, or another virtual machine, may take some of the core at any moment. Only the products are counted,
//! 4 · pairs · size forwards and 10 · pairs · size backwards; the exponentials come on top.
#![allow(clippy::inline_always)] // the first rule of `lanes`

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use glassformer_cpu::isa::Isa;
use glassformer_cpu::lanes::Lanes;
use glassformer_cpu::{Cpu, dispatch};
use glassformer_graph::Precision;
use glassformer_graph::ops::{Attend, AttendGrad, Keys, Pattern, Reach, Relative, Store, Which, Who};
use glassformer_graph::{
    Backend, Batch, Builder, Capacity, Error, PageLayout, Pages, Rows, Runner, Shape, Side, Slot, Span, State,
};
use glassformer_tensor::{Random, Tensor};

fn main() -> Result<(), Error> {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(101);
    let dense = attention(1, 1, 64);
    let past = Attend { reach: Reach::Past, ..dense };
    let wide = Isa::available().into_iter().rev().map(|isa| (isa, Precision::F32));
    for (isa, precision) in [(Isa::best(), Precision::Bf16)].into_iter().chain(wide) {
        println!(
            "\n{isa}, {precision:?}, one thread, best of {rounds} rounds, and its share of the multiply-add peak"
        );
        println!("{:>34}  {:>24}  {:>24}", "", "forwards", "backwards");
        for (name, op, length) in [
            ("512 × 512, size 64", dense, 512),
            ("512 × 512, size 32", attention(1, 1, 32), 512),
            ("512 × 512, size 128", attention(1, 1, 128), 512),
            ("128 × 128, 12 heads", attention(12, 12, 64), 128),
            ("512, looking back", past, 512),
            ("512, looking back, 4 heads a key", Attend { reach: Reach::Past, ..attention(4, 1, 64) }, 512),
            ("512, buckets", Attend { relative: Relative::Buckets { max_distance: 128 }, ..dense }, 512),
            ("512, Transformer-XL", Attend { relative: Relative::TransformerXl, ..past }, 512),
            ("2048, window of 128", Attend { pattern: Pattern::Window(128), ..dense }, 2048),
            ("20 × 20", dense, 20),
        ] {
            let forwards = Measured::of((isa, precision), rounds, &Task::forwards(op, length)?)?;
            let backwards = Measured::of((isa, precision), rounds, &Task::backwards(op, length)?)?;
            println!("{name:>34}  {forwards}  {backwards}");
        }
        for (name, op) in [("8 heads", attention(8, 8, 64)), ("32 heads on 8", attention(32, 8, 64))] {
            let decode = Measured::of(
                (isa, precision),
                rounds,
                &Task::decode(Attend { reach: Reach::Past, ..op }, 1000)?,
            )?;
            println!("{:>34}  {decode}", format!("one row, 1000 stored, {name}"));
        }
    }
    Ok(())
}

fn attention(heads: usize, key_heads: usize, size: usize) -> Attend {
    Attend {
        side: Side::Target,
        heads,
        key_heads,
        size,
        scale: 1.0 / (size as f32).sqrt(),
        reach: Reach::Both,
        pattern: Pattern::Dense,
        who: Who::Every,
        relative: Relative::None,
        keys: Keys::Rows(Rows::Tokens(Side::Target)),
    }
}

/// A graph with its inputs, and how many multiplications and additions it takes.
struct Task {
    graph: Arc<glassformer_graph::Graph>,
    batch: Batch<'static>,
    pages: Option<(Slot, usize)>,
    operations: f64,
}

/// The shapes of the inputs of `op`.
fn shapes(op: &Attend) -> Vec<Shape> {
    let row = |width| Shape::new(Rows::Tokens(Side::Target), width);
    let (width, keys) = (op.heads * op.size, op.key_heads * op.size);
    let mut shapes = vec![row(width), row(keys), row(keys)];
    match op.relative {
        Relative::None | Relative::Alibi => {}
        Relative::Buckets { .. } => shapes.push(Shape::fixed(32, op.heads)),
        Relative::TransformerXl => shapes.extend([
            Shape::new(Rows::Distances(Side::Target), width),
            Shape::fixed(1, width),
            Shape::fixed(1, width),
        ]),
    }
    shapes
}

/// Query and key pairs, counted by [`Attend::sees`].
fn pairs(op: &Attend, length: usize) -> f64 {
    let sees = |i: usize| (0..length).filter(|&j| op.sees(i, j, false)).count();
    ((0..length).map(sees).sum::<usize>() * op.heads) as f64
}

impl Task {
    fn forwards(op: Attend, length: usize) -> Result<Self, Error> {
        let mut build = Builder::new();
        let inputs = inputs(&mut build, &shapes(&op))?;
        let made = build.add_all("attend", op, &inputs)?;
        build.output("y", made[0]);
        Ok(Self::new(build, (length, Span::default()), 4.0 * pairs(&op, length) * op.size as f64))
    }

    fn backwards(op: Attend, length: usize) -> Result<Self, Error> {
        let mut build = Builder::new();
        let given = inputs(&mut build, &shapes(&op))?;
        let made = build.add_all("attend", op, &given)?;
        let all: Vec<_> = given.iter().copied().chain([made[0], made[1], given[0]]).collect();
        for (k, grad) in build.add_all("grad", AttendGrad { attend: op }, &all)?.into_iter().enumerate() {
            build.output(&format!("grad.{k}"), grad);
        }
        // The forward pass runs along.
        Ok(Self::new(build, (length, Span::default()), 14.0 * pairs(&op, length) * op.size as f64))
    }

    fn decode(op: Attend, stored: usize) -> Result<Self, Error> {
        let slot = Slot { heads: op.key_heads, size: op.size };
        let mut build = Builder::new();
        let given = inputs(&mut build, &shapes(&op))?;
        let store = Store { side: op.side, pages: Which::Cache, slot: 0, heads: slot };
        build.add_all("store", store, &given[1..3])?;
        let op = Attend { keys: Keys::Pages(Which::Cache, 0), ..op };
        let made = build.add_all("attend", op, &given[..1])?;
        build.output("y", made[0]);
        let span = Span { past: stored, ..Span::default() };
        let operations = 4.0 * ((stored + 1) * op.heads * op.size) as f64;
        Ok(Self { pages: Some((slot, stored + 1)), ..Self::new(build, (1, span), operations) })
    }

    fn new(build: Builder, (length, span): (usize, Span), operations: f64) -> Self {
        let mut batch = Batch::default();
        batch.target.push_rows(length, span);
        Self { graph: Arc::new(build.finish()), batch, pages: None, operations }
    }

    fn state(&self) -> Result<State, Error> {
        let Some((slot, rows)) = self.pages else { return Ok(State::default()) };
        let mut pages = Pages::new(PageLayout::new(vec![slot]), rows.div_ceil(16));
        let table = pages.open();
        pages.reserve(table, rows)?;
        let mut state = State::new(pages, Pages::default());
        Cpu::fill_pages(&mut state, 0.01)?;
        Ok(state)
    }
}

fn inputs(build: &mut Builder, shapes: &[Shape]) -> Result<Vec<glassformer_graph::Value>, Error> {
    shapes.iter().enumerate().map(|(k, &shape)| build.input(&format!("in.{k}"), shape)).collect()
}

/// The best round.
struct Measured {
    /// Seconds.
    time: f64,
    /// Operations a second.
    rate: f64,
    share: f64,
}

impl Measured {
    fn of((isa, precision): (Isa, Precision), rounds: usize, task: &Task) -> Result<Self, Error> {
        let capacity = Capacity::of(&task.batch);
        let cpu = Cpu::with_isa(1, isa).with_precision(precision);
        let runner: Box<dyn Runner> =
            cpu.prepare(&task.graph, &HashMap::<String, Tensor>::new(), &capacity)?;
        let mut random = Random::new(1);
        let numbers: Vec<Vec<f32>> = task
            .graph
            .leaves(glassformer_graph::Leaf::Input)
            .map(|(_, info)| {
                let count = task.batch.count(info.shape.rows) * info.shape.width;
                (0..count).map(|_| random.normal()).collect()
            })
            .collect();
        let batch = Batch { inputs: numbers.iter().map(Vec::as_slice).collect(), ..task.batch.clone() };
        let mut state = task.state()?;
        let mut best = Self { time: f64::INFINITY, rate: 0.0, share: 0.0 };
        for _ in 0..rounds {
            let peak = peak(isa);
            let start = Instant::now();
            runner.run(&mut state, &batch)?;
            let time = start.elapsed().as_secs_f64();
            if time < best.time {
                let rate = task.operations / time;
                best = Self { time, rate, share: rate / peak };
            }
        }
        Ok(best)
    }
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:8.3} ms {:5.1} G {:4.0} %", self.time * 1e3, self.rate / 1e9, self.share * 100.0)
    }
}

/// Operations a second of multiply-adds on registers alone.
fn peak(isa: Isa) -> f64 {
    const TIMES: usize = 4000;
    const SUMS: usize = 12;
    #[inline(always)]
    unsafe fn fused<L: Lanes>(x: f32) -> f32 {
        // SAFETY: the caller promises the instructions.
        unsafe {
            let (factor, mut sums) = (L::splat(x), [L::splat(x); SUMS]);
            for _ in 0..TIMES {
                for sum in &mut sums {
                    *sum = sum.fma(factor, factor);
                }
            }
            sums.into_iter().fold(L::zero(), |all, sum| all + sum).sum()
        }
    }
    let start = Instant::now();
    // SAFETY: `isa` is available.
    black_box(unsafe { dispatch!(isa, fused(black_box(0.5))) });
    (2 * TIMES * SUMS * 16) as f64 / start.elapsed().as_secs_f64()
}
