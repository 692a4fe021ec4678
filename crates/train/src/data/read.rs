//! Records of files: columns with tabs, JSON objects, texts, words with tags, questions. Files are read as they are needed,
//! and never held as a whole, except where their format is one JSON value.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use glassformer_tasks::without_mark;
use serde_json::Value;

use crate::Error;
use crate::config::{Column, Format, Objective, Source};

/// The longest line that is read. A file without line ends would otherwise be read into memory as a whole.
const LONGEST_LINE: u64 = 64 << 20;

/// What one example is made of, in the order that the objective wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Its texts: source and target; text and label, and the other text of a pair; question, context and answer.
    pub texts: Vec<String>,
    /// Words with their tags, for `tag`.
    pub words: Vec<(String, String)>,
    /// Where the answer begins, in characters of the context.
    pub start: Option<usize>,
    /// Other answers that are right as well, to evaluate with.
    pub others: Vec<String>,
}

impl Record {
    fn of(texts: Vec<String>) -> Self {
        Self { texts, ..Self::default() }
    }
}

/// Whether records of a format hold what an objective wants.
fn has_what_it_takes(format: Format, objective: Objective) -> bool {
    match format {
        Format::Tsv => objective != Objective::Tag,
        Format::Jsonl => true,
        Format::Text => matches!(objective, Objective::Generate | Objective::Fill),
        Format::Conll => objective == Objective::Tag,
        Format::Squad => objective == Objective::Answer,
    }
}

/// What the columns of an objective are, in its order.
fn wanted(objective: Objective) -> &'static [&'static str] {
    match objective {
        Objective::Translate => &["source", "target"],
        Objective::Generate | Objective::Fill => &["text"],
        Objective::Classify => &["text", "label"],
        Objective::Tag => &["tokens", "tags"],
        Objective::Answer => &["question", "context", "answer"],
        Objective::Embed => &["first", "second"],
    }
}

/// What stands in a column more than [`wanted`], where one is given.
fn optional(objective: Objective) -> Option<&'static str> {
    (objective == Objective::Classify).then_some("the second text")
}

/// The columns that are read, in the order of the objective: those that are given, or the first ones, or the keys that are usual. What
/// cannot be followed is refused, with what is wrong and what to do.
fn columns(
    given: &[Column],
    format: Format,
    objective: Objective,
) -> Result<Vec<Column>, (String, &'static str)> {
    let wanted = wanted(objective);
    let usual = |(at, name): (usize, &&str)| match format {
        Format::Tsv => Some(Column::Number(at)),
        Format::Jsonl => Some(Column::Key((*name).to_owned())),
        Format::Text | Format::Conll | Format::Squad => None,
    };
    if given.is_empty() {
        return Ok(wanted.iter().enumerate().filter_map(usual).collect());
    }
    for column in given {
        match (format, column) {
            (Format::Tsv, Column::Number(_)) | (Format::Jsonl, Column::Key(_)) => {}
            (Format::Tsv, Column::Key(key)) => {
                return Err((format!("columns of a TSV have numbers, not the key {key}"), "count from 0"));
            }
            (Format::Jsonl, Column::Number(number)) => {
                let what = format!("columns of JSON objects have keys, not the number {number}");
                return Err((what, "name its keys with columns = [\"…\"]"));
            }
            (Format::Text | Format::Conll | Format::Squad, _) => {
                return Err(("a file of this format has no columns to choose".into(), "leave columns out"));
            }
        }
    }
    let most = wanted.len() + usize::from(optional(objective).is_some());
    if given.len() < wanted.len() || given.len() > most {
        let more = optional(objective).map_or(String::new(), |name| format!(", and may have {name}"));
        let what = format!("{} columns are given, and it wants {}{more}", given.len(), wanted.join(", "));
        return Err((what, "list one for each, in this order"));
    }
    Ok(given.to_vec())
}

/// The records of one file, one after the other.
pub struct Records {
    lines: Box<dyn BufRead + Send>,
    place: String,
    line: usize,
    format: Format,
    objective: Objective,
    /// Those that are read, in the order of the objective.
    columns: Vec<Column>,
    /// Records that were read and not yet given out, for formats that hold many at once.
    waiting: VecDeque<Record>,
    ended: bool,
}

