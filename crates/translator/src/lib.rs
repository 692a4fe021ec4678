//! The translator that the program carries: English into simplified Chinese, everyday sentences first.
//!
//! The model is part of the binary. This engine trained it; `MODEL_CARD.md` says on what, how well it does and what it is bad at.
//!
//! ```
//! let translator = glassformer_translator::translator()?;
//! assert_eq!(translator.translate("Hello")?, "你好");
//! # Ok::<(), glassformer_tasks::Error>(())
//! ```
#![forbid(unsafe_code)]

mod parts;

use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_graph::Backend;
use glassformer_graph::Precision;
use glassformer_tasks::{Error, Files, TextGenerator, Translate};

use parts::{Part, parts};

/// What stands for this model where a folder's path could stand.
pub const NAME: &str = "en-zh";

/// The model's files. A static, so that a program has them once.
pub static FILES: Files = Files {
    config: include_str!("../model/config.json"),
    generation: include_str!("../model/generation_config.json"),
    tokenizer: include_str!("../model/tokenizer.json"),
    tokenizer_config: include_str!("../model/tokenizer_config.json"),
    weights: &[
        ("model-00001-of-00002.safetensors", glassformer_translator_encoder::WEIGHTS),
        ("model-00002-of-00002.safetensors", include_bytes!("../model/model-00002-of-00002.safetensors")),
    ],
};

/// The translator, on all cores.
///
/// # Errors
/// If there is no memory for it.
pub fn translator() -> Result<Translator, Error> {
    Translator::new(Arc::new(Cpu::default().with_precision(Precision::Stored)))
}

/// A translator from English into Chinese. Threads can share it.
pub struct Translator {
    generator: TextGenerator,
}

impl Translator {
    /// The translator, to be run by `backend`.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(backend: Arc<dyn Backend>) -> Result<Self, Error> {
        Ok(Self { generator: TextGenerator::from_files(&FILES, backend)? })
    }

    /// The model that writes, with its tokenizer.
    pub fn generator(&self) -> &TextGenerator {
        &self.generator
    }

    /// Translates a text. Its lines stay lines; what has no English in it (other scripts, numbers, emoji) stays as it is.
    ///
    /// # Errors
    /// If a sentence is far too long.
    pub fn translate(&self, text: impl AsRef<str>) -> Result<String, Error> {
        Ok(self.translate_all(&[text], &Translate::default())?.remove(0))
    }

    /// Translates several texts together, which is faster, and with options.
    ///
    /// # Errors
    /// If an option makes no sense, it asks for other languages, or a sentence is far too long.
    pub fn translate_all(
        &self,
        texts: &[impl AsRef<str>],
        options: &Translate,
    ) -> Result<Vec<String>, Error> {
        let parted = Parted::new(texts);
        let chinese = self.generator.translate(parted.english(), options);
        Ok(parted.put_together(chinese.map_err(|error| parted.owned(error))?))
    }
}

/// Texts whose English is translated, while what else is in them stays.
pub struct Parted {
    /// For each text: its parts, and whether they are English.
    texts: Vec<Vec<(bool, String)>>,
    english: Vec<String>,
    owners: Vec<usize>,
}

impl Parted {
    /// The parts of texts.
    pub fn new(texts: &[impl AsRef<str>]) -> Self {
        let (mut english, mut owners) = (Vec::new(), Vec::new());
        let mut part = |owner: usize, part: &Part<'_>| match part {
            Part::English(words) => {
                english.push((*words).to_owned());
                owners.push(owner);
                (true, String::new())
            }
            Part::Other(other) => (false, (*other).to_owned()),
        };
        let text = |(owner, text): (usize, &_)| {
            let text: &str = AsRef::as_ref(text);
            parts(text).iter().map(|one| part(owner, one)).collect()
        };
        let texts = texts.iter().enumerate().map(text).collect();
        Self { texts, english, owners }
    }

    /// What is English, to be translated.
    pub fn english(&self) -> &[String] {
        &self.english
    }

    /// Which text the English part number `part` is of.
    pub fn owner(&self, part: usize) -> usize {
        self.owners.get(part).copied().unwrap_or(part)
    }

    /// An error about a part, as one about its text.
    pub fn owned(&self, error: Error) -> Error {
        error.owned_by(&self.owners)
    }

    /// The texts with these translations of what is English.
    pub fn put_together(&self, chinese: Vec<String>) -> Vec<String> {
        let mut chinese = chinese.into_iter();
        let mut part = |(is_english, other): &(bool, String)| {
            if *is_english { chinese.next().unwrap_or_default() } else { other.clone() }
        };
        self.texts.iter().map(|text| text.iter().map(&mut part).collect()).collect()
    }
}
