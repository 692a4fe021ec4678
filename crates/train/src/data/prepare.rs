//! The data as tokens on disk: made once, and used again as long as nothing that it depends on has changed.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

use glassformer_tensor::Random;
use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::filter::{Dropped, Sieve, fingerprint, unlike};
use super::store::Writer;
use super::{Record, Records, Store};
use crate::config::{Config, Objective, Source};
use crate::task::{Encoded, Refused, Task};
use crate::{Error, Event, disk};

/// Changes with what examples hold on disk: data of an older program is made anew.
const FORMAT: u32 = 2;

/// How many records are turned into tokens at a time.
const CHUNK: usize = 8192;

/// The sets, and what was left out of them.
pub struct Prepared {
    /// What is learned from.
    pub train: Store,
    /// What is checked with, where there is something.
    pub valid: Option<Store>,
    /// What was left out.
    pub report: Report,
}

/// How many examples there are, and how many were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What it was made from and how.
    key: u64,
    /// Examples to learn from.
    pub train: usize,
    /// Examples to check with.
    pub valid: usize,
    /// What was left out of those to learn from.
    pub dropped: Dropped,
}

/// Texts to learn a vocabulary from, at most `most`, drawn evenly from all files.
///
/// # Errors
/// If a file cannot be read.
pub fn sample_lines(config: &Config, most: usize) -> Result<Vec<String>, Error> {
    let mut random = Random::new(config.seed ^ 0x5EED);
    let (mut kept, mut seen) = (Vec::new(), 0_usize);
    for source in &config.data.train {
        let mut records = Records::open(source, config.objective)?;
        while let Some(record) = records.record()? {
            for text in words_of(record, config.objective) {
                seen += 1;
                if kept.len() < most {
                    kept.push(text);
                } else {
                    let at = random.below(seen);
                    if at < most {
                        kept[at] = text;
                    }
                }
            }
        }
    }
    Ok(kept)
}

/// The texts of a record that are written in words.
pub(crate) fn words_of(record: Record, objective: Objective) -> Vec<String> {
    match objective {
        Objective::Tag => {
            let words: Vec<String> = record.words.into_iter().map(|(word, _)| word).collect();
            vec![words.join(" ")]
        }
        Objective::Classify => {
            let mut texts = record.texts;
            texts.remove(1);
            texts
        }
        Objective::Generate | Objective::Fill => record.texts.into_iter().map(|text| text + "\n").collect(),
        Objective::Translate | Objective::Answer | Objective::Embed => record.texts,
    }
}

/// The labels of the data to learn from, in alphabetical order. `tell` hears of files whose labels look like no labels.
///
/// # Errors
/// If a file cannot be read.
pub fn labels(config: &Config, tell: &mut dyn FnMut(Event)) -> Result<Vec<String>, Error> {
    let mut labels = BTreeSet::new();
    for source in &config.data.train {
        let mut records = Records::open(source, config.objective)?;
        let mut columns = Columns::default();
        while let Some(record) = records.record()? {
            match config.objective {
                Objective::Classify => {
                    columns.see(&record);
                    labels.insert(record.texts[1].clone());
                }
                Objective::Tag => labels.extend(record.words.into_iter().map(|(_, tag)| tag)),
                Objective::Translate
                | Objective::Generate
                | Objective::Fill
                | Objective::Answer
                | Objective::Embed => return Ok(Vec::new()),
            }
        }
        if let Some(doubt) = columns.doubt(records.columns()) {
            let what = format!("{}: {}", source.path.display(), doubt.what());
            tell(Event::Doubt { what, hint: doubt.hint() });
        }
    }
    Ok(labels.into_iter().collect())
}

/// Makes the sets in `folder`, or opens those that are there and still right.
///
/// # Errors
/// If a file cannot be read or written, or nothing is left to learn from.
pub fn prepare(
    config: &Config,
    task: &Task,
    folder: &Path,
    tell: &mut dyn FnMut(usize),
) -> Result<Prepared, Error> {
    let key = key(config, task)?;
    let report_path = folder.join("report.json");
    let known =
        fs::read_to_string(&report_path).ok().and_then(|text| serde_json::from_str::<Report>(&text).ok());
    let mut report = match known.filter(|report| report.key == key) {
        Some(report) => report,
        None => make(config, task, folder, key, tell).inspect_err(|_| {
            // Nothing half-written stays: a full disk is not to be full of it.
            let _ = fs::remove_dir_all(folder);
        })?,
    };
    if report.train == 0 {
        return Err(Error::Data {
            place: "data.train".into(),
            what: format!("nothing is left to learn from: {} examples were left out", report.dropped.total()),
            hint: "check data.filter and data.length".into(),
        });
    }
    let train = Store::open(folder, "train", task.parts())?;
    let mut valid = if report.valid > 0 { Some(Store::open(folder, "valid", task.parts())?) } else { None };
    // Lines of running text may have no tokens, all of them.
    if train.total() < task.least() {
        return Err(Error::Data {
            place: "data.train".into(),
            what: format!("nothing is left to learn from: {} lines have too few tokens", report.train),
            hint: "give a file with more than blank lines".into(),
        });
    }
    if valid.take_if(|store| store.total() < task.least()).is_some() {
        report.valid = 0;
    }
    Ok(Prepared { train, valid, report })
}

