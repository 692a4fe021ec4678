//! What is wrong with a request, or went wrong with it: one JSON object that names the parameter, in the form that the interface's
//! clients expect.

use std::fmt;

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use glassformer::tasks;
use serde_json::{Value, json};

/// An error as an answer.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The answer's status.
    pub status: StatusCode,
    /// What kind of error it is, in `OpenAI`'s words.
    pub kind: &'static str,
    /// A word for programs.
    pub code: &'static str,
    /// The parameter that is wrong.
    pub param: Option<String>,
    /// What is wrong, and what to do.
    pub message: String,
    /// How many seconds to wait before trying again.
    pub retry_after: Option<u64>,
}

const INVALID: &str = "invalid_request_error";
const SERVER: &str = "server_error";

/// The most characters of a message.
const LONGEST: usize = 500;

/// The code of scores that are not numbers.
pub const NUMERICAL: &str = "numerical_error";

impl Fault {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        // What was sent is not sent back in full.
        if let Some((end, _)) = message.char_indices().nth(LONGEST) {
            message.truncate(end);
            message.push('…');
        }
        Self { status, kind, code, param: None, message, retry_after: None }
    }

    /// A parameter makes no sense.
    pub fn bad(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::body("invalid_value", message) }
    }

    /// The body makes no sense.
    pub fn body(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, code, message)
    }

    /// A request that is refused with this status.
    pub fn refused(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self::new(status, INVALID, code, message)
    }

    /// There is no such model.
    pub fn no_model(name: &str, served: &[&str]) -> Self {
        let shown: String = name.chars().take(100).collect();
        let message = format!("there is no model {shown:?}; there are {}", served.join(", "));
        let fault = Self::new(StatusCode::NOT_FOUND, INVALID, "model_not_found", message);
        Self { param: Some("model".to_owned()), ..fault }
    }

    /// Whoever asks gave no key, or a wrong one.
    pub fn no_key() -> Self {
        let message = "a key is needed: send it as `Authorization: Bearer KEY`";
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", "invalid_api_key", message)
    }

    /// So many requests wait already.
    pub fn busy(waiting: usize) -> Self {
        let message = format!("{waiting} requests wait already; try again in a moment");
        let fault = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", "queue_full", message);
        Self { retry_after: Some(1), ..fault }
    }

    /// The server is ending, or has no time left for the request.
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, code, message)
    }

    /// Something broke here.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, SERVER, "internal_error", message)
    }

    /// As `OpenAI`'s clients read it.
    pub fn openai(&self) -> Value {
        let Self { kind, code, param, message, .. } = self;
        json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
    }

    /// As clients of text-embeddings-inference read it.
    pub fn tei(&self) -> Value {
        let kind = match self.status.as_u16() {
            422 => "tokenizer",
            429 => "overloaded",
            503 => "unhealthy",
            400..500 => "validation",
            _ => "backend",
        };
        json!({ "error": self.named(), "error_type": kind })
    }

    /// As clients of Ollama read it.
    pub fn plain(&self) -> Value {
        json!({ "error": self.named() })
    }

    /// The message, with the parameter before it where it does not begin with that.
    fn named(&self) -> String {
        match &self.param {
            Some(param) if !self.message.starts_with(param.as_str()) => format!("{param}: {}", self.message),
            Some(_) | None => self.message.clone(),
        }
    }

    /// The answer, with `body` in the interface's own form.
    pub fn answer(self, body: &Value) -> Response {
        let mut response = (self.status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let body = self.openai();
        self.answer(&body)
    }
}

/// Writes errors as text-embeddings-inference does.
pub fn as_tei(response: Response) -> Response {
    rewritten(response, Fault::tei)
}

/// Writes errors as Ollama does.
pub fn as_plain(response: Response) -> Response {
    rewritten(response, Fault::plain)
}

fn rewritten(mut response: Response, form: impl Fn(&Fault) -> Value) -> Response {
    match response.extensions_mut().remove::<Fault>() {
        Some(fault) => {
            let body = form(&fault);
            fault.answer(&body)
        }
        None => response,
    }
}

/// What a task says is wrong, to who asked over HTTP.
impl From<tasks::Error> for Fault {
    fn from(error: tasks::Error) -> Self {
        use glassformer::engine;
        let with = |what: &str, hint: &str| format!("{what}; {hint}");
        match error {
            tasks::Error::Long { text, tokens, limit } => {
                let message = format!(
                    "text {} has {tokens} tokens, and the model reads {limit} at most; shorten it, or set truncate",
                    text + 1
                );
                Self::refused(StatusCode::UNPROCESSABLE_ENTITY, "context_length_exceeded", message)
            }
            tasks::Error::Text { what, .. } if what == engine::NOT_NUMBERS => {
                tracing::error!(what, "a request could not be answered");
                Self { code: NUMERICAL, ..Self::internal(format!("{what}; its weights may be damaged")) }
            }
            tasks::Error::Text { text, what, hint } => {
                Self::body("invalid_input", with(&format!("text {}: {what}", text + 1), &hint))
            }
            tasks::Error::Option { option, what, hint } => {
                let param = match option {
                    "json object" | "schema" | "regex" | "grammar" => "response_format",
                    option => option,
                };
                Self::bad(param, with(&format!("{option} {what}"), &hint))
            }
            tasks::Error::Head { .. } => Self::body("unsupported_task", error.to_string()),
            tasks::Error::Busy { waiting } => Self::busy(waiting),
            tasks::Error::Late => Self::unavailable("timeout", "the request took longer than a request may"),
            tasks::Error::Tokens(error) => Self::body("invalid_input", error.to_string()),
            tasks::Error::Engine(engine::Error::Request { what, hint, .. }) => {
                Self::body("invalid_value", with(&what, &hint))
            }
            other => {
                tracing::error!(error = %other, "a request could not be answered");
                Self::internal("the model could not answer; the server's log says why")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_that_are_not_numbers_are_no_fault_of_the_request() {
        let what = glassformer::engine::NOT_NUMBERS.to_owned();
        let fault = Fault::from(tasks::Error::Text { text: 0, what, hint: String::new() });
        assert_eq!((fault.status.as_u16(), fault.code), (500, "numerical_error"));
        let what = "there is nothing in it".to_owned();
        let fault = Fault::from(tasks::Error::Text { text: 1, what, hint: "give a text".to_owned() });
        assert_eq!(
            (fault.status.as_u16(), fault.message.as_str()),
            (400, "text 2: there is nothing in it; give a text")
        );
    }
}