impl Records {
    /// Opens a file of data.
    ///
    /// # Errors
    /// If it cannot be opened, or its format is neither said nor told by its ending.
    pub fn open(source: &Source, objective: Objective) -> Result<Self, Error> {
        let path = &source.path;
        let file = File::open(path).map_err(Error::io("open", path))?;
        let file = BufReader::with_capacity(1 << 16, file);
        let lines: Box<dyn BufRead + Send> = if has_ending(path, "gz") {
            Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        let place = path.display().to_string();
        let format = source.format.or_else(|| by_ending(path)).ok_or_else(|| Error::Data {
            place: place.clone(),
            what: "its ending does not say what it is".into(),
            hint: "give its format: tsv, jsonl, text, conll or squad".into(),
        })?;
        if !has_what_it_takes(format, objective) {
            return Err(Error::Data {
                place,
                what: "a file of this format does not hold what this objective learns from".into(),
                hint: "translate, classify, answer and embed take tsv or jsonl, answer squad too, tag conll or jsonl, generate and fill \
                       text, tsv or jsonl"
                    .into(),
            });
        }
        let columns = columns(&source.columns, format, objective).map_err(|(what, hint)| Error::Data {
            place: place.clone(),
            what,
            hint: hint.into(),
        })?;
        let (waiting, line, ended) = (VecDeque::new(), 0, false);
        let mut records = Self { lines, place, line, format, objective, columns, waiting, ended };
        for _ in 0..source.skip {
            records.read_line()?;
        }
        Ok(records)
    }

    /// Those that are read, in the order of the objective; none where the format has none.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// What the texts of a record are.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        wanted(self.objective).iter().copied().chain(optional(self.objective))
    }

    /// The next record.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is not what the format says.
    pub fn record(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(record) = self.waiting.pop_front() {
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            match self.format {
                Format::Tsv | Format::Jsonl | Format::Text => self.by_line()?,
                Format::Conll => self.sentence()?,
                Format::Squad => self.questions()?,
            }
        }
    }

    /// What is wrong with the record that was read last, with its line.
    pub(crate) fn wrong(&self, what: impl Into<String>, hint: impl Into<String>) -> Error {
        let place = format!("{}, line {}", self.place, self.line);
        Error::Data { place, what: what.into(), hint: hint.into() }
    }

