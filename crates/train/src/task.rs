//! What an objective makes of its data: records become tokens, and tokens rows of a batch with the right answers.

use glassformer_families::global_rows;
use glassformer_formula::{Formula, Head, Input};
use glassformer_graph::{Batch, Packed, Side, Span};
use glassformer_tasks::question_rows;
use glassformer_tensor::Random;
use glassformer_tokens::{Part, Special, Tokenizer};

use crate::Error;
use crate::config::{Config, Objective};
use crate::data::{Order, Record, Store};
use crate::memory::{Texts, remembered};

/// The tokens of a record, part by part, or why it cannot be used.
pub type Encoded = Result<Vec<Vec<u32>>, Refused>;

/// Why a record cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It has no tokens.
    Empty,
    /// It has too many.
    Long,
    /// The answer is not where it is said to be.
    NoAnswer,
}

/// An objective with all that it needs to know.
pub struct Task {
    objective: Objective,
    tokenizer: Tokenizer,
    labels: Vec<String>,
    /// What the target of an encoder-decoder begins with.
    start: u32,
    length: usize,
    hidden: f64,
    /// Whose rows the loss is about.
    side: Side,
    /// Whether rows have types.
    types: bool,
    /// Positions that see all.
    global: Vec<usize>,
    /// Whether the rows of a question see all instead.
    asking: bool,
    /// The ids that there are: files may leave some out.
    ids: Vec<u32>,
    /// Whether pieces of running text are remembered from batch to batch.
    texts: Texts,
}

/// What a model says that a task must know.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// What the target of an encoder-decoder begins with; the pad token where nothing says it.
    pub start: Option<u32>,
    /// Positions of the source that see all.
    pub global: Vec<usize>,
}

