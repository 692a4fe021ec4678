//! A whole training: from a configuration to a model, with everything that happens on the way.
//!
//! Whatever a step draws comes from the seed and the number of the step, and which data it sees from the seed and the epoch. So a
//! checkpoint need not hold any generator, and a run that goes on does what one that was never interrupted would have done,
//! bit for bit.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Instant;

use glassformer_formula::Formula;
use glassformer_graph::{Backend, Batch, Capacity, Side, SideCapacity};
use glassformer_tensor::Random;

use crate::checkpoint::{Progress, Shelf, Written, restore};
use crate::config::{Config, FormulaText, Objective};
use crate::data::{Order, Prepared, Report, prepare};
use crate::log::{Entry, Log};
use crate::lora::LowRank;
use crate::memory::remembered;
use crate::start::{Begun, begin};
use crate::{
    Checked, Checker, Error, Inside, More, OuterLoss, Own, Rates, Settings, Step, Task, Texts, Trainer, disk,
};

/// So many steps in a row whose loss is not finite end a training.
const PATIENCE: usize = 10;

/// What cosines are multiplied by where texts that belong together are learned.
const PAIR_SCALE: f32 = 20.0;

/// What happens, for whoever watches.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A vocabulary is learned.
    Learning {
        /// From so many lines.
        lines: usize,
        /// So many tokens; nothing where it is as many as there are characters.
        size: Option<usize>,
    },
    /// Data look like something else than what they are taken for.
    Doubt {
        /// Which, and why.
        what: String,
        /// What to do.
        hint: String,
    },
    /// So many more records were read.
    Read(usize),
    /// The data is there.
    Data(Report),
    /// The model is there.
    Model {
        /// So many parameters.
        parameters: usize,
        /// So many of them learn.
        learning: usize,
        /// What it is written as; nothing for a formula that no family has.
        kind: Option<String>,
    },
    /// Checkpoints that are damaged were passed over.
    Damaged(Vec<usize>),
    /// Training goes on after this step.
    Resumed(usize),
    /// A step was made.
    Step {
        /// Which one, from 1.
        step: usize,
        /// Its mean loss.
        loss: f32,
        /// Rows with labels.
        rows: usize,
        /// How long it took.
        seconds: f64,
    },
    /// A step whose loss or gradient was not finite moved nothing.
    Skipped {
        /// Which one.
        step: usize,
        /// Its loss.
        loss: f32,
    },
    /// The data to check with was looked at.
    Checked {
        /// After which step.
        step: usize,
        /// What was found.
        found: Checked,
        /// Whether it is the best so far.
        best: bool,
    },
    /// A checkpoint was written.
    Saved {
        /// After which step.
        step: usize,
        /// Where.
        path: PathBuf,
    },
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All steps were made.
    Done,
    /// It was asked to stop; a checkpoint was written.
    Stopped,
}

/// Whether a configuration that differs from the one that a run began with is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Refused, with the names of what differs.
    Refuse,
    /// Accepted: the run goes on with the new one.
    Accept,
}

/// A training.
pub struct Run {
    config: Config,
    task: Task,
    data: Prepared,
    order: Order,
    trainer: Trainer,
    checker: Option<Checker>,
    outer: Option<OuterLoss>,
    written: Written,
    beside: Vec<(String, Vec<u8>)>,
    shelf: Shelf,
    log: Log,
    progress: Progress,
    plan: Vec<Vec<u64>>,
    last_saved: Option<usize>,
    /// Keeps other trainings out of the folder as long as this one is there.
    _lock: File,
}

