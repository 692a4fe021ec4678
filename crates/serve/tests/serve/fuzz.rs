//! Requests changed at random: each is answered or refused with one error in its interface's form, and nothing breaks.
//!
//! For longer: `GLASSFORMER_FUZZ_SECONDS=300 cargo test --release --workspace --test serve fuzz`.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use glassformer_tensor::Random;
use serde_json::{Value, json};

use super::{Answer, ask, get, post, server};

#[path = "../../../weights/tests/common/mutate.rs"]
mod mutate;

/// For each good request; a fixed number, so that the test does the same everywhere.
const ROUNDS: usize = 24;

/// A good request of each kind.
fn good() -> Vec<(&'static str, Value)> {
    let talk = json!([{ "role": "system", "content": "a" }, { "role": "user", "content": [{ "type": "text", "text": "The cat" }] }]);
    let tool = json!({ "type": "function", "function": { "name": "look", "description": "a", "parameters": { "type": "object" } } });
    let schema = json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": { "type": "object", "properties": { "b": { "type": "integer" } } } } });
    vec![
        (
            "/v1/completions",
            json!({ "model": "story", "prompt": ["The cat", "A"], "max_tokens": 2, "n": 2, "temperature": 0.5, "top_p": 0.9,
                    "seed": 1, "stop": ["a"], "logprobs": 2, "echo": true, "logit_bias": { "5": -1 }, "presence_penalty": 0.1 }),
        ),
        (
            "/v1/completions",
            json!({ "model": "story", "prompt": [5, 6], "max_tokens": 2, "beams": 2, "stream": true }),
        ),
        (
            "/v1/completions",
            json!({ "model": "story", "prompt": "a", "max_tokens": 4, "response_format": schema }),
        ),
        (
            "/v1/chat/completions",
            json!({ "model": "talk", "messages": talk, "max_tokens": 2, "logprobs": true, "top_logprobs": 2, "tools": [tool],
                    "stream": true, "stream_options": { "include_usage": true } }),
        ),
        ("/v1/responses", json!({ "model": "talk", "input": talk, "max_output_tokens": 2 })),
        ("/v1/embeddings", json!({ "model": "sentences", "input": ["a", "b"], "encoding_format": "base64" })),
        (
            "/v1/translate",
            json!({ "model": "languages", "input": ["a", "b"], "from": "en", "to": "zh", "beams": 2 }),
        ),
        ("/v1/summarize", json!({ "model": "story", "input": "a", "max_tokens": 2 })),
        ("/v1/classify", json!({ "model": "classes", "input": ["a", ["b", "c"]], "top": 2 })),
        ("/v1/tag", json!({ "model": "tags", "input": "Ann lives in Paris" })),
        (
            "/v1/answer",
            json!({ "model": "spans", "question": "Where?", "context": "It sat here.", "top": 2 }),
        ),
        ("/v1/fill", json!({ "model": "fill", "input": "The [MASK]", "top": 3 })),
        ("/v1/score", json!({ "model": "story", "input": ["The cat"] })),
        ("/translate", json!({ "q": ["a"], "source": "en", "target": "zh" })),
        ("/detect", json!({ "q": "a" })),
        ("/embed", json!({ "inputs": ["a", "b"], "truncate": true, "normalize": false })),
        ("/embed_all", json!({ "inputs": "a" })),
        ("/predict", json!({ "inputs": [["a", "b"]], "raw_scores": true })),
        ("/rerank", json!({ "query": "a", "texts": ["b", "c"], "return_text": true })),
        ("/similarity", json!({ "inputs": { "source_sentence": "a", "sentences": ["b", "c"] } })),
        ("/tokenize", json!({ "inputs": ["a"], "add_special_tokens": false })),
        ("/decode", json!({ "ids": [[1, 2]], "skip_special_tokens": true })),
        (
            "/api/generate",
            json!({ "model": "story", "prompt": "a", "stream": false, "options": { "num_predict": 2, "top_k": 4, "seed": 1 } }),
        ),
        (
            "/api/chat",
            json!({ "model": "talk", "messages": [{ "role": "user", "content": "a" }], "options": { "num_predict": 2 } }),
        ),
        ("/api/embed", json!({ "model": "sentences", "input": ["a"] })),
        ("/api/show", json!({ "model": "talk" })),
    ]
}

/// Demands an answer, or one error in words.
#[track_caller]
fn judge(path: &str, sent: &str, answer: &Answer) -> bool {
    let status = answer.status.as_u16();
    let sent: String = sent.chars().take(400).collect();
    assert!(status < 500, "{path} answers {status} to {sent}: {}", answer.body);
    if status == 200 {
        return true;
    }
    let error = &answer.json()["error"];
    let words = error.as_str().or_else(|| error["message"].as_str());
    assert!(words.is_some_and(|words| !words.is_empty()), "{path}, {sent}: {}", answer.body);
    // What was sent is not sent back in full.
    assert!(answer.body.len() < 2000, "{path}, {sent}: {}", answer.body);
    false
}

async fn sends(router: &Router, path: &str, sent: Vec<u8>) -> bool {
    let shown = String::from_utf8_lossy(&sent).into_owned();
    let request = Request::post(path).header(CONTENT_TYPE, "application/json").body(Body::from(sent));
    judge(path, &shown, &ask(router, request.expect("a request")).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_requests_are_answered_or_refused() {
    let router = server();
    let seeds = good();
    for pass in mutate::passes() {
        for (number, (path, good)) in seeds.iter().enumerate() {
            let mut random = Random::new(pass * seeds.len() as u64 + number as u64);
            let mut answered = 0;
            for round in 0..ROUNDS {
                let changed = mutate::mutate_json(good, &mut random).to_string().into_bytes();
                // Now and then the bytes too.
                let sent = if round % 6 == 5 { mutate::mutate(&changed, &mut random) } else { changed };
                answered += usize::from(sends(&router, path, sent).await);
            }
            assert!(answered < ROUNDS, "{path} refuses nothing");
        }
    }
    // It goes on as if nothing had been.
    let story = json!({ "model": "story", "prompt": "The cat", "max_tokens": 2 });
    post(&router, "/v1/completions", story).await.ok();
    assert_eq!(get(&router, "/health/ready").await.status.as_u16(), 200);
    let metrics = get(&router, "/metrics").await.body;
    let broken = metrics.lines().filter(|line| line.contains("panics") && !line.starts_with('#'));
    for line in broken {
        assert!(line.ends_with(" 0") || line.ends_with(" 0.0"), "{line}");
    }
}
