//! A model with its tokenizer: text in, numbers out.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use glassformer_engine::{Asked, Sequence};
use glassformer_families::{Checkpoint, embedding_folder, global_rows, open_for_embedding};
use glassformer_formula::{Formula, Head, Input as Rows};
use glassformer_graph::Backend;
use glassformer_tokens::{Encoding, Part, Tokenizer};

use crate::runs::{EncoderLoad, Runs};
use crate::{Error, Input, Long};

/// A model with its tokenizer, prepared once and used for many texts: it embeds, classifies, tags, answers, fills blanks and scores.
/// Threads can share it: what they ask for while a batch runs, runs together after it.
pub struct TextEncoder {
    tokenizer: Tokenizer,
    backend: Arc<dyn Backend>,
    runs: Runs,
    /// Where the model lies, if it was opened from there.
    path: Option<PathBuf>,
    /// The same model with what makes one vector of a text, once that was asked for.
    embedder: OnceLock<Runs>,
}

impl TextEncoder {
    /// Opens the model at `path`, to be run by `backend`. The modules that sentence-transformers puts after a model are read when
    /// [`TextEncoder::embed`] is called first.
    ///
    /// # Errors
    /// If the checkpoint or its tokenizer cannot be opened, or do not belong together.
    pub fn open(path: impl AsRef<Path>, backend: Arc<dyn Backend>) -> Result<Self, Error> {
        let path = path.as_ref();
        let described = ["config.json", "formula.toml"].iter().any(|name| path.join(name).exists());
        let folder = if described { path.to_owned() } else { embedding_folder(path)? };
        let checkpoint = match crate::open(&folder) {
            Ok(checkpoint) => checkpoint,
            // Its configuration may name a decoder or a head that sentences do without, and the files lack.
            Err(error) => {
                open_for_embedding(path).ok().filter(|_| path.join("modules.json").exists()).ok_or(error)?
            }
        };
        let encoder = Self::new(checkpoint, crate::tokenizer(&folder)?, backend)?;
        Ok(Self { path: Some(path.to_owned()), ..encoder })
    }

    /// A checkpoint with its tokenizer. It embeds if it was opened for that; see [`open_for_embedding`].
    ///
    /// # Errors
    /// If they do not belong together, or the model cannot be lowered.
    pub fn new(
        checkpoint: Checkpoint,
        tokenizer: Tokenizer,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, Error> {
        if let Some(rows) = vocabulary(checkpoint.model.formula()) {
            let tokens = tokenizer.vocabulary().size();
            if tokens > rows {
                return Err(Error::Vocabulary { tokens, rows });
            }
        }
        let runs = Runs::new(checkpoint, &backend)?;
        Ok(Self { tokenizer, backend, runs, path: None, embedder: OnceLock::new() })
    }

    /// The model whose output is one vector of a text.
    pub(crate) fn embedder(&self) -> Result<&Runs, Error> {
        if self.checkpoint().embedding.is_some() {
            return Ok(&self.runs);
        }
        if let Some(embedder) = self.embedder.get() {
            return Ok(embedder);
        }
        let Some(path) = &self.path else {
            let needs = "what makes one vector of a text";
            return Err(Error::Head { task: "embed", needs, has: "rows: open it for embedding" });
        };
        let embedder = Runs::new(open_for_embedding(path)?, &self.backend)?;
        Ok(self.embedder.get_or_init(|| embedder))
    }

    /// The model, and what its configuration says.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.runs.checkpoint
    }