impl Run {
    /// Prepares a training, or one that was interrupted to go on.
    ///
    /// # Errors
    /// If the configuration cannot work, or differs from the one that the folder was begun with.
    pub fn open(
        config: Config,
        backend: &dyn Backend,
        changes: Changes,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Self, Error> {
        fs::create_dir_all(&config.out).map_err(Error::io("create", &config.out))?;
        let lock = lock(&config.out)?;
        same(&config, changes)?;
        let Begun { model, task, written, beside, drawn } = begin(&config, tell)?;
        let mut read = |count| tell(Event::Read(count));
        let data = prepare(&config, &task, &config.out.join("data"), &mut read)?;
        tell(Event::Data(data.report.clone()));
        let capacity = capacity(&config, model.formula(), &task);
        let outer = outer(config.objective);
        let mut more = More { texts: task.texts(), ..more(&config, model.formula(), outer)? };
        if let Some(low) = &mut more.lora {
            low.whole = drawn;
        }
        let trainer = Trainer::with(&model, backend, &capacity, &settings(&config), &more)?;
        let checker = match &data.valid {
            Some(_) => Some(Checker::new(model.formula(), backend, &capacity, outer, task.texts())?),
            None => None,
        };
        let sizes: usize =
            trainer.parameters().iter().map(|parameter| parameter.shape.iter().product::<usize>()).sum();
        let learning = trainer.learning();
        let kind = match &written {
            Written::Layout(layout, _) => layout.config().get("model_type").and_then(|kind| kind.as_str()),
            Written::Formula(_) => None,
        };
        tell(Event::Model { parameters: sizes, learning, kind: kind.map(str::to_owned) });
        let order = Order {
            seed: config.seed,
            weights: config.data.train.iter().map(|source| source.weight).collect(),
            rows: config.batch.tokens,
            pool: config.batch.pool,
        };
        let shelf = Shelf::open(&config.out, config.checkpoint.keep)?;
        let (last, damaged) = shelf.last()?;
        if !damaged.is_empty() {
            tell(Event::Damaged(damaged));
        }
        let mut run = Self {
            log: Log::resume(
                config.out.join("log.jsonl"),
                last.as_ref().map_or(0, |(_, progress)| progress.step),
            )?,
            config,
            task,
            data,
            order,
            trainer,
            checker,
            outer,
            written,
            beside,
            shelf,
            progress: Progress::default(),
            plan: Vec::new(),
            last_saved: None,
            _lock: lock,
        };
        if let Some((path, progress)) = last {
            restore(&path, &progress, &mut run.trainer)?;
            run.last_saved = Some(progress.step);
            tell(Event::Resumed(progress.step));
            run.progress = progress;
            run.point()?; // a kill may have come between a checkpoint and its link
        }
        run.shelf.set_aside(&run.progress)?;
        run.plan = run.task.plan(&run.data.train, &run.order, run.progress.place.epoch);
        let first = |epoch: usize| run.task.plan(&run.data.train, &run.order, epoch);
        if run.plan.is_empty() && first(run.progress.place.epoch + 1).is_empty() {
            return Err(Error::config(
                "the data make no batch to learn from",
                "check the weights of data.train, and that texts are longer than a token",
            ));
        }
        keep(&run.config)?;
        Ok(run)
    }

    /// The steps that were made so far, and all that there are to be.
    pub fn steps(&self) -> (usize, usize) {
        (self.progress.step, self.config.schedule.steps)
    }

    /// Whether the last step moved something and all weights are numbers. A training that ends otherwise has learned nothing of use since
    /// its loss was no number.
    pub fn is_sound(&self) -> bool {
        let finite = |weights: &[f32]| weights.iter().all(|x| x.is_finite());
        let weights = self.trainer.weights();
        self.progress.skipped == 0
            && weights.is_ok_and(|weights| weights.iter().all(|weights| finite(weights)))
    }

    /// The trainer, with the weights as they are.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    /// Trains until all steps are made, or until `stop` says so; either way a checkpoint is written at the end.
    ///
    /// # Errors
    /// If files cannot be read or written, or the loss is not finite for too many steps.
    pub fn go(&mut self, stop: &dyn Fn() -> bool, tell: &mut dyn FnMut(Event)) -> Result<Ended, Error> {
        while self.progress.step < self.config.schedule.steps {
            if stop() {
                self.save(tell)?;
                return Ok(Ended::Stopped);
            }
            self.step(tell)?;
            let (step, last) = (self.progress.step, self.progress.step == self.config.schedule.steps);
            let due = |every: usize| step.is_multiple_of(every) || last;
            if due(self.config.checkpoint.check) {
                self.check(tell)?;
            }
            if due(self.config.checkpoint.every) {
                self.save(tell)?;
            }
        }
        self.save(tell)?;
        Ok(Ended::Done)
    }

    /// The next batches of the data.
    fn next(&mut self) -> Vec<Vec<u64>> {
        let mut taken = Vec::new();
        while taken.len() < self.config.batch.accumulate {
            let place = &mut self.progress.place;
            // Data or batches that have changed meanwhile may make an epoch shorter.
            if place.batch >= self.plan.len() {
                // A step never remembers the end of a text at its beginning.
                if self.task.texts() == Texts::GoOn && !taken.is_empty() {
                    break;
                }
                place.epoch += 1;
                place.batch = 0;
                self.plan = self.task.plan(&self.data.train, &self.order, place.epoch);
            }
            let Some(batch) = self.plan.get(self.progress.place.batch) else { break };
            if self.progress.place.batch == 0 {
                self.trainer.forget();
            }
            taken.push(batch.clone());
            self.progress.place.batch += 1;
        }
        taken
    }

    fn step(&mut self, tell: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let start = Instant::now();
        let step = self.progress.step + 1;
        let mut random = Random::new(self.config.seed ^ (step as u64).wrapping_mul(0x9FB2_1C65_1E98_DF25));
        let mut batches = Vec::new();
        for items in self.next() {
            let mut batch = self.task.batch(&self.data.train, &items, &mut random)?;
            batch.seed = random.bits();
            batches.push(batch);
        }
        let side = self.task.side();
        let count = |batch: &Batch<'_>| {
            self.outer.map_or(batch.side(side).labels.len(), |outer| outer.examples(batch.side(side)))
        };
        let rows: usize = batches.iter().map(count).sum();
        for batch in &mut batches {
            let packed = batch.side_mut(side);
            let weights = if self.outer.is_some() { 1 } else { packed.labels.len() };
            packed.weights = vec![1.0 / rows.max(1) as f32; weights];
        }
        // A piece of text in which nothing was hidden teaches nothing.
        batches.retain(|batch| count(batch) > 0);
        if batches.is_empty() {
            (self.progress.step, self.progress.valid) = (step, None);
            return Ok(());
        }
        let rate = self.config.schedule.at(step);
        let Step { loss, length, moved } = self.trainer.step_over(batches, rate)?;
        self.progress.step = step;
        self.progress.valid = None;
        self.progress.moved = self.trainer.steps();
        let seconds = start.elapsed().as_secs_f64();
        let known = |x: f32| x.is_finite().then_some(x);
        let (shown, length) = (known(loss), known(length));
        self.log.push(&Entry::Step { step, loss: shown, rate, length, rows, seconds })?;
        if moved {
            self.progress.skipped = 0;
            tell(Event::Step { step, loss, rows, seconds });
            return Ok(());
        }
        self.progress.skipped += 1;
        tell(Event::Skipped { step, loss });
        if self.progress.skipped == PATIENCE { Err(Error::NotFinite { step, loss }) } else { Ok(()) }
    }

