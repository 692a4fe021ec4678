//! `glassformer bench`: how fast a model runs here, and how near that is to what the machine can do.

mod ask;
mod ceilings;

use std::sync::Arc;
use std::time::Instant;

use glassformer::engine::{Bench, Kind, Workload};
use glassformer::families::Checkpoint;
use glassformer::graph::{Constants, multiplied};
use glassformer::model::Purpose;
use glassformer::tensor::Coding;
use glassformer::{Backend, Cpu, Decoding, Model, tasks};
use serde_json::{Value, json};

use crate::args::{self, Bench as Args};
use crate::console::{Console, peak_memory, result};
use crate::failure::Failure;
use crate::load;
use crate::progress::Progress;
use ceilings::Ceilings;

/// What is counted, so that nobody has to guess.
const COUNTED: &str = "GFLOP/s counts products with weights and attention, two for each multiply-add, and nothing else; GB/s \
                       counts each weight once a pass, and the keys and values looked at. Prompts before decoding are not timed.";

pub fn run(args: &Args, console: &Console) -> Result<(), Failure> {
    let began = Instant::now();
    let path = load::path(args.model.given(), console)?;
    let checkpoint = load::checkpoint(&path, console)?;
    let formula = checkpoint.model.formula();
    let decoding = match formula.target {
        Some(_) => tasks::decoding(&path, &checkpoint)?,
        None => Decoding::default(),
    };
    let cpu = Arc::new(console.processor(&path));
    let subject = Subject { checkpoint, decoding, cpu };
    if args.ask {
        return ask::run(&subject);
    }
    let mut measured = Vec::new();
    let mut ready = None;
    let workloads = workloads(args, subject.checkpoint.model.formula());
    let progress = Progress::items(workloads.len() as u64 * u64::from(args.rounds + 1), "measuring");
    for workload in workloads {
        let mut bench = subject.prepare(workload)?;
        bench.run()?;
        ready.get_or_insert_with(|| began.elapsed().as_secs_f64());
        progress.advance(1);
        let mut seconds = Vec::new();
        for _ in 0..args.rounds {
            seconds.push(bench.run()?.as_secs_f64());
            progress.advance(1);
        }
        measured.push(subject.measured(&bench, seconds)?);
    }
    progress.finish();
    let load = ready.unwrap_or_default();
    let text = if args.json {
        let about = json!({ "dtype": subject.cpu.precision().to_string(), "threads": subject.cpu.threads(), "load_seconds": load, "peak_bytes": peak_memory() });
        let outputs: Vec<Value> = measured.iter().map(Measured::json).collect();
        format!("{}\n", json!({ "schema": 1, "machine": about, "counted": COUNTED, "outputs": outputs }))
    } else {
        table(&measured)
    };
    result(&text)?;
    let memory =
        peak_memory().map_or(String::new(), |bytes| format!(", peak memory {:.0} MB", bytes as f64 / 1e6));
    console.note(&format!("{} threads, first result after {load:.2} s{memory}", subject.cpu.threads()));
    console.note(COUNTED);
    Ok(())
}

/// What is measured, and on what.
struct Subject {
    checkpoint: Checkpoint,
    decoding: Decoding,
    cpu: Arc<Cpu>,
}

impl Subject {
    fn prepare(&self, workload: Workload) -> Result<Bench, Failure> {
        let backend: Arc<dyn Backend> = self.cpu.clone();
        let mut bench = Bench::new(&self.checkpoint.model, &backend, workload, &self.decoding)?;
        bench.complete(|sequence| {
            let _ = tasks::complete(sequence, &self.checkpoint); // ids at random need not end as texts do
        });
        Ok(bench)
    }

    /// The numbers of a measurement, beside what the machine can do.
    fn measured(&self, bench: &Bench, mut seconds: Vec<f64>) -> Result<Measured, Failure> {
        seconds.sort_by(f64::total_cmp);
        let model = &self.checkpoint.model;
        let (work, passes) = bench.work(model)?;
        let purposes = match bench.workload().kind {
            Kind::Encode => [Purpose::Whole, Purpose::Encode],
            Kind::Prefill | Kind::Decode | Kind::Translate => [Purpose::Step, Purpose::Encode],
        };
        let mut bytes = 4.0 * work.stored;
        let (mut largest, mut most) = (0, None);
        for (purpose, passes) in purposes.into_iter().zip(passes).filter(|(_, passes)| *passes > 0) {
            let graph = model.graph(purpose)?;
            let weights = multiplied(&graph);
            let each = weights
                .iter()
                .map(|&(name, out, inputs)| self.cpu.weight_bytes(name, out, inputs, stored(model, name)));
            let all: usize = each.sum();
            bytes += (all * passes) as f64;
            largest = largest.max(all);
            let middle = weights.get(weights.len() / 2); // heads come last, and may be wide
            most = middle.and_then(|(name, ..)| stored(model, name)).or(most);
        }
        Ok(Measured {
            workload: bench.workload(),
            tokens: bench.tokens(),
            seconds,
            operations: work.products + work.attention,
            bytes,
            ceilings: Ceilings::measure(&self.cpu, largest, most),
        })
    }
}