impl Task {
    /// The task of `config` for a model of this formula.
    ///
    /// # Errors
    /// If the formula is not one for the objective, or the tokenizer lacks a token that it needs.
    pub fn new(
        config: &Config,
        tokenizer: Tokenizer,
        labels: Vec<String>,
        formula: &Formula,
        about: About,
    ) -> Result<Self, Error> {
        fits(config.objective, formula)?;
        let special = tokenizer.special();
        let start = about.start.or(special.pad).or(special.eos);
        if config.objective == Objective::Translate && (start.is_none() || special.eos.is_none()) {
            return Err(Error::config(
                "the tokenizer has no end token, or nothing to begin a target with",
                "take one with </s> and <pad>, or let one be learned",
            ));
        }
        if config.objective == Objective::Fill && special.mask.is_none() {
            return Err(Error::config(
                "the tokenizer has no mask token",
                "take one of a masked language model",
            ));
        }
        let goes_on = config.objective == Objective::Generate && remembered(formula) > 0;
        if goes_on && config.data.train.iter().any(|source| source.weight != 1.0) {
            return Err(Error::config(
                "data.train has weights, and this formula reads its text from the beginning to the end",
                "leave weight out, or write a text several times into its file",
            ));
        }
        let (side, given) = match (&formula.target, &formula.source) {
            (Some(target), _) => (Side::Target, Some(target)),
            (None, source) => (Side::Source, source.as_ref()),
        };
        let types =
            given.is_some_and(|side| matches!(&side.input, Input::Tokens(tokens) if tokens.types.is_some()));
        Ok(Self {
            objective: config.objective,
            ids: tokenizer.vocabulary().iter().map(|(id, _)| id).collect(),
            tokenizer,
            labels,
            start: start.unwrap_or(0),
            length: config.data.length,
            hidden: config.data.hidden,
            side,
            types,
            global: about.global,
            asking: config.objective == Objective::Answer && !global_rows(formula).is_empty(),
            texts: if goes_on { Texts::GoOn } else { Texts::Apart },
        })
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Its labels.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// What the target of an encoder-decoder begins with.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// Whose rows the loss is about.
    pub fn side(&self) -> Side {
        self.side
    }

    /// What is learned.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// How one batch belongs to the next.
    pub fn texts(&self) -> Texts {
        self.texts
    }

    /// Whether the data is text without ends, cut anywhere.
    pub fn is_running(&self) -> bool {
        matches!(self.objective, Objective::Generate | Objective::Fill)
    }

    /// The fewest tokens of running text that teach something: a row needs the token after it, unless that is hidden itself.
    pub fn least(&self) -> u64 {
        match self.objective {
            Objective::Generate => 2,
            Objective::Fill => 1,
            Objective::Translate
            | Objective::Classify
            | Objective::Tag
            | Objective::Answer
            | Objective::Embed => 0,
        }
    }

    /// Whether examples are two texts that say the same.
    pub fn pairs(&self) -> bool {
        matches!(self.objective, Objective::Translate | Objective::Embed)
    }

    /// How many parts the tokens of an example have.
    pub fn parts(&self) -> usize {
        match self.objective {
            Objective::Generate | Objective::Fill => 1,
            Objective::Translate | Objective::Tag | Objective::Embed => 2,
            Objective::Classify => 3,
            Objective::Answer => 4,
        }
    }

    /// What the tokens of the data depend on, besides the data.
    pub fn identity(&self) -> (Vec<(u32, &str)>, &[String]) {
        (self.tokenizer.vocabulary().iter().collect(), &self.labels)
    }

    /// The tokens of a record.
    ///
    /// # Errors
    /// If the tokenizer fails on a text.
    pub fn encode(&self, record: &Record) -> Result<Encoded, Error> {
        let parts = match self.objective {
            Objective::Generate | Objective::Fill => {
                let text = format!("{}\n", record.texts[0]);
                return Ok(Ok(vec![self.tokenizer.encode(&text, Special::Leave)?.ids]));
            }
            Objective::Translate => {
                let source = self.tokenizer.encode(&record.texts[0], Special::Add)?.ids;
                let target = self.tokenizer.encode_target(&record.texts[1], Special::Add)?.ids;
                if source.len() < 2 || target.len() < 2 {
                    return Ok(Err(Refused::Empty));
                }
                vec![source, target]
            }
            Objective::Embed => {
                let encode = |text: &str| Ok::<_, Error>(self.tokenizer.encode(text, Special::Add)?.ids);
                vec![encode(&record.texts[0])?, encode(&record.texts[1])?]
            }
            Objective::Classify => {
                let encoding = match record.texts.get(2) {
                    None => self.tokenizer.encode(&record.texts[0], Special::Add)?,
                    Some(second) => self.tokenizer.encode_pair(&record.texts[0], second, Special::Add)?,
                };
                let label = self.label(&record.texts[1])?;
                vec![encoding.ids, encoding.types, vec![label]]
            }
            Objective::Tag => self.tagged(record)?,
            Objective::Answer => match self.answered(record)? {
                Some(parts) => parts,
                None => return Ok(Err(Refused::NoAnswer)),
            },
        };
        if parts[0].is_empty() {
            return Ok(Err(Refused::Empty));
        }
        let texts = if self.pairs() { 2 } else { 1 };
        if parts[..texts].iter().any(|part| part.len() > self.length) {
            return Ok(Err(Refused::Long));
        }
        Ok(Ok(parts))
    }

    fn label(&self, name: &str) -> Result<u32, Error> {
        let at = self.labels.iter().position(|label| label == name).ok_or_else(|| Error::Data {
            place: "data.valid".into(),
            what: format!("the label {name:?} is not in the data to learn from"),
            hint: format!("it has {}", self.labels.join(", ")),
        })?;
        Ok(at as u32)
    }

    /// The tokens of a sentence, and for the first token of each word its tag plus one; 0 for all others.
    fn tagged(&self, record: &Record) -> Result<Vec<Vec<u32>>, Error> {
        let words: Vec<&str> = record.words.iter().map(|(word, _)| word.as_str()).collect();
        let encoding = self.tokenizer.encode(&words.join(" "), Special::Add)?;
        let mut starts = Vec::new();
        let mut at = 0;
        for (word, tag) in &record.words {
            starts.push((at, at + word.len(), self.label(tag)? + 1));
            at += word.len() + 1;
        }
        let mut next = 0;
        let mut tags = vec![0; encoding.ids.len()];
        for (row, span) in encoding.bytes.iter().enumerate() {
            if encoding.special[row] || span.start == span.end {
                continue;
            }
            while next < starts.len() && starts[next].1 <= span.start {
                next += 1;
            }
            if let Some(&(from, _, tag)) = starts.get(next)
                && span.end > from
            {
                tags[row] = tag;
                next += 1;
            }
        }
        Ok(vec![encoding.ids, tags])
    }

    /// The tokens of a question and its context, their types, the first and the last token of the answer, and how many rows of the question
    /// see all.
    fn answered(&self, record: &Record) -> Result<Option<Vec<Vec<u32>>>, Error> {
        let [question, context, answer] = &record.texts[..] else { return Ok(None) };
        let first = match record.start {
            Some(chars) => context.char_indices().nth(chars).map(|(at, _)| at),
            None => context.find(answer.as_str()),
        };
        let Some(first) = first.filter(|&at| context[at..].starts_with(answer.as_str())) else {
            return Ok(None);
        };
        let last = first + answer.len();
        let encoding = self.tokenizer.encode_pair(question, context, Special::Add)?;
        let inside = |row: usize| {
            let span = encoding.bytes[row];
            encoding.parts[row] == Some(Part::Second)
                && span.end > first
                && span.start < last
                && span.end > span.start
        };
        let rows: Vec<u32> =
            (0..encoding.ids.len()).filter(|&row| inside(row)).map(|row| row as u32).collect();
        let (Some(&from), Some(&to)) = (rows.first(), rows.last()) else { return Ok(None) };
        let question = if self.asking { question_rows(&encoding) as u32 } else { 0 };
        Ok(Some(vec![encoding.ids, encoding.types, vec![from, to], vec![question]]))
    }

    /// How many rows an example has on each side, by the lengths of its parts.
    pub fn sizes(&self, lengths: &[u32]) -> (usize, usize) {
        match self.objective {
            Objective::Translate => (lengths[0] as usize, lengths[1] as usize),
            Objective::Embed => (lengths[0] as usize + lengths[1] as usize, 0),
            Objective::Generate
            | Objective::Fill
            | Objective::Classify
            | Objective::Tag
            | Objective::Answer => (lengths[0] as usize, 0),
        }
    }

    /// The batches of an epoch: each a list of examples or, for running text, of places where pieces of it begin.
    pub fn plan(&self, store: &Store, order: &Order, epoch: usize) -> Vec<Vec<u64>> {
        if self.is_running() {
            let mut random = order.random(epoch);
            let starts = self.windows(store, random.below(self.length) as u64);
            if self.texts == Texts::GoOn {
                return self.streams(&starts, order.rows);
            }
            let mut starts = order.repeated(store, starts, &mut random);
            random.shuffle(&mut starts);
            return self.grouped(&starts, order.rows);
        }
        let batches = order.epoch(store, epoch, |lengths| self.sizes(lengths));
        batches.into_iter().map(|batch| batch.into_iter().map(u64::from).collect()).collect()
    }

    /// The batches of a set that is only looked at.
    pub fn plain(&self, store: &Store, order: &Order) -> Vec<Vec<u64>> {
        if self.is_running() {
            let starts = self.windows(store, 0);
            return match self.texts {
                Texts::Apart => self.grouped(&starts, order.rows),
                Texts::GoOn => self.streams(&starts, order.rows),
            };
        }
        let batches = order.plain(store, |lengths| self.sizes(lengths));
        batches.into_iter().map(|batch| batch.into_iter().map(u64::from).collect()).collect()
    }

    /// Where the pieces of running text begin, the first at `shift`; text shorter than a piece is one, unless it teaches nothing.
    fn windows(&self, store: &Store, shift: u64) -> Vec<u64> {
        let (total, piece) = (store.total(), self.length as u64);
        if total < self.least() {
            return Vec::new();
        }
        let shift = if shift + piece < total { shift } else { 0 };
        let count = (total.saturating_sub(1 + shift) / piece).max(1);
        (0..count).map(|at| shift + at * piece).collect()
    }

    fn grouped(&self, starts: &[u64], rows: usize) -> Vec<Vec<u64>> {
        let marks = if self.objective == Objective::Fill { 2 } else { 0 };
        starts.chunks((rows / (self.length + marks)).max(1)).map(<[u64]>::to_vec).collect()
    }

    /// The pieces of a text cut into as many streams as a batch holds: each batch has the next piece of every stream. Pieces at the
    /// end that do not fill all streams are left out.
    fn streams(&self, starts: &[u64], rows: usize) -> Vec<Vec<u64>> {
        let streams = (rows / self.length).clamp(1, starts.len().max(1));
        let pieces = starts.len() / streams;
        (0..pieces).map(|at| (0..streams).map(|stream| starts[stream * pieces + at]).collect()).collect()
    }

    /// The batch of these examples. `random` draws what is hidden; weights are `1`, to be divided by the rows of the step.
    ///
    /// # Errors
    /// If the data on disk cannot be read.
    pub fn batch(&self, store: &Store, items: &[u64], random: &mut Random) -> Result<Batch<'static>, Error> {
        let mut batch = Batch::default();
        for &item in items {
            let parts = if self.is_running() {
                let length = (self.length as u64 + 1).min(store.total() - item) as usize;
                vec![store.window(item, length)?]
            } else {
                store.read(item as usize)?
            };
            self.push(&mut batch, &parts, random);
        }
        let packed = batch.side_mut(self.side);
        packed.weights = vec![1.0; packed.labels.len()];
        Ok(batch)
    }

