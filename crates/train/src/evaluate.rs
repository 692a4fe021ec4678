//! How good a model is at what it is for: its answers to data with right answers, and the usual scores of them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use glassformer_formula::Head;
use glassformer_graph::Backend;
use glassformer_metrics::{Words, accuracy, bleu, chrf, entities, perplexity, spans};
use glassformer_tasks::{Answer, Classify, Input, Long, Split, TextEncoder, TextGenerator, Translate, open};

use crate::Error;
use crate::config::{Objective, Source};
use crate::data::{Record, Records};

/// Texts that go through a model together.
const TOGETHER: usize = 256;

/// What a model is asked to do, and how its answers are read.
#[derive(Clone, Copy, Debug)]
pub struct Evaluate {
    /// What it is asked; nothing for what its head is for.
    pub objective: Option<Objective>,
    /// How the words of translations are told apart.
    pub words: Words,
    /// How many beams translations have; nothing for what the model's files say.
    pub beams: Option<usize>,
    /// The most examples; nothing for all.
    pub most: Option<usize>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// How many examples there were.
    pub examples: usize,
    /// Scores by name, in the order in which they are told.
    pub scores: Vec<(String, f64)>,
    /// What was asked and what the model answered, example by example.
    pub answers: Vec<(String, String)>,
}

impl Evaluate {
    /// Evaluates the model at `path` on all of `sources`. `tell` hears how many examples are done.
    ///
    /// # Errors
    /// If the model or the data cannot be read, or the model cannot do what is asked.
    pub fn run(
        &self,
        path: impl AsRef<Path>,
        sources: &[Source],
        backend: Arc<dyn Backend>,
        tell: &mut dyn FnMut(usize),
    ) -> Result<Evaluation, Error> {
        let path = path.as_ref();
        if self.most == Some(0) {
            let (what, hint) = ("no example is to be looked at", "1 is the least");
            return Err(Error::Data { place: "--limit".into(), what: what.into(), hint: hint.into() });
        }
        let formula = open(path)?.model.formula().clone();
        let both = formula.source.is_some() && formula.target.is_some();
        let objective = self.objective.unwrap_or(match formula.head {
            Head::Classes { .. } => Objective::Classify,
            Head::Tags { .. } => Objective::Tag,
            Head::Spans => Objective::Answer,
            Head::Words { .. } | Head::Adaptive { .. } if both => Objective::Translate,
            Head::Words { .. } | Head::Adaptive { .. } if formula.source.is_some() => Objective::Fill,
            Head::Words { .. } | Head::Adaptive { .. } => Objective::Generate,
            Head::Rows => Objective::Embed,
        });
        let mut records = Vec::new();
        for source in sources {
            let mut reading = Records::open(source, objective)?;
            while let Some(record) = reading.record()? {
                records.push(record);
            }
        }
        let is_empty = |record: &Record| {
            record.words.is_empty() && record.texts.iter().all(|text| text.trim().is_empty())
        };
        if records.iter().all(is_empty) {
            let places: Vec<String> =
                sources.iter().map(|source| source.path.display().to_string()).collect();
            let (what, hint) = ("there is no text in it", "give a file with examples");
            return Err(Error::Data { place: places.join(", "), what: what.into(), hint: hint.into() });
        }
        if objective == Objective::Translate {
            let generator = TextGenerator::open(path, backend)?;
            return self.translation(&generator, records, tell);
        }
        records.truncate(self.most.unwrap_or(usize::MAX));
        let encoder = if objective == Objective::Embed {
            let checkpoint = glassformer_families::open_for_embedding(path)?;
            TextEncoder::new(checkpoint, glassformer_tasks::tokenizer(path)?, backend)?
        } else {
            TextEncoder::open(path, backend)?
        };
        let mut evaluation = match objective {
            Objective::Classify => classes(&encoder, &records, tell)?,
            Objective::Tag => tags(&encoder, &records, tell)?,
            Objective::Answer => answers(&encoder, &records, tell)?,
            Objective::Generate | Objective::Fill => likelihood(&encoder, &records, tell)?,
            Objective::Embed => pairs(&encoder, &records, tell)?,
            Objective::Translate => Evaluation::default(),
        };
        evaluation.examples = records.len();
        Ok(evaluation)
    }

