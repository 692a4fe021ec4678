//! `/v1/classify`, `/v1/tag`, `/v1/answer`, `/v1/fill` and `/v1/score`.

use axum::extract::State;
use glassformer::TextEncoder;
use glassformer::tasks::{self, Input};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Item, Items, Texts, long};
use crate::App;
use crate::body::Json;
use crate::fault::Fault;
use crate::models::Ability;
use crate::openai::logprobs::number;
use crate::openai::options::within;

/// Runs `work` with the model of that name or, without one, the first that can do this.
pub async fn read<T: Send + 'static>(
    app: &App,
    model: Option<&str>,
    ability: Ability,
    work: impl FnOnce(&TextEncoder) -> Result<T, Fault> + Send + 'static,
) -> Result<(String, T), Fault> {
    let served = app.models().of(model, |served| served.abilities().contains(&ability))?.clone();
    let name = served.name().to_owned();
    let result = app.compute(move || work(&*served.reader()?)).await?;
    Ok((name, result))
}

/// How many of something are wanted.
fn top(top: Option<i64>, usual: usize) -> Result<usize, Fault> {
    Ok(within("top", top, 1, 10_000)?.map_or(usual, |top| top as usize))
}

/// Texts to be classified.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ClassifyRequest {
    /// Which model; the first that classifies if none is named.
    pub model: Option<String>,
    /// A text, or several texts and pairs.
    pub input: Items,
    /// How many classes are told of each, the likeliest first; 1 if not given.
    #[schema(minimum = 1)]
    pub top: Option<i64>,
    /// Whether texts that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
}

/// Classes of texts.
#[derive(Serialize, ToSchema)]
pub struct Classes {
    model: String,
    /// For each text its classes, the likeliest first.
    results: Vec<Vec<ClassScore>>,
}

/// A class.
#[derive(Serialize, ToSchema)]
pub struct ClassScore {
    /// Its name.
    pub label: String,
    /// Its probability, or what the model measured.
    pub score: f32,
}

/// Find the classes of texts
#[utoipa::path(post, path = "/v1/classify", tag = "Glassformer", request_body = ClassifyRequest,
    responses((status = 200, body = Classes)))]
pub async fn classify(
    State(app): State<App>,
    Json(request): Json<ClassifyRequest>,
) -> Result<axum::Json<Classes>, Fault> {
    let items = request.input.all(&app)?;
    let options = tasks::Classify { top: top(request.top, 1)?, long: long(request.truncate) };
    let work = move |encoder: &TextEncoder| Ok(encoder.classify(&inputs(&items), &options)?);
    let (model, labels) = read(&app, request.model.as_deref(), Ability::Classify, work).await?;
    let one = |label: tasks::Label| ClassScore { label: label.label, score: label.score };
    let results = labels.into_iter().map(|labels| labels.into_iter().map(one).collect()).collect();
    Ok(axum::Json(Classes { model, results }))
}

fn inputs(items: &[Item]) -> Vec<Input<'_>> {
    items.iter().map(Item::input).collect()
}

/// Texts in which names are looked for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TagRequest {
    /// Which model; the first that tags if none is named.
    pub model: Option<String>,
    /// A text, or several.
    pub input: Texts,
    /// Whether texts that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
}

/// Names in texts.
#[derive(Serialize, ToSchema)]
pub struct Tags {
    model: String,
    /// For each text its names, in their order.
    results: Vec<Vec<EntityFound>>,
}

/// A name.
#[derive(Serialize, ToSchema)]
struct EntityFound {
    /// What it is.
    label: String,
    /// How sure that is.
    score: f32,
    /// As the text has it.
    text: String,
    /// Where it begins, in characters.
    start: usize,
    /// Where it ends, in characters.
    end: usize,
}

/// Find names in texts
#[utoipa::path(post, path = "/v1/tag", tag = "Glassformer", request_body = TagRequest,
    responses((status = 200, body = Tags)))]
pub async fn tag(State(app): State<App>, Json(request): Json<TagRequest>) -> Result<axum::Json<Tags>, Fault> {
    let texts = request.input.all(&app)?;
    let options = tasks::Tag { long: long(request.truncate), ..tasks::Tag::default() };
    let work = move |encoder: &TextEncoder| Ok(encoder.tag(&texts, &options)?);
    let (model, found) = read(&app, request.model.as_deref(), Ability::Tag, work).await?;
    let one = |entity: tasks::Entity| {
        let tasks::Entity { label, score, chars, text, .. } = entity;
        EntityFound { label, score, text, start: chars.start, end: chars.end }
    };
    let results = found.into_iter().map(|found| found.into_iter().map(one).collect()).collect();
    Ok(axum::Json(Tags { model, results }))
}

/// Questions about texts.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct AnswerRequest {
    /// Which model; the first that answers if none is named.
    pub model: Option<String>,
    /// A question, or several.
    pub question: Texts,
    /// The text of the answer: one for all questions, or one for each.
    pub context: Texts,
    /// How many answers are given to each, the likeliest first; 1 if not given.
    #[schema(minimum = 1)]
    pub top: Option<i64>,
}

/// Answers to questions.
#[derive(Serialize, ToSchema)]
pub struct Answers {
    model: String,
    /// For each question its answers, the likeliest first.
    results: Vec<Vec<AnswerFound>>,
}

