//! The interface of text-embeddings-inference: vectors, classes, ranks and tokens of texts.

use axum::extract::State;
use glassformer::TextEncoder;
use glassformer::tasks::{Classify, Embed, Input, Long, Prompt};
use glassformer::tokens::{Special, SpecialText};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::App;
use crate::body::Json;
use crate::fault::Fault;
use crate::models::Ability;
use crate::openai::completions::known_ids;
use crate::own::reading::{ClassScore, read};
use crate::own::{Item, Items, Texts, count, long};

/// Texts to be embedded.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct EmbedTexts {
    /// A text, or several.
    pub inputs: Texts,
    /// Whether texts that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
    /// Whether vectors are made to have length 1; they are if not given.
    pub normalize: Option<bool>,
    /// The prompt before each text, as the model's files call it.
    pub prompt_name: Option<String>,
    /// Leaves so many numbers of each vector.
    #[schema(minimum = 1)]
    pub dimensions: Option<usize>,
}

/// Embed texts
#[utoipa::path(post, path = "/embed", tag = "text-embeddings-inference", request_body = EmbedTexts,
    responses((status = 200, body = Vec<Vec<f32>>)))]
pub async fn embed(
    State(app): State<App>,
    Json(request): Json<EmbedTexts>,
) -> Result<axum::Json<Vec<Vec<f32>>>, Fault> {
    let texts = request.inputs.all(&app)?;
    let prompt = request.prompt_name.map_or(Prompt::Usual, Prompt::Named);
    let options = Embed { prompt, long: long(request.truncate) };
    let work = move |encoder: &TextEncoder| Ok(encoder.embed(&texts, &options)?);
    let (_, mut vectors) = read(&app, None, Ability::Embed, work).await?;
    for vector in &mut vectors {
        if let Some(dimensions) = request.dimensions {
            if dimensions == 0 || dimensions > vector.len() {
                let message = format!("dimensions must be from 1 to {}", vector.len());
                return Err(Fault::bad("dimensions", message));
            }
            vector.truncate(dimensions);
        }
        if request.normalize != Some(false) {
            normalize(vector);
        }
    }
    Ok(axum::Json(vectors))
}

/// Makes the length of a vector 1.
pub fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    if length > 0.0 {
        for x in vector {
            *x = (f64::from(*x) / length) as f32;
        }
    }
}

/// Texts whose rows are asked for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct EmbedAll {
    /// A text, or several.
    pub inputs: Texts,
    /// Whether texts that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
}

/// Give the vector of each token, before any pooling
#[utoipa::path(post, path = "/embed_all", tag = "text-embeddings-inference", request_body = EmbedAll,
    responses((status = 200, body = Vec<Vec<Vec<f32>>>)))]
pub async fn embed_all(
    State(app): State<App>,
    Json(request): Json<EmbedAll>,
) -> Result<axum::Json<Vec<Vec<Vec<f32>>>>, Fault> {
    let texts = request.inputs.all(&app)?;
    let long = long(request.truncate);
    let work = move |encoder: &TextEncoder| Ok(encoder.rows(&texts, long)?);
    Ok(axum::Json(read(&app, None, Ability::Embed, work).await?.1))
}

/// Texts or pairs to be classified.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct PredictTexts {
    /// A text, or several texts and pairs.
    pub inputs: Predicted,
    /// Whether texts that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
}

/// What is classified: a text; several; or pairs, each as a list of two.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Predicted {
    /// A text.
    One(String),
    /// Several, each a list of one text or two.
    Lists(Vec<Vec<String>>),
    /// Several.
    More(Vec<Item>),
}

/// Find the classes of texts
#[utoipa::path(post, path = "/predict", tag = "text-embeddings-inference", request_body = PredictTexts,
    responses((status = 200, description = "The classes of the text, or a list of them for each")))]
pub async fn predict(
    State(app): State<App>,
    Json(request): Json<PredictTexts>,
) -> Result<axum::Json<Value>, Fault> {
    let single = matches!(request.inputs, Predicted::One(_));
    let items = match request.inputs {
        Predicted::One(text) => Items::One(text).all(&app)?,
        Predicted::More(items) => Items::More(items).all(&app)?,
        Predicted::Lists(lists) => {
            let item = |mut list: Vec<String>| match (list.len(), list.pop(), list.pop()) {
                (1, Some(text), None) => Ok(Item::Text(text)),
                (2, Some(second), Some(first)) => Ok(Item::Pair([first, second])),
                _ => Err(Fault::bad("inputs", "an input is a list of neither one text nor two")),
            };
            Items::More(lists.into_iter().map(item).collect::<Result<_, _>>()?).all(&app)?
        }
    };
    let options = Classify { top: usize::MAX, long: long(request.truncate) };
    let work = move |encoder: &TextEncoder| {
        Ok(encoder.classify(&items.iter().map(Item::input).collect::<Vec<_>>(), &options)?)
    };
    let (_, labels) = read(&app, None, Ability::Classify, work).await?;
    let one = |label: glassformer::tasks::Label| ClassScore { label: label.label, score: label.score };
    let mut results = labels.into_iter().map(|labels| labels.into_iter().map(one).collect::<Vec<_>>());
    Ok(axum::Json(if single { json!(results.next()) } else { json!(results.collect::<Vec<_>>()) }))
}