/// What a weight is stored in, where that is in few bits.
fn stored(model: &Model, name: &str) -> Option<Coding> {
    model.coded(name).map(|coded| coded.coding())
}

/// A measurement.
struct Measured {
    workload: Workload,
    tokens: usize,
    /// Ascending.
    seconds: Vec<f64>,
    operations: f64,
    bytes: f64,
    ceilings: Ceilings,
}

impl Measured {
    fn median(&self) -> f64 {
        self.seconds.get(self.seconds.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Half of the distance between the quarters, as a share of the median.
    fn spread(&self) -> f64 {
        let at = |share: usize| self.seconds[(self.seconds.len() - 1) * share / 4];
        (at(3) - at(1)) / 2.0 / self.median()
    }

    fn json(&self) -> Value {
        let Workload { kind, batch, texts, shortest, longest, new, beams } = self.workload;
        let median = self.median();
        json!({
            "workload": kind.name(), "batch": batch, "texts": texts, "shortest": shortest, "longest": longest, "new": new,
            "beams": beams, "tokens": self.tokens, "seconds": self.seconds, "median": median, "spread": self.spread(),
            "tokens_per_second": self.tokens as f64 / median, "operations": self.operations, "bytes": self.bytes,
            "gflops": self.operations / median / 1e9, "gigabytes": self.bytes / median / 1e9,
            "ceilings": self.ceilings.json(),
        })
    }
}

/// A line for each measurement.
fn table(measured: &[Measured]) -> String {
    let line = |[workload, median, tokens, gflops, gigabytes]: [&str; 5]| {
        format!("{workload:<34} {median:>19} {tokens:>12} {gflops:>18} {gigabytes:>16}")
    };
    let mut lines = vec![line(["workload", "median", "tokens/s", "GFLOP/s", "GB/s"])];
    for one in measured {
        let median = one.median();
        let share = |part: f64, whole: f64| format!("{part:.1} ({:.0} %)", 100.0 * part / whole);
        lines.push(line([
            &name(&one.workload),
            &format!("{:.2} ms ± {:.0} %", 1e3 * median, 100.0 * one.spread()),
            &format!("{:.1}", one.tokens as f64 / median),
            &share(one.operations / median / 1e9, one.ceilings.best()),
            &share(one.bytes / median / 1e9, one.ceilings.reading),
        ]));
    }
    if let Some(one) = measured.last() {
        lines.push(format!("\nceilings, measured now: {}", one.ceilings));
    }
    lines.join("\n") + "\n"
}

/// A workload in a few words.
fn name(workload: &Workload) -> String {
    let Workload { kind, batch, shortest, longest, new, beams, .. } = *workload;
    let length = if shortest == longest { shortest.to_string() } else { format!("{shortest}–{longest}") };
    match kind {
        Kind::Encode => format!("encode {length}, batch {batch}"),
        Kind::Prefill => format!("prefill {length}, batch {batch}"),
        Kind::Decode => format!("decode {new} after {length}, batch {batch}"),
        Kind::Translate if beams > 1 => format!("translate {length} → {new}, batch {batch}, beam {beams}"),
        Kind::Translate => format!("translate {length} → {new}, batch {batch}"),
    }
}

/// What is measured: what was asked for, and else what such models are usually measured at.
fn workloads(args: &Args, formula: &glassformer::Formula) -> Vec<Workload> {
    let kind = |workload: &args::Workload| match workload {
        args::Workload::Encode => Kind::Encode,
        args::Workload::Prefill => Kind::Prefill,
        args::Workload::Decode => Kind::Decode,
        args::Workload::Translate => Kind::Translate,
    };
    let kinds = match args.workload[..] {
        [] => Kind::of(formula).to_vec(),
        _ => args.workload.iter().map(kind).collect(),
    };
    let or = |given: &[u16], usual: &[usize]| -> Vec<usize> {
        if given.is_empty() { usual.to_vec() } else { given.iter().map(|&n| usize::from(n)).collect() }
    };
    let mut workloads = Vec::new();
    for kind in kinds {
        let (batches, length, new, beams): (&[usize], usize, usize, &[usize]) = match kind {
            Kind::Encode => (&[1, 8, 32], 128, 1, &[1]),
            Kind::Prefill => (&[1], 512, 1, &[1]),
            Kind::Decode => (&[1, 8], 16, 128, &[1]),
            Kind::Translate => (&[1, 32], 25, 28, &[1, 4]),
        };
        let beams = if kind == Kind::Translate { or(&args.beams, beams) } else { vec![1] };
        let (shortest, longest) = args.length.unwrap_or((length, length));
        for beams in beams {
            for batch in or(&args.batch, batches) {
                // Lengths that are drawn need enough texts to be drawn for.
                let texts = if shortest < longest && kind == Kind::Encode { batch.max(64) } else { batch };
                let new = args.new.map_or(new, |new| new as usize);
                workloads.push(Workload { kind, batch, texts, shortest, longest, new, beams });
            }
        }
    }
    workloads
}