    fn push(&self, batch: &mut Batch<'static>, parts: &[Vec<u32>], random: &mut Random) {
        match self.objective {
            Objective::Translate => {
                let (source, target) = (&parts[0], &parts[1]);
                let span = Span { source: batch.source.spans.len(), ..Span::default() };
                batch.source.push(source, Span::default());
                let shifted: Vec<u32> =
                    std::iter::once(self.start).chain(target[..target.len() - 1].iter().copied()).collect();
                pick_all(&mut batch.target, shifted.len());
                batch.target.push(&shifted, span);
                batch.target.labels.extend(target);
            }
            Objective::Generate => {
                let tokens = &parts[0];
                let Some(rows) = tokens.len().checked_sub(1) else { return };
                let packed = batch.side_mut(self.side);
                pick_all(packed, rows);
                packed.push(&tokens[..rows], Span::default());
                packed.labels.extend(&tokens[1..]);
            }
            Objective::Fill => self.hide(batch, &parts[0], random),
            Objective::Classify => {
                self.push_typed(batch, &parts[0], &parts[1]);
                batch.side_mut(self.side).labels.extend(&parts[2]);
            }
            Objective::Tag => {
                let first = batch.side(self.side).rows() as u32;
                self.push_typed(batch, &parts[0], &[]);
                let packed = batch.side_mut(self.side);
                for (row, &tag) in (first..).zip(&parts[1]).filter(|(_, tag)| **tag > 0) {
                    packed.picked.push(row);
                    packed.labels.push(tag - 1);
                }
            }
            Objective::Answer => {
                let packed = batch.side_mut(self.side);
                pick_all(packed, parts[0].len());
                // Not labels of rows: the two ends of the answer, counted from the sequence's first row.
                packed.labels.extend(&parts[2]);
                let question = parts[3].first().map_or(0, |&rows| rows as usize);
                let global: Vec<usize> =
                    if question > 0 { (0..question).collect() } else { self.global.clone() };
                self.push_seeing(batch, (&parts[0], &parts[1]), &global);
            }
            Objective::Embed => {
                self.push_typed(batch, &parts[0], &[]);
                self.push_typed(batch, &parts[1], &[]);
            }
        }
    }

