//! Vectors of texts: pooled, projected and normalised as the model's files say.

use std::path::Path;
use std::sync::Arc;

use glassformer_engine::Asked;
use glassformer_families::{embedding_folder, open_for_embedding};
use glassformer_graph::Backend;

use crate::{Error, Input, Long, Reader};

/// How texts become vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embed {
    /// What is put before each text.
    pub prompt: Prompt,
    /// What is done with a text that is too long.
    pub long: Long,
}

/// What is put before a text that is embedded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prompt {
    /// What the model's files say, which mostly is nothing.
    #[default]
    Usual,
    /// The prompt that they call so: `query`, `document`.
    Named(String),
    /// Nothing, whatever they say.
    Nothing,
}

impl Reader {
    /// Opens the model at `path` as one of sentences, for [`Reader::embed`].
    ///
    /// # Errors
    /// As [`Reader::open`], and if a module of a sentence encoder cannot be read or is not known.
    pub fn open_for_embedding(path: &Path, backend: Arc<dyn Backend>) -> Result<Self, Error> {
        Self::new(open_for_embedding(path)?, crate::tokenizer(&embedding_folder(path)?)?, backend)
    }

    /// The vector of every text.
    ///
    /// # Errors
    /// If the model was not opened for embedding, there is no such prompt, or a text is too long.
    pub fn embed(&self, texts: &[&str], options: &Embed) -> Result<Vec<Vec<f32>>, Error> {
        let Some(habits) = &self.checkpoint().embedding else {
            let needs = "vectors of sentences";
            return Err(Error::Head { task: "embed", needs, has: "rows: open it for embedding" });
        };
        let prompt = match &options.prompt {
            Prompt::Usual => habits.prompt.as_ref().and_then(|name| habits.prompts.get(name)),
            Prompt::Named(name) => Some(habits.prompts.get(name).ok_or_else(|| self.no_prompt(name))?),
            Prompt::Nothing => None,
        };
        let prompt = prompt.map_or("", String::as_str);
        if !prompt.is_empty() && !habits.include_prompt {
            let what = "is left out when this model pools, which is not supported".to_owned();
            return Err(Error::Option { option: "prompt", what, hint: "embed without a prompt".to_owned() });
        }
        let text = |text: &&str| {
            let text = format!("{prompt}{text}");
            if habits.lower { text.to_lowercase() } else { text }
        };
        let texts: Vec<String> = texts.iter().map(text).collect();
        let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::One(text)).collect();
        let limit = self.longest().into_iter().chain(habits.longest).min();
        let encodings = self.encode(&inputs, options.long, limit)?;
        let mut vectors = Vec::with_capacity(texts.len());
        self.run(&encodings, "pooled", |_| Asked::Rows(Vec::new()), |_, row| vectors.push(row.to_vec()))?;
        Ok(vectors)
    }

    fn no_prompt(&self, name: &str) -> Error {
        let known = self.checkpoint().embedding.iter().flat_map(|habits| habits.prompts.keys());
        let known: Vec<&str> = known.map(String::as_str).collect();
        let hint = if known.is_empty() {
            "the model's files name no prompts".to_owned()
        } else {
            format!("there are {}", known.join(", "))
        };
        Error::Option { option: "prompt", what: format!("{name:?} is not known to this model"), hint }
    }
}
