//! How text is written, in `OpenAI`'s words, and what of it is within limits.

use std::collections::BTreeMap;

use glassformer::tasks::{Form, Generate, Long};
use glassformer::{Finish, Sampling, TextGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::App;
use crate::fault::Fault;

/// How text is written: what every request that writes may say. What it does not say is as the model's files have it.
#[allow(clippy::struct_field_names)] // names of the interface
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct Options {
    /// At most so many new tokens.
    #[schema(minimum = 1)]
    pub max_tokens: Option<i64>,
    /// The same, by its newer name.
    #[schema(minimum = 1)]
    pub max_completion_tokens: Option<i64>,
    /// What scores are divided by before a token is drawn; 0 takes the likeliest.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// The likeliest tokens that together have this probability are kept.
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f64>,
    /// How many of the likeliest tokens are kept; 0 keeps all.
    #[schema(minimum = 0)]
    pub top_k: Option<i64>,
    /// Tokens with less than this share of the likeliest one's probability are left out.
    #[schema(minimum = 0, maximum = 1)]
    pub min_p: Option<f64>,
    /// How many answers are given.
    #[schema(minimum = 1, maximum = 16)]
    pub n: Option<i64>,
    /// What is drawn: the same seed draws the same text.
    pub seed: Option<i64>,
    /// Texts that end an answer; they are not part of it.
    pub stop: Option<OneOrMore>,
    /// What a token loses once it was generated.
    #[schema(minimum = -2, maximum = 2)]
    pub presence_penalty: Option<f64>,
    /// What a token loses for each time it was generated.
    #[schema(minimum = -2, maximum = 2)]
    pub frequency_penalty: Option<f64>,
    /// What the scores of tokens that have occurred are divided by.
    #[schema(minimum = 0)]
    pub repetition_penalty: Option<f64>,
    /// What is added to the scores of tokens, by their ids.
    #[schema(value_type = Option<BTreeMap<String, f64>>)]
    pub logit_bias: Option<BTreeMap<String, f64>>,
    /// Whether pieces are sent as they come.
    pub stream: Option<bool>,
    /// What else a stream tells.
    pub stream_options: Option<StreamOptions>,
    /// The form that a text must have.
    pub response_format: Option<ResponseFormat>,
    /// How many beams a beam search has, instead of drawing. Beams come all at once.
    #[schema(minimum = 1, maximum = 16)]
    pub beams: Option<i64>,
}

/// What else a stream tells.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub struct StreamOptions {
    /// Whether a last piece has the counts of tokens.
    pub include_usage: Option<bool>,
}

/// The form that a text must have.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Any.
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that a schema describes.
    JsonSchema {
        /// The schema.
        json_schema: NamedSchema,
    },
    /// What a regular expression matches.
    Regex {
        /// The expression.
        regex: String,
    },
    /// What a grammar describes, in Lark's notation.
    Grammar {
        /// The grammar.
        grammar: String,
    },
}

/// A schema; the name that clients give it changes nothing.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct NamedSchema {
    /// The schema; any object if there is none.
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Value>,
}

impl ResponseFormat {
    fn form(&self) -> Option<Form> {
        match self {
            Self::Text => None,
            Self::JsonObject => Some(Form::Json),
            Self::JsonSchema { json_schema } => {
                Some(json_schema.schema.clone().map_or(Form::Json, Form::JsonSchema))
            }
            Self::Regex { regex } => Some(Form::Regex(regex.clone())),
            Self::Grammar { grammar } => Some(Form::Grammar(grammar.clone())),
        }
    }
}

/// A text, or several.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum OneOrMore {
    /// One.
    One(String),
    /// Several.
    More(Vec<String>),
}

impl OneOrMore {
    /// All of them.
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::More(texts) => texts,
        }
    }
}

/// How many tokens were read and written.
#[allow(clippy::struct_field_names)] // names of the interface
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct Usage {
    /// Of the prompt, or the source.
    pub prompt_tokens: usize,
    /// Of the answers.
    pub completion_tokens: usize,
    /// Of both.
    pub total_tokens: usize,
}