/// An answer.
#[derive(Serialize, ToSchema)]
struct AnswerFound {
    /// A part of the text.
    text: String,
    /// Its probability.
    score: f32,
    /// Where it begins, in characters.
    start: usize,
    /// Where it ends, in characters.
    end: usize,
}

/// Answer questions from texts
#[utoipa::path(post, path = "/v1/answer", tag = "Glassformer", request_body = AnswerRequest,
    responses((status = 200, body = Answers)))]
pub async fn answer(
    State(app): State<App>,
    Json(request): Json<AnswerRequest>,
) -> Result<axum::Json<Answers>, Fault> {
    let (questions, contexts) = (request.question.all(&app)?, request.context.all(&app)?);
    if contexts.len() != 1 && contexts.len() != questions.len() {
        let message = format!("there are {} questions and {} contexts", questions.len(), contexts.len());
        return Err(Fault::bad("context", message));
    }
    let options = tasks::Answer { top: top(request.top, 1)?, ..tasks::Answer::default() };
    let work = move |encoder: &TextEncoder| {
        let pairs: Vec<(&str, &str)> = questions
            .iter()
            .zip(contexts.iter().cycle())
            .map(|(question, text)| (&**question, &**text))
            .collect();
        Ok(encoder.answer(&pairs, &options)?)
    };
    let (model, found) = read(&app, request.model.as_deref(), Ability::Answer, work).await?;
    let one = |found: tasks::Found| {
        let tasks::Found { text, score, chars, .. } = found;
        AnswerFound { text: text.trim_start().to_owned(), score, start: chars.start, end: chars.end }
    };
    let results = found.into_iter().map(|found| found.into_iter().map(one).collect()).collect();
    Ok(axum::Json(Answers { model, results }))
}

/// Texts with blanks.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct FillRequest {
    /// Which model; the first that fills blanks if none is named.
    pub model: Option<String>,
    /// A text with the model's own mark for a blank, such as `[MASK]`, or several.
    pub input: Texts,
    /// How many words are told for each blank, the likeliest first; 5 if not given.
    #[schema(minimum = 1)]
    pub top: Option<i64>,
}

/// Words for blanks.
#[derive(Serialize, ToSchema)]
pub struct Fills {
    model: String,
    /// For each text, and each of its blanks, the likeliest words.
    results: Vec<Vec<Vec<WordScore>>>,
}

/// A word for a blank.
#[derive(Serialize, ToSchema)]
struct WordScore {
    word: String,
    score: f32,
}

/// Find words for blanks
#[utoipa::path(post, path = "/v1/fill", tag = "Glassformer", request_body = FillRequest,
    responses((status = 200, body = Fills)))]
pub async fn fill(
    State(app): State<App>,
    Json(request): Json<FillRequest>,
) -> Result<axum::Json<Fills>, Fault> {
    let texts = request.input.all(&app)?;
    let options = tasks::Fill { top: top(request.top, 5)?, ..tasks::Fill::default() };
    let work = move |encoder: &TextEncoder| Ok(encoder.fill(&texts, &options)?);
    let (model, found) = read(&app, request.model.as_deref(), Ability::Fill, work).await?;
    let word = |choice: tasks::Choice| WordScore { word: choice.word, score: choice.score };
    let blank = |blank: tasks::Blank| blank.choices.into_iter().map(word).collect();
    let results = found.into_iter().map(|blanks| blanks.into_iter().map(blank).collect()).collect();
    Ok(axum::Json(Fills { model, results }))
}

/// Texts whose likelihood is asked for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ScoreRequest {
    /// Which model; the first that scores if none is named.
    pub model: Option<String>,
    /// A text, or several; for models that rewrite, pairs of a source and what was written for it.
    pub input: Items,
    /// Whether texts that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
}

/// How likely texts are.
#[derive(Serialize, ToSchema)]
pub struct Scores {
    model: String,
    results: Vec<TextScore>,
}

/// How likely a text is.
#[derive(Serialize, ToSchema)]
struct TextScore {
    /// e to the minus mean of the logarithms.
    perplexity: f64,
    /// The sum of the logarithms.
    log_likelihood: f64,
    /// Each token that was scored.
    tokens: Vec<TokenScore>,
}

/// A token that was scored.
#[derive(Serialize, ToSchema)]
struct TokenScore {
    id: u32,
    text: String,
    logprob: f64,
}

/// Say how likely texts are
#[utoipa::path(post, path = "/v1/score", tag = "Glassformer", request_body = ScoreRequest,
    responses((status = 200, body = Scores)))]
pub async fn score(
    State(app): State<App>,
    Json(request): Json<ScoreRequest>,
) -> Result<axum::Json<Scores>, Fault> {
    let (items, long) = (request.input.all(&app)?, long(request.truncate));
    let work = move |encoder: &TextEncoder| {
        let scored = encoder.score(&inputs(&items), long)?;
        let token = |token: &tasks::ScoredToken| TokenScore {
            id: token.id,
            text: encoder.tokenizer().token(token.id).unwrap_or_default().to_owned(),
            logprob: number(token.logprob),
        };
        let text = |found: &tasks::Likelihood| TextScore {
            perplexity: found.perplexity().min(f64::MAX),
            log_likelihood: found.total.max(f64::MIN),
            tokens: found.tokens.iter().map(token).collect(),
        };
        Ok(scored.iter().map(text).collect())
    };
    let (model, results) = read(&app, request.model.as_deref(), Ability::Score, work).await?;
    Ok(axum::Json(Scores { model, results }))
}
