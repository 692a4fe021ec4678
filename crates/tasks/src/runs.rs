//! A model that runs over batches of sequences, for callers on many threads.
//!
//! While one caller's batch runs, others put theirs into a queue; whoever comes next takes all of it as one batch. So nobody waits for
//! company, and those who wait anyway wait once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use glassformer_engine::{Asked, Output, Passes, Sequence};
use glassformer_families::Checkpoint;
use glassformer_formula::Head;
use glassformer_graph::{Backend, Rows as Kind};

use crate::Error;
use crate::text_encoder::vocabulary;

/// A batch ends with the text that brings it to so many rows: enough to keep every core at matrix products, and little
/// enough that its activations do not outgrow the weights.
const ROWS: usize = 2048;

/// At most so many scores of words are computed at once: 128 MB of them.
const SCORES: usize = 1 << 25;

/// A model that runs over batches of sequences.
pub(crate) struct Runs {
    pub checkpoint: Checkpoint,
    passes: Mutex<Passes>,
    /// What came while a batch ran.
    queue: Mutex<Vec<Arc<Waiting>>>,
    load: Mutex<EncoderLoad>,
}

/// What an encoder has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncoderLoad {
    /// Sequences that were read.
    pub sequences: u64,
    /// Batches that they ran in.
    pub batches: u64,
}

/// Sequences of a caller that waits.
struct Waiting {
    sequences: Vec<Sequence>,
    /// The output that it wants.
    name: String,
    answer: Mutex<Option<Result<Vec<Vec<f32>>, Error>>>,
}

/// Nothing is half done in what these locks guard when another thread panics: a run binds everything anew.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runs {
    pub fn new(checkpoint: Checkpoint, backend: &Arc<dyn Backend>) -> Result<Self, Error> {
        let passes = Mutex::new(Passes::new(&checkpoint.model, backend.clone())?);
        Ok(Self { checkpoint, passes, queue: Mutex::default(), load: Mutex::default() })
    }

    /// What it has done.
    pub fn load(&self) -> EncoderLoad {
        *lock(&self.load)
    }

    /// Runs `sequences` in batches and hands each its rows of the output `name`.
    pub fn run(
        &self,
        sequences: &[Sequence],
        name: &str,
        mut take: impl FnMut(usize, &[f32]),
    ) -> Result<(), Error> {
        match self.passes.try_lock() {
            Ok(mut passes) => return self.run_now(&mut passes, sequences, name, take),
            Err(TryLockError::Poisoned(passes)) => {
                return self.run_now(&mut passes.into_inner(), sequences, name, take);
            }
            Err(TryLockError::WouldBlock) => {}
        }
        let own = Arc::new(Waiting {
            sequences: sequences.to_vec(),
            name: name.to_owned(),
            answer: Mutex::default(),
        });
        lock(&self.queue).push(own.clone());
        let mut passes = lock(&self.passes);
        if lock(&own.answer).is_none() {
            self.run_queue(&mut passes, name);
        }
        drop(passes);
        let answer = lock(&own.answer).take();
        let rows = answer.unwrap_or_else(|| Err(Error::Service { what: "lost a batch".to_owned() }))?;
        rows.iter().enumerate().for_each(|(index, rows)| take(index, rows));
        Ok(())
    }

    /// Runs all that waits for the output `name` together.
    fn run_queue(&self, passes: &mut Passes, name: &str) {
        let mut queue = lock(&self.queue);
        let (together, others): (Vec<_>, _) = queue.drain(..).partition(|waiting| waiting.name == name);
        *queue = others;
        drop(queue);
        let sequences: Vec<Sequence> =
            together.iter().flat_map(|waiting| waiting.sequences.iter().cloned()).collect();
        let mut rows = Vec::with_capacity(sequences.len());
        let all = self.run_now(passes, &sequences, name, |_, numbers| rows.push(numbers.to_vec()));
        let mut rows = rows.into_iter();
        for waiting in together {
            let answer = if all.is_ok() {
                Ok(rows.by_ref().take(waiting.sequences.len()).collect())
            } else {
                // Whose fault it was is found out alone.
                let mut own = Vec::new();
                let keep = |_: usize, numbers: &[f32]| own.push(numbers.to_vec());
                self.run_now(passes, &waiting.sequences, name, keep).map(|()| own)
            };
            *lock(&waiting.answer) = Some(answer);
        }
    }

    /// Runs `sequences` in batches of their own.
    fn run_now(
        &self,
        passes: &mut Passes,
        sequences: &[Sequence],
        name: &str,
        mut take: impl FnMut(usize, &[f32]),
    ) -> Result<(), Error> {
        let mut from = 0;
        while from < sequences.len() {
            let mut to = from;
            let (mut rows, mut asked) = (0, 0);
            while to < sequences.len() {
                rows += rows_of(&sequences[to]);
                asked += asked_of(&sequences[to]);
                if to > from && (rows > ROWS || asked > self.most_asked()) {
                    break;
                }
                to += 1;
            }
            let batch = &sequences[from..to];
            let output = passes.run(batch)?.output(name)?;
            let mut load = lock(&self.load);
            load.sequences += batch.len() as u64;
            load.batches += 1;
            drop(load);
            let mut start = 0;
            for (index, sequence) in batch.iter().enumerate() {
                let (rows, numbers) =
                    output.as_ref().map_or((0, &[][..]), |output| part(output, start, sequence));
                start += rows;
                take(from + index, numbers);
            }
            from = to;
        }
        Ok(())
    }

    /// How many rows the head is asked about in one batch: its scores are as many as the vocabulary for each.
    pub fn most_asked(&self) -> usize {
        match self.checkpoint.model.formula().head {
            Head::Words { .. } | Head::Adaptive { .. } => {
                let words = vocabulary(self.checkpoint.model.formula()).unwrap_or(1);
                (SCORES / words.max(1)).max(16)
            }
            Head::Rows | Head::Classes { .. } | Head::Tags { .. } | Head::Spans => ROWS,
        }
    }
}