/// Texts to be ranked.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct RankTexts {
    /// What they are to fit.
    pub query: String,
    /// The texts.
    pub texts: Vec<String>,
    /// Whether texts that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
    /// Whether scores are as the model gives them, before any function.
    pub raw_scores: Option<bool>,
    /// Whether each result has its text.
    pub return_text: Option<bool>,
}

/// A text with its rank.
#[derive(Serialize, ToSchema)]
pub struct Rank {
    /// Which text.
    index: usize,
    /// How well it fits.
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// Rank texts by how well they fit a query
#[utoipa::path(post, path = "/rerank", tag = "text-embeddings-inference", request_body = RankTexts,
    responses((status = 200, body = Vec<Rank>, description = "The texts, best first")))]
pub async fn rerank(
    State(app): State<App>,
    Json(request): Json<RankTexts>,
) -> Result<axum::Json<Vec<Rank>>, Fault> {
    let RankTexts { query, texts, truncate, raw_scores, return_text } = request;
    count("texts", texts.len(), &app)?;
    let long = long(truncate);
    let given = texts.clone();
    let work = move |encoder: &TextEncoder| {
        let pairs: Vec<Input<'_>> = given.iter().map(|text| Input::Pair(&query, text)).collect();
        if encoder.checkpoint().labels.len() != 1 {
            let message =
                "this model tells classes apart and ranks nothing: a model with a single score does";
            return Err(Fault::bad("model", message));
        }
        if raw_scores == Some(true) { scores(encoder, &pairs, long) } else { ranked(encoder, &pairs, long) }
    };
    let (_, scores) = read(&app, None, Ability::Classify, work).await?;
    let mut ranks: Vec<Rank> = scores
        .into_iter()
        .zip(texts)
        .enumerate()
        .map(|(index, (score, text))| Rank {
            index,
            score,
            text: (return_text == Some(true)).then_some(text),
        })
        .collect();
    ranks.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.index.cmp(&b.index)));
    Ok(axum::Json(ranks))
}

/// What the model says of each pair, after the function that its files name.
fn ranked(encoder: &TextEncoder, pairs: &[Input<'_>], long: Long) -> Result<Vec<f32>, Fault> {
    let labels = encoder.classify(pairs, &Classify { top: 1, long })?;
    Ok(labels.iter().map(|labels| labels.first().map_or(0.0, |label| label.score)).collect())
}

/// What the model says of each pair.
fn scores(encoder: &TextEncoder, pairs: &[Input<'_>], long: Long) -> Result<Vec<f32>, Fault> {
    Ok(encoder.class_scores(pairs, long)?.iter().map(|row| row.first().copied().unwrap_or(0.0)).collect())
}

/// A text, and others that it is compared with.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct Similarity {
    /// Both.
    pub inputs: Compared,
    /// The prompt before each text.
    pub parameters: Option<SimilarityOptions>,
}

/// A text, and others.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct Compared {
    /// The text.
    pub source_sentence: String,
    /// The others.
    pub sentences: Vec<String>,
}

/// How texts are compared.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct SimilarityOptions {
    /// Whether texts that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
    /// The prompt before each text, as the model's files call it.
    pub prompt_name: Option<String>,
}

/// Say how alike texts are
#[utoipa::path(post, path = "/similarity", tag = "text-embeddings-inference", request_body = Similarity,
    responses((status = 200, body = Vec<f32>, description = "The cosine of each with the first")))]
pub async fn similarity(
    State(app): State<App>,
    Json(request): Json<Similarity>,
) -> Result<axum::Json<Vec<f32>>, Fault> {
    let Compared { source_sentence, sentences } = request.inputs;
    count("inputs.sentences", sentences.len(), &app)?;
    let SimilarityOptions { truncate, prompt_name } = request.parameters.unwrap_or_default();
    let options = Embed { prompt: prompt_name.map_or(Prompt::Usual, Prompt::Named), long: long(truncate) };
    let texts: Vec<String> = std::iter::once(source_sentence).chain(sentences).collect();
    let work = move |encoder: &TextEncoder| Ok(encoder.embed(&texts, &options)?);
    let (_, mut vectors) = read(&app, None, Ability::Embed, work).await?;
    for vector in &mut vectors {
        normalize(vector);
    }
    let cosine = |one: &Vec<f32>| one.iter().zip(&vectors[0]).map(|(a, b)| a * b).sum();
    Ok(axum::Json(vectors[1..].iter().map(cosine).collect()))
}

