//! Ollama's interface.

use serde_json::{Value, json};

use super::{expected, get, post, server};

#[tokio::test]
async fn conversations_are_answered_line_by_line() {
    let router = server();
    let one = &expected("talk")[0];
    let options = json!({ "temperature": 0, "num_predict": one["ids"].as_array().unwrap().len() });
    let body = json!({ "model": "talk:latest", "messages": [{ "role": "user", "content": one["text"] }], "options": options });
    let answer = post(&router, "/api/chat", body).await;
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    let lines: Vec<Value> = answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let piece = |line: &Value| line["message"]["content"].as_str().unwrap().to_owned();
    assert_eq!(lines.iter().map(piece).collect::<String>(), one["answer"].as_str().unwrap());
    let last = lines.last().unwrap();
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("length")));
    assert_eq!(last["eval_count"], one["ids"].as_array().unwrap().len());
    let body = json!({ "model": "talk", "prompt": one["text"], "stream": false, "options": options });
    assert_eq!(post(&router, "/api/generate", body).await.ok()["response"], one["answer"]);
}

#[tokio::test]
async fn models_are_listed_and_shown() {
    let router = server();
    assert_eq!(get(&router, "/api/tags").await.ok()["models"][0]["name"], "story");
    let shown = post(&router, "/api/show", json!({ "model": "sentences" })).await.ok();
    assert_eq!(shown["capabilities"], json!(["embedding"]));
    assert!(shown["model_info"]["glassformer.formula"].as_str().unwrap().contains('○'));
    assert!(get(&router, "/api/version").await.ok()["version"].is_string());
    let vectors =
        post(&router, "/api/embed", json!({ "model": "sentences", "input": ["a", "b"] })).await.ok();
    assert_eq!(vectors["embeddings"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn nothing_can_be_fetched_or_changed() {
    let router = server();
    for path in ["/api/pull", "/api/create", "/api/push", "/api/copy", "/api/delete"] {
        assert_eq!(post(&router, path, json!({ "model": "a" })).await.status.as_u16(), 404);
    }
    let wrong = post(&router, "/api/chat", json!({ "model": "none", "messages": [] })).await;
    assert!(wrong.status.as_u16() == 404 && wrong.json()["error"].as_str().unwrap().contains("none"));
}
