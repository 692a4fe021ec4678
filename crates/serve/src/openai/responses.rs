//! `/v1/responses`: answers, in `OpenAI`'s newer interface. Nothing is kept between two of them.

use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use glassformer::tasks::{Form, News};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::chat::{ChatRequest, Content, Message, prompt};
use super::options::Options;
use crate::body::Json;
use crate::fault::Fault;
use crate::keys::Who;
use crate::models::Served;
use crate::streams::{Broken, Framing, Pieces};
use crate::work::Work;
use crate::{App, streams};

/// What is to be answered.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ResponseRequest {
    /// Which model; the first that can chat if none is named.
    pub model: Option<String>,
    /// A text, or what was said.
    pub input: Said,
    /// What the model is to be.
    pub instructions: Option<String>,
    /// At most so many new tokens.
    #[schema(minimum = 1)]
    pub max_output_tokens: Option<i64>,
    /// The form of the answer.
    pub text: Option<TextForm>,
    /// An earlier answer: none is kept, so send what was said.
    pub previous_response_id: Option<String>,
    /// How text is written.
    #[serde(flatten)]
    pub options: Options,
}

/// How an answer's text is written.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TextForm {
    /// Its form.
    pub format: Option<TextFormat>,
}

/// The form of an answer.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TextFormat {
    /// `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The schema.
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Value>,
}

impl TextFormat {
    fn form(self) -> Result<Option<Form>, Fault> {
        match (self.kind.as_str(), self.schema) {
            ("text", _) => Ok(None),
            ("json_object", _) => Ok(Some(Form::Json)),
            ("json_schema", Some(schema)) => Ok(Some(Form::JsonSchema(schema))),
            _ => {
                Err(Fault::bad("text.format", "a format is text, json_object, or json_schema with a schema"))
            }
        }
    }
}

/// A text, or what was said.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Said {
    /// A text.
    Text(String),
    /// Messages.
    Messages(Vec<SaidMessage>),
}

/// What somebody said.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SaidMessage {
    /// Who.
    pub role: String,
    /// What.
    pub content: Content,
}

/// Answer a text or a conversation
#[utoipa::path(post, path = "/v1/responses", tag = "OpenAI", request_body = ResponseRequest,
    responses((status = 200, description = "An answer; with `stream`, events of it")))]
pub async fn respond(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Json(request): Json<ResponseRequest>,
) -> Result<Response, Fault> {
    let start = Instant::now();
    if request.previous_response_id.is_some() {
        let message = "no answer is kept: send the whole conversation as input";
        return Err(Fault::bad("previous_response_id", message));
    }
    let chats = |served: &Served| served.generator().is_some_and(|generator| generator.template().is_some());
    let served = app.models().of(request.model.as_deref(), chats)?.clone();
    let generator = served.writer()?;
    let most = request.max_output_tokens.or(request.options.max_tokens);
    let told = Options { max_tokens: most, n: None, ..request.options };
    let mut options = told.generate(generator, &app)?;
    let format = request.text.and_then(|text| text.format);
    options.form = format.map_or(Ok(options.form), TextFormat::form)?;
    let system = request.instructions.map(|text| message("system", Content::Text(text)));
    let said = match request.input {
        Said::Text(text) => vec![message("user", Content::Text(text))],
        Said::Messages(said) => said.into_iter().map(|one| message(role(&one.role), one.content)).collect(),
    };
    let messages = system.into_iter().chain(said).collect();
    let conversation = ChatRequest::conversation_of(messages, None, Map::new(), &app)?;
    let own = generator.clone();
    let prompt = app.compute(move || prompt(&own, &conversation)).await?;
    let work = Work::begin(&app, &served, vec![prompt], options, (who, start)).await?;
    let head = Head {
        id: format!("resp_{}", super::fresh_id()),
        item: format!("msg_{}", super::fresh_id()),
        created: super::now(),
        model: served.name().to_owned(),
    };
    if told.streams() {
        let write = move |pieces| stream(work, head, pieces);
        return Ok(streams::answer(Framing::Events, app.limits().write_time, write));
    }
    Ok(axum::Json(whole(work, &head).await?).into_response())
}

/// A role as templates know it.
fn role(role: &str) -> &str {
    if role == "developer" { "system" } else { role }
}

fn message(role: &str, content: Content) -> Message {
    Message {
        role: role.to_owned(),
        content: Some(content),
        tool_calls: None,
        tool_call_id: None,
        name: None,
    }
}

/// What all events say.
struct Head {
    id: String,
    item: String,
    created: u64,
    model: String,
}

/// An answer so far.
#[derive(Default)]
struct SoFar {
    text: String,
    written: usize,
    is_cut: bool,
}

