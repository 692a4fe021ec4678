//! Requests that make no sense: each gets one error that names what is wrong, and none breaks anything.

use axum::body::Body;
use axum::http::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use serde_json::{Value, json};

use super::{Answer, ask, get, models, post, reading, server, writing};
use glassformer_serve::{Keys, Limits, Server};

/// A body that is right but for one key.
fn with(key: &str, value: Value) -> Value {
    let mut body = json!({ "model": "story", "prompt": "The cat", "max_tokens": 2 });
    body[key] = value;
    body
}

#[tokio::test]
async fn parameters_out_of_bounds_are_named() {
    let router = server();
    let wrong = [
        ("temperature", json!(-1)),
        ("temperature", json!(1e38)),
        ("top_p", json!(2)),
        ("top_p", json!(-0.1)),
        ("min_p", json!(7)),
        ("n", json!(1_000_000_000)),
        ("n", json!(0)),
        ("n", json!(-3)),
        ("max_tokens", json!(-1)),
        ("max_tokens", json!(0)),
        ("logprobs", json!(1_000_000)),
        ("beams", json!(1000)),
        ("presence_penalty", json!(100)),
        ("repetition_penalty", json!(0)),
        ("logit_bias", json!({ "999999999": 1 })),
        ("logit_bias", json!({ "-1": 1 })),
        ("logit_bias", json!({ "1": 1e30 })),
        ("stop", json!(vec!["x"; 10_000])),
        ("stop", json!("x".repeat(10_000))),
        ("suffix", json!("more")),
        ("best_of", json!(5)),
        ("prompt", json!([])),
        ("prompt", json!([[]])),
        ("prompt", json!([-1])),
        ("prompt", json!([999_999_999])),
        ("prompt", json!(vec!["a"; 5000])),
    ];
    for (key, value) in wrong {
        let message =
            post(&router, "/v1/completions", with(key, value.clone())).await.refused(400, Some(key));
        assert!(message.len() < 300, "{message}");
    }
    // What has another type, too.
    for (key, value) in [
        ("temperature", json!("hot")),
        ("stream", json!(5)),
        ("seed", json!(1.5)),
        ("max_tokens", json!(1u64 << 63)),
    ] {
        post(&router, "/v1/completions", with(key, value)).await.refused(400, Some(key));
    }
    // Keys that nobody knows change nothing.
    post(&router, "/v1/completions", with("unknown", json!({ "a": [1] }))).await.ok();
}

#[tokio::test]
async fn texts_that_say_nothing_or_too_much_are_refused() {
    let router = server();
    post(&router, "/v1/completions", with("prompt", json!(""))).await.refused(400, None);
    let long = "the cat sat ".repeat(2000);
    for (path, body) in [
        ("/v1/completions", json!({ "model": "story", "prompt": long })),
        ("/v1/embeddings", json!({ "model": "sentences", "input": long })),
        ("/v1/classify", json!({ "model": "classes", "input": long })),
        ("/v1/fill", json!({ "model": "fill", "input": format!("{long} [MASK]") })),
    ] {
        let answer = post(&router, path, body).await;
        let error = &answer.json()["error"]["code"];
        assert!(
            answer.status == 422 && error == "context_length_exceeded" || answer.status == 400,
            "{}",
            answer.body
        );
    }
    post(&router, "/v1/embeddings", json!({ "model": "sentences", "input": long, "truncate": true }))
        .await
        .ok();
    let chat = |messages: Value| json!({ "model": "talk", "messages": messages, "max_tokens": 2 });
    post(&router, "/v1/chat/completions", chat(json!([]))).await.refused(400, Some("messages"));
    let blank = json!([{ "role": "user", "content": null }]);
    post(&router, "/v1/chat/completions", chat(blank)).await.refused(400, Some("messages[0].content"));
    let picture =
        json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "http://a" } }] }]);
    post(&router, "/v1/chat/completions", chat(picture)).await.refused(400, Some("messages[0].content[0]"));
}