    fn translation(
        &self,
        generator: &TextGenerator,
        records: Vec<Record>,
        tell: &mut dyn FnMut(usize),
    ) -> Result<Evaluation, Error> {
        let mut places: HashMap<String, usize> = HashMap::new();
        let (mut texts, mut references): (Vec<String>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
        for record in records {
            let [source, target] = <[String; 2]>::try_from(record.texts).unwrap_or_default();
            // All translations of one sentence are right.
            let at = *places.entry(source.clone()).or_insert_with(|| {
                texts.push(source);
                references.push(Vec::new());
                texts.len() - 1
            });
            references[at].push(target);
        }
        let most = self.most.unwrap_or(usize::MAX);
        texts.truncate(most);
        references.truncate(most);
        let mut generate = generator.default_options();
        if let Some(beams) = self.beams {
            generate.decoding.beams = beams;
        }
        generate.long = Long::Cut;
        let options = Translate { generate: Some(generate), split: Split::Never, ..Translate::default() };
        let mut written = Vec::new();
        for chunk in texts.chunks(TOGETHER) {
            let borrowed: Vec<&str> = chunk.iter().map(String::as_str).collect();
            written.extend(generator.translate(&borrowed, &options)?);
            tell(chunk.len());
        }
        let found = bleu(&written, &references, self.words);
        let same = written.iter().zip(&references).filter(|(text, right)| right.contains(text)).count();
        let scores = vec![
            ("bleu".to_owned(), found.score),
            ("brevity".to_owned(), found.brevity),
            ("chrf".to_owned(), chrf(&written, &references)),
            // The one that counts where answers are single words, of which BLEU's four in a row know nothing.
            ("exact".to_owned(), 100.0 * same as f64 / written.len().max(1) as f64),
        ];
        Ok(Evaluation { examples: texts.len(), scores, answers: texts.into_iter().zip(written).collect() })
    }
}

/// Refuses right answers of which the model can give none: they are of other data, or in another column.
fn known<'r>(encoder: &TextEncoder, right: impl Iterator<Item = &'r String> + Clone) -> Result<(), Error> {
    let labels = &encoder.checkpoint().labels;
    if labels.is_empty() || right.clone().any(|label| labels.contains(label)) {
        return Ok(());
    }
    let mut others: Vec<&str> = right.map(String::as_str).collect();
    others.sort_unstable();
    others.dedup();
    others.truncate(5);
    Err(Error::Data {
        place: "the right answers".into(),
        what: format!("the model has no such labels: {}", others.join(", ")),
        hint: format!("its labels are {}; check the columns", labels[..labels.len().min(5)].join(", ")),
    })
}

fn classes(
    encoder: &TextEncoder,
    records: &[Record],
    tell: &mut dyn FnMut(usize),
) -> Result<Evaluation, Error> {
    known(encoder, records.iter().map(|record| &record.texts[1]))?;
    let options = Classify { top: 1, long: Long::Cut };
    let mut found = Vec::new();
    for chunk in records.chunks(TOGETHER) {
        let input = |record: &'_ Record| match record.texts.get(2) {
            None => (record.texts[0].clone(), None),
            Some(second) => (record.texts[0].clone(), Some(second.clone())),
        };
        let texts: Vec<(String, Option<String>)> = chunk.iter().map(input).collect();
        let inputs: Vec<Input<'_>> = texts
            .iter()
            .map(|(first, second)| match second {
                None => Input::One(first),
                Some(second) => Input::Pair(first, second),
            })
            .collect();
        for labels in encoder.classify(&inputs, &options)? {
            found.push(labels.into_iter().next().map(|label| label.label).unwrap_or_default());
        }
        tell(chunk.len());
    }
    let right: Vec<String> = records.iter().map(|record| record.texts[1].clone()).collect();
    let scores = vec![("accuracy".to_owned(), 100.0 * accuracy(&found, &right))];
    let asked = records.iter().map(|record| record.texts[0].clone());
    Ok(Evaluation { examples: 0, scores, answers: asked.zip(found).collect() })
}

