//! Translation: languages by name, long texts sentence by sentence, laid out as they were.

use glassformer_tokens::Special;

use crate::sentences::{Piece, joiner, split};
use crate::text_generator::{bare, silent};
use crate::{Error, Generate, GeneratedText, Language, TextGenerator, languages};

/// A line of more tokens than this is translated sentence by sentence: translators are trained on sentences.
const WHOLE: usize = 96;

/// How texts are translated.
#[derive(Clone, Debug, Default)]
pub struct Translate {
    /// How tokens are chosen; as the model's files say where nothing is given.
    pub generate: Option<Generate>,
    /// The language of the texts, where the model reads several.
    pub from: Option<String>,
    /// The language to translate into, where the model writes several.
    pub to: Option<String>,
    /// When lines are cut into sentences.
    pub split: Split,
}

impl Translate {
    /// Reads this language: a code such as `zh`, or its English name.
    #[must_use]
    pub fn from(mut self, language: impl Into<String>) -> Self {
        self.from = Some(language.into());
        self
    }

    /// Writes this language.
    #[must_use]
    pub fn to(mut self, language: impl Into<String>) -> Self {
        self.to = Some(language.into());
        self
    }
}

/// When lines are cut into sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Where they are long.
    #[default]
    Long,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How a model is told its languages.
struct Told {
    /// Text before the source.
    words: String,
    /// Tokens before the source's.
    before: Vec<u32>,
    /// Whether the tokens that usually stand around a source do.
    around: Special,
    /// Tokens after the source's.
    after: Vec<u32>,
    /// The first token to write.
    first: Option<u32>,
}

impl TextGenerator {
    /// Translates each text. Lines stay lines, blank ones stay blank.
    ///
    /// # Errors
    /// If the model is no encoder-decoder, does not know a language, or a sentence is too long.
    pub fn translate(&self, texts: &[impl AsRef<str>], options: &Translate) -> Result<Vec<String>, Error> {
        let mut translation = self.translation(texts, options)?;
        let sources = translation.take_sources();
        let mut written = self
            .write(sources, translation.options(), &mut silent)
            .map_err(|error| translation.owned(error))?;
        let best = written.iter_mut().map(|texts| texts.drain(..).next().unwrap_or_default());
        Ok(translation.put_together(&best.collect::<Vec<_>>()))
    }

    /// What has to be written to translate each text, for who lets it be written by [`TextGenerator::begin`].
    ///
    /// # Errors
    /// As [`TextGenerator::translate`].
    pub fn translation(&self, texts: &[impl AsRef<str>], options: &Translate) -> Result<Translation, Error> {
        if !self.reads_source() {
            let needs = "an encoder and a decoder";
            return Err(Error::Head { task: "translate", needs, has: "a decoder alone; try chat" });
        }
        let told = self.told(options.from.as_deref(), options.to.as_deref())?;
        let mut generate = options.generate.clone().unwrap_or_else(|| self.default_options());
        generate.decoding.forced_first = told.first.or(generate.decoding.forced_first);
        generate.decoding.returns = 1;
        let mut translation =
            Translation { sources: Vec::new(), owners: Vec::new(), layouts: Vec::new(), generate };
        for (text, whole) in texts.iter().enumerate() {
            let mut layout = Vec::new();
            for line in whole.as_ref().split('\n') {
                let mut laid = Vec::new();
                for piece in self.pieces(line, options.split)? {
                    laid.push(match piece {
                        Piece::Gap(gap) => Laid::Gap(gap.to_owned()),
                        Piece::Sentence(sentence) => {
                            translation.sources.push(self.source(sentence, &told)?);
                            translation.owners.push(text);
                            Laid::Sentence(translation.owners.len() - 1)
                        }
                    });
                }
                layout.push(laid);
            }
            translation.layouts.push(layout);
        }
        Ok(translation)
    }