fn make(
    config: &Config,
    task: &Task,
    folder: &Path,
    key: u64,
    tell: &mut dyn FnMut(usize),
) -> Result<Report, Error> {
    fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    let _ = fs::remove_file(folder.join("report.json"));
    let mut making = Making {
        config,
        task,
        train: Writer::create(folder, "train")?,
        valid: Writer::create(folder, "valid")?,
        dropped: Dropped::default(),
    };
    let mut sieve = Sieve::new(&config.data.filter, task.pairs());
    for (origin, source) in config.data.train.iter().enumerate() {
        making.source(source, Set::Train(origin), Some(&mut sieve), tell)?;
    }
    for (origin, source) in config.data.valid.iter().enumerate() {
        making.source(source, Set::Valid(origin), None, tell)?;
    }
    let Making { train, valid, dropped, .. } = making;
    let report = Report { key, train: train.finish()?, valid: valid.finish()?, dropped };
    let text = serde_json::to_string(&report).unwrap_or_default();
    disk::write(&folder.join("report.json"), text.as_bytes())?;
    Ok(report)
}

/// Everything that the tokens on disk depend on, as one number.
fn key(config: &Config, task: &Task) -> Result<u64, Error> {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(&config.data).unwrap_or_default().hash(&mut hasher);
    (config.objective as u8, config.seed, FORMAT).hash(&mut hasher);
    task.identity().hash(&mut hasher);
    for source in config.data.train.iter().chain(&config.data.valid) {
        let facts = fs::metadata(&source.path).map_err(Error::io("read", &source.path))?;
        (facts.len(), facts.modified().ok()).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

#[derive(Clone, Copy)]
enum Set {
    Train(usize),
    Valid(usize),
}

struct Making<'a> {
    config: &'a Config,
    task: &'a Task,
    train: Writer,
    valid: Writer,
    dropped: Dropped,
}

impl Making<'_> {
    fn source(
        &mut self,
        source: &Source,
        set: Set,
        mut sieve: Option<&mut Sieve<'_>>,
        tell: &mut dyn FnMut(usize),
    ) -> Result<(), Error> {
        let mut records = Records::open(source, self.config.objective)?;
        loop {
            let mut chunk = Vec::with_capacity(CHUNK);
            let mut read = 0;
            while read < CHUNK {
                let Some(record) = records.record()? else { break };
                read += 1;
                // Running text is one whole: an empty line is part of it, and lines may come twice.
                let keeps = self.task.is_running()
                    || sieve.as_mut().is_none_or(|sieve| sieve.keeps(&record, &mut self.dropped));
                if keeps {
                    chunk.push(record);
                }
            }
            if read == 0 {
                return Ok(());
            }
            let encoded = encode(self.task, &chunk)?;
            for (record, encoded) in chunk.iter().zip(encoded) {
                self.keep(record, encoded, set)?;
            }
            tell(read);
        }
    }

    fn keep(&mut self, record: &Record, encoded: Encoded, set: Set) -> Result<(), Error> {
        let parts = match encoded {
            Ok(parts) => parts,
            Err(why) => {
                if matches!(set, Set::Train(_)) {
                    match why {
                        Refused::Empty => self.dropped.empty += 1,
                        Refused::Long => self.dropped.length += 1,
                        Refused::NoAnswer => self.dropped.answer += 1,
                    }
                }
                return Ok(());
            }
        };
        match set {
            Set::Valid(origin) => self.valid.push(&parts, origin),
            Set::Train(origin) => {
                let ratio = self.config.data.filter.ratio.filter(|_| self.task.pairs());
                if ratio.is_some() && unlike(parts[0].len(), parts[1].len(), ratio) {
                    self.dropped.ratio += 1;
                    return Ok(());
                }
                let share = self.config.data.held_out;
                let held = self.config.data.valid.is_empty() && share > 0.0 && self.draw(record) < share;
                if held { self.valid.push(&parts, origin) } else { self.train.push(&parts, origin) }
            }
        }
    }

    /// A number in [0, 1) for the first text of a record: all translations of a sentence are on the same side.
    fn draw(&self, record: &Record) -> f64 {
        let first = Record { texts: record.texts.iter().take(1).cloned().collect(), ..record.clone() };
        f64::from(Random::at(self.config.seed, fingerprint(&first)))
    }
}

/// The tokens of many records, by all cores; in the order of the records.
fn encode(task: &Task, records: &[Record]) -> Result<Vec<Encoded>, Error> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = records.len().div_ceil(threads).max(1);
    let parts: Vec<Result<Vec<Encoded>, Error>> = thread::scope(|scope| {
        let work = |part| {
            scope.spawn(move || -> Result<Vec<Encoded>, Error> {
                let part: &[Record] = part;
                part.iter().map(|record| task.encode(record)).collect()
            })
        };
        let running: Vec<_> = records.chunks(share).map(work).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        running.into_iter().map(join).collect()
    });
    Ok(parts.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}
