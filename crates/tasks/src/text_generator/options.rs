//! How text is written, and what was written.

use std::sync::Arc;

use glassformer_engine::{Decoding, Finish, Observer, Sampling};

use crate::Long;

/// How text is written. [`crate::TextGenerator::default_options`] gives what the model's files say, to be changed: by its methods, or field by
/// field.
#[derive(Clone, Debug, Default)]
pub struct Generate {
    /// How tokens are chosen.
    pub decoding: Decoding,
    /// Texts that end a text when they come; they are not part of it.
    pub stop: Vec<String>,
    /// What a text that an encoder-decoder writes begins with.
    pub prefix: String,
    /// A prompt of what is not wanted, where `decoding.guidance` leads away from it; without one, from what follows the last token
    /// of the prompt alone.
    pub negative: String,
    /// The form that a text must have, whatever tokens the model would choose.
    #[cfg(feature = "constrain")]
    pub form: Option<crate::Form>,
    /// What is done with a source or a prompt that is too long. A prompt loses its beginning: what is written goes on from its
    /// end.
    pub long: Long,
    /// Who watches the search: what each rule made of the scores, and which beams were left behind.
    pub observer: Option<Arc<dyn Observer>>,
    /// Whose text this is, if what the model reads for it may be kept: later texts of the same owner that begin alike cost only what is new.
    pub owner: Option<u64>,
}

impl Generate {
    /// Writes at most so many tokens.
    #[must_use]
    pub fn max_new_tokens(mut self, most: usize) -> Self {
        self.decoding = self.decoding.max_new_tokens(most);
        self
    }

    /// Searches with so many beams; 1 takes the likeliest token at each step.
    #[must_use]
    pub fn beams(mut self, beams: usize) -> Self {
        self.decoding = self.decoding.beams(beams);
        self
    }

    /// Draws tokens as `sampling` says.
    #[must_use]
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.decoding = self.decoding.sampling(sampling);
        self
    }

    /// Ends a text where `stop` comes, which is not part of it.
    #[must_use]
    pub fn stop(mut self, stop: impl Into<String>) -> Self {
        self.stop.push(stop.into());
        self
    }

    /// Writes texts of this form alone.
    #[cfg(feature = "constrain")]
    #[must_use]
    pub fn form(mut self, form: crate::Form) -> Self {
        self.form = Some(form);
        self
    }

    /// Cuts a source or a prompt that is too long, instead of refusing it.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.long = Long::Cut;
        self
    }
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GeneratedText {
    /// The text, without the prompt and without what ended it.
    pub text: String,
    /// Its tokens, the end token included.
    pub ids: Vec<u32>,
    /// A beam's score.
    pub score: Option<f32>,
    /// Why it ended.
    pub finish: Finish,
    /// The log-probability of each token, where that was asked for.
    pub logprobs: Vec<f32>,
    /// The likeliest tokens at each place with theirs, where they were asked for.
    pub others: Vec<Vec<(u32, f32)>>,
}
