//! `OpenAI`'s interface: the same results as the library's, whole and piece by piece.

use serde_json::{Value, json};

use super::{ask, close, expected, generator, get, post, server};

#[tokio::test]
async fn models_are_listed_with_what_they_can() {
    let router = server();
    let list = get(&router, "/v1/models").await.ok();
    let names: Vec<&str> =
        list["data"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(names[..4], ["story", "talk", "languages", "sentences"]);
    assert_eq!(get(&router, "/v1/models/talk").await.ok()["abilities"], json!(["complete", "chat", "score"]));
    assert!(get(&router, "/v1/models/none").await.refused(404, Some("model")).contains("story"));
}

#[tokio::test]
async fn conversations_are_answered_as_the_reference_answers_them() {
    let router = server();
    let mut messages = Vec::new();
    for one in expected("talk").as_array().unwrap() {
        messages.push(json!({ "role": "user", "content": one["text"] }));
        let mut body = json!({
            "model": "talk", "messages": messages,
            "temperature": 0, "max_tokens": one["ids"].as_array().unwrap().len(),
        });
        let whole = post(&router, "/v1/chat/completions", body.clone()).await.ok();
        assert_eq!(whole["choices"][0]["message"]["content"], one["answer"]);
        assert_eq!(whole["usage"]["completion_tokens"], one["ids"].as_array().unwrap().len());
        // A part of a text is the text, and pieces of the answer are the answer.
        body["messages"][messages.len() - 1]["content"] = json!([{ "type": "text", "text": one["text"] }]);
        body["stream"] = json!(true);
        body["stream_options"] = json!({ "include_usage": true });
        let events = post(&router, "/v1/chat/completions", body).await.events();
        let piece =
            |event: &Value| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
        assert_eq!(events.iter().map(piece).collect::<String>(), one["answer"].as_str().unwrap());
        assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
        let [.., last, usage] = &events[..] else { panic!("too few events") };
        assert_eq!(last["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
        assert_eq!((&usage["usage"], &usage["choices"]), (&whole["usage"], &json!([])));
        messages.push(json!({ "role": "assistant", "content": one["answer"] }));
    }
}

#[tokio::test]
async fn texts_are_continued_as_the_library_continues_them() {
    let router = server();
    let options = generator("story").default_options().max_new_tokens(12);
    let texts = ["Once upon a time", "The cat"];
    let alone = generator("story").generate(&texts, &options, &mut glassformer::tasks::silent).unwrap();
    let body = json!({ "model": "story", "prompt": texts, "max_tokens": 12, "temperature": 0 });
    let whole = post(&router, "/v1/completions", body.clone()).await.ok();
    for (index, alone) in alone.iter().enumerate() {
        let choice = &whole["choices"][index];
        assert_eq!(
            (choice["text"].as_str(), choice["index"].as_u64()),
            (Some(&*alone[0].text), Some(index as u64))
        );
    }
    // By token ids, piece by piece, behind the prompt.
    let ids: Vec<Vec<u32>> = generator("story").prompts(&texts).unwrap();
    let streamed = json!({ "model": "story", "prompt": ids, "max_tokens": 12, "temperature": 0, "stream": true, "echo": true });
    let mut pieces = [String::new(), String::new()];
    for event in post(&router, "/v1/completions", streamed).await.events() {
        let choice = &event["choices"][0];
        pieces[choice["index"].as_u64().unwrap() as usize] += choice["text"].as_str().unwrap();
    }
    for (index, text) in texts.iter().enumerate() {
        assert_eq!(pieces[index], format!("{text}{}", alone[index][0].text));
    }
}

#[tokio::test]
async fn prompts_are_scored_where_they_are_echoed() {
    let router = server();
    let body = json!({ "model": "story", "prompt": "The cat", "max_tokens": 0, "echo": true, "logprobs": 2 });
    let echoed = post(&router, "/v1/completions", body).await.ok();
    let scored = post(&router, "/v1/score", json!({ "model": "story", "input": "The cat" })).await.ok();
    let (lists, tokens) = (&echoed["choices"][0]["logprobs"], &scored["results"][0]["tokens"]);
    assert_eq!(lists["token_logprobs"][0], Value::Null);
    for (place, token) in tokens.as_array().unwrap().iter().enumerate() {
        close(&lists["token_logprobs"][place + 1], &token["logprob"]);
        let top = lists["top_logprobs"][place + 1].as_object().unwrap();
        let best = top.values().filter_map(Value::as_f64).fold(f64::NEG_INFINITY, f64::max);
        assert!(top.len() <= 2 && best >= token["logprob"].as_f64().unwrap() - 1e-6);
    }
    assert_eq!(echoed["usage"]["completion_tokens"], 0);
}

#[tokio::test]
async fn log_probabilities_are_told_of_each_token() {
    let router = server();
    let body = json!({
        "model": "talk", "messages": [{ "role": "user", "content": "cat" }], "temperature": 0, "max_tokens": 4,
        "logprobs": true, "top_logprobs": 3,
    });
    let whole = post(&router, "/v1/chat/completions", body.clone()).await.ok();
    let content = whole["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    assert_eq!(content.len(), 4);
    for token in &content {
        assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 3);
        // The likeliest token is the one that was taken.
        assert_eq!(token["top_logprobs"][0]["logprob"], token["logprob"]);
    }
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let events = post(&router, "/v1/chat/completions", streamed).await.events();
    let told =
        |event: &Value| event["choices"][0]["logprobs"]["content"].as_array().cloned().unwrap_or_default();
    assert_eq!(events.iter().flat_map(told).collect::<Vec<_>>(), content);
}

#[tokio::test]
async fn answers_are_drawn_by_their_seed() {
    let router = server();
    let body = json!({ "model": "story", "prompt": "The cat", "max_tokens": 8, "temperature": 1.2, "n": 3, "seed": 7 });
    let first = post(&router, "/v1/completions", body.clone()).await.ok();
    assert_eq!(first["choices"].as_array().unwrap().len(), 3);
    assert_eq!(post(&router, "/v1/completions", body.clone()).await.ok()["choices"], first["choices"]);
    let mut other = body;
    other["seed"] = json!(8);
    assert_ne!(post(&router, "/v1/completions", other).await.ok()["choices"], first["choices"]);
}

#[tokio::test]
async fn texts_end_where_a_stop_text_comes() {
    let router = server();
    let body = json!({ "model": "story", "prompt": "The cat", "max_tokens": 12, "temperature": 0 });
    let whole = post(&router, "/v1/completions", body.clone()).await.ok();
    let text = whole["choices"][0]["text"].as_str().unwrap();
    let stop: String = text.chars().filter(char::is_ascii_uppercase).take(1).collect();
    assert!(!stop.is_empty(), "{text:?}");
    let mut stopped = body;
    stopped["stop"] = json!(stop);
    let stopped = post(&router, "/v1/completions", stopped).await.ok();
    assert_eq!(stopped["choices"][0]["text"].as_str(), text.split_once(&stop).map(|(before, _)| before));
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn tokens_can_be_forbidden_by_their_bias() {
    let router = server();
    let body =
        json!({ "model": "story", "prompt": "The cat", "max_tokens": 1, "temperature": 0, "logprobs": 1 });
    let free = post(&router, "/v1/completions", body.clone()).await.ok();
    let token = generator("story")
        .generate(
            &["The cat"],
            &generator("story").default_options().max_new_tokens(1),
            &mut glassformer::tasks::silent,
        )
        .unwrap()[0][0]
        .ids[0];
    let mut other = body;
    other["logit_bias"] = json!({ (token.to_string()): -100 });
    let other = post(&router, "/v1/completions", other).await.ok();
    let logprob = |answer: &Value| answer["choices"][0]["logprobs"]["token_logprobs"][0].as_f64().unwrap();
    assert!(logprob(&other) < logprob(&free), "{other}");
}

#[tokio::test]
async fn vectors_are_numbers_or_their_bytes() {
    use base64::Engine;
    let router = server();
    let body = json!({ "model": "sentences", "input": ["The cat sat.", "A dog"] });
    let numbers = post(&router, "/v1/embeddings", body.clone()).await.ok();
    let vector: Vec<f32> = serde_json::from_value(numbers["data"][1]["embedding"].clone()).unwrap();
    let mut coded = body.clone();
    coded["encoding_format"] = json!("base64");
    let coded = post(&router, "/v1/embeddings", coded).await.ok();
    let bytes =
        base64::prelude::BASE64_STANDARD.decode(coded["data"][1]["embedding"].as_str().unwrap()).unwrap();
    let decoded: Vec<f32> =
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(decoded, vector);
    let mut short = body;
    short["dimensions"] = json!(4);
    let short = post(&router, "/v1/embeddings", short).await.ok();
    let short: Vec<f32> = serde_json::from_value(short["data"][1]["embedding"].clone()).unwrap();
    assert_eq!(short.len(), 4);
    assert!((short.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    assert!((short[0] / short[1] - vector[0] / vector[1]).abs() < 1e-4);
}

#[tokio::test]
async fn the_newer_interface_gives_the_same_answers() {
    let router = server();
    let one = &expected("talk")[0];
    let count = one["ids"].as_array().unwrap().len();
    let body = json!({ "model": "talk", "input": one["text"], "temperature": 0, "max_output_tokens": count });
    let whole = post(&router, "/v1/responses", body.clone()).await.ok();
    assert_eq!(whole["output"][0]["content"][0]["text"], one["answer"]);
    assert_eq!((&whole["status"], &whole["usage"]["output_tokens"]), (&json!("incomplete"), &json!(count)));
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let request = axum::http::Request::post("/v1/responses").header("content-type", "application/json");
    let answer = ask(&router, request.body(streamed.to_string().into()).unwrap()).await;
    let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    let delta = |event: &Value| {
        (event["type"] == "response.output_text.delta").then(|| event["delta"].as_str().unwrap().to_owned())
    };
    assert_eq!(events.iter().filter_map(delta).collect::<String>(), one["answer"].as_str().unwrap());
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    assert_eq!(events.last().unwrap()["response"]["output"][0]["content"], whole["output"][0]["content"]);
}

#[tokio::test]
async fn answers_have_the_form_that_is_asked_for() {
    let router = server();
    let schema = json!({ "type": "object", "properties": { "a": { "enum": ["x", "y"] } }, "required": ["a"], "additionalProperties": false });
    let named = json!({ "type": "json_schema", "json_schema": { "name": "pick", "schema": schema } });
    let asked = |format: Value| json!({ "model": "talk", "messages": [{ "role": "user", "content": "cat" }], "response_format": format, "max_tokens": 200 });
    let told = post(&router, "/v1/chat/completions", asked(named)).await.ok();
    let text = told["choices"][0]["message"]["content"].as_str().unwrap();
    let object: Value = serde_json::from_str(text).unwrap();
    assert!(["x", "y"].contains(&object["a"].as_str().unwrap()), "{text}");
    let told = post(&router, "/v1/chat/completions", asked(json!({ "type": "regex", "regex": "[ab]{3}c" })))
        .await
        .ok();
    let text = told["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(
        text.len() == 4 && text.ends_with('c') && text[..3].bytes().all(|b| b"ab".contains(&b)),
        "{text}"
    );
    // By the other interfaces, with an encoder, and with beams.
    let body = json!({ "model": "talk", "messages": [{ "role": "user", "content": "cat" }], "format": schema, "stream": false });
    let told = post(&router, "/api/chat", body).await.ok();
    assert!(
        serde_json::from_str::<Value>(told["message"]["content"].as_str().unwrap()).unwrap()["a"].is_string()
    );
    let body = json!({ "model": "languages", "prompt": "cat", "response_format": { "type": "regex", "regex": "(ab)+" }, "beams": 3, "max_tokens": 20 });
    let told = post(&router, "/v1/completions", body).await.ok();
    assert!(told["choices"][0]["text"].as_str().unwrap().starts_with("ab"));
    // What is no form is said, and named.
    for wrong in [
        json!({ "type": "regex", "regex": "(" }),
        json!({ "type": "regex", "regex": "a".repeat(10_000) }),
        json!({ "type": "json_schema", "json_schema": { "schema": { "type": 5 } } }),
        json!({ "type": "grammar", "grammar": "nothing" }),
    ] {
        post(&router, "/v1/chat/completions", asked(wrong)).await.refused(400, Some("response_format"));
    }
    post(&router, "/v1/chat/completions", asked(json!({ "type": "odd" })))
        .await
        .refused(400, Some("response_format.type"));
}
