//! `/v1/chat/completions`: answers in conversations.

use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use glassformer::TextGenerator;
use glassformer::tasks::{GeneratedText, News};
use glassformer::tokens::Conversation;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::logprobs::{Logprobs, Told};
use super::options::{Options, Usage, reason};
use crate::body::Json;
use crate::fault::Fault;
use crate::keys::Who;
use crate::models::Served;
use crate::streams::{Broken, Framing, Pieces};
use crate::work::Work;
use crate::{App, streams};

/// A conversation to be answered.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ChatRequest {
    /// Which model; the first that can chat if none is named.
    pub model: Option<String>,
    /// What was said.
    pub messages: Vec<Message>,
    /// Functions that the model may call; how they are shown to it, its template says.
    pub tools: Option<Vec<Value>>,
    /// `none` shows the model no tools; `auto` leaves the choice to it.
    pub tool_choice: Option<Value>,
    /// Whether each token's log-probability is told.
    pub logprobs: Option<bool>,
    /// How many of the likeliest tokens are told at each place.
    #[schema(minimum = 0, maximum = 20)]
    pub top_logprobs: Option<i64>,
    /// Further names that the template reads, such as `enable_thinking`.
    #[schema(value_type = Option<Object>)]
    pub chat_template_kwargs: Option<Map<String, Value>>,
    /// How text is written.
    #[serde(flatten)]
    pub options: Options,
}

/// What somebody said.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct Message {
    /// Who: `system`, `user`, `assistant` or `tool`, as the model's template knows them.
    pub role: String,
    /// What: a text, or parts of one.
    pub content: Option<Content>,
    /// Calls of functions, of an assistant.
    pub tool_calls: Option<Vec<Value>>,
    /// Which call this answers, of a tool.
    pub tool_call_id: Option<String>,
    /// Who exactly.
    pub name: Option<String>,
}

/// A text, or parts of one.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Parts, one after the other.
    Parts(Vec<ContentPart>),
}

/// A part of a text.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ContentPart {
    /// `text`: nothing else is read.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text.
    pub text: Option<String>,
}

/// Answers to a conversation.
#[derive(Serialize, ToSchema)]
pub struct ChatCompletion {
    id: String,
    /// `chat.completion`.
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<ChatChoice>,
    usage: Usage,
}

/// An answer.
#[derive(Serialize, ToSchema)]
struct ChatChoice {
    index: usize,
    message: Answer,
    /// `stop`, `length` or `tool_calls`.
    finish_reason: &'static str,
    logprobs: Option<Logprobs>,
}

/// What the model said.
#[derive(Serialize, ToSchema)]
struct Answer {
    /// `assistant`.
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
}

impl Content {
    fn into_text(self, place: usize) -> Result<String, Fault> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Parts(parts) => {
                let text = |(at, part): (usize, ContentPart)| {
                    if let ("text" | "input_text" | "output_text", Some(text)) =
                        (part.kind.as_str(), part.text)
                    {
                        return Ok(text);
                    }
                    let kind: String = part.kind.chars().take(40).collect();
                    let param = format!("messages[{place}].content[{at}]");
                    Err(Fault::bad(param, format!("a part is {kind:?}, and only text is read")))
                };
                parts.into_iter().enumerate().map(text).collect()
            }
        }
    }
}

impl ChatRequest {
    /// The conversation as templates read it.
    fn conversation(&mut self, app: &App) -> Result<Conversation, Fault> {
        let shown = match self.tool_choice.as_ref().map(|choice| choice.as_str()) {
            None | Some(Some("auto")) => true,
            Some(Some("none")) => false,
            Some(_) => {
                let message = "only auto and none can be chosen: the model itself decides what it calls";
                return Err(Fault::bad("tool_choice", message));
            }
        };
        let tools = self.tools.take().filter(|_| shown);
        let variables = self.chat_template_kwargs.take().unwrap_or_default();
        Self::conversation_of(std::mem::take(&mut self.messages), tools, variables, app)
    }

    /// Messages as templates read them.
    pub fn conversation_of(
        messages: Vec<Message>,
        tools: Option<Vec<Value>>,
        variables: Map<String, Value>,
        app: &App,
    ) -> Result<Conversation, Fault> {
        if messages.is_empty() {
            return Err(Fault::bad("messages", "there are no messages; say something"));
        }
        if messages.len() > app.limits().messages {
            let message = format!("there are more than {} messages", app.limits().messages);
            return Err(Fault::bad("messages", message));
        }
        let messages = messages.into_iter().enumerate().map(|(place, message)| message.value(place));
        let messages = messages.collect::<Result<_, Fault>>()?;
        let tools = tools.filter(|tools| !tools.is_empty());
        Ok(Conversation { messages, tools, variables, ..Conversation::default() })
    }
}