fn tags(encoder: &TextEncoder, records: &[Record], tell: &mut dyn FnMut(usize)) -> Result<Evaluation, Error> {
    known(encoder, records.iter().flat_map(|record| record.words.iter().map(|(_, tag)| tag)))?;
    let (mut found, mut asked) = (Vec::new(), Vec::new());
    for chunk in records.chunks(TOGETHER) {
        let sentences: Vec<Vec<&str>> = chunk.iter().map(words).collect();
        found.extend(encoder.tag_words(&sentences, Long::Cut)?);
        tell(chunk.len());
        asked.extend(sentences.iter().map(|words| words.join(" ")));
    }
    let right: Vec<Vec<String>> =
        records.iter().map(|record| record.words.iter().map(|(_, tag)| tag.clone()).collect()).collect();
    let (all, each) = entities(&found, &right);
    let percent = |name: &str, value: f64| (name.to_owned(), 100.0 * value);
    let mut scores = vec![
        percent("f1", all.f1()),
        percent("precision", all.precision()),
        percent("recall", all.recall()),
        percent("accuracy", accuracy(&found.concat(), &right.concat())),
    ];
    scores.extend(each.iter().map(|(label, scores)| percent(&format!("f1 of {label}"), scores.f1())));
    let found = found.into_iter().map(|tags| tags.join(" "));
    Ok(Evaluation { examples: 0, scores, answers: asked.into_iter().zip(found).collect() })
}

fn words(record: &Record) -> Vec<&str> {
    record.words.iter().map(|(word, _)| word.as_str()).collect()
}

fn answers(
    encoder: &TextEncoder,
    records: &[Record],
    tell: &mut dyn FnMut(usize),
) -> Result<Evaluation, Error> {
    let mut found = Vec::new();
    for chunk in records.chunks(32) {
        let pairs: Vec<(&str, &str)> =
            chunk.iter().map(|record| (record.texts[0].as_str(), record.texts[1].as_str())).collect();
        for answers in encoder.answer(&pairs, &Answer::default())? {
            found.push(answers.into_iter().next().map(|answer| answer.text).unwrap_or_default());
        }
        tell(chunk.len());
    }
    let right = |record: &Record| std::iter::once(&record.texts[2]).chain(&record.others).cloned().collect();
    let right: Vec<Vec<String>> = records.iter().map(right).collect();
    let matches = spans(&found, &right);
    let scores = vec![("exact".to_owned(), matches.exact), ("f1".to_owned(), matches.f1)];
    let asked = records.iter().map(|record| record.texts[0].clone());
    Ok(Evaluation { examples: 0, scores, answers: asked.zip(found).collect() })
}

fn likelihood(
    encoder: &TextEncoder,
    records: &[Record],
    tell: &mut dyn FnMut(usize),
) -> Result<Evaluation, Error> {
    let (mut total, mut tokens) = (0.0, 0);
    let mut answers = Vec::new();
    let texts: Vec<&Record> = records.iter().filter(|record| !record.texts[0].trim().is_empty()).collect();
    for chunk in texts.chunks(32) {
        let inputs: Vec<Input<'_>> = chunk.iter().map(|record| Input::One(&record.texts[0])).collect();
        for (record, found) in chunk.iter().zip(encoder.score(&inputs, Long::Cut)?) {
            total += found.total;
            tokens += found.tokens.len();
            answers.push((record.texts[0].clone(), format!("{:.4}", found.perplexity())));
        }
        tell(chunk.len());
    }
    let mean = -total / tokens.max(1) as f64;
    let scores = vec![("perplexity".to_owned(), perplexity(total, tokens)), ("loss".to_owned(), mean)];
    Ok(Evaluation { examples: 0, scores, answers })
}

/// How often the second text of a pair is the nearest of all second texts.
fn pairs(
    encoder: &TextEncoder,
    records: &[Record],
    tell: &mut dyn FnMut(usize),
) -> Result<Evaluation, Error> {
    let embed = |at: usize| {
        let texts: Vec<&str> = records.iter().map(|record| record.texts[at].as_str()).collect();
        let options = glassformer_tasks::Embed { long: Long::Cut, ..glassformer_tasks::Embed::default() };
        encoder.embed(&texts, &options)
    };
    let (first, second) = (embed(0)?, embed(1)?);
    tell(records.len());
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    let cosine = |a: &[f32], b: &[f32]| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-12);
    let nearest = |vector: &Vec<f32>| {
        let score = |at: &usize| cosine(vector, &second[*at]);
        (0..second.len()).max_by(|a, b| score(a).total_cmp(&score(b))).unwrap_or(0)
    };
    let found: Vec<usize> = first.iter().map(nearest).collect();
    let right: Vec<usize> = (0..records.len()).collect();
    let scores = vec![("accuracy".to_owned(), 100.0 * accuracy(&found, &right))];
    let named = records
        .iter()
        .zip(&found)
        .map(|(record, &at)| (record.texts[0].clone(), records[at].texts[1].clone()));
    Ok(Evaluation { examples: 0, scores, answers: named.collect() })
}