    /// What it has done: batches are fewer than callers where these came at the same time.
    pub fn load(&self) -> EncoderLoad {
        self.runs.load()
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// How many tokens it can read at once, special ones included, where there is a limit.
    pub fn longest(&self) -> Option<usize> {
        longest(self.checkpoint(), Some(&self.tokenizer))
    }

    /// What the model reads of `input`: its tokens, and the sequence that they are a part of. A model of sentences reads its usual
    /// prompt before it.
    ///
    /// # Errors
    /// If there is nothing in it, or it is longer than the model reads.
    pub fn read(&self, input: Input<'_>) -> Result<(Encoding, Sequence), Error> {
        let usual;
        let input = match input {
            Input::One(text) => {
                usual = self.usual_text(text)?;
                Input::One(&usual)
            }
            Input::Pair(..) => input,
        };
        let encoding = self.encode(&[input], Long::Refuse, self.longest())?.remove(0);
        let sequence = self.sequence(&encoding, Asked::All)?;
        Ok((encoding, sequence))
    }

    /// Whether the model marks the first and the last token of an answer: by a head for that, or by two tags that mean it.
    pub fn marks_answers(&self) -> bool {
        marks_answers(self.checkpoint())
    }

    /// Runs `texts` in batches and hands each its rows of the output `name`: all of those that the head was asked about, or the
    /// only one.
    pub(crate) fn run(
        &self,
        texts: &[Encoding],
        name: &str,
        asked: impl Fn(&Encoding) -> Asked,
        take: impl FnMut(usize, &[f32]),
    ) -> Result<(), Error> {
        let sequence = |(index, text)| {
            self.sequence(text, asked(text)).map_err(|error: Error| error.counted_from(index))
        };
        let sequences: Vec<Sequence> = texts.iter().enumerate().map(sequence).collect::<Result<_, _>>()?;
        self.run_sequences(&sequences, name, take)
    }

    /// Runs `sequences` in batches and hands each its rows of the output `name`.
    pub(crate) fn run_sequences(
        &self,
        sequences: &[Sequence],
        name: &str,
        take: impl FnMut(usize, &[f32]),
    ) -> Result<(), Error> {
        self.runs.run(sequences, name, take)
    }

    /// How many rows the head is asked about in one batch.
    pub(crate) fn most_asked(&self) -> usize {
        self.runs.most_asked()
    }

    /// A text as the model reads it.
    pub(crate) fn sequence(&self, text: &Encoding, asked: Asked) -> Result<Sequence, Error> {
        self.runs.sequence(text, asked)
    }

    /// Refuses a model whose head is not the one that `task` needs.
    pub(crate) fn needs(
        &self,
        task: &'static str,
        needs: &'static str,
        right: impl Fn(&Head) -> bool,
    ) -> Result<(), Error> {
        let head = &self.checkpoint().model.formula().head;
        if right(head) { Ok(()) } else { Err(Error::Head { task, needs, has: describe(head) }) }
    }
}

impl Runs {
    /// A text as the model reads it.
    pub fn sequence(&self, text: &Encoding, asked: Asked) -> Result<Sequence, Error> {
        let formula = self.checkpoint.model.formula();
        let ids = text.ids.clone();
        if formula.source.is_none() {
            return Ok(Sequence { target: ids, asked, ..Sequence::default() });
        }
        let typed = matches!(formula.source.as_ref().map(|side| &side.input), Some(Rows::Tokens(tokens)) if tokens.types.is_some());
        let types = if typed { text.types.clone() } else { Vec::new() };
        let looks = marks_answers(&self.checkpoint) && !global_rows(formula).is_empty();
        let global = if looks { (0..question_rows(text)).collect() } else { Vec::new() };
        let mut sequence = Sequence { source: ids, types, global, asked, ..Sequence::default() };
        crate::complete(&mut sequence, &self.checkpoint)?;
        Ok(sequence)
    }
}

/// Whether a model marks the first and the last token of an answer: by a head for that, or by two tags that mean it.
pub(crate) fn marks_answers(checkpoint: &Checkpoint) -> bool {
    let names = checkpoint.config.get("architectures").and_then(|names| names.get(0)?.as_str());
    match checkpoint.model.formula().head {
        Head::Spans => true,
        Head::Tags { count: 2, .. } => names.is_some_and(|name| name.ends_with("ForQuestionAnswering")),
        Head::Tags { .. }
        | Head::Rows
        | Head::Words { .. }
        | Head::Adaptive { .. }
        | Head::Classes { .. } => false,
    }
}

/// How many rows the question of a pair has, from the first on. They see and are seen by all where a model has windows (Longformer).
pub fn question_rows(text: &Encoding) -> usize {
    text.parts.iter().rposition(|part| *part == Some(Part::First)).map_or(0, |last| last + 1)
}

/// What a head gives, in words.
pub(crate) fn describe(head: &Head) -> &'static str {
    match head {
        Head::Rows => "no head: it gives rows",
        Head::Words { .. } | Head::Adaptive { .. } => "a head for words",
        Head::Classes { .. } => "a head for classes",
        Head::Tags { .. } => "a head for tags",
        Head::Spans => "a head for answers",
    }
}

/// The rows of the table that ids are looked up in.
pub(crate) fn vocabulary(formula: &Formula) -> Option<usize> {
    let side = formula.source.as_ref().or(formula.target.as_ref())?;
    match &side.input {
        Rows::Tokens(tokens) => Some(tokens.vocabulary),
        Rows::Patches(_) => None,
    }
}

/// How many tokens a model can read at once, for every task: by its positions where they are counted, by what it was trained with,
/// and by what its tokenizer and sentence-transformers say.
pub(crate) fn longest(checkpoint: &Checkpoint, tokenizer: Option<&Tokenizer>) -> Option<usize> {
    let formula = checkpoint.model.formula();
    let side = formula.source.as_ref().or(formula.target.as_ref());
    let positions = side.and_then(|side| side.stack.position.count());
    let trained = checkpoint.config.get("max_position_embeddings").and_then(serde_json::Value::as_u64);
    let trained = trained.map(|longest| longest as usize);
    let told = tokenizer.and_then(Tokenizer::model_max_length);
    [positions, trained, told, checkpoint.longest].into_iter().flatten().min()
}