impl Head {
    fn part(text: &str) -> Value {
        json!({ "type": "output_text", "text": text, "annotations": [] })
    }

    fn item(&self, status: &str, parts: &[Value]) -> Value {
        json!({ "type": "message", "id": self.item, "status": status, "role": "assistant", "content": parts })
    }

    fn response(&self, status: &str, output: &[Value], usage: &Value) -> Value {
        let cut = status == "incomplete";
        json!({
            "id": self.id, "object": "response", "created_at": self.created, "model": self.model, "status": status,
            "output": output, "usage": usage, "error": null, "instructions": null, "metadata": {},
            "incomplete_details": cut.then(|| json!({ "reason": "max_output_tokens" })),
            "parallel_tool_calls": false, "temperature": null, "top_p": null, "tool_choice": "none", "tools": [],
        })
    }

    /// The whole answer.
    fn done(&self, so_far: &SoFar, read: usize) -> Value {
        let status = if so_far.is_cut { "incomplete" } else { "completed" };
        let usage = json!({
            "input_tokens": read, "output_tokens": so_far.written, "total_tokens": read + so_far.written,
            "input_tokens_details": { "cached_tokens": 0 }, "output_tokens_details": { "reasoning_tokens": 0 },
        });
        self.response(status, &[self.item(status, &[Self::part(&so_far.text)])], &usage)
    }
}

impl SoFar {
    /// Takes what happened, and gives the text that is new.
    fn take(&mut self, news: News) -> String {
        match news {
            News::Token { piece, .. } => {
                self.text += &piece;
                piece
            }
            News::Done { rest, written, .. } => {
                let rest = rest.into_iter().next().unwrap_or_default();
                self.text += &rest;
                if let Some(text) = written.first() {
                    self.written = text.ids.len();
                    self.is_cut = text.finish == glassformer::Finish::Length;
                }
                rest
            }
        }
    }
}

async fn whole(mut work: Work, head: &Head) -> Result<Value, Fault> {
    let mut so_far = SoFar::default();
    while let Some(news) = work.next().await? {
        so_far.take(news);
    }
    Ok(head.done(&so_far, work.read_tokens()))
}

async fn stream(mut work: Work, head: Head, pieces: Pieces) {
    let mut events = Events { pieces: &pieces, count: 0 };
    match pour(&mut work, &head, &mut events).await {
        Ok(()) | Err(Broken::Gone) => {}
        Err(Broken::Fault(fault)) => {
            let Fault { code, message, param, .. } = fault;
            let error = json!({ "code": code, "message": message, "param": param });
            drop(events.send("error", error).await);
        }
    }
}

/// Events, which are numbered.
struct Events<'p> {
    pieces: &'p Pieces,
    count: u64,
}

impl Events<'_> {
    async fn send(&mut self, kind: &str, mut event: Value) -> Result<(), Broken> {
        event["type"] = kind.into();
        event["sequence_number"] = self.count.into();
        self.count += 1;
        Ok(self.pieces.named(Some(kind), &event).await?)
    }
}

async fn pour(work: &mut Work, head: &Head, events: &mut Events<'_>) -> Result<(), Broken> {
    for kind in ["response.created", "response.in_progress"] {
        let response = head.response("in_progress", &[], &Value::Null);
        events.send(kind, json!({ "response": response })).await?;
    }
    let item = head.item("in_progress", &[]);
    events.send("response.output_item.added", json!({ "output_index": 0, "item": item })).await?;
    let at = |more: Value| {
        let mut event = json!({ "item_id": head.item, "output_index": 0, "content_index": 0 });
        for (key, value) in more.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        event
    };
    events.send("response.content_part.added", at(json!({ "part": Head::part("") }))).await?;
    let mut so_far = SoFar::default();
    while let Some(news) = events.pieces.during(work.next()).await?? {
        let piece = so_far.take(news);
        if !piece.is_empty() {
            let delta = at(json!({ "delta": piece, "logprobs": [] }));
            events.send("response.output_text.delta", delta).await?;
        }
    }
    let text = at(json!({ "text": so_far.text, "logprobs": [] }));
    events.send("response.output_text.done", text).await?;
    let part = at(json!({ "part": Head::part(&so_far.text) }));
    events.send("response.content_part.done", part).await?;
    let done = head.done(&so_far, work.read_tokens());
    let item = json!({ "output_index": 0, "item": done["output"][0] });
    events.send("response.output_item.done", item).await?;
    let last = if so_far.is_cut { "response.incomplete" } else { "response.completed" };
    events.send(last, json!({ "response": done })).await
}
