//! Ollama's interface, as far as it reads: texts, conversations, vectors and what is served. Nothing can be fetched or changed by it.

use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use glassformer::TextEncoder;
use glassformer::tasks::{Embed, Form, Long, News, Prompt};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::body::Json;
use crate::calendar::written;
use crate::fault::Fault;
use crate::keys::Who;
use crate::models::{Ability, Served};
use crate::openai::chat::{ChatRequest, Message};
use crate::openai::options::{OneOrMore, Options, reason};
use crate::own::reading::read;
use crate::own::{Texts, count_tokens};
use crate::streams::{Broken, Framing, Pieces};
use crate::work::Work;
use crate::{App, streams};

/// A text to be continued or answered.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct GenerateText {
    /// Which model.
    pub model: String,
    /// The text.
    pub prompt: Option<String>,
    /// What the model is to be.
    pub system: Option<String>,
    /// Whether the text goes to the model as it is, without the template of its conversations.
    pub raw: Option<bool>,
    /// Whether pieces are sent as they come; they are if not given.
    pub stream: Option<bool>,
    /// The form of the answer: `json`, or a schema of it.
    #[schema(value_type = Option<Object>)]
    pub format: Option<Value>,
    /// How text is written.
    pub options: Option<Habits>,
}

/// A conversation to be answered.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ChatText {
    /// Which model.
    pub model: String,
    /// What was said.
    pub messages: Vec<Message>,
    /// Functions that the model may call.
    pub tools: Option<Vec<Value>>,
    /// Whether pieces are sent as they come; they are if not given.
    pub stream: Option<bool>,
    /// The form of the answer: `json`, or a schema of it.
    #[schema(value_type = Option<Object>)]
    pub format: Option<Value>,
    /// How text is written.
    pub options: Option<Habits>,
}

/// How text is written, in Ollama's words.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct Habits {
    /// What scores are divided by; 0 takes the likeliest.
    pub temperature: Option<f64>,
    /// How many of the likeliest tokens are kept.
    pub top_k: Option<i64>,
    /// The likeliest tokens that together have this probability are kept.
    pub top_p: Option<f64>,
    /// Tokens with less than this share of the likeliest one's probability are left out.
    pub min_p: Option<f64>,
    /// What is drawn.
    pub seed: Option<i64>,
    /// At most so many tokens; below 0 as many as the model writes.
    pub num_predict: Option<i64>,
    /// Texts that end an answer.
    pub stop: Option<OneOrMore>,
    /// What the scores of tokens that have occurred are divided by.
    pub repeat_penalty: Option<f64>,
    /// What a token loses once it was generated.
    pub presence_penalty: Option<f64>,
    /// What a token loses for each time it was generated.
    pub frequency_penalty: Option<f64>,
}

impl Habits {
    fn options(self) -> Options {
        Options {
            max_tokens: self.num_predict.filter(|&most| most > 0),
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            seed: self.seed,
            stop: self.stop,
            repetition_penalty: self.repeat_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            ..Options::default()
        }
    }
}

/// The form of an answer.
fn form(format: Option<Value>) -> Result<Option<Form>, Fault> {
    match format {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(word)) if word.is_empty() => Ok(None),
        Some(Value::String(word)) if word == "json" => Ok(Some(Form::Json)),
        Some(schema @ Value::Object(_)) => Ok(Some(Form::JsonSchema(schema))),
        Some(_) => Err(Fault::bad("format", "format is json, or a JSON schema")),
    }
}

/// What kind of answer is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Chat,
}

/// Continue or answer a text
#[utoipa::path(post, path = "/api/generate", tag = "Ollama", request_body = GenerateText,
    responses((status = 200, description = "Pieces of the answer, one on each line, or with `stream: false` all of it")))]
pub async fn generate(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Json(request): Json<GenerateText>,
) -> Result<Response, Fault> {
    let start = Instant::now();
    let served = named(&app, &request.model)?;
    let generator = served.writer()?.clone();
    let mut options = request.options.unwrap_or_default().options().generate(&generator, &app)?;
    options.form = form(request.format)?;
    let text = request.prompt.unwrap_or_default();
    let (raw, system) = (request.raw == Some(true), request.system);
    let prompt = app
        .compute(move || {
            if raw || generator.template().is_none() || generator.reads_source() {
                return Ok(generator.prompts(&[text])?.remove(0));
            }
            let system = system.iter().map(|system| ("system", system.as_str()));
            let said = system.chain([("user", text.as_str())]);
            crate::openai::chat::prompt(&generator, &glassformer::tokens::Conversation::new(said))
        })
        .await?;
    let work = Work::begin(&app, &served, vec![prompt], options, (who, start)).await?;
    answer(&app, work, Head::new(&served, Kind::Text, start), request.stream != Some(false)).await
}