/// Texts whose tokens are asked for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TokenizeTexts {
    /// A text, or several.
    pub inputs: Texts,
    /// Whether special tokens stand around them; they do if not given.
    pub add_special_tokens: Option<bool>,
    /// Which model; the first if none is named.
    pub model: Option<String>,
}

/// A token.
#[derive(Serialize, ToSchema)]
pub struct TokenOf {
    id: u32,
    text: String,
    special: bool,
    /// Where it begins in the text, in characters.
    start: Option<usize>,
    /// Where it ends in the text, in characters.
    stop: Option<usize>,
}

/// Give the tokens of texts
#[utoipa::path(post, path = "/tokenize", tag = "text-embeddings-inference", request_body = TokenizeTexts,
    responses((status = 200, body = Vec<Vec<TokenOf>>)))]
pub async fn tokenize(
    State(app): State<App>,
    Json(request): Json<TokenizeTexts>,
) -> Result<axum::Json<Vec<Vec<TokenOf>>>, Fault> {
    let texts = request.inputs.all(&app)?;
    let special = if request.add_special_tokens == Some(false) { Special::Leave } else { Special::Add };
    let served = app.models().of(request.model.as_deref(), |_| true)?.clone();
    let work = move || {
        let tokens = |text: &String| {
            served.with_tokenizer(|tokenizer| {
                let encoding = tokenizer.encode(text, special).map_err(glassformer::tasks::Error::from)?;
                let token = |place: usize| {
                    let (id, special) = (encoding.ids[place], encoding.special[place]);
                    let (bytes, chars) = (encoding.bytes[place], encoding.chars[place]);
                    let own = text.get(bytes.start..bytes.end).filter(|_| !special);
                    let text = own.or_else(|| tokenizer.token(id)).unwrap_or_default().to_owned();
                    let (start, stop) = (!special).then_some((chars.start, chars.end)).unzip();
                    TokenOf { id, text, special, start, stop }
                };
                Ok((0..encoding.len()).map(token).collect())
            })
        };
        texts.iter().map(tokens).collect::<Result<Vec<Vec<TokenOf>>, Fault>>()
    };
    Ok(axum::Json(app.compute(work).await?))
}

/// Tokens whose text is asked for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct DecodeTokens {
    /// Ids of a text, or lists of them.
    pub ids: Ids,
    /// Whether special tokens are left out; they are if not given.
    pub skip_special_tokens: Option<bool>,
    /// Which model; the first if none is named.
    pub model: Option<String>,
}

/// Ids of a text, or lists of them.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Ids {
    /// Of a text.
    One(Vec<i64>),
    /// Of several.
    More(Vec<Vec<i64>>),
}

/// Give the text of tokens
#[utoipa::path(post, path = "/decode", tag = "text-embeddings-inference", request_body = DecodeTokens,
    responses((status = 200, body = Vec<String>)))]
pub async fn decode(
    State(app): State<App>,
    Json(request): Json<DecodeTokens>,
) -> Result<axum::Json<Vec<String>>, Fault> {
    let lists = match request.ids {
        Ids::One(ids) => vec![ids],
        Ids::More(lists) => lists,
    };
    count("ids", lists.len(), &app)?;
    let special =
        if request.skip_special_tokens == Some(false) { SpecialText::Keep } else { SpecialText::Skip };
    let served = app.models().of(request.model.as_deref(), |_| true)?.clone();
    let work = move || {
        let text = |ids: &Vec<i64>| {
            served.with_tokenizer(|tokenizer| {
                let ids = known_ids(ids, tokenizer, "ids")?;
                Ok(tokenizer.decode(&ids, special).map_err(glassformer::tasks::Error::from)?)
            })
        };
        lists.iter().map(text).collect()
    };
    Ok(axum::Json(app.compute(work).await?))
}

/// Say which model answers here
#[utoipa::path(get, path = "/info", tag = "text-embeddings-inference", responses((status = 200, description = "The first model that reads")))]
pub async fn info(State(app): State<App>) -> Result<axum::Json<Value>, Fault> {
    let served = app.models().of(None, |served| served.open_encoder().is_some())?;
    let kind = |ability: &Ability| match ability {
        Ability::Embed => Some(json!({ "embedding": { "pooling": "model" } })),
        Ability::Classify => Some(json!({ "classifier": {} })),
        Ability::Complete
        | Ability::Chat
        | Ability::Rewrite
        | Ability::Tag
        | Ability::Answer
        | Ability::Fill
        | Ability::Score => None,
    };
    let limits = app.limits();
    Ok(axum::Json(json!({
        "model_id": served.name(),
        "model_sha": null,
        "model_dtype": "float32",
        "model_type": served.abilities().iter().find_map(kind),
        "max_concurrent_requests": limits.queue,
        "max_input_length": served.longest(),
        "max_batch_tokens": limits.queue_tokens,
        "max_client_batch_size": limits.texts,
        "auto_truncate": false,
        "tokenization_workers": 2,
        "version": env!("CARGO_PKG_VERSION"),
    })))
}
