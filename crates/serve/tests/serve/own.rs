//! What nobody else serves: the same results as the library's.

use glassformer::tasks::Translate;
use serde_json::json;

use super::{close, expected, generator, get, post, reading, server};
use glassformer_serve::{Keys, Limits, Served, Server};

#[tokio::test]
async fn texts_are_translated_as_the_library_translates_them() {
    let router = server();
    let texts = ["The cat sat on the mat.\n\nA dog.", "The river."];
    let generate = Some(generator("languages").default_options().max_new_tokens(20));
    let options = Translate { generate, ..Translate::default().from("en").to("zh") };
    let alone = generator("languages").translate(&texts, &options).unwrap();
    let body = json!({ "model": "languages", "input": texts, "from": "en", "to": "zh", "max_tokens": 20 });
    let told = post(&router, "/v1/translate", body.clone()).await.ok();
    for (found, alone) in told["translations"].as_array().unwrap().iter().zip(&alone) {
        assert_eq!(found["text"].as_str(), Some(alone.as_str()));
    }
    let mut beams = body;
    beams["beams"] = json!(3);
    let beams = post(&router, "/v1/translate", beams).await.ok();
    assert_eq!(beams["translations"][0]["scores"].as_array().unwrap().len(), 2, "one for each sentence");
    let libre = json!({ "q": texts, "source": "en", "target": "zh" });
    let libre = post(&router, "/translate", libre).await.ok();
    for (whole, alone) in libre["translatedText"].as_array().unwrap().iter().zip(&alone) {
        // It writes as much as there is room for.
        let first = |text: &str| text.chars().take(15).collect::<String>();
        assert_eq!(first(whole.as_str().unwrap()), first(alone));
    }
}

#[tokio::test]
async fn the_translator_of_the_program_leaves_alone_what_is_not_english() {
    let translator = glassformer::translator().unwrap();
    let router =
        Server::new(vec![Served::translator(translator)], Limits::default(), Keys::default()).router();
    let told =
        post(&router, "/v1/translate", json!({ "input": ["Hello", "你好 Hello", "123", ""] })).await.ok();
    let texts: Vec<&str> =
        told["translations"].as_array().unwrap().iter().filter_map(|one| one["text"].as_str()).collect();
    assert_eq!(texts, ["你好", "你好 你好", "123", ""]);
    assert_eq!(get(&router, "/languages").await.ok()[0]["targets"], json!(["zh"]));
    let wrong = post(&router, "/v1/translate", json!({ "input": "Hello", "to": "de" })).await;
    assert!(wrong.refused(400, Some("to")).contains("de"));
}

#[tokio::test]
async fn texts_are_summarised() {
    let router = server();
    let options = generator("languages").default_options().max_new_tokens(6);
    let alone = generator("languages").summarize(&["The cat sat."], &options).unwrap();
    let body = json!({ "model": "languages", "input": "The cat sat.", "max_tokens": 6 });
    let told = post(&router, "/v1/summarize", body).await.ok();
    assert_eq!(told["summaries"][0]["text"].as_str(), Some(alone[0].as_str()));
}

#[tokio::test]
async fn classes_tags_answers_and_blanks_are_the_references() {
    let router = server();
    for one in expected("fill").as_array().unwrap() {
        let told = post(&router, "/v1/fill", json!({ "input": one["text"], "top": 3 })).await.ok();
        for (blank, expected) in
            told["results"][0].as_array().unwrap().iter().zip(one["blanks"].as_array().unwrap())
        {
            close(&blank[0]["score"], &expected[0]["score"]);
            assert_eq!(blank[0]["word"], expected[0]["token_str"]);
        }
    }
    for one in
        expected("spans").as_array().unwrap().iter().filter(|one| one["impossible"] == json!(false)).take(3)
    {
        let body = json!({ "question": one["question"], "context": one["context"] });
        let told = post(&router, "/v1/answer", body).await.ok();
        assert_eq!(told["model"], "spans");
        let (start, end) = (&told["results"][0][0]["start"], &told["results"][0][0]["end"]);
        assert!(start.as_u64() < end.as_u64());
    }
    let told =
        post(&router, "/v1/classify", json!({ "model": "classes", "input": ["a cat", "a dog"], "top": 3 }))
            .await
            .ok();
    assert_eq!(told["results"][1].as_array().unwrap().len(), 3);
    let told = post(&router, "/v1/tag", json!({ "input": "Ann lives in Paris" })).await.ok();
    for entity in told["results"][0].as_array().unwrap() {
        let (start, end) =
            (entity["start"].as_u64().unwrap() as usize, entity["end"].as_u64().unwrap() as usize);
        assert_eq!(entity["text"].as_str(), Some(&"Ann lives in Paris"[start..end]));
    }
}

#[tokio::test]
async fn a_model_that_cannot_do_it_says_what_it_can() {
    let router = server();
    let wrong = post(&router, "/v1/tag", json!({ "model": "sentences", "input": "a" })).await;
    assert!(wrong.refused(400, None).contains("a head for tags"));
    let wrong = post(&router, "/v1/translate", json!({ "model": "sentences", "input": "a" })).await;
    assert!(wrong.refused(400, Some("model")).contains("embed"));
    let alone = Server::new(vec![reading("fill")], Limits::default(), Keys::default()).router();
    let wrong =
        post(&alone, "/v1/chat/completions", json!({ "messages": [{ "role": "user", "content": "a" }] }))
            .await;
    assert!(wrong.refused(400, Some("model")).contains("fill"));
}

#[tokio::test]
async fn of_a_language_only_what_its_script_says_is_said() {
    let router = server();
    for (text, language) in [
        ("猫坐在垫子上。", Some("zh")),
        ("猫はマットの上に座った", Some("ja")),
        ("고양이가 앉았다", Some("ko")),
        ("The cat sat", None),
        ("Кошка", None),
        ("123", None),
    ] {
        let answer = post(&router, "/detect", json!({ "q": text })).await;
        assert_eq!(answer.json()[0]["language"].as_str(), language, "{text}: {}", answer.body);
    }
}
