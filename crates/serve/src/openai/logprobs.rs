//! Log-probabilities of tokens, as the chat interface tells them.

use glassformer::engine::Token;
use glassformer::tasks::GeneratedText;
use glassformer::tokens::{SpecialText, Tokenizer};
use serde::Serialize;
use utoipa::ToSchema;

/// The tokens of an answer.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Logprobs {
    content: Vec<TokenLogprob>,
}

/// A token with its log-probability.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TokenLogprob {
    /// Its text.
    token: String,
    /// The logarithm of its probability.
    logprob: f64,
    /// The bytes of its text; none where it is a part of a character.
    bytes: Option<Vec<u8>>,
    /// The likeliest tokens at this place.
    top_logprobs: Vec<TopLogprob>,
}

/// A token that could have stood here.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TopLogprob {
    token: String,
    logprob: f64,
    bytes: Option<Vec<u8>>,
}

/// The least number that is told: minus infinity is no JSON.
const LEAST: f32 = -9999.0;

/// The text of a token alone.
pub fn text(id: u32, tokenizer: &Tokenizer) -> String {
    tokenizer.decode(&[id], SpecialText::Keep).unwrap_or_default()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    (!text.contains('\u{fffd}')).then(|| text.as_bytes().to_vec())
}

/// A log-probability as JSON has it.
pub fn number(logprob: f32) -> f64 {
    f64::from(logprob.max(LEAST))
}

impl TokenLogprob {
    fn new(id: u32, logprob: f32, others: &[(u32, f32)], tokenizer: &Tokenizer) -> Self {
        let top = |&(id, logprob): &(u32, f32)| {
            let token = text(id, tokenizer);
            TopLogprob { bytes: bytes(&token), token, logprob: number(logprob) }
        };
        let token = text(id, tokenizer);
        let top_logprobs = others.iter().map(top).collect();
        Self { bytes: bytes(&token), token, logprob: number(logprob), top_logprobs }
    }
}

impl Logprobs {
    /// Those of a whole text.
    pub fn of(text: &GeneratedText, tokenizer: &Tokenizer) -> Self {
        let one = |((&id, &logprob), others): ((&u32, &f32), &Vec<(u32, f32)>)| {
            TokenLogprob::new(id, logprob, others, tokenizer)
        };
        Self { content: text.ids.iter().zip(&text.logprobs).zip(&text.others).map(one).collect() }
    }
}

/// Tokens that came since something was told.
#[derive(Default)]
pub struct Told {
    tokens: Vec<TokenLogprob>,
}

impl Told {
    /// A token came.
    pub fn add(&mut self, token: &Token, tokenizer: &Tokenizer) {
        if let Some(logprob) = token.logprob {
            self.tokens.push(TokenLogprob::new(token.id, logprob, &token.others, tokenizer));
        }
    }

    /// Those that came; nothing where none did.
    pub fn take(&mut self) -> Option<Logprobs> {
        let content = std::mem::take(&mut self.tokens);
        (!content.is_empty()).then_some(Logprobs { content })
    }
}