/// How many rows a sequence brings.
fn rows_of(sequence: &Sequence) -> usize {
    sequence.source.len() + sequence.target.len()
}

/// How many of its rows the head is asked about.
fn asked_of(sequence: &Sequence) -> usize {
    match &sequence.asked {
        Asked::All if sequence.target.is_empty() => sequence.source.len(),
        Asked::All => sequence.target.len(),
        Asked::Rows(rows) => rows.len(),
    }
}

/// The rows of one sequence in `output`, beginning with row `start` where the head was asked, and how many they are.
fn part<'o>(output: &'o Output<'_>, start: usize, sequence: &Sequence) -> (usize, &'o [f32]) {
    let Output { shape, numbers, .. } = output;
    let rows = match shape.rows {
        Kind::Sequences(_) => 1,
        _ => asked_of(sequence),
    };
    (rows, numbers.get(start * shape.width..(start + rows) * shape.width).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use glassformer_cpu::Cpu;

    use super::*;

    /// Four callers come while a batch runs: they run as one, and each gets the numbers that it gets alone.
    #[test]
    fn who_waits_anyway_waits_once() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tasks/tags");
        let backend: Arc<dyn Backend> = Arc::new(Cpu::new(1));
        let runs = Runs::new(crate::open(&folder).expect("it opens"), &backend).expect("it prepares");
        let sequence = |first: u32| Sequence { source: (first..first + 5).collect(), ..Sequence::default() };
        let ask = |first: u32| {
            let mut rows = Vec::new();
            runs.run(&[sequence(first), sequence(first + 1)], "logits", |_, row| rows.push(row.to_vec()))
                .expect("it runs");
            rows
        };
        let alone: Vec<_> = (4..8).map(ask).collect();
        assert_eq!(runs.load(), EncoderLoad { sequences: 8, batches: 4 });
        let running = lock(&runs.passes);
        std::thread::scope(|scope| {
            let callers: Vec<_> = (4..8).map(|first| scope.spawn(move || ask(first))).collect();
            while lock(&runs.queue).len() < callers.len() {
                std::thread::yield_now();
            }
            drop(running);
            for (caller, alone) in callers.into_iter().zip(&alone) {
                assert_eq!(caller.join().expect("nobody panics"), *alone);
            }
        });
        assert_eq!(runs.load(), EncoderLoad { sequences: 16, batches: 5 });
    }
}
