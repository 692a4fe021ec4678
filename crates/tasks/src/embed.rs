//! Vectors of texts: pooled, projected and normalised as the model's files say.

use std::path::Path;
use std::sync::Arc;

use glassformer_engine::{Asked, Sequence};
use glassformer_families::{Embedding, embedding_folder, open_for_embedding};
use glassformer_graph::Backend;
use glassformer_tokens::{Encoding, Special};

use crate::{Error, Input, Long, TextEncoder};

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

impl TextEncoder {
    /// Opens the model at `path` as one of sentences, for [`TextEncoder::embed`].
    ///
    /// # Errors
    /// As [`TextEncoder::open`], and if a module of a sentence encoder cannot be read or is not known.
    pub fn open_for_embedding(path: impl AsRef<Path>, backend: Arc<dyn Backend>) -> Result<Self, Error> {
        let path = path.as_ref();
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
        let prompt = self.prompt(habits, &options.prompt)?;
        let unpooled = if habits.include_prompt { 0 } else { self.prompt_rows(&habits.lowered(prompt))? };
        let texts: Vec<String> =
            texts.iter().map(|text| habits.lowered(&format!("{prompt}{text}"))).collect();
        let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::One(text)).collect();
        let encodings = self.encode(&inputs, options.long, self.longest())?;
        let sequence = |(text, encoding): (usize, &Encoding)| {
            if encoding.len() <= unpooled {
                let what = "the prompt leaves no room for it".to_owned();
                let hint = "embed it without the prompt: --prompt none".to_owned();
                return Err(Error::Text { text, what, hint });
            }
            let sequence = self.sequence(encoding, Asked::Rows(Vec::new()))?;
            Ok(Sequence { unpooled, ..sequence })
        };
        let sequences: Vec<Sequence> =
            encodings.iter().enumerate().map(sequence).collect::<Result<_, _>>()?;
        let mut vectors = Vec::with_capacity(texts.len());
        let kept =
            |row: &[f32]| row[..habits.dimensions.map_or(row.len(), |most| most.min(row.len()))].to_vec();
        self.run_sequences(&sequences, "pooled", |_, row| vectors.push(kept(row)))?;
        Ok(vectors)
    }

    /// `text` as a model of sentences reads it unless it is told otherwise: behind its usual prompt.
    ///
    /// # Errors
    /// If the prompt is not pooled: what is shown of a text is all of it.
    pub(crate) fn usual_text(&self, text: &str) -> Result<String, Error> {
        let Some(habits) = &self.checkpoint().embedding else { return Ok(text.to_owned()) };
        let prompt = self.prompt(habits, &Prompt::Usual)?;
        if !prompt.is_empty() && !habits.include_prompt {
            let what = "of this model is read and not pooled, which is not shown".to_owned();
            let hint = "`glassformer embed` computes it".to_owned();
            return Err(Error::Option { option: "prompt", what, hint });
        }
        Ok(habits.lowered(&format!("{prompt}{text}")))
    }

    fn prompt<'h>(&self, habits: &'h Embedding, prompt: &Prompt) -> Result<&'h str, Error> {
        let text = match prompt {
            Prompt::Usual => habits.prompt.as_ref().and_then(|name| habits.prompts.get(name)),
            Prompt::Named(name) => Some(habits.prompts.get(name).ok_or_else(|| self.no_prompt(name))?),
            Prompt::Nothing => None,
        };
        Ok(text.map_or("", String::as_str))
    }

    /// How many rows of a text are those of `prompt` before it, as sentence-transformers counts them: its tokens alone, without a
    /// special one at the end.
    fn prompt_rows(&self, prompt: &str) -> Result<usize, Error> {
        if prompt.is_empty() {
            return Ok(0);
        }
        let ids = self.tokenizer().encode(prompt, Special::Add)?.ids;
        let ends = ids.last().is_some_and(|&last| self.tokenizer().is_special(last));
        Ok(ids.len() - usize::from(ends))
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
