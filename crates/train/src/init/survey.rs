//! What the data are: how many examples, how long, which labels; and whether they are what the objective wants.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use glassformer_tensor::Random;
use glassformer_tokens::{Learn, Special, Tokenizer};

use super::Wanted;
use crate::config::{Column, Objective, Source, Vocabulary, VocabularyKind};
use crate::data::{Columns, Record, Records, words_of};
use crate::start::learning;
use crate::{Error, Event};

/// How many examples are kept to count tokens and to measure with.
const KEPT: usize = 4000;

/// The longest text of an example that is kept: others are as long as can be anyhow.
const LONGEST: usize = 1 << 16;

/// How many different words are counted: beyond them any vocabulary has work.
const WORDS: usize = 1 << 20;

/// The fewest examples with which a first line can be told from a heading.
const LEAST: usize = 8;

/// How many labels a classifier or tagger may have.
const MOST_LABELS: usize = 10_000;

/// What was found in the data.
#[derive(Debug)]
pub struct Survey {
    /// What is learned from them.
    pub objective: Objective,
    /// The files, with the columns that hold what is wanted.
    pub sources: Vec<Source>,
    /// How many examples there are; lines of running text.
    pub examples: usize,
    /// How many characters they have.
    pub characters: usize,
    /// How often each label comes.
    pub labels: BTreeMap<String, usize>,
    /// What was found out and is to be known.
    pub notes: Vec<String>,
    words: usize,
    /// Different characters.
    letters: usize,
    /// Examples drawn evenly from all.
    pub(super) kept: Vec<Record>,
}

/// How many tokens examples have.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    /// What they were counted with.
    pub vocabulary: Vocabulary,
    /// How many different ones were learned.
    pub known: usize,
    /// Of each example that was kept, ascending; of its longer side, where it has two.
    pub lengths: Vec<usize>,
    /// Of all examples together, both sides.
    pub all: usize,
}

impl Tokens {
    /// The length that this share of examples does not exceed.
    pub fn within(&self, share: f64) -> usize {
        let at = ((self.lengths.len() as f64 * share).ceil() as usize).clamp(1, self.lengths.len().max(1));
        self.lengths.get(at - 1).copied().unwrap_or(1)
    }
}

impl Survey {
    /// Reads all data once, and again where their columns turn out to be swapped or the first line names them.
    pub(super) fn of(wanted: &Wanted, tell: &mut dyn FnMut(Event)) -> Result<Self, Error> {
        let mut columns = wanted.columns.clone();
        let mut skip = wanted.skip.unwrap_or(0);
        let mut notes = Vec::new();
        loop {
            let sources = wanted.sources(&columns, skip);
            let mut seen = Seen::new(wanted.objective);
            for source in &sources {
                seen.read(source, tell)?;
            }
            if wanted.skip.is_none() && skip == 0 && seen.begins_with_names() {
                notes.push(format!("the first line names the columns ({:?}): skip = 1", seen.first));
                skip = 1;
                continue;
            }
            if let Some(doubt) =
                seen.columns.doubt(&seen.read).filter(|_| wanted.objective == Objective::Classify)
            {
                if wanted.columns.is_empty() && columns.is_empty() && doubt.is_swapped() {
                    columns = doubt.right();
                    notes.push(format!("{}: text and label are read the other way round", doubt.what()));
                    continue;
                }
                let place =
                    wanted.files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
                return Err(Error::Data { place, what: doubt.what(), hint: doubt.hint() });
            }
            return seen.done(wanted, sources, notes);
        }
    }

    /// The most frequent labels, with how often they come.
    pub fn label_counts(&self) -> String {
        const NAMED: usize = 8;
        let mut sorted: Vec<_> = self.labels.iter().collect();
        sorted.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
        let named: Vec<String> =
            sorted.iter().take(NAMED).map(|(name, count)| format!("{name} {count}")).collect();
        let more = if sorted.len() > NAMED { ", …" } else { "" };
        named.join(", ") + more
    }