    /// What is translated by itself in a line.
    fn pieces<'l>(&self, line: &'l str, when: Split) -> Result<Vec<Piece<'l>>, Error> {
        let inside = line.trim();
        let apart = match when {
            Split::Always => true,
            Split::Never => false,
            Split::Long => bare(self.tokenizer(), inside)?.len() > WHOLE,
        };
        if apart || inside.is_empty() {
            return Ok(split(line));
        }
        let start = line.len() - line.trim_start().len();
        let parts =
            [Piece::Gap(&line[..start]), Piece::Sentence(inside), Piece::Gap(&line[start + inside.len()..])];
        Ok(parts.into_iter().filter(|part| *part != Piece::Gap("")).collect())
    }

    fn source(&self, sentence: &str, told: &Told) -> Result<Vec<u32>, Error> {
        let text = format!("{}{sentence}", told.words);
        let ids = self.tokenizer().encode(&text, told.around)?.ids;
        Ok(told.before.iter().copied().chain(ids).chain(told.after.iter().copied()).collect())
    }

    /// How this model is told its languages.
    fn told(&self, from: Option<&str>, to: Option<&str>) -> Result<Told, Error> {
        let plain = Told {
            words: String::new(),
            before: Vec::new(),
            around: Special::Add,
            after: Vec::new(),
            first: None,
        };
        let end = || self.tokenizer().special().eos;
        match self.checkpoint().kind.as_str() {
            "t5" | "mt5" => {
                let (from, to) = (self.named("from", from)?, self.named("to", to)?);
                let name = |language: Language| language.name;
                let words = match (from.map(name), to.map(name)) {
                    (from, Some(to)) => format!("translate {} to {to}: ", from.unwrap_or("English")),
                    (Some(from), None) => {
                        return Err(Error::Option {
                            option: "from",
                            what: format!("{from} alone says nothing to this model"),
                            hint: "it is told both languages in words; give to as well".to_owned(),
                        });
                    }
                    (None, None) => String::new(),
                };
                Ok(Told { words, ..plain })
            }
            "m2m_100" => {
                let (from, first) = (self.token("from", from)?, self.token("to", to)?);
                match from {
                    // NLLB and M2M100 read: language, text, end.
                    Some(from) => Ok(Told {
                        before: vec![from],
                        around: Special::Leave,
                        after: end().into_iter().collect(),
                        first,
                        ..plain
                    }),
                    None => Ok(Told { first, ..plain }),
                }
            }
            "mbart" => {
                let (from, first) = (self.token("from", from)?, self.token("to", to)?);
                let fifty = self.tokenizer().id("sl_SI").is_some(); // of the fifty languages, not of the first 25
                match (from, fifty) {
                    (Some(from), true) => Ok(Told {
                        before: vec![from],
                        around: Special::Leave,
                        after: end().into_iter().collect(),
                        first,
                        ..plain
                    }),
                    (Some(from), false) => {
                        let after = end().into_iter().chain([from]).collect();
                        Ok(Told { around: Special::Leave, after, first, ..plain })
                    }
                    (None, _) => Ok(Told { first, ..plain }),
                }
            }
            // Marian is told the language to write by a token before the source, where there are several. What it reads it is
            // never told.
            _ if !languages::tokens(self.tokenizer()).is_empty() => {
                Ok(Told { before: self.token("to", to)?.into_iter().collect(), ..plain })
            }
            _ => self.check_pair(from, to).map(|()| plain),
        }
    }

    /// A model that translates one language into one need not be told them, but whoever names others is mistaken.
    fn check_pair(&self, from: Option<&str>, to: Option<&str>) -> Result<(), Error> {
        let pair = self.tokenizer().languages();
        let (source, target) = pair.unzip();
        for (option, name, own, does) in [("to", to, target, "writes"), ("from", from, source, "reads")] {
            let Some(name) = name else { continue };
            if own.is_some_and(|own| languages::same(name, own) || languages::may_be_of(name, own)) {
                continue;
            }
            let (what, hint) = match pair {
                Some((source, target)) => (
                    format!("{name:?} is not the language that this model {does}"),
                    format!(
                        "it translates {source} into {target}; leave out from and to, or take another model"
                    ),
                ),
                None => (
                    format!("{name:?} cannot be told to this model: it has no tokens for languages"),
                    "it translates one language into one; leave out from and to".to_owned(),
                ),
            };
            return Err(Error::Option { option, what, hint });
        }
        Ok(())
    }

    fn named(&self, option: &'static str, name: Option<&str>) -> Result<Option<Language>, Error> {
        let Some(name) = name else { return Ok(None) };
        Language::of(name).map(Some).ok_or_else(|| self.unknown(option, name))
    }

    fn token(&self, option: &'static str, name: Option<&str>) -> Result<Option<u32>, Error> {
        let Some(name) = name else { return Ok(None) };
        languages::token(name, self.tokenizer()).map(Some).ok_or_else(|| self.unknown(option, name))
    }

    fn unknown(&self, option: &'static str, name: &str) -> Error {
        let known = languages::tokens(self.tokenizer());
        let hint = if known.is_empty() {
            "write a code such as en, zh or zh-Hant, or an English name".to_owned()
        } else {
            format!("it knows {}, and tokens of its own vocabulary", known.join(", "))
        };
        Error::Option { option, what: format!("{name:?} is not a language of this model"), hint }
    }
}

