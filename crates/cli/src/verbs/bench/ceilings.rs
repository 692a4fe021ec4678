//! What the machine can do, measured beside each workload.

use std::fmt;
use std::num::NonZeroUsize;

use glassformer::Cpu;
use glassformer::cpu::ceilings;
use glassformer::cpu::lowp::{Dot, Format};
use glassformer::cpu::team::Team;
use glassformer::tensor::{Buffer, Coding};
use serde_json::{Value, json};

/// How often each is measured; the best counts, as a ceiling should.
const TRIES: usize = 3;

/// The most that is read to measure reading: beyond any cache, and soon done.
const MOST_BYTES: usize = 1 << 30;

/// Billions in a second.
pub struct Ceilings {
    /// Operations of `f32`.
    multiply_adds: f64,
    /// Operations of what multiplies numbers in the weights' format, where that is not the same.
    lowp: Option<(Dot, f64)>,
    /// Bytes, of as many as the weights have.
    pub reading: f64,
    bytes: usize,
}

impl Ceilings {
    /// On as many threads as `cpu` has; `bytes` is what its weights take, and `stored` what most are stored in.
    pub fn measure(cpu: &Cpu, bytes: usize, stored: Option<Coding>) -> Self {
        let team = Team::new(NonZeroUsize::new(cpu.threads()).unwrap_or(NonZeroUsize::MIN));
        let (dot, isa) = (cpu.dot(), cpu.isa());
        let bytes = bytes.clamp(1 << 20, MOST_BYTES);
        let mut numbers = Buffer::zeros(bytes / 4);
        numbers.fill_with(|| 1.0); // pages that nobody wrote to are one and the same
        let times = (1_usize << 28).div_ceil(bytes);
        let best = |measure: &dyn Fn() -> f64| (0..TRIES).map(|_| measure()).fold(0.0, f64::max);
        let lowp = |format: Format| {
            let measured = best(&|| ceilings::lowp(dot, format, &team).unwrap_or(0.0));
            (measured > 0.0).then_some((dot, measured / 1e9))
        };
        Self {
            multiply_adds: best(&|| 2.0 * ceilings::multiply_adds(isa, &team)) / 1e9,
            lowp: cpu.format(stored).and_then(lowp),
            reading: best(&|| 4.0 * ceilings::reading(isa, &team, &numbers, times)) / 1e9,
            bytes,
        }
    }

    /// Operations: those in low precision where there are instructions for it.
    pub fn best(&self) -> f64 {
        self.lowp.map_or(self.multiply_adds, |(_, lowp)| lowp)
    }

    pub fn json(&self) -> Value {
        let lowp = self.lowp.map(|(_, lowp)| lowp);
        json!({ "f32_gflops": self.multiply_adds, "narrow_gflops": lowp, "reading_gigabytes": self.reading, "reading_bytes": self.bytes })
    }
}

impl fmt::Display for Ceilings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} GFLOP/s of f32 multiply-adds", self.multiply_adds)?;
        if let Some((dot, lowp)) = self.lowp {
            write!(f, ", {lowp:.0} by {dot}")?;
        }
        write!(f, ", {:.1} GB/s reading {:.0} MB", self.reading, self.bytes as f64 / 1e6)
    }
}