/// Answer a conversation
#[utoipa::path(post, path = "/api/chat", tag = "Ollama", request_body = ChatText,
    responses((status = 200, description = "Pieces of the answer, one on each line, or with `stream: false` all of it")))]
pub async fn chat(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Json(request): Json<ChatText>,
) -> Result<Response, Fault> {
    let start = Instant::now();
    let served = named(&app, &request.model)?;
    let generator = served.writer()?.clone();
    let mut options = request.options.unwrap_or_default().options().generate(&generator, &app)?;
    options.form = form(request.format)?;
    let conversation = ChatRequest::conversation_of(request.messages, request.tools, Map::new(), &app)?;
    let prompt = app.compute(move || crate::openai::chat::prompt(&generator, &conversation)).await?;
    let work = Work::begin(&app, &served, vec![prompt], options, (who, start)).await?;
    answer(&app, work, Head::new(&served, Kind::Chat, start), request.stream != Some(false)).await
}

/// The model of that name; Ollama's clients put a tag behind it.
fn named(app: &App, name: &str) -> Result<std::sync::Arc<Served>, Fault> {
    let models = app.models();
    let found = models.named(name).or_else(|fault| {
        let plain = name.strip_suffix(":latest").ok_or(fault)?;
        models.named(plain)
    });
    Ok(found?.clone())
}

/// What all pieces of an answer say.
struct Head {
    model: String,
    kind: Kind,
    start: Instant,
}

impl Head {
    fn new(served: &Served, kind: Kind, start: Instant) -> Self {
        Self { model: served.name().to_owned(), kind, start }
    }

    fn piece(&self, text: &str) -> Value {
        let mut piece = json!({ "model": self.model, "created_at": now(), "done": false });
        match self.kind {
            Kind::Text => piece["response"] = text.into(),
            Kind::Chat => piece["message"] = json!({ "role": "assistant", "content": text }),
        }
        piece
    }

    /// The last piece.
    fn last(&self, text: &str, why: &str, counts: Counts) -> Value {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let all = self.start.elapsed();
        let reading = counts.first.map_or(all, |first| first - self.start);
        let mut piece = self.piece(text);
        let more = json!({
            "done": true, "done_reason": why,
            "total_duration": nanoseconds(all), "load_duration": 0,
            "prompt_eval_count": counts.read, "prompt_eval_duration": nanoseconds(reading),
            "eval_count": counts.written, "eval_duration": nanoseconds(all.saturating_sub(reading)),
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            piece[key] = value.clone();
        }
        piece
    }
}

/// How many tokens there were, and when the first came.
#[derive(Clone, Copy)]
struct Counts {
    read: usize,
    written: usize,
    first: Option<Instant>,
}

async fn answer(app: &App, mut work: Work, head: Head, streamed: bool) -> Result<Response, Fault> {
    if streamed {
        let write = move |pieces| stream(work, head, pieces);
        return Ok(streams::answer(Framing::Lines, app.limits().write_time, write));
    }
    let mut counts = Counts { read: work.read_tokens(), written: 0, first: None };
    let mut last = Value::Null;
    while let Some(news) = work.next().await? {
        counts.first.get_or_insert_with(Instant::now);
        if let News::Done { written, .. } = news
            && let Some(text) = written.first()
        {
            counts.written = text.ids.len();
            last = head.last(&text.text, reason(text.finish), counts);
        }
    }
    Ok(axum::Json(last).into_response())
}

async fn stream(mut work: Work, head: Head, pieces: Pieces) {
    match pour(&mut work, &head, &pieces).await {
        Ok(()) | Err(Broken::Gone) => {}
        Err(Broken::Fault(fault)) => drop(pieces.send(&fault.plain()).await),
    }
}

async fn pour(work: &mut Work, head: &Head, pieces: &Pieces) -> Result<(), Broken> {
    let mut counts = Counts { read: work.read_tokens(), written: 0, first: None };
    while let Some(news) = pieces.during(work.next()).await?? {
        counts.first.get_or_insert_with(Instant::now);
        match news {
            News::Token { piece, .. } => {
                if !piece.is_empty() {
                    pieces.send(&head.piece(&piece)).await?;
                }
            }
            News::Done { rest, written, .. } => {
                let (Some(rest), Some(text)) = (rest.first(), written.first()) else { continue };
                if !rest.is_empty() {
                    pieces.send(&head.piece(rest)).await?;
                }
                counts.written = text.ids.len();
                pieces.send(&head.last("", reason(text.finish), counts)).await?;
            }
        }
    }
    Ok(())
}

/// Texts to be embedded.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct EmbedInput {
    /// Which model.
    pub model: String,
    /// A text, or several.
    pub input: Texts,
    /// Whether texts that are too long are cut; they are if not given.
    pub truncate: Option<bool>,
}