    fn push_typed(&self, batch: &mut Batch<'static>, ids: &[u32], types: &[u32]) {
        self.push_seeing(batch, (ids, types), &self.global);
    }

    /// Pushes a text with its types, of which the positions `global` see all.
    fn push_seeing(&self, batch: &mut Batch<'static>, (ids, types): (&[u32], &[u32]), global: &[usize]) {
        let packed = batch.side_mut(self.side);
        packed.push(ids, Span::default());
        if self.types {
            packed.types.extend(ids.iter().enumerate().map(|(row, _)| types.get(row).copied().unwrap_or(0)));
        }
        if !global.is_empty() {
            packed.global.extend((0..ids.len()).map(|row| global.contains(&row)));
        }
    }

    /// Hides tokens (Devlin et al. 2018): of those chosen, eight in ten become the mask, one any token, one stays.
    fn hide(&self, batch: &mut Batch<'static>, tokens: &[u32], random: &mut Random) {
        let special = self.tokenizer.special();
        let mask = special.mask.unwrap_or(0);
        let words = &tokens[..tokens.len().min(self.length)];
        let mut ids: Vec<u32> = special.cls.into_iter().collect();
        let first = batch.side(self.side).rows() + ids.len();
        let (mut picked, mut labels) = (Vec::new(), Vec::new());
        for (row, &token) in words.iter().enumerate() {
            if f64::from(random.uniform()) >= self.hidden {
                ids.push(token);
                continue;
            }
            picked.push((first + row) as u32);
            labels.push(token);
            let draw = random.uniform();
            ids.push(match draw {
                draw if draw < 0.8 => mask,
                draw if draw < 0.9 => *random.pick(&self.ids),
                _ => token,
            });
        }
        ids.extend(special.sep);
        self.push_typed(batch, &ids, &[]);
        let packed = batch.side_mut(self.side);
        packed.picked.extend(picked);
        packed.labels.extend(labels);
    }
}

