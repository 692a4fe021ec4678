//! Which path is answered by what, and what every request passes through before.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::HOST;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::FutureExt;
use serde_json::json;

use crate::fault::Fault;
use crate::{App, docs, fault, glass, keys, metrics, ollama, openai, own, tei};

/// All routes.
pub fn router(app: &App) -> Router {
    let open = Router::new()
        .route("/", get(glass::front))
        .route("/health", get(ready))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready));
    let asked = Router::new()
        .route("/docs", get(docs::page))
        .route("/glass/models", get(glass::models))
        .route("/glass/document", get(glass::document))
        .route("/glass/t/{run}/{*tensor}", get(glass::tensor))
        .route("/openapi.json", get(docs::description))
        .route("/metrics", get(measured))
        .route("/info", get(tei::info))
        .route("/languages", get(own::libre::languages))
        .route("/api/tags", get(ollama::tags))
        .route("/api/version", get(ollama::version))
        .route("/v1/models", get(openai::models::list))
        .route("/v1/models/{*model}", get(openai::models::one));
    let working = Router::new()
        .route("/v1/chat/completions", post(openai::chat::complete))
        .route("/v1/completions", post(openai::completions::complete))
        .route("/v1/embeddings", post(openai::embeddings::embed))
        .route("/v1/translate", post(own::writing::translate))
        .route("/v1/summarize", post(own::writing::summarize))
        .route("/v1/classify", post(own::reading::classify))
        .route("/v1/tag", post(own::reading::tag))
        .route("/v1/answer", post(own::reading::answer))
        .route("/v1/fill", post(own::reading::fill))
        .route("/v1/score", post(own::reading::score))
        .route("/v1/responses", post(openai::responses::respond))
        .route("/glass/explain", post(glass::run))
        .route("/glass/why", post(glass::why))
        .route("/translate", post(own::libre::translate))
        .route("/detect", post(own::libre::detect))
        .merge(tei())
        .merge(ollama())
        .layer(from_fn_with_state(app.clone(), welcome));
    let keyed = asked.merge(working).layer(from_fn_with_state(app.clone(), keys::check));
    open.merge(keyed)
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(app.clone(), of_this_host))
        .layer(from_fn_with_state(app.clone(), metrics::count))
        .layer(from_fn_with_state((), log))
        .with_state(app.clone())
}

/// What text-embeddings-inference answers.
fn tei() -> Router<App> {
    Router::new()
        .route("/embed", post(tei::embed))
        .route("/embed_all", post(tei::embed_all))
        .route("/predict", post(tei::predict))
        .route("/rerank", post(tei::rerank))
        .route("/similarity", post(tei::similarity))
        .route("/tokenize", post(tei::tokenize))
        .route("/decode", post(tei::decode))
        .layer(map_response(|response| std::future::ready(fault::as_tei(response))))
}

/// What Ollama answers.
fn ollama() -> Router<App> {
    Router::new()
        .route("/api/generate", post(ollama::generate))
        .route("/api/chat", post(ollama::chat))
        .route("/api/embed", post(ollama::embed))
        .route("/api/show", post(ollama::show))
        .layer(map_response(|response| std::future::ready(fault::as_plain(response))))
}

/// Whether the process is alive
#[utoipa::path(get, path = "/health/live", tag = "Server", responses((status = 200, description = "It is")))]
pub async fn live() -> Json<serde_json::Value> {
    Json(json!({ "status": "ok" }))
}

/// Whether new requests are welcome
#[utoipa::path(get, path = "/health/ready", tag = "Server", responses(
    (status = 200, description = "They are"), (status = 503, description = "The server is ending")))]
pub async fn ready(State(app): State<App>) -> Response {
    if app.is_ready() {
        return Json(json!({ "status": "ok" })).into_response();
    }
    ending().into_response()
}

fn ending() -> Fault {
    let fault = Fault::unavailable("shutting_down", "the server is ending and takes nothing new");
    Fault { retry_after: Some(1), ..fault }
}

/// What the server counts, in Prometheus' text form
#[utoipa::path(get, path = "/metrics", tag = "Server", responses((status = 200, body = String, content_type = "text/plain")))]
pub async fn measured(State(app): State<App>) -> Response {
    let text = app.metrics().text(app.models().all().iter().map(|served| &**served));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(axum::http::header::CONTENT_TYPE, kind)], text).into_response()
}

async fn nowhere(request: Request) -> Fault {
    let path: String = request.uri().path().chars().take(100).collect();
    Fault::refused(
        StatusCode::NOT_FOUND,
        "not_found",
        format!("there is nothing at {path}; /docs says what there is"),
    )
}

async fn not_so(request: Request) -> Fault {
    let (method, path) = (request.method(), request.uri().path());
    let message = format!("{method} is not answered at {path}; /docs says what is");
    Fault::refused(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

/// Refuses new work when the server is ending.
async fn welcome(State(app): State<App>, request: Request, next: Next) -> Response {
    if app.is_ready() { next.run(request).await } else { ending().into_response() }
}

/// Answers only who asks for this host by its name, where names are known: a page of another site that makes its own name mean this
/// machine is not answered.
async fn of_this_host(State(app): State<App>, request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    if !app.hosts().is_empty() && !app.hosts().iter().any(|known| known.eq_ignore_ascii_case(name)) {
        let message = "this server does not answer to that host";
        return Fault::refused(StatusCode::FORBIDDEN, "wrong_host", message).into_response();
    }
    next.run(request).await
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives every request an id, says in the log how it ended, and answers where something broke. What was asked is never logged.
async fn log(State(()): State<()>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let given = request.headers().get(&REQUEST_ID).filter(|id| is_id(id)).cloned();
    let fresh = || HeaderValue::from_str(&format!("req-{}", openai::fresh_id())).ok();
    let id = given.or_else(fresh).unwrap_or(HeaderValue::from_static("req"));
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let mut response = match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => Fault::internal("the request broke something; the server's log says what").into_response(),
    };
    let shown = id.to_str().unwrap_or_default();
    let (status, time) = (response.status().as_u16(), start.elapsed().as_secs_f64());
    let fault = response.extensions().get::<Fault>();
    let code = fault.map_or("", |fault| fault.code);
    let param = fault.and_then(|fault| fault.param.as_deref()).unwrap_or_default();
    tracing::info!(id = shown, %method, route, status, time, code, param, "answered");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Whether an id can be passed on: short, and of harmless characters.
fn is_id(id: &HeaderValue) -> bool {
    let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    !id.is_empty() && id.len() <= 64 && id.as_bytes().iter().all(harmless)
}