    fn check(&mut self, tell: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let (Some(store), Some(checker)) = (&self.data.valid, &mut self.checker) else { return Ok(()) };
        let mut batches = self.task.plain(store, &self.order);
        checker.forget();
        if self.config.checkpoint.batches > 0 {
            // Drawn once and for all, so that losses can be compared; a text that goes on is read from its beginning.
            if self.task.texts() == Texts::Apart {
                Random::new(self.config.seed).shuffle(&mut batches);
            }
            batches.truncate(self.config.checkpoint.batches);
        }
        let mut found = Checked::default();
        checker.load(&self.trainer.weights()?)?;
        // The same tokens are hidden at every look.
        let mut random = Random::new(self.config.seed ^ 0xC0DE);
        for items in batches {
            let batch = self.task.batch(store, &items, &mut random)?;
            checker.add(batch, &mut found)?;
        }
        let step = self.progress.step;
        let valid = Some(found.mean()).filter(|mean| mean.is_finite());
        let best = valid.is_some_and(|mean| self.progress.best.is_none_or(|(_, lowest)| mean < lowest));
        if best {
            self.progress.best = valid.map(|mean| (step, mean));
        }
        self.progress.valid = valid;
        self.log.push(&Entry::Check { step, valid, accuracy: found.accuracy() })?;
        tell(Event::Checked { step, found, best });
        // The best must be on disk to be the best.
        if best { self.save(tell) } else { Ok(()) }
    }

    fn save(&mut self, tell: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let step = self.progress.step;
        if self.last_saved == Some(step) {
            return Ok(());
        }
        let path = self.shelf.save(&self.trainer, &self.progress, &self.written, &self.beside)?;
        self.point()?;
        // Only now: what the link led to may be among those that go.
        self.shelf.tidy(&self.progress)?;
        self.last_saved = Some(step);
        tell(Event::Saved { step, path });
        Ok(())
    }

    /// Makes `out/model` lead to the best checkpoint, or to the last one.
    fn point(&self) -> Result<(), Error> {
        self.shelf.point(self.progress.best.map_or(self.progress.step, |(best, _)| best))
    }
}

/// Refuses to train in a folder where another training is under way: each would remove what the other is writing. The system lets go of
/// the lock when a process ends, however it ends.
fn lock(out: &Path) -> Result<File, Error> {
    let path = out.join(".lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(Error::io("create", &path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::config(
            format!("another training is under way in {}", out.display()),
            "wait for it or stop it, or name another folder as out",
        )),
        // A file system that has no locks keeps nobody out.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Refuses a configuration other than the one that the folder was begun with.