    /// Learns a vocabulary into `folder` and counts with it.
    pub(super) fn tokens(&self, folder: &Path) -> Result<Tokens, Error> {
        let texts: Vec<String> =
            self.kept.iter().cloned().flat_map(|record| words_of(record, self.objective)).collect();
        let vocabulary = self.vocabulary();
        let learned = learning(&vocabulary, self.objective).from_lines(texts.iter().map(String::as_str))?;
        learned.save(folder)?;
        let tokenizer = Tokenizer::open(folder)?;
        let mut lengths = Vec::new();
        let mut all = 0;
        for record in &self.kept {
            let (longest, sum) = self.counted(&tokenizer, record)?;
            lengths.push(longest);
            all += sum;
        }
        lengths.sort_unstable();
        let all = (all as f64 * self.examples as f64 / self.kept.len().max(1) as f64) as usize;
        Ok(Tokens { vocabulary, known: tokenizer.vocabulary().size(), lengths, all })
    }

    /// The tokens of an example: of its longer side, and of both.
    fn counted(&self, tokenizer: &Tokenizer, record: &Record) -> Result<(usize, usize), Error> {
        let one = |text: &str| Ok::<_, Error>(tokenizer.encode(text, Special::Add)?.ids.len());
        let two = |a: &str, b: &str| Ok::<_, Error>(tokenizer.encode_pair(a, b, Special::Add)?.ids.len());
        let text = |at: usize| record.texts.get(at).map_or("", String::as_str);
        Ok(match self.objective {
            Objective::Generate | Objective::Fill => {
                let count = tokenizer.encode(&format!("{}\n", text(0)), Special::Leave)?.ids.len();
                (count, count)
            }
            Objective::Translate | Objective::Embed => {
                let (first, second) = (one(text(0))?, one(text(1))?);
                (first.max(second), first + second)
            }
            Objective::Classify => {
                let count = if record.texts.len() > 2 { two(text(0), text(2))? } else { one(text(0))? };
                (count, count)
            }
            Objective::Tag => {
                let words: Vec<&str> = record.words.iter().map(|(word, _)| word.as_str()).collect();
                let count = one(&words.join(" "))?;
                (count, count)
            }
            Objective::Answer => {
                let count = two(text(0), text(1))?;
                (count, count)
            }
        })
    }

    /// The vocabulary that is worth learning: a token for every other word, and as many as the text can teach.
    fn vocabulary(&self) -> Vocabulary {
        const TEACHES: usize = 40;
        let more = (self.words / 2).min(self.characters / TEACHES).clamp(64, 12_000);
        let kind = match self.objective {
            // Every text comes back as it was, spaces and lines included.
            Objective::Generate => VocabularyKind::ByteBpe,
            Objective::Translate
            | Objective::Fill
            | Objective::Classify
            | Objective::Tag
            | Objective::Answer
            | Objective::Embed => VocabularyKind::Unigram,
        };
        let letters = if kind == VocabularyKind::ByteBpe { 0 } else { self.letters };
        let size = (256 + 8 + letters + more).next_multiple_of(100).min(Learn::LARGEST);
        Vocabulary { kind, size, ..Vocabulary::default() }
    }
}

/// What was seen so far.
struct Seen {
    objective: Objective,
    examples: usize,
    characters: usize,
    labels: BTreeMap<String, usize>,
    /// The label of the first example of each file, where all files have the same.
    first: String,
    firsts: usize,
    files: usize,
    words: HashSet<u64>,
    letters: HashSet<char>,
    kept: Vec<Record>,
    columns: Columns,
    /// The columns that were read.
    read: Vec<Column>,
    /// Answers that are not in their contexts, and the first of them.
    lost: usize,
    lost_at: Option<Error>,
    random: Random,
}

impl Seen {
    fn new(objective: Objective) -> Self {
        Self {
            objective,
            examples: 0,
            characters: 0,
            labels: BTreeMap::new(),
            first: String::new(),
            firsts: 0,
            files: 0,
            words: HashSet::new(),
            letters: HashSet::new(),
            kept: Vec::new(),
            columns: Columns::default(),
            read: Vec::new(),
            lost: 0,
            lost_at: None,
            random: Random::new(1),
        }
    }

    fn read(&mut self, source: &Source, tell: &mut dyn FnMut(Event)) -> Result<(), Error> {
        const TOLD: usize = 1000;
        let mut records = Records::open(source, self.objective)?;
        self.read = records.columns().to_vec();
        self.files += 1;
        let before = self.examples;
        while let Some(record) = records.record()? {
            self.right(&record, &records)?;
            self.see(record, self.examples == before);
            if self.examples.is_multiple_of(TOLD) {
                tell(Event::Read(TOLD));
            }
        }
        if self.examples == before {
            return Err(Error::Data {
                place: source.path.display().to_string(),
                what: "it has no examples".into(),
                hint: "give a file with something in it".into(),
            });
        }
        Ok(())
    }

