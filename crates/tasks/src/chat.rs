//! A conversation with a model, in the words that it was trained on.

use std::ops::ControlFlow;

use glassformer_tokens::Conversation;

use crate::text_generator::bare;
use crate::writing::new_owner;
use crate::{Error, Generate, GeneratedText, TextGenerator};

/// A conversation. What was said is kept, and each answer is given to all of it; the model reads only what is new.
pub struct Chat<'w> {
    generator: &'w TextGenerator,
    options: Generate,
    system: Option<String>,
    said: Vec<Message>,
    /// How many answers there were, those that are forgotten too.
    answers: u64,
}

/// What somebody said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who.
    pub role: Role,
    /// What.
    pub text: String,
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// As templates call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl TextGenerator {
    /// Begins a conversation.
    ///
    /// # Errors
    /// If the model has no chat template, or is an encoder-decoder.
    pub fn chat(&self, options: Generate) -> Result<Chat<'_>, Error> {
        if self.template().is_none() {
            let has = "none: it continues texts, which generate does";
            return Err(Error::Head { task: "chat", needs: "a chat template", has });
        }
        if self.reads_source() {
            return Err(Error::Head { task: "chat", needs: "a decoder alone", has: "an encoder too" });
        }
        let options = Generate { owner: options.owner.or_else(|| Some(new_owner())), ..options };
        Ok(Chat { generator: self, options, system: None, said: Vec::new(), answers: 0 })
    }
}

impl Chat<'_> {
    /// Says what the model is to be; an empty text takes it back. It counts from the next answer on.
    pub fn system(&mut self, text: &str) {
        self.system = Some(text.to_owned()).filter(|text| !text.is_empty());
    }

    /// Forgets what was said.
    pub fn reset(&mut self) {
        self.said.clear();
    }

    /// What was said.
    pub fn said(&self) -> &[Message] {
        &self.said
    }

    /// Says `text` and gives the answer, piece by piece as it comes to `tell`, which can break it off: what came until then is
    /// the answer.
    ///
    /// # Errors
    /// If the template refuses the conversation, or it is longer than the model can read. Then nothing was said.
    pub fn say(
        &mut self,
        text: &str,
        tell: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<GeneratedText, Error> {
        self.said.push(Message { role: Role::User, text: text.to_owned() });
        let answer = self.answer(tell);
        match &answer {
            Ok(written) => {
                self.said.push(Message { role: Role::Assistant, text: written.text.clone() });
                self.answers += 1;
            }
            Err(_) => drop(self.said.pop()),
        }
        answer
    }

    fn answer(&self, tell: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<GeneratedText, Error> {
        let system = self.system.iter().map(|text| ("system", text.as_str()));
        let said = self.said.iter().map(|message| (message.role.name(), message.text.as_str()));
        let conversation = Conversation::new(system.chain(said));
        let Some(template) = self.generator.template() else {
            return Err(Error::Head { task: "chat", needs: "a chat template", has: "none" });
        };
        let prompt = bare(self.generator.tokenizer(), &template.render(&conversation)?)?;
        let mut options = self.options.clone();
        options.decoding.returns = 1;
        if let Some(sampling) = &mut options.decoding.sampling {
            // What is asked again after all was forgotten is drawn anew; the same seed repeats the whole conversation.
            sampling.seed = sampling.seed.wrapping_add(self.answers);
        }
        let mut heard = |_: usize, piece: &str| tell(piece);
        let mut written = self.generator.write(vec![prompt], &options, &mut heard)?;
        // Whatever did not fail has written a text.
        Ok(written.remove(0).remove(0))
    }
}
