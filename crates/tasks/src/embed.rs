//! Vectors of texts: pooled, projected and normalised as the model's files say.

use glassformer_engine::{Asked, Sequence};
use glassformer_families::Embedding;
use glassformer_tokens::{Encoding, Special};

use crate::text_encoder::longest;
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
    /// The vector of every text.
    ///
    /// # Errors
    /// If a module after the model is not known, there is no such prompt, or a text is too long.
    pub fn embed(&self, texts: &[impl AsRef<str>], options: &Embed) -> Result<Vec<Vec<f32>>, Error> {
        let embedder = self.embedder()?;
        let plain = Embedding::default();
        let habits = embedder.checkpoint.embedding.as_ref().unwrap_or(&plain);
        let prompt = prompt(habits, &options.prompt)?;
        let unpooled = if habits.include_prompt { 0 } else { self.prompt_rows(&habits.lowered(prompt))? };
        let texts: Vec<String> =
            texts.iter().map(|text| habits.lowered(&format!("{prompt}{}", text.as_ref()))).collect();
        let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::One(text)).collect();
        let encodings =
            self.encode(&inputs, options.long, longest(&embedder.checkpoint, Some(self.tokenizer())))?;
        let sequence = |(text, encoding): (usize, &Encoding)| {
            if encoding.len() <= unpooled {
                let what = "the prompt leaves no room for it".to_owned();
                let hint = "embed it without the prompt: --prompt none".to_owned();
                return Err(Error::Text { text, what, hint });
            }
            let sequence = embedder.sequence(encoding, Asked::Rows(Vec::new()))?;
            Ok(Sequence { unpooled, ..sequence })
        };
        let sequences: Vec<Sequence> =
            encodings.iter().enumerate().map(sequence).collect::<Result<_, _>>()?;
        let mut vectors = Vec::with_capacity(texts.len());
        let kept =
            |row: &[f32]| row[..habits.dimensions.map_or(row.len(), |most| most.min(row.len()))].to_vec();
        embedder.run(&sequences, "pooled", |_, row| vectors.push(kept(row)))?;
        Ok(vectors)
    }

    /// What the model makes of each token of each text, special ones included, before any pooling.
    ///
    /// # Errors
    /// If a text is too long.
    pub fn rows(&self, texts: &[impl AsRef<str>], long: Long) -> Result<Vec<Vec<Vec<f32>>>, Error> {
        let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::One(text.as_ref())).collect();
        let encodings = self.encode(&inputs, long, self.longest())?;
        let mut rows = Vec::with_capacity(texts.len());
        self.run(
            &encodings,
            "hidden",
            |_| Asked::All,
            |text, numbers| {
                let width = numbers.len() / encodings[text].len().max(1);
                rows.push(numbers.chunks_exact(width.max(1)).map(<[f32]>::to_vec).collect());
            },
        )?;
        Ok(rows)
    }

    /// `text` as a model of sentences reads it unless it is told otherwise: behind its usual prompt.
    ///
    /// # Errors
    /// If the prompt is not pooled: what is shown of a text is all of it.
    pub(crate) fn usual_text(&self, text: &str) -> Result<String, Error> {
        let Some(habits) = &self.checkpoint().embedding else { return Ok(text.to_owned()) };
        let prompt = prompt(habits, &Prompt::Usual)?;
        if !prompt.is_empty() && !habits.include_prompt {
            let what = "of this model is read and not pooled, which is not shown".to_owned();
            let hint = "`glassformer embed` computes it".to_owned();
            return Err(Error::Option { option: "prompt", what, hint });
        }
        Ok(habits.lowered(&format!("{prompt}{text}")))
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
}

/// The text of a prompt.
fn prompt<'h>(habits: &'h Embedding, prompt: &Prompt) -> Result<&'h str, Error> {
    let text = match prompt {
        Prompt::Usual => habits.prompt.as_ref().and_then(|name| habits.prompts.get(name)),
        Prompt::Named(name) => Some(habits.prompts.get(name).ok_or_else(|| no_prompt(name, habits))?),
        Prompt::Nothing => None,
    };
    Ok(text.map_or("", String::as_str))
}

fn no_prompt(name: &str, habits: &Embedding) -> Error {
    let known: Vec<&str> = habits.prompts.keys().map(String::as_str).collect();
    let hint = if known.is_empty() {
        "the model's files name no prompts".to_owned()
    } else {
        format!("there are {}", known.join(", "))
    };
    Error::Option { option: "prompt", what: format!("{name:?} is not known to this model"), hint }
}
