//! The server as its clients meet it: tiny models of every family behind it, asked over its routes and over real connections.

mod bad;
mod edge;
mod fuzz;
mod glass;
mod ollama;
mod openai;
mod own;
mod panics;
mod tei;

// Tests that stand in these files run here, so that the library is compiled once.
#[path = "../../src/calendar.rs"]
mod calendar;
#[allow(dead_code)]
#[path = "../../src/fault.rs"]
mod fault;
#[path = "../../src/openai/ids.rs"]
mod ids;
#[path = "../../src/openai/tools.rs"]
mod tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request, StatusCode};
use glassformer::tasks::{QueueLimits, Reserve};
use glassformer::{Backend, Cpu, TextEncoder, TextGenerator};
use glassformer_serve::{Keys, Limits, Served, Server};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tasks").join(name)
}

fn expected(name: &str) -> Value {
    let text = std::fs::read_to_string(folder(name).join("expected.json")).expect("it is there");
    serde_json::from_str(&text).expect("it is JSON")
}

fn backend() -> Arc<dyn Backend> {
    Arc::new(Cpu::new(2))
}

fn generator(name: &str) -> TextGenerator {
    TextGenerator::open(folder(name), backend()).expect("it opens")
}

/// A model that writes, with room for a few texts.
fn writing(name: &str) -> Served {
    let generator = generator(name);
    let queue = QueueLimits { orders: 64, tokens: 10_000 };
    generator
        .reserve(&Reserve { sequences: 4, longest: 256, memory: 64 << 20, queue })
        .expect("there is memory");
    let path = folder(name);
    Served::writing(name, generator, move || TextEncoder::open(&path, backend()))
}

fn reading(name: &str) -> Served {
    Served::reading(name, TextEncoder::open(folder(name), backend()).expect("it opens"))
}

/// A model of each kind; those that write first.
fn models() -> Vec<Served> {
    let writing = ["story", "talk", "languages"].map(writing);
    let reading = ["sentences", "classes", "classes-rank", "tags", "spans", "fill"].map(reading);
    writing.into_iter().chain(reading).collect()
}

fn server() -> Router {
    Server::new(models(), Limits::default(), Keys::default()).router()
}

/// An answer.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    /// Demands success.
    #[track_caller]
    fn ok(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        self.json()
    }

    /// Demands this refusal, in `OpenAI`'s form.
    #[track_caller]
    fn refused(&self, status: u16, param: Option<&str>) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        let error = &self.json()["error"];
        assert_eq!(error["param"].as_str(), param, "{}", self.body);
        error["message"].as_str().expect("a message").to_owned()
    }

    /// The data of server-sent events, but for the last, which is `[DONE]`.
    #[track_caller]
    fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        assert!(self.body.ends_with("data: [DONE]\n\n"), "{}", self.body);
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let data = data.filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).expect("each is JSON")).collect()
    }
}

async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.expect("it answers");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("it ends").to_bytes();
    let body = String::from_utf8(bytes.to_vec()).expect("it is text");
    Answer { status: parts.status, headers: parts.headers, body }
}

async fn get(router: &Router, path: &str) -> Answer {
    ask(router, Request::get(path).body(Body::empty()).expect("a request")).await
}

async fn post(router: &Router, path: &str, body: Value) -> Answer {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json");
    ask(router, request.body(Body::from(body.to_string())).expect("a request")).await
}

#[track_caller]
fn close(found: &Value, expected: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    let (found, expected) = (number(found), number(expected));
    assert!((found - expected).abs() < 1e-4, "{found} where {expected} was expected");
}
