//! The interface of text-embeddings-inference.

use serde_json::{Value, json};

use super::{close, expected, get, post, reading, server};
use glassformer_serve::{Keys, Limits, Server};

#[tokio::test]
async fn vectors_are_those_of_the_other_interface() {
    let router = server();
    let own = post(&router, "/v1/embeddings", json!({ "model": "sentences", "input": "The cat" })).await.ok();
    let vectors = post(&router, "/embed", json!({ "inputs": "The cat" })).await.ok();
    let (own, theirs) = (own["data"][0]["embedding"].as_array().unwrap(), vectors[0].as_array().unwrap());
    for (own, theirs) in own.iter().zip(theirs) {
        close(theirs, own);
    }
    let rows = post(&router, "/embed_all", json!({ "inputs": ["The cat", "The"] })).await.ok();
    assert_eq!(rows[0].as_array().unwrap().len(), rows[1].as_array().unwrap().len() + 1);
    let body = json!({ "inputs": { "source_sentence": "The cat", "sentences": ["The cat", "A dog"] } });
    let alike = post(&router, "/similarity", body).await.ok();
    close(&alike[0], &json!(1.0));
    assert!(alike[1].as_f64().unwrap() < 1.0);
}

#[tokio::test]
async fn texts_are_ranked_as_the_reference_scores_them() {
    let router = Server::new(vec![reading("classes-rank")], Limits::default(), Keys::default()).router();
    for one in
        expected("classes-rank").as_array().unwrap().iter().filter(|one| one.get("text_pair").is_some())
    {
        let body = json!({ "query": one["text"], "texts": [one["text_pair"], "a dog"], "return_text": true, "truncate": true });
        let ranks = post(&router, "/rerank", body).await.ok();
        let scores: Vec<f64> =
            ranks.as_array().unwrap().iter().filter_map(|rank| rank["score"].as_f64()).collect();
        assert!(scores[0] >= scores[1]);
        let first = ranks.as_array().unwrap().iter().find(|rank| rank["index"] == 0).unwrap();
        assert_eq!(first["text"], one["text_pair"]);
        let scored = &one["scores"][0]["score"];
        if scored.is_number() {
            close(&first["score"], scored);
        }
    }
}

#[tokio::test]
async fn classes_come_for_one_text_or_many() {
    let router = Server::new(vec![reading("classes")], Limits::default(), Keys::default()).router();
    let one = post(&router, "/predict", json!({ "inputs": "a cat" })).await.ok();
    let many = post(&router, "/predict", json!({ "inputs": [["a cat"], ["a cat", "a dog"]] })).await.ok();
    assert_eq!(many[0], one);
    let sum: f64 = one.as_array().unwrap().iter().filter_map(|label| label["score"].as_f64()).sum();
    assert!((sum - 1.0).abs() < 1e-5);
}

#[tokio::test]
async fn tokens_go_there_and_back() {
    let router = server();
    let text = "The cat sat";
    let tokens = post(&router, "/tokenize", json!({ "inputs": text, "model": "sentences" })).await.ok();
    let tokens = tokens[0].as_array().unwrap().clone();
    assert!(tokens[0]["special"] == json!(true) && tokens[0]["start"] == Value::Null);
    for token in tokens.iter().filter(|token| token["special"] == json!(false)) {
        let place = |key: &str| token[key].as_u64().unwrap() as usize;
        assert_eq!(token["text"].as_str(), Some(&text[place("start")..place("stop")]));
    }
    let ids: Vec<u64> = tokens.iter().filter_map(|token| token["id"].as_u64()).collect();
    let back = post(&router, "/decode", json!({ "ids": ids, "model": "sentences" })).await.ok();
    assert_eq!(back[0].as_str().map(str::to_lowercase).as_deref(), Some("the cat sat"));
    assert_eq!(get(&router, "/info").await.ok()["model_id"], "sentences");
}

#[tokio::test]
async fn errors_have_this_interfaces_form() {
    let answer = post(&server(), "/embed", json!({ "inputs": [] })).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error_type"]), (400, &json!("validation")));
}