fn same(config: &Config, changes: Changes) -> Result<(), Error> {
    let path = config.begun_with();
    let value = |config: &Config| {
        let mut value = serde_json::to_value(standing(config)).unwrap_or_default();
        if let Some(keys) = value.as_object_mut() {
            // What changes nothing that is computed.
            keys.remove("out");
            keys.remove("checkpoint");
        }
        value
    };
    let old = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Config>(&text).ok());
    if let (Some(old), Changes::Refuse) = (&old, changes) {
        let (was, is) = (value(old), value(config));
        let differs =
            |(key, value): (&String, &serde_json::Value)| (was.get(key) != Some(value)).then(|| key.clone());
        let names: Vec<String> = is.as_object().into_iter().flatten().filter_map(differs).collect();
        if !names.is_empty() {
            return Err(Error::config(
                format!("{} differs from what {} was begun with", names.join(", "), config.out.display()),
                "write to another folder, or add --changed to go on all the same",
            ));
        }
    }
    Ok(())
}

/// The same configuration wherever it is read: paths from the root on, whatever way they were written, and a formula in place of its
/// file, which may change.
fn standing(config: &Config) -> Config {
    let mut config = config.clone();
    config.resolve(&std::env::current_dir().unwrap_or_default());
    if let Some(FormulaText::File(path)) = &config.model.formula
        && let Some(table) = fs::read_to_string(path).ok().and_then(|text| text.parse().ok())
    {
        config.model.formula = Some(FormulaText::Table(table));
    }
    config
}

/// Keeps the configuration, now that it has worked.
fn keep(config: &Config) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(&standing(config)).unwrap_or_default();
    disk::write(&config.begun_with(), text.as_bytes())
}

fn settings(config: &Config) -> Settings {
    let optimiser = &config.optimiser;
    Settings {
        dropout: config.regularise.dropout,
        smoothing: config.regularise.smoothing,
        rates: Rates {
            beta1: optimiser.beta1,
            beta2: optimiser.beta2,
            epsilon: optimiser.epsilon,
            decay: optimiser.decay,
        },
        clip: (optimiser.clip > 0.0).then_some(optimiser.clip),
    }
}

fn outer(objective: Objective) -> Option<OuterLoss> {
    match objective {
        Objective::Answer => Some(OuterLoss::Spans),
        Objective::Embed => Some(OuterLoss::Pairs { scale: PAIR_SCALE }),
        Objective::Translate
        | Objective::Generate
        | Objective::Fill
        | Objective::Classify
        | Objective::Tag => None,
    }
}

/// The rate and decay of each parameter: vectors and tables do not decay, and groups have the last word.
fn more(config: &Config, formula: &Formula, outer: Option<OuterLoss>) -> Result<More, Error> {
    let mut own = Vec::new();
    let parameters = glassformer_model::parameters(formula)?;
    for part in config.optimiser.group.iter().flat_map(|group| &group.names) {
        if !parameters.iter().any(|parameter| parameter.name.contains(part.as_str())) {
            return Err(Error::config(
                format!("no parameter has {part:?} of optimiser.group in its name"),
                format!(
                    "some are {}",
                    parameters.iter().map(|p| p.name.as_str()).take(6).collect::<Vec<_>>().join(", ")
                ),
            ));
        }
    }
    for parameter in parameters {
        let (name, shape) = (&parameter.name, &parameter.shape);
        let decays = shape.len() > 1 && !name.contains(".embed.");
        let mut one = Own { rate: 1.0, decay: if decays { config.optimiser.decay } else { 0.0 } };
        for group in &config.optimiser.group {
            if group.names.iter().any(|part| name.contains(part.as_str())) {
                one = Own { rate: group.rate, decay: group.decay.unwrap_or(one.decay) };
            }
        }
        own.push(one);
    }
    let average = (config.regularise.average > 0.0).then_some(config.regularise.average);
    let lora = config.model.lora.as_ref().map(|lora| LowRank {
        rank: lora.rank,
        factor: lora.alpha / lora.rank as f32,
        names: lora.names.clone(),
        seed: config.seed,
        whole: Vec::new(),
    });
    let inside = if config.batch.recompute { Inside::Recomputed } else { Inside::Kept };
    Ok(More { own, average, outer, lora, inside, texts: Texts::Apart })
}

/// The most that a batch brings.
fn capacity(config: &Config, formula: &Formula, task: &Task) -> Capacity {
    let rows = config.batch.tokens;
    let remembers = remembered(formula);
    let keys = config.data.length + 2 + remembers;
    let texts = match task.texts() {
        Texts::Apart => rows,
        Texts::GoOn => (rows / config.data.length).max(1),
    };
    let memory = texts * remembers;
    let side = |picked: usize| SideCapacity { rows, sequences: rows, picked, memory, keys };
    let none = SideCapacity::default();
    let head = |of: Side| if task.side() == of { rows } else { 0 };
    Capacity {
        source: if formula.source.is_some() { side(head(Side::Source)) } else { none },
        target: if formula.target.is_some() { side(head(Side::Target)) } else { none },
    }
}
