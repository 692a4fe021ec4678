//! The models that are served, by name.

use std::sync::{Arc, OnceLock};

use glassformer::families::Checkpoint;
use glassformer::formula::Head;
use glassformer::print;
use glassformer::tokens::Tokenizer;
use glassformer::translator::Translator;
use glassformer::{TextEncoder, TextGenerator, tasks};

use crate::fault::Fault;
use crate::glass::Glass;

/// A model with what it can be asked.
pub struct Served {
    name: String,
    writes: Option<Writes>,
    reads: OnceLock<Arc<TextEncoder>>,
    open: Option<Box<OpenEncoder>>,
    glass: Option<Glass>,
}

/// Opens the model to read, when that is first asked for.
type OpenEncoder = dyn Fn() -> Result<TextEncoder, tasks::Error> + Send + Sync;

enum Writes {
    Generator(TextGenerator),
    /// The one that is part of the program, which leaves alone what is not English.
    Translator(Translator),
}

/// What a model can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Continue texts.
    Complete,
    /// Answer in conversations.
    Chat,
    /// Write another text for one: translations, summaries.
    Rewrite,
    /// Vectors of texts.
    Embed,
    /// Classes of texts.
    Classify,
    /// Names in texts.
    Tag,
    /// Answers from texts.
    Answer,
    /// Words for blanks.
    Fill,
    /// How likely texts are.
    Score,
}

impl Ability {
    /// Its word in answers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Chat => "chat",
            Self::Rewrite => "rewrite",
            Self::Embed => "embed",
            Self::Classify => "classify",
            Self::Tag => "tag",
            Self::Answer => "answer",
            Self::Fill => "fill",
            Self::Score => "score",
        }
    }
}

impl Served {
    /// A model that writes. `open` opens it to read, which is asked for when texts are to be scored.
    pub fn writing(
        name: impl Into<String>,
        generator: TextGenerator,
        open: impl Fn() -> Result<TextEncoder, tasks::Error> + Send + Sync + 'static,
    ) -> Self {
        let writes = Some(Writes::Generator(generator));
        Self { name: name.into(), writes, reads: OnceLock::new(), open: Some(Box::new(open)), glass: None }
    }

    /// A model that reads.
    pub fn reading(name: impl Into<String>, encoder: TextEncoder) -> Self {
        let reads = OnceLock::from(Arc::new(encoder));
        Self { name: name.into(), writes: None, reads, open: None, glass: None }
    }

    /// The translator that is part of the program.
    pub fn translator(translator: Translator) -> Self {
        Self {
            name: glassformer::translator::NAME.to_owned(),
            writes: Some(Writes::Translator(translator)),
            reads: OnceLock::new(),
            open: None,
            glass: None,
        }
    }

    /// A model that is shown, and answers nothing else.
    pub fn showing(name: impl Into<String>, glass: Glass) -> Self {
        Self { name: name.into(), writes: None, reads: OnceLock::new(), open: None, glass: Some(glass) }
    }

    /// The same model, which the page may also show.
    #[must_use]
    pub fn shown(mut self, glass: Glass) -> Self {
        self.glass = Some(glass);
        self
    }

    /// How it is shown.
    pub(crate) fn glass(&self) -> Option<&Glass> {
        self.glass.as_ref()
    }

    /// The same model by another name.
    #[must_use]
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The model that writes, where it does.
    pub fn generator(&self) -> Option<&TextGenerator> {
        match self.writes.as_ref()? {
            Writes::Generator(generator) => Some(generator),
            Writes::Translator(translator) => Some(translator.generator()),
        }
    }

    /// The model that reads, if it was opened for that.
    pub fn open_encoder(&self) -> Option<&TextEncoder> {
        self.reads.get().map(|encoder| &**encoder)
    }

    /// The model that writes.
    pub(crate) fn writer(&self) -> Result<&TextGenerator, Fault> {
        self.generator().ok_or_else(|| self.cannot("writes nothing"))
    }

    /// The model that reads. It may have to be opened first, which takes time.
    pub(crate) fn reader(&self) -> Result<Arc<TextEncoder>, Fault> {
        if let Some(encoder) = self.reads.get() {
            return Ok(encoder.clone());
        }
        let open = self.open.as_ref().ok_or_else(|| self.cannot("only writes"))?;
        let encoder = Arc::new(open()?);
        Ok(self.reads.get_or_init(|| encoder).clone())
    }