impl Message {
    /// As templates read it; it is message number `place`.
    fn value(self, place: usize) -> Result<Value, Fault> {
        let Self { role, content, tool_calls, tool_call_id, name } = self;
        let content = content.map(|content| content.into_text(place)).transpose()?;
        if content.is_none() && tool_calls.is_none() {
            let param = format!("messages[{place}].content");
            return Err(Fault::bad(param, "a message without content or tool_calls says nothing"));
        }
        let mut value = json!({ "role": role, "content": content.unwrap_or_default() });
        let calls = tool_calls.map(|calls| calls.into_iter().map(parsed).collect());
        let more = [
            ("tool_calls", calls.map(Value::Array)),
            ("tool_call_id", tool_call_id.map(Value::from)),
            ("name", name.map(Value::from)),
        ];
        for (key, more) in more {
            if let Some(more) = more {
                value[key] = more;
            }
        }
        Ok(value)
    }
}

/// A call whose arguments are an object, as templates read them: clients send them as text.
fn parsed(mut call: Value) -> Value {
    let arguments = call.pointer_mut("/function/arguments");
    if let Some(arguments) = arguments
        && let Some(object) = arguments.as_str().and_then(|text| serde_json::from_str(text).ok())
    {
        *arguments = object;
    }
    call
}

/// Answer a conversation
#[utoipa::path(post, path = "/v1/chat/completions", tag = "OpenAI", request_body = ChatRequest,
    responses((status = 200, body = ChatCompletion, description = "Answers; with `stream`, pieces of them as server-sent events")))]
pub async fn complete(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Json(mut request): Json<ChatRequest>,
) -> Result<Response, Fault> {
    let start = Instant::now();
    let chats = |served: &Served| served.generator().is_some_and(|generator| generator.template().is_some());
    let served = app.models().of(request.model.as_deref(), chats)?.clone();
    let generator = served.writer()?;
    let mut options = request.options.generate(generator, &app)?;
    options.decoding.logprobs = asked_logprobs(request.logprobs, request.top_logprobs, &app)?;
    let conversation = request.conversation(&app)?;
    let tools = conversation.tools.is_some();
    let own = generator.clone();
    let prompt = app.compute(move || prompt(&own, &conversation)).await?;
    let id = format!("chatcmpl-{}", super::fresh_id());
    let work = Work::begin(&app, &served, vec![prompt], options, (who, start)).await?;
    let head = Head { id, created: super::now(), model: served.name().to_owned(), tools };
    if request.options.streams() {
        let usage = request.options.tells_usage();
        let patience = app.limits().write_time;
        let write = move |pieces| stream(work, head, usage, pieces);
        return Ok(streams::answer(Framing::Events, patience, write));
    }
    Ok(axum::Json(whole(work, head).await?).into_response())
}

/// The tokens of a conversation, up to where the model answers.
pub fn prompt(generator: &TextGenerator, conversation: &Conversation) -> Result<Vec<u32>, Fault> {
    if generator.reads_source() {
        return Err(Fault::bad(
            "model",
            "this model rewrites texts and holds no conversation: /v1/translate and /v1/completions ask it",
        ));
    }
    let template = generator.template().ok_or_else(|| {
        Fault::bad("model", "this model has no chat template: /v1/completions continues a text")
    })?;
    let text = template.render(conversation).map_err(glassformer::tasks::Error::from);
    let text = text.map_err(|error| Fault::bad("messages", error.to_string()))?;
    let ids = generator.tokenizer().encode(&text, glassformer::tokens::Special::Leave);
    Ok(ids.map_err(glassformer::tasks::Error::from)?.ids)
}

/// How many of the likeliest tokens are told at each place, where any are.
fn asked_logprobs(wanted: Option<bool>, top: Option<i64>, app: &App) -> Result<Option<usize>, Fault> {
    let top = super::options::within("top_logprobs", top, 0, app.limits().logprobs as i64)?;
    match (wanted.unwrap_or(false), top) {
        (true, top) => Ok(Some(top.unwrap_or(0) as usize)),
        (false, Some(1..)) => Err(Fault::bad("top_logprobs", "top_logprobs needs logprobs: true")),
        (false, _) => Ok(None),
    }
}

