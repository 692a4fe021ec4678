//! From a text and a model with its tokenizer to a walkthrough: whatever the model does with texts, it does here with one.

use glassformer_engine::{Finish, Sequence};
use glassformer_formula::Head;
use glassformer_graph::Backend;
use glassformer_tasks::{Answer, Generate, Input, Problem, TextEncoder, TextGenerator, silent};
use glassformer_tokens::{Encoding, Part, Special};

use crate::why::asking::Asking;
use crate::why::{Questions, Why};
use crate::{Detail, Ending, Error, Likely, Tour, Walkthrough};

/// The most tokens that are followed: nobody reads every number of a page.
const MOST_TOKENS: usize = 256;

/// A text that is to be followed through a model.
#[derive(Clone, Copy, Debug)]
pub struct Follow<'t> {
    /// The text.
    pub text: &'t str,
    /// The second text of a pair: the context of a question, a hypothesis.
    pub second: Option<&'t str>,
    /// The most tokens that are written.
    pub max_new_tokens: usize,
    /// What is told besides the summary.
    pub detail: Detail,
}

/// A text that was followed.
#[derive(Clone, Debug)]
pub struct Followed {
    /// What there is to tell.
    pub walkthrough: Walkthrough,
    /// How many tokens were written, where the answer goes on after them.
    pub goes_on: Option<usize>,
}

/// What was written of a text.
pub(crate) struct WrittenText {
    /// The text as tokens.
    pub encoding: Encoding,
    /// What was read and written.
    pub sequence: Sequence,
    /// How many tokens the target began with.
    pub begun: usize,
    /// The tokens that were written.
    pub ids: Vec<u32>,
    pub text: String,
    pub score: Option<f32>,
    pub finish: Finish,
    pub goes_on: bool,
}

/// A text as a model reads it.
pub(crate) struct ReadText<'r> {
    pub encoding: Encoding,
    pub sequence: Sequence,
    pub ending: Ending<'r>,
}