    /// Whether it is the translator that is part of the program, which leaves alone what is not English.
    pub(crate) fn is_translator(&self) -> bool {
        matches!(self.writes, Some(Writes::Translator(_)))
    }

    /// Its configuration, and what it is made of.
    fn checkpoint(&self) -> Option<&Checkpoint> {
        let writes = self.generator().map(TextGenerator::checkpoint);
        writes.or_else(|| self.open_encoder().map(TextEncoder::checkpoint))
    }

    /// What kind of model it is: `bert`, `llama`.
    pub fn kind(&self) -> &str {
        self.checkpoint().map_or("", |checkpoint| &checkpoint.kind)
    }

    /// How many parameters it has.
    pub fn parameters(&self) -> usize {
        let formula = self.checkpoint().map(|checkpoint| checkpoint.model.formula());
        let parameters =
            formula.and_then(|formula| glassformer::model::parameters(formula).ok()).unwrap_or_default();
        parameters.iter().map(|parameter| parameter.shape.iter().product::<usize>()).sum()
    }

    /// Its formula.
    pub fn formula(&self) -> String {
        self.checkpoint().map_or_else(String::new, |checkpoint| print::unicode(checkpoint.model.formula()))
    }

    /// How many tokens it reads at once, where there is a limit.
    pub fn longest(&self) -> Option<usize> {
        match self.generator() {
            Some(generator) => generator.longest(),
            None => self.open_encoder().and_then(TextEncoder::longest),
        }
    }

    /// Does something with its tokenizer.
    pub(crate) fn with_tokenizer<T>(
        &self,
        work: impl FnOnce(&Tokenizer) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        match self.generator() {
            Some(generator) => work(generator.tokenizer()),
            None => work(self.reader()?.tokenizer()),
        }
    }

    /// What it can be asked.
    pub fn abilities(&self) -> Vec<Ability> {
        let mut abilities = Vec::new();
        if let Some(generator) = self.generator() {
            if generator.reads_source() {
                abilities.push(Ability::Rewrite);
            } else {
                abilities.push(Ability::Complete);
            }
            if generator.template().is_some() && !generator.reads_source() {
                abilities.push(Ability::Chat);
            }
            if self.open.is_some() {
                abilities.push(Ability::Score);
            }
        } else if let Some(encoder) = self.open_encoder() {
            let formula = encoder.checkpoint().model.formula();
            let head = match &formula.head {
                Head::Rows => None,
                Head::Words { .. } | Head::Adaptive { .. } if formula.target.is_some() => {
                    Some(Ability::Score)
                }
                Head::Words { .. } | Head::Adaptive { .. } => Some(Ability::Fill),
                Head::Classes { .. } => Some(Ability::Classify),
                Head::Tags { .. } | Head::Spans if encoder.marks_answers() => Some(Ability::Answer),
                Head::Tags { .. } | Head::Spans => Some(Ability::Tag),
            };
            abilities.extend(head);
            if head == Some(Ability::Fill) {
                abilities.push(Ability::Score);
            }
            if head.is_none() || encoder.checkpoint().embedding.is_some() {
                abilities.push(Ability::Embed);
            }
        }
        abilities
    }

    fn cannot(&self, what: &str) -> Fault {
        let abilities: Vec<&str> = self.abilities().iter().map(|ability| ability.word()).collect();
        let message = format!("the model {} {what}; it can {}", self.name, abilities.join(", "));
        Fault { param: Some("model".to_owned()), ..Fault::body("unsupported_task", message) }
    }
}

/// All that are served, the first one first.
pub struct Models(Vec<Arc<Served>>);

impl Models {
    pub fn new(models: Vec<Served>) -> Self {
        Self(models.into_iter().map(Arc::new).collect())
    }

    pub fn all(&self) -> &[Arc<Served>] {
        &self.0
    }

    /// The model of that name.
    pub fn named(&self, name: &str) -> Result<&Arc<Served>, Fault> {
        let found = self.0.iter().find(|served| served.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.0.iter().map(|served| served.name()).collect();
            Fault::no_model(name, &names)
        })
    }

    /// The model of that name or, without one, the first of those that `fits`.
    pub fn of(&self, name: Option<&str>, fits: impl Fn(&Served) -> bool) -> Result<&Arc<Served>, Fault> {
        let Some(name) = name else {
            let fitting = self.0.iter().find(|served| fits(served)).or(self.0.first());
            return fitting.ok_or_else(|| Fault::unavailable("no_model", "no model is served"));
        };
        self.named(name)
    }
}