/// Embed texts
#[utoipa::path(post, path = "/api/embed", tag = "Ollama", request_body = EmbedInput,
    responses((status = 200, description = "Vectors of length 1")))]
pub async fn embed(
    State(app): State<App>,
    Json(request): Json<EmbedInput>,
) -> Result<axum::Json<Value>, Fault> {
    let start = Instant::now();
    let name = named(&app, &request.model)?.name().to_owned();
    let texts = request.input.all(&app)?;
    let long = if request.truncate == Some(false) { Long::Refuse } else { Long::Cut };
    let work = move |encoder: &TextEncoder| {
        let vectors = encoder.embed(&texts, &Embed { prompt: Prompt::Usual, long })?;
        Ok((vectors, count_tokens(encoder, &texts)?))
    };
    let (model, (mut vectors, tokens)) = read(&app, Some(&name), Ability::Embed, work).await?;
    for vector in &mut vectors {
        crate::tei::normalize(vector);
    }
    let time = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(axum::Json(json!({
        "model": model, "embeddings": vectors, "total_duration": time, "load_duration": 0, "prompt_eval_count": tokens,
    })))
}

/// A model, as Ollama lists it.
#[derive(Serialize, ToSchema)]
pub struct Listed {
    name: String,
    model: String,
    modified_at: String,
    size: u64,
    digest: String,
    #[schema(value_type = Object)]
    details: Value,
}

/// Models, as Ollama lists them.
#[derive(Serialize, ToSchema)]
pub struct ModelTags {
    models: Vec<Listed>,
}

fn details(served: &Served) -> Value {
    let family = served.kind();
    json!({
        "parent_model": "", "format": "glassformer", "family": family, "families": [family],
        "parameter_size": readable(served.parameters()), "quantization_level": "",
    })
}

/// How many parameters, as people write it.
fn readable(count: usize) -> String {
    match count as f64 {
        count if count >= 1e9 => format!("{:.1}B", count / 1e9),
        count => format!("{:.1}M", count / 1e6),
    }
}

/// The models that are served
#[utoipa::path(get, path = "/api/tags", tag = "Ollama", responses((status = 200, body = ModelTags)))]
pub async fn tags(State(app): State<App>) -> axum::Json<ModelTags> {
    let listed = |served: &std::sync::Arc<Served>| Listed {
        name: served.name().to_owned(),
        model: served.name().to_owned(),
        modified_at: written(app.began()),
        size: 0,
        digest: String::new(),
        details: details(served),
    };
    axum::Json(ModelTags { models: app.models().all().iter().map(listed).collect() })
}

/// Which model is asked about.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ShowModel {
    /// Its name.
    pub model: Option<String>,
    /// The same, by its older name.
    pub name: Option<String>,
}

/// Say what a model is
#[utoipa::path(post, path = "/api/show", tag = "Ollama", request_body = ShowModel,
    responses((status = 200, description = "What it is and can")))]
pub async fn show(
    State(app): State<App>,
    Json(request): Json<ShowModel>,
) -> Result<axum::Json<Value>, Fault> {
    let name = request.model.or(request.name);
    let served = named(&app, &name.ok_or_else(|| Fault::bad("model", "say which model"))?)?;
    let has = |ability| served.abilities().contains(&ability);
    let mut capabilities = Vec::new();
    if has(Ability::Complete) || has(Ability::Rewrite) {
        capabilities.push("completion");
    }
    if has(Ability::Embed) {
        capabilities.push("embedding");
    }
    let kind = served.kind();
    Ok(axum::Json(json!({
        "modelfile": "", "parameters": "", "template": "", "license": "",
        "details": details(&served), "modified_at": written(app.began()), "capabilities": capabilities,
        "model_info": {
            "general.architecture": kind, "general.parameter_count": served.parameters(),
            (format!("{kind}.context_length")): served.longest(), "glassformer.formula": served.formula(),
        },
    })))
}

/// The version of this server
#[utoipa::path(get, path = "/api/version", tag = "Ollama", responses((status = 200, description = "`{\"version\"}`")))]
pub async fn version() -> axum::Json<Value> {
    axum::Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}

fn now() -> String {
    written(crate::openai::now())
}
