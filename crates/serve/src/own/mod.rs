//! What nobody else serves: translations, summaries, classes, names, answers, blanks, scores. Each takes one text or many.

pub mod libre;
pub mod reading;
pub mod writing;

use glassformer::TextEncoder;
use glassformer::tasks::{Input, Long};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::App;
use crate::fault::Fault;

/// A text, or several.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Texts {
    /// One.
    One(String),
    /// Several.
    More(Vec<String>),
}

impl Texts {
    /// All of them, if they are not too many.
    pub fn all(self, app: &App) -> Result<Vec<String>, Fault> {
        let texts = match self {
            Self::One(text) => vec![text],
            Self::More(texts) => texts,
        };
        count("input", texts.len(), app)?;
        Ok(texts)
    }
}

/// A text, or a pair of texts.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Item {
    /// A text.
    Text(String),
    /// Two that belong together.
    Pair([String; 2]),
}

impl Item {
    /// As tasks read it.
    pub fn input(&self) -> Input<'_> {
        match self {
            Self::Text(text) => Input::One(text),
            Self::Pair([first, second]) => Input::Pair(first, second),
        }
    }
}

/// A text, or several texts and pairs.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Items {
    /// A text.
    One(String),
    /// Several.
    More(Vec<Item>),
}

impl Items {
    /// All of them, if they are not too many.
    pub fn all(self, app: &App) -> Result<Vec<Item>, Fault> {
        let items = match self {
            Self::One(text) => vec![Item::Text(text)],
            Self::More(items) => items,
        };
        count("input", items.len(), app)?;
        Ok(items)
    }
}

/// Refuses no texts, and too many.
pub fn count(param: &str, count: usize, app: &App) -> Result<(), Fault> {
    match count {
        0 => Err(Fault::bad(param, "there is no text")),
        count if count > app.limits().texts => {
            Err(Fault::bad(param, format!("there are more than {} texts", app.limits().texts)))
        }
        _ => Ok(()),
    }
}

/// What is done with texts that are too long.
pub fn long(truncate: Option<bool>) -> Long {
    if truncate == Some(true) { Long::Cut } else { Long::Refuse }
}

/// How many tokens the texts have, special ones included, as far as the model reads them.
pub fn count_tokens(encoder: &TextEncoder, texts: &[String]) -> Result<usize, Fault> {
    let longest = encoder.longest().unwrap_or(usize::MAX);
    let count = |text: &String| {
        let encoding = encoder.tokenizer().encode(text, glassformer::tokens::Special::Add);
        Ok(encoding.map_err(glassformer::tasks::Error::from)?.ids.len().min(longest))
    };
    texts.iter().map(count).sum()
}
