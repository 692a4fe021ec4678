//! `/v1/embeddings`: vectors of texts.

use axum::extract::State;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use glassformer::tasks::{Embed, Long, Prompt};
use glassformer::tokens::SpecialText;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::options::within;
use crate::App;
use crate::body::Json;
use crate::fault::Fault;
use crate::models::Ability;

/// Texts to be embedded.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct EmbeddingRequest {
    /// Which model; the first that embeds if none is named.
    pub model: Option<String>,
    /// A text, several, token ids of this model, or several lists of them.
    pub input: super::completions::Prompt,
    /// How vectors are written: `float`, or `base64` of their bytes as 32-bit floats.
    pub encoding_format: Option<Encoding>,
    /// Leaves so many numbers of each vector, and makes its length 1 again.
    #[schema(minimum = 1)]
    pub dimensions: Option<i64>,
    /// The prompt before each text, as the model's files call it: `query`, `document`; `none` for none.
    pub prompt_name: Option<String>,
    /// Whether texts that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
}

/// How vectors are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As numbers.
    #[default]
    Float,
    /// As base64 of their bytes.
    Base64,
}

/// Vectors of texts.
#[derive(Serialize, ToSchema)]
pub struct Embeddings {
    /// `list`.
    object: &'static str,
    data: Vec<EmbeddingData>,
    model: String,
    usage: EmbeddingUsage,
}

/// A vector of a text.
#[derive(Serialize, ToSchema)]
struct EmbeddingData {
    /// `embedding`.
    object: &'static str,
    index: usize,
    embedding: Vector,
}

/// A vector.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Vector {
    /// As numbers.
    Numbers(Vec<f32>),
    /// As base64.
    Text(String),
}

/// How many tokens were read.
#[derive(Serialize, ToSchema)]
struct EmbeddingUsage {
    prompt_tokens: usize,
    total_tokens: usize,
}

/// Embed texts
#[utoipa::path(post, path = "/v1/embeddings", tag = "OpenAI", request_body = EmbeddingRequest,
    responses((status = 200, body = Embeddings)))]
pub async fn embed(
    State(app): State<App>,
    Json(request): Json<EmbeddingRequest>,
) -> Result<axum::Json<Embeddings>, Fault> {
    let embeds = |served: &crate::Served| served.abilities().contains(&Ability::Embed);
    let served = app.models().of(request.model.as_deref(), embeds)?.clone();
    let dimensions = within("dimensions", request.dimensions, 1, 1 << 20)?;
    let (name, encoding) = (served.name().to_owned(), request.encoding_format.unwrap_or_default());
    let texts = app.limits().texts;
    let (vectors, tokens) = app
        .compute(move || {
            let encoder = served.reader()?;
            let texts = request.input.texts(encoder.tokenizer(), texts)?;
            let prompt = match request.prompt_name.as_deref() {
                None => Prompt::Usual,
                Some("none") => Prompt::Nothing,
                Some(name) => Prompt::Named(name.to_owned()),
            };
            let long = if request.truncate == Some(true) { Long::Cut } else { Long::Refuse };
            let vectors = encoder.embed(&texts, &Embed { prompt, long })?;
            let tokens = crate::own::count_tokens(&encoder, &texts)?;
            Ok((vectors, tokens))
        })
        .await?;
    let one = |(index, vector): (usize, Vec<f32>)| {
        let vector = shortened(vector, dimensions)?;
        Ok(EmbeddingData { object: "embedding", index, embedding: written(vector, encoding) })
    };
    let data = vectors.into_iter().enumerate().map(one).collect::<Result<_, Fault>>()?;
    let usage = EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens };
    Ok(axum::Json(Embeddings { object: "list", data, model: name, usage }))
}

impl super::completions::Prompt {
    /// The texts, of which there may be `most`. Token ids are turned back into text: they must be this model's.
    pub fn texts(
        &self,
        tokenizer: &glassformer::tokens::Tokenizer,
        most: usize,
    ) -> Result<Vec<String>, Fault> {
        let text = |ids: &Vec<i64>| {
            let ids = super::completions::known_ids(ids, tokenizer, "input")?;
            let text = tokenizer.decode(&ids, SpecialText::Skip);
            Ok(text.map_err(glassformer::tasks::Error::from)?)
        };
        let texts = match self {
            Self::Text(text) => vec![text.clone()],
            Self::Texts(texts) => texts.clone(),
            Self::Ids(ids) => vec![text(ids)?],
            Self::Lists(lists) => lists.iter().map(text).collect::<Result<_, Fault>>()?,
        };
        match texts.len() {
            0 => Err(Fault::bad("input", "there is no text")),
            count if count > most => Err(Fault::bad("input", format!("there are more than {most} texts"))),
            _ => Ok(texts),
        }
    }
}

/// The first numbers of a vector, made to have length 1 again.
fn shortened(mut vector: Vec<f32>, dimensions: Option<i64>) -> Result<Vec<f32>, Fault> {
    let Some(dimensions) = dimensions.map(|dimensions| dimensions as usize) else { return Ok(vector) };
    if dimensions > vector.len() {
        let message = format!("dimensions is {dimensions}, and the model's vectors have {}", vector.len());
        return Err(Fault::bad("dimensions", message));
    }
    vector.truncate(dimensions);
    crate::tei::normalize(&mut vector);
    Ok(vector)
}

fn written(vector: Vec<f32>, encoding: Encoding) -> Vector {
    match encoding {
        Encoding::Float => Vector::Numbers(vector),
        Encoding::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            Vector::Text(BASE64_STANDARD.encode(bytes))
        }
    }
}