impl Usage {
    /// So many were read and written.
    pub fn new(prompt_tokens: usize, completion_tokens: usize) -> Self {
        Self { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

impl Options {
    /// Whether pieces are wanted as they come.
    pub fn streams(&self) -> bool {
        self.stream == Some(true)
    }

    /// Whether a stream ends with the counts of tokens.
    pub fn tells_usage(&self) -> bool {
        self.stream_options.is_some_and(|options| options.include_usage == Some(true))
    }

    /// What `generator` is to do.
    pub fn generate(&self, generator: &TextGenerator, app: &App) -> Result<Generate, Fault> {
        let limits = app.limits();
        let mut options = generator.default_options();
        options.long = Long::Refuse;
        options.form = self.response_format.as_ref().and_then(ResponseFormat::form);
        let decoding = &mut options.decoding;
        let longest = (usize::MAX >> 1) as i64;
        let most = match self.max_completion_tokens {
            Some(most) => within("max_completion_tokens", Some(most), 1, longest)?,
            None => within("max_tokens", self.max_tokens, 1, longest)?,
        };
        if let Some(most) = most {
            // A model writes no more than it can read; asking for more is no mistake.
            decoding.max_new_tokens = Some((most as usize).min(1 << 20));
            decoding.max_length = None;
        }
        let returns = limits.returns as i64;
        if let Some(beams) = within("beams", self.beams, 1, returns)? {
            decoding.beams = beams as usize;
            decoding.sampling = None;
        }
        decoding.returns = within("n", self.n, 1, returns)?.unwrap_or(1) as usize;
        self.draw(&mut options)?;
        let decoding = &mut options.decoding;
        if decoding.returns > 1 && decoding.sampling.is_none() && decoding.beams < decoding.returns {
            let message = "n answers are drawn or found by beams: set temperature above 0, or as many beams";
            return Err(Fault::bad("n", message));
        }
        let penalty = |name, value| between(name, value, -2.0, 2.0);
        if let Some(penalty) = penalty("presence_penalty", self.presence_penalty)? {
            decoding.presence_penalty = penalty;
        }
        if let Some(penalty) = penalty("frequency_penalty", self.frequency_penalty)? {
            decoding.frequency_penalty = penalty;
        }
        if let Some(penalty) = between("repetition_penalty", self.repetition_penalty, 0.01, 10.0)? {
            decoding.repetition_penalty = penalty;
        }
        for (id, bias) in self.biases(generator, limits.biases)? {
            decoding.sequence_bias.push((vec![id], bias));
        }
        for stop in self.stop.clone().map(OneOrMore::into_vec).unwrap_or_default() {
            if stop.len() > limits.stop_bytes {
                let message = format!("a stop text is longer than {} bytes", limits.stop_bytes);
                return Err(Fault::bad("stop", message));
            }
            options.stop.push(stop);
        }
        if options.stop.len() > limits.stops {
            return Err(Fault::bad("stop", format!("there are more than {} stop texts", limits.stops)));
        }
        Ok(options)
    }

    /// How tokens are drawn.
    fn draw(&self, options: &mut Generate) -> Result<(), Fault> {
        let temperature = between("temperature", self.temperature, 0.0, 2.0)?;
        let top_p = between("top_p", self.top_p, 0.0, 1.0)?;
        let min_p = between("min_p", self.min_p, 0.0, 1.0)?;
        let top_k = within("top_k", self.top_k, -1, i64::from(u32::MAX))?;
        let decoding = &mut options.decoding;
        if self.beams.is_some_and(|beams| beams > 1) {
            return Ok(());
        }
        if let Some(temperature) = temperature {
            // Whoever asks for a temperature asks for nothing else that the files say.
            let drawn = Sampling { top_k: 0, ..Sampling::default() };
            let drawn = decoding.sampling.unwrap_or(drawn).temperature(temperature);
            decoding.sampling = (temperature > 0.0).then_some(drawn);
            decoding.beams = 1;
        }
        let Some(sampling) = &mut decoding.sampling else { return Ok(()) };
        if let Some(top_p) = top_p {
            // No token is left of nothing; the likeliest always is.
            sampling.top_p = top_p.max(f64::MIN_POSITIVE);
        }
        if let Some(min_p) = min_p {
            sampling.min_p = min_p;
        }
        if let Some(top_k) = top_k {
            sampling.top_k = top_k.max(0) as usize;
        }
        sampling.seed = self.seed.map_or_else(fresh_seed, i64::cast_unsigned);
        Ok(())
    }

    fn biases(&self, generator: &TextGenerator, most: usize) -> Result<Vec<(u32, f32)>, Fault> {
        let Some(biases) = &self.logit_bias else { return Ok(Vec::new()) };
        if biases.len() > most {
            return Err(Fault::bad("logit_bias", format!("more than {most} tokens have a bias")));
        }
        let size = generator.tokenizer().vocabulary().size();
        let one = |(id, bias): (&String, &f64)| {
            let token = id.parse::<u32>().ok().filter(|&token| (token as usize) < size);
            let wrong = || {
                let id: String = id.chars().take(20).collect();
                Fault::bad("logit_bias", format!("{id:?} is no id of the model's {size} tokens"))
            };
            let bias = between("logit_bias", Some(*bias), -100.0, 100.0)?.unwrap_or(0.0);
            Ok((token.ok_or_else(wrong)?, bias as f32))
        };
        biases.iter().map(one).collect()
    }
}

/// A whole number, if it is between these.
pub fn within(name: &str, value: Option<i64>, least: i64, most: i64) -> Result<Option<i64>, Fault> {
    match value {
        Some(value) if value < least || value > most => {
            Err(Fault::bad(name, format!("{name} is {value}; it must be from {least} to {most}")))
        }
        value => Ok(value),
    }
}

/// A number, if it is between these.
pub fn between(name: &str, value: Option<f64>, least: f64, most: f64) -> Result<Option<f64>, Fault> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(Fault::bad(name, format!("{name} is {value}; it must be from {least} to {most}")))
        }
        value => Ok(value),
    }
}

/// A seed that nobody chose.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}

/// Why a text ended, in `OpenAI`'s words.
pub fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Eos | Finish::Stop => "stop",
        Finish::Length => "length",
    }
}