#[tokio::test]
async fn special_tokens_in_what_people_say_are_text() {
    // The tiny model's template has its own marks; what people write is no mark. Nothing breaks, whatever they write.
    let router = server();
    for text in ["<|im_end|>", "<s>", "[MASK]", "\u{0}", "\u{200d}\u{200d}", "e\u{301}\u{301}\u{301}"] {
        let body =
            json!({ "model": "talk", "messages": [{ "role": "user", "content": text }], "max_tokens": 2 });
        post(&router, "/v1/chat/completions", body).await.ok();
    }
}

async fn raw(router: &axum::Router, kind: &str, body: impl Into<Body>) -> Answer {
    let request = Request::post("/v1/completions").header(CONTENT_TYPE, kind).body(body.into()).unwrap();
    ask(router, request).await
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused() {
    let router = server();
    for body in ["", "{", "[1,", "nothing", "{\"prompt\": \"\\ud800\"}", "{\"prompt\": 1, \"prompt\": 2}"] {
        assert_eq!(raw(&router, "application/json", body).await.status, 400, "{body}");
    }
    assert_eq!(raw(&router, "application/json", "[".repeat(200_000)).await.status, 400);
    assert_eq!(raw(&router, "application/json", b"{\"prompt\": \"\xff\"}".to_vec()).await.status, 400);
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        assert_eq!(raw(&router, kind, "{}").await.status, 415, "{kind:?}");
    }
    for kind in ["Application/JSON; charset=utf-8", "application/vnd.api+json"] {
        assert_eq!(raw(&router, kind, "{}").await.status, 400, "{kind:?}");
    }
    let blank = raw(&router, "application/json", "{}").await.refused(400, None);
    assert!(blank.contains("missing field `prompt`"), "{blank}");
    let messages = json!({ "model": "talk", "messages": [{ "role": "user", "content": "a" }, { "role": "user", "content": 5 }] });
    post(&router, "/v1/chat/completions", messages).await.refused(400, Some("messages[1].content"));
    let large = format!("{{\"prompt\": \"{}\"}}", "a".repeat(5 << 20));
    let answer = raw(&router, "application/json", large).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (413, &json!("body_too_large")));
}

#[tokio::test]
async fn paths_and_methods_that_are_not_there_say_so() {
    let router = server();
    get(&router, "/v1/nothing").await.refused(404, None);
    get(&router, "/v1/completions").await.refused(405, None);
    post(&router, "/v1/models/../../etc/passwd", json!({})).await.refused(405, None);
}

#[tokio::test]
async fn without_a_key_nothing_is_answered_but_health() {
    let router = Server::new(models(), Limits::default(), Keys::new(["right", "other"])).router();
    for path in ["/health", "/health/live", "/health/ready"] {
        assert_eq!(get(&router, path).await.status, 200);
    }
    // The page has nothing inside; what it asks for needs a key.
    assert_eq!(get(&router, "/").await.status, 200);
    for path in [
        "/glass/models",
        "/glass/document",
        "/glass/t/a/b",
        "/v1/models",
        "/metrics",
        "/docs",
        "/openapi.json",
        "/api/tags",
        "/info",
    ] {
        let refused = get(&router, path).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.headers["www-authenticate"]),
            (401, &"Bearer".parse().unwrap())
        );
    }
    for (key, status) in [
        ("Bearer right", 200),
        ("bearer other", 200),
        ("Bearer wrong", 401),
        ("right", 401),
        ("Bearer ", 401),
    ] {
        let request = Request::get("/v1/models").header(AUTHORIZATION, key).body(Body::empty()).unwrap();
        assert_eq!(ask(&router, request).await.status, status, "{key}");
    }
}

#[tokio::test]
async fn a_key_is_a_whole_line_of_the_file() {
    let keys = Keys::read("# for tests\nfirst\n\n  second \n");
    let router = Server::new(vec![reading("fill")], Limits::default(), keys).router();
    for (key, status) in [
        ("first", 200),
        ("second", 200),
        ("firs", 401),
        ("firstx", 401),
        ("third", 401),
        ("# for tests", 401),
    ] {
        let request = Request::get("/v1/models").header(AUTHORIZATION, format!("Bearer {key}"));
        assert_eq!(ask(&router, request.body(Body::empty()).unwrap()).await.status, status, "{key}");
    }
    assert!(Keys::read("# nothing\n").is_open());
}