/// Asks the head about the next `rows` rows.
fn pick_all(packed: &mut Packed, rows: usize) {
    let first = packed.rows() as u32;
    packed.picked.extend(first..first + rows as u32);
}

/// Refuses a formula that cannot do what the objective asks.
fn fits(objective: Objective, formula: &Formula) -> Result<(), Error> {
    let both = formula.source.is_some() && formula.target.is_some();
    let words = matches!(formula.head, Head::Words { .. } | Head::Adaptive { .. });
    let (fits, needs) = match objective {
        Objective::Translate => (both && words, "an encoder, a decoder and a head for words"),
        Objective::Generate => (formula.source.is_none() && words, "a decoder alone with a head for words"),
        Objective::Fill => (formula.target.is_none() && words, "an encoder alone with a head for words"),
        Objective::Classify => {
            (!both && matches!(formula.head, Head::Classes { .. }), "one stack and a head for classes")
        }
        Objective::Tag => {
            (!both && matches!(formula.head, Head::Tags { .. }), "one stack and a head for tags")
        }
        Objective::Answer => (!both && matches!(formula.head, Head::Spans), "one stack and a head for spans"),
        Objective::Embed => (!both && formula.pooler.is_some(), "one stack and a pooler"),
    };
    if fits {
        return Ok(());
    }
    let name = serde_json::to_string(&objective).unwrap_or_default();
    Err(Error::config(format!("the objective {name} needs {needs}"), "change the formula, or the objective"))
}
