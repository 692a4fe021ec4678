//! A model that runs over batches of sequences, for callers on many threads.
//!
//! While one caller's batch runs, others put theirs into a queue. When it ends, the first of them runs all that waits as one batch. So nobody
//! waits for company, those who wait anyway wait once, and who has an answer waits for nobody.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
    /// Whoever's turn it is holds them.
    passes: Mutex<Passes>,
    turn: Mutex<Turn>,
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

/// Whose turn it is.
#[derive(Default)]
struct Turn {
    /// Somebody's.
    taken: bool,
    /// Who came meanwhile.
    queue: VecDeque<Arc<Waiting>>,
}

/// Sequences of a caller that waits.
struct Waiting {
    sequences: Vec<Sequence>,
    /// The output that it wants.
    name: String,
    stage: Mutex<Stage>,
    changed: Condvar,
}

/// How far a caller's wait is.
enum Stage {
    Waits,
    /// It is this caller's turn to run all that waits.
    Runs,
    Answered(Result<Vec<Vec<f32>>, Error>),
}

impl Waiting {
    fn enter(&self, stage: Stage) {
        *lock(&self.stage) = stage;
        self.changed.notify_one();
    }

    /// Waits for an answer; none where it is this caller's turn instead.
    fn wait(&self) -> Option<Result<Vec<Vec<f32>>, Error>> {
        let mut stage = lock(&self.stage);
        loop {
            match mem::replace(&mut *stage, Stage::Waits) {
                Stage::Waits => stage = self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner),
                Stage::Runs => return None,
                Stage::Answered(answer) => return Some(answer),
            }
        }
    }
}

/// Ends a turn when it is dropped: the first who waits is next.
struct Taken<'a>(&'a Mutex<Turn>);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut turn = lock(self.0);
        match turn.queue.front() {
            Some(next) => next.enter(Stage::Runs),
            None => turn.taken = false,
        }
    }
}

/// A batch of callers. Nobody waits for one that panicked.
struct Together(VecDeque<Arc<Waiting>>);

impl Drop for Together {
    fn drop(&mut self) {
        for waiting in self.0.drain(..) {
            let error = Error::Service { what: "lost a batch".to_owned() };
            waiting.enter(Stage::Answered(Err(error)));
        }
    }
}

/// Nothing is half done in what these locks guard when another thread panics: a run binds everything anew.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runs {
    pub fn new(checkpoint: Checkpoint, backend: &Arc<dyn Backend>) -> Result<Self, Error> {
        let passes = Mutex::new(Passes::new(&checkpoint.model, backend.clone())?);
        Ok(Self { checkpoint, passes, turn: Mutex::default(), load: Mutex::default() })
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
        let mut turn = lock(&self.turn);
        if !turn.taken {
            turn.taken = true;
            drop(turn);
            let _taken = Taken(&self.turn);
            return self.run_now(&mut lock(&self.passes), sequences, name, take);
        }
        let own = Arc::new(Waiting {
            sequences: sequences.to_vec(),
            name: name.to_owned(),
            stage: Mutex::new(Stage::Waits),
            changed: Condvar::new(),
        });
        turn.queue.push_back(own.clone());
        drop(turn);
        let answer = own.wait().or_else(|| {
            self.run_queue(name);
            own.wait()
        });
        let rows = answer.unwrap_or_else(|| Err(Error::Service { what: "lost a batch".to_owned() }))?;
        rows.iter().enumerate().for_each(|(index, rows)| take(index, rows));
        Ok(())
    }

    /// Runs all that waits for the output `name` together.
    fn run_queue(&self, name: &str) {
        let taken = Taken(&self.turn);
        let mut turn = lock(&self.turn);
        let (together, others) = turn.queue.drain(..).partition(|waiting| waiting.name == name);
        turn.queue = others;
        drop(turn);
        let mut together = Together(together);
        let mut passes = lock(&self.passes);
        let sequences: Vec<Sequence> =
            together.0.iter().flat_map(|waiting| waiting.sequences.iter().cloned()).collect();
        let mut rows = Vec::with_capacity(sequences.len());
        let all = self.run_now(&mut passes, &sequences, name, |_, numbers| rows.push(numbers.to_vec()));
        let mut answers = Vec::with_capacity(together.0.len());
        let mut rows = rows.into_iter();
        for waiting in &together.0 {
            answers.push(if all.is_ok() {
                Ok(rows.by_ref().take(waiting.sequences.len()).collect())
            } else {
                // Whose fault it was is found out alone.
                let mut own = Vec::new();
                let keep = |_: usize, numbers: &[f32]| own.push(numbers.to_vec());
                self.run_now(&mut passes, &waiting.sequences, name, keep).map(|()| own)
            });
        }
        drop(passes);
        // The next batch begins before this one's callers go on.
        drop(taken);
        for (waiting, answer) in mem::take(&mut together.0).into_iter().zip(answers) {
            waiting.enter(Stage::Answered(answer));
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

    fn runs() -> Runs {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tasks/tags");
        let backend: Arc<dyn Backend> = Arc::new(Cpu::new(1));
        Runs::new(crate::open(&folder).expect("it opens"), &backend).expect("it prepares")
    }

    fn ask(runs: &Runs, first: u32) -> Vec<Vec<f32>> {
        let sequence = |first: u32| Sequence { source: (first..first + 5).collect(), ..Sequence::default() };
        let mut rows = Vec::new();
        let keep = |_: usize, row: &[f32]| rows.push(row.to_vec());
        runs.run(&[sequence(first), sequence(first + 1)], "logits", keep).expect("it runs");
        rows
    }

    fn wait_for(runs: &Runs, callers: usize) {
        while lock(&runs.turn).queue.len() < callers {
            std::thread::yield_now();
        }
    }

    /// Four callers come while a batch runs: they run as one, and each gets the numbers that it gets alone.
    #[test]
    fn who_waits_anyway_waits_once() {
        let runs = &runs();
        let alone: Vec<_> = (4..8).map(|first| ask(runs, first)).collect();
        assert_eq!(runs.load(), EncoderLoad { sequences: 8, batches: 4 });
        lock(&runs.turn).taken = true;
        let running = Taken(&runs.turn);
        std::thread::scope(|scope| {
            let callers: Vec<_> = (4..8).map(|first| scope.spawn(move || ask(runs, first))).collect();
            wait_for(runs, 4);
            drop(running);
            for (caller, alone) in callers.into_iter().zip(&alone) {
                assert_eq!(caller.join().expect("nobody panics"), *alone);
            }
        });
        assert_eq!(runs.load(), EncoderLoad { sequences: 16, batches: 5 });
        assert!(!lock(&runs.turn).taken);
    }

    /// A caller panics while others wait: they are answered all the same.
    #[test]
    fn a_panic_ends_one_turn() {
        let runs = &runs();
        let alone = ask(runs, 4);
        std::thread::scope(|scope| {
            let broken = scope.spawn(move || {
                let sequence = Sequence { source: vec![4, 5], ..Sequence::default() };
                runs.run(&[sequence], "logits", |_, _| {
                    wait_for(runs, 2);
                    panic!("as it is told to");
                })
            });
            while !lock(&runs.turn).taken {
                std::thread::yield_now();
            }
            let callers: Vec<_> = (0..2).map(|_| scope.spawn(move || ask(runs, 4))).collect();
            assert!(broken.join().is_err());
            for caller in callers {
                assert_eq!(caller.join().expect("it is answered"), alone);
            }
        });
        assert!(!lock(&runs.turn).taken);
    }
}