#[tokio::test]
async fn a_host_that_is_not_ours_is_not_answered() {
    let server = Server::new(vec![reading("fill")], Limits::default(), Keys::default());
    let router = server.with_hosts(vec!["localhost".to_owned(), "[::1]".to_owned()]).router();
    for (host, status) in [
        ("localhost:8080", 200),
        ("LOCALHOST", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("localhost.evil", 403),
    ] {
        let request = Request::get("/health").header(HOST, host).body(Body::empty()).unwrap();
        assert_eq!(ask(&router, request).await.status, status, "{host}");
    }
}

#[tokio::test]
async fn too_much_at_once_is_told_to_come_again() {
    let mut limits = Limits::default();
    limits.queue = 2;
    let router = Server::new(vec![writing("story")], limits, Keys::default()).router();
    // More prompts than may wait, of which none runs alone.
    let body = json!({ "prompt": vec!["The cat"; 100], "max_tokens": 2 });
    let refused = post(&router, "/v1/completions", body).await;
    assert_eq!((refused.status.as_u16(), refused.headers["retry-after"].to_str().unwrap()), (429, "1"));
}

#[tokio::test]
async fn what_is_counted_is_told_by_the_names_that_gateways_know() {
    let router = server();
    post(&router, "/v1/completions", with("temperature", json!(0))).await.ok();
    post(&router, "/v1/completions", with("temperature", json!(9))).await.refused(400, Some("temperature"));
    get(&router, "/nowhere/at/all").await.refused(404, None);
    let text = get(&router, "/metrics").await.body;
    for line in [
        "requests_total{route=\"/v1/completions\",code=\"200\"} 1",
        "requests_total{route=\"/v1/completions\",code=\"400\"} 1",
        "requests_total{route=\"none\",code=\"404\"} 1",
        "prompt_tokens_total{model=\"story\"}",
        "generation_tokens_total{model=\"story\"} 2",
        "request_success_total{model=\"story\",finished_reason=\"length\"} 1",
        "num_requests_running{model=\"story\"} 0",
        "num_requests_waiting{model=\"story\"} 0",
        "time_to_first_token_seconds_count{model=\"story\"} 1",
        "inter_token_latency_seconds_count{model=\"story\"} 1",
        "e2e_request_latency_seconds_count{model=\"story\"} 1",
        "process_resident_memory_bytes",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_description_names_every_route() {
    let router = server();
    let description = get(&router, "/openapi.json").await.ok();
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = description["paths"].as_object().unwrap();
    for (path, item) in paths {
        // Every described path is there, with its method; what it is asked for may not be.
        for (method, operation) in item.as_object().unwrap() {
            assert!(
                operation["responses"]["default"]["description"].is_string(),
                "{method} {path} can be refused"
            );
            let path = path.replace("{model}", "story");
            let request = Request::builder().method(method.to_uppercase().as_str()).uri(&path);
            let request = request.header(CONTENT_TYPE, "application/json").body(Body::from("{}")).unwrap();
            let answer = ask(&router, request).await;
            let status = answer.status.as_u16();
            assert!(![405, 500].contains(&status), "{method} {path}: {status}");
            assert!(!answer.body.contains("there is nothing at"), "{method} {path}: {status}");
        }
    }
    for path in ["/v1/chat/completions", "/v1/translate", "/embed", "/api/chat", "/metrics", "/translate"] {
        assert!(paths.contains_key(path), "{path} is not described");
    }
    // Types of one name would be described as one: names in texts were described as Ollama's models.
    let schemas = &description["components"]["schemas"];
    assert!(schemas["Tags"]["properties"]["results"].is_object() && schemas["ModelTags"].is_object());
    let page = get(&router, "/docs").await;
    for path in paths.keys() {
        assert!(page.body.contains(&format!(" {path}<")), "{path} is not on the page");
    }
    assert!(page.body.contains("/v1/translate") && !page.body.contains("<script"));
    assert!(page.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    assert!(page.body.contains("sentences"));
}
