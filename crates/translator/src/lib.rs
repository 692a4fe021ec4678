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
        let all: Vec<Vec<Part<'_>>> = texts.iter().map(|text| parts(text.as_ref())).collect();
        let (mut owners, mut english) = (Vec::new(), Vec::new());
        for (at, text) in all.iter().enumerate() {
            for part in text {
                if let Part::English(words) = part {
                    owners.push(at);
                    english.push(*words);
                }
            }
        }
        let chinese = self.generator.translate(&english, options).map_err(|error| error.owned_by(&owners))?;
        let mut chinese = chinese.into_iter();
        let put_together = |text: &Vec<Part<'_>>| {
            let part = |part: &Part<'_>| match part {
                Part::English(_) => chinese.next().unwrap_or_default(),
                Part::Other(other) => (*other).to_owned(),
            };
            text.iter().map(part).collect()
        };
        Ok(all.iter().map(put_together).collect())
    }
}
