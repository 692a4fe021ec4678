//! What the server says of itself: what is served, and a description of its interface that is made from the types it reads and writes.

use std::fmt::Write;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::ResponseBuilder;

use crate::{App, glass, ollama, openai, own, routes, tei};

/// The whole interface.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Glassformer",
        description = "Models of every family: encoders, decoders and encoder-decoders.\n\nErrors are `{\"error\": {\"message\", \"type\", \"param\", \"code\"}}`: 400 for what makes no sense, 401 without a key, 404 for a model that is not served, 408, 413 and 415 for bodies, 422 for texts that are too long, 429 with `Retry-After` where too much waits, 503 when the server is ending.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    paths(
        openai::models::list,
        openai::models::one,
        openai::chat::complete,
        openai::completions::complete,
        openai::embeddings::embed,
        own::writing::translate,
        own::writing::summarize,
        own::reading::classify,
        own::reading::tag,
        own::reading::answer,
        own::reading::fill,
        own::reading::score,
        openai::responses::respond,
        glass::models,
        glass::document,
        glass::run,
        glass::tensor,
        glass::why,
        own::libre::translate,
        own::libre::languages,
        own::libre::detect,
        tei::embed,
        tei::embed_all,
        tei::predict,
        tei::rerank,
        tei::similarity,
        tei::tokenize,
        tei::decode,
        tei::info,
        ollama::generate,
        ollama::chat,
        ollama::embed,
        ollama::tags,
        ollama::show,
        ollama::version,
        routes::live,
        routes::ready,
        routes::measured,
    )
)]
struct Interface;

/// The whole interface; every request can be refused.
fn interface() -> utoipa::openapi::OpenApi {
    let mut interface = Interface::openapi();
    let refused = ResponseBuilder::new().description("What is wrong, as one JSON object").build();
    for item in interface.paths.paths.values_mut() {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            operation.responses.responses.insert("default".to_owned(), refused.clone().into());
        }
    }
    interface
}

/// The description as `OpenAPI`
pub async fn description() -> Json<utoipa::openapi::OpenApi> {
    Json(interface())
}

/// A page that says what is served, and describes the interface, from the same description.
pub async fn page(State(app): State<App>, headers: HeaderMap) -> Response {
    let mut models = String::new();
    for served in app.models().all() {
        let abilities: Vec<&str> = served.abilities().into_iter().map(crate::Ability::word).collect();
        let _ = writeln!(
            models,
            "<tr><td><code>{}</code></td><td>{}</td></tr>",
            escaped(served.name()),
            abilities.join(", ")
        );
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:8080");
    let description = serde_json::to_value(interface()).unwrap_or_default();
    let mut body = format!(
        "<h1>What can be asked</h1>\n<p><a href=\"/\">See what the models compute</a>, <a href=\"/openapi.json\">the same for \
         programs</a>, <a href=\"/metrics\">what is counted</a>.</p>\n<table>\n<tr><th>model</th><th>can</th></tr>\n{models}</table>\n\
         <pre>curl http://{}/v1/models</pre>\n",
        escaped(host)
    );
    for tag in TAGS {
        let _ = writeln!(body, "<h2>{}</h2>", escaped(tag));
        for (path, item) in description["paths"].as_object().into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten() {
                if operation["tags"][0] == tag {
                    request(&mut body, &format!("{} {path}", method.to_uppercase()), operation, &description);
                }
            }
        }
    }
    page_of("Glassformer: what can be asked", &body)
}

/// The interfaces, in the order in which they are described.
const TAGS: [&str; 6] =
    ["Glassformer", "OpenAI", "text-embeddings-inference", "Ollama", "LibreTranslate", "Server"];

/// A request, with what is asked and answered.
fn request(body: &mut String, name: &str, operation: &Value, description: &Value) {
    let summary = operation["summary"].as_str().unwrap_or_default();
    let _ = writeln!(body, "<h3><code>{}</code></h3>\n<p>{}</p>", escaped(name), escaped(summary));
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    table(body, "asked", schema, description);
    let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    table(body, "answered", schema, description);
}

/// The fields of an object, with what they mean.
fn table(body: &mut String, what: &str, schema: &Value, description: &Value) {
    let mut rows = String::new();
    fields(&mut rows, schema, description);
    if !rows.is_empty() {
        let _ =
            writeln!(body, "<table>\n<tr><th>{what}</th><th>type</th><th>meaning</th></tr>\n{rows}</table>");
    }
}

fn fields(rows: &mut String, schema: &Value, description: &Value) {
    let schema = resolved(schema, description);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fields(rows, part, description);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let several = field["oneOf"].as_array().and_then(|kinds| kinds.last());
        let own = resolved(several.unwrap_or(field), description)["description"].as_str();
        let meaning = field["description"].as_str().or(own).unwrap_or_default();
        let kind = kind(field, description, 3);
        let _ = writeln!(
            rows,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
            escaped(name),
            escaped(&kind),
            escaped(meaning)
        );
    }
}

fn resolved<'d>(schema: &'d Value, description: &'d Value) -> &'d Value {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    name.map_or(schema, |name| &description["components"]["schemas"][name])
}

/// A type in words.
fn kind(schema: &Value, description: &Value, depth: usize) -> String {
    let schema = resolved(schema, description);
    if depth == 0 {
        return "…".to_owned();
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" or ");
    }
    for several in ["oneOf", "anyOf"] {
        if let Some(kinds) = schema[several].as_array() {
            let kinds: Vec<String> = kinds.iter().map(|one| kind(one, description, depth - 1)).collect();
            return kinds.into_iter().filter(|kind| kind != "null").collect::<Vec<_>>().join(" or ");
        }
    }
    let name = match &schema["type"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        name => name.as_str(),
    };
    match name {
        Some("array") => format!("list of {}", kind(&schema["items"], description, depth - 1)),
        Some("object") => {
            let names: Vec<&str> = schema["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str())
                .collect();
            if names.is_empty() { "object".to_owned() } else { format!("{{{}}}", names.join(", ")) }
        }
        Some(name) => name.to_owned(),
        None => "anything".to_owned(),
    }
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}\
code,pre{font:0.9em ui-monospace,monospace}table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}\
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #ddd}td{overflow-wrap:anywhere}h2{margin:3rem 0 0}h3{margin:2rem 0 .25rem;font-size:1.05rem}\
pre{background:#f4f4f4;padding:.75rem;overflow-x:auto}@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}a{color:#8ab4f8}\
th,td{border-color:#333}pre{background:#222}}";

fn page_of(title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body>\n</html>\n"
    );
    // No script, nothing from elsewhere.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    ([(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, policy)], html).into_response()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