impl Follow<'_> {
    /// How `generator` writes where it is followed: by its usual search, but without drawing.
    pub fn usual(&self, generator: &TextGenerator) -> Generate {
        let mut options = generator.default_options();
        // Which beam is the best is known at the end alone. Of the most likely tokens the first ones are enough.
        if options.decoding.beams == 1 {
            options.decoding.max_new_tokens = Some(self.max_new_tokens);
        }
        (options.decoding.returns, options.decoding.sampling) = (1, None);
        options
    }

    /// What `generator` makes of the text by its usual search, but without drawing, and every number on the way, as `backend` computes it.
    ///
    /// # Errors
    /// If the text is too long or cannot be read, or the model cannot run.
    pub fn written(&self, generator: &TextGenerator, backend: &dyn Backend) -> Result<Followed, Error> {
        self.written_by(generator, &self.usual(generator), backend)
    }

    /// The same by `options`.
    ///
    /// # Errors
    /// As [`Follow::written`].
    pub fn written_by(
        &self,
        generator: &TextGenerator,
        options: &Generate,
        backend: &dyn Backend,
    ) -> Result<Followed, Error> {
        let model = &generator.checkpoint().model;
        let (walkthrough, goes_on) = self.writing((generator, options), |tour| tour.walk(model, backend))?;
        Ok(Followed { walkthrough, goes_on })
    }

    /// What `generator` makes of the text by `options`, and why: the answers to `questions`, and how many tokens were written where the
    /// answer goes on.
    ///
    /// # Errors
    /// As [`Follow::written`], and where a question cannot be answered.
    pub fn why_written(
        &self,
        (generator, options): (&TextGenerator, &Generate),
        backend: &dyn Backend,
        questions: &Questions,
    ) -> Result<(Why, Option<usize>), Error> {
        let model = &generator.checkpoint().model;
        let tokenizer = generator.tokenizer();
        let encode = |text: &str| -> Result<Vec<u32>, Error> {
            let ids = tokenizer.encode(text, Special::Add).map_err(glassformer_tasks::Error::from)?.ids;
            short(ids.len())?;
            Ok(ids)
        };
        self.writing((generator, options), |tour| {
            // Another text is read where this one is: what was written stays.
            let other = |text: &str, second: Option<&str>| -> Result<Sequence, Error> {
                one(second)?;
                let ids = encode(text)?;
                let read = tour.read();
                Ok(if generator.reads_source() {
                    Sequence { source: ids, ..read }
                } else {
                    Sequence { target: ids, ..read }
                })
            };
            let asking = Asking { tour, model, backend, tokenizer, others: &other };
            asking.ask(questions)
        })
    }

    /// What `generator` writes by `options`, told by `tell`.
    fn writing<T>(
        &self,
        (generator, options): (&TextGenerator, &Generate),
        tell: impl FnOnce(&Tour<'_>) -> Result<T, Error>,
    ) -> Result<(T, Option<usize>), Error> {
        let WrittenText { sequence, ids, text, goes_on, .. } = self.write(generator, options)?;
        let count = ids.len();
        let ending = Ending::Written { answer: text.trim(), count, beams: options.decoding.beams };
        let tour = Tour {
            text: self.text,
            sequence,
            ending,
            token: &|id| generator.tokenizer().readable(id),
            detail: self.detail,
        };
        Ok((tell(&tour)?, goes_on.then_some(count)))
    }

    /// Lets `generator` write.
    pub(crate) fn write(&self, generator: &TextGenerator, options: &Generate) -> Result<WrittenText, Error> {
        one(self.second)?;
        let encoding =
            generator.tokenizer().encode(self.text, Special::Add).map_err(glassformer_tasks::Error::from)?;
        short(encoding.len())?;
        let mut written = generator.generate(&[self.text], options, &mut silent)?.remove(0).remove(0);
        let goes_on = written.finish == Finish::Length || written.ids.len() > self.max_new_tokens;
        written.ids.truncate(self.max_new_tokens);
        let ids = encoding.ids.clone();
        let (source, mut target) = if generator.reads_source() {
            (ids, options.decoding.start.into_iter().collect())
        } else {
            (Vec::new(), ids)
        };
        let begun = target.len();
        target.extend(&written.ids);
        let sequence = Sequence { source, target, ..Sequence::default() };
        let (ids, text, score, finish) = (written.ids, written.text, written.score, written.finish);
        Ok(WrittenText { encoding, sequence, begun, ids, text, score, finish, goes_on })
    }

    /// What `encoder` makes of the text: words for its blanks, a class, tags, the answer to a question, a vector.
    ///
    /// # Errors
    /// If the text is too long or cannot be read, or the model cannot run.
    pub fn read(&self, encoder: &TextEncoder, backend: &dyn Backend) -> Result<Walkthrough, Error> {
        let ReadText { sequence, ending, .. } = self.reading(encoder)?;
        let (text, token) = (self.told_text(), |id| encoder.tokenizer().readable(id));
        let tour = Tour { text: &text, sequence, ending, token: &token, detail: self.detail };
        tour.walk(&encoder.checkpoint().model, backend)
    }

    /// What `encoder` makes of the text, and why: the answers to `questions`.
    ///
    /// # Errors
    /// As [`Follow::read`], and where a question cannot be answered.
    pub fn why_read(
        &self,
        encoder: &TextEncoder,
        backend: &dyn Backend,
        questions: &Questions,
    ) -> Result<Why, Error> {
        let model = &encoder.checkpoint().model;
        let other = |text: &str, second: Option<&str>| -> Result<Sequence, Error> {
            let input = second.map_or(Input::One(text), |second| Input::Pair(text, second));
            let (encoding, sequence) = encoder.read(input)?;
            short(encoding.len())?;
            Ok(sequence)
        };
        let ReadText { sequence, ending, .. } = self.reading(encoder)?;
        let (text, tokenizer) = (self.told_text(), encoder.tokenizer());
        let token = |id| tokenizer.readable(id);
        let tour = &Tour { text: &text, sequence, ending, token: &token, detail: self.detail };
        Asking { tour, model, backend, tokenizer, others: &other }.ask(questions)
    }

    /// The text, or both of a pair, as it is told.
    pub(crate) fn told_text(&self) -> String {
        match self.second {
            None => self.text.to_owned(),
            Some(second) => format!("{}” + “{second}", self.text),
        }
    }

    /// The text as `encoder` reads it, and what comes of it.
    pub(crate) fn reading<'r>(&self, encoder: &'r TextEncoder) -> Result<ReadText<'r>, Error> {
        let checkpoint = encoder.checkpoint();
        let input = match self.second {
            None if encoder.marks_answers() => {
                let what = "this model answers questions from a context, and one text was given";
                return Err(Error::Pair { what, hint: "give the question, and the context behind it" });
            }
            None => Input::One(self.text),
            Some(second) => Input::Pair(self.text, second),
        };
        let (encoding, sequence) = encoder.read(input)?;
        short(encoding.len())?;
        let names = &checkpoint.labels;
        let ending = match checkpoint.model.formula().head {
            _ if encoder.marks_answers() => Ending::Span { best: self.answer(encoder, &encoding)? },
            Head::Words { .. } | Head::Adaptive { .. } => {
                Ending::Blanks { places: blanks(encoder, &encoding) }
            }
            Head::Classes { .. } => {
                let likely = match encoder.problem()? {
                    Problem::Single => Likely::Softmax,
                    Problem::Several => Likely::Sigmoid,
                    Problem::Measure | Problem::Activated(_) => Likely::Scores,
                };
                Ending::Classes { names, likely }
            }
            // A single score for each token is right or wrong by itself (ELECTRA: was the token replaced?).
            Head::Tags { count: 1, .. } => Ending::Tags { names, likely: Likely::Sigmoid },
            Head::Tags { .. } => Ending::Tags { names, likely: Likely::Softmax },
            Head::Spans => Ending::Span { best: self.answer(encoder, &encoding)? },
            Head::Rows => Ending::Rows,
        };
        Ok(ReadText { encoding, sequence, ending })
    }

    /// The first and the last token of the answer.
    fn answer(&self, encoder: &TextEncoder, encoding: &Encoding) -> Result<Option<(usize, usize)>, Error> {
        let pair = (self.text, self.second.unwrap_or_default());
        let found = encoder.answer(&[pair], &Answer::default())?.remove(0);
        let Some(found) = found.first() else { return Ok(None) };
        let inside = |&at: &usize| {
            let bytes = encoding.bytes[at];
            let overlaps = bytes.start < found.bytes.end && bytes.end > found.bytes.start;
            encoding.parts[at] == Some(Part::Second) && overlaps
        };
        let first = (0..encoding.len()).find(inside);
        Ok(first.zip((0..encoding.len()).rfind(inside)))
    }
}

/// Which tokens are to be guessed: the blanks, or where there are none all that belong to the text.
fn blanks(encoder: &TextEncoder, encoding: &Encoding) -> Vec<usize> {
    let mask = encoder.tokenizer().special().mask;
    let blank = |&at: &usize| Some(encoding.ids[at]) == mask;
    let blanks: Vec<usize> = (0..encoding.len()).filter(blank).collect();
    if !blanks.is_empty() {
        return blanks;
    }
    (0..encoding.len()).filter(|&at| !encoding.special[at]).collect()
}

/// Refuses a second text where one is read.
fn one(second: Option<&str>) -> Result<(), Error> {
    if second.is_some() {
        let what = "this model writes, and reads one text at a time";
        return Err(Error::Pair { what, hint: "give one text" });
    }
    Ok(())
}

fn short(tokens: usize) -> Result<(), Error> {
    if tokens > MOST_TOKENS { Err(Error::Long { tokens, limit: MOST_TOKENS }) } else { Ok(()) }
}