/// Texts on their way to their translations.
pub struct Translation {
    /// The tokens of each sentence.
    sources: Vec<Vec<u32>>,
    /// Whose sentence it is.
    owners: Vec<usize>,
    /// What the lines of each text are made of.
    layouts: Vec<Vec<Vec<Laid>>>,
    generate: Generate,
}

impl Translation {
    /// The tokens of each sentence, to be written from.
    pub fn take_sources(&mut self) -> Vec<Vec<u32>> {
        std::mem::take(&mut self.sources)
    }

    /// How they are written.
    pub fn options(&self) -> &Generate {
        &self.generate
    }

    /// Which text each sentence is of.
    pub fn owners(&self) -> &[usize] {
        &self.owners
    }

    /// An error about a sentence, as one about its text.
    pub fn owned(&self, error: Error) -> Error {
        error.owned_by(&self.owners)
    }

    /// The texts of which these are the sentences.
    pub fn put_together(&self, written: &[GeneratedText]) -> Vec<String> {
        let sentence = |index: usize| written.get(index).map_or("", |written| written.text.trim());
        let line = |laid: &Vec<Laid>| put_together(laid, sentence);
        let text = |layout: &Vec<Vec<Laid>>| layout.iter().map(line).collect::<Vec<_>>().join("\n");
        self.layouts.iter().map(text).collect()
    }
}

/// A part of a line that was translated.
enum Laid {
    Sentence(usize),
    Gap(String),
}

/// A line of sentences, with the gaps that their writing asks for.
fn put_together<'w>(laid: &[Laid], sentence: impl Fn(usize) -> &'w str) -> String {
    let mut line = String::new();
    let mut gap = "";
    let mut begun = false;
    for part in laid {
        match part {
            Laid::Gap(spaces) => gap = spaces,
            Laid::Sentence(index) => {
                let between = if begun { joiner(&line, gap) } else { gap };
                line += between;
                line += sentence(*index);
                (gap, begun) = ("", true);
            }
        }
    }
    line + gap
}

impl TextGenerator {
    /// Summarises each text, or does with it whatever the encoder-decoder was trained for.
    ///
    /// Where `config.json` says how the model was trained to summarise (`task_specific_params`), the words that it puts before
    /// the text are put there, unless the text begins with them.
    ///
    /// # Errors
    /// If the model is no encoder-decoder, or a text is too long.
    pub fn summarize(&self, texts: &[impl AsRef<str>], options: &Generate) -> Result<Vec<String>, Error> {
        let mut options = options.clone();
        options.decoding.returns = 1;
        let written = self.write(self.summary_prompts(texts)?, &options, &mut silent)?;
        let best = |texts: &Vec<GeneratedText>| texts.first().map_or("", |best| best.text.trim()).to_owned();
        Ok(written.iter().map(best).collect())
    }

    /// The tokens that are read to summarise each text, for who lets it be written by [`TextGenerator::begin`].
    ///
    /// # Errors
    /// As [`TextGenerator::summarize`].
    pub fn summary_prompts(&self, texts: &[impl AsRef<str>]) -> Result<Vec<Vec<u32>>, Error> {
        if !self.reads_source() {
            let needs = "an encoder and a decoder";
            return Err(Error::Head { task: "summarize", needs, has: "a decoder alone; try chat" });
        }
        let params = self.checkpoint().config.get("task_specific_params");
        let prefix =
            params.and_then(|params| params.get("summarization")?.get("prefix")?.as_str()).unwrap_or("");
        let text = |text: &str| {
            if text.starts_with(prefix) { text.to_owned() } else { format!("{prefix}{text}") }
        };
        let texts: Vec<String> = texts.iter().map(|given| text(given.as_ref())).collect();
        self.prompts(&texts)
    }
}