    /// Refuses what nothing can be learned from.
    fn right(&mut self, record: &Record, records: &Records) -> Result<(), Error> {
        let running = matches!(self.objective, Objective::Generate | Objective::Fill);
        if running {
            return Ok(());
        }
        for (text, name) in record.texts.iter().zip(records.names()) {
            if text.trim().is_empty() {
                return Err(
                    records.wrong(format!("{name} is empty"), "write something there, or remove the line")
                );
            }
        }
        if let (Objective::Answer, [_, context, answer]) = (self.objective, &record.texts[..])
            && !context.contains(answer.as_str())
        {
            self.lost += 1;
            let hint = "answers are copied from their contexts, letter by letter";
            self.lost_at.get_or_insert_with(|| records.wrong("the answer is not in the context", hint));
        }
        Ok(())
    }

    fn see(&mut self, record: Record, first: bool) {
        self.examples += 1;
        if self.objective == Objective::Classify {
            self.columns.see(&record);
            let label = &record.texts[1];
            if first && (self.first.is_empty() || self.first == *label) {
                self.first.clone_from(label);
                self.firsts += 1;
            }
            self.count(label.clone());
        }
        for (_, tag) in &record.words {
            self.count(tag.clone());
        }
        for text in words_of(record.clone(), self.objective) {
            for word in text.split_whitespace() {
                self.characters += word.chars().count() + 1;
                self.letters.extend(word.chars());
                if self.words.len() < WORDS {
                    let mut hasher = DefaultHasher::new();
                    word.hash(&mut hasher);
                    self.words.insert(hasher.finish());
                }
            }
        }
        // Every example is as likely to be kept as any other.
        let at = self.random.below(self.examples);
        if record.texts.iter().any(|text| text.len() > LONGEST) {
            return;
        }
        if self.kept.len() < KEPT {
            self.kept.push(record);
        } else if at < KEPT {
            self.kept[at] = record;
        }
    }

    fn count(&mut self, label: String) {
        if self.labels.len() <= MOST_LABELS || self.labels.contains_key(&label) {
            *self.labels.entry(label).or_default() += 1;
        }
    }

    /// Whether the first line of each file names its columns: its label comes nowhere else, and all others come again.
    fn begins_with_names(&self) -> bool {
        let again = |(label, count): (&String, &usize)| (*label == self.first) != (*count > self.files);
        self.objective == Objective::Classify
            && self.examples >= LEAST
            && self.firsts == self.files
            && self.labels.get(&self.first) == Some(&self.files)
            && self.labels.len() > 1
            && self.labels.iter().all(again)
    }

    fn done(self, wanted: &Wanted, sources: Vec<Source>, mut notes: Vec<String>) -> Result<Survey, Error> {
        let place =
            || wanted.files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let wrong = |what: String, hint: &str| Err(Error::Data { place: place(), what, hint: hint.into() });
        let labelled = matches!(self.objective, Objective::Classify | Objective::Tag);
        if let (true, [label]) = (labelled, &self.labels.keys().collect::<Vec<_>>()[..]) {
            return wrong(
                format!("all {} examples have the label {label:?}", self.examples),
                "give examples of two at least",
            );
        }
        if self.labels.len() > MOST_LABELS {
            let hint = "check which column holds the label: columns = [TEXT, LABEL]";
            return wrong(format!("there are more than {MOST_LABELS} different labels"), hint);
        }
        if self.kept.is_empty() || self.characters == 0 {
            return wrong("there is no text to learn from".into(), "give texts of at most 64 KB");
        }
        if self.lost > 0 {
            if self.lost == self.examples {
                return Err(self
                    .lost_at
                    .unwrap_or_else(|| Error::config("no answer is in its context", "copy it from there")));
            }
            let first = match &self.lost_at {
                Some(Error::Data { place, .. }) => format!(", the first in {place}"),
                _ => String::new(),
            };
            let (lost, all) = (self.lost, self.examples);
            notes.push(format!(
                "{lost} of {all} answers are not in their contexts and will be left out{first}"
            ));
        }
        Ok(Survey {
            objective: self.objective,
            sources,
            examples: self.examples,
            characters: self.characters,
            labels: self.labels,
            notes,
            words: self.words.len(),
            letters: self.letters.len(),
            kept: self.kept,
        })
    }
}