    /// The next line without its end, or nothing at the end of the file.
    fn read_line(&mut self) -> Result<Option<String>, Error> {
        let mut bytes = Vec::new();
        let place = self.place.clone();
        let count = (&mut self.lines)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut bytes)
            .map_err(Error::io("read", Path::new(&place)))?;
        if count == 0 {
            self.ended = true;
            return Ok(None);
        }
        self.line += 1;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        } else if count as u64 == LONGEST_LINE {
            return Err(self.wrong("the line has no end within 64 MB", "check that it is a file of text"));
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| self.wrong("it is not UTF-8", "convert the file, for instance with iconv"))?;
        Ok(Some(if self.line == 1 { without_mark(text) } else { text }))
    }

    fn by_line(&mut self) -> Result<(), Error> {
        let Some(line) = self.read_line()? else { return Ok(()) };
        let running = matches!(self.objective, Objective::Generate | Objective::Fill);
        if line.is_empty() && !(running && self.format == Format::Text) {
            return Ok(());
        }
        let record = match self.format {
            Format::Tsv => Some(self.columns_of(&line)?),
            Format::Jsonl => Some(self.object(&line)?),
            Format::Text | Format::Conll | Format::Squad => Some(Record::of(vec![line])),
        };
        self.waiting.extend(record);
        Ok(())
    }

    /// What stands in each column, by `get`, which is given the column and what it is for.
    fn texts<T>(&self, get: impl Fn(&Column, &str) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let names = wanted(self.objective).iter().copied().chain(optional(self.objective));
        self.columns.iter().zip(names).map(|(column, name)| get(column, name)).collect()
    }

    fn columns_of(&self, line: &str) -> Result<Record, Error> {
        let fields: Vec<&str> = line.split('\t').collect();
        let get = |column: &Column, name: &str| {
            let text = match column {
                Column::Number(number) => fields.get(*number),
                Column::Key(_) => None,
            };
            text.map(|text| (*text).to_owned()).ok_or_else(|| {
                let what = format!("there is no column {column} for {name}, only {}", fields.len());
                self.wrong(what, "check that columns are separated by tabs")
            })
        };
        Ok(Record::of(self.texts(get)?))
    }

    fn object(&self, line: &str) -> Result<Record, Error> {
        let object: Value = serde_json::from_str(line)
            .map_err(|error| self.wrong(format!("it is not JSON: {error}"), "one object on each line"))?;
        let get = |column: &Column, name: &str| {
            let value = match column {
                Column::Key(key) => object.get(key),
                Column::Number(_) => None,
            };
            value.ok_or_else(|| {
                let what = format!("it has no {:?} for {name}", column.to_string());
                self.wrong(what, "name its keys with columns = [\"…\"]")
            })
        };
        if self.objective == Objective::Tag {
            return self.tagged(&self.texts(get)?);
        }
        let texts = self.texts(get)?.into_iter().map(as_text).collect();
        let start = object.get("start").and_then(Value::as_u64).map(|start| start as usize);
        Ok(Record { texts, start, ..Record::default() })
    }

    /// A list of words, and one of their tags.
    fn tagged(&self, lists: &[&Value]) -> Result<Record, Error> {
        let list = |at: usize, name: &str| {
            let list = lists.get(at).and_then(|value| value.as_array());
            list.map(|list| list.iter().map(as_text).collect::<Vec<_>>()).ok_or_else(|| {
                self.wrong(format!("{name} is not a list"), "give a list of words and one of tags")
            })
        };
        let (words, tags) = (list(0, "tokens")?, list(1, "tags")?);
        if words.len() != tags.len() {
            let what = format!("{} words and {} tags", words.len(), tags.len());
            return Err(self.wrong(what, "one tag for each word"));
        }
        Ok(Record { words: words.into_iter().zip(tags).collect(), ..Record::default() })
    }

    /// A sentence of words with tags, up to an empty line.
    fn sentence(&mut self) -> Result<(), Error> {
        let mut words = Vec::new();
        while let Some(line) = self.read_line()? {
            if line.trim().is_empty() {
                break;
            }
            if line.starts_with("-DOCSTART-") {
                continue;
            }
            let mut fields = line.split_whitespace();
            let (first, last) = (fields.next(), fields.next_back());
            let (Some(word), Some(tag)) = (first, last) else {
                return Err(self.wrong("it has a word and no tag", "a word, then columns, then its tag"));
            };
            words.push((word.to_owned(), tag.to_owned()));
        }
        if !words.is_empty() {
            self.waiting.push_back(Record { words, ..Record::default() });
        }
        Ok(())
    }

    /// All questions of a file in the format of SQuAD, which is one JSON value.
    fn questions(&mut self) -> Result<(), Error> {
        self.ended = true;
        let mut text = String::new();
        let place = self.place.clone();
        self.lines.read_to_string(&mut text).map_err(Error::io("read", Path::new(&place)))?;
        let whole: Value = serde_json::from_str(&without_mark(text))
            .map_err(|error| self.wrong(format!("it is not JSON: {error}"), "fetch it again"))?;
        let each =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        for article in each(&whole, "data") {
            for paragraph in each(&article, "paragraphs") {
                let context = paragraph.get("context").map(as_text).unwrap_or_default();
                for asked in each(&paragraph, "qas") {
                    let answers = each(&asked, "answers");
                    let Some((answer, others)) = answers.split_first() else { continue };
                    let question = asked.get("question").map(as_text).unwrap_or_default();
                    let found = |answer: &Value| answer.get("text").map(as_text).unwrap_or_default();
                    let start =
                        answer.get("answer_start").and_then(Value::as_u64).map(|start| start as usize);
                    self.waiting.push_back(Record {
                        texts: vec![question, context.clone(), found(answer)],
                        start,
                        others: others.iter().map(found).collect(),
                        ..Record::default()
                    });
                }
            }
        }
        Ok(())
    }
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// What a file is by its ending, or by the one before `.gz`.
fn by_ending(path: &Path) -> Option<Format> {
    let stem;
    let path = if has_ending(path, "gz") {
        stem = path.with_extension("");
        &stem
    } else {
        path
    };
    let ending = path.extension()?.to_str()?.to_lowercase();
    Some(match ending.as_str() {
        "tsv" => Format::Tsv,
        "jsonl" | "ndjson" => Format::Jsonl,
        "txt" | "raw" | "text" => Format::Text,
        "conll" => Format::Conll,
        "json" => Format::Squad,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_that_lacks_what_is_learned_is_refused() {
        let path = std::env::temp_dir().join(format!("glassformer-read-{}.txt", std::process::id()));
        std::fs::write(&path, "a line\n").unwrap();
        let source =
            |format| Source { path: path.clone(), format, columns: Vec::new(), skip: 0, weight: 1.0 };
        let refused =
            |format, objective| Records::open(&source(format), objective).err().map(|e| e.to_string());
        for objective in
            [Objective::Translate, Objective::Classify, Objective::Tag, Objective::Answer, Objective::Embed]
        {
            let error = refused(None, objective).expect("a text alone is not enough");
            assert!(error.contains("translate, classify, answer and embed take tsv"), "{error}");
        }
        assert!(refused(Some(Format::Tsv), Objective::Tag).is_some());
        assert!(refused(Some(Format::Conll), Objective::Translate).is_some());
        assert_eq!(refused(None, Objective::Generate), None);
        std::fs::remove_file(&path).unwrap();
    }

    /// All records of a file with this content.
    fn read(name: &str, text: &str, objective: Objective, columns: &[Column]) -> Result<Vec<Record>, Error> {
        let path = std::env::temp_dir().join(format!("glassformer-columns-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let source =
            Source { path: path.clone(), format: None, columns: columns.to_vec(), skip: 0, weight: 1.0 };
        let all = Records::open(&source, objective).and_then(|mut records| {
            std::iter::from_fn(|| records.record().transpose()).collect::<Result<Vec<_>, _>>()
        });
        std::fs::remove_file(&path).unwrap();
        all
    }

    /// Objects lost the second text of a pair, and a number in place of a key was ignored.
    #[test]
    fn columns_mean_the_same_in_both_formats() {
        let keys = ["a", "b", "c"].map(|key| Column::Key(key.to_owned()));
        let numbers = [0, 1, 2].map(Column::Number);
        let object = r#"{"a": "one", "b": "yes", "c": "two"}"#;
        let tsv = read("pair.tsv", "one\tyes\ttwo\n", Objective::Classify, &numbers).unwrap();
        assert_eq!(tsv[0].texts, ["one", "yes", "two"]);
        assert_eq!(read("pair.jsonl", object, Objective::Classify, &keys).unwrap(), tsv);

        let refused = |name: &str, text: &str, objective, columns: &[Column]| {
            read(name, text, objective, columns).expect_err("it is refused").to_string()
        };
        let missing = refused("few.tsv", "one\tyes\ttwo\none\tyes\n", Objective::Classify, &numbers);
        assert!(missing.contains("line 2: there is no column 2 for the second text"), "{missing}");
        let missing = refused("few.jsonl", r#"{"a": "", "b": ""}"#, Objective::Classify, &keys);
        assert!(missing.contains("line 1: it has no \"c\""), "{missing}");
        for (name, columns) in [("more.tsv", &numbers[..]), ("more.jsonl", &keys[..])] {
            let surplus = refused(name, object, Objective::Translate, columns);
            assert!(surplus.contains("3 columns are given, and it wants source, target;"), "{surplus}");
            let few = refused(name, object, Objective::Translate, &columns[..1]);
            assert!(few.contains("1 columns are given"), "{few}");
        }
        let number = refused("number.jsonl", object, Objective::Classify, &numbers);
        assert!(number.contains("not the number 0"), "{number}");
        let text = refused("text.txt", "a line\n", Objective::Generate, &numbers[..1]);
        assert!(text.contains("has no columns"), "{text}");
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let line = read("mark.tsv", "\u{feff}one\tyes\n\u{feff}two\tno\n", Objective::Classify, &[]).unwrap();
        assert_eq!(line[0].texts, ["one", "yes"]);
        assert_eq!(line[1].texts, ["\u{feff}two", "no"], "only where a file begins");
        assert_eq!(read("mark.json", "\u{feff}{\"data\": []}", Objective::Answer, &[]).unwrap(), []);
    }

    /// Only the first was kept, and answers that others had given were wrong.
    #[test]
    fn all_right_answers_of_a_question_are_kept() {
        let text = r#"{"data": [{"paragraphs": [{"context": "a red cat", "qas": [{"question": "who?",
            "answers": [{"text": "cat", "answer_start": 6}, {"text": "red cat", "answer_start": 2}]}]}]}]}"#;
        let records = read("several.json", text, Objective::Answer, &[]).unwrap();
        assert_eq!(records[0].texts, ["who?", "a red cat", "cat"]);
        assert_eq!((records[0].start, &records[0].others[..]), (Some(6), &["red cat".to_owned()][..]));
    }
}