/// What all pieces of an answer say.
struct Head {
    id: String,
    created: u64,
    model: String,
    tools: bool,
}

async fn whole(mut work: Work, head: Head) -> Result<ChatCompletion, Fault> {
    let mut written = Vec::new();
    while let Some(news) = work.next().await? {
        if let News::Done { written: answers, .. } = news {
            written = answers;
        }
    }
    let usage = Usage::new(work.read_tokens(), written.iter().map(|text| text.ids.len()).sum());
    let choice = |(index, text): (usize, GeneratedText)| {
        let logprobs = work.asks_logprobs().then(|| Logprobs::of(&text, work.generator().tokenizer()));
        let (content, calls) =
            if head.tools { super::tools::split(&text.text) } else { (text.text, Vec::new()) };
        let finish_reason = if calls.is_empty() { reason(text.finish) } else { "tool_calls" };
        let content = (calls.is_empty() || !content.is_empty()).then_some(content);
        let message = Answer { role: "assistant", content, refusal: None, tool_calls: calls };
        ChatChoice { index, message, finish_reason, logprobs }
    };
    let choices = written.into_iter().enumerate().map(choice).collect();
    let Head { id, created, model, .. } = head;
    Ok(ChatCompletion { id, object: "chat.completion", created, model, choices, usage })
}

async fn stream(mut work: Work, head: Head, tells_usage: bool, pieces: Pieces) {
    pieces.end(pour(&mut work, &head, tells_usage, &pieces).await).await;
}

async fn pour(work: &mut Work, head: &Head, tells_usage: bool, pieces: &Pieces) -> Result<(), Broken> {
    let piece = |index: usize, delta: Value, finish: Option<&str>, logprobs: Option<Logprobs>| {
        json!({
            "id": head.id, "object": "chat.completion.chunk", "created": head.created, "model": head.model,
            "choices": [{ "index": index, "delta": delta, "finish_reason": finish, "logprobs": logprobs }],
        })
    };
    for index in 0..work.returns() {
        pieces.send(&piece(index, json!({ "role": "assistant", "content": "" }), None, None)).await?;
    }
    let mut told: Vec<Told> = (0..work.returns()).map(|_| Told::default()).collect();
    // A text that may call functions is told at its end: only then is it known what is a call.
    let mut held = vec![String::new(); work.returns()];
    let mut count = 0;
    while let Some(news) = pieces.during(work.next()).await?? {
        match news {
            News::Token { sequence, piece: text, token, .. } => {
                count += 1;
                let tokenizer = work.generator().tokenizer();
                let own = &mut told[sequence];
                own.add(&token, tokenizer);
                if head.tools {
                    held[sequence] += &text;
                } else if !text.is_empty() {
                    pieces.send(&piece(sequence, json!({ "content": text }), None, own.take())).await?;
                }
            }
            News::Done { rest, written, .. } => {
                if count == 0 {
                    count = written.iter().map(|text| text.ids.len()).sum();
                }
                for (index, (rest, text)) in rest.into_iter().zip(&written).enumerate() {
                    let rest = std::mem::take(&mut held[index]) + &rest;
                    let last = told[index].take();
                    let calls = end(index, rest, last, head.tools, pieces, &piece).await?;
                    let why = if calls == 0 { reason(text.finish) } else { "tool_calls" };
                    pieces.send(&piece(index, json!({}), Some(why), None)).await?;
                }
            }
        }
    }
    if tells_usage {
        let usage = Usage::new(work.read_tokens(), count);
        pieces.send(&json!({
            "id": head.id, "object": "chat.completion.chunk", "created": head.created, "model": head.model,
            "choices": [], "usage": usage,
        })).await?;
    }
    Ok(())
}

/// Sends what is left of an answer; says how many calls of functions there were.
async fn end(
    index: usize,
    rest: String,
    logprobs: Option<Logprobs>,
    tools: bool,
    pieces: &Pieces,
    piece: &impl Fn(usize, Value, Option<&str>, Option<Logprobs>) -> Value,
) -> Result<usize, Broken> {
    let (content, calls) = if tools { super::tools::split(&rest) } else { (rest, Vec::new()) };
    if !content.is_empty() || logprobs.is_some() {
        pieces.send(&piece(index, json!({ "content": content }), None, logprobs)).await?;
    }
    for (place, mut call) in calls.iter().cloned().enumerate() {
        call["index"] = place.into();
        pieces.send(&piece(index, json!({ "tool_calls": [call] }), None, None)).await?;
    }
    Ok(calls.len())
}
