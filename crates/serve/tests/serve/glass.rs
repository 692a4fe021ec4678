//! The page, and what it asks for.

use axum::http::header::AUTHORIZATION;
use glassformer::explain::record::{About, Level};
use glassformer::explain::{Detail, Follow};
use glassformer_serve::{Glass, Shown};
use serde_json::json;

use super::*;

fn shown(name: &'static str) -> Served {
    let open = move || {
        let open = folder(name);
        Ok(match name {
            "fill" => Shown::Reads(Box::new(TextEncoder::open(open, backend())?)),
            _ => Shown::Writes(Box::new(TextGenerator::open(open, backend())?)),
        })
    };
    Served::showing(name, Glass::new(backend(), "f32", open))
}

fn glass(keys: Keys) -> Router {
    Server::new(vec![shown("story"), shown("fill")], Limits::default(), keys).router()
}

async fn bytes(router: &Router, path: &str) -> Vec<u8> {
    let request = Request::get(path).body(Body::empty()).expect("a request");
    let response = router.clone().oneshot(request).await.expect("it answers");
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    response.into_body().collect().await.expect("it ends").to_bytes().to_vec()
}

#[tokio::test]
async fn the_page_may_run_itself_alone() {
    let page = get(&glass(Keys::default()), "/").await;
    assert_eq!(page.status, StatusCode::OK);
    let policy = page.headers["content-security-policy"].to_str().expect("it is text");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(policy.ends_with("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(page.body.contains("<!-- data -->"), "nothing is inside");
}

#[tokio::test]
async fn a_run_has_the_numbers_of_explain() {
    let router = glass(Keys::default());
    let names: Vec<Value> = get(&router, "/glass/models").await.ok().as_array().expect("a list").clone();
    assert_eq!(
        names.iter().map(|model| model["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["story", "fill"]
    );
    let asked = json!({ "text": "Once upon a time", "max_new_tokens": 3 });
    let run = post(&router, "/glass/explain", asked).await.ok();
    let id = run["trace"].as_str().expect("a name");
    assert_eq!((run["schema"].as_u64(), run["decode"]["steps"].as_array().map(Vec::len)), (Some(1), Some(3)));

    let generator = generator("story");
    let follow =
        Follow { text: "Once upon a time", second: None, max_new_tokens: 3, detail: Detail::Summary };
    let (options, about) = (follow.usual(&generator), About::default());
    let recording =
        follow.record_written(&generator, &options, &*backend(), (&about, Level::Steps)).expect("it runs");
    assert!(recording.numbers.len() > 10);
    for (name, tensor) in &recording.numbers {
        let wanted: Vec<u8> = tensor.data().iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(bytes(&router, &format!("/glass/t/{id}/{name}")).await, wanted, "{name}");
    }
    // A weight is no part of the trace, and is there all the same.
    let weight = run["tensors"].as_array().and_then(|all| all.iter().find(|one| one["weight"] == true));
    let weight = weight.expect("there are weights");
    let size: u64 = weight["shape"].as_array().expect("a shape").iter().filter_map(Value::as_u64).product();
    let name = weight["name"].as_str().expect("a name");
    assert_eq!(bytes(&router, &format!("/glass/t/{id}/{name}")).await.len() as u64, 4 * size);
    get(&router, &format!("/glass/t/{id}/nothing")).await.refused(404, None);
    get(&router, "/glass/t/none/logits").await.refused(404, None);
    assert_eq!(get(&router, "/glass/document").await.ok()["score"]["total"], 145);
}

#[tokio::test]
async fn models_that_read_are_shown_too() {
    let router = glass(Keys::default());
    let run =
        post(&router, "/glass/explain", json!({ "model": "fill", "text": "the [MASK] sat" })).await.ok();
    assert_eq!(run["answer"]["kind"], "blanks");
}

#[tokio::test]
async fn an_edit_that_does_nothing_changes_no_bit() {
    let router = glass(Keys::default());
    let asked = json!({ "text": "Once upon", "max_new_tokens": 2, "edits": [] });
    assert_eq!(post(&router, "/glass/why", asked).await.ok()["effect"]["same_bits"], true);
    let edit = json!({ "do": "ablate_head", "layer": 0, "head": 0 });
    let asked = json!({ "text": "Once upon", "max_new_tokens": 2, "edits": [edit], "attribute": true });
    let why = post(&router, "/glass/why", asked).await.ok();
    assert_eq!(why["effect"]["same_bits"], false);
    close(&why["attribution"]["sum"], &why["attribution"]["score"]);
}

#[tokio::test]
async fn a_run_is_seen_by_its_owner_alone() {
    let router = glass(Keys::new(["mine", "other"]));
    let with = |key: &str, request: axum::http::request::Builder| {
        request.header(AUTHORIZATION, format!("Bearer {key}"))
    };
    let body = json!({ "text": "Once", "max_new_tokens": 1 }).to_string();
    let request = with("mine", Request::post("/glass/explain")).header(CONTENT_TYPE, "application/json");
    let run = ask(&router, request.body(Body::from(body)).unwrap()).await.ok();
    let path = format!("/glass/t/{}/target.0.attend.query", run["trace"].as_str().unwrap());
    let asked = |key| with(key, Request::get(&path)).body(Body::empty()).unwrap();
    let status = async |key| router.clone().oneshot(asked(key)).await.expect("it answers").status().as_u16();
    assert_eq!((status("mine").await, status("other").await, status("wrong").await), (200, 404, 401));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let router = glass(Keys::default());
    let refused = async |path: &str, body: Value| post(&router, path, body).await;
    refused("/glass/explain", json!({ "text": "  " })).await.refused(400, Some("text"));
    refused("/glass/explain", json!({ "text": "a", "max_new_tokens": 0 }))
        .await
        .refused(400, Some("max_new_tokens"));
    refused("/glass/explain", json!({ "text": "a", "beams": 99 })).await.refused(400, Some("beams"));
    refused("/glass/explain", json!({ "text": "a", "model": "gpt" })).await.refused(404, Some("model"));
    refused("/glass/explain", json!({ "text": "a ".repeat(5000) })).await.refused(422, None);
    refused("/glass/explain", json!({ "text": "a", "second": "b" })).await.refused(400, None);
    let edit = json!({ "do": "ablate_head", "layer": 99, "head": 0 });
    refused("/glass/why", json!({ "text": "a", "edits": [edit] })).await.refused(400, None);
    refused("/glass/why", json!({ "text": "a", "gradients": "none" })).await.refused(400, Some("gradients"));
    // A server whose models are not shown has the page, and says so.
    let plain = server();
    assert_eq!(get(&plain, "/glass/models").await.ok(), json!([]));
    post(&plain, "/glass/explain", json!({ "text": "a" })).await.refused(400, None);
}
